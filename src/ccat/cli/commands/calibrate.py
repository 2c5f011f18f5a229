"""`ccat calibrate`: choose the threshold that a run decides with."""

import sys
from argparse import Namespace

from ccat.cli.options.calibrate import CONFIDENCE
from ccat.cli.values import run_named
from ccat.evaluation.promise import NoPromise
from ccat.pipeline.classifier import calibrate


def run(options: Namespace) -> None:
    """Choose, store and print the threshold; exit code 1 if the risk cannot be promised."""
    if options.confidence is not None and options.risk is None:
        raise ValueError("--confidence belongs to --risk: a TPR is kept, not promised")
    confidence = CONFIDENCE if options.confidence is None else options.confidence
    one = run_named(options.run)
    with one.writing():
        chosen = calibrate(one, options.tpr, options.risk, confidence, options.on)
    if isinstance(chosen, NoPromise):
        print(f"{chosen.sentence}. Nothing was stored.")
        sys.exit(1)
    print(f"{chosen}.")
    print(
        f"{100 * chosen.coverage:.1f} % of the calibration images are accepted. This holds for "
        f"images like these, not for attacked ones."
    )
    if chosen.rejected == 0 and chosen.chosen == "risk":
        print(
            "It rejects none of them: this risk is kept without rejection. Ask for a smaller one."
        )
    print(f"Stored in {one.path}: `ccat predict {one.path} PICTURE` decides with it.")
