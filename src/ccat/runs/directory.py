"""The run directory: everything a model is, was trained with, and was attacked with.

    run.json                    schema, recipe, what rejects, versions, device
    evaluation.json             what `ccat evaluate` made of it; its headline is headline.json
    analysis.json               what `ccat analyse` found
    lock, lock.pid              held while a process writes, and by whom
    trash/                      what `ccat prune` has taken away
    …                           see training.py, attempts.py and answers.py beside this file

No other room knows a file name. Files are replaced whole.
"""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from ccat import codec, extensions, sealed
from ccat.evaluation.results import Analysis
from ccat.files import UNFINISHED, write_whole
from ccat.overrides import flatten
from ccat.rejection import Confidence, Rejection
from ccat.runs.answers import AnswerFiles
from ccat.runs.attempts import AttemptFiles
from ccat.runs.card import CardFiles
from ccat.runs.certificates import CertificateFiles
from ccat.runs.classifier import ClassifierFile
from ccat.runs.find import is_run
from ccat.runs.folder import RUN_FILE, SCHEMA, TRAINED, Folder, NotWrittenError, RunError
from ccat.runs.glance import save_headline
from ccat.runs.plan import PlanFile
from ccat.runs.planted import PlantedFile
from ccat.runs.training import MODEL, TrainingFiles
from ccat.threats import Threat, UnknownThreat, label, read_threat
from ccat.training import Recipe

EVALUATION, _ANALYSIS, _LOCK, _HOLDER = "evaluation.json", "analysis.json", "lock", "lock.pid"
Files = tuple[tuple[str, bytes], ...]  # names and contents


@dataclass(frozen=True)
class Run:
    """A run directory that exists: a recipe, what rejects, and what was computed so far."""

    path: Path
    recipe: Recipe
    rejection: Rejection
    about: Mapping[str, Any]

    @classmethod
    def create(
        cls, path: Path, recipe: Recipe, device: str, rejection: Rejection | None = None
    ) -> "Run":
        """Make a run, or open the one that is there if it is of the same recipe.

        Raises:
            RunError: If the directory holds something else.
            ValueError: If the recipe cannot be stored.
        """
        rejection = rejection or Confidence()
        codec.require_storable(recipe, Recipe)
        if is_run(path):
            run = cls.open(path)
            if (run.recipe, run.rejection) != (recipe, rejection):
                difference = _difference(run, recipe, rejection)
                raise RunError(
                    f"{path} holds a run of another recipe ({difference}); choose another "
                    f"--run directory"
                )
            return run
        path.mkdir(parents=True, exist_ok=True)
        others = [one.name for one in path.iterdir() if not one.name.endswith(UNFINISHED)]
        if others := [name for name in others if name != _LOCK]:
            raise RunError(
                f"{path} is not empty and not a run: it holds {others[0]}; choose another --run "
                f"directory"
            )
        versions = {
            "ccat": version("ccat-torch"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        about = {
            "schema": SCHEMA,
            "versions": versions,
            "device": device,
            "machine": platform.platform(),
            "seen": [label(threat) for threat in recipe.method.threats],
            "rejection": codec.encode(rejection),
            "recipe": codec.encode(recipe),
        }
        content = sealed.seal(json.loads(json.dumps({"file": RUN_FILE, **about})))
        write_whole(path / RUN_FILE, json.dumps(content, indent=2).encode())
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Open a run. Classes outside of ccat that it names are not imported unless trusted.

        Raises:
            RunError: If there is none, or this version cannot read it.
        """
        file = path / RUN_FILE
        advice = "restore it from a copy"
        extensions.distrust_below(path)
        if not is_run(path):
            raise RunError(f"there is no run at {path}: `ccat runs` lists those there are")
        with Folder(path).reading(RUN_FILE, advice):
            plain = sealed.parse_json(sealed.read_plain(file, sealed.MOST_JSON))
            if not isinstance(plain, dict) or "schema" not in plain:
                raise ValueError("it names no schema")
        if plain["schema"] != SCHEMA:
            raise RunError(_of_another_version(path, plain))
        about = Folder(path).json(RUN_FILE, advice) or {}
        try:
            recipe = codec.decode(about.pop("recipe"), Recipe)
            rejection = codec.decode(about.pop("rejection"), Rejection)
        except (ValueError, KeyError, TypeError, AttributeError) as unknown:
            raise RunError(f"{file} holds a recipe that cannot be read ({unknown})") from unknown
        if not isinstance(recipe, Recipe):
            raise RunError(f"{file} holds a {type(recipe).__name__} in place of a recipe")
        return cls(path, recipe, rejection, about)

    @property
    def seen(self) -> tuple[Threat | UnknownThreat, ...]:
        """The threats that training has seen."""
        return tuple(read_threat(text) for text in self.about.get("seen", ()))

    @property
    def folder(self) -> Folder:
        """The files of the run."""
        return Folder(self.path)

    @cached_property
    def training(self) -> TrainingFiles:
        """What training reads and writes."""
        return TrainingFiles(self.folder, self.recipe)

    @property
    def attempts(self) -> AttemptFiles:
        """What attacks read and write."""
        return AttemptFiles(self.folder)

    @property
    def plan(self) -> PlanFile:
        """Which suites were asked for."""
        return PlanFile(self.folder)

    @property
    def planted(self) -> PlantedFile:
        """How many planted errors attacks found."""
        return PlantedFile(self.folder, self.weights)

    @property
    def card(self) -> CardFiles:
        """The model card that `ccat benchmark` writes."""
        return CardFiles(self.folder)

    @property
    def classifier(self) -> ClassifierFile:
        """The thresholds that were chosen for use."""
        return ClassifierFile(self.folder, self.weights)

    @property
    def certificates(self) -> CertificateFiles:
        """The worst that is possible, as far as it was proved."""
        return CertificateFiles(self.folder, self.weights)

    @property
    def answers(self) -> AnswerFiles:
        """What the trained model answers to clean and corrupted images, and its detectors."""
        return AnswerFiles(self.folder, self.weights)

    @property
    def weights(self) -> str:
        """A SHA-256 of the weights of the trained model."""
        return self.training.weights

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let only one process at a time write; the system frees the lock of a killed one.

        Raises:
            RunError: If another process is writing.
        """
        lock = FileLock(self.path / _LOCK, mode=0o644)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            holder = self._holder()
            raise RunError(
                f"{self.path} is in use by another process{holder and f' ({holder})'}: wait for "
                f"it or stop it"
            ) from None
        except OSError as refused:
            why = (refused.strerror or str(refused)).lower()
            raise NotWrittenError(
                f"{self.path / _LOCK} cannot be locked ({why}): see that you may write to the run, "
                f"and delete the file if it is a link"
            ) from refused
        try:
            with suppress(OSError):  # a full disk must not keep anyone from pruning
                holder = f"process {os.getpid()} on {platform.node()}"
                write_whole(self.path / _HOLDER, holder.encode())
            yield
        finally:
            with suppress(OSError):
                (self.path / _HOLDER).unlink()
            lock.release()

    def packed(self) -> Files:
        """Return what a worker on another machine needs: recipe, weights and detectors."""
        self.training.require_trained()
        names = [RUN_FILE, MODEL, TRAINED, *self.folder.names("detectors/*.safetensors")]
        return tuple((name, self.folder.read(name, "restore it")) for name in names)

    @classmethod
    def unpacked(cls, files: Files, path: Path) -> "Run":
        """Write packed files to a directory of this machine and open it as a run."""
        for name, content in files:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(path / name, content)
        return cls.open(path)

    def save_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Store an evaluation as JSON, with its headline beside it."""
        content = json.dumps(evaluation, separators=(",", ":"), allow_nan=False)
        self.folder.write(EVALUATION, content.encode())
        save_headline(self.folder, evaluation)

    def evaluation(self) -> dict[str, Any] | None:
        """What `ccat evaluate --format json` prints of this run, as it was stored; None if not."""
        if not self.folder.has(EVALUATION):
            return None
        with self.folder.reading(EVALUATION, "`ccat evaluate` makes it anew"):
            plain = sealed.parse_json(self.folder.read(EVALUATION, "`ccat evaluate` makes it anew"))
            if not isinstance(plain, dict):
                raise ValueError("it holds no evaluation")
            return plain

    def analysis(self) -> Analysis | None:
        """The stored analysis; None if there is none of these weights.

        Raises:
            RunError: If it is damaged.
        """
        advice = "delete it, `ccat analyse` makes it anew"
        plain = self.folder.json(_ANALYSIS, advice)
        if plain is None or plain.get("weights") != self.weights:
            return None
        with self.folder.reading(_ANALYSIS, advice):
            return Analysis.from_plain(plain)

    def save_analysis(self, analysis: Analysis) -> None:
        """Store an analysis of these weights."""
        self.folder.write_json(_ANALYSIS, {**asdict(analysis), "weights": self.weights})

    def disk_use(self) -> dict[str, int]:
        """Bytes by what they are for."""
        use: dict[str, int] = {}
        for file in self.path.rglob("*"):
            if file.is_file():
                top = file.relative_to(self.path).parts[0].removesuffix(".safetensors")
                kind = "unfinished" if file.name.endswith(UNFINISHED) else top
                use[kind] = use.get(kind, 0) + file.stat().st_size
        return use

    def _holder(self) -> str:
        """Return who holds the lock, in words; empty if that is not known."""
        try:
            return sealed.read_plain(self.path / _HOLDER, most=1000).decode(errors="replace")
        except (OSError, ValueError):
            return ""


def _of_another_version(path: Path, about: Mapping[str, Any]) -> str:
    made_by = about.get("versions", {})
    by = made_by.get("ccat", "?") if isinstance(made_by, dict) else "?"
    return (
        f"{path} was made by ccat {by} in schema {about['schema']}, and this version reads schema "
        f"{SCHEMA} only: make the run again with `ccat train`, or read it with the version that "
        f"made it"
    )


def _difference(run: Run, recipe: Recipe, rejection: Rejection) -> str:
    before = flatten(run.recipe) | {"rejection": repr(run.rejection)}
    after = flatten(recipe) | {"rejection": repr(rejection)}
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    texts = [f"{n} is {before.get(n, 'absent')}, not {after.get(n, 'absent')}" for n in changed]
    return ", ".join(texts[:3]) or "another class"
