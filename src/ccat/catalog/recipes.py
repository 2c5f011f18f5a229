"""Recipes by name: the paper's models and those it compares with, at full size and for a CPU."""

from dataclasses import replace

from ccat.attacks import PGD
from ccat.catalog.beyond import BEYOND
from ccat.data import Augmentation
from ccat.objectives import other_class_confidence
from ccat.threats import L1, L2, Linf
from ccat.training.methods import (
    Adversarial,
    ConfidenceCalibrated,
    Direction,
    Method,
    MultiSteepest,
    Normal,
    Trades,
)
from ccat.training.recipe import Probe, Recipe
from ccat.training.schedules import Cyclic, Drops, LinearToZero, PerEpoch

_LINF = Linf(0.3)
_PROBE = Probe(_LINF, PGD(20, 0.05))
_CE = PGD(40, 0.05, backtracking=1.5, start="random")
_CONF = PGD(40, 0.0125, backtracking=1.5, start="either")
_STEPS = PGD(10, 0.1, momentum=0.0, backtracking=None, start="random")


_SMALL_LINF = Linf(0.03)  # for SVHN and CIFAR-10
_SMALL_PROBE = Probe(_SMALL_LINF, PGD(20, 0.005))
_SMALL_CONF = replace(_CONF, rate=0.005)
_SMALL_STEPS = PGD(8, 0.0075, momentum=0.0, backtracking=None, start="random")
_CROP = Augmentation(padding=4, contrast=0.3)


def _madry(threat: Linf, iterations: int, rate: float) -> Adversarial:
    """Adversarial training of Madry et al. (2018): fixed steps, the whole batch attacked."""
    return Adversarial(
        threat, PGD(iterations, rate, momentum=0.0, backtracking=None, start="random"), share=1.0
    )


def _trades(threat: Linf, iterations: int, rate: float, beta: float) -> Trades:
    return Trades(
        threat, PGD(iterations, rate, momentum=0.0, backtracking=None, start="near"), beta
    )


def _msd(linf: float, l2: float, l1: float, iterations: int) -> MultiSteepest:
    """MSD with steps of 3ε/T, which reach each ball in a third of the iterations."""
    first, second, third = (
        Direction(ball, float(f"{3 * ball.epsilon / iterations:.3g}"))
        for ball in (Linf(linf), L2(l2), L1(l1))
    )
    return MultiSteepest(first, second, third, iterations)


def _paper(name: str, method: Method) -> Recipe:
    return Recipe(name, method, epochs=100, schedule=PerEpoch(0.95), probe=_PROBE, model="resnet20")


def _paper_colour(dataset: str, rate: float, attack_rate: float, flip: bool) -> list[Recipe]:
    """The paper's experiments on SVHN and CIFAR-10."""
    at = Adversarial(_SMALL_LINF, replace(_CE, rate=attack_rate))
    methods: dict[str, Method] = {
        "normal": Normal(),
        "at": at,
        "at100": replace(at, share=1.0),
        "atconf": Adversarial(_SMALL_LINF, _SMALL_CONF, objective=other_class_confidence),
        "ccat": ConfidenceCalibrated(_SMALL_LINF, _SMALL_CONF),
    }
    augmentation, schedule = replace(_CROP, flip=flip), PerEpoch(0.95)
    return [
        Recipe(
            f"{dataset}-{name}",
            method,
            200,
            schedule,
            _SMALL_PROBE,
            dataset,
            "resnet20",
            rate=rate,
            augmentation=augmentation,
        )
        for name, method in methods.items()
    ]


def _small_colour(
    dataset: str, epochs: int, rate: float, augmentation: Augmentation | None
) -> list[Recipe]:
    """Recipes for one core; at a rate of 0.1, adversarial training on SVHN stays at chance."""
    methods: dict[str, Method] = {
        "normal": Normal(),
        "at": Adversarial(_SMALL_LINF, _SMALL_STEPS),
        "ccat": ConfidenceCalibrated(_SMALL_LINF, replace(_CONF, iterations=8, rate=0.01)),
        "madry": _madry(_SMALL_LINF, 8, 0.0075),
        "trades": _trades(_SMALL_LINF, 8, 0.0075, beta=6.0),
        "msd": _msd(0.03, 0.5, 12.0, 8),
    }
    return [
        Recipe(
            f"{dataset}-{name}-small",
            method,
            epochs,
            LinearToZero(),
            _SMALL_PROBE,
            dataset,
            rate=rate,
            augmentation=augmentation,
        )
        for name, method in methods.items()
    ]


def _wide_colour(dataset: str, flip: bool) -> list[Recipe]:
    """The wide network on colour images, some twenty minutes on one core, at the paper's ε."""
    calibrated = replace(_SMALL_CONF, iterations=8, rate=0.01, start="mixed")
    methods: dict[str, Method] = {
        "at": Adversarial(_SMALL_LINF, _SMALL_STEPS),
        "ccat": ConfidenceCalibrated(_SMALL_LINF, calibrated),
    }
    return [
        Recipe(
            f"{dataset}-{name}-wide",
            method,
            20,
            Cyclic(),
            _SMALL_PROBE,
            dataset,
            "wide-lenet",
            augmentation=replace(_CROP, flip=flip),
            average=0.999,
        )
        for name, method in methods.items()
    ]


def _small(
    name: str, method: Method, epochs: int, images: int | None = None, model: str = "lenet"
) -> Recipe:
    return Recipe(name, method, epochs, LinearToZero(), _PROBE, model=model, images=images)


def _published(
    name: str,
    method: Method,
    model: str,
    epochs: int,
    schedule: Drops | LinearToZero,
    rate: float,
    decay: float,
) -> Recipe:
    """A recipe as published, but always with SGD on batches of 128."""
    colour = name.startswith("cifar10")
    augmentation, probe = (
        (Augmentation(padding=4, flip=True), _SMALL_PROBE) if colour else (None, _PROBE)
    )
    dataset = "cifar10" if colour else "mnist"
    return Recipe(
        name,
        method,
        epochs,
        schedule,
        probe,
        dataset,
        model,
        batch=128,
        rate=rate,
        decay=decay,
        augmentation=augmentation,
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        # the paper's experiments, for GPUs
        _paper("mnist-normal", Normal()),
        _paper("mnist-at", Adversarial(_LINF, _CE)),
        _paper("mnist-at100", Adversarial(_LINF, _CE, share=1.0)),
        _paper("mnist-atconf", Adversarial(_LINF, _CONF, objective=other_class_confidence)),
        _paper("mnist-ccat", ConfidenceCalibrated(_LINF, _CONF)),
        # other methods at their published settings, for GPUs; MSD's Adam and cyclic rate become
        # SGD and a falling rate
        _published(
            "mnist-madry",
            _madry(_LINF, 40, 0.01),
            "msd-lenet",
            100,
            Drops(0.55, 0.75),
            rate=0.01,
            decay=0.0,
        ),
        _published(
            "mnist-trades",
            _trades(_LINF, 40, 0.01, beta=1.0),
            "trades-cnn",
            100,
            Drops(0.55, 0.75),
            rate=0.01,
            decay=0.0,
        ),
        _published(
            "mnist-msd",
            _msd(0.3, 1.5, 12.0, 50),
            "msd-lenet",
            15,
            LinearToZero(),
            rate=0.05,
            decay=0.0,
        ),
        _published(
            "cifar10-madry",
            _madry(Linf(8 / 255), 7, 2 / 255),
            "resnet50",
            150,
            Drops(1 / 3, 2 / 3),
            rate=0.1,
            decay=5e-4,
        ),
        _published(
            "cifar10-trades",
            _trades(Linf(0.031), 10, 0.007, beta=6.0),
            "wrn-34-10",
            76,
            Drops(75 / 76, 1),
            rate=0.1,
            decay=2e-4,
        ),
        _published(
            "cifar10-msd",
            _msd(0.03, 0.5, 12.0, 50),
            "preact-resnet18",
            50,
            LinearToZero(),
            rate=0.1,
            decay=5e-4,
        ),
        # all methods on a small network, five to twenty minutes on one core. Fixed steps without
        # momentum: with few iterations a damped step does not reach the boundary, and adversarial
        # training then fails on some machines by rounding alone.
        _small("mnist-normal-small", Normal(), epochs=10),
        _small("mnist-at-small", Adversarial(_LINF, _STEPS), epochs=10),
        _small("mnist-at100-small", Adversarial(_LINF, _STEPS, share=1.0), epochs=10),
        _small(
            "mnist-atconf-small",
            Adversarial(_LINF, _STEPS, objective=other_class_confidence),
            epochs=10,
        ),
        _small("mnist-madry-small", _madry(_LINF, 10, 0.05), epochs=10),
        _small("mnist-trades-small", _trades(_LINF, 10, 0.05, beta=1.0), epochs=10),
        _small("mnist-msd-small", _msd(0.3, 1.5, 12.0, 10), epochs=10),
        _small("mnist-at-wide", Adversarial(_LINF, _STEPS), epochs=10, model="wide-lenet"),
        *BEYOND,
        *_paper_colour("svhn", rate=0.1, attack_rate=0.01, flip=False),
        *_paper_colour("cifar10", rate=0.075, attack_rate=0.005, flip=True),
        *_small_colour("svhn", epochs=20, rate=0.02, augmentation=None),
        *_small_colour(
            "cifar10", epochs=20, rate=0.05, augmentation=Augmentation(padding=4, flip=True)
        ),
        *_wide_colour("svhn", flip=False),
        *_wide_colour("cifar10", flip=True),
        # as the demo trains them, in minutes
        _small("mnist-normal-demo", Normal(), epochs=4, images=40_000),
        _small(
            "mnist-at-demo",
            Adversarial(_LINF, replace(_STEPS, iterations=8)),
            epochs=5,
            images=40_000,
        ),
        _small(
            "mnist-ccat-demo",
            ConfidenceCalibrated(_LINF, replace(_CONF, iterations=8, rate=0.1)),
            epochs=7,
            images=40_000,
        ),
    )
}
