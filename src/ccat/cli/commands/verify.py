"""`ccat verify`: check every file of a run, and score a sample of its examples again."""

from argparse import Namespace

from ccat.cli.values import device_of, run_named
from ccat.errors import PipelineError
from ccat.pipeline.verify import verify
from ccat.progress import ProgressBar


def run(options: Namespace) -> None:
    """Say what is wrong, or that nothing is."""
    one = run_named(options.run)
    found, scored = verify(one, options.sample, device_of(options), ProgressBar(one.path.name))
    for problem in found[1:]:
        print(problem)
    if found:
        raise PipelineError(found[0])
    print(f"{one.path}: every file is as it was written; {scored} perturbed images scored again")
