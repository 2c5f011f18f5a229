import math
from itertools import pairwise

import pytest

from ccat.training import SCHEDULES, Cyclic, Drops, LinearToZero, PerEpoch, Schedule
from ccat.training import schedules as room


def test_per_epoch_falls_after_every_epoch_and_not_within_one() -> None:
    assert [PerEpoch(0.5)(done, 10) for done in (0, 0.99, 1, 1.5, 2, 3)] == [
        1,
        1,
        0.5,
        0.5,
        0.25,
        0.125,
    ]


def test_linear_to_zero_falls_with_every_step_and_ends_at_zero() -> None:
    assert [LinearToZero()(done, 4) for done in (0, 0.5, 2, 3.5, 4)] == [1, 0.875, 0.5, 0.125, 0]


def test_a_cycle_rises_linearly_and_falls_linearly_to_zero() -> None:
    found = [Cyclic(0.25)(done, 8) for done in (0, 0.5, 1, 2, 2.5, 5, 8)]
    assert found == pytest.approx([0, 0.25, 0.5, 1, 11 / 12, 0.5, 0])


def test_drops_are_due_at_shares_of_the_epochs() -> None:
    found = [Drops(0.5, 0.75, 0.1)(done, 20) for done in (0, 9.99, 10, 14.99, 15, 20)]
    assert found == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_the_defaults_are_those_of_the_papers() -> None:
    assert (PerEpoch().factor, Drops()) == (0.95, Drops(0.5, 0.75, 0.1))


@pytest.mark.parametrize("factor", [0.0, -0.5, 1.5, math.nan])
def test_impossible_schedules_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="PerEpoch: factor must be a number above 0"):
        PerEpoch(factor)
    for name in ("first", "second", "factor"):
        with pytest.raises(ValueError, match=f"Drops: {name} must be a number above 0"):
            Drops(**{name: factor})
    with pytest.raises(ValueError, match="Cyclic: rise must be a number above 0 and below 1"):
        Cyclic(factor)


def test_every_schedule_is_in_the_table_under_its_name() -> None:
    public = {
        name: kind
        for name, kind in vars(room).items()
        if isinstance(kind, type) and kind.__module__ == room.__name__ and kind is not Schedule
    }
    assert public == SCHEDULES


@pytest.mark.parametrize("kind", SCHEDULES.values())
def test_a_schedule_reaches_the_whole_rate_and_never_raises_it_again(kind: type) -> None:
    schedule: Schedule = kind()
    factors = [schedule(step / 10, 20) for step in range(201)]
    assert max(factors) == pytest.approx(1)
    falling = factors[factors.index(max(factors)) :]
    assert kind is Cyclic or falling == factors
    assert all(later <= earlier for earlier, later in pairwise(falling))
