"""Data sets as tensors of bytes, each checked against a known SHA-256 of its decoded arrays."""

from ccat.data.images import Images
from ccat.data.mnist import load_mnist
from ccat.data.sources import DataUnavailableError

__all__ = ["DATASETS", "DataUnavailableError", "Images", "load_mnist"]

DATASETS = {"mnist": load_mnist}
