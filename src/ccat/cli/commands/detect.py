"""`ccat detect`: make a run that rejects by a detector instead of by confidence, and attack it."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ccat.cli.commands.attack import add_check, add_suite, attack_run, chosen_cases
from ccat.cli.options import add_trust, count, device_of, run_named
from ccat.pipeline.detect import add_detector
from ccat.rejection import DETECTORS, Detection


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument("--detector", choices=DETECTORS, required=True)
    command.add_argument(
        "--layers",
        default="",
        metavar="A,B",
        help="whose features it looks at (default: the last of each size)",
    )
    command.add_argument(
        "--known",
        type=count,
        default=2000,
        help="training images for its statistics (default: 2000)",
    )
    command.add_argument(
        "--pairs",
        type=count,
        default=1000,
        help="others, clean and attacked, for the weights of its layers (default: 1000)",
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="the run directory to make (default: RUN-DETECTOR)"
    )
    add_suite(command)
    add_check(command)
    add_trust(command)


def run(options: Namespace) -> None:
    """Make the run and attack it, with detector-unaware and detector-aware attacks."""
    base = run_named(options.run)
    whole = base.path.resolve()
    path = options.out or whole.with_name(f"{whole.name}-{options.detector}")
    detection = Detection(options.detector, options.layers, options.known, options.pairs)
    chosen_cases(base, options, detection)  # a mistake is reported before anything is made
    attack_run(add_detector(base, path, detection, device_of(options)), options)
