"""Named, complete configurations: recipes say how a model is trained, cases how it is attacked.

A recipe or a case says everything that its numbers depend on; both are stored beside the results.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

from torch import Generator

from ccat.attacks import APGD, PGD, Attack, CornerSearch, Counts, Estimated, Found, Geometry, Problem, Random, Refined, Simple, Square
from ccat.checks import require_count, require_number
from ccat.data import UNVERIFIED, Augmentation, require_dataset
from ccat.fields import from_plain, parse, to_plain
from ccat.methods import Adversarial, ConfidenceCalibrated, Direction, Elsewhere, Method, MultiSteepest, Normal, Trades
from ccat.models import MODELS, known
from ccat.objectives import Objective, other_class_confidence
from ccat.threats import L0, L1, L2, Frame, Linf, Threat


class Schedule(Protocol):
    """The learning rate over time."""

    def __call__(self, done: float, epochs: int) -> float:
        """What the rate is multiplied with when `done` of the epochs are over."""


@dataclass(frozen=True)
class PerEpoch:
    """Multiplied with a factor after every epoch, as in the paper."""

    factor: float = 0.95

    def __post_init__(self) -> None:
        require_number("PerEpoch: factor", self.factor, 0, 1, high_too=True)

    def __call__(self, done: float, epochs: int) -> float:
        return self.factor ** math.floor(done)


@dataclass(frozen=True)
class LinearToZero:
    """Falls with every step: the schedule for short training."""

    def __call__(self, done: float, epochs: int) -> float:
        return 1 - done / epochs


@dataclass(frozen=True)
class Drops:
    """Multiplied with a factor when a share of the epochs is over, and again at a second share: the schedule of most published training."""

    first: float = 0.5
    second: float = 0.75
    factor: float = 0.1

    def __post_init__(self) -> None:
        for name in ("first", "second", "factor"):
            require_number(f"Drops: {name}", getattr(self, name), 0, 1, high_too=True)

    def __call__(self, done: float, epochs: int) -> float:
        return self.factor ** ((done >= self.first * epochs) + (done >= self.second * epochs))


@dataclass(frozen=True)
class Probe:
    """A short attack on held-out training images after every epoch, so that robust overfitting shows in the log."""

    threat: Threat
    attack: Attack
    objective: Objective = other_class_confidence


@dataclass(frozen=True)
class Detecting:
    """What rejects in place of the confidence: a detector, fitted on training images for each threat.

    `known` of them give its statistics; `pairs` of them, clean and attacked, the weights of its layers: those that are right, and fooled.
    """

    name: Literal["mahalanobis", "lid"]
    layers: str = ""  # separated by commas; by default the last of each size of feature map
    known: int = 2000
    pairs: int = 1000

    def __post_init__(self) -> None:
        for name in ("known", "pairs"):
            require_count(f"Detecting: {name}", getattr(self, name))


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: SGD with momentum on shuffled batches; the last epoch is the model."""

    name: str
    method: Method
    epochs: int
    schedule: Schedule
    probe: Probe
    dataset: str = "mnist"
    model: str = "lenet"
    images: int | None = None  # the first so many training images, all by default
    held_out: int = 500  # of these the last so many are not trained on but watched
    batch: int = 100
    rate: float = 0.1
    momentum: float = 0.9
    decay: float = 0.0  # of the weights
    augmentation: Augmentation | None = None
    seed: int = 0
    detector: Detecting | None = None  # of a run that was made from another's weights

    def __post_init__(self) -> None:
        for name in ("epochs", "held_out", "batch"):
            require_count(f"Recipe: {name}", getattr(self, name))
        if self.images is not None and self.images < self.held_out + self.batch:
            raise ValueError(f"Recipe: {self.images} images are fewer than one batch and the {self.held_out} held out")
        require_number("Recipe: rate", self.rate, 0)
        require_number("Recipe: momentum", self.momentum, 0, 1, low_too=True)
        require_number("Recipe: decay", self.decay, 0, 1, low_too=True)
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"Recipe: seed must be at least 0 and below 2**63, not {self.seed}")
        if not self.dataset.startswith(UNVERIFIED):
            require_dataset(self.dataset)
        if not known(self.model):
            raise ValueError(f"Recipe: there is no model {self.model!r}; there are {', '.join(MODELS)}, or package.module:factory")


@dataclass(frozen=True)
class Case:
    """One row of a table of attacks. `source="noise"` attacks uniform noise, which has no right answer, instead of test images."""

    name: str
    family: str
    threat: Threat
    attack: Attack
    objective: Objective
    restarts: int = 1
    source: Literal["test", "noise"] = "test"
    aware: float | None = None  # of the run's detector, whose score then is the objective: the penalty for not being wrong (0: first wrong)

    def __post_init__(self) -> None:
        require_count("Case: restarts", self.restarts)
        made_for: tuple[type, ...] | None = getattr(self.attack, "threats", None)
        if made_for is not None and not isinstance(self.threat, made_for):
            names = " and ".join(kind.__name__ for kind in made_for)
            raise ValueError(f"Case: {type(self.attack).__name__} is made for {names}, not for {type(self.threat).__name__}")

    def identity(self) -> dict[str, Any]:
        """What its numbers depend on."""
        return identity(to_plain(self))


@dataclass(frozen=True)
class Given:
    """In place of an attack: the perturbations were computed elsewhere and are known by their SHA-256."""

    sha256: str

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        raise ValueError("these examples were computed elsewhere and cannot be computed again")

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


def identity(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Of a case as plain data: not what it is called, nor how often it is repeated.

    Nor what is None: a field that is added later, None by default, then changes no identity.
    """

    def without_none(value: Any) -> Any:
        return {name: without_none(item) for name, item in value.items() if item is not None} if isinstance(value, dict) else value

    return {name: without_none(value) for name, value in plain.items() if name not in ("name", "family", "restarts")}


KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Linf,
        L2,
        L1,
        L0,
        Frame,
        PGD,
        APGD,
        Estimated,
        Random,
        Simple,
        Geometry,
        Square,
        CornerSearch,
        Refined,
        Normal,
        Adversarial,
        ConfidenceCalibrated,
        Trades,
        MultiSteepest,
        Direction,
        Elsewhere,
        Detecting,
        PerEpoch,
        Drops,
        LinearToZero,
        Probe,
        Augmentation,
        Recipe,
        Case,
        Given,
    )
}
THREATS: dict[str, type[Linf] | type[L2] | type[L1] | type[L0] | type[Frame]] = {"Linf": Linf, "L2": L2, "L1": L1, "L0": L0, "Frame": Frame}


def recipe_from_plain(plain: Any) -> Recipe:
    """A stored recipe."""
    recipe = from_plain(plain, KINDS)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"this is a {type(recipe).__name__}, not a recipe")
    return recipe


def case_from_plain(plain: Any) -> Case:
    """A stored case."""
    case = from_plain(plain, KINDS)
    if not isinstance(case, Case):
        raise ValueError(f"this is a {type(case).__name__}, not a case")
    return case


def label(threat: Threat) -> str:
    """Linf:0.3, Linf:8/255, L0:15, Frame:2: what a threat is called, exactly, in tables and on the command line."""
    entry = "/entry" if getattr(threat, "per", "pixel") == "entry" else ""
    levels = round(threat.epsilon * 255)
    texts = (f"{threat.epsilon:g}", f"{levels}/255", repr(threat.epsilon))
    exact = next(text for text in texts if float(Fraction(text)) == threat.epsilon)
    return f"{type(threat).__name__}:{exact}{entry}"


def parse_threat(text: str) -> Threat:
    """The threat that `label` names; ε may be written 8/255."""
    kind, _, size = text.partition(":")
    if kind not in THREATS or not size:
        raise ValueError(f"a threat is written as one of {', '.join(name + ':ε' for name in THREATS)}, such as Linf:8/255, not {text!r}")
    if kind == "L0" and size.endswith("/entry"):
        return L0(parse(size.removesuffix("/entry"), int, "the size"), per="entry")
    threat: Threat = THREATS[kind](parse(size, int if kind in ("L0", "Frame") else float, "the size"))
    return threat


def contains(larger: Threat, smaller: Threat) -> bool:
    """Whether everything that `smaller` allows is allowed by `larger`: a larger ε of the same kind."""
    same = type(larger) is type(smaller) and getattr(larger, "per", "") == getattr(smaller, "per", "")
    return same and smaller.epsilon <= larger.epsilon


def seen(method: Method) -> tuple[Threat, ...]:
    """The threats a training method has seen: MSD three, normal training none."""
    one: Threat | None = getattr(method, "threat", None)
    several: tuple[Threat, ...] = getattr(method, "threats", ())
    return several if one is None else (one,)
