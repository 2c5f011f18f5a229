"""What a run's model answers without an attack: clean and corrupted images, and its detectors.

clean.safetensors               probabilities of the test split
scores/JUDGE.safetensors        its scores by a detector
corrupted/SET.safetensors       probabilities and scores of corrupted test images
detectors/THREAT.safetensors    detectors, each fitted for a threat
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ccat.runs.folder import Folder, RunError, file_name
from ccat.sealed import Tensors

_CLEAN = "clean.safetensors"
_ANEW = "delete it, it is computed anew"
_SEPARATOR = "/"  # between the parts of a tensor's name, none of which contains it


class CorruptedKey(NamedTuple):
    """One corruption at one severity."""

    corruption: str
    severity: int


@dataclass(frozen=True)
class CorruptedAnswers:
    """Probabilities (N, K) and scores (N,) under one corruption of a set."""

    probabilities: Tensor
    score: Tensor


@dataclass(frozen=True)
class AnswerFiles:
    """Answers of certain weights; those of other weights or other data are not read."""

    folder: Folder
    weights: str

    def clean(self, data: str) -> Tensor | None:
        """The probabilities of the test split."""
        stored = self.folder.tensors_of(_CLEAN, _ANEW, self._of(data))
        return stored[0].get("probabilities") if stored else None

    def save_clean(self, probabilities: Tensor, data: str) -> None:
        """Store the probabilities of the test split."""
        self.folder.write_tensors(_CLEAN, {"probabilities": probabilities}, **self._of(data))

    def clean_scores(self, judge: str, data: str) -> Tensor | None:
        """The scores of the test split by a judge."""
        stored = self.folder.tensors_of(_scores_name(judge), _ANEW, self._of(data))
        return stored[0].get("scores") if stored else None

    def save_clean_scores(self, judge: str, scores: Tensor, data: str) -> None:
        """Store the scores of the test split by a judge."""
        self.folder.write_tensors(_scores_name(judge), {"scores": scores}, **self._of(data))

    def corrupted_sets(self) -> list[str]:
        """The names of the sets of corruptions that were measured."""
        names = self.folder.names("corrupted/*.safetensors")
        return [name.removeprefix("corrupted/").removesuffix(".safetensors") for name in names]

    def corrupted(
        self, name: str, data: str
    ) -> tuple[dict[CorruptedKey, CorruptedAnswers], dict[str, Any]] | None:
        """The answers to a set of corruptions, and how the set was made.

        Raises:
            RunError: If the file is damaged.
        """
        file = f"corrupted/{name}.safetensors"
        advice = "delete it, `ccat corrupt` makes it anew"
        stored = self.folder.tensors_of(file, advice, self._of(data))
        if stored is None:
            return None
        tensors, about = stored
        with self.folder.reading(file, advice):
            keys = [key.split(_SEPARATOR) for key in tensors if key.startswith("score/")]
            found = {
                CorruptedKey(corruption, int(severity)): CorruptedAnswers(
                    tensors[f"probabilities/{corruption}/{severity}"],
                    tensors[f"score/{corruption}/{severity}"],
                )
                for _, corruption, severity in keys
            }
        return found, dict(about.get("made", {}))

    def save_corrupted(
        self,
        name: str,
        answers: Mapping[CorruptedKey, CorruptedAnswers],
        data: str,
        made: Mapping[str, Any],
    ) -> None:
        """Store the answers to a set of corruptions, and how the set was made."""
        tensors: Tensors = {}
        for (corruption, severity), one in answers.items():
            tensors[f"probabilities/{corruption}/{severity}"] = one.probabilities
            tensors[f"score/{corruption}/{severity}"] = one.score
        self.folder.write_tensors(
            f"corrupted/{name}.safetensors", tensors, made=dict(made), **self._of(data)
        )

    def detectors(self) -> dict[str, Tensors]:
        """The fitted detectors by the threats they are for, the one fitted first in front.

        Raises:
            RunError: If one is damaged, or was fitted on other weights.
        """
        found: list[tuple[bool, str, Tensors]] = []
        for name in self.folder.names("detectors/*.safetensors"):
            advice = "delete it, it is fitted anew"
            tensors, about = self.folder.tensors(name, advice)
            if about.get("weights") != self.weights:
                file = self.folder.path / name
                raise RunError(f"{file} was fitted on another model: {advice}")
            with self.folder.reading(name, advice):
                found.append((not about.get("first"), str(about["threat"]), tensors))
        return {threat: tensors for _, threat, tensors in sorted(found, key=lambda one: one[:2])}

    def save_detector(self, threat: str, tensors: Tensors, *, first: bool) -> None:
        """Store a detector fitted for a threat; the first one judges frames and noise for good."""
        self.folder.write_tensors(
            f"detectors/{file_name(threat)}.safetensors",
            tensors,
            weights=self.weights,
            threat=threat,
            first=first,
        )

    def _of(self, data: str) -> dict[str, str]:
        return {"weights": self.weights, "data": data}


def _scores_name(judge: str) -> str:
    return f"scores/{file_name(judge)}.safetensors"
