"""`ccat import`: make a run of a model that was trained elsewhere."""

import shlex
import sys
from argparse import Namespace
from pathlib import Path

from ccat import extensions
from ccat.cli.values import device_of, typed_threat
from ccat.data import UNVERIFIED, conversions_of
from ccat.pipeline.import_model import Normalisation, import_model
from ccat.runs import Run


def run(options: Namespace) -> None:
    """Make the run."""
    made, error = imported(options, options.run)
    command = f"ccat attack {shlex.quote(str(made.path))}"
    print(
        f"{made.path}: {100 * error:.1f} % of the first test images are wrong; `{command}` attacks "
        f"it"
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
    dataset = UNVERIFIED * options.unverified + options.dataset
    if options.unverified and (told := conversions_of(dataset)):
        print(told, file=sys.stderr)
    return import_model(
        path,
        options.model,
        options.weights,
        dataset,
        normalisation,
        typed_threat(options.seen) if options.seen else None,
        device_of(options),
    )
