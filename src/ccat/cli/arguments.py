"""What commands share: how runs, fields, devices and numbers are written on the command line."""

import difflib
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from ccat.checks import require_count
from ccat.data import UNVERIFIED
from ccat.engine import Engine, Local, Ray, cores
from ccat.fields import override, parse
from ccat.recipes import Recipe
from ccat.store import Run, StoreError, find_runs

Named = TypeVar("Named")
Command = Callable[[Namespace], None]
Add = Callable[[str, Command, str], ArgumentParser]


def run_of(name: str) -> Run:
    """A run by its path, or by its name in runs/."""
    for path in (Path(name), Path("runs") / name):
        if (path / "run.json").exists():
            return Run.open(path)
    near = difflib.get_close_matches(name, [str(path.relative_to("runs")) for path in find_runs(Path("runs"))])
    raise StoreError(
        f"there is no run {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else "; `ccat runs` lists those there are")
    )


def named(name: str, table: Mapping[str, Named], what: str) -> Named:
    """The entry of a table, or an error with the nearest names."""
    if name not in table:
        near = difflib.get_close_matches(name, table, cutoff=0.4) or list(table)
        raise ValueError(f"there is no {what} {name!r}; did you mean {' or '.join(near)}?")
    return table[name]


def overridden(recipe: Recipe, arguments: Sequence[str], unverified: bool = False) -> Recipe:
    """The recipe with `--field value` or `--field=value` set."""
    words = iter([part for argument in arguments for part in (argument.split("=", 1) if argument.startswith("--") else [argument])])
    changes = {}
    for word in words:
        if not word.startswith("--"):
            raise ValueError(f"{word!r} is not an option; fields are set as --epochs 3")
        value = next(words, None)
        if value is None or value.startswith("--"):
            raise ValueError(f"{word} needs a value")
        changes[word.removeprefix("--").replace("-", "_")] = value
    if "name" in changes:
        raise ValueError("a recipe keeps its name; --run chooses the directory")
    if unverified:
        changes["dataset"] = UNVERIFIED + changes.get("dataset", recipe.dataset).removeprefix(UNVERIFIED)
    return override(recipe, changes)


def device_of(options: Namespace) -> str:
    """The one asked for, or the best there is."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if options.device is None:
        return next(name for name, available in there.items() if available)
    if not there[options.device]:
        raise ValueError(f"there is no device {options.device!r} on this machine; there is {', '.join(n for n, a in there.items() if a)}")
    return str(options.device)


def count(text: str) -> int:
    """For argparse: a whole number of at least 1."""
    try:
        require_count("it", int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}") from None
    return int(text)


def number(text: str) -> float:
    """For argparse: 0.99, 99/100, or none for −∞."""
    try:
        return -math.inf if text.lower() == "none" else float(parse(text, float, "the value"))
    except ValueError as wrong:
        raise ArgumentTypeError(str(wrong)) from wrong


def channels(text: str) -> list[float]:
    """For argparse: a number per channel, 0.49,0.48,0.45."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"must be a number per channel, such as 0.49,0.48,0.45, not {text!r}") from None


def add_device(command: ArgumentParser) -> None:
    """--device."""
    command.add_argument("--device", choices=["cpu", "cuda", "mps"], help="(default: cuda or mps where there is one)")


def add_engine(command: ArgumentParser) -> None:
    """--workers, or --engine ray with what belongs to it."""
    add_workers(command)
    command.add_argument("--engine", choices=["local", "ray"], default="local", help="where attacks run (default: local processes)")
    command.add_argument("--address", help="of the Ray cluster: HOST:6379, or auto on one of its machines (default: this machine alone)")
    command.add_argument("--cpus", type=float, metavar="N", help="a task on Ray asks for (default: 1)")
    command.add_argument("--gpus", type=float, metavar="N", help="a task on Ray asks for, 0.25 shares one among four (default: 0)")


def engine_of(options: Namespace) -> tuple[Engine, str]:
    """Where attacks run, and on which device there."""
    if options.engine == "local":
        if given := [name for name in ("address", "cpus", "gpus") if getattr(options, name) is not None]:
            raise ValueError(f"--{given[0]} belongs to --engine ray")
        device = device_of(options)
        return Local(options.workers or (cores() if device == "cpu" else 1)), device
    if options.workers is not None:
        raise ValueError("--workers belongs to --engine local; on Ray as many tasks run at once as --cpus and --gpus allow")
    cpus, gpus = (1.0 if options.cpus is None else options.cpus), options.gpus or 0.0
    if cpus < 0 or gpus < 0 or cpus + gpus == 0:
        raise ValueError(f"a task needs a CPU or a GPU: --cpus {cpus:g} --gpus {gpus:g} asks for neither")
    if options.device is not None and (options.device == "cuda") != (gpus > 0):
        raise ValueError("on Ray, tasks compute on a GPU where --gpus says that they get one, otherwise on the CPU: leave --device out")
    return Ray(options.address, cpus, gpus), "cuda" if gpus else "cpu"


def add_workers(command: ArgumentParser) -> None:
    """--workers."""
    command.add_argument("--workers", type=count, help="processes to compute with (default: one per core; one on a GPU)")
