"""Adversarial examples in and out: scored, exported, shown."""

import hashlib
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ccat.attempts import BLOCK, Attempt, Worst, merged
from ccat.objectives import other_class_confidence
from ccat.recipes import Case, Given, contains, label, parse_threat
from ccat.results import Group, Picture
from ccat.stages.blocks import examples_of, keep_block, model_of, name_of
from ccat.stages.detect import detectors_of, fit_missing, judges
from ccat.stages.shared import StageError, counted, data_digest, probabilities_of, require_data
from ccat.stages.solving import checked, take_over
from ccat.store import Run
from ccat.threats import Threat


def score(run: Run, x_adv: Tensor, threat: Threat, name: str, device: str) -> None:
    """Stores adversarial examples that were computed elsewhere as one more attempt.

    They belong to the first test images, whole blocks of them, and lie within the threat; what rounding adds is projected away.
    """
    with run.writing():
        images = counted(run.recipe.dataset)
        require_data(run)
        count = len(x_adv) if x_adv.ndim else 0
        whole = count % BLOCK == 0 or count == len(images)
        if x_adv.shape[1:] != images.x.shape[1:] or not whole or not 0 < count <= len(images):
            raise StageError(
                f"expected adversarial examples of the first test images, hundreds of them or all {len(images)}, "
                f"of shape {tuple(images.x.shape[1:])}, not {tuple(x_adv.shape)}"
            )
        x_adv = x_adv.float() / 255 if x_adv.dtype == torch.uint8 else x_adv.float()
        checked(images[:count].floats(), x_adv, threat, name)  # all, before any is stored
        if run.recipe.detector is not None:
            fit_missing(run, [threat], device, lambda *_: None)
        case = Case(name, name, threat, Given(hashlib.sha256(x_adv.numpy().tobytes()).hexdigest()), other_class_confidence)
        attempt = Attempt.of(case, 0, run.weights, data_digest(run.recipe.dataset))
        model = model_of(run.path, run.weights, device)
        for block in range(-(-count // BLOCK)):
            x, y = examples_of(images, case.source, block)
            given = x_adv[block * BLOCK : (block + 1) * BLOCK].to(device)
            result, delta = take_over(model, x.to(device), y.to(device), threat, lambda x, y, given=given: given, name)  # type: ignore[misc]
            if run.recipe.detector is not None:
                found = detectors_of(run.path, run.weights, tuple(run.detectors()), device, tuple(images.x.shape[1:]))
                images_found = (x + delta).clamp(0, 1).to(device)
                result = replace(result, scores={name: found[name](images_found) for name in judges(case, found, run.first_detector())})
            keep_block(run, attempt, block, result, delta, "worst")


def export(run: Run, threat: Threat) -> dict[str, NDArray[Any]]:
    """The worst adversarial examples within a threat, as tables count them: arrays x, x_adv, y, prediction and confidence."""
    blocks = _kept(run, threat, "test")
    images = counted(run.recipe.dataset)[: len(blocks) * BLOCK]
    x_adv = (images.floats() + torch.cat([block.delta for block in blocks])).clamp(0, 1)
    confidence, prediction = probabilities_of(run.model(), x_adv).max(1)
    arrays = {"x": images.floats(), "x_adv": x_adv, "y": images.y, "prediction": prediction, "confidence": confidence}
    return {name: array.numpy() for name, array in arrays.items()}


def pictures(run: Run, group: Group, count: int) -> tuple[Picture, ...]:
    """The first attacked images with the worst that was found around them; none if the perturbations were not kept."""
    threat, source = parse_threat(group.threat), group.source
    try:
        delta = _kept(run, threat, source, blocks=1)[0].delta[:count]
    except StageError:
        return ()
    x, y = (part[:count] for part in examples_of(counted(run.recipe.dataset), source, 0))
    attacked = (x + delta).clamp(0, 1)
    clean, found = (probabilities_of(run.model(), images).max(1) for images in (x, attacked))
    return tuple(
        Picture(
            row,
            int(y[row]) if source == "test" else None,
            x[row].numpy(),
            attacked[row].numpy(),
            *((int(p.indices[row]), float(p.values[row])) for p in (clean, found)),
        )
        for row in range(len(x))
    )


def _kept(run: Run, threat: Threat, source: str, blocks: int | None = None) -> list[Worst]:
    """The worst perturbations within a threat, all blocks or the first ones."""
    data = data_digest(run.recipe.dataset)
    within = {
        attempt: len(stored)
        for attempt, stored in run.attempts()
        if attempt.case.source == source
        and contains(threat, attempt.case.threat)
        and attempt.weights == run.weights
        and attempt.data == data
    }
    if not within:
        raise StageError(f"{run.path} was not attacked within {label(threat)}: use a suite that has this threat")
    names = sorted({name_of(attempt.case) for attempt in within})
    kept: list[Worst] = []
    while (blocks is None or len(kept) < blocks) and (found := [one for name in names if (one := run.worst(name, len(kept), data))]):
        kept.append(reduce(merged, found))
    wanted = {attempt.key: count if blocks is None else min(count, blocks) for attempt, count in within.items()}
    if any(count > len(kept) or any(key not in block.of for block in kept[:count]) for key, count in wanted.items()):
        raise StageError(f"{run.path} has not kept all perturbations within {label(threat)}: the same `ccat attack` with --keep worst does")
    return kept
