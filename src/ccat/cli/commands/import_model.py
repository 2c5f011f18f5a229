"""`ccat import`: make a run of a model that was trained elsewhere."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ccat import extensions
from ccat.cli.options import add_device, channels, device_of, typed_threat
from ccat.data import UNVERIFIED
from ccat.models import MODELS
from ccat.pipeline.import_model import Normalisation, import_model
from ccat.runs import Run


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run", type=Path, help="the run directory to make")
    add_model(command, required=True)
    add_device(command)


def run(options: Namespace) -> None:
    """Make the run."""
    made, error = imported(options, options.run)
    command = f"ccat attack {shlex.quote(str(made.path))}"
    print(
        f"{made.path}: {100 * error:.1f} % of the first test images are wrong; `{command}` attacks "
        f"it"
    )


def add_model(command: ArgumentParser, required: bool) -> None:
    """Add the options that name and describe a model from elsewhere."""
    command.add_argument(
        "--model",
        required=required,
        metavar="NAME",
        help=f"package.module:factory, or {', '.join(MODELS)}",
    )
    add_description(command, required)


def add_description(command: ArgumentParser, required: bool) -> None:
    """Add the options that describe a model from elsewhere, except its name."""
    command.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="its weights: safetensors, or a state_dict saved by torch",
    )
    command.add_argument(
        "--dataset", required=required, metavar="NAME", help="what it was trained on"
    )
    command.add_argument(
        "--unverified",
        action="store_true",
        help="take data that ccat cannot verify; the run records it",
    )
    command.add_argument(
        "--mean", type=channels, metavar="A,B,C", help="what it subtracts from images in [0,1]"
    )
    command.add_argument(
        "--std", type=channels, metavar="A,B,C", help="what it then divides them by"
    )
    command.add_argument(
        "--seen", metavar="THREAT", help="the threat it was trained with, as tables mark it"
    )


def imported(options: Namespace, path: Path) -> tuple[Run, float]:
    """Make a run from the options of `add_model`, and return it with its error."""
    if (options.mean is None) != (options.std is None):
        raise ValueError("--mean and --std belong together")
    if options.dataset is None:
        raise ValueError("on which images? --dataset names them")
    if extensions.is_name(options.model):
        extensions.load_typed(options.model)
    normalisation = None if options.mean is None else Normalisation(options.mean, options.std)
    return import_model(
        path,
        options.model,
        options.weights,
        UNVERIFIED * options.unverified + options.dataset,
        normalisation,
        typed_threat(options.seen) if options.seen else None,
        device_of(options),
    )
