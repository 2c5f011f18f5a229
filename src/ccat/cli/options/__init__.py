"""The options of commands: a file per command with `add_options(parser)`.

Here is what several commands share: options, and how their values are read. Nothing in this folder
imports torch or NumPy, so that help, completion and mistakes in options are answered at once.
"""

import math
from argparse import ArgumentParser, ArgumentTypeError

from ccat.checks import require_count
from ccat.overrides import parse

TPR_HELP = (
    "share of correct calibration images to accept (default: 0.99, or the highest that few images "
    "support)"
)


def count(text: str) -> int:
    """Parse a whole number of at least 1, for argparse."""
    try:
        require_count("it", int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}") from None
    return int(text)


def threads(text: str) -> int:
    """Parse a number of threads, at most one for each core, for argparse."""
    found = count(text)
    from ccat.engine import cores  # noqa: PLC0415 (imports torch, which training needs as well)

    if found > cores():
        raise ArgumentTypeError(f"must be at most {cores()}, one for each core, not {text}")
    return found


def number(text: str) -> float:
    """Parse a number such as 0.99 or 99/100, or none for −∞, for argparse."""
    try:
        return -math.inf if text.lower() == "none" else float(parse(text, float, "the value"))
    except ValueError as wrong:
        raise ArgumentTypeError(str(wrong)) from wrong


def share(text: str) -> float:
    """Return the number that an option names; it must lie strictly between 0 and 1."""
    value = number(text)
    if not 0 < value < 1:
        raise ArgumentTypeError(f"{text!r} is not strictly between 0 and 1: write 0.9 for 90 %")
    return value


def channels(text: str) -> list[float]:
    """Parse a number per channel, such as 0.49,0.48,0.45, for argparse."""
    try:
        return [float(parse(part, float, "it")) for part in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(
            f"must be a number per channel, such as 0.49,0.48,0.45, not {text!r}"
        ) from None


def add_device(command: ArgumentParser) -> None:
    """Add --device."""
    command.add_argument(
        "--device", choices=["cpu", "cuda", "mps"], help="(default: cuda or mps if there is one)"
    )


def add_trust(command: ArgumentParser) -> None:
    """Add --trust, which the main function acts on before anything is read."""
    command.add_argument(
        "--trust",
        action="store_true",
        help="import and run code outside of ccat that the run names, such as a model's factory",
    )


def add_tpr(command: ArgumentParser) -> None:
    """Add --tpr."""
    command.add_argument("--tpr", type=number, help=TPR_HELP)


def add_workers(command: ArgumentParser) -> None:
    """Add --workers."""
    command.add_argument(
        "--workers",
        type=count,
        help="processes to compute with (default: one per core; one on a GPU)",
    )


def add_engine(command: ArgumentParser) -> None:
    """Add --workers, and --engine ray with its options."""
    add_workers(command)
    command.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="where attacks run (default: local processes)",
    )
    command.add_argument(
        "--address",
        help="the Ray cluster: HOST:6379, or auto on one of its machines (default: this machine)",
    )
    command.add_argument("--cpus", type=float, metavar="N", help="CPUs per Ray task (default: 1)")
    command.add_argument(
        "--gpus",
        type=float,
        metavar="N",
        help="GPUs per Ray task; 0.25 lets four share one (default: 0)",
    )
