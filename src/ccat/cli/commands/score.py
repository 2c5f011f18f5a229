"""`ccat score`: score adversarial examples computed elsewhere as one more attempt."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccat.cli.options import add_device, add_trust, device_of, run_named, typed_condition
from ccat.data.npz import read_npz
from ccat.pipeline.benchmark import require_all_images, write_card
from ccat.pipeline.examples import score


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "file",
        type=Path,
        help="an .npz with the array x_adv: examples of the first test images, or of noise",
    )
    command.add_argument(
        "--threat",
        required=True,
        help="such as Linf:0.4, distal:Linf:0.4 for noise, or reject:Linf:0.4",
    )
    command.add_argument("--name", required=True, help="what the attempt is called")
    add_device(command)
    add_trust(command)


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
