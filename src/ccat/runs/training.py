"""What training leaves in a run: a log, a checkpoint, and the model.

log.jsonl                   one line per epoch, without its seconds
tensorboard/                the same as event files, if asked for
checkpoint.safetensors      after every epoch: weights, momentum, random state
model.safetensors           the trained model
trained.json                a SHA-256 of the trained model, written after it
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from ccat import codec
from ccat.models import load_model, save_model
from ccat.runs.folder import LOG, TIMINGS, TRAINED, Folder, NotWrittenError, RunError
from ccat.sealed import Tensors
from ccat.training import Recipe

CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"
_SECONDS = "training_seconds"  # of an epoch
_RESTORE = f"restore it from a copy, or delete {TRAINED} and rerun the command that made the run"


@dataclass(frozen=True)
class TrainingFiles:
    """The files that training reads and writes."""

    folder: Folder
    recipe: Recipe

    @property
    def trained(self) -> bool:
        """True once there is a trained model."""
        return self.folder.has(TRAINED)

    @property
    def events(self) -> Path:
        """Where TensorBoard finds the training."""
        path = self.folder.path / "tensorboard"
        if path.is_symlink():
            raise NotWrittenError(f"{path} is a link, and ccat writes inside of a run only")
        return path

    def log(self) -> list[dict[str, Any]]:
        """The entries of the log, one per epoch.

        Raises:
            RunError: If it is damaged.
        """
        advice = "restore it from a copy, or delete it"
        entries = self.folder.json_lines(LOG, advice)
        numbers = [entry.get("epoch") for entry in entries]
        first = numbers[0] if numbers else 1
        whole = not (numbers and self.trained) or numbers[-1] == self.recipe.epochs
        in_order = isinstance(first, int) and numbers == list(range(first, first + len(numbers)))
        if not whole or not in_order:
            file = self.folder.path / LOG
            raise RunError(f"{file} is damaged (epochs are missing, or out of order); {advice}")
        return entries

    def save_log(self, entries: list[dict[str, Any]]) -> None:
        """Replace the log; the seconds of its last epoch go to the run's timings."""
        kept = [{name: one[name] for name in one if name != _SECONDS} for one in entries]
        self.folder.write_lines(LOG, kept)
        if entries and _SECONDS in entries[-1]:
            timing = {name: entries[-1][name] for name in ("epoch", _SECONDS)}
            self.folder.append_line(TIMINGS, timing)

    def checkpoint(self) -> tuple[Tensors, int] | None:
        """The state after the last finished epoch, and its number; None if there is none.

        Raises:
            RunError: If it is damaged, or of another recipe.
        """
        advice = "delete it to train from the beginning"
        if not self.folder.has(CHECKPOINT):
            return None
        tensors, about = self.folder.tensors(CHECKPOINT, advice)
        epoch = about.get("epoch")
        if not self._is_recipe(about.get("recipe")) or not isinstance(epoch, int):
            file = self.folder.path / CHECKPOINT
            raise RunError(f"{file} does not belong to this run's recipe; {advice}")
        if not 0 <= epoch <= self.recipe.epochs or "generator" not in tensors:
            file = self.folder.path / CHECKPOINT
            raise RunError(f"{file} is not complete, or of epoch {epoch}; {advice}")
        return tensors, epoch

    def save_checkpoint(self, tensors: Tensors, epoch: int) -> None:
        """Replace the checkpoint."""
        self.folder.write_tensors(
            CHECKPOINT, tensors, epoch=epoch, recipe=codec.encode(self.recipe)
        )

    def save_model(self, model: nn.Module) -> None:
        """Write the trained model, and then its digest, which makes the run a trained one."""
        with self.folder.writing(MODEL):
            save_model(model, self.folder.path / MODEL)
        weights = sha256(self.folder.read(MODEL, _RESTORE)).hexdigest()
        self.folder.write_json(TRAINED, {"recipe": codec.encode(self.recipe), "weights": weights})

    def model(self) -> nn.Module:
        """Load the trained model on the CPU, in evaluation mode.

        Raises:
            RunError: If it is not trained yet.
            UntrustedError: If a factory outside of ccat makes it, which nobody has trusted.
        """
        self.require_intact()
        return load_model(self.folder.path / MODEL, factory=self.recipe.model)

    @property
    def size(self) -> int:
        """How many bytes the trained model's file has."""
        return len(self.folder.read(MODEL, _RESTORE))

    def holds(self, content: bytes) -> bool:
        """True if the trained model's file has exactly this content."""
        return self.weights == sha256(content).hexdigest()

    @cached_property
    def weights(self) -> str:
        """A SHA-256 of the weights file.

        Raises:
            RunError: If the run is not trained yet, or the file is not the one that was trained.
        """
        self.require_trained()
        trained = self.folder.json(TRAINED, _RESTORE) or {}
        if not self._is_recipe(trained.get("recipe")):
            file = self.folder.path / TRAINED
            raise RunError(f"{file} belongs to a run of another recipe; {_RESTORE}")
        weights = sha256(self.folder.read(MODEL, _RESTORE)).hexdigest()
        if weights != trained.get("weights"):
            file = self.folder.path / MODEL
            raise RunError(f"{file} is damaged (it is not the model that was trained); {_RESTORE}")
        return weights

    def require_intact(self) -> None:
        """Raise a RunError unless the model's file is the one that was trained."""
        if not self.weights:
            raise RunError(f"{self.folder.path / TRAINED} names no weights; {_RESTORE}")

    def require_trained(self) -> None:
        """Raise a RunError unless there is a trained model."""
        if not self.trained:
            raise RunError(
                f"{self.folder.path} is not trained yet: rerun the `ccat train` that began it"
            )

    def _is_recipe(self, plain: Any) -> bool:
        """True if plain data is this recipe, also if it was stored before a field was added."""
        try:
            return bool(codec.encode(codec.decode(plain, Recipe)) == codec.encode(self.recipe))
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
