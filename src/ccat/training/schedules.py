"""Learning-rate schedules: each maps the epochs that are over to a factor of the recipe's rate."""

import math
from dataclasses import dataclass
from typing import Protocol

from ccat import codec
from ccat.checks import require_number


class Schedule(Protocol):
    """The learning rate over time, as a factor of the recipe's rate."""

    def __call__(self, done: float, epochs: int) -> float:
        """Return the factor of the learning rate after `done` of the recipe's epochs.

        Args:
            done: The epochs that are over. Inside an epoch it is a fraction: after half of the
                fourth epoch, 3.5.
            epochs: The number of epochs of the recipe.

        """


@dataclass(frozen=True)
class PerEpoch:
    """Exponential decay, as in the paper: the rate is multiplied by `factor` after every epoch.

    Attributes:
        factor: What the rate is multiplied by after every epoch.
    """

    factor: float = 0.95

    def __post_init__(self) -> None:
        require_number("PerEpoch: factor", self.factor, 0, 1, high_too=True)

    def __call__(self, done: float, epochs: int) -> float:
        return self.factor ** math.floor(done)


@dataclass(frozen=True)
class LinearToZero:
    """Linear decay to zero with every step, which suits short training."""

    def __call__(self, done: float, epochs: int) -> float:
        return 1 - done / epochs


@dataclass(frozen=True)
class Cyclic:
    """One cycle: the rate rises linearly from zero and falls linearly to zero (Smith 2017).

    It reaches rates that training could not begin with.

    Attributes:
        rise: The share of the epochs during which the rate rises.
    """

    rise: float = 0.2

    def __post_init__(self) -> None:
        require_number("Cyclic: rise", self.rise, 0, 1)

    def __call__(self, done: float, epochs: int) -> float:
        share = done / epochs
        return min(share / self.rise, (1 - share) / (1 - self.rise))


@dataclass(frozen=True)
class Drops:
    """Two drops, as in most published training: the rate is multiplied by `factor` at each.

    The drops are due after a share `first` and a share `second` of the epochs.

    Attributes:
        first: The share of the epochs after which the rate drops.
        second: The share of the epochs after which it drops again.
        factor: What a drop multiplies the rate by.
    """

    first: float = 0.5
    second: float = 0.75
    factor: float = 0.1

    def __post_init__(self) -> None:
        for name in ("first", "second", "factor"):
            require_number(f"Drops: {name}", getattr(self, name), 0, 1, high_too=True)

    def __call__(self, done: float, epochs: int) -> float:
        return self.factor ** ((done >= self.first * epochs) + (done >= self.second * epochs))


SCHEDULES: dict[str, type] = codec.register(
    Schedule, {kind.__name__: kind for kind in (PerEpoch, LinearToZero, Cyclic, Drops)}
)
