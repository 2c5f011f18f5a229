"""`ccat corrupt`: measure a run on corrupted test images."""

import shlex
from argparse import ArgumentParser, Namespace

from ccat.cli.options import add_device, add_trust, count, device_of, run_named
from ccat.pipeline.corrupt import corrupt
from ccat.progress import ProgressBar


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "--examples", type=count, help="the first test images (default: all that are counted)"
    )
    command.add_argument(
        "--seed", type=int, default=0, help="of generated corruptions (default: 0)"
    )
    add_device(command)
    add_trust(command)


def run(options: Namespace) -> None:
    """Compute what is not stored yet."""
    one = run_named(options.run)
    bar = ProgressBar(one.path.name)
    name = corrupt(one, device_of(options), bar, options.examples, options.seed)
    command = f"ccat evaluate {shlex.quote(str(one.path))} --table corruptions"
    print(f"{one.path}: {name} is stored; `{command}` shows it")
