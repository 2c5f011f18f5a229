"""Rejection by a detector that is fitted for each threat on training images.

Frames, noise and corruptions are judged by the detector for an L∞ ball that was fitted first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from ccat.checks import require_count
from ccat.evaluation.metrics import Floats, Outcome
from ccat.rejection.aware import Aware
from ccat.rejection.detector import detector_of
from ccat.rejection.features import features, usual_layers
from ccat.rejection.protocol import Judge, Rejection, Tensors
from ccat.threats import Condition, Frame, Linf, Threat, contains, label, read_threat


@dataclass(frozen=True)
class Detection(Rejection):
    """Reject what a detector calls unusual.

    `known` training images give its statistics; `pairs` of others, clean and attacked, the weights
    of its layers: those that are classified correctly, and whose adversarial examples are not.
    """

    name: Literal["mahalanobis", "lid"]
    layers: str = ""  # separated by commas; by default the last of each size of feature map
    known: int = 2000
    pairs: int = 1000

    def __post_init__(self) -> None:
        if self.name not in ("mahalanobis", "lid"):
            raise ValueError(f"Detection: name must be mahalanobis or lid, not {self.name!r}")
        for field in ("known", "pairs"):
            require_count(f"Detection: {field}", getattr(self, field))

    @property
    def title(self) -> str:
        return self.name

    @property
    def shared(self) -> bool:
        return False

    @property
    def objectives(self) -> tuple[Aware, ...]:
        return tuple(Aware(penalty) for penalty in (0.0, 0.3, 1.0, 3.0))

    def to_fit(self, threats: Sequence[Threat], fitted: Sequence[str], grey: bool) -> list[Threat]:
        wanted = [threat for threat in dict.fromkeys(threats) if not isinstance(threat, Frame)]
        if not any(isinstance(threat, Linf) for threat in [*wanted, *map(read_threat, fitted)]):
            wanted.append(Linf(0.3 if grey else 0.03))
        wanted.sort(key=lambda threat: (not isinstance(threat, Linf), threat.epsilon))
        return [threat for threat in wanted if label(threat) not in fitted]

    def judges(self, fitted: Sequence[str]) -> tuple[str, ...]:
        return tuple(fitted)

    def judge_of(self, condition: Condition, fitted: Sequence[str]) -> str:
        if condition.on_noise or isinstance(condition.threat, Frame):
            return fitted[0]
        return label(condition.threat)

    def judges_of(self, condition: Condition, fitted: Sequence[str]) -> tuple[str, ...]:
        if condition.on_noise or isinstance(condition.threat, Frame):
            return (fitted[0],)
        return tuple(name for name in fitted if contains(read_threat(name), condition.threat))

    def load(self, model: nn.Module, fitted: Mapping[str, Tensors], x: Tensor) -> dict[str, Judge]:
        layers = self.layers_of(model, x)
        return {name: detector_of(model, layers, tensors) for name, tensors in fitted.items()}

    def layers_of(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        """The layers asked for, or the usual ones of the model.

        Raises:
            ValueError: If the model has no such layer, or it puts out no features.
        """
        named = tuple(name.strip() for name in self.layers.split(",") if name.strip())
        layers = named or usual_layers(model, x)
        with torch.no_grad():
            features(model, layers, x)
        return layers

    def scaled(self, scores: Floats, calibration: Outcome) -> Floats:
        """Return the share of correct calibration images that score lower.

        Detectors of different threats can then be cut at one τ. It is strictly increasing, so
        nothing that a threshold decides changes: linear between the scores seen, beyond them it
        approaches 0 and 1.
        """
        right = np.sort(calibration.score[~calibration.wrong])
        seen = np.unique(right)
        if len(seen) < 2:
            raise ValueError("a detector needs at least two correctly classified images for τ")
        ranks = (np.searchsorted(right, seen) + 0.5) / (len(right) + 1)
        spread = (seen[-1] - seen[0]) / 10
        inside = np.interp(scores, seen, ranks)
        below = ranks[0] * np.exp(np.minimum(0, scores - seen[0]) / spread)
        above = 1 - (1 - ranks[-1]) * np.exp(-np.maximum(0, scores - seen[-1]) / spread)
        scaled: Floats = np.where(
            scores < seen[0], below, np.where(scores > seen[-1], above, inside)
        )
        return scaled
