"""Plant errors in any model, and see how many of them attacks find."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from ccat.api.inputs import AttackLike, Within, cases_for, device_of, dtype_of
from ccat.attacking import Case, Target
from ccat.attacking.check import check as check_cases
from ccat.attacking.check import checkable
from ccat.attacking.planted import can_plant
from ccat.attacks.inputs import require_images, require_model
from ccat.attacks.scores import frozen
from ccat.checks import require_count
from ccat.data.images import to_floats
from ccat.evaluation.planted import PlantedErrors
from ccat.report.planted import planted_table
from ccat.threats import Condition


@dataclass(frozen=True)
class Checked:
    """How many planted errors attacks found, by condition."""

    checks: Mapping[Condition, PlantedErrors]

    def __str__(self) -> str:
        return planted_table(self.checks)


def check(
    model: nn.Module,
    images: Tensor,
    *,
    pool: Tensor | None = None,
    threats: Within | Sequence[Within] = (),
    suite: str | Sequence[Case] | None = "standard",
    attacks: Sequence[AttackLike] = (),
    examples: int = 100,
    complete: bool = False,
) -> Checked:
    """Plant an error around each of some images, and let attacks look for them.

    Args:
        model: Maps images (N, C, H, W) in [0,1] to logits (N, K).
        images: Images in [0,1] or bytes. Errors are planted around the first ones, at random points
            of the sphere or towards others of them.
        pool: Other images, which attacks may start from; by default the last half of the images.
        threats: Balls in L∞, L2 or L1; by default the suite's own for such images.
        suite: The attacks: the name of a suite, cases of your own, or None for `attacks` only.
        attacks: More attacks, of yours or others.
        examples: How many errors to plant in each ball, one around each image.
        complete: Ask every attack for every planted error; otherwise what one has found is not
            asked of those after it.

    Raises:
        ValueError: If there are too few images, or no ball in L∞, L2 or L1 among the threats.
    """
    x = to_floats(images.detach().cpu()).to(dtype_of(model))
    require_images(x)
    require_count("examples", examples)
    if len(x) < 4:
        raise ValueError(f"a check needs at least 4 images, not {len(x)}")
    device = device_of(model)
    if pool is None:
        x, pool = x[: len(x) // 2], x[len(x) // 2 :]
    require_model(model, x[:1].to(device))
    cases = [
        case
        for case in cases_for(suite, x, threats, attacks)
        if can_plant(case.threat) and checkable(case)
    ]
    if not cases:
        raise ValueError("errors can be planted in L∞, L2 and L1 only: choose such threats")
    x, pool = x.to(device), to_floats(pool).to(x.dtype).to(device)
    found = {}
    with frozen(model):
        target = Target(model, pool=pool)
        for condition in dict.fromkeys(case.condition for case in cases):
            some = [case for case in cases if case.condition == condition]
            name = suite if isinstance(suite, str) else "own attacks"
            first = x[:examples]
            found[condition] = check_cases(target, name, some, first, x, complete=complete)
    return Checked(found)
