"""`ccat proposition`: solve the paper's Proposition 1 numerically."""

from argparse import Namespace

from ccat.report import FORMATS, proposition_table


def run(options: Namespace) -> None:
    """Draw the figure and print the table."""
    from ccat.report.analysis import proposition_figure  # noqa: PLC0415 (matplotlib is slow)
    from ccat.report.figures import save_figures  # noqa: PLC0415

    save_figures(options.out, {"proposition": proposition_figure()})
    print(f"proposition as SVG, PDF and PNG in {options.out}")
    print(f"\n{FORMATS['md'](proposition_table())}")
