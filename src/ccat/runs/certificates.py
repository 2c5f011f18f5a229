"""Certificates of a run: the worst that is possible for each test image, or image of noise.

certificates/CONDITION.safetensors      whether a wrong answer is possible, and its confidence
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ccat.evaluation.outcome import Outcome
from ccat.runs.folder import Folder, file_name
from ccat.threats import Box, Condition, UnknownThreat

_ADVICE = "delete it, `ccat certify` makes it anew"
_FOLDER = "certificates"


@dataclass(frozen=True)
class CertificateFiles:
    """Certificates of certain weights; those of other weights or other data are not read."""

    folder: Folder
    weights: str

    def read(self, data: str) -> dict[Condition, Outcome]:
        """Return all certificates on these data, by condition.

        Raises:
            RunError: If one is damaged.
        """
        found = {}
        for name in self.folder.names(f"{_FOLDER}/*.safetensors"):
            stored = self.folder.tensors_of(name, _ADVICE, self._of(data))
            if stored is not None:
                tensors, about = stored
                with self.folder.reading(name, _ADVICE):
                    wrong, score = tensors["wrong"], tensors["score"]
                    if wrong.dtype != torch.bool or score.dtype != torch.float64 or not len(score):
                        raise ValueError("it holds other numbers than a certificate does")
                    if score.min() < 0 or score.max() > 1 or score[~wrong].any():
                        raise ValueError("its confidences are none")
                    condition = Condition.parse(str(about["condition"]))
                    unknown = isinstance(condition.threat, UnknownThreat)
                    if condition.rejects or not (unknown or isinstance(condition.threat, Box)):
                        raise ValueError(f"{condition.title} has no certificates")
                    if name != _name(condition):
                        raise ValueError("it belongs to another condition")
                    found[condition] = Outcome(wrong.numpy(), score.numpy())
        return dict(sorted(found.items(), key=lambda entry: entry[0].order))

    def bounds_of(self, condition: Condition) -> str:
        """Return which bounds a stored certificate was made with."""
        return str(self.folder.about(_name(condition), _ADVICE).get("bounds"))

    def save(self, certificates: Mapping[Condition, Outcome], data: str, bounds: str) -> None:
        """Store certificates on these data, made with certain bounds, in place of earlier ones."""
        for condition, one in certificates.items():
            self.folder.write_tensors(
                _name(condition),
                {"wrong": torch.from_numpy(one.wrong), "score": torch.from_numpy(one.score)},
                condition=condition.key,
                bounds=bounds,
                **self._of(data),
            )

    def _of(self, data: str) -> dict[str, str]:
        return {"weights": self.weights, "data": data}


def _name(condition: Condition) -> str:
    return f"{_FOLDER}/{file_name(condition.key)}.safetensors"
