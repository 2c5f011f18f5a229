"""`ccat detect`: make a run that rejects by a detector instead of by confidence, and attack it."""

from argparse import Namespace

from ccat.cli.commands.attack import attack_run, chosen_cases
from ccat.cli.values import device_of, run_named
from ccat.pipeline.detect import add_detector
from ccat.rejection import Detection


def run(options: Namespace) -> None:
    """Make the run and attack it, with detector-unaware and detector-aware attacks."""
    base = run_named(options.run)
    whole = base.path.resolve()
    path = options.out or whole.with_name(f"{whole.name}-{options.detector}")
    detection = Detection(options.detector, options.layers, options.known, options.pairs)
    chosen_cases(base, options, detection)  # a mistake is reported before anything is made
    attack_run(add_detector(base, path, detection, device_of(options)), options)
