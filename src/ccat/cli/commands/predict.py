"""`ccat predict`: label pictures, or reject them."""

import csv
import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ccat.cli.values import classifier_named, device_of
from ccat.data import PictureError, read_picture
from ccat.data.picture import ENDINGS
from ccat.progress import ProgressBar
from ccat.rejection import REJECTED, Rejecting

COLUMNS = ("time", "picture", "label", "confidence", "tau")
_BATCH = 64
_MANY = 200  # pictures, from which on progress is shown


def run(options: Namespace) -> None:
    """Print a line for each picture; exit code 1 if one could not be read."""
    clf = classifier_named(options.source, options.tpr, options.tau).to(device_of(options))
    files, unfit = _files(options.pictures)
    table = csv.writer(sys.stdout, lineterminator="\n")
    if options.format == "csv":
        table.writerow(COLUMNS)
    longest = max((len(str(file)) for file in files), default=0)
    widest = max(map(len, (*clf.classes, clf.name(REJECTED))))
    bar, done = ProgressBar("predict"), 0
    for start in range(0, len(files), _BATCH):
        some = files[start : start + _BATCH]
        for file, label, confidence in _decided(clf, some, unfit):
            row = (_now(), str(file), label, confidence, clf.tau)
            if options.format == "csv":
                table.writerow(row)
            elif options.format == "json":
                print(json.dumps(dict(zip(COLUMNS, row, strict=True))))
            else:
                sure = f"{confidence:.4f}  (τ {clf.tau:.4f})"
                print(f"{file!s:<{longest}}  {label:<{widest}}  {sure}")
        done += len(some)
        if len(files) > _MANY:
            bar(done, len(files), f"{done} of {len(files)} pictures")
    for message in unfit:
        print(f"ccat: {message}", file=sys.stderr)
    if unfit:
        sys.exit(1)


def _files(named: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return the picture files of what was named, and what is wrong with the rest."""
    files, unfit = [], []
    for path in named:
        if not path.is_dir():
            files.append(path)
        elif found := sorted(one for one in path.rglob("*") if one.suffix.lower() in ENDINGS):
            files += found
        else:
            unfit.append(f"{path} holds no pictures ({', '.join(ENDINGS)})")
    return files, unfit


def _decided(
    clf: Rejecting, files: Sequence[Path], unfit: list[str]
) -> Iterator[tuple[Path, str, float]]:
    """Yield each picture that can be read with its label and confidence; note the others."""
    channels, height, width = clf.shape
    read: list[tuple[Path, NDArray[np.uint8]]] = []
    for file in files:
        try:
            read.append((file, read_picture(file, channels, (height, width))))
        except PictureError as wrong:
            unfit.append(str(wrong))
    if not read:
        return
    images = torch.from_numpy(np.stack([pixels for _, pixels in read]))
    with torch.no_grad():
        decision = clf(images.to(clf.device))
    labels, confidences = decision.labels.tolist(), decision.confidence.tolist()
    for (file, _), label, confidence in zip(read, labels, confidences, strict=True):
        yield file, clf.name(label), confidence


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
