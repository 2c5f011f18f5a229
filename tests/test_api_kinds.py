"""Models and arguments of every kind: each works, or is refused with a sentence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import Images, Linf

X = (torch.rand(60, 1, 6, 6, generator=seeded(1)) * 255).round() / 255


def linear(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).to(dtype)


Y = linear()(X).argmax(1)


class As(nn.Module):
    """A model whose logits are of another type than its weights."""

    def __init__(self, change: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.model, self.change = linear(), change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.model(x))


def evaluated(model: nn.Module, x: Tensor = X, **options: Any) -> ccat.Result:
    given: dict[str, Any] = {
        "threats": Linf(0.1),
        "suite": "demo",
        "examples": 20,
        "tpr": 0.9,
    } | options
    return ccat.evaluate(model, x, Y, **given)


KINDS: dict[str, Callable[[], Any]] = {
    "float64": lambda: linear(torch.float64),
    "to float64": lambda: As(lambda logits: logits.double()),
    "to half": lambda: As(lambda logits: logits.half()),
    "to bfloat16": lambda: As(lambda logits: logits.bfloat16()),
    "script": lambda: torch.jit.script(linear()),
    "trace": lambda: torch.jit.trace(linear(), X[:2]),  # type: ignore[no-untyped-call]
    "parallel": lambda: nn.DataParallel(linear()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_models_of_every_kind_give_the_same_numbers(kind: str) -> None:
    model = KINDS[kind]()
    plain, found = (evaluated(one).evaluation for one in (linear(), model))
    one, other = (each.attacks[0].pooled.rates["robust_error"].value for each in (plain, found))
    assert other == pytest.approx(one, abs=0.11), "two of twenty images, by rounding"
    x_adv = ccat.attack(model, X[:5].to(next(model.parameters()).dtype), Y[:5], Linf(0.1))
    assert (x_adv - X[:5]).abs().max() <= 0.1 + 1e-6


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (linear(torch.float16), "the model's weights are torch.float16, .*: call model.float()"),
        (linear(torch.bfloat16), "the model's weights are torch.bfloat16"),
        (As(lambda logits: logits.round().long()), "floating-point logits, not torch.int64"),
        (As(lambda logits: (logits, logits)), r"logits of shape \(8, K\) .*, not tuple"),
        (As(lambda logits: {"logits": logits}), "not dict"),
        (As(lambda logits: logits[:, :, None]), r"not \(8, 3, 1\)"),
    ],
)
def test_other_models_are_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(model)


def test_arguments_of_every_kind() -> None:
    images = Images((X * 255).byte(), Y)
    one = evaluated(linear(), calibration=images)
    two = evaluated(linear(), calibration=(X, Y))
    three = evaluated(linear(), images.x, calibration=(images.x, Y), threats=[Linf(0.1)])
    assert str(one) == str(two) == str(three)
    noise = evaluated(linear(), threats=[ccat.Condition(Linf(0.1), "noise")])
    assert [str(a.condition.title) for a in noise.evaluation.attacks] == ["distal Linf:0.1"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"examples": 2.5}, "examples must be 1 to 30, .* not 2.5"),
        ({"examples": True}, "not True"),
        ({"calibration": X}, "calibration must be a pair"),
        ({"calibration": (X, Y, Y)}, "calibration must be a pair"),
        ({"calibration": ("x", "y")}, "images must be a non-empty tensor"),
        ({"threats": "Linf:0.1"}, "a threat is given as"),
        ({"tpr": "high"}, "could not convert|must"),
        ({"tpr": 0.999}, "support TPRs up to"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            evaluated(linear(), **options)
