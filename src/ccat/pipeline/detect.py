"""Make a run that rejects by a detector, and fit its detectors on training images.

It has the weights of another run and attempts of its own. A detector is fitted for each threat when
that threat is first attacked.
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from ccat.attacks import PGD, Problem
from ccat.catalog.suites import paper_rate
from ccat.data import Images, split_of
from ccat.errors import PipelineError
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.objectives import cross_entropy
from ccat.progress import Progress
from ccat.rejection import Confidence, Detection, Detector, Rejection, fit
from ccat.rejection.detector import detector_of
from ccat.runs import Run
from ccat.threats import Threat, label

ITERATIONS = 40  # of PGD-CE on the training images that a detector learns from


def add_detector(run: Run, path: Path, rejection: Rejection, device: str) -> Run:
    """Make a run with the weights of another that rejects by something else than confidence.

    Raises:
        PipelineError: If the other rejects by a detector already, or the weights changed.
    """
    if not isinstance(run.rejection, Confidence):
        raise PipelineError(f"{run.path} already rejects by a detector: name the run it came from")
    model = run.training.model()
    rejection.load(model, {}, split_of(run.recipe.dataset, "test")[:1].floats())  # may refuse it
    derived = Run.create(path, run.recipe, device, rejection)
    with derived.writing():
        if not derived.training.trained:
            derived.training.save_model(model)
    if derived.weights != run.weights:
        raise PipelineError(
            f"{path} holds other weights than {run.path}, which changed: choose another directory"
        )
    return derived


def fit_missing(run: Run, threats: Iterable[Threat], device: str, progress: Progress) -> None:
    """Fit what the run's rejection still needs to judge attacks within these threats.

    Raises:
        PipelineError: If a detector cannot be fitted.
    """
    stored = run.answers.detectors()
    grey = split_of(run.recipe.dataset, "test").x.shape[1] == 1
    missing = run.rejection.to_fit(list(threats), list(stored), grey)
    detection = run.rejection
    if not missing or not isinstance(detection, Detection):
        return
    model = run.training.model().to(device)
    known, others = _parts(split_of(run.recipe.dataset, "train"), detection)
    layers = detection.layers_of(model, known[:1].floats().to(device))
    statistics = (known.floats().to(device), known.y.to(device))
    like: Detector | None = None
    if stored:
        like = detector_of(model, layers, next(iter(stored.values())))
    for done, threat in enumerate(missing, start=1):
        try:
            clean, attacked = _pairs(model, others, threat, device)
            detector = fit(detection.name, model, layers, statistics, clean, attacked, like)
        except ValueError as wrong:
            raise PipelineError(
                f"no {detection.name} detector can be fitted for {label(threat)}: {wrong}"
            ) from wrong
        tensors = {name: value.cpu().contiguous() for name, value in detector.tensors().items()}
        run.answers.save_detector(label(threat), tensors, first=like is None)
        like = like or detector
        progress(done, len(missing), f"{detection.name} for {label(threat)}")


def _parts(images: Images, detection: Detection) -> tuple[Images, Images]:
    """Training images for the statistics and for the regression, drawn once for all threats."""
    wanted = detection.known + detection.pairs
    if len(images) < wanted:
        raise PipelineError(
            f"a detector is fitted on {detection.known} and {detection.pairs} training images, "
            f"but there are {len(images)}: lower --known and --pairs"
        )
    rows = torch.randperm(len(images), generator=Generator().manual_seed(0))
    known, others = images[rows[: detection.known]], images[rows[detection.known : wanted]]
    if len(set(known.y.tolist())) < len(set(images.y.tolist())):
        raise PipelineError(
            f"{detection.known} training images do not contain every class: raise --known"
        )
    return known, others


def _pairs(model: nn.Module, images: Images, threat: Threat, device: str) -> tuple[Tensor, Tensor]:
    """Training images that are classified correctly whose adversarial examples are not."""
    x, y = images.floats().to(device), images.y.to(device)
    attack = PGD(ITERATIONS, paper_rate(threat, 6), backtracking=1.25, start="random")
    fast, found = attack_copy(model, x), []
    for begin in range(0, len(x), 100):
        rows = slice(begin, begin + 100)
        problem = Problem.of(fast, x[rows], y[rows], threat, cross_entropy)
        found.append(problem.images(attack(problem, Generator().manual_seed(begin))))
    attacked = torch.cat(found)
    before, after = (
        probabilities(model, part).argmax(1).to(y.device) == y for part in (x, attacked)
    )
    chosen = before & ~after
    return x[chosen], attacked[chosen]
