"""What every attack keeps to, over the table attacks × threats × objectives × classes."""

import copy
import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch
from test_threats import THREATS, images
from torch import Generator, Tensor, nn
from truth import Small, seeded

import ccat
import ccat.attacks
from ccat import (
    APGD,
    PGD,
    Attack,
    Beam,
    Border,
    CornerSearch,
    Estimated,
    Exchange,
    Found,
    Geometry,
    Problem,
    Random,
    Refined,
    Shrinking,
    Simple,
    Square,
    Threat,
    Windows,
)
from ccat.attacks import Counts
from ccat.objectives import OBJECTIVES, Objective

# one line per attack
ATTACKS: dict[str, Attack] = {
    "PGD zero": PGD(6, 0.3),
    "PGD random": PGD(6, 0.3, start="random"),
    "PGD either, no backtracking": PGD(6, 0.3, momentum=0.5, backtracking=None, start="either"),
    "PGD mixed": PGD(6, 0.3, start="mixed"),
    "PGD of one iteration": PGD(1, 0.3),
    "PGD smooth": PGD(6, 0.3, smooth=0.5),
    "APGD zero": APGD(6),
    "APGD random": APGD(30, start="random"),
    "QL": PGD(3, 0.3, start="random", gradient=Estimated(4)),
    "Random": Random(5),
    "Simple": Simple(5),
    "Geometry": Geometry(5),
    "Refined": Refined(Geometry(3), PGD(3, 0.3)),
    "Refined by APGD": Refined(Simple(3), APGD(6)),
    "Shrinking": Shrinking(6, starts=2),
    "Shrinking from the ball itself": Shrinking(1, begin=1.0),
    "Beam from near images": Beam("near", ((3, 4), (1, 5)), nearest=5),
    "Beam from near images, not smoothed": Beam("near", ((2, 4),), nearest=20, smooth=0.0),
    "Beam of classes": Beam("classes", ((10, 4), (2, 5)), smooth=1.0),
    "Exchange": Exchange(2),
    "Border": Border(2, 5, 4),
    "Windows": Windows(((9, 5), (2, 5), (1, 4)), 4),
    "Windows, not smoothed": Windows(((2, 12),), 3, smooth=0.0),
    "Square": Square(5),
    "CornerSearch": CornerSearch(2, candidates=10),
}


TABLE = [
    pytest.param(ATTACKS[a], THREATS[t], OBJECTIVES[o], classes, id=f"{a}|{t}|{o}|{classes}")
    for a, t, o, classes in itertools.product(ATTACKS, THREATS, OBJECTIVES, (2, 10))
    if ATTACKS[a].supports(THREATS[t])
]
contract = pytest.mark.parametrize(("attack", "threat", "objective", "classes"), TABLE)


def labels(classes: int) -> Tensor:
    return torch.tensor([0, 1, classes - 1, 0])


def example(classes: int) -> tuple[Tensor, Tensor, Small]:
    """Two classes in float32, as the library is used, ten in float64."""
    dtype = torch.float32 if classes == 2 else torch.float64
    return images(11).to(dtype), labels(classes), Small(3, classes).to(dtype)


BLACK_BOX = {
    name: attack for name, attack in ATTACKS.items() if attack.cost((3, 8, 8)).backwards == 0
}
POOL = images(13, count=7)


class Watched(Problem):
    """A problem that remembers the best value of each example among points that became results."""

    def evaluate(self, delta: Tensor, rows: Tensor | None = None) -> Found:
        found = super().evaluate(delta, rows)
        self._remember(found, rows)
        return found

    def value_and_grad(self, delta: Tensor, rows: Tensor | None = None) -> tuple[Found, Tensor]:
        found, gradient = super().value_and_grad(delta, rows)
        self._remember(found, rows)
        return found, gradient

    def _remember(self, found: Found, rows: Tensor | None) -> None:
        """Also of the problems that an attack makes of this one: they share their counts."""
        places = torch.arange(len(self.x)) if rows is None else rows
        places = places if self.origin is None else self.origin.rows[places]
        values = seen(self, found.value.dtype)
        values.scatter_reduce_(0, places, found.value.detach(), "amax")


def seen(problem: Problem, dtype: torch.dtype = torch.float32) -> Tensor:
    """The best value of each of the four examples."""
    none = torch.full((4,), -math.inf, dtype=dtype)
    values: Tensor = problem.counts.__dict__.setdefault("seen", none)
    return values


@contract
def test_results_are_allowed_scored_reproducible_and_the_best_seen(
    attack: Attack, threat: Threat, objective: Objective, classes: int
) -> None:
    x, y, model = example(classes)
    pool = POOL.to(x.dtype)
    problem = Watched.of(model, x, y, threat, objective, pool)
    found = attack(problem, seeded(3))

    assert (threat.size(found.delta) <= threat.epsilon * (1 + 4 * torch.finfo(x.dtype).eps)).all()
    assert (x + found.delta >= 0).all()
    assert (x + found.delta <= 1).all()

    model.eval()
    torch.testing.assert_close(found.value, objective(model(x + found.delta), y).detach())

    targeted = isinstance(attack, Windows) or (
        isinstance(attack, Beam) and attack.starts == "classes"
    )
    if not targeted:  # on the way to a target, values are of another problem
        assert found.value.equal(seen(problem)), "the best of all points tried, the last included"
    cost = attack.cost((3, 8, 8))
    most = (len(x) * cost.forwards, len(x) * cost.backwards)
    counts = (problem.counts.forwards, problem.counts.backwards)
    if isinstance(attack, Beam | Exchange | Windows):  # they end early, or have fewer starts
        assert counts <= most
        assert problem.counts.backwards <= most[1]
    else:
        assert counts == most

    again = attack(Problem.of(model, x, y, threat, objective, pool), seeded(3))
    assert again.delta.equal(found.delta)
    assert again.value.equal(found.value)


@contract
def test_nothing_is_left_changed(
    attack: Attack, threat: Threat, objective: Objective, classes: int
) -> None:
    x, y, model = example(classes)
    model.train()
    model.layers[1].eval()  # a mode per module
    next(model.parameters()).requires_grad_(False)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    before, kept = copy.deepcopy(model), x.clone()
    state = torch.get_rng_state()

    attack(Problem.of(model, x, y, threat, objective, POOL.to(x.dtype)), seeded(3))

    assert x.equal(kept)
    assert x.grad is None
    assert not x.requires_grad
    assert torch.get_rng_state().equal(state), "randomness comes from the generator alone"
    assert [m.training for m in model.modules()] == [m.training for m in before.modules()]
    for (name, value), (_, old) in zip(
        model.state_dict().items(), before.state_dict().items(), strict=True
    ):
        assert value.equal(old), name
    for weight, old_weight in zip(model.parameters(), before.parameters(), strict=True):
        assert weight.requires_grad == old_weight.requires_grad
        assert weight.grad is not None
        assert weight.grad.equal(torch.ones_like(weight))


@contract
def test_a_row_depends_on_nothing_but_itself(
    attack: Attack, threat: Threat, objective: Objective, classes: int
) -> None:
    """Neighbours of very different scale are exchanged, and the others do not notice."""
    if isinstance(attack, Windows):  # which copies from other rows, and says so
        attack = replace(attack, crossed=0.0)
    x, y, model = example(classes)

    def run(x: Tensor, y: Tensor, scales: list[float]) -> Found:
        factor = torch.tensor(scales, dtype=x.dtype)
        inner = Problem.of(model, x, y, threat, objective).score
        return attack(
            Problem(
                x, threat, lambda image, rows: factor[rows] * inner(image, rows), POOL.to(x.dtype)
            ),
            seeded(3),
        )

    found = run(x, y, [1.0, 1e-4, 1.0, 1e4])
    others, other_labels = images(12).to(x.dtype), y.flip(0)
    keep = torch.tensor([True, False, True, False])
    mixed = run(
        torch.where(keep[:, None, None, None], x, others),
        torch.where(keep, y, other_labels),
        [1.0, 1e9, 1.0, 1e-9],
    )
    torch.testing.assert_close(mixed.delta[keep], found.delta[keep])
    torch.testing.assert_close(mixed.value[keep], found.value[keep])


@pytest.mark.parametrize(
    ("attack", "threat"),
    [(a, t) for a in BLACK_BOX for t in THREATS if BLACK_BOX[a].supports(THREATS[t])],
)
def test_black_box_attacks_need_no_gradient(attack: str, threat: str) -> None:
    x, y, model = images(11), labels(10), Small(3, 10)
    inner = Problem.of(model, x, y, THREATS[threat], OBJECTIVES["cross-entropy"]).score

    def score(image: Tensor, rows: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        return inner(image, rows)

    problem = Problem(x, THREATS[threat], score, POOL)
    BLACK_BOX[attack](problem, seeded(3))
    assert problem.counts.backwards == 0
    assert problem.counts.forwards > 4


def test_rows_alone_are_rows_in_a_batch() -> None:
    x, y, model = images(11), labels(10), Small(3, 10)
    for threat, objective in itertools.product(THREATS.values(), OBJECTIVES.values()):
        found = PGD(8, 0.3)(Problem.of(model, x, y, threat, objective), seeded())
        for row in range(len(x)):
            part = slice(row, row + 1)
            alone = PGD(8, 0.3)(Problem.of(model, x[part], y[part], threat, objective), seeded())
            torch.testing.assert_close(alone.delta, found.delta[part], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("attack", "threat"), list(itertools.product(ATTACKS, THREATS)))
def test_what_an_attack_supports_is_what_it_accepts(attack: str, threat: str) -> None:
    x = images(11)
    inner = Problem.of(Small(3, 10), x, labels(10), THREATS[threat], OBJECTIVES["cross-entropy"])
    problem = Problem(x, THREATS[threat], inner.score, POOL)
    if ATTACKS[attack].supports(THREATS[threat]):
        ATTACKS[attack](problem, seeded(3))
        assert problem.counts.forwards > 0
    else:
        with pytest.raises(ValueError, match="made for"):
            ATTACKS[attack](problem, seeded(3))
        assert problem.counts.forwards == 0, "it is refused before anything runs"


def test_every_attack_of_ccat_is_in_the_table() -> None:
    assert {type(attack) for attack in ATTACKS.values()} == set(ccat.attacks.ATTACKS.values())


def test_every_public_attack_is_in_the_registry() -> None:
    others = {ccat.Attack, ccat.External, ccat.Foolbox, ccat.AutoAttack, ccat.attacks.Given}
    others.add(ccat.EveryTarget)  # of another attack
    public = {
        kind
        for name in ccat.attacks.__all__
        if isinstance(kind := vars(ccat.attacks)[name], type) and issubclass(kind, Attack)
    }
    assert public - others == set(ccat.attacks.ATTACKS.values())
    assert {name: kind.__name__ for name, kind in ccat.attacks.ATTACKS.items()} == {
        name: name for name in ccat.attacks.ATTACKS
    }


def test_an_attack_supports_every_threat_unless_it_says_otherwise() -> None:
    @dataclass(frozen=True)
    class Unmoved(Attack):
        scale: float = 1.0

        def __call__(self, problem: Problem, generator: Generator) -> Found:
            return problem.evaluate(self.scale * torch.zeros_like(problem.x))

        def cost(self, shape: tuple[int, int, int]) -> Counts:
            return Counts(1)

    attack = Unmoved(2.0)
    assert all(attack.supports(threat) for threat in THREATS.values())
    assert attack == Unmoved(2.0)
    assert repr(attack).endswith("Unmoved(scale=2.0)")


def test_a_module_without_parameters_can_be_attacked() -> None:
    class Brightness(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            mean = x.mean((1, 2, 3))
            return torch.stack([mean, -mean], 1)

    x = images(11)
    problem = Problem.of(
        Brightness(),
        x,
        torch.ones(4, dtype=torch.int64),
        THREATS["Linf"],
        OBJECTIVES["cross-entropy"],
    )
    torch.testing.assert_close(PGD(30, 0.05)(problem, seeded()).delta, (1 - x).clamp(max=0.3))
