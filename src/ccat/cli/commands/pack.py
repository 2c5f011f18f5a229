"""`ccat pack`: write a classifier that may abstain to one file that runs without ccat."""

from argparse import Namespace

from ccat.cli.values import classifier_named
from ccat.rejection.export import pack, require_target


def run(options: Namespace) -> None:
    """Pack it."""
    require_target(options.to)
    clf = classifier_named(options.source, options.tpr, options.tau)
    pack(clf, options.to)
    shape = ", ".join(map(str, clf.shape))
    print(
        f"{options.to} ({options.to.stat().st_size / 2**20:.1f} MiB) takes images (N, {shape}) in "
        f"[0,1] and gives label, confidence and accepted.\n{clf.calibration}."
    )
