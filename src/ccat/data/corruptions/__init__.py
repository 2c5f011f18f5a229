"""The corruption benchmarks MNIST-C and CIFAR-10-C, generated, or read as published.

    images = corrupted(load_dataset("mnist", "test"), MNIST_C, "fog", severity=1, seed=0)
    generate(load_dataset("mnist", "test"), "mnist-c", Path("mnist_c"), 0, lambda *_: None)

MNIST-C is by Mu & Gilmer (2019), CIFAR-10-C by Hendrycks & Dietterich (2019). A generated family
has the same corruptions and parameters as the published one, but not the same bytes, and is always
called generated. `families.py` has the tables; the corruptions are in noise, blur, geometry,
weather and lines; `files.py` reads and writes; `pixels.py` converts bytes to floats and back.
"""

from ccat.data.corruptions.families import (
    CIFAR10_C,
    FAMILIES,
    MNIST_C,
    Corruption,
    require_libraries,
)
from ccat.data.corruptions.files import GENERATED, corrupted, generate, published

__all__ = [
    "CIFAR10_C",
    "FAMILIES",
    "GENERATED",
    "MNIST_C",
    "Corruption",
    "corrupted",
    "generate",
    "published",
    "require_libraries",
]
