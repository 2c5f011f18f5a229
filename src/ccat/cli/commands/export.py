"""`ccat export`: write the worst adversarial examples found."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ccat.cli.options import add_device, add_trust, device_of, run_named, typed_condition
from ccat.pipeline.examples import export
from ccat.report import save_examples


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument("--threat", required=True, help="such as Linf:0.4, or reject:Linf:0.4")
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        help="a file .npz, which is exact, or a folder for PNG images, rounded to 8 bits",
    )
    add_device(command)
    add_trust(command)


def run(options: Namespace) -> None:
    """Write them."""
    one = run_named(options.run)
    arrays = export(one, typed_condition(options.threat), device_of(options))
    save_examples(options.out, arrays)
    print(f"{len(arrays['y'])} adversarial examples in {options.out}")
