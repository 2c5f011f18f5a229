"""`ccat analyse`: how attacks climb, and what runs say beyond ε and between images."""

from argparse import Namespace

from ccat.cli.tabulate import collected
from ccat.cli.values import device_of
from ccat.pipeline.analyse import analyse


def run(options: Namespace) -> None:
    """Analyse what is not analysed yet, and draw the figures."""
    from ccat.report.analysis import analysis_figures  # noqa: PLC0415 (matplotlib is slow)
    from ccat.report.figures import save_figures  # noqa: PLC0415

    runs, outcomes = collected(options)
    device = device_of(options)
    found = {
        one.run: analyse(run, options.examples, options.iterations, device)
        for run, one in zip(runs, outcomes, strict=True)
    }
    drawn = {name: figure for name, (_, figure) in analysis_figures(found, outcomes).items()}
    save_figures(options.out, drawn)
    print(f"{', '.join(drawn)} as SVG, PDF and PNG in {options.out}")
    print("a report of these runs shows them as well")
