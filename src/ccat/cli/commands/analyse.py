"""`ccat analyse`: how attacks climb, and what runs say beyond ε and between images."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ccat.cli.options import add_device, add_trust, count, device_of
from ccat.cli.tabulate import collected
from ccat.pipeline.analyse import analyse


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("runs", nargs="+", metavar="RUN")
    command.add_argument("--examples", type=count, default=100, help="test images (default: 100)")
    command.add_argument(
        "--iterations", type=count, default=200, help="of the attacks (default: 200)"
    )
    add_device(command)
    command.add_argument(
        "--out",
        type=Path,
        default=Path("analysis"),
        metavar="DIR",
        help="where figures go (default: analysis)",
    )
    add_trust(command)


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
