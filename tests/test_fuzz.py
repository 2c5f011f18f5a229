"""A few seconds of fuzzing; `make fuzz` goes on for an hour."""

import os
from collections.abc import Iterator
from pathlib import Path

import fuzz
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccat import SUITES, Images


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, mnist_train: Images, mnist_test: Images
) -> Iterator[Path]:
    before, path = Path.cwd(), tmp_path_factory.mktemp("fuzz")
    fuzz.prepare(path)
    yield path
    os.chdir(before)
    SUITES.pop("tiny", None)


@pytest.mark.filterwarnings("default")
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6))
def test_damage_changes_no_number_and_is_named(place: Path, seed: int) -> None:
    os.chdir(place)
    fuzz.case(seed)
