"""A run at a glance, without torch: what it is, how far it is, Err and RErr.

headline.json       Err and the rates under attack of evaluation.json, and what they were made of

An evaluation is stale once there is something that it has not seen: an attempt, a block, a
certificate, planted errors. Which are there is known from names and headers.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from ccat import sealed
from ccat.runs.folder import LOG, PLAN, PLANTED, RUN_FILE, TRAINED, Folder, RunError

_HEADLINE = "headline.json"
_ADVICE = "`ccat evaluate` makes it anew"
_HEADER = 4096  # bytes of a file of tensors, in which its digests lie


@dataclass(frozen=True)
class Headline:
    """What an evaluation found, at the true positive rate `tpr`.

    `error` is Err; `under` has, by condition as tables call it, RErr, or the rate of noise or
    rejection. A number that does not exist is None.
    """

    tpr: float | None
    error: float | None
    under: Mapping[str, float | None]

    @property
    def worst(self) -> tuple[float, str] | None:
        """The largest RErr over the threats on test images, and its threat."""
        found = [
            (value, name)
            for name, value in self.under.items()
            if value is not None and " " not in name  # distal and reject are other rates
        ]
        return max(found, default=None)


@dataclass(frozen=True)
class Glance:
    """What a list of runs shows of one. `evaluated` says if the headline is of what is there."""

    recipe: str
    epochs: int
    done: int | None  # epochs; None once it is trained
    attempts: int
    headline: Headline | None
    evaluated: Literal["yes", "stale", "no", "damaged"]


def glance(path: Path) -> Glance:
    """Look at a run.

    Raises:
        RunError: If its description cannot be read.
    """
    folder = Folder(path)
    advice = "restore it from a copy"
    about = folder.json(RUN_FILE, advice) or {}
    with folder.reading(RUN_FILE, advice):
        recipe, epochs = str(about["recipe"]["name"]), int(about["recipe"]["epochs"])
    done = None if folder.has(TRAINED) else _content(f"{path}/{LOG}").count(b"\n")
    headline, evaluated = headline_of(folder)
    return Glance(recipe, epochs, done, len(_names(f"{path}/attempts")), headline, evaluated)


def headline_of(
    folder: Folder,
) -> tuple[Headline | None, Literal["yes", "stale", "no", "damaged"]]:
    """Return the stored headline, and whether it is of what the run holds."""
    try:
        stored = folder.json(_HEADLINE, _ADVICE)
        if stored is None:
            return None, "no"
        with folder.reading(_HEADLINE, _ADVICE):
            found = Headline(stored["tpr"], stored["error"], dict(stored["under"]))
            return found, "yes" if stored["of"] == _state(folder.path) else "stale"
    except RunError:
        return None, "damaged"


def save_headline(folder: Folder, evaluation: Mapping[str, Any]) -> None:
    """Store the headline of an evaluation, as `ccat.report.to_json` makes it."""
    first = evaluation["evaluations"][0]
    under = {}
    for attacked in first["attacks"]:
        condition = attacked["condition"]
        before = ["reject"] * (condition["goal"] == "rejection")
        before += ["distal"] * (condition["source"] == "noise")
        headline = next(iter(attacked["pooled"]["rates"].values()))
        under[" ".join([*before, condition["threat"]])] = headline["value"]
    plain = {"tpr": first["tpr_asked"], "error": first["rates"]["error"]["value"], "under": under}
    folder.write_json(_HEADLINE, {**plain, "of": _state(folder.path)})


def _state(path: Path) -> str:
    """Return a SHA-256 of what an evaluation of a run depends on."""
    digest = sha256()
    for part in _parts(path):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(path: Path) -> Iterator[bytes]:
    root = str(path)  # texts, because joining paths takes longer than reading the files
    for name in (TRAINED, PLAN, PLANTED):
        yield _content(f"{root}/{name}")
    for folder in ("certificates", "corrupted", "detectors"):
        for name in _names(f"{root}/{folder}"):
            yield name.encode() + _content(f"{root}/{folder}/{name}", _HEADER)
    attempts = f"{root}/attempts"
    for key in _names(attempts):
        yield " ".join([key, *_names(f"{attempts}/{key}")]).encode()


def _names(folder: str) -> list[str]:
    """Return what a folder holds, sorted; nothing if there is no such folder."""
    try:
        found = os.listdir(folder)  # noqa: PTH208 (texts, see above)
        return sorted(name for name in found if name[0] != ".")
    except OSError:
        return []


def _content(path: str, first: int | None = None) -> bytes:
    """Return the content of a file; nothing if it cannot be read."""
    try:
        return sealed.read_plain(path, sealed.MOST_JSON, first)
    except (OSError, ValueError):
        return b""
