"""A private copy of a model that answers the same in less time, for attacks.

It is frozen, with batch normalisation folded into convolutions. On CPUs, either strided
convolutions get a faster backward, or weights lie channels last, a quarter less time for a ResNet.
"""

import copy
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval


class StridedConv2d(nn.Module):
    """A frozen Conv2d of stride 2 that is differentiable with respect to its input only."""

    weight: Tensor
    bias: Tensor | None
    backward_weight: Tensor

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.padding = int(convolution.padding[0])
        weight = convolution.weight.detach()
        bias = None if convolution.bias is None else convolution.bias.detach()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        backward_weight, self.first, self.last = _backward_weight(weight, self.padding)
        self.register_buffer("backward_weight", backward_weight)

    def forward(self, x: Tensor) -> Tensor:
        if not (x.requires_grad and torch.is_grad_enabled()):
            return self.convolve(x)
        out: Tensor = _Convolution.apply(x, self)  # type: ignore[no-untyped-call]
        return out

    def convolve(self, x: Tensor) -> Tensor:
        """Convolve as Conv2d does, without a gradient of its own."""
        return functional.conv2d(x, self.weight, self.bias, stride=2, padding=self.padding)


def is_faster(module: nn.Conv2d) -> bool:
    """Return True if `StridedConv2d` can replace the convolution and is faster than it.

    It is faster for kernels of 5×5 or more.
    """
    return (
        module.stride == (2, 2)
        and module.dilation == (1, 1)
        and module.groups == 1
        and module.padding_mode == "zeros"
        and module.kernel_size[0] == module.kernel_size[1] >= 5
        and isinstance(module.padding, tuple)
        and module.padding[0] == module.padding[1]
    )


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, module: StridedConv2d) -> Tensor:
        context.module, context.size = module, x.shape[2:]
        return module.convolve(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        module, (height, width) = context.module, context.size
        missing = [
            -(-size // 2) - have
            for size, have in zip((height, width), gradients[0].shape[2:], strict=True)
        ]
        around = (-module.first, module.last + missing[1], -module.first, module.last + missing[0])
        if len(set(around)) == 1:
            cells = functional.conv2d(gradients[0], module.backward_weight, padding=around[0])
        else:
            cells = functional.conv2d(functional.pad(gradients[0], around), module.backward_weight)
        return functional.pixel_shuffle(cells, 2)[:, :, :height, :width], None


def _backward_weight(weight: Tensor, padding: int) -> tuple[Tensor, int, int]:
    """Arrange the weights (outputs, inputs, k, k) such that one convolution is the backward pass.

    The gradient at input 2a + r is Σ_d (gradient at output a + d) · weight[r − 2d + padding].

    Returns:
        The weights (4·inputs, outputs, D, D), and the first and the last of the D shifts d.
    """
    outputs, inputs, kernel, _ = weight.shape
    shifts = [
        d
        for d in range(-kernel, kernel + 1)
        if any(0 <= r - 2 * d + padding < kernel for r in (0, 1))
    ]
    places = [[r - 2 * d + padding for d in shifts] for r in (0, 1)]
    # Beyond the weights there are zeros.
    at = torch.tensor([[u if 0 <= u < kernel else kernel for u in row] for row in places])
    padded = functional.pad(weight, (0, 1, 0, 1))
    moved = padded[:, :, at[:, None, :, None], at[None, :, None, :]]  # outputs, inputs, 2, 2, D, D
    size = (4 * inputs, outputs, len(shifts), len(shifts))
    return moved.permute(1, 2, 3, 0, 4, 5).reshape(size), shifts[0], shifts[-1]


_log = logging.getLogger(__name__)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def attack_copy(model: nn.Module, x: Tensor, *, tuned: bool = True) -> nn.Module:
    """Return a private copy of the model that answers the same in less time, for attacks.

    The copy is in evaluation mode and no weight of it has a gradient. The first image and noise are
    sent through it after each change; a change that alters the answers, or takes away their
    gradient, is undone.

    Args:
        model: Any classifier of images; it is left as it is.
        x: The images (N, C, H, W) to be attacked, on the device of the model.
        tuned: If False, batch normalisation is folded and nothing else is changed.

    Returns:
        The copy, or the model itself if it cannot be copied.
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        return model  # compiled modules are not taken apart
    try:
        fast = copy.deepcopy(model)
    except (RuntimeError, TypeError, NotImplementedError, AttributeError):
        _log.info("%s cannot be copied: attacks run on the model itself", type(model).__name__)
        return model  # it holds hooks, generators, or weights that are not leaves
    fast.eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand((1, *x.shape[1:]), generator=generator, dtype=x.dtype).to(x.device)
    probe = torch.cat([x[:1], noise])
    with torch.no_grad():
        pairs, answer = _pairs(fast, probe)
        if not _fold(fast, pairs, probe, answer):
            for pair in pairs:
                _fold(fast, [pair], probe, answer)
    fast.requires_grad_(False)
    if tuned:
        _tune(fast, probe, answer)
    return fast.eval()  # what was put in, too: a score would have to set its mode in every pass


def _pairs(model: nn.Module, x: Tensor) -> tuple[list[tuple[str, str]], Tensor]:
    """Find the convolutions whose output a batch normalisation takes, each of them used once.

    Returns:
        The names of each such convolution and its normalisation, and what the model answers.
    """
    names = {module: name for name, module in model.named_modules()}
    outputs: list[tuple[Tensor, str]] = []
    pairs: list[tuple[str, str]] = []
    uses: Counter[str] = Counter()

    def after_convolution(module: nn.Module, _: object, output: Tensor) -> None:
        uses[names[module]] += 1
        outputs.append((output, names[module]))

    def before_norm(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        uses[names[module]] += 1
        pairs.extend((name, names[module]) for output, name in outputs if output is inputs[0])

    handles = [
        module.register_forward_hook(after_convolution)
        for module in names
        if isinstance(module, _CONVOLUTIONS)
    ]
    handles += [
        module.register_forward_pre_hook(before_norm)
        for module in names
        if isinstance(module, _NORMS) and module.track_running_stats
    ]
    try:
        answer = model(x)
    finally:
        for handle in handles:
            handle.remove()
    return [pair for pair in pairs if uses[pair[0]] == uses[pair[1]] == 1], answer


def _fold(model: nn.Module, pairs: list[tuple[str, str]], x: Tensor, answer: Tensor) -> bool:
    """Fold each normalisation into its convolution, or none of them if that changes the answer.

    It does where the output of a convolution is used elsewhere as well.
    """
    old = {name: model.get_submodule(name) for pair in pairs for name in pair}
    for convolution, norm in pairs:
        conv_module: Any = model.get_submodule(convolution)
        norm_module: Any = model.get_submodule(norm)
        _replace(model, convolution, fuse_conv_bn_eval(conv_module, norm_module))
        _replace(model, norm, nn.Identity())
    if same_answers(model(x), answer):
        return True
    for name, module in old.items():
        _replace(model, name, module)
    return False


def _tune(model: nn.Module, x: Tensor, answer: Tensor) -> None:
    """Apply the fastest arrangement under which the model still answers the same."""
    on_cpu = x.device.type == "cpu"
    strided = {
        name: module
        for name, module in model.named_modules()
        if on_cpu and isinstance(module, nn.Conv2d) and is_faster(module)
    }
    for name, module in strided.items():
        _replace(model, name, StridedConv2d(module))
    last = on_cpu and not strided
    as_found = {module: module.inplace for module in model.modules() if isinstance(module, nn.ReLU)}
    in_place = dict.fromkeys(as_found, True)
    for rectifiers, channels_last in (
        (in_place, last),
        (as_found, last),
        (in_place, False),
        (as_found, False),
    ):
        _arrange(model, rectifiers, channels_last=channels_last)
        if _still_answers(model, x, answer):
            break


def _arrange(model: nn.Module, in_place: Mapping[nn.ReLU, bool], *, channels_last: bool) -> None:
    """Set which rectifiers overwrite their input, and how the weights lie in memory.

    The first changes the answer where that input is used elsewhere as well; the second fails where
    the model asks for a view of a feature map.
    """
    for rectifier, inplace in in_place.items():
        rectifier.inplace = inplace
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model.to(memory_format=layout)  # type: ignore[call-overload]


def _still_answers(model: nn.Module, x: Tensor, answer: Tensor) -> bool:
    """Return True if the model still returns `answer` and is differentiable."""
    try:
        with torch.enable_grad():
            image = x.clone().requires_grad_()
            logits = model(image)
            if logits.requires_grad:
                torch.autograd.grad(logits.sum(), image)
    except RuntimeError:
        return False
    return same_answers(logits, answer)


def same_answers(logits: Tensor, answer: Tensor) -> bool:
    """Return True if logits, or gradients, differ by no more than rounding does."""
    return torch.allclose(logits, answer, rtol=1e-3, atol=1e-4)


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
