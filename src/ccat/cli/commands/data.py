"""`ccat data`: list the data sets, get and check one, or make a corrupted one."""

from argparse import Namespace
from pathlib import Path

from ccat.cli.values import entry
from ccat.data import DATASETS, UNVERIFIED, data_states, load_dataset
from ccat.data.corruptions import FAMILIES, generate
from ccat.progress import ProgressBar
from ccat.report import markdown


def run(options: Namespace) -> None:
    """List, get or make."""
    {"list": _list, "get": _get, "make": _make}[options.what](options)


def _list(options: Namespace) -> None:
    rows = [[name, state, how] for name, (state, how) in data_states().items()]
    print(markdown(["data set", "here", "how to get it"], rows))


def _make(options: Namespace) -> None:
    dataset, _ = entry(options.name or "", FAMILIES, "set of corruptions")
    out = options.out or Path("data") / f"{options.name}-generated"
    images = load_dataset(dataset, "test")
    generate(images, options.name, out, options.seed, ProgressBar(options.name))
    print(f"{out}: {options.name} in the published layout, generated with seed {options.seed}")


def _get(options: Namespace) -> None:
    if options.name is None:
        raise ValueError(
            f"which data set? {', '.join(DATASETS)}, or the path of your own with --unverified"
        )
    name = UNVERIFIED * options.unverified + options.name
    checked = "unverified" if options.unverified else "verified"
    for split in ("train", "test"):
        images = load_dataset(name, split)
        size = "x".join(map(str, images.x.shape[1:]))
        classes = int(images.y.max()) + 1
        print(
            f"{options.name} {split}: {len(images)} images of {size}, {classes} classes, {checked}"
        )
