"""Attacks of other libraries as functions (x, y) -> x_adv. They are imported when used; neither is needed otherwise."""

from typing import Any

from torch import Tensor, nn

from ccat.api import External
from ccat.recipes import label
from ccat.threats import L1, L2, Linf, Threat


def foolbox(model: nn.Module, attack: Any, threat: Threat) -> External:
    """An attack of foolbox, such as `foolbox.attacks.LinfPGD()`."""
    from foolbox.models.pytorch import PyTorchModel  # noqa: PLC0415

    def function(x: Tensor, y: Tensor) -> Tensor:
        wrapped = PyTorchModel(model.eval(), bounds=(0, 1), device=x.device)
        found: Tensor = attack(wrapped, x, y, epsilons=threat.epsilon)[1]
        return found

    return External(f"foolbox {type(attack).__name__}", threat, function)


def autoattack(model: nn.Module, threat: Threat, version: str = "standard", **options: Any) -> External:
    """AutoAttack (Croce & Hein 2020; PyPI's pyautoattack), for L∞, L2 and L1. Its targeted attacks want ten classes; of fewer, name others:
    `version="custom", attacks=["apgd-ce", "square"]`.
    """
    from pyautoattack import AutoAttack  # noqa: PLC0415

    names = {Linf: "Linf", L2: "L2", L1: "L1"}
    if type(threat) not in names:
        raise ValueError(f"AutoAttack is made for Linf, L2 and L1, not for {label(threat)}")

    def function(x: Tensor, y: Tensor) -> Tensor:
        attack = AutoAttack(
            model.eval(), norm=names[type(threat)], eps=threat.epsilon, version=version, device=x.device, **{"seed": 0, **options}
        )
        found: Tensor = attack.run_standard_evaluation(x, y, batch_size=len(x))[0]
        return found

    return External(f"AutoAttack {version}", threat, function)
