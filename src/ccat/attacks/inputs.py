"""Checks of what a user hands in: images, labels, a model and what it returns.

Messages name the examples that are wrong.
"""

import math
import warnings

import torch
from torch import Tensor, nn


def require_images(x: Tensor) -> None:
    """Raise ValueError unless x is a batch of images (N, C, H, W) in [0,1]."""
    if not isinstance(x, Tensor) or x.ndim != 4 or x.numel() == 0:
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"images must be a non-empty tensor of shape (N, C, H, W), not {shape}")
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"images must be float32 or float64 in [0,1], not {x.dtype}: "
            f"8-bit images are x.float() / 255"
        )
    if x.isnan().any():
        raise ValueError(f"images must not hold NaN: see {_examples(x.isnan().flatten(1).any(1))}")
    outside = ((x < 0) | (x > 1)).flatten(1).any(1)
    if outside.any():
        low, high = x.amin().item(), x.amax().item()
        raise ValueError(
            f"images must be in [0,1], but range over [{low!r}, {high!r}]: "
            f"see {_examples(outside)}; normalisation belongs inside the model"
        )


def require_batch(x: Tensor, y: Tensor) -> Tensor:
    """Raise ValueError unless x are images and y their labels (N,).

    Returns:
        The labels as int64 on the device of the images.
    """
    require_images(x)
    if (
        not isinstance(y, Tensor)
        or y.shape != x.shape[:1]
        or y.is_floating_point()
        or y.dtype == torch.bool
    ):
        what = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"labels must be {len(x)} integers, one per image, not {what}")
    if (y < 0).any():
        raise ValueError(f"labels must be 0 or more: see {_examples(y < 0)}")
    return y.to(x.device, torch.int64)


def require_logits(logits: Tensor, labels: Tensor) -> None:
    """Raise ValueError unless these are logits (N, K) that have these labels (N,).

    Warns if they look like probabilities.
    """
    require_answers(logits, len(labels))
    require_classes(logits, labels)


def require_answers(logits: Tensor, count: int) -> None:
    """Raise ValueError unless these are logits (N, K) of N = `count` images."""
    if (
        not isinstance(logits, Tensor)
        or logits.ndim != 2
        or len(logits) != count
        or logits.shape[1] < 2
    ):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"the model must return logits of shape ({count}, K) with K at least 2, not {shape}"
        )
    if not logits.is_floating_point():
        raise ValueError(f"the model must return floating-point logits, not {logits.dtype}")


def require_classes(logits: Tensor, labels: Tensor) -> None:
    """Raise ValueError if logits (N, K) have too few classes for the labels.

    Warns if they look like probabilities.
    """
    classes = logits.shape[1]
    if labels.max() >= classes:
        raise ValueError(
            f"labels must be below {classes}, the model's number of classes, but reach "
            f"{int(labels.max())}"
        )
    with torch.no_grad():
        if (logits >= 0).all() and (logits.sum(1) - 1).abs().max() < 1e-3:
            warnings.warn(
                "the model seems to return probabilities; return logits, or results are wrong",
                stacklevel=2,
            )


def require_same_answers(one: Tensor, two: Tensor) -> None:
    """Raise ValueError if logits of the same images, computed twice, are not the same.

    What rounding changes from one call to the next is the same.
    """
    if not one.equal(two) and (one - two).abs().max() > 1e-3 * one.abs().max():
        raise ValueError(
            "the model answers the same images differently each time: attacks on it would be too "
            "weak to be believed"
        )


def require_model(model: nn.Module, x: Tensor) -> None:
    """Raise ValueError unless the model is a module of the images' type and device."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"the model must be an nn.Module, not {type(model).__name__}; other scores go into "
            f"Problem(x, threat, score)"
        )
    weight = next((weight for weight in model.parameters() if weight.is_floating_point()), x)
    if weight.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"the model's weights are {weight.dtype}, and attacks need float32 or float64: "
            f"call model.float()"
        )
    if (weight.dtype, weight.device) != (x.dtype, x.device):
        raise ValueError(
            f"the images are {x.dtype} on {x.device}, the model is {weight.dtype} on "
            f"{weight.device}: use x.to(...)"
        )


def require_values(value: Tensor, rows: Tensor) -> None:
    """Raise ValueError unless a score gave one value for each of the examples rows (M,)."""
    if value.shape != rows.shape:
        raise ValueError(
            f"the score must give one value per image, {tuple(rows.shape)}, but gave "
            f"{tuple(value.shape)}"
        )


def require_gradient(value: Tensor) -> None:
    """Raise ValueError if nothing can be differentiated through what a score gave."""
    if not value.requires_grad:
        raise ValueError(
            "the score has no gradient: does the model run under no_grad, or not depend "
            "on the images? Square and Simple need none"
        )


def require_numbers(bad: Tensor, rows: Tensor, what: str) -> None:
    """Raise ValueError if anything of `bad` (M,) is true, naming the examples rows (M,)."""
    if bad.any():
        raise ValueError(
            f"the {what}: see {_examples(bad, rows)}; does the model return NaN or infinite logits?"
        )


def require_finite(values: Tensor, rows: Tensor, what: str) -> None:
    """Raise ValueError unless all values are finite. If their sum is, they are: that is fast."""
    if not math.isfinite(values.sum().item()):
        require_numbers(~values.flatten(1).isfinite().all(1), rows, what)


def _examples(bad: Tensor, rows: Tensor | None = None) -> str:
    """Return the numbers of up to five bad examples, in words."""
    numbers = bad.nonzero()[:, 0].tolist() if rows is None else sorted(set(rows[bad].tolist()))
    return (
        ("example " if len(numbers) == 1 else "examples ")
        + ", ".join(str(n) for n in numbers[:5])
        + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")
    )
