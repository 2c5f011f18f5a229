"""`ccat pack`: write a classifier that may abstain to one file that runs without ccat."""

from argparse import Namespace
from pathlib import Path

from ccat.api.load import load
from ccat.catalog.zoo import is_zoo_name
from ccat.cli.values import run_named
from ccat.rejection.export import pack, require_target


def run(options: Namespace) -> None:
    """Pack it."""
    require_target(options.to)
    source = options.source
    if not is_zoo_name(source) and not Path(source).is_file():
        source = run_named(source).path
    clf = load(source, tpr=options.tpr, tau=options.tau)
    pack(clf, options.to)
    shape = ", ".join(map(str, clf.shape))
    print(
        f"{options.to} ({options.to.stat().st_size / 2**20:.1f} MiB) takes images (N, {shape}) in "
        f"[0,1] and gives label, confidence and accepted.\n{clf.calibration}."
    )
