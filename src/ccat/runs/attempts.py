"""What attacks leave in a run.

    attempts/KEY/0003.safetensors               block 3 of an attempt: answers, scores, cost
    worst/CONDITION/JUDGE/0003.safetensors      perturbations of block 3, the worst per example
    plan.json                                   which suites were asked for, on how many examples

KEY is a SHA of what the numbers depend on: an edited case, other weights or other data never reuse
them.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ccat import codec
from ccat.attacking import Attempt, AttemptRecord, Block, Worst
from ccat.attacking.case import key_of
from ccat.runs.folder import SCHEMA, Folder, RunError, file_name
from ccat.threats import Condition, Threat, UnknownThreat, label

_PLAN = "plan.json"
_SCORE = "score:"  # before the name of a judge, in a block


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
        return self.folder.has(_block_name(attempt.key, block))

    def judges_of(self, attempt: Attempt, block: int) -> set[str]:
        """The judges that scored a stored block."""
        tensors, _ = self.folder.tensors(_block_name(attempt.key, block), self._advice)
        return {name.removeprefix(_SCORE) for name in tensors if name.startswith(_SCORE)}

    def save(self, attempt: Attempt, block: int, result: Block) -> None:
        """Store a block."""
        scores = {f"{_SCORE}{judge}": score for judge, score in result.scores.items()}
        self.folder.write_tensors(
            _block_name(attempt.key, block),
            {"probabilities": result.probabilities, "value": result.value, **scores},
            case=codec.encode(attempt.case),
            threat=label(attempt.case.threat),
            restart=attempt.restart,
            seed=attempt.seed,
            weights=attempt.weights,
            data=attempt.data,
            seconds=result.seconds,
            forwards=result.forwards,
            backwards=result.backwards,
        )

    def all(self) -> Iterator[StoredAttempt]:
        """Every stored attempt, one at a time; nobody's code is imported.

        Raises:
            RunError: If a block is damaged, or belongs to another attempt.
        """
        for folder in self.keys():
            blocks: list[Block] = []
            while self.folder.has(name := _block_name(folder, len(blocks))):
                block, record, about = self._read(name, folder)
                blocks.append(block)
            if blocks:
                yield StoredAttempt(record, about["weights"], about["data"], blocks)

    def keys(self) -> list[str]:
        """The keys of all stored attempts, sorted."""
        return [name.split("/")[1] for name in self.folder.names("attempts/*")]

    def data_of(self, weights: str) -> set[str]:
        """Digests of the data that these weights were attacked on: one, unless it changed."""
        firsts = [name for key in self.keys() if self.folder.has(name := _block_name(key, 0))]
        abouts = [self.folder.tensors(name, self._advice)[1] for name in firsts]
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
        try:
            return Worst(tensors["delta"], tensors["score"], tensors["by"], frozenset(about["of"]))
        except (KeyError, TypeError) as foreign:
            file = self.folder.path / name
            raise RunError(
                f"{file} holds no perturbations ({foreign}); {self._advice}"
            ) from foreign

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

    def plan(self) -> list[dict[str, Any]]:
        """What was asked for: suite, examples, weights, and the keys of its attempts."""
        try:
            asked = self.folder.json(_PLAN, "delete it") or []
            return [
                {
                    "suite": str(one["suite"]),
                    "examples": int(one["examples"]),
                    "weights": one.get("weights"),
                    "keys": list(one["keys"]),
                }
                for one in asked
            ]
        except (ValueError, TypeError, KeyError, AttributeError) as broken:
            file = self.folder.path / _PLAN
            raise RunError(f"{file} is damaged ({broken}); delete it") from broken

    def add_to_plan(self, suite: str, examples: int, keys: list[str], weights: str) -> None:
        """Add what is asked for now, unless it is a part of what was asked for before.

        If the suite was asked for on more examples before, these are still wanted.
        """
        current = [one for one in self.plan() if one["weights"] == weights]
        if any(set(keys) <= set(one["keys"]) and examples <= one["examples"] for one in current):
            return
        others = [
            one for one in current if one["suite"] != suite or not set(one["keys"]) <= set(keys)
        ]
        before = [one["examples"] for one in current if one not in others]
        new = {"suite": suite, "examples": max([examples, *before])}
        entries = [*others, {**new, "weights": weights, "keys": keys}]
        self.folder.write_json(_PLAN, [{"schema": SCHEMA, **one} for one in entries])

    def prune(self, weights: str) -> None:
        """Delete attempts and perturbations that belong to other weights."""
        for attempt in list(self.all()):
            if attempt.weights != weights:
                shutil.rmtree(self.folder.path / "attempts" / attempt.record.key)
        for name in self.folder.names("worst/*/*/*.safetensors"):
            if self.folder.tensors(name, self._advice)[1].get("weights") != weights:
                (self.folder.path / name).unlink()

    @property
    def _advice(self) -> str:
        return f"delete it and run `ccat attack {self.folder.path}` again: it is computed anew"

    def _read(self, name: str, key: str) -> tuple[Block, AttemptRecord, dict[str, Any]]:
        tensors, about = self.folder.tensors(name, self._advice)
        try:
            found = key_of(about)
            record = _record(about, key)
            scores = {
                name.removeprefix(_SCORE): value
                for name, value in tensors.items()
                if name.startswith(_SCORE)
            }
            cost = about["seconds"], about["forwards"], about["backwards"]
            block = Block(tensors["probabilities"], tensors["value"], scores, *cost)
        except (ValueError, KeyError, TypeError, AttributeError) as foreign:
            file = self.folder.path / name
            raise RunError(
                f"{file} is no block of an attempt ({foreign}); {self._advice}"
            ) from foreign
        if found != key:
            file = self.folder.path / name
            raise RunError(f"{file} belongs to another attempt; {self._advice}")
        return block, record, about


def _record(about: Mapping[str, Any], key: str) -> AttemptRecord:
    case = about["case"]
    threat = codec.decode(case["threat"], Threat)
    if isinstance(threat, codec.Unresolved):
        threat = UnknownThreat(str(about["threat"]))
    objective = case["objective"]
    aware = isinstance(objective, dict) and objective.get("kind") == "Aware"
    condition = Condition(threat, case["source"])
    return AttemptRecord(key, case["name"], case["family"], condition, about["restart"], aware)


def _block_name(key: str, block: int) -> str:
    return f"attempts/{key}/{block:04d}.safetensors"


def _worst_name(condition: Condition, judge: str, block: int) -> str:
    return f"worst/{file_name(condition.key)}/{file_name(judge)}/{block:04d}.safetensors"
