"""What attacks leave in a run.

    attempts/KEY/0003.safetensors               block 3 of an attempt: answers, scores, passes
    worst/CONDITION/JUDGE/0003.safetensors      perturbations of block 3, the worst per example
    timings.jsonl                               seconds per block, beside what is compared

KEY is a SHA of what the numbers depend on: an edited case, other weights or other data never reuse
them.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ccat import codec
from ccat.attacking import BLOCK, Attempt, AttemptRecord, Block, Worst
from ccat.attacking.case import key_of
from ccat.objectives import OBJECTIVES, goal_of
from ccat.runs.folder import TIMINGS, Folder, RunError, file_name
from ccat.sealed import Tensors
from ccat.threats import Condition, Threat, UnknownThreat, label

_SCORE = "score:"  # before the name of a judge, in a block
_SHARED = ("case", "threat", "restart", "seed", "rest_at", "after", "position", "weights", "data")


@dataclass(frozen=True)
class StoredAttempt:
    """An attempt as it lies in a run: what is known of it, and its blocks without a gap."""

    record: AttemptRecord
    weights: str
    data: str
    blocks: list[Block]


@dataclass(frozen=True)
class AttemptFiles:
    """The blocks of attempts, the worst perturbations, and what was asked for."""

    folder: Folder

    def has(self, attempt: Attempt, block: int) -> bool:
        """True if a block is stored."""
        return self.folder.has(block_name(attempt.key, block))

    def judges_of(self, attempt: Attempt, block: int) -> set[str]:
        """The judges that scored a stored block."""
        name = block_name(attempt.key, block)
        with self.folder.reading(name, self._advice):
            return set(self.folder.about(name, self._advice)["judges"])

    def block(self, attempt: Attempt, block: int) -> Block:
        """A stored block, without its seconds.

        Raises:
            RunError: If it is damaged, or belongs to another attempt.
        """
        name = block_name(attempt.key, block)
        tensors, about = self.folder.tensors(name, self._advice)
        with self.folder.reading(name, self._advice):
            _require_key(about, attempt.key)
            return _block(tensors, about, None)

    def save(self, attempt: Attempt, block: int, result: Block) -> None:
        """Store a block."""
        scores = {f"{_SCORE}{judge}": score for judge, score in result.scores.items()}
        self.folder.write_tensors(
            block_name(attempt.key, block),
            {
                "probabilities": result.probabilities,
                "value": result.value,
                "asked": result.asked,
                "certified": result.certified,
                **scores,
            },
            rows=len(result.value),
            judges=sorted(result.scores),
            case=codec.encode(attempt.case),
            threat=label(attempt.case.threat),
            restart=attempt.restart,
            seed=attempt.seed,
            rest_at=attempt.rest_at,
            after=attempt.after,
            position=attempt.position,
            certificate=attempt.certificate,
            weights=attempt.weights,
            data=attempt.data,
            forwards=result.forwards,
            backwards=result.backwards,
            no_gradient=result.no_gradient,
            rising=result.rising,
        )
        timing = {"key": attempt.key, "block": block, "seconds": result.seconds}
        self.folder.append_line(TIMINGS, timing)

    def all(self) -> Iterator[StoredAttempt]:
        """Every stored attempt, one at a time; nobody's code is imported.

        Raises:
            RunError: If a block is damaged, or belongs to another attempt.
        """
        seconds = self._seconds()
        for key in self.keys():
            blocks: list[Block] = []
            shared: list[Any] = []
            while self.folder.has(name := block_name(key, len(blocks))):
                tensors, about = self.folder.tensors(name, self._advice)
                with self.folder.reading(name, self._advice):
                    if shared != (said := [about.get(each) for each in _SHARED]):
                        _require_key(about, key)
                        shared, record = said, _record(about, key)
                    block = _block(tensors, about, seconds.get((key, len(blocks))))
                if blocks and len(blocks[-1].value) != BLOCK:
                    before = self.folder.path / block_name(key, len(blocks) - 1)
                    raise RunError(
                        f"{before} is not a whole block, but one follows; {self._advice}"
                    )
                blocks.append(block)
            if blocks:
                yield StoredAttempt(record, about["weights"], about["data"], blocks)

    def records(self) -> Iterator[tuple[AttemptRecord, str, int]]:
        """Every stored attempt with its weights and number of examples; reads headers only."""
        for key in self.keys():
            names: list[str] = []
            while self.folder.has(name := block_name(key, len(names))):
                names.append(name)
            if names:
                with self.folder.reading(names[-1], self._advice):
                    first, last = (self.folder.about(names[n], self._advice) for n in (0, -1))
                    rows = BLOCK * (len(names) - 1) + int(last["rows"])
                    found = _record(first, key), str(first["weights"]), rows
                yield found

    def keys(self) -> list[str]:
        """The keys of all stored attempts, sorted."""
        return [name.split("/")[1] for name in self.folder.names("attempts/*")]

    def worst_names(self) -> list[str]:
        """The names of all files of worst perturbations."""
        return self.folder.names("worst/*/*/*.safetensors")

    def data_of(self, weights: str) -> set[str]:
        """Digests of the data that these weights were attacked on: one, unless it changed."""
        firsts = [name for key in self.keys() if self.folder.has(name := block_name(key, 0))]
        abouts = [self.folder.about(name, self._advice) for name in firsts]
        return {about.get("data", "") for about in abouts if about.get("weights") == weights}

    def worst(
        self, condition: Condition, judge: str, block: int, weights: str, data: str
    ) -> Worst | None:
        """The worst perturbations of a block; None if they are of other weights or data.

        Raises:
            RunError: If the file is damaged.
        """
        name = _worst_name(condition, judge, block)
        expected = {"weights": weights, "data": data, "condition": condition.key, "judge": judge}
        stored = self.folder.tensors_of(name, self._advice, expected)
        if stored is None:
            return None
        tensors, about = stored
        with self.folder.reading(name, self._advice):
            return _worst(tensors, about)

    def save_worst(
        self, condition: Condition, judge: str, block: int, worst: Worst, weights: str, data: str
    ) -> None:
        """Replace the worst perturbations of a block."""
        self.folder.write_tensors(
            _worst_name(condition, judge, block),
            {"delta": worst.delta, "score": worst.score, "by": worst.by},
            condition=condition.key,
            judge=judge,
            weights=weights,
            data=data,
            of=sorted(worst.of),
        )

    def of_other_weights(self, weights: str) -> list[str]:
        """The names of attempts and perturbations that belong to other weights."""
        others = [
            f"attempts/{record.key}" for record, theirs, _ in self.records() if theirs != weights
        ]
        abouts = {name: self.folder.about(name, self._advice) for name in self.worst_names()}
        return [*others, *(name for name in abouts if abouts[name].get("weights") != weights)]

    @property
    def _advice(self) -> str:
        return f"delete it and run `ccat attack {self.folder.path}` again: it is computed anew"

    def _seconds(self) -> dict[tuple[str, int], float]:
        """The seconds of each block, by key and number, as far as they are known."""
        found: dict[tuple[str, int], float] = {}
        for one in self.folder.readable_lines(TIMINGS):
            with suppress(KeyError, TypeError, ValueError):  # the seconds of an epoch have no key
                found[str(one["key"]), int(one["block"])] = float(one["seconds"])
        return found


def _require_key(about: Mapping[str, Any], key: str) -> None:
    if key_of(about) != key:
        raise ValueError("it belongs to another attempt")


def _block(tensors: Tensors, about: Mapping[str, Any], seconds: float | None) -> Block:
    """Return a stored block; raise ValueError if it is none."""
    rows = int(about["rows"])
    scores = {
        name.removeprefix(_SCORE): value
        for name, value in tensors.items()
        if name.startswith(_SCORE)
    }
    given, value = tensors["probabilities"], tensors["value"]
    if not 1 <= rows <= BLOCK or given.ndim != 2 or len(given) != rows or given.shape[1] < 2:
        raise ValueError(f"it holds probabilities of {tuple(given.shape)} for {rows} examples")
    numbers = given.numpy()  # NumPy takes half the time that torch does for so little
    if not (numbers >= 0).all() or not np.abs(numbers.sum(1) - 1).max() <= 1e-3:
        raise ValueError("its probabilities are none")
    for name, one in {"value": value, **scores}.items():
        if one.shape != (rows,) or np.isnan(one.numpy()).any():
            raise ValueError(f"its {name} is not one number for each of {rows} examples")
    known = math.nan if seconds is None else seconds
    asked = tensors["asked"]
    certified = tensors.get("certified", torch.zeros_like(asked))
    if any(one.shape != (rows,) or one.dtype != torch.bool for one in (asked, certified)):
        raise ValueError(f"it does not say which of its {rows} examples were attacked")
    if (asked & certified).any():
        raise ValueError("it says of examples that they were attacked and rested")
    forwards, backwards, blind, rising = (
        int(about[name]) for name in ("forwards", "backwards", "no_gradient", "rising")
    )
    counts = (forwards, backwards, blind, rising)
    return Block(given, value, scores, known, *counts, asked, certified)


def _worst(tensors: Tensors, about: Mapping[str, Any]) -> Worst:
    """Return stored perturbations; raise ValueError if they are none."""
    delta, score, by = (tensors[name] for name in ("delta", "score", "by"))
    of = frozenset(map(str, about["of"]))
    if delta.ndim != 4 or not len(delta) == len(score) == len(by) or score.ndim != 1:
        raise ValueError(f"it holds perturbations of {tuple(delta.shape)}")
    if not delta.isfinite().all() or score.isnan().any():
        raise ValueError("its perturbations are not finite")
    return Worst(delta, score, by, of)


def _record(about: Mapping[str, Any], key: str) -> AttemptRecord:
    case = about["case"]
    threat = codec.decode(case["threat"], Threat)
    if isinstance(threat, codec.Unresolved):
        threat = UnknownThreat(str(about["threat"]))
    objective = case["objective"]
    aware = isinstance(objective, dict) and objective.get("kind") == "Aware"
    known = OBJECTIVES.get(objective) if isinstance(objective, str) else None
    condition = Condition(threat, case["source"], goal_of(known))
    rest = None if about["rest_at"] is None else float(about["rest_at"])
    place = (int(about["restart"]), aware, rest, int(about["position"]))
    return AttemptRecord(key, case["name"], case["family"], condition, *place)


def block_name(key: str, block: int) -> str:
    """Return the name of the file of a block."""
    return f"attempts/{key}/{block:04d}.safetensors"


def _worst_name(condition: Condition, judge: str, block: int) -> str:
    return f"worst/{file_name(condition.key)}/{file_name(judge)}/{block:04d}.safetensors"
