"""What options stand for: runs, entries of tables, threats, devices, engines."""

import difflib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch

from ccat import extensions
from ccat.api import load
from ccat.catalog.zoo import is_zoo_name
from ccat.engine import Engine, Local, Ray, cores
from ccat.pipeline.zoo import copy_of_zoo
from ccat.rejection import Rejecting
from ccat.runs import Run, RunError, find_runs, is_run
from ccat.threats import Condition, Source, Threat, parse_threat

Named = TypeVar("Named")


def classifier_named(name: str, tpr: float | None = None, tau: float | None = None) -> Rejecting:
    """Load the classifier of a run by its path or its name in runs/, of a file, or of the zoo.

    Raises:
        RunError: If there is none; names the nearest ones.
    """
    if is_zoo_name(name) or Path(name).is_file():
        return load(name, tpr=tpr, tau=tau)
    return load(run_named(name).path, tpr=tpr, tau=tau)


def run_named(name: str) -> Run:
    """Open a run by its path, by its name in runs/, or a model of the zoo as zoo:NAME.

    A model of the zoo is copied into runs/ first, because commands write what they find to the run.

    Raises:
        RunError: If there is none; names the nearest ones.
    """
    if is_zoo_name(name):
        return copy_of_zoo(name, Path("runs"))
    for path in (Path(name), Path("runs") / name):
        if is_run(path):
            return Run.open(path)
    there = [str(path.relative_to("runs")) for path in find_runs(Path("runs"))]
    near = difflib.get_close_matches(name, there)
    if Path(name).is_dir() and (inside := find_runs(Path(name))):
        some = ", ".join(str(path) for path in inside[:3])
        raise RunError(f"{name} is a folder of runs: name one of them, such as {some}")
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
