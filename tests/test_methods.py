import copy
import inspect
import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from truth import Small, seeded

from ccat import (
    APGD,
    L1,
    L2,
    PGD,
    Adversarial,
    ConfidenceCalibrated,
    Found,
    Images,
    Linf,
    Normal,
    Problem,
    Random,
    Threat,
    create_model,
    cross_entropy,
    other_class_confidence,
)
from ccat.training import (
    METHODS,
    CalibratedBeyond,
    CalibratedUnion,
    Direction,
    Forward,
    Imported,
    IntervalBound,
    LinearToZero,
    Method,
    MultiSteepest,
    Part,
    Probe,
    Recipe,
    Trades,
    calibrated_beyond,
    calibrated_union,
    epochs,
    interval_bound,
    methods,
)
from ccat.training.methods import attacked_count, transition

X = torch.rand(7, 3, 8, 8, generator=seeded(), dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 3, 4, 5, 6])
THREAT = Linf(0.1)
ATTACK = PGD(5, 0.02)


class Recorder:
    """What is trained: remembers what went through it, and in which mode."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.batches: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        assert self.model.training
        self.batches.append(x)
        logits: Tensor = self.model(x)
        self.logits = logits.detach()
        return logits


def found(model: nn.Module, count: int, objective: object) -> Found:
    return ATTACK(Problem.of(model, X[:count], Y[:count], THREAT, objective), seeded(9))  # type: ignore[arg-type]


def test_normal_training_is_cross_entropy() -> None:
    forward = Recorder(Small(3, 10).train())
    loss = Normal()(forward.model, forward, X, Y, seeded(9))
    torch.testing.assert_close(loss.detach(), functional.cross_entropy(forward.logits, Y))


@pytest.mark.parametrize(("share", "count"), [(0.5, 3), (1.0, 7), (0.2, 1)])
@pytest.mark.parametrize("objective", [cross_entropy, other_class_confidence])
def test_adversarial_training_attacks_its_share(
    share: float, count: int, objective: object
) -> None:
    forward = Recorder(Small(3, 10).train())
    expected = torch.cat([X[:count] + found(forward.model, count, objective).delta, X[count:]])
    loss = Adversarial(THREAT, ATTACK, share, objective)(forward.model, forward, X, Y, seeded(9))  # type: ignore[arg-type]
    assert len(forward.batches) == 1, "one forward, so that batch normalisation sees both kinds"
    torch.testing.assert_close(forward.batches[0], expected)
    torch.testing.assert_close(loss.detach(), functional.cross_entropy(forward.logits, Y))


@pytest.mark.parametrize("rho", [1.0, 10.0])
def test_confidence_calibrated_training_is_algorithm_1(rho: float) -> None:
    """The loss as the paper's equations 3, 5 and 6 have it, example by example."""
    forward = Recorder(Small(3, 10).train())
    delta = found(forward.model, 3, other_class_confidence).delta
    delta_sizes = delta.abs().amax((1, 2, 3))
    assert delta_sizes.max() > 0
    loss = ConfidenceCalibrated(THREAT, ATTACK, rho)(forward.model, forward, X, Y, seeded(9))
    torch.testing.assert_close(forward.batches[0], torch.cat([X[:3] + delta, X[3:]]))
    total = 0.0
    for n in range(len(X)):
        f = forward.logits[n].exp() / forward.logits[n].exp().sum()
        lam = (1 - min(1, delta_sizes[n].item() / 0.1)) ** rho if n < 3 else 1.0
        target = [lam * (k == Y[n]) + (1 - lam) / 10 for k in range(10)]
        total -= sum(t * math.log(p) for t, p in zip(target, f.tolist(), strict=True)) / len(X)
    assert loss.item() == pytest.approx(total)


def test_a_union_of_one_threat_is_algorithm_1() -> None:
    losses, batches = [], []
    for method in (ConfidenceCalibrated(THREAT, ATTACK), CalibratedUnion((Part(THREAT, ATTACK),))):
        forward = Recorder(Small(3, 10).train())
        with torch.random.fork_rng():
            torch.manual_seed(4)  # of dropout
            losses.append(method(forward.model, forward, X, Y, seeded(9)).item())
        batches += forward.batches
    torch.testing.assert_close(*batches)
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("focus", [0.0, 0.5, 1.0])
def test_a_union_weighs_threats_by_the_confidence_that_attacks_reach(focus: float) -> None:
    """Image by image: even rows of the attacked half in the one ball, odd ones in the other."""
    x, y = torch.cat([X, X]), torch.cat([Y, Y])
    forward = Recorder(Small(3, 10).train())
    fast = copy.deepcopy(forward.model).eval()
    balls: tuple[Threat, ...] = (Linf(0.1), L2(2.0))
    images, distance, reached = x.clone(), torch.zeros(14), torch.ones(14)
    for first, ball in enumerate(balls):
        rows = torch.arange(first, 7, 2)
        problem = Problem.of(fast, x[rows], y[rows], ball, other_class_confidence)
        best = ATTACK(problem, seeded())
        images[rows] = x[rows] + best.delta
        distance[rows] = (ball.size(best.delta) / ball.epsilon).float()
        reached[rows] = best.value.exp().mean().float()
    parts = tuple(Part(ball, ATTACK) for ball in balls)
    loss = CalibratedUnion(parts, focus=focus)(forward.model, forward, x, y, seeded(9))
    torch.testing.assert_close(forward.batches[0], images)
    total, mean = 0.0, reached[:7].mean().item()
    for n in range(14):
        f = forward.logits[n].softmax(0).tolist()
        lam = (1 - min(1.0, distance[n].item())) ** 10
        target = [lam * (k == int(y[n])) + (1 - lam) / 10 for k in range(10)]
        weight = 1 - focus + focus * reached[n].item() / mean if n < 7 else 1.0
        total -= weight * sum(t * math.log(p) for t, p in zip(target, f, strict=True)) / 14
    assert loss.item() == pytest.approx(total, rel=1e-5)


def test_beyond_the_ball_of_bounds_confidence_fades_from_its_edge() -> None:
    """Image by image; within the ball, where the last of them stays, the label stays too."""
    forward = Recorder(Small(3, 10).train())
    fast = copy.deepcopy(forward.model).eval()
    inside = Part(Linf(0.04), PGD(5, 0.02))
    parts = (Part(L2(9.0), PGD(5, 4.0)), Part(Linf(0.3), PGD(5, 0.1)), inside)
    images, lam = X[:3].clone(), torch.ones(3)
    for row, part in enumerate(parts):
        rows = slice(row, row + 1)
        problem = Problem.of(fast, X[rows], Y[rows], part.threat, other_class_confidence)
        delta = part.attack(problem, seeded()).delta
        assert delta.any()
        images[rows] = X[rows] + delta
        beyond = [max(abs(entry) - 0.05, 0.0) for entry in delta.flatten().tolist()]
        size = math.hypot(*beyond) if isinstance(part.threat, L2) else max(beyond)
        lam[row] = (1 - min(1.0, size / part.threat.epsilon)) ** 4
    assert ((lam[:2] > 0) & (lam[:2] < 1)).all(), "the test can tell"
    assert lam[2] == 1
    bounds, method = IntervalBound(0.05), CalibratedBeyond(IntervalBound(0.05), parts, 4.0, 0.5)
    with torch.random.fork_rng():
        torch.manual_seed(4)  # of dropout
        loss = method(forward.model, forward, X, Y, seeded(9))
        assert len(forward.batches) == 1
        torch.testing.assert_close(forward.batches[0], torch.cat([X, images]))
        total = loss.item()
        torch.manual_seed(4)
        total -= bounds.with_others(forward.model, forward, X, Y, images)[0].item()
    found = 0.0
    for n in range(3):
        f = forward.logits[len(X) + n].softmax(0).tolist()
        target = [lam[n].item() * (k == int(Y[n])) + (1 - lam[n].item()) / 10 for k in range(10)]
        found -= sum(t * math.log(p) for t, p in zip(target, f, strict=True)) / 3
    assert total == pytest.approx(0.5 * found, rel=1e-4)


def test_attacks_beyond_bounds_begin_when_they_are_due() -> None:
    method = CalibratedBeyond(IntervalBound(0.4, ramp=0.5), (Part(L2(1.0), ATTACK),), begin=0.25)
    assert method.at(0.1).weight == 0
    assert method.at(0.25).weight == 1
    assert method.at(0.25).bound == method.bound.at(0.25)
    forward = Recorder(Small(3, 10).train())
    method.at(0.1)(forward.model, forward, X, Y, seeded(9))
    assert forward.batches[0].equal(X), "nothing was attacked"
    with pytest.raises(ValueError, match="must name at least one threat"):
        CalibratedBeyond(IntervalBound(0.4), ())
    for field in ("rho", "weight", "begin"):
        with pytest.raises(ValueError, match=f"CalibratedBeyond: {field}"):
            replace(method, **{field: -1.0})  # type: ignore[arg-type]


def test_a_union_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="must name at least one threat"):
        CalibratedUnion(())
    with pytest.raises(ValueError, match="CalibratedUnion: focus"):
        CalibratedUnion((Part(THREAT, ATTACK),), focus=1.5)


def test_training_starts_from_other_images_of_the_batch() -> None:
    """Half of mixed starts are points of the ball nearest to images of the batch."""
    forward = Recorder(Small(3, 10).train())
    starts: list[Tensor] = []

    @dataclass(frozen=True)
    class Watching(PGD):
        def from_start(self, problem: Problem, delta: Tensor, generator: Generator) -> Found:
            starts.append(delta)
            return super().from_start(problem, delta, generator)

    x, y = X.repeat(60, 1, 1, 1), Y.repeat(60)
    attack = Watching(1, 0.1, start="mixed")
    ConfidenceCalibrated(THREAT, attack)(forward.model, forward, x, y, seeded(3))
    (delta,) = starts
    zero = (delta.flatten(1) == 0).all(1)
    nearest = (X[None] - x[:210, None]).clamp(-0.1, 0.1)  # (N, images, C, H, W)
    towards = ((delta[:, None] - nearest).abs().flatten(2).amax(2) < 1e-9).any(1)
    assert zero.double().mean() > 0.15, "a quarter, and those whose image is their own"
    assert (towards & ~zero).double().mean() > 0.25
    assert 0.15 < (~towards & ~zero).double().mean() < 0.35, "random"


def test_halves_weigh_the_same() -> None:
    """½ mean over the adversarial half + ½ mean over the clean half."""
    forward = Recorder(Small(3, 10).train())
    loss = Adversarial(THREAT, ATTACK)(forward.model, forward, X[:6], Y[:6], seeded(9))
    each = functional.cross_entropy(forward.logits, Y[:6], reduction="none")
    torch.testing.assert_close(loss.detach(), 0.5 * each[:3].mean() + 0.5 * each[3:].mean())


def test_trades_is_its_published_loss() -> None:
    """Transcribed from the paper: fixed sign steps from Gaussian noise of deviation 0.001."""
    model = Small(3, 10).train()
    method = Trades(THREAT, PGD(5, 0.02, momentum=0.0, backtracking=None, start="near"), beta=3.0)
    noise = 0.001 * torch.randn(X.shape, generator=seeded(9), dtype=X.dtype)
    x_adv = (X + noise).clamp(0, 1)
    model.eval()
    points, losses = [x_adv], []
    clean = model(X).softmax(1).detach()
    for step in range(6):
        x_adv = x_adv.detach().requires_grad_()
        each = functional.kl_div(model(x_adv).log_softmax(1), clean, reduction="none").sum(1)
        losses.append(each.detach())
        if step < 5:
            (gradient,) = torch.autograd.grad(each.sum(), x_adv)
            x_adv = x_adv.detach() + 0.02 * gradient.sign()
            x_adv = torch.min(torch.max(x_adv, X - 0.1), X + 0.1).clamp(0, 1)
            points.append(x_adv)
    chosen = torch.stack(losses).argmax(
        0
    )  # the best point, where the published code takes the last
    attacked = torch.stack([p.detach() for p in points])[chosen, torch.arange(len(X))]
    model.train()
    forward = Recorder(copy.deepcopy(model))
    loss = method(forward.model, forward, X, Y, seeded(9))
    torch.testing.assert_close(forward.batches[0], torch.cat([X, attacked]))
    both = forward.logits
    kl = functional.kl_div(both[7:].log_softmax(1), both[:7].softmax(1), reduction="batchmean")
    torch.testing.assert_close(loss.detach(), functional.cross_entropy(both[:7], Y) + 3.0 * kl)
    with pytest.raises(ValueError, match="at a zero start the divergence has no gradient"):
        Trades(THREAT, PGD(5, 0.02))
    with pytest.raises(ValueError, match="at a zero start the divergence has no gradient"):
        Trades(THREAT, APGD(5))
    assert Trades(THREAT, Random(5)).attack == Random(5), "only a start can be zero"


def test_multi_steepest_takes_the_best_of_three_steps() -> None:
    """Against a transcription that goes example by example."""
    model = Small(3, 10).train()
    method = MultiSteepest(
        Direction(Linf(0.1), 0.03), Direction(L2(0.8), 0.3), Direction(L1(4.0), 1.5), iterations=4
    )
    model.eval()
    expected, taken = [], set()
    for x, y in zip(X[:, None], Y[:, None], strict=True):
        delta, points = torch.zeros_like(x), []
        for step in range(5):
            image = (x + delta).requires_grad_()
            loss = functional.cross_entropy(model(image), y)
            points.append((loss.item(), delta))
            if step == 4:
                break
            (gradient,) = torch.autograd.grad(loss, image)
            trials = []
            for one in (method.linf, method.l2, method.l1):
                trial = one.threat.project(
                    x, delta + one.rate * one.threat.ascent(gradient, (x + delta).detach())
                )
                trials.append(
                    (functional.cross_entropy(model((x + trial).clamp(0, 1)), y).item(), trial)
                )
            best_of = max(range(3), key=lambda k: trials[k][0])
            taken.add(best_of)
            delta = trials[best_of][1]
        expected.append(x + max(points, key=lambda point: point[0])[1])
    assert len(taken) > 1  # the choice is put to the test
    model.train()
    forward = Recorder(model)
    loss = method(model, forward, X, Y, seeded(9))
    torch.testing.assert_close(forward.batches[0], torch.cat(expected).clamp(0, 1))
    torch.testing.assert_close(loss.detach(), functional.cross_entropy(forward.logits, Y))
    assert method.threats == (Linf(0.1), L2(0.8), L1(4.0))


def test_imported_weights_cannot_be_trained() -> None:
    model = Small(3, 10)
    with pytest.raises(ValueError, match="cannot be trained again"):
        Imported(THREAT)(model, model, X, Y, seeded())


def test_methods_say_which_threats_training_sees() -> None:
    near = PGD(5, 0.02, start="near")
    linf, l2, l1 = (Direction(threat, 0.1) for threat in (Linf(0.1), L2(0.8), L1(4.0)))
    seen: dict[Method, tuple[Threat, ...]] = {
        Normal(): (),
        Adversarial(THREAT, ATTACK): (THREAT,),
        ConfidenceCalibrated(L2(1.0), ATTACK): (L2(1.0),),
        CalibratedUnion((Part(THREAT, ATTACK), Part(L2(1.0), ATTACK))): (THREAT, L2(1.0)),
        Trades(THREAT, near): (THREAT,),
        MultiSteepest(linf, l2, l1): (linf.threat, l2.threat, l1.threat),
        IntervalBound(0.1): (THREAT,),
        CalibratedBeyond(IntervalBound(0.1), (Part(L2(1.0), ATTACK),)): (THREAT, L2(1.0)),
        Imported(): (),
        Imported(THREAT): (THREAT,),
    }
    assert {method: method.threats for method in seen} == seen
    assert {type(method).__name__ for method in seen} == set(METHODS), "none is missing here"


def test_every_method_is_in_the_table_under_its_name() -> None:
    public = {
        name: kind
        for name, kind in {
            name: kind
            for module in (methods, interval_bound, calibrated_union, calibrated_beyond)
            for name, kind in vars(module).items()
        }.items()
        if isinstance(kind, type) and Method in kind.__mro__[1:]
    }
    assert public == METHODS


@dataclass(frozen=True)
class NoisyLabels(Method):
    """A method as a user writes it: adversarial examples whose labels are smoothed."""

    threat: Linf
    attack: PGD
    smoothing: float = 0.1

    @property
    def threats(self) -> tuple[Threat, ...]:
        return (self.threat,)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        problem = Problem.of(model, x, y, self.threat, cross_entropy)
        images = problem.images(self.attack(problem, generator))
        return functional.cross_entropy(forward(images), y, label_smoothing=self.smoothing)


def test_a_method_of_ones_own_takes_few_lines_and_trains(mnist_train: Images) -> None:
    assert len(inspect.getsource(NoisyLabels).splitlines()) <= 25
    method = NoisyLabels(THREAT, PGD(2, 0.05))
    recipe = Recipe("mine", method, 2, LinearToZero(), Probe(THREAT, PGD(2, 0.05)))
    generator = seeded()
    model = create_model("lenet", generator)
    training, monitor = mnist_train[:1000], mnist_train[1000:1200]
    log = [epoch.entry for epoch in epochs(recipe, model, training, monitor, generator)]
    assert log[1]["loss"] < log[0]["loss"]
    assert log[1]["clean_error"] < 0.7
    assert recipe.method.threats == (THREAT,)


def test_a_recipe_takes_methods_only() -> None:
    def loss(*batch: object) -> Tensor:
        raise NotImplementedError

    with pytest.raises(ValueError, match="method must be an instance of a class that inherits"):
        Recipe("mine", loss, 2, LinearToZero(), Probe(THREAT, ATTACK))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (Method,), {})()


@pytest.mark.parametrize(
    "method",
    [
        Normal(),
        Adversarial(THREAT, ATTACK),
        Adversarial(THREAT, ATTACK, 1.0),
        ConfidenceCalibrated(L2(1.0), ATTACK),
    ],
)
def test_a_loss_has_a_gradient_for_every_weight(
    method: Normal | Adversarial | ConfidenceCalibrated,
) -> None:
    model = Small(3, 2).train()
    loss = method(model, model, X[:4], Y[:4] % 2, seeded())
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(
        weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters()
    )
    assert method(model, model, X[:2], Y[:2] % 2, seeded()).isfinite()


def test_beyond_epsilon_the_target_is_uniform() -> None:
    assert transition(torch.tensor([0.0, 0.5, 1.0, 1.5]), 2.0).tolist() == [1, 0.25, 0, 0]


def test_a_share_is_not_shifted_by_a_float() -> None:
    assert [attacked_count(share, 100) for share in (0.29, 0.57, 0.5, 1.0, 0.001)] == [
        29,
        57,
        50,
        100,
        1,
    ]


@pytest.mark.parametrize(
    "method", [Normal(), Adversarial(THREAT, ATTACK), ConfidenceCalibrated(THREAT, ATTACK)]
)
def test_bad_batches_are_refused_before_they_spoil_the_model(
    method: Normal | Adversarial | ConfidenceCalibrated,
) -> None:
    """In the part that is not attacked, too."""
    model = Small(3, 10).train()
    before = copy.deepcopy(model.state_dict())
    last = torch.tensor(6)
    for x, y, message in (
        (X.index_fill(0, last, math.nan), Y, "NaN: see example 6"),
        (X.index_fill(0, last, 200.0), Y, "in .0,1., but range"),
        (X, Y.index_fill(0, last, -100), "0 or more: see example 6"),
    ):
        with pytest.raises(ValueError, match=message):
            method(model, model, x, y, seeded())
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    with pytest.raises(ValueError, match="below 10, the model's number of classes"):
        method(model, model, X, Y.index_fill(0, last, 10), seeded())
    assert method(model, model, X, Y.int(), seeded()).isfinite()


def test_impossible_settings_are_refused() -> None:
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="share"):
            Adversarial(THREAT, ATTACK, share)
    for rho in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="rho"):
            ConfidenceCalibrated(THREAT, ATTACK, rho)


def train(method: Normal | ConfidenceCalibrated, images: Images, epochs: int = 8) -> nn.Module:
    """The whole training loop: twenty lines."""
    generator = seeded(0)
    model = create_model("lenet", generator).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = epochs * (len(images) // 100)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    x, y = images.floats(), images.y
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).view(-1, 100):
            loss = method(model, model, x[rows], y[rows], generator)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return model.eval()


def test_a_ccat_model_is_unsure_of_its_adversarial_examples(
    mnist_train: Images, mnist_test: Images
) -> None:
    """On real digits: a normal model is sure and wrong within ε = 0.3, CCAT is not."""
    threat, x, y = Linf(0.3), mnist_test[:500].floats(), mnist_test[:500].y
    accuracy, confidence = {}, {}
    for method in (
        Normal(),
        ConfidenceCalibrated(threat, PGD(10, 0.05, backtracking=1.5, start="either")),
    ):
        model = train(method, mnist_train[:2000])
        problem = Problem.of(model, x, y, threat, other_class_confidence)
        confidence[type(method)] = PGD(40, 0.02)(problem, seeded()).value.exp().mean().item()
        accuracy[type(method)] = (model(x).argmax(1) == y).double().mean().item()
    assert confidence[Normal] > 0.95
    assert confidence[ConfidenceCalibrated] < 0.6
    assert accuracy[Normal] > 0.92
    assert accuracy[ConfidenceCalibrated] > 0.88
