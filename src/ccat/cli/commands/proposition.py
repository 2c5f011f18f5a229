"""`ccat proposition`: solve the paper's Proposition 1 numerically."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ccat.report import FORMATS, proposition_table


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "--out",
        type=Path,
        default=Path("analysis"),
        metavar="DIR",
        help="where the figure goes (default: analysis)",
    )


def run(options: Namespace) -> None:
    """Draw the figure and print the table."""
    from ccat.report.analysis import proposition_figure  # noqa: PLC0415 (matplotlib is slow)
    from ccat.report.figures import save_figures  # noqa: PLC0415

    save_figures(options.out, {"proposition": proposition_figure()})
    print(f"proposition as SVG, PDF and PNG in {options.out}")
    print(f"\n{FORMATS['md'](proposition_table())}")
