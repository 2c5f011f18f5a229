import math

import pytest
import torch
from test_threats import THREATS, images, noise, threats
from truth import seeded

from ccat import L0, L1, L2, Threat


def held_at_walls(threat: Threat) -> bool:
    """True if a step does not pay for entries that the gradient pushes out of [0,1]."""
    return isinstance(threat, L2 | L1 | L0) and threat.boxed


@threats
@pytest.mark.parametrize("kind", ["grey", "mixed", "corners"])
def test_a_step_has_unit_length_over_what_can_move(name: str, kind: str) -> None:
    threat, x, gradient = THREATS[name], images(4, kind), noise(4, 2.0)
    step = threat.ascent(gradient, x)
    assert (step * gradient >= 0).all()
    out = ((x == 0) & (gradient < 0)) | ((x == 1) & (gradient > 0))
    free = torch.where(out, 0, step) if held_at_walls(threat) else step
    norm = {"Linf": math.inf, "Frame": math.inf, "L2": 2, "L1": 1, "L0": 1}[
        name.split(maxsplit=1)[0]
    ]
    torch.testing.assert_close(
        free.flatten(1).norm(norm, dim=1), torch.ones(len(x), dtype=torch.float64)
    )


def test_an_l1_step_takes_the_steepest_of_the_entries_that_can_move() -> None:
    gradient = torch.tensor([9.0, -8.0, 7.0, -6.0, 1.0, 0.5]).view(1, 1, 2, 3)
    image = torch.tensor([1.0, 0.5, 1.0, 0.5, 0.5, 0.5]).view(1, 1, 2, 3)
    step = L1(1.0, density=0.3).ascent(gradient, image).flatten()  # two of six
    torch.testing.assert_close(step[[1, 3]], torch.tensor([-8 / 14, -6 / 14]))
    assert step[[4, 5]].abs().max() == 0
    assert (step[[0, 2]] > 0).all()  # held at their wall
    plain = L1(1.0, density=0.3, boxed=False).ascent(gradient, image).flatten()
    torch.testing.assert_close(plain, torch.tensor([9 / 17, -8 / 17, 0, 0, 0, 0]))


@threats
def test_rows_of_any_scale_move_alike_and_alone(name: str) -> None:
    """A past defect of others: a step scaled by the batch's maximum."""
    threat, x, gradient = THREATS[name], images(9), noise(9, 1.0)
    scales = torch.tensor([1e-30, 1e-6, 1.0, 1e30], dtype=torch.float64)[:, None, None, None]
    torch.testing.assert_close(
        threat.ascent(gradient * scales, x), threat.ascent(gradient, x), rtol=1e-6, atol=1e-9
    )
    small = threat.ascent((gradient * scales.clamp(max=1)).float(), x.float())
    torch.testing.assert_close(small, threat.ascent(gradient, x).float(), rtol=1e-4, atol=1e-6)
    for row in range(len(x)):
        part = slice(row, row + 1)
        big = gradient * scales
        torch.testing.assert_close(threat.project(x, big)[part], threat.project(x[part], big[part]))


@pytest.mark.parametrize("threat", [L2(1.0), L1(1.0, density=0.5), L0(2)])
def test_what_is_held_at_a_wall_stays_in_the_step_at_no_cost(threat: L2 | L1 | L0) -> None:
    """Otherwise a projection takes it back to make room for others.

    At L0:15 that found 89 % instead of 80 %.
    """
    gradient = torch.tensor([[9.0, -8.0], [3.0, -4.0]]).view(1, 1, 2, 2)
    image = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).view(1, 1, 2, 2)
    step = threat.ascent(gradient, image).flatten()
    assert step[:2].tolist() == [1, -1], "as hard as a whole step"
    alone = threat.ascent(torch.tensor([[0.0, 0.0], [3.0, -4.0]]).view(1, 1, 2, 2), image).flatten()
    torch.testing.assert_close(step[2:], alone[2:])
    faint = threat.ascent(gradient * torch.tensor([[1.0, 1.0], [1e-25, 1e-25]]), image).flatten()
    torch.testing.assert_close(faint, step)


@threats
def test_a_zero_gradient_and_a_cornered_image_give_finite_steps(name: str) -> None:
    threat, x = THREATS[name], torch.zeros(2, 3, 8, 8)
    assert threat.ascent(torch.zeros_like(x), x).abs().max() == 0
    step = threat.ascent(-torch.rand(x.shape, generator=seeded()) - 0.1, x)
    assert step.isfinite().all()
    assert threat.project(x, 1000 * step).abs().max() == 0


@threats
def test_samples_come_from_the_generator_and_fill_the_threat(name: str) -> None:
    threat, x = THREATS[name], images(1, "grey", count=2000)
    sample = threat.sample(x, seeded(5))
    assert sample.equal(threat.sample(x, seeded(5)))
    assert not sample.equal(threat.sample(x, seeded(6)))
    size = threat.size(sample) / threat.epsilon
    if name == "Frame":
        assert (size == 1).all()
        values = (x + sample)[:, :, 0]
        assert abs(values.mean() - 0.5) < 0.01
        assert abs(values.std() - math.sqrt(1 / 12)) < 0.01
    elif name.startswith("L0"):
        assert abs(size.mean() - 2 / 3) < 0.02
        assert (x + sample).amin() >= 0
    else:  # uniform over sizes
        assert size.max() <= 1 + 1e-9
        for share in (0.25, 0.5, 0.75):
            assert abs((size < share).double().mean() - share) < 0.04
