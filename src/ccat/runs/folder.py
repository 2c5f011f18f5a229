"""Files of a run: written whole, each with the schema it was written in, and read with care."""

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ccat.files import write_whole

SCHEMA = 2
RUN_FILE = "run.json"

Tensors = dict[str, Tensor]


class RunError(Exception):
    """Something is wrong with a run directory; the message says what, where, and what to do."""


class NotWrittenError(RunError, OSError):
    """A file of a run cannot be written. What was stored before stays as it is."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Folder:
    """The files below a run directory, by their names relative to it."""

    path: Path

    def has(self, name: str) -> bool:
        """True if the file exists."""
        return (self.path / name).exists()

    def names(self, pattern: str) -> list[str]:
        """The names of all files that match a pattern, sorted."""
        return sorted(str(file.relative_to(self.path)) for file in self.path.glob(pattern))

    def text(self, name: str) -> str:
        """The content of a text file; empty if it cannot be read."""
        try:
            return (self.path / name).read_text()
        except OSError:
            return ""

    def json(self, name: str, advice: str) -> Any:
        """The content of a JSON file, None if there is no such file.

        Raises:
            RunError: If it is damaged; `advice` says what to do.
        """
        if not self.has(name):
            return None
        try:
            return json.loads((self.path / name).read_text())
        except ValueError as broken:
            raise RunError(f"{self.path / name} is damaged ({broken}); {advice}") from broken

    def tensors(self, name: str, advice: str) -> tuple[Tensors, dict[str, Any]]:
        """The tensors of a file and what it says about them.

        Raises:
            RunError: If it is damaged, or of another schema; `advice` says what to do.
        """
        file = self.path / name
        content = file.read_bytes()
        try:
            tensors = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            about = json.loads(header.get("__metadata__", {}).get("ccat", "{}"))
            about = about if isinstance(about, dict) else {}
        except (SafetensorError, ValueError) as broken:
            raise RunError(f"{file} is damaged ({broken}); {advice}") from broken
        if about.get("schema") != SCHEMA:
            raise RunError(
                f"{file} was written by another version of ccat (schema {about.get('schema')}, "
                f"this version reads {SCHEMA}); {advice}"
            )
        return tensors, about

    def tensors_of(
        self, name: str, advice: str, expected: Mapping[str, Any]
    ) -> tuple[Tensors, dict[str, Any]] | None:
        """As `tensors`, but None if the file is missing or says something else than expected."""
        if not self.has(name):
            return None
        tensors, about = self.tensors(name, advice)
        fits = all(about.get(key) == value for key, value in expected.items())
        return (tensors, about) if fits else None

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole, or leave the old one.

        Raises:
            NotWrittenError: Says what keeps it from being written.
        """
        with self.writing(name):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / name, content)

    def write_json(self, name: str, value: Any, indent: int | None = None) -> None:
        """Write a JSON file whole; numbers that are not finite are refused."""
        self.write(name, json.dumps(value, indent=indent, allow_nan=False).encode())

    def write_tensors(self, name: str, tensors: Tensors, **about: object) -> None:
        """Write tensors with what is to be known of them."""
        text = json.dumps({"schema": SCHEMA, **about})  # one entry: several have no fixed order
        contiguous = {key: value.contiguous() for key, value in tensors.items()}
        self.write(name, save(contiguous, {"ccat": text}))

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Turn what keeps a file from being written into a sentence."""
        if not self.has(RUN_FILE):
            raise NotWrittenError(
                f"{self.path} is gone, or its {RUN_FILE} is: it was moved or deleted meanwhile"
            )
        try:
            yield
        except OSError as failed:
            full = failed.errno in (errno.ENOSPC, errno.EDQUOT)
            why = "the disk is full" if full else (failed.strerror or str(failed)).lower()
            raise NotWrittenError(
                f"{self.path / name} cannot be written: {why}. Existing results are intact; fix "
                f"this and rerun the same command"
            ) from failed


def file_name(text: str) -> str:
    """A text, such as a threat, as the name of a file."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in text)
