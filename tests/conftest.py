import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from ccat import DataUnavailableError, Images, load_mnist

pytest_plugins = ("runs",)  # its fixtures

settings.register_profile("ccat", deadline=None)  # machines are noisy
settings.load_profile("ccat")

if "CCAT_DATA" in os.environ:  # tests change the working directory
    os.environ["CCAT_DATA"] = str(Path(os.environ["CCAT_DATA"]).resolve())


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The threads of several test processes would fight each other."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def mnist_train() -> Images:
    return _mnist("train")


@pytest.fixture(scope="session")
def mnist_test() -> Images:
    return _mnist("test")


def _mnist(split: str) -> Images:
    try:
        return load_mnist("train" if split == "train" else "test")
    except DataUnavailableError as unavailable:
        pytest.skip(str(unavailable))
