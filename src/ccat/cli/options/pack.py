"""Options of `ccat pack`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_trust, number


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "source", help="a run, a file that `Rejecting.save` wrote, or zoo:NAME of a model of ccat"
    )
    command.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="FILE",
        help="model.onnx, which needs `pip install 'ccat-torch[onnx]'`, or model.pt2",
    )
    threshold = command.add_mutually_exclusive_group()
    threshold.add_argument(
        "--tpr",
        type=number,
        help="share of correct calibration images to accept (default: the stored threshold, or "
        "0.99)",
    )
    threshold.add_argument("--tau", type=number, help="a threshold in [0,1] of your own")
    add_trust(command)
