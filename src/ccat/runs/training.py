"""What training leaves in a run: a log, a checkpoint, and the model.

log.jsonl                   one line per epoch
tensorboard/                the same as event files, if asked for
checkpoint.safetensors      after every epoch: weights, momentum, random state
model.safetensors           the trained model
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from ccat import codec
from ccat.models import load_model, save_model
from ccat.runs.folder import SCHEMA, Folder, RunError, Tensors
from ccat.training import Recipe

LOG, CHECKPOINT, MODEL = "log.jsonl", "checkpoint.safetensors", "model.safetensors"


@dataclass(frozen=True)
class TrainingFiles:
    """The files that training reads and writes."""

    folder: Folder
    recipe: Recipe

    @property
    def trained(self) -> bool:
        """True once there is a trained model."""
        return self.folder.has(MODEL)

    @property
    def events(self) -> Path:
        """Where TensorBoard finds the training."""
        return self.folder.path / "tensorboard"

    def log(self) -> list[dict[str, Any]]:
        """The entries of the log, one per epoch, without a line that a kill has cut off."""
        entries = []
        for line in self.folder.text(LOG).splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and "epoch" in entry:
                    entries.append(entry)
        return entries

    def save_log(self, entries: list[dict[str, Any]]) -> None:
        """Replace the log."""
        lines = [json.dumps({"schema": SCHEMA, **entry}) + "\n" for entry in entries]
        self.folder.write(LOG, "".join(lines).encode())

    def checkpoint(self) -> tuple[Tensors, int] | None:
        """The state after the last finished epoch, and its number; None if there is none.

        Raises:
            RunError: If it is damaged, or of another recipe.
        """
        advice = "delete it to train from the beginning"
        if not self.folder.has(CHECKPOINT):
            return None
        tensors, about = self.folder.tensors(CHECKPOINT, advice)
        if not self._is_recipe(about.get("recipe")) or "epoch" not in about:
            file = self.folder.path / CHECKPOINT
            raise RunError(f"{file} does not belong to this run's recipe; {advice}")
        return tensors, int(about["epoch"])

    def save_checkpoint(self, tensors: Tensors, epoch: int) -> None:
        """Replace the checkpoint."""
        self.folder.write_tensors(
            CHECKPOINT, tensors, epoch=epoch, recipe=codec.encode(self.recipe)
        )

    def save_model(self, model: nn.Module) -> None:
        """Write the trained model."""
        with self.folder.writing(MODEL):
            save_model(model, self.folder.path / MODEL)

    def model(self) -> nn.Module:
        """Load the trained model on the CPU, in evaluation mode.

        Raises:
            RunError: If it is not trained yet.
            UntrustedError: If a factory outside of ccat makes it, which nobody has trusted.
        """
        self.require_trained()
        return load_model(self.folder.path / MODEL, factory=self.recipe.model)

    def holds(self, content: bytes) -> bool:
        """True if the trained model's file has exactly this content."""
        return (self.folder.path / MODEL).read_bytes() == content

    @cached_property
    def weights(self) -> str:
        """A SHA-256 of the weights file.

        Raises:
            RunError: If the run is not trained yet.
        """
        self.require_trained()
        return sha256((self.folder.path / MODEL).read_bytes()).hexdigest()

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
