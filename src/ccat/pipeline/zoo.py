"""Models that come with ccat, as runs, and how a run becomes one of them.

A model of the zoo is a run directory without attempts: run.json, the log, the model, thresholds
(classifier.json) and the evaluation that its card is made of.
"""

import logging
import shutil
from pathlib import Path

from ccat.catalog.zoo import PREFIX, zoo_path
from ccat.files import write_whole
from ccat.pipeline.classifier import thresholds
from ccat.runs import Run, RunError, is_run
from ccat.runs.zoo import FILES

_log = logging.getLogger(__name__)


def copy_of_zoo(name: str, folder: Path) -> Run:
    """Return a model of the zoo as a run below a folder, copied if it is not there yet.

    Raises:
        UnknownZooError: If there is none of this name.
        RunError: If the copy that is there has other weights, as after an upgrade of ccat.
    """
    origin, path = zoo_path(name), folder / f"zoo-{name.removeprefix(PREFIX)}"
    original = Run.open(origin)
    original.training.require_intact()
    fresh = not is_run(path)
    if fresh:
        _log.info("%s is copied to %s, because commands write to runs", name, path)
        _copy(origin, path)
    copy = Run.open(path)
    if fresh and (evaluation := copy.evaluation()):
        copy.save_evaluation(evaluation)  # with a headline, for lists
    if copy.weights != original.weights:
        raise RunError(
            f"{path} has other weights than {name} of this version of ccat: move it away to begin "
            f"anew, or name it as a run, {path.name}"
        )
    return copy


def copy_of_run(run: Run, path: Path) -> Run:
    """Return a run of the same model without what attacks found, copied if it is not there yet.

    Raises:
        RunError: If the copy that is there has other weights.
    """
    run.training.require_intact()
    if not is_run(path):
        _copy(run.path, path)
    copy = Run.open(path)
    if copy.weights != run.weights:
        raise RunError(f"{path} has other weights than {run.path}: move it away to begin anew")
    return copy


def add_to_zoo(run: Run, path: Path) -> None:
    """Write what the zoo keeps of a run to a directory: see the head of this file.

    Raises:
        PipelineError: If there are too few images for its thresholds.
        RunError: If the run is not trained.
    """
    run.training.require_intact()
    if path.exists():
        shutil.rmtree(path)
    _copy(run.path, path)
    kept = Run.open(path)
    kept.classifier.save(thresholds(kept))


def _copy(origin: Path, path: Path) -> None:
    """Copy the files, that which makes it a run last."""
    path.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (origin / name).is_file():
            write_whole(path / name, (origin / name).read_bytes())
