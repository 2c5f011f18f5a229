"""The run directory: everything one model is, was trained with, and was attacked with. No other module knows a file name.

    run.json                    schema, recipe, versions, device
    log.jsonl                   one line per epoch
    tensorboard/                the same as event files, where asked for
    checkpoint.safetensors      after every epoch: weights, momentum, random state
    model.safetensors           the trained model
    clean.safetensors           probabilities of the test split
    attempts/KEY/0003.safetensors   block 3 of one restart of one case: probabilities, value, cost
    corrupted/SET.safetensors       probabilities of corrupted test images
    worst/THREAT/0003.safetensors   perturbations of block 3: the worst of all attempts, per example
    evaluation.json             what `ccat evaluate` made of it (report/evaluation.schema.json)
    analysis.json               what `ccat analyse` found
    plan.json                   which suites were asked for, and on how many examples
    lock, lock.pid              held while a process writes, and by whom

Files are replaced whole. KEY is a SHA of what the numbers depend on, so an edited case, other weights or other data never reuse them.
"""

import errno
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from ccat.attempts import Attempt, Block, Worst, attempt_key
from ccat.fields import flatten, to_plain
from ccat.files import UNFINISHED, write_whole
from ccat.models import load_model, save_model
from ccat.recipes import Recipe, case_from_plain, identity, recipe_from_plain

SCHEMA = 1
_SCORE = "score "  # before the threat of a detector, in a block

Tensors = dict[str, Tensor]
Files = tuple[tuple[str, bytes], ...]  # names and contents


class StoreError(Exception):
    """Something is wrong with a run directory. The message says what, where, and what to do."""


class NotWrittenError(StoreError, OSError):
    """A disk is full, a directory is gone, a permission was lost. What was stored before stays as it is."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Run:
    """A run directory that exists."""

    path: Path
    recipe: Recipe
    about: Mapping[str, Any]

    # ---- the run itself

    @classmethod
    def create(cls, path: Path, recipe: Recipe, device: str) -> "Run":
        """A new run, or the one that is there if it is of the same recipe."""
        if (path / "run.json").exists():
            run = cls.open(path)
            if run.recipe != recipe:
                raise StoreError(
                    f"{path} holds a run of another recipe ({_difference(run.recipe, recipe)}); choose another --run directory"
                )
            return run
        path.mkdir(parents=True, exist_ok=True)
        if foreign := [file.name for file in path.iterdir() if file.name != "lock" and not file.name.endswith(UNFINISHED)]:
            raise StoreError(f"{path} is not empty and not a run: it holds {foreign[0]}; choose another --run directory")
        versions = {"ccat": version("ccat-torch"), "torch": torch.__version__, "python": platform.python_version()}
        about = {"schema": SCHEMA, "versions": versions, "device": device, "machine": platform.platform()}
        write_whole(path / "run.json", json.dumps({**about, "recipe": to_plain(recipe)}, indent=2).encode())
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> "Run":
        file = path / "run.json"
        if not file.is_file():
            raise StoreError(f"there is no run at {path}: `ccat runs` lists those there are")
        try:
            about = json.loads(file.read_text())
            schema = about["schema"]
        except (ValueError, KeyError, TypeError) as broken:
            raise StoreError(f"{file} is damaged ({broken})") from broken
        if schema != SCHEMA:
            raise StoreError(f"{path} was made by another version of ccat: its schema is {schema}, this is {SCHEMA}")
        try:
            return cls(path, recipe_from_plain(about.pop("recipe")), about)
        except (ValueError, KeyError, TypeError, AttributeError) as unknown:
            raise StoreError(f"{file} holds a recipe that this version cannot read ({unknown})") from unknown

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Only one process at a time writes to a run. The operating system frees the lock of a process that was killed."""
        file = self.path / "lock"
        lock = FileLock(file, mode=0o644)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            holder = _read_text(self.path / "lock.pid")
            raise StoreError(f"{self.path} is in use by another process{holder and f' ({holder})'}: wait for it or stop it") from None
        try:
            with suppress(OSError):  # a full disk should not keep one from pruning
                (self.path / "lock.pid").write_text(f"process {os.getpid()} on {platform.node()}")
            yield
        finally:
            with suppress(OSError):
                (self.path / "lock.pid").unlink()
            lock.release()

    def packed(self) -> Files:
        """What a worker on another machine needs to attack: the recipe, the weights, the detectors."""
        self._require_trained()
        needed = [self.path / "run.json", self.path / "model.safetensors", *sorted((self.path / "detectors").glob("*.safetensors"))]
        return tuple((str(file.relative_to(self.path)), file.read_bytes()) for file in needed)

    @classmethod
    def unpacked(cls, files: Files, path: Path) -> "Run":
        """The same, there."""
        for name, content in files:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(path / name, content)
        return cls.open(path)

    # ---- training

    def log(self) -> list[dict[str, Any]]:
        """What was logged; a line that a kill cut off is left out."""
        entries = []
        for line in _read_text(self.path / "log.jsonl").splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and "epoch" in entry:
                    entries.append(entry)
        return entries

    def rewrite_log(self, entries: list[dict[str, Any]]) -> None:
        self._whole("log.jsonl", "".join(json.dumps({"schema": SCHEMA, **entry}) + "\n" for entry in entries).encode())

    @property
    def events(self) -> Path:
        """Where TensorBoard finds the training."""
        return self.path / "tensorboard"

    def checkpoint(self) -> tuple[Tensors, int] | None:
        """The state after the last finished epoch and its number."""
        if not (self.path / "checkpoint.safetensors").exists():
            return None
        advice = "delete it to train from the beginning"
        tensors, about = self._read("checkpoint.safetensors", advice)
        if not self._is_of_this_recipe(about.get("recipe")) or "epoch" not in about:
            raise StoreError(f"{self.path / 'checkpoint.safetensors'} is not of this run's recipe; {advice}")
        return tensors, int(about["epoch"])

    def save_checkpoint(self, tensors: Tensors, epoch: int) -> None:
        self._write("checkpoint.safetensors", tensors, epoch=epoch, recipe=to_plain(self.recipe))

    def _is_of_this_recipe(self, plain: Any) -> bool:
        """As recipes, not as they are written: one that was stored before a field was added is the same."""
        try:
            return recipe_from_plain(plain) == self.recipe
        except (ValueError, KeyError, TypeError, AttributeError):
            return False

    @property
    def trained(self) -> bool:
        return (self.path / "model.safetensors").exists()

    def save_model(self, model: nn.Module) -> None:
        with self._writing_to("model.safetensors"):
            save_model(model, self.path / "model.safetensors")

    def model(self) -> nn.Module:
        self._require_trained()
        return load_model(self.path / "model.safetensors", factory=self.recipe.model)

    @cached_property
    def weights(self) -> str:
        """A SHA of the weights file."""
        self._require_trained()
        return sha256((self.path / "model.safetensors").read_bytes()).hexdigest()

    def _require_trained(self) -> None:
        if not self.trained:
            raise StoreError(f"{self.path} is not trained yet: the command that began its training goes on with it")

    # ---- clean probabilities

    def clean(self, data: str) -> Tensor | None:
        """The probabilities of the test split, if they are those of these weights and this data."""
        if not (self.path / "clean.safetensors").exists():
            return None
        tensors, about = self._read("clean.safetensors", "delete it, it is computed anew")
        fits = about.get("weights") == self.weights and about.get("data") == data
        return tensors.get("probabilities") if fits else None

    def save_clean(self, probabilities: Tensor, data: str) -> None:
        self._write("clean.safetensors", {"probabilities": probabilities}, weights=self.weights, data=data)

    # ---- attempts

    def has_block(self, attempt: Attempt, block: int) -> bool:
        return (self.path / _block_name(attempt.key, block)).exists()

    def save_block(self, attempt: Attempt, block: int, result: Block) -> None:
        name = _block_name(attempt.key, block)
        about = {"case": to_plain(attempt.case), "restart": attempt.restart, "seed": attempt.seed, "key": attempt.key}
        cost = {"seconds": result.seconds, "forwards": result.forwards, "backwards": result.backwards}
        scores = {f"{_SCORE}{threat}": value for threat, value in (result.scores or {}).items()}
        tensors = {"probabilities": result.probabilities, "value": result.value, **scores}
        self._write(name, tensors, **about, **cost, weights=attempt.weights, data=attempt.data)

    def attempts(self) -> Iterator[tuple[Attempt, list[Block]]]:
        """Every stored attempt with its blocks, from the first one on without a gap; one at a time."""
        for folder in sorted((self.path / "attempts").glob("*")):
            blocks: list[Block] = []
            while (folder / f"{len(blocks):04d}.safetensors").exists():
                name = _block_name(folder.name, len(blocks))
                advice = f"delete it and run `ccat attack {self.path}` again: it is computed anew"
                tensors, about = self._read(name, advice)
                try:
                    against = about["restart"], about["weights"], about["data"], about["seed"]
                    key = attempt_key(identity(about["case"]), *against)
                    attempt = Attempt(case_from_plain(about["case"]), *against, key)
                    cost = about["seconds"], about["forwards"], about["backwards"]
                    scores = {name.removeprefix(_SCORE): value for name, value in tensors.items() if name.startswith(_SCORE)}
                    blocks.append(Block(tensors["probabilities"], tensors["value"], *cost, scores or None))
                except (ValueError, KeyError, TypeError, AttributeError) as foreign:
                    raise StoreError(f"{self.path / name} is not a block of an attempt ({foreign}); {advice}") from foreign
                if key != folder.name:
                    raise StoreError(f"{self.path / name} belongs to another attempt; {advice}")
            if blocks:
                yield attempt, blocks

    def attacked_data(self) -> set[str]:
        """The digests of the data that these weights were attacked on: one, unless it changed under its name."""
        firsts = [_block_name(folder.name, 0) for folder in sorted((self.path / "attempts").glob("*"))]
        abouts = [self._read(name, f"delete it and attack {self.path} again")[1] for name in firsts if (self.path / name).exists()]
        return {about.get("data", "") for about in abouts if about.get("weights") == self.weights}

    def plan(self) -> list[dict[str, Any]]:
        """What was asked for: suite, examples and the keys of its attempts, each time another suite or number."""
        try:
            asked = json.loads(_read_text(self.path / "plan.json") or "[]")
            return [{**one, "suite": one["suite"], "examples": int(one["examples"]), "keys": list(one["keys"])} for one in asked]
        except (ValueError, TypeError, KeyError, AttributeError) as broken:
            raise StoreError(f"{self.path / 'plan.json'} is damaged ({broken}); delete it") from broken

    def add_to_plan(self, suite: str, examples: int, keys: list[str]) -> None:
        """Next to what was asked for before, unless that is a part of it; if it was asked for on more examples, these are still wanted."""
        current = [one for one in self.plan() if one.get("weights") == self.weights]
        if any(set(keys) <= set(one["keys"]) and examples <= one["examples"] for one in current):
            return
        others = [one for one in current if one.get("suite") != suite or not set(one["keys"]) <= set(keys)]
        before = [one["examples"] for one in current if one not in others]
        new = {"schema": SCHEMA, "suite": suite, "examples": max([examples, *before]), "weights": self.weights, "keys": keys}
        self._whole("plan.json", json.dumps([*others, new]).encode())

    def save_evaluation(self, evaluation: Mapping[str, Any]) -> Path:
        """As JSON, where it is found."""
        self._whole("evaluation.json", json.dumps(evaluation, indent=1, allow_nan=False).encode())
        return self.path / "evaluation.json"

    def analysis(self) -> dict[str, Any] | None:
        """What was found, if it is of these weights."""
        file = self.path / "analysis.json"
        if not file.exists():
            return None
        try:
            plain = json.loads(file.read_text())
            return dict(plain) if plain["schema"] == SCHEMA and plain["weights"] == self.weights else None
        except (ValueError, KeyError, TypeError) as broken:
            raise StoreError(f"{file} is damaged ({broken}); delete it, `ccat analyse` makes it anew") from broken

    def save_analysis(self, analysis: Mapping[str, Any]) -> None:
        self._whole("analysis.json", json.dumps({"schema": SCHEMA, **analysis, "weights": self.weights}).encode())

    # ---- corrupted images

    def corrupted(self, name: str, data: str) -> tuple[Tensors, dict[str, Any]] | None:
        """The probabilities of a set by "corruption severity", and how it was made; if they are of these weights and this data."""
        file = f"corrupted/{name}.safetensors"
        if not (self.path / file).exists():
            return None
        tensors, about = self._read(file, "delete it, `ccat corrupt` makes it anew")
        fits = about.get("weights") == self.weights and about.get("data") == data
        return (tensors, about.get("made", {})) if fits else None

    def save_corrupted(self, name: str, probabilities: Tensors, data: str, made: Mapping[str, Any]) -> None:
        self._write(f"corrupted/{name}.safetensors", probabilities, weights=self.weights, data=data, made=dict(made))

    def corrupted_sets(self) -> list[str]:
        return sorted(file.stem for file in (self.path / "corrupted").glob("*.safetensors"))

    # ---- perturbations

    def worst(self, threat: str, block: int, data: str) -> Worst | None:
        """The worst perturbations of a block, if they are of these weights and this data."""
        name = _worst_name(threat, block)
        if not (self.path / name).exists():
            return None
        tensors, about = self._read(name, "delete it and attack again")
        if about.get("weights") != self.weights or about.get("data") != data:
            return None
        try:
            return Worst(tensors["delta"], tensors["rank"], tensors["by"], frozenset(about["of"]))
        except (KeyError, TypeError) as foreign:
            raise StoreError(f"{self.path / name} does not hold perturbations ({foreign}); delete it and attack again") from foreign

    def save_worst(self, threat: str, block: int, worst: Worst, data: str) -> None:
        name = _worst_name(threat, block)
        tensors = {"delta": worst.delta, "rank": worst.rank, "by": worst.by}
        self._write(name, tensors, weights=self.weights, data=data, of=sorted(worst.of))

    # ---- detectors

    def detectors(self) -> dict[str, Tensors]:
        """By the threats they were fitted for; those of other weights are refused."""
        found = {}
        for file in sorted((self.path / "detectors").glob("*.safetensors")):
            tensors, about = self._read(f"detectors/{file.name}", "delete it, it is fitted anew")
            if about.get("weights") != self.weights:
                raise StoreError(f"{file} was fitted on another model: delete it, it is fitted anew")
            found[str(about["threat"])] = tensors
        return found

    def first_detector(self) -> str:
        """The threat of the one that was fitted first."""
        for file in sorted((self.path / "detectors").glob("*.safetensors")):
            about = self._read(f"detectors/{file.name}", "delete it, it is fitted anew")[1]
            if about.get("first"):
                return str(about["threat"])
        raise StoreError(f"{self.path} has no detector yet: `ccat attack {self.path}` fits them")

    def save_detector(self, threat: str, tensors: Tensors, *, first: bool) -> None:
        self._write(f"detectors/{_file_name(threat)}.safetensors", tensors, weights=self.weights, threat=threat, first=first)

    def scored_by(self, attempt: Attempt, block: int) -> set[str]:
        """The detectors that judged a stored block."""
        tensors, _ = self._read(_block_name(attempt.key, block), f"delete it and attack {self.path} again")
        return {name.removeprefix(_SCORE) for name in tensors if name.startswith(_SCORE)}

    def clean_scores(self, threat: str, data: str) -> Tensor | None:
        """Of the test split, by the detector for a threat."""
        name = f"scores/{_file_name(threat)}.safetensors"
        if not (self.path / name).exists():
            return None
        tensors, about = self._read(name, "delete it, it is computed anew")
        fits = about.get("weights") == self.weights and about.get("data") == data
        return tensors.get("scores") if fits else None

    def save_clean_scores(self, threat: str, scores: Tensor, data: str) -> None:
        self._write(f"scores/{_file_name(threat)}.safetensors", {"scores": scores}, weights=self.weights, data=data)

    # ---- housekeeping

    def disk_use(self) -> dict[str, int]:
        """Bytes by what they are for."""
        use: dict[str, int] = {}
        for file in self.path.rglob("*"):
            if file.is_file():
                top = file.relative_to(self.path).parts[0].removesuffix(".safetensors")
                kind = "unfinished" if file.name.endswith(UNFINISHED) else top
                use[kind] = use.get(kind, 0) + file.stat().st_size
        return use

    def prune(self) -> int:
        """Deletes what is no longer needed: unfinished files, the checkpoint of a finished training, results of other weights."""
        before = sum(self.disk_use().values())
        for file in self.path.rglob(f".*{UNFINISHED}"):
            file.unlink()
        if self.trained:
            (self.path / "checkpoint.safetensors").unlink(missing_ok=True)
            for attempt, _ in list(self.attempts()):
                if attempt.weights != self.weights:
                    shutil.rmtree(self.path / "attempts" / attempt.key)
            for file in (self.path / "worst").rglob("*.safetensors"):
                _, about = self._read(str(file.relative_to(self.path)), "delete it")
                if about.get("weights") != self.weights:
                    file.unlink()
        return before - sum(self.disk_use().values())

    # ---- safetensors with a schema

    def _write(self, name: str, tensors: Tensors, **about: object) -> None:
        text = json.dumps({"schema": SCHEMA, **about})  # one entry of metadata: several would be written in any order
        self._whole(name, save({key: value.contiguous() for key, value in tensors.items()}, {"ccat": text}))

    def _whole(self, name: str, content: bytes) -> None:
        with self._writing_to(name):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / name, content)

    @contextmanager
    def _writing_to(self, name: str) -> Iterator[None]:
        """Into a run that is still there; says what keeps a file from being written."""
        if not (self.path / "run.json").exists():
            raise NotWrittenError(f"{self.path} is gone, or its run.json is: it was moved or deleted while it was written to")
        try:
            yield
        except OSError as failed:
            why = "the disk is full" if failed.errno in (errno.ENOSPC, errno.EDQUOT) else (failed.strerror or str(failed)).lower()
            raise NotWrittenError(
                f"{self.path / name} cannot be written: {why}. What was stored before stays; the same command goes on once that is mended"
            ) from failed

    def _read(self, name: str, advice: str) -> tuple[Tensors, dict[str, Any]]:
        file = self.path / name
        content = file.read_bytes()
        try:
            tensors = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            about = json.loads(header.get("__metadata__", {}).get("ccat", "{}"))
            about = about if isinstance(about, dict) else {}
        except (SafetensorError, ValueError) as broken:
            raise StoreError(f"{file} is damaged ({broken}); {advice}") from broken
        if about.get("schema") != SCHEMA:
            raise StoreError(f"{file} was not written by this version of ccat (its schema is {about.get('schema')}); {advice}")
        return tensors, about


def find_runs(root: Path) -> list[Path]:
    """Where there are runs below a directory, by name."""
    return [file.parent for file in sorted(root.rglob("run.json"))]


def _block_name(key: str, block: int) -> str:
    return f"attempts/{key}/{block:04d}.safetensors"


def _worst_name(threat: str, block: int) -> str:
    return f"worst/{_file_name(threat)}/{block:04d}.safetensors"


def _file_name(threat: str) -> str:
    return threat.replace(":", "-").replace("/", "-")


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _difference(old: Recipe, new: Recipe) -> str:
    before, after = flatten(old), flatten(new)
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    return ", ".join(f"{name} is {before.get(name, 'absent')}, not {after.get(name, 'absent')}" for name in sorted(changed)[:3])
