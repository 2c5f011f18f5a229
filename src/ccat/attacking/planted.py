"""Errors planted on purpose, to learn whether attacks find what is certainly there.

This is the active test of Zimmermann et al. 2022. For each image a head on the model's own features
φ, with the logits [0, w·φ + b], is sure of the wrong class at one point on the sphere of radius ε,
and right at every sampled point of the ball of radius 0.95 ε. An accepted error then exists by
construction: an attack that misses it is too weak for this model. The head is made harder by points
that gradient ascent from the image finds further inside: they have to be right as well.

Shapes: x, delta (N, C, H, W); features, weight (N, D); bias, separable (N,).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from ccat.attacks import PGD, Problem
from ccat.objectives import Objective, other_class_confidence
from ccat.threats import L1, L2, Linf, Threat

ACCEPTED = 0.9  # the τ of the head: a head of two classes never rejects below one half
_SURE = 0.97  # what the head says of the planted point
_INNER, _SAMPLES, _TRIES = 0.95, 256, 8
_HARDENED, _STEPS = 5, 20  # rounds of gradient ascent, and its iterations
_PLACE = 0.8  # where the head is undecided, on the way from the inner points to the planted one
_SHRINKAGE = 1e-2
_CALM = 5.0  # the largest logit at the image, for attacks of other libraries
_LARGE = 1e3  # times a perturbation: projected, it lies on the sphere


class Plants(NamedTuple):
    """Planted perturbations, the heads that accept them, and which of them could be planted."""

    delta: Tensor
    weight: Tensor
    bias: Tensor
    separable: Tensor


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a model: what goes into its last linear layer, its logits if it has none."""

    model: nn.Module

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features (N, D), with a gradient if the images have one."""
        found: list[Tensor] = []
        with _inputs(self._last, found):
            logits: Tensor = self.model(images)
        return (found[-1] if found else logits).flatten(1)

    @property
    def _last(self) -> nn.Module | None:
        layers = [module for module in self.model.modules() if isinstance(module, nn.Linear)]
        return layers[-1] if layers else None


@contextmanager
def _inputs(layer: nn.Module | None, found: list[Tensor]) -> Iterator[None]:
    """Collect what goes into a layer."""
    if layer is None:
        yield
        return
    handle = layer.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class PlantedScore:
    """The score of a problem with planted errors: an objective of the head of each example."""

    features: Features
    plants: Plants
    objective: Objective
    most: float = 0.0

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        z = (self.features(images) * self.plants.weight[rows]).sum(1) + self.plants.bias[rows]
        logits = torch.stack([torch.zeros_like(z), z], 1)
        return self.objective(logits, torch.zeros_like(rows))


class PlantedModel(nn.Module):
    """One example's head as a model of two classes, for attacks of other libraries.

    The planted class wins where the head accepts it: these attacks are content with that.
    """

    def __init__(self, features: Features, plants: Plants, x: Tensor, row: int) -> None:
        super().__init__()
        self.training = False  # the wrapper alone: libraries warn of models in training mode
        self.model, self.features = features.model, features
        self.weight, self.bias = plants.weight[row], plants.bias[row]
        with torch.no_grad():
            # The head can be so sure at the image that the gradient of a cross-entropy is zero.
            self.scale = max(1.0, self._margin(x[row : row + 1]).abs().item() / _CALM)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits [0, w·φ + b − log τ/(1−τ)], divided by a constant."""
        z = self._margin(images) / self.scale
        return torch.stack([torch.zeros_like(z), z], 1)

    def _margin(self, images: Tensor) -> Tensor:
        margin = self.features(images) @ self.weight + self.bias
        return margin - math.log(ACCEPTED / (1 - ACCEPTED))


def can_plant(threat: Threat) -> bool:
    """Return True if errors can be planted within a threat: a ball in L∞, L2 or L1."""
    return isinstance(threat, Linf | L2 | L1)


def plant(
    model: nn.Module, x: Tensor, threat: Threat, others: Tensor, generator: Generator
) -> Plants:
    """Plant an error around each image, at random or in the direction of another image.

    Args:
        model: The model under test; frozen, in evaluation mode.
        x: The images in [0,1].
        threat: A ball in L∞, L2 or L1.
        others: Images to choose directions from; not those that attacks may start from.
        generator: All random numbers.
    """
    assert isinstance(threat, Linf | L2 | L1)
    features = Features(model)
    small = replace(threat, epsilon=_INNER * threat.epsilon)
    found = [_first(features, x[n : n + 1], threat, others, n, generator) for n in range(len(x))]
    delta = torch.stack([one.delta for one in found])
    inner = [one.inner for one in found]
    outer = features((x + delta).clamp(0, 1)).double()
    heads = [_separating(*points) for points in zip(inner, outer, strict=True)]
    for _ in range(_HARDENED):
        # What gradient ascent from the image finds further inside must be right as well.
        plants = _plants(delta, heads, outer.to(x))
        problem = Problem(x, small, PlantedScore(features, plants, other_class_confidence))
        for part in (30, 6):
            reached = PGD(_STEPS, threat.epsilon / part)(problem, generator)
            with torch.no_grad():
                more = features(problem.images(reached)).double()
            inner = [torch.cat([old, new[None]]) for old, new in zip(inner, more, strict=True)]
        harder = [_separating(*points) for points in zip(inner, outer, strict=True)]
        heads = [new or old for new, old in zip(harder, heads, strict=True)]
    return _plants(delta, heads, outer.to(x))


class _Planted(NamedTuple):
    """A planted perturbation (C, H, W), and the features (M, D) of points further inside."""

    delta: Tensor
    inner: Tensor


def _plants(delta: Tensor, heads: Sequence["_Head | None"], like: Tensor) -> Plants:
    """Return plants; a head that could not be fitted is zero."""
    weight, bias = torch.zeros_like(like), torch.zeros_like(like[:, 0])
    for row, head in enumerate(heads):
        if head is not None:
            weight[row], bias[row] = head.weight.to(like), head.bias.to(like)
    return Plants(delta, weight, bias, weight.any(1))


def _first(
    features: Features,
    x: Tensor,
    threat: Linf | L2 | L1,
    others: Tensor,
    number: int,
    generator: Generator,
) -> _Planted:
    """Return a perturbation that a head can tell from sampled points further inside.

    Every other image gets a random point first, the others one towards another image; where that
    cannot be told apart, the other kind is tried. The last one is returned if none can be.
    """
    small = replace(threat, epsilon=_INNER * threat.epsilon)
    around = x.expand(_SAMPLES, -1, -1, -1)
    sampled = small.sample(around, generator)
    outermost = small.project(around, _LARGE * sampled)
    with torch.no_grad():
        inner = [features((x + part).clamp(0, 1)) for part in (sampled, outermost, 0 * x)]
    for turn in range(_TRIES):
        if (turn + number) % 2 == 0:
            towards = _LARGE * threat.sample(x, generator)
        else:
            row = torch.randint(len(others), (1,), generator=generator, device=generator.device)
            towards = others[row.to(others.device)].to(x) - x
        delta = threat.project(x, towards)
        with torch.no_grad():
            near = features((x + small.project(x, delta)).clamp(0, 1))
            outer = features((x + delta).clamp(0, 1))[0].double()
        points = torch.cat([*inner, near]).double()
        if _separating(points, outer) is not None:
            break
    return _Planted(delta[0], points)


class _Head(NamedTuple):
    weight: Tensor
    bias: Tensor


def _separating(inside: Tensor, outside: Tensor) -> _Head | None:
    """Return w and b of a head that tells a point from others, None if it cannot.

    w is Fisher's discriminant with a shrunken covariance, (Σ + λ)⁻¹ (φ − μ), by the Woodbury
    identity; its scale makes the head sure of the point.
    """
    mean = inside.mean(0)
    centred, direction = inside - mean, outside - mean
    gram = centred @ centred.T / len(centred)
    shrinkage = _SHRINKAGE * gram.diagonal().mean() + 1e-12
    solved = torch.linalg.solve(
        gram + shrinkage * torch.eye(len(gram), dtype=gram.dtype, device=gram.device),
        centred @ direction / len(centred),
    )
    weight = (direction - centred.T @ solved) / shrinkage
    there, highest = outside @ weight, (inside @ weight).max()
    spread = (inside @ weight).std()
    if not there > highest + 1e-3 * spread + 1e-9:
        return None
    undecided = highest + _PLACE * (there - highest)
    scale = math.log(_SURE / (1 - _SURE)) / (there - undecided)
    return _Head(scale * weight, -scale * undecided)
