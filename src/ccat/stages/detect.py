"""Detecting: a run whose images are rejected by a detector instead of by the confidence.

It has the weights of another run, a detector for each threat, fitted when the threat is first attacked, and attempts of its own, with the
detectors' scores beside the probabilities. Frames, noise and corruptions are judged by the detector for an L∞ ball that was fitted first.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from ccat.attacks import PGD, Problem
from ccat.data import Images
from ccat.detectors import Detector, detector_of, features, fit, usual_layers
from ccat.metrics import Outcome
from ccat.models import folded
from ccat.objectives import cross_entropy
from ccat.recipes import Case, Detecting, contains, label, parse_threat
from ccat.stages.shared import Progress, StageError, data_digest, images_of, probabilities_of
from ccat.store import Run
from ccat.suites import paper_rate
from ccat.threats import Frame, Linf, Threat

ITERATIONS = 40  # of PGD-CE on the training images that a detector learns from


def derive(run: Run, path: Path, detecting: Detecting, device: str) -> Run:
    """A run with the same weights that rejects by a detector."""
    if run.recipe.detector is not None:
        raise StageError(f"{run.path} rejects by a detector already: name the run it was made from")
    model = run.model()
    layers_of(model, detecting, images_of(run.recipe.dataset, "test")[:1].floats())  # do they exist?
    derived = Run.create(path, replace(run.recipe, detector=detecting), device)
    with derived.writing():
        if not derived.trained:
            derived.save_model(model)
    if derived.weights != run.weights:
        raise StageError(f"{path} holds other weights than {run.path}: they changed; choose another directory")
    return derived


def layers_of(model: nn.Module, detecting: Detecting, x: Tensor) -> tuple[str, ...]:
    """The layers asked for, or the usual ones."""
    layers = tuple(name.strip() for name in detecting.layers.split(",") if name.strip()) or usual_layers(model, x)
    with torch.no_grad():
        features(model, layers, x)
    return layers


def fit_missing(run: Run, threats: Iterable[Threat], device: str, progress: Progress) -> None:
    """A detector for each of these threats, frames aside, and for an L∞ ball in any case."""
    detecting = run.recipe.detector
    assert detecting is not None
    stored = run.detectors()
    wanted = [threat for threat in dict.fromkeys(threats) if not isinstance(threat, Frame)]
    if not any(isinstance(threat, Linf) for threat in [*wanted, *map(parse_threat, stored)]):
        wanted.append(Linf(0.3 if images_of(run.recipe.dataset, "test").x.shape[1] == 1 else 0.03))
    wanted.sort(key=lambda threat: (not isinstance(threat, Linf), threat.epsilon))  # the first one is the run's, for good
    missing = [threat for threat in wanted if label(threat) not in stored]
    if not missing:
        return
    model = run.model().to(device)
    known, others = _parts(images_of(run.recipe.dataset, "train"), detecting)
    layers = layers_of(model, detecting, known[:1].floats().to(device))
    like = detector_of(model, layers, stored[run.first_detector()]) if stored else None
    for done, threat in enumerate(missing, start=1):
        try:
            clean, attacked = _pairs(model, others, threat, device)
            detector = fit(detecting.name, model, layers, (known.floats().to(device), known.y.to(device)), clean, attacked, like)
        except ValueError as wrong:
            raise StageError(f"no {detecting.name} detector can be fitted for {label(threat)}: {wrong}") from wrong
        tensors = {name: value.cpu().contiguous() for name, value in detector.tensors().items()}
        run.save_detector(label(threat), tensors, first=like is None)
        like = like or detector
        progress(done, len(missing), f"{detecting.name} for {label(threat)}")


def _parts(images: Images, detecting: Detecting) -> tuple[Images, Images]:
    """Training images for the statistics and for the regression, drawn once and for all: they may be stored class by class."""
    if len(images) < detecting.known + detecting.pairs:
        asked = f"{detecting.known} and {detecting.pairs}"
        raise StageError(f"a detector is fitted on {asked} training images, there are {len(images)}: lower --known and --pairs")
    rows = torch.randperm(len(images), generator=Generator().manual_seed(0))
    known, others = images[rows[: detecting.known]], images[rows[detecting.known :][: detecting.pairs]]
    if len(set(known.y.tolist())) < len(set(images.y.tolist())):
        raise StageError(f"{detecting.known} training images do not have all classes among them: raise --known")
    return known, others


def _pairs(model: nn.Module, images: Images, threat: Threat, device: str) -> tuple[Tensor, Tensor]:
    """Training images that are right, and their adversarial examples that are wrong."""
    x, y = images.floats().to(device), images.y.to(device)
    attack = PGD(ITERATIONS, paper_rate(threat, 6), backtracking=1.25, start="random")
    fast, found = folded(model, x), []
    for begin in range(0, len(x), 100):
        problem = Problem.of(fast, x[begin : begin + 100], y[begin : begin + 100], threat, cross_entropy)
        found.append(problem.images(attack(problem, Generator().manual_seed(begin))))
    attacked = torch.cat(found)
    before, after = (probabilities_of(model, part).argmax(1).to(y.device) == y for part in (x, attacked))
    chosen = before & ~after
    return x[chosen], attacked[chosen]


@lru_cache(maxsize=2)
def detectors_of(path: Path, weights: str, names: tuple[str, ...], device: str, shape: tuple[int, ...]) -> dict[str, Detector]:
    """All detectors of a run, on a device; `shape` of an image (C, H, W)."""
    run = Run.open(path)
    model = run.model().to(device)
    assert run.recipe.detector is not None
    layers = layers_of(model, run.recipe.detector, torch.full((1, *shape), 0.5, device=device))
    return {name: detector_of(model, layers, tensors) for name, tensors in run.detectors().items()}


def judges(case: Case, names: Iterable[str], first: str) -> list[str]:
    """Which detectors judge what a case finds: those for its threat and for any that contains it; of frames and noise the run's first."""
    if case.source == "noise" or isinstance(case.threat, Frame):
        return [first]
    return [name for name in names if contains(parse_threat(name), case.threat)]


def clean_scores(run: Run, name: str, device: str) -> NDArray[np.float64]:
    """Of the test split, computed once."""
    data = data_digest(run.recipe.dataset)
    stored = run.clean_scores(name, data)
    if stored is None:
        images = images_of(run.recipe.dataset, "test")
        detector = detectors_of(run.path, run.weights, tuple(run.detectors()), device, tuple(images.x.shape[1:]))[name]
        stored = torch.cat([detector(images[n : n + 500].floats().to(device)) for n in range(0, len(images), 500)])
        with suppress(OSError):  # a full disk costs only the next computation
            run.save_clean_scores(name, stored, data)
    found: NDArray[np.float64] = stored.double().numpy()
    return found


def on_common_scale(scores: NDArray[np.float64], held_out: Outcome) -> NDArray[np.float64]:
    """The share of correct held-out images that score lower: detectors for different threats can then be read, and cut, at one τ.

    Strictly increasing, so nothing that a threshold does changes: between scores seen it is linear, beyond them it approaches 0 and 1.
    """
    seen = np.unique(held_out.score[~held_out.wrong])
    if len(seen) < 2:
        raise StageError("a detector needs two correctly classified held-out images at least")
    ranks = (np.searchsorted(np.sort(held_out.score[~held_out.wrong]), seen) + 0.5) / (np.sum(~held_out.wrong) + 1)
    spread = (seen[-1] - seen[0]) / 10
    inside = np.interp(scores, seen, ranks)
    below = ranks[0] * np.exp(np.minimum(0, scores - seen[0]) / spread)
    above = 1 - (1 - ranks[-1]) * np.exp(-np.maximum(0, scores - seen[-1]) / spread)
    scaled: NDArray[np.float64] = np.where(scores < seen[0], below, np.where(scores > seen[-1], above, inside))
    return scaled
