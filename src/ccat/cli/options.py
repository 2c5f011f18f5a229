"""What commands share: how runs, threats, devices and numbers are written on the command line."""

import difflib
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch

from ccat import extensions
from ccat.checks import require_count
from ccat.engine import Engine, Local, Ray, cores
from ccat.overrides import parse
from ccat.runs import Run, RunError, find_runs, is_run
from ccat.threats import Condition, Source, Threat, parse_threat

Named = TypeVar("Named")

TPR_HELP = (
    "share of correct calibration images to accept (default: 0.99, or the highest that few images "
    "support)"
)


def run_named(name: str) -> Run:
    """Open a run by its path, or by its name in runs/.

    Raises:
        RunError: If there is none; names the nearest ones.
    """
    for path in (Path(name), Path("runs") / name):
        if is_run(path):
            return Run.open(path)
    there = [str(path.relative_to("runs")) for path in find_runs(Path("runs"))]
    near = difflib.get_close_matches(name, there)
    advice = f"did you mean {' or '.join(near)}?" if near else "`ccat runs` lists those there are"
    raise RunError(f"there is no run {name!r}; {advice}")


def entry(name: str, table: Mapping[str, Named], what: str) -> Named:
    """Return the entry of a table.

    Raises:
        ValueError: If there is none; names the nearest ones.
    """
    if name not in table:
        near = difflib.get_close_matches(name, table, cutoff=0.4) or list(table)
        raise ValueError(f"there is no {what} {name!r}; did you mean {' or '.join(near)}?")
    return table[name]


def typed_threat(text: str) -> Threat:
    """Return the threat that a text names; a class of your own as package.module:Class:0.3."""
    name = text.rpartition(":")[0]
    if extensions.is_name(name):
        extensions.load_typed(name)
    return parse_threat(text)


def typed_condition(text: str) -> Condition:
    """Return what a text names: a threat on images, or on noise as distal:Linf:0.3.

    With reject:Linf:0.3 the attacker wants correct images to be rejected.
    """
    before, rest = set[str](), text
    while (first := rest.partition(":")[0]) in {"distal", "reject"} - before:
        before.add(first)
        rest = rest.partition(":")[2]
    source: Source = "noise" if "distal" in before else "test"
    return Condition(typed_threat(rest), source, "rejection" if "reject" in before else "error")


def device_of(options: Namespace) -> str:
    """Return the device asked for, or the best there is.

    Raises:
        ValueError: If this machine does not have it.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    available = [name for name, here in there.items() if here]
    if options.device is None:
        return available[0]
    if options.device not in available:
        raise ValueError(
            f"there is no device {options.device!r} on this machine; there is "
            f"{', '.join(available)}"
        )
    return str(options.device)


def count(text: str) -> int:
    """Parse a whole number of at least 1, for argparse."""
    try:
        require_count("it", int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}") from None
    return int(text)


def threads(text: str) -> int:
    """Parse a number of threads, at most one for each core, for argparse."""
    if (found := count(text)) > cores():
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


def engine_of(options: Namespace) -> tuple[Engine, str]:
    """Return where attacks run, and on which device there.

    Raises:
        ValueError: If options contradict each other.
    """
    if options.engine == "local":
        names = ("address", "cpus", "gpus")
        if given := [name for name in names if getattr(options, name) is not None]:
            raise ValueError(f"--{given[0]} belongs to --engine ray")
        device = device_of(options)
        return Local(options.workers or (cores() if device == "cpu" else 1)), device
    if options.workers is not None:
        raise ValueError(
            "--workers belongs to --engine local; on Ray, --cpus and --gpus decide how many tasks "
            "run at once"
        )
    cpus, gpus = (1.0 if options.cpus is None else options.cpus), options.gpus or 0.0
    if cpus < 0 or gpus < 0 or cpus + gpus == 0:
        raise ValueError(
            f"a task needs a CPU or a GPU: --cpus {cpus:g} --gpus {gpus:g} asks for neither"
        )
    if options.device is not None and (options.device == "cuda") != (gpus > 0):
        raise ValueError(
            "on Ray, tasks compute on a GPU if --gpus gives them one, otherwise on the CPU: leave "
            "--device out"
        )
    return Ray(options.address, cpus, gpus), "cuda" if gpus else "cpu"
