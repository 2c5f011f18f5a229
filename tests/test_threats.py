import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from torch import Tensor
from truth import seeded

import ccat.threats
from ccat import L0, L1, L2, Frame, Linf, Threat

# one line per threat
THREATS: dict[str, Threat] = {
    "Linf": Linf(0.3),
    "L2": L2(1.5),
    "L1": L1(4.0),
    "L0": L0(5),
    "L0 entries": L0(5, per="entry"),
    "Frame": Frame(2),
    "L2 plain": L2(1.5, boxed=False),
    "L1 plain": L1(4.0, boxed=False),
    "L0 plain": L0(5, boxed=False),
}
NEAREST = ["Linf", "L2", "L1", "L0", "L0 entries", "Frame"]
threats = pytest.mark.parametrize("name", THREATS)


def images(seed: int, kind: str = "mixed", count: int = 4) -> Tensor:
    """Grey values, zeros and ones: what real images are made of."""
    generator = seeded(seed)
    x = torch.rand(count, 3, 8, 8, generator=generator, dtype=torch.float64)
    corner = (torch.rand(x.shape, generator=generator) < 0.5).double()
    choice = (
        torch.rand(x.shape, generator=generator) < {"grey": 0.0, "mixed": 0.6, "corners": 1.0}[kind]
    )
    return torch.where(choice, corner, x)


def noise(seed: int, scale: float, count: int = 4) -> Tensor:
    return scale * torch.randn(count, 3, 8, 8, generator=seeded(seed + 1), dtype=torch.float64)


@threats
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-9, 0.01, 0.3, 3.0, 1e4]),
    kind=st.sampled_from(["grey", "mixed", "corners"]),
)
@settings(max_examples=40)
def test_a_projection_is_allowed_and_stays_put(
    name: str, seed: int, scale: float, kind: str
) -> None:
    threat, x = THREATS[name], images(seed, kind)
    delta = threat.project(x, noise(seed, scale))
    assert (threat.size(delta) <= threat.epsilon * (1 + 1e-12)).all()
    assert (x + delta >= 0).all()
    assert (x + delta <= 1).all()
    torch.testing.assert_close(threat.project(x, delta), delta, rtol=1e-9, atol=1e-12)


@threats
def test_what_is_allowed_is_left_alone_in_float32_too(name: str) -> None:
    threat, x = THREATS[name], images(3).float()
    delta = threat.project(x, noise(3, 0.5).float())
    assert (threat.size(delta) <= threat.epsilon * (1 + 1e-6)).all()
    assert ((x + delta).clamp(0, 1) == x + delta).all()
    torch.testing.assert_close(threat.project(x, delta), delta, rtol=1e-6, atol=1e-7)
    assert threat.project(x, torch.zeros_like(x)).abs().max() == 0


@pytest.mark.parametrize("name", NEAREST)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 0.5, 3.0]))
@settings(max_examples=25)
def test_nothing_allowed_is_nearer_than_the_projection(name: str, seed: int, scale: float) -> None:
    threat, x, delta = THREATS[name], images(seed), noise(seed, scale)
    projected = threat.project(x, delta)
    distance = (delta - projected).flatten(1).norm(dim=1)
    for attempt in range(10):
        other = threat.project(x, noise(seed + attempt + 2, scale))
        # Between two allowed points everything is allowed, except in L0.
        for share in (0.01, 0.5, 1.0):
            point = other if isinstance(threat, L0) else (1 - share) * projected + share * other
            assert ((delta - point).flatten(1).norm(dim=1) >= distance - 1e-9).all()


def largest_fitting(
    size: Callable[[float], Tensor], epsilon: float, low: float, high: float
) -> float:
    """Where size(t) = ε between low and high; high if the size is smaller all the way."""
    return (
        high
        if size(high) < epsilon
        else float(brentq(lambda t: size(t).item() - epsilon, low, high, xtol=1e-14))
    )


def shrunk_by_root_finding(threat: L1 | L2, x: Tensor, delta: Tensor) -> Tensor:
    """Return the nearest point of ball and box for one image.

    Its entries shrink by θ (L1) or to the share s (L2), or stop at the wall.
    """
    length, wall = delta.abs(), torch.where(delta > 0, 1 - x, x)
    if isinstance(threat, L2):
        s = largest_fitting(
            lambda s: torch.minimum(s * length, wall).norm(), threat.epsilon, 0.0, 1.0
        )
        return torch.minimum(s * length, wall) * delta.sign()
    minus_theta = largest_fitting(
        lambda t: torch.minimum((length + t).clamp(min=0), wall).sum(),
        threat.epsilon,
        -length.max().item(),
        0.0,
    )
    return torch.minimum((length + minus_theta).clamp(min=0), wall) * delta.sign()


@pytest.mark.parametrize("kind", ["grey", "corners"])
@pytest.mark.parametrize("threat", [L1(4.0), L2(1.5), L2(7.0)])
def test_l1_and_l2_agree_with_a_root_finder(threat: L1 | L2, kind: str) -> None:
    x, delta = images(5, kind), noise(5, 0.7)
    expected = torch.stack(
        [shrunk_by_root_finding(threat, x[row], delta[row]) for row in range(len(x))]
    )
    torch.testing.assert_close(threat.project(x, delta), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("threat", [L1(4.0), L2(1.5)])
def test_l1_and_l2_of_one_large_entry_and_of_rows_of_very_different_scale(threat: L1 | L2) -> None:
    """A search moves one entry by ε, far beyond its wall. Other rows change nothing, not a bit."""
    x, delta = images(5, "corners"), noise(5, 0.05)
    delta[:, 0, 0, 0] += threat.epsilon
    delta[1] *= 1e3
    delta[2] *= 1e-3
    found = threat.project(x, delta)
    for row in range(len(x)):
        expected = (
            shrunk_by_root_finding(threat, x[row], delta[row])
            if torch.minimum(delta[row].abs(), torch.where(delta[row] > 0, 1 - x[row], x[row]))
            .norm(p=1 if isinstance(threat, L1) else 2)
            .item()
            > threat.epsilon
            else (x[row] + delta[row]).clamp(0, 1) - x[row]
        )
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-10)
        alone = threat.project(x[row : row + 1], delta[row : row + 1])[0]
        assert alone.equal(found[row])
    single = threat.project(x.float(), delta.float())
    assert (threat.size(single) <= threat.epsilon * (1 + 1e-6)).all()
    torch.testing.assert_close(single.double(), found, rtol=0, atol=1e-5)


def duchi(delta: Tensor, radius: float) -> Tensor:
    """Duchi et al. 2008, figure 1, for one vector."""
    if delta.abs().sum() <= radius:
        return delta
    ordered = delta.abs().sort(descending=True).values
    excess = ordered.cumsum(0) - radius
    steps = torch.arange(1, len(delta) + 1)
    rho = int((ordered - excess / steps > 0).nonzero().max())
    return (delta.abs() - excess[rho] / (rho + 1)).clamp(min=0) * delta.sign()


def test_plain_projections_are_the_papers_ball_then_box() -> None:
    x, delta = images(6), noise(6, 0.7)
    rows = delta.flatten(1)
    expected = torch.stack([duchi(row, 4.0) for row in rows])
    torch.testing.assert_close(
        L1(4.0, boxed=False).project(x, delta), _clip(x, expected), rtol=0, atol=1e-10
    )
    torch.testing.assert_close(
        L2(1.5, boxed=False).project(x, delta),
        _clip(x, 1.5 * rows / rows.norm(dim=1, keepdim=True)),
    )
    largest = rows.abs() >= rows.abs().topk(5).values[:, -1:]
    torch.testing.assert_close(
        L0(5, per="entry", boxed=False).project(x, delta), _clip(x, rows * largest)
    )


def _clip(x: Tensor, rows: Tensor) -> Tensor:
    return (x + rows.view_as(x)).clamp(0, 1) - x


def test_boxes_far_away_make_no_difference() -> None:
    x = torch.full((4, 3, 8, 8), 0.5, dtype=torch.float64)
    delta = noise(8, 0.1)
    for boxed, plain in (
        (L2(0.5), L2(0.5, boxed=False)),
        (L1(2.0), L1(2.0, boxed=False)),
        (L0(3), L0(3, boxed=False)),
    ):
        torch.testing.assert_close(boxed.project(x, delta), plain.project(x, delta))


def test_l0_keeps_large_magnitudes_not_large_values() -> None:
    x = torch.full((1, 1, 2, 2), 0.5)
    delta = torch.tensor([[[[-0.4, 0.1], [0.2, -0.3]]]])
    torch.testing.assert_close(
        L0(2).project(x, delta), torch.tensor([[[[-0.4, 0.0], [0.0, -0.3]]]])
    )


def test_l0_counts_pixels_or_entries() -> None:
    delta = torch.zeros(1, 3, 4, 4)
    delta[0, :, 1, 1] = torch.tensor([0.1, -0.1, 0.0])
    delta[0, 2, 3, 3] = 0.2
    assert L0(1).size(delta).tolist() == [2]
    assert L0(1, per="entry").size(delta).tolist() == [3]
    x = torch.full_like(delta, 0.5)
    assert L0(1).project(x, delta).nonzero().tolist() == [[0, 2, 3, 3]]
    delta[0, :2, 1, 1] *= 2
    assert L0(1).project(x, delta).nonzero().tolist() == [[0, 0, 1, 1], [0, 1, 1, 1]]
    assert L0(100).project(x, delta).equal(delta)


def test_the_size_of_a_frame_is_the_border_it_needs() -> None:
    delta = torch.zeros(4, 1, 8, 8)
    delta[1, 0, 0, 5] = 0.1
    delta[2, 0, 3, 1] = -0.1
    delta[3, 0, 4, 4] = 0.1
    assert Frame(2).size(delta).tolist() == [0, 1, 2, 4]
    assert Frame(2).project(torch.full_like(delta, 0.5), delta).flatten(1).any(1).tolist() == [
        False,
        True,
        True,
        False,
    ]


def test_a_frame_may_darken_and_brighten_to_any_value() -> None:
    x = images(2)
    delta = Frame(2).project(x, 1 - 2 * x)
    inside = delta[:, :, 2:-2, 2:-2]
    assert inside.abs().max() == 0
    torch.testing.assert_close((x + delta)[:, :, :2], 1 - x[:, :, :2])


@threats
@pytest.mark.parametrize("scale", [1e25, 1e6])
def test_huge_perturbations_are_projected_in_float32(name: str, scale: float) -> None:
    threat, x = THREATS[name], images(9).float()
    delta = threat.project(x, noise(9, 1.0).float() * scale)
    assert delta.isfinite().all()
    assert (threat.size(delta) <= threat.epsilon * (1 + 1e-6)).all()
    assert (
        (threat.size(delta) >= threat.epsilon * 0.9).all() or scale > 1e6 or name.endswith("plain")
    )


def test_a_ball_larger_than_the_box_allows_everything() -> None:
    x, delta = images(9), noise(9, 3.0)
    for threat in (L2(1e200), L1(1e200), L0(10**6)):
        torch.testing.assert_close(threat.project(x, delta), _clip(x, delta))


def test_every_public_threat_is_in_the_table() -> None:
    assert set(ccat.threats.THREATS.values()) == {type(threat) for threat in THREATS.values()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linf(0.0), "epsilon must be a number above 0"),
        (lambda: Linf(-0.1), "epsilon must be a number above 0"),
        (lambda: Linf(8), "8/255"),
        (lambda: L2(math.nan), "above 0 and finite, not nan"),
        (lambda: L2(math.inf), "above 0 and finite, not inf"),
        (lambda: L1("18"), "not '18'"),  # type: ignore[arg-type]
        (lambda: L1(18.0, density=0.0), "density"),
        (lambda: L0(1.5), "whole number"),  # type: ignore[arg-type]
        (lambda: L0(0), "at least 1"),
        (lambda: L0(3, per="channel"), "'pixel' or 'entry'"),  # type: ignore[arg-type]
        (lambda: Frame(0), "at least 1"),
        (
            lambda: Frame(4).project(torch.zeros(1, 1, 8, 8), torch.zeros(1, 1, 8, 8)),
            "leaves nothing",
        ),
    ],
)
def test_impossible_threats_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
