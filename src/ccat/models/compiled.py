"""The copy that is attacked, compiled by torch.compile for one number of images at a time.

A graph with a gradient and one without are compiled when the copy is made, never later. On GPUs
they are recorded as CUDA graphs. Shapes: images (N, C, H, W), logits (N, K).
"""

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccat.errors import CcatError
from ccat.models.attack_copy import same_answers

_ROUNDS = 5


class CannotCompileError(CcatError):
    """A model cannot be compiled on this machine; the message says why."""


class Timing(NamedTuple):
    """Seconds of a pass: of the full batch eager and compiled, and of one image eager."""

    eager: float
    compiled: float
    single: float

    def least(self, size: int) -> int:
        """Return from how many images on padding them to `size` is faster than an eager pass.

        An eager pass is taken to grow evenly from that of one image to that of `size`.
        """
        if self.compiled >= self.eager:
            return size
        above = max(self.compiled - self.single, 0.0) / max(self.eager - self.single, 1e-9)
        return min(size, 1 + int(above * (size - 1)))


class Compiled(nn.Module):
    """A copy compiled for `size` images.

    Fewer images are padded where that is faster, and otherwise go through the eager copy, and so
    does everything while PyTorch's functions are replaced, as they are for smooth gradients.

    Attributes:
        eager: The copy that was compiled.
        size: The number of images that it was compiled for.
        seconds: How long compiling took.
        forward_timing: Of passes without a gradient.
        gradient_timing: Of passes with a gradient.
    """

    def __init__(self, eager: nn.Module, x: Tensor) -> None:
        """Compile for images like x (size, C, H, W).

        Raises:
            CannotCompileError: If there is no C++ compiler, if PyTorch cannot make one graph of the
                model, or if that graph answers differently.
        """
        super().__init__()
        self.eager, self.size = eager, len(x)
        self._like = (x.shape[1:], x.dtype, x.device)
        self._graph = _graph_of(eager, x.device)
        begin = time.perf_counter()
        _require_same(eager, self._full, x)
        self.seconds = time.perf_counter() - begin
        self.forward_timing, self.gradient_timing = (
            _timing(eager, self._full, x, gradient=gradient) for gradient in (False, True)
        )
        self._least = [
            timing.least(len(x)) for timing in (self.forward_timing, self.gradient_timing)
        ]

    def forward(self, x: Tensor) -> Tensor:
        gradient = x.requires_grad and torch.is_grad_enabled()
        fits = self._least[gradient] <= len(x) <= self.size
        like = (x.shape[1:], x.dtype, x.device) == self._like
        if not (fits and like) or functions_replaced():
            logits: Tensor = self.eager(x)
            return logits
        missing = self.size - len(x)
        full = functional.pad(x, (0, 0, 0, 0, 0, 0, 0, missing)) if missing else x
        return self._full(full)[: len(x)]

    def _full(self, x: Tensor) -> Tensor:
        """Run the graph; what it returns lies in memory that the next call overwrites on GPUs."""
        on_gpu = x.device.type == "cuda"
        if on_gpu:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            x = _OwnGradient.apply(x)  # type: ignore[no-untyped-call]
        gradient = x.requires_grad and torch.is_grad_enabled()
        with nullcontext() if gradient else torch.no_grad():
            logits: Tensor = self._graph(x.contiguous())
        return logits.clone() if on_gpu else logits


class _OwnGradient(torch.autograd.Function):
    """Hands on the images, and a copy of their gradient."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].clone()


def functions_replaced() -> bool:
    """Return True inside a TorchFunctionMode, which replaces functions that a model calls."""
    count: int = torch._C._len_torch_function_stack()
    return count > 0


def _graph_of(eager: nn.Module, device: torch.device) -> Callable[[Tensor], Tensor]:
    if device.type not in ("cpu", "cuda"):
        raise CannotCompileError(f"passes are compiled on cpu and cuda devices, not on {device}")
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if device.type == "cpu" and shutil.which(compiler) is None:
        raise CannotCompileError(
            f"compiling passes needs a C++ compiler, and {compiler} was not found: install it, or "
            f"name another in the environment variable CXX"
        )

    def answer(x: Tensor) -> Tensor:
        logits: Tensor = eager(x)
        return logits

    # PyTorch counts compilations by code object and refuses more than a few: each copy has its own.
    own = FunctionType(answer.__code__.replace(), globals(), "answer", None, answer.__closure__)
    mode = "reduce-overhead" if device.type == "cuda" else None
    graph: Callable[[Tensor], Tensor] = torch.compile(own, fullgraph=True, dynamic=False, mode=mode)
    return graph


def _require_same(eager: nn.Module, compiled: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Compile both graphs, and compare what they compute with the eager copy."""
    import torch._inductor.config as inductor  # noqa: PLC0415 (it takes half a second)

    try:
        with inductor.patch(compile_threads=1):  # no processes beside this one
            found = [_pass(compiled, x, gradient=gradient) for gradient in (False, True)]
    except Exception as wrong:  # whatever goes wrong in there, attacks can do without
        said = (str(wrong).strip() or type(wrong).__name__).splitlines()[0]
        raise CannotCompileError(f"PyTorch cannot compile this model: {said}") from wrong
    expected = [_pass(eager, x, gradient=gradient) for gradient in (False, True)]
    if not all(map(same_answers, found, expected)):
        raise CannotCompileError("PyTorch compiles this model to one that answers differently")


def _pass(model: Callable[[Tensor], Tensor], x: Tensor, *, gradient: bool) -> Tensor:
    """Return the logits of images, or the gradient of their sum."""
    if not gradient:
        with torch.no_grad():
            return model(x)
    with torch.enable_grad():
        images = x.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(model(images).sum(), images)
    return found


def _timing(
    eager: nn.Module, compiled: Callable[[Tensor], Tensor], x: Tensor, *, gradient: bool
) -> Timing:
    """Time passes in turns, and take medians."""
    runs: list[tuple[Callable[[Tensor], Tensor], Tensor]]
    runs = [(eager, x), (compiled, x), (eager, x[:1])]
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(_ROUNDS):
        for (model, images), of in zip(runs, seconds, strict=True):
            begin = _now(x.device)
            _pass(model, images, gradient=gradient)
            of.append(_now(x.device) - begin)
    return Timing(*map(statistics.median, seconds))


def _now(device: torch.device) -> float:
    """Return seconds of work: of this thread on a CPU, where other processes may be busy too."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
