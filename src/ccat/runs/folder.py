"""Files of a run: sealed, written whole, and read with care.

Every file says which file of which schema it is, and carries a digest of its content: one that was
changed, swapped with another or replaced by a link is refused by name.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccat import sealed
from ccat.errors import CcatError
from ccat.files import write_whole
from ccat.sealed import Tensors

SCHEMA = 2
RUN_FILE = "run.json"
LOG, TRAINED, PLAN, PLANTED = "log.jsonl", "trained.json", "plan.json", "planted.json"
TIMINGS = "timings.jsonl"  # seconds of what was computed; nothing else depends on this file


class RunError(CcatError):
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
        """True if there is something of this name, be it a broken link."""
        return os.path.lexists(self.path / name)

    def names(self, pattern: str) -> list[str]:
        """The names of all files that match a pattern, sorted; unfinished ones are left out."""
        found = (file.relative_to(self.path).as_posix() for file in self.path.glob(pattern))
        return sorted(name for name in found if not name.rpartition("/")[2].startswith("."))

    def read(self, name: str, advice: str) -> bytes:
        """The content of a file.

        Raises:
            RunError: If it cannot be read; `advice` says what to do.
        """
        with self.reading(name, advice):
            return sealed.read_plain(self.path / name)

    def json(self, name: str, advice: str) -> dict[str, Any] | None:
        """The content of a sealed JSON file, None if there is no such file.

        Raises:
            RunError: If it is damaged, or of another schema; `advice` says what to do.
        """
        if not self.has(name):
            return None
        with self.reading(name, advice):
            content = sealed.read_plain(self.path / name, sealed.MOST_JSON)
            plain = sealed.parse_json(content)
            self._require_schema(
                name, plain.get("schema") if isinstance(plain, dict) else None, advice
            )
            return self._own(name, sealed.unseal(plain))

    def json_lines(self, name: str, advice: str) -> list[dict[str, Any]]:
        """The sealed objects of a file that has one in each line; none if there is no such file.

        Raises:
            RunError: If a line is damaged; `advice` says what to do.
        """
        if not self.has(name):
            return []
        with self.reading(name, advice):
            lines = sealed.read_plain(self.path / name, sealed.MOST_JSON).splitlines()
            if not lines:
                raise ValueError("it is empty")
            return [self._own(name, sealed.unseal(sealed.parse_json(line))) for line in lines]

    def readable_lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The sealed objects of a file of lines that nothing depends on; others are left out."""
        lines: list[bytes] = []
        with suppress(OSError, ValueError):
            lines = sealed.read_plain(self.path / name, sealed.MOST_JSON).splitlines()
        for line in lines:
            with suppress(ValueError):
                yield self._own(name, sealed.unseal(sealed.parse_json(line)))

    def tensors(self, name: str, advice: str) -> tuple[Tensors, dict[str, Any]]:
        """The tensors of a file and what it says about them.

        Raises:
            RunError: If it is damaged, of another schema, or another file; `advice` says what to
                do.
        """
        with self.reading(name, advice):
            tensors, about = sealed.unpack(sealed.read_plain(self.path / name))
            self._require_schema(name, about.get("schema"), advice)
            return tensors, self._own(name, about)

    def about(self, name: str, advice: str) -> dict[str, Any]:
        """What a file says about its tensors, without reading them; raises as `tensors` does."""
        with self.reading(name, advice):
            about = sealed.about(self.path / name)
            self._require_schema(name, about.get("schema"), advice)
            return self._own(name, about)

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

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a sealed JSON file; numbers that are not finite are refused."""
        self.write(name, self._sealed(name, value))

    def write_lines(self, name: str, values: list[dict[str, Any]]) -> None:
        """Write a file with a sealed JSON object in each line."""
        self.write(name, b"".join(self._sealed(name, value) for value in values))

    def append_line(self, name: str, value: dict[str, Any]) -> None:
        """Add a line to a file that nothing depends on; where that fails, it is left out."""
        with suppress(OSError, RunError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | sealed.NO_LINKS
            with os.fdopen(os.open(self.path / name, flags, 0o644), "ab") as file:
                file.write(self._sealed(name, value))

    def write_tensors(self, name: str, tensors: Tensors, **about: object) -> None:
        """Write a sealed file of tensors, with what is to be known of them."""
        self.write(name, sealed.pack(tensors, {**self._header(name), **about}))

    @contextmanager
    def reading(self, name: str, advice: str) -> Iterator[None]:
        """Turn what keeps a file from being read, or lacks in what was read, into a sentence."""
        try:
            yield
        except sealed.NotSealedError as other:
            self._require_schema(name, other.schema, advice)
            raise RunError(f"{self.path / name} is damaged ({other}); {advice}") from other
        except KeyError as missing:
            why = f"it has no {missing.args[0]}"
            raise RunError(f"{self.path / name} is damaged ({why}); {advice}") from missing
        except (OSError, ValueError, TypeError, AttributeError, OverflowError) as broken:
            why = (isinstance(broken, OSError) and broken.strerror) or str(broken)
            raise RunError(f"{self.path / name} is damaged ({why}); {advice}") from broken

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Turn what keeps a file from being written into a sentence."""
        if not self.has(RUN_FILE):
            raise NotWrittenError(
                f"{self.path} is gone, or its {RUN_FILE} is: it was moved or deleted meanwhile"
            )
        for parent in Path(name).parents[:-1]:
            if (self.path / parent).is_symlink():
                raise NotWrittenError(
                    f"{self.path / parent} is a link, and ccat writes inside of a run only: "
                    f"replace it by the folder it leads to"
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

    def _header(self, name: str) -> dict[str, Any]:
        return {"schema": SCHEMA, "file": name}

    def _sealed(self, name: str, value: Mapping[str, Any]) -> bytes:
        """Return a sealed JSON object as one line."""
        content = json.loads(json.dumps({**self._header(name), **value}, allow_nan=False))
        return f"{json.dumps(sealed.seal(content))}\n".encode()

    def _own(self, name: str, about: dict[str, Any]) -> dict[str, Any]:
        """Return what a file says, without what every file says, if it is the file of this name."""
        if about.get("file") != name:
            raise ValueError(f"it is {about.get('file')!r}, moved or copied here")
        return {key: value for key, value in about.items() if key not in ("schema", "file")}

    def _require_schema(self, name: str, schema: Any, advice: str) -> None:
        if schema is not None and schema != SCHEMA:
            raise RunError(
                f"{self.path / name} was written by another version of ccat (schema {schema}, "
                f"this version reads {SCHEMA}); {advice}"
            )


def file_name(text: str) -> str:
    """A text, such as a threat, as the name of a file."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in text)
