"""`ccat corrupt`: measure a run on corrupted test images."""

import shlex
from argparse import Namespace

from ccat.cli.values import device_of, run_named
from ccat.pipeline.corrupt import corrupt
from ccat.progress import ProgressBar


def run(options: Namespace) -> None:
    """Compute what is not stored yet."""
    one = run_named(options.run)
    bar = ProgressBar(one.path.name)
    name = corrupt(one, device_of(options), bar, options.examples, options.seed)
    command = f"ccat evaluate {shlex.quote(str(one.path))} --table corruptions"
    print(f"{one.path}: {name} is stored; `{command}` shows it")
