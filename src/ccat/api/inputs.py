"""What `evaluate` is given: checked, split, and turned into cases."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ccat.attacking import Case
from ccat.attacks import Attack, frozen
from ccat.attacks.external import as_attack
from ccat.attacks.inputs import (
    require_answers,
    require_batch,
    require_classes,
    require_same_answers,
)
from ccat.catalog.suites import cases_of, conditions_of, select
from ccat.data.images import Images, to_floats
from ccat.data.splits import calibration_share
from ccat.rejection import Confidence, Judge, OwnScore, Rejection
from ccat.threats import Condition, Threat

Labelled = tuple[Tensor, Tensor]
Within = Threat | Condition
AttackLike = Attack | Callable[[Tensor, Tensor], Tensor]


def cases_for(
    suite: str | Sequence[Case] | None,
    x: Tensor,
    threats: Within | Sequence[Within],
    attacks: Sequence[AttackLike],
    rejection: Rejection | None = None,
) -> tuple[Case, ...]:
    """Return the cases that a suite and further attacks amount to, for images x.

    A suite by name has attacks that know what rejects as well.

    Raises:
        ValueError: If there is nothing to attack with, or nothing to attack within.
    """
    given: Any = threats
    several = isinstance(given, Sequence) and not isinstance(given, str)
    within = [condition_of(one) for one in (given if several else (given,))]
    chosen: tuple[Case, ...] = ()
    if isinstance(suite, str):
        chosen = select(suite, tuple(x.shape[1:]), conditions=within, rejection=rejection)
    elif suite is not None:
        chosen = _own_cases(suite)
        if chosen and within and not attacks:
            raise ValueError(
                "cases of your own have threats of their own: leave threats out, which are for a "
                "suite by name and for attacks"
            )
    if attacks and not within:
        within = conditions_of(chosen)
        if not within:
            raise ValueError("within which threats? Pass threats=[ccat.Linf(8 / 255)]")
    cases = (*chosen, *cases_of([as_attack(one) for one in attacks], within))
    if not cases:
        raise ValueError("there is nothing to attack with: pass a suite, or attacks")
    return cases


def rejection_of(given: Judge | Rejection | None) -> Rejection:
    """Return what rejects: the confidence, a score of one's own, or a rejection as it is.

    Raises:
        ValueError: If it is none of these, or must be fitted first.
    """
    if given is None:
        return Confidence()
    if isinstance(given, Rejection):
        if given.judges([]):
            return given
        raise ValueError(
            f"{type(given).__name__} must be fitted first: pass a fitted ccat.Detector, or make a "
            f"run with `ccat detect`"
        )
    if not callable(given):
        raise ValueError(
            f"rejection must be a function (images, probabilities) -> scores, such as a fitted "
            f"ccat.Detector, or a rejection such as ccat.Consistency(), not {type(given).__name__}"
        )
    return OwnScore(given)


def condition_of(one: object) -> Condition:
    """Return a condition as it is, and a threat as one on images."""
    if isinstance(one, Condition):
        require_threat(one.threat)
        return one
    require_threat(one)
    threat: Any = one
    return Condition(threat)


def require_threat(threat: object) -> None:
    """Raise a ValueError unless this is a threat."""
    methods = ("epsilon", "size", "project", "ascent", "sample")
    if isinstance(threat, type) or not all(hasattr(threat, name) for name in methods):
        raise ValueError(f"a threat is given as ccat.Linf(8 / 255) or ccat.L2(0.5), not {threat!r}")


def _own_cases(suite: Sequence[Case]) -> tuple[Case, ...]:
    cases = tuple(suite) if isinstance(suite, Sequence) else (suite,)
    if wrong := [one for one in cases if not isinstance(one, Case)]:
        raise ValueError(
            f"suite must be a name or a list of ccat.Case, and {type(wrong[0]).__name__} is neither"
        )
    return cases


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's weights; the CPU if it has none."""
    if not isinstance(model, nn.Module):
        return torch.device("cpu")
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


def dtype_of(model: nn.Module) -> torch.dtype:
    """Return the type of images that a model takes: float64 if its weights are, else float32."""
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    doubles = any(weight.dtype == torch.float64 for weight in weights)
    return torch.float64 if doubles else torch.float32


def split(
    images: Tensor, labels: Tensor, calibration: Labelled | Images | None
) -> tuple[Labelled, Labelled, tuple[str, ...]]:
    """Return what is counted, what chooses τ, and a note if they had to be split here.

    Raises:
        ValueError: If images or labels are not valid.
    """
    x, y = _checked(images, labels)
    if isinstance(calibration, Images):
        calibration = (calibration.x, calibration.y)
    if calibration is not None:
        if not isinstance(calibration, tuple | list) or len(calibration) != 2:
            raise ValueError("calibration must be a pair (images, labels)")
        x_val, y_val = _checked(*calibration)
        if x_val.shape[1:] != x.shape[1:] or x_val.dtype != x.dtype:
            raise ValueError(
                f"calibration has images of {tuple(x_val.shape[1:])} and {x_val.dtype}, the others "
                f"are {tuple(x.shape[1:])} and {x.dtype}"
            )
        return (x, y), (x_val, y_val), ()
    last = calibration_share(len(x))
    if last == 0:
        raise ValueError(
            "one image cannot be counted and choose τ as well: pass more, or "
            "calibration=(images, labels)"
        )
    note = f"No calibration images were given: the last {last} of {len(x)} chose τ."
    return (x[:-last], y[:-last]), (x[-last:], y[-last:]), (note,)


def _checked(images: Tensor, labels: Tensor) -> Labelled:
    if isinstance(images, Tensor):
        images = to_floats(images.detach().cpu())
    return images, require_batch(images, labels.cpu() if isinstance(labels, Tensor) else labels)


def require_logits(model: nn.Module, x: Tensor, y: Tensor, device: torch.device) -> None:
    """Raise a ValueError if a model gives no logits, or not the same ones again."""
    with torch.no_grad(), frozen(model):
        one, two = (model(x[:8].to(device)) for _ in range(2))
    require_answers(one, len(x[:8]))
    require_classes(one, y)
    if not one.isfinite().all():
        raise ValueError("the model's logits are not finite on the first images")
    require_same_answers(one, two)
