"""`ccat score`: score adversarial examples computed elsewhere as one more attempt."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccat.cli.values import device_of, run_named, typed_condition
from ccat.data.npz import read_npz
from ccat.pipeline.benchmark import require_all_images, write_card
from ccat.pipeline.examples import score


def run(options: Namespace) -> None:
    """Score and store them."""
    condition = typed_condition(options.threat)
    x_adv = _read(options.file)
    scored = run_named(options.run)
    if not options.name.strip():
        raise ValueError("--name must say what the attempt is called")
    if scored.card.read() is not None:
        require_all_images(scored, x_adv, condition)
    score(scored, x_adv, condition, options.name, device_of(options))
    print(f"{len(x_adv)} examples scored within {condition.title}")
    if scored.card.read() is not None:
        print(f"The card {write_card(scored)} counts them.")


def _read(file: Path) -> Tensor:
    (found,) = read_npz(file, ["x_adv"], "x_adv, the adversarial examples")
    try:
        return torch.from_numpy(np.ascontiguousarray(found))
    except TypeError as wrong:
        raise ValueError(f"{file}: x_adv holds no numbers that torch knows ({wrong})") from wrong
