"""Options of `ccat attack`."""

from argparse import ArgumentParser

from ccat.cli.options import add_device, add_engine, add_trust, count, share
from ccat.cli.options.import_model import add_model
from ccat.cli.options.names import COMPILE, GRADIENTS, REST_TPR


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "run", nargs="?", help="for a model of your own the directory to make (default: runs/NAME)"
    )
    add_model(command, required=False)
    add_suite(command)
    add_passes(command)
    add_check(command)
    add_trust(command)
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="time a few passes and say how long each case would take; attack nothing",
    )


def add_suite(
    command: ArgumentParser, examples: str = "test images, in hundreds (default: 200, or all)"
) -> None:
    """Add the options that choose attacks, and where they run."""
    command.add_argument(
        "--suite", metavar="NAME", help="which attacks (default: quick); `ccat suites` lists them"
    )
    command.add_argument(
        "--attack",
        action="append",
        default=[],
        metavar="NAME",
        help="an attack of your own, package.module:Name, a class or an instance; repeatable",
    )
    command.add_argument(
        "--only", metavar="PATTERN", help="of the suite only cases with such a name: 'square*'"
    )
    command.add_argument(
        "--threat",
        action="append",
        default=[],
        help="attack within this one, such as Linf:8/255, distal:Linf:0.3 on noise, or "
        "reject:Linf:0.3 to get correct images rejected; repeatable",
    )
    command.add_argument("--examples", type=int, help=examples)
    command.add_argument(
        "--rest-at-tpr",
        type=share,
        default=REST_TPR,
        metavar="TPR",
        help="an image that is wrong and accepted at the τ of this TPR rests in the cases that "
        f"follow (default: {REST_TPR:g})",
    )
    command.add_argument(
        "--attack-certified",
        action="store_true",
        help="attack images as well to which a stored certificate says that no wrong answer is "
        "possible (default: they rest)",
    )
    command.add_argument(
        "--complete", action="store_true", help="attack every image with every case: none rests"
    )
    command.add_argument(
        "--keep",
        choices=["worst", "none"],
        default="worst",
        help="which perturbations to keep (default: the worst ones)",
    )
    command.add_argument(
        "--batch",
        type=count,
        help="images that go through the model at once (default: what memory holds, at most 100)",
    )
    add_engine(command)
    add_device(command)


def add_passes(command: ArgumentParser) -> None:
    """Add the options that make passes through the model faster."""
    command.add_argument(
        "--compile",
        choices=COMPILE,
        default="off",
        help="compile passes with torch.compile: on, off (the default), or auto if that is "
        "forecast to save more time than it takes; on CPUs it seldom is",
    )
    command.add_argument(
        "--gradients",
        choices=GRADIENTS,
        default="float32",
        help="compute gradients in bfloat16, on cuda devices; scores stay in float32",
    )


def add_check(command: ArgumentParser) -> None:
    """Add the option that leaves out the small check at the end of an attack."""
    command.add_argument(
        "--no-check",
        action="store_true",
        help="leave out the check at the end, whether the attacks find planted errors",
    )
