"""`ccat detect`: make a run that rejects by a detector instead of by confidence, and attack it."""

from argparse import Namespace

from ccat.cli.commands.attack import attack_run, chosen_cases
from ccat.cli.values import device_of, run_named
from ccat.pipeline.detect import add_detector
from ccat.rejection import CONSISTENCY, Consistency, Detection, Rejection

_FITTED = ("layers", "known", "pairs")  # options of detectors that look at features
_SEARCH = ("epsilon", "iterations", "rate")  # options of consistency


def run(options: Namespace) -> None:
    """Make the run and attack it, with detector-unaware and detector-aware attacks."""
    base = run_named(options.run)
    whole = base.path.resolve()
    path = options.out or whole.with_name(f"{whole.name}-{options.detector}")
    rejection = _rejection(options)
    chosen_cases(base, options, rejection)  # a mistake is reported before anything is made
    attack_run(add_detector(base, path, rejection, device_of(options)), options)


def _rejection(options: Namespace) -> Rejection:
    given = {
        name: value for name in (*_FITTED, *_SEARCH) if (value := vars(options)[name]) is not None
    }
    searching = options.detector == CONSISTENCY
    if other := [name for name in given if (name in _SEARCH) != searching]:
        raise ValueError(f"--{other[0]} is no option of --detector {options.detector}")
    return Consistency(**given) if searching else Detection(options.detector, **given)
