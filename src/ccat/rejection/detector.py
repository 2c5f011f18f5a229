"""Detectors of adversarial examples: a statistic per layer, weighed by a logistic regression.

The regression tells clean images from attacked ones. A detector's score replaces the confidence:
images that score below τ are rejected.

Shapes: images (N, C, H, W), statistics (N, L) of L layers, scores (N,).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from ccat.evaluation.metrics import area
from ccat.rejection.features import features, features_and_logits
from ccat.rejection.statistics import LocalDimension, Mahalanobis, Statistic, statistic_of

DETECTORS = ("mahalanobis", "lid")
MAGNITUDES = (0.0, 0.001, 0.005, 0.01)  # of the step that Lee et al. take first
NEIGHBOURS = (10, 20, 50)
FEWEST = 20  # pairs to learn from


@dataclass(frozen=True, eq=False)
class Detector:
    """A fitted detector: the higher the score of an image, the more usual it is.

    `magnitude` is the length of a step towards higher statistics that is taken first.
    """

    model: nn.Module
    layers: tuple[str, ...]
    statistics: tuple[Statistic, ...]
    weights: Tensor  # (L,)
    bias: float
    magnitude: float = 0.0

    def __call__(self, images: Tensor, probabilities: Tensor | None = None) -> Tensor:
        """Return the score (N,) of each image, on the CPU; a judge of what is accepted."""
        x = images
        return _weighed(
            stepped(self.model, self.layers, self.statistics, self.magnitude, x), self
        ).cpu()

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores without the step, and logits, in one pass that has a gradient.

        For attacks: the gradient of the step would need second derivatives.
        """
        found, logits = features_and_logits(self.model, self.layers, x)
        return _weighed(
            torch.stack(
                [one(values) for one, values in zip(self.statistics, found, strict=True)], 1
            ),
            self,
        ), logits

    def tensors(self) -> dict[str, Tensor]:
        """Return what `detector_of` needs to make the detector again."""
        inside = {
            f"{n}.{key}": value
            for n, one in enumerate(self.statistics)
            for key, value in one.tensors().items()
        }
        return {
            **inside,
            "weights": self.weights,
            "bias": torch.tensor(self.bias),
            "magnitude": torch.tensor(self.magnitude),
        }


def detector_of(model: nn.Module, layers: Sequence[str], tensors: dict[str, Tensor]) -> Detector:
    """Make a detector from what its `tensors()` returned, for the same model and layers."""
    device = next(model.parameters()).device
    moved = {name: value.to(device) for name, value in tensors.items()}
    parts = [
        {key.split(".", 1)[1]: value for key, value in moved.items() if key.startswith(f"{n}.")}
        for n in range(len(layers))
    ]
    statistics = tuple(statistic_of(part) for part in parts)
    return Detector(
        model,
        tuple(layers),
        statistics,
        moved["weights"],
        float(tensors["bias"]),
        float(tensors["magnitude"]),
    )


def fit(
    kind: str,
    model: nn.Module,
    layers: Sequence[str],
    known: tuple[Tensor, Tensor],
    clean: Tensor,
    attacked: Tensor,
    like: Detector | None,
) -> Detector:
    """Fit a detector on training images.

    The magnitude, or the number of neighbours, is the one that tells the second half of the pairs
    apart best when it is fitted on the first half.

    Args:
        kind: mahalanobis or lid.
        model: The model whose features are looked at.
        layers: The names of its modules.
        known: Images and labels for the statistics.
        clean: Images for the regression that are classified correctly.
        attacked: Their adversarial examples that are not.
        like: Take the magnitude or the neighbours from this detector, as in the paper, which
            chooses them for L∞ and keeps them.

    Raises:
        ValueError: If there are too few images.
    """
    if kind not in DETECTORS:
        raise ValueError(f"there is no detector {kind!r}; there are {', '.join(DETECTORS)}")
    if len(clean) < FEWEST:
        raise ValueError(
            f"only {len(clean)} attacked training images fool the model, and a detector needs "
            f"{FEWEST} to be fitted"
        )
    with torch.no_grad():
        seen = _batched(model, layers, known[0])
    usual: list[tuple[Statistic, ...]]
    if kind == "mahalanobis":
        usual = [
            tuple(
                Mahalanobis.fit(values, known[1], name)
                for values, name in zip(seen, layers, strict=True)
            )
        ]
    else:
        counts = NEIGHBOURS if like is None else (_neighbours(like),)
        usual = [
            tuple(
                LocalDimension.fit(values, k, name)
                for values, name in zip(seen, layers, strict=True)
            )
            for k in counts
        ]
    magnitudes = (
        (MAGNITUDES if like is None else (like.magnitude,)) if kind == "mahalanobis" else (0.0,)
    )
    half, best = len(clean) // 2, (-1.0, 0.0, usual[0])
    candidates = list(product(magnitudes, usual))
    for magnitude, statistics in candidates if len(candidates) > 1 else []:
        values = [stepped(model, layers, statistics, magnitude, x) for x in (clean, attacked)]
        learned = _regression(*(part[:half] for part in values))
        told = [_weighed(part[half:], learned).cpu().double().numpy() for part in values]
        best = max(best, (area(*told), magnitude, statistics), key=lambda one: one[0])
    _, magnitude, statistics = best if len(candidates) > 1 else (0, *candidates[0])
    weights, bias = _regression(
        *(stepped(model, layers, statistics, magnitude, x) for x in (clean, attacked))
    )
    return Detector(model, tuple(layers), statistics, weights, bias, magnitude)


def stepped(
    model: nn.Module,
    layers: Sequence[str],
    statistics: Sequence[Statistic],
    magnitude: float,
    x: Tensor,
    batch: int = 250,
) -> Tensor:
    """Return the statistics (N, L), each after a step along the sign of its own gradient."""
    return torch.cat(
        [_stepped(model, layers, statistics, magnitude, part) for part in torch.split(x, batch)]
    )


def _stepped(
    model: nn.Module,
    layers: Sequence[str],
    statistics: Sequence[Statistic],
    magnitude: float,
    x: Tensor,
) -> Tensor:
    if magnitude == 0:
        with torch.no_grad():
            return _values(model, layers, statistics, x)
    columns = []
    for n, (layer, statistic) in enumerate(zip(layers, statistics, strict=True)):
        with torch.enable_grad():
            moving = x.detach().requires_grad_()
            value = _values(model, [layer], [statistic], moving)[:, 0]
            (gradient,) = torch.autograd.grad(value.sum(), moving)
        with torch.no_grad():
            columns.append(
                _values(model, layers, statistics, (x + magnitude * gradient.sign()).clamp(0, 1))[
                    :, n
                ]
            )
    return torch.stack(columns, 1)


def _values(
    model: nn.Module, layers: Sequence[str], statistics: Sequence[Statistic], x: Tensor
) -> Tensor:
    return torch.stack(
        [one(values) for one, values in zip(statistics, features(model, layers, x), strict=True)], 1
    )


def _batched(model: nn.Module, layers: Sequence[str], x: Tensor, batch: int = 250) -> list[Tensor]:
    parts = [features(model, layers, part) for part in torch.split(x, batch)]
    return [torch.cat(column) for column in zip(*parts, strict=True)]


def _weighed(values: Tensor, by: "Detector | tuple[Tensor, float]") -> Tensor:
    weights, bias = (by.weights, by.bias) if isinstance(by, Detector) else by
    return values @ weights.to(values) + bias


def _regression(clean: Tensor, attacked: Tensor) -> tuple[Tensor, float]:
    """Return weights and bias, on the scale of the statistics themselves."""
    # slow to import, in every worker process
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    values = torch.cat([clean, attacked]).cpu().double().numpy()
    centre, spread = values.mean(0), values.std(0) + 1e-12
    model = LogisticRegression(max_iter=1000).fit(
        (values - centre) / spread, np.r_[np.ones(len(clean)), np.zeros(len(attacked))]
    )
    weights = model.coef_[0] / spread
    return torch.from_numpy(weights).to(clean), float(model.intercept_[0] - weights @ centre)


def _neighbours(like: Detector) -> int:
    (first, *_) = like.statistics
    assert isinstance(first, LocalDimension)
    return first.neighbours
