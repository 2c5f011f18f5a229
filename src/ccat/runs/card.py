"""The card of a run: card.json, sealed, and the same to read, card.md and card.html."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccat.runs.folder import Folder

_JSON = "card.json"
_TEXTS = ("card.md", "card.html")
_ADVICE = "`ccat benchmark` writes it again"


@dataclass(frozen=True)
class CardFiles:
    """What `ccat benchmark` writes into a run."""

    folder: Folder

    def read(self) -> dict[str, Any] | None:
        """The stored card; None if there is none.

        Raises:
            RunError: If it is damaged.
        """
        return self.folder.json(_JSON, _ADVICE)

    def texts(self) -> dict[str, str]:
        """What stands in the files to read, by the ending of their names.

        Raises:
            RunError: If one is missing or not a text.
        """
        found = {}
        for name in _TEXTS:
            with self.folder.reading(name, _ADVICE):
                found[name.rpartition(".")[2]] = self.folder.read(name, _ADVICE).decode()
        return found

    def save(self, plain: Mapping[str, Any], texts: Mapping[str, str]) -> Path:
        """Store a card, the files to read first, and return where the Markdown lies."""
        for name in _TEXTS:
            self.folder.write(name, texts[name.rpartition(".")[2]].encode())
        self.folder.write_json(_JSON, plain)
        return self.folder.path / _TEXTS[0]
