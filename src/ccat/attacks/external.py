"""Attacks of others: any function, an attack of foolbox, AutoAttack, examples computed elsewhere.

Whatever these find is checked, projected and scored by the problem, as with ccat's own attacks. The
libraries are imported when their attack is called; ccat needs neither of them otherwise.

Shapes: x, x_adv, delta (N, C, H, W); y (N,).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ccat import codec
from ccat.attacks.accepted import CountedModel
from ccat.attacks.found import Found
from ccat.attacks.passes import Counts, out_of_memory
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.scores import frozen
from ccat.threats import L1, L2, SLACK, Linf, Threat, label

ZERO = 1e-6  # smaller changes of a pixel are rounding

_NORMS: dict[type, str] = {Linf: "Linf", L2: "L2", L1: "L1"}


@dataclass(frozen=True)
class External(Attack):
    """An attack of somebody else: a function from images and labels to adversarial images.

    It may use torch's global random numbers, which are seeded for it with 0. Its own passes are not
    counted.
    """

    name: str
    function: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        return _scored(problem, self.function, self.name)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


@dataclass(frozen=True)
class Foolbox(Attack):
    """An attack of foolbox, such as `foolbox.attacks.LinfPGD()`, on the problem's model.

    With `from_pool` it starts from the nearest image of the pool that is an error already, as
    Brendel–Bethge and HopSkipJump want to. Its passes are counted.
    """

    attack: Any
    from_pool: bool = False

    @property
    def name(self) -> str:
        """What the attack is called in tables."""
        return f"foolbox {type(self.attack).__name__}"

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        model = _model(problem, self.name)
        try:
            from foolbox.models.pytorch import PyTorchModel  # noqa: PLC0415
        except ImportError as missing:
            raise ValueError(_install(self.name, missing)) from missing

        def function(x: Tensor, y: Tensor) -> Tensor:
            wrapped = PyTorchModel(model, bounds=(0, 1), device=x.device)
            starts = {}
            if self.from_pool:
                images = _wrong_images(problem, model)
                if images is None:
                    return x
                starts = {"starting_points": images}
            epsilon = problem.threat.epsilon
            found: Tensor = self.attack(wrapped, x, y, epsilons=epsilon, **starts)[1]
            return found

        return _scored(problem, function, self.name)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


@dataclass(frozen=True)
class AutoAttack(Attack):
    """AutoAttack (Croce & Hein 2020; pyautoattack of PyPI), for Linf, L2 and L1.

    `options` are further arguments as pairs, of AutoAttack's constructor. With `attacks` only these
    of a version are run, with its restarts; "custom" has five of APGD and FAB where "standard" has
    one: `AutoAttack("standard", (("attacks", ("apgd-ce", "square")),))`. Its targeted attacks want
    ten classes; for fewer, name others. Its passes are counted.
    """

    version: str = "standard"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """What the attack is called in tables."""
        return f"AutoAttack {self.version}"

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not self.supports(problem.threat):
            raise ValueError(
                f"AutoAttack is made for Linf, L2 and L1, not for {label(problem.threat)}"
            )
        model = _model(problem, self.name)
        try:
            from pyautoattack import AutoAttack as Theirs  # noqa: PLC0415
        except ImportError as missing:
            raise ValueError(_install(self.name, missing)) from missing

        options = {"seed": 0, **dict(self.options)}
        some = None if self.version == "custom" else options.pop("attacks", None)
        if some is not None and not some:
            raise ValueError(f"{self.name}: `attacks` names none; leave it out to run them all")

        def function(x: Tensor, y: Tensor) -> Tensor:
            attack = Theirs(
                model,
                norm=_NORMS[type(problem.threat)],
                eps=problem.threat.epsilon,
                version=self.version,
                device=x.device,
                **options,
            )
            if some is not None:
                there = attack.attacks_to_run
                if unknown := sorted(set(some) - set(there)):
                    raise ValueError(f"{self.name} has no {unknown[0]!r}, only {', '.join(there)}")
                attack.attacks_to_run = [one for one in there if one in some]
            found: Tensor = attack.run_standard_evaluation(x, y, batch_size=len(x))[0]
            return found

        return _scored(problem, function, self.name)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)

    def supports(self, threat: Threat) -> bool:
        return type(threat) in _NORMS


@dataclass(frozen=True)
class Given(Attack):
    """Examples computed elsewhere, known by their SHA-256; cannot be computed again."""

    sha256: str

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        raise ValueError("these examples were computed elsewhere and cannot be computed again")

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


def as_attack(value: Any) -> Attack:
    """Return an attack of yours after a check of what it needs; a function becomes `External`.

    Raises:
        ValueError: If it is not a frozen dataclass with the methods of an `Attack`.
    """
    if isinstance(value, FunctionType | partial):
        name = value.__name__ if isinstance(value, FunctionType) else value.func.__name__
        return External(name, value)
    codec.require_implements(value, Attack, "the attack")
    attack: Attack = value
    return attack


def checked_delta(x: Tensor, x_adv: Tensor, threat: Threat, name: str) -> Tensor:
    """Return the perturbation of examples that were computed elsewhere.

    Args:
        x: The images.
        x_adv: The adversarial examples, in the same order.
        threat: What they have to lie within, up to a share SLACK of ε.
        name: What computed them, to begin messages with.

    Raises:
        ValueError: If they are not images of the same shape, or lie outside the threat.
    """
    if not isinstance(x_adv, Tensor) or x_adv.shape != x.shape or not x_adv.is_floating_point():
        what = (
            f"{tuple(x_adv.shape)} of {x_adv.dtype}"
            if isinstance(x_adv, Tensor)
            else type(x_adv).__name__
        )
        raise ValueError(f"{name} must give images {tuple(x.shape)} of {x.dtype}, not {what}")
    x_adv = x_adv.detach().to(x)
    if not x_adv.isfinite().all():
        raise ValueError(
            f"{name} gave values that are not numbers, first in example {_first(~x_adv.isfinite())}"
        )
    outside = (x_adv < -ZERO) | (x_adv > 1 + ZERO)
    if outside.any():
        span = f"[{x_adv.min().item():g}, {x_adv.max().item():g}]"
        raise ValueError(
            f"{name} gave values in {span}, outside [0,1], first in example {_first(outside)}"
        )
    delta = x_adv - x
    delta = torch.where(delta.abs() <= ZERO, 0, delta)
    size = threat.size(delta)
    beyond = size > threat.epsilon * (1 + SLACK)
    if beyond.any():
        raise ValueError(
            f"{name} went beyond {label(threat)}: to {size.max().item():g}, first in example "
            f"{_first(beyond)}; {int(beyond.sum())} in all"
        )
    return delta


def _scored(problem: Problem, function: Callable[[Tensor, Tensor], Tensor], name: str) -> Found:
    """Return what a function finds, checked, projected and scored.

    The function may seed torch's random numbers and may ask weights for gradients; both are as
    before afterwards.
    """
    if problem.labels is None:
        raise ValueError(
            f"{name} needs labels, which this problem does not have: make it with Problem.of, or "
            f"give it labels="
        )
    still = nullcontext() if problem.model is None else frozen(problem.model)
    with torch.random.fork_rng(devices=[]), still:
        torch.manual_seed(0)
        try:
            x_adv = function(problem.x.clone(), problem.labels.clone())
        except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError) as failed:
            if isinstance(failed, RuntimeError) and out_of_memory(failed):
                raise
            raise ValueError(
                f"{name} failed with {type(failed).__name__}: {failed}; does it ask for more "
                f"classes, or for gradients that are not there?"
            ) from failed
    return problem.evaluate(checked_delta(problem.x, x_adv, problem.threat, name))


def _wrong_images(problem: Problem, model: nn.Module) -> Tensor | None:
    """Return for each example the nearest image of the pool that is an error; None if it lacks one.

    An image is an error of an example if the model's answer to it is not the example's label.
    """
    if problem.pool is None or len(problem.pool) == 0 or problem.labels is None:
        return None
    with torch.no_grad():
        parts = [model(part.to(problem.x)).argmax(1) for part in torch.split(problem.pool, 500)]
    wrong = torch.cat(parts)[None] != problem.labels[:, None]
    if not wrong.any(1).all():
        return None
    distance = torch.cdist(problem.x.flatten(1), problem.pool.to(problem.x).flatten(1))
    return problem.pool[torch.where(wrong, distance, torch.inf).argmin(1)].to(problem.x)


def _model(problem: Problem, name: str) -> nn.Module:
    if problem.model is None:
        raise ValueError(
            f"{name} needs a model, which this problem does not have: make it with Problem.of, or "
            f"give it model="
        )
    return CountedModel(problem.model, problem.counts)


def _install(name: str, missing: ImportError) -> str:
    return (
        f"{name} needs a library that cannot be imported ({missing}): "
        f"pip install 'ccat-torch[peers]'"
    )


def _first(bad: Tensor) -> int:
    """Return the number of the first example of which anything is true."""
    return int(bad.flatten(1).any(1).nonzero()[0] if bad.ndim > 1 else bad.nonzero()[0])
