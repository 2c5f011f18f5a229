"""How the copy of a model that is attacked is made: compiled or not, gradients in bfloat16 or not.

Whatever the copy, what attacks find is scored by the model itself.
"""

import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from ccat.attacking.case import BLOCK, Case
from ccat.attacking.forecast import copy_seconds
from ccat.models import attack_copy
from ccat.models.compiled import CannotCompileError, Compiled
from ccat.models.half_gradients import HalfGradients

Compile = Literal["auto", "on", "off"]
Gradients = Literal["float32", "bfloat16"]

_COST = 60.0  # seconds that compiling takes, on the slow side
_HOPE = {"cpu": 0.03, "cuda": 0.5}  # the share of the time that compiling can be hoped to save
_WORTH = 0.98  # of the eager time: compiled passes that take longer are not used


def require_asked(compiled: str, gradients: str, device: str) -> None:
    """Raise a ValueError unless passes can be made as asked for on such a device."""
    for name, value, allowed in (
        ("compiled", compiled, get_args(Compile)),
        ("gradients", gradients, get_args(Gradients)),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    if gradients == "bfloat16" and not device.startswith("cuda"):
        raise ValueError(f"gradients in bfloat16 are for cuda devices, and this is {device}")


class Fast(NamedTuple):
    """How passes are made faster: as compiled graphs, and with gradients in bfloat16."""

    compiled: bool = False
    gradients: Gradients = "float32"


EAGER = Fast()


class Copies:
    """Makes the copies that are attacked in one process; the compiled one is made once.

    Where a model cannot be compiled, a warning says why, and copies are as if nobody had asked.
    """

    def __init__(self, fast: Fast, batch: int = BLOCK) -> None:
        """Take how passes are made faster, and how many images go through the model at once."""
        self.fast, self.batch = fast, batch
        self._made: tuple[nn.Module, Compiled] | None = None

    def __call__(self, model: nn.Module, x: Tensor) -> nn.Module:
        """Return a copy of a model for attacks on images like x (N, C, H, W)."""
        if not self.fast.compiled:
            return self.eager(model, x)
        try:
            return self.compiled(model, x)
        except CannotCompileError as wrong:
            self.fast = self.fast._replace(compiled=False)
            warnings.warn(_without(wrong), stacklevel=2)
            return self.eager(model, x)

    def eager(self, model: nn.Module, x: Tensor) -> nn.Module:
        """Return a copy that is not compiled."""
        copied = attack_copy(model, x)
        return copied if self.fast.gradients == "float32" else HalfGradients(copied)

    def compiled(self, model: nn.Module, x: Tensor) -> Compiled:
        """Return the compiled copy of a model, which is made in the first call.

        Raises:
            CannotCompileError: If it cannot be made; says why.
        """
        if self._made is None or self._made[0] is not model:
            rows = torch.arange(self.batch, device=x.device) % len(x)
            self._made = (model, Compiled(self.eager(model, x), x[rows]))
        return self._made[1]


class Decision(NamedTuple):
    """Whether to compile passes, and why, in a sentence; empty if nothing was tried."""

    compiled: bool
    why: str = ""


def decide(
    asked: Compile,
    copies: Copies,
    model: nn.Module,
    x: Tensor,
    cases: Sequence[tuple[Case, int]],
    processes: int = 1,
) -> Decision:
    """Decide whether to compile passes, by compiling them once where that may pay.

    With "auto" that is done if what it can save of the attack is more than what it costs; the
    compiled passes are then used if they are measured to be faster.

    Args:
        asked: What the user asked for.
        copies: Makes the copies, and keeps a compiled one for the attack.
        model: The model that is attacked.
        x: Images to time passes with, on the model's device.
        cases: Cases, each with the number of blocks it still has to do.
        processes: How many processes share the work; each of them compiles.
    """
    if asked == "off":
        return Decision(compiled=False)
    if asked == "auto":
        seconds = copy_seconds(copies.eager(model, x), x, cases) / processes
        if seconds * _HOPE.get(x.device.type, 0.0) < _COST:
            return Decision(compiled=False)
    try:
        timing = copies.compiled(model, x).gradient_timing
    except CannotCompileError as wrong:
        return Decision(compiled=False, why=_without(wrong))
    share = timing.compiled / timing.eager
    told = f"a compiled pass takes {share:.2f} of the time of an eager one"
    if asked == "auto" and share > _WORTH:
        return Decision(compiled=False, why=f"{told}; attacks go on without compiled passes")
    return Decision(compiled=True, why=told)


def _without(wrong: CannotCompileError) -> str:
    return f"{wrong}; attacks go on without compiled passes"
