"""Attack any model in memory, and measure what gets through."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

import torch
from torch import Tensor, nn

from ccat.api.certify_boxes import certified_boxes, require_bounds
from ccat.api.inputs import (
    AttackLike,
    Labelled,
    Within,
    cases_for,
    device_of,
    dtype_of,
    rejection_of,
    require_logits,
    split,
)
from ccat.api.result import Result
from ccat.attacking import (
    BLOCK,
    Attempt,
    Block,
    Case,
    Certificate,
    Memory,
    Rest,
    Target,
    Unit,
    attempts_of,
    best_certificates,
    blocks_in,
    merge,
    rest_at,
    solve,
    worst_of_block,
)
from ccat.attacking import attack as attack_units
from ccat.attacking.block import try_out
from ccat.attacking.copies import (
    Compile,
    Copies,
    Fast,
    Gradients,
    decide,
    require_asked,
)
from ccat.attacking.forecast import fitting_batch
from ccat.attacking.outcomes import Clean, attempt_outcomes, clean_outcomes, grouped
from ccat.attacking.rest import TPR as REST_TPR
from ccat.attacks import frozen
from ccat.attacks.inputs import require_model
from ccat.bounds import Bounds
from ccat.checks import require_count
from ccat.data import Images
from ccat.engine import Here
from ccat.errors import PipelineError
from ccat.evaluation.evaluate import evaluate as evaluate_outcomes
from ccat.evaluation.metrics import Outcome, threshold
from ccat.evaluation.results import RunOutcomes
from ccat.models.predict import probabilities
from ccat.progress import Progress, ProgressBar
from ccat.rejection import Judge, Rejection
from ccat.threats import Condition, Threat

_BATCH = 500  # images that a score of your own gets at once


def evaluate(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    calibration: Labelled | Images | None = None,
    threats: Within | Sequence[Within] = (),
    suite: str | Sequence[Case] | None = "standard",
    attacks: Sequence[AttackLike] = (),
    rejection: Judge | Rejection | None = None,
    examples: int | None = None,
    seen: Sequence[Threat] = (),
    tpr: float = 0.99,
    name: str = "model",
    progress: Progress | None = None,
    batch: int | None = None,
    rest_tpr: float | None = REST_TPR,
    certify: Bounds | None = None,
    compiled: Compile = "off",
    gradients: Gradients = "float32",
) -> Result:
    """Attack a model and measure what gets through.

    Args:
        model: Maps images (N, C, H, W) in [0,1] to logits (N, K), in any mode, on any device; wrap
            normalisation in with `ccat.Normalised`.
        images: The images that are counted, in [0,1] or as bytes.
        labels: Their labels.
        calibration: Other images and labels, which choose τ so that a share `tpr` of the correct
            ones is accepted. By default the last images, up to 1000 but at most half, are split
            off, and the table says so.
        threats: What the attacker may do to images, or a `Condition` for noise, or with
            `goal="rejection"` for attackers who want correct images rejected; by default the
            suite's own for such images.
        suite: The attacks: the name of a suite, cases of your own, or None for `attacks` only.
        attacks: More attacks, of yours or others, each made within every threat; a function
            `(x, y) -> x_adv` will do.
        rejection: A score of your own, `(images, probabilities) -> scores`, such as a fitted
            detector, which no attack knows; or `Consistency()`, which attacks of a suite by name
            know; by default the confidence.
        examples: How many of the first images are attacked; by default all.
        seen: The threats that the model was trained with, which tables mark.
        tpr: The share of correct calibration images to accept.
        name: What tables call the model.
        progress: Called with (done, total, text); by default a bar on a terminal.
        batch: Images that go through the model at once; by default what memory holds, at most 100.
        rest_tpr: An image that is wrong and accepted at the τ of this TPR rests in the cases that
            follow; None attacks all images with all cases.
        certify: "interval" or "linear": bound errors from above as well, within every threat that
            is a box. Images to which no wrong answer is possible are then not attacked, unless
            `rest_tpr` is None.
        compiled: "on" compiles passes with torch.compile, and "auto" does if that is forecast to
            save more time than it takes.
        gradients: "bfloat16" computes gradients in it, on cuda devices; scores stay in float32.

    Returns:
        Tables, numbers and adversarial images.

    Raises:
        ValueError: If images, labels, model, attacks or numbers do not fit.
    """
    (x, y), (x_val, y_val), notes = split(images, labels, calibration)
    x, x_val = (part.to(dtype_of(model)) for part in (x, x_val))
    device = device_of(model)
    require_model(model, x[:1].to(device))
    require_logits(model, x, y, device)
    count = len(x) if examples is None else examples
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(x):
        raise ValueError(
            f"examples must be 1 to {len(x)}, the number of images that are counted, not {count!r}"
        )
    if batch is not None:
        require_count("batch", batch)
    require_asked(compiled, gradients, device.type)
    rule = rejection_of(rejection)
    cases = cases_for(suite, x, threats, attacks, rule)
    require_bounds(certify, rule)
    judges = rule.load(model, {}, x[:1].to(device))
    with frozen(model):  # whatever attacks of others do, modules and weights are put back
        clean = _clean(model, rule, judges, (x, y), (x_val, y_val), device)
        (judge,) = judges
        threshold(clean.calibration[judge], tpr)  # refuse too few images before attacking
        report = progress or (ProgressBar(name) if sys.stderr.isatty() else lambda *_: None)
        batch = batch or fitting_batch(model, x[:1], str(device), 1)
        proved = certified_boxes(model, cases, x[:count], y[:count], certify)
        certificates = _certificates(cases, proved, count) if rest_tpr is not None else {}
        rest, rest_tpr = rest_at(rule, clean.raw, rest_tpr)
        rest = replace(rest, certificates=certificates)
        pool, labels_of_pool = x_val.to(device), y_val.to(device)
        about = (rest.enough, labels_of_pool, rest.tau)
        copies = _copies(model, x[:BLOCK].to(device), cases, count, batch, compiled, gradients)
        target = Target(model, rule, judges, pool, batch, *about, copied=copies)
        try_out(target, cases, x[:1].to(device), y[:1].to(device))
        names = {condition: one.name for condition, one in certificates.items()}
        attempts = attempts_of(cases, rest_at=rest_tpr, certificates=names)
        memory = _attacked(target, x[:count], y[:count], attempts, rest, str(device), report)
    blocks = range(blocks_in(count))
    found = tuple(
        attempt_outcomes(
            attempt.record,
            [memory.block(attempt, block) for block in blocks],
            y.numpy(),
            clean.scale,
        )
        for attempt in attempts
    )
    outcomes = RunOutcomes(
        run=name,
        recipe={},
        about={},
        method=", ".join(part for part in (type(model).__name__, rule.title) if part),
        dataset=f"{len(x)} images",
        weights="",
        classes=(),
        labels=y.numpy(),
        judge=judge,
        shared_judge=True,
        clean=clean.counted,
        calibration=clean.calibration[judge],
        attempts=found,
        groups=grouped(found, rule, (), seen),
        notes=notes,
        corrupted=(),
        certified=proved,
    )
    adversarial = _adversarial(outcomes, memory, x[:count], y[:count])
    return Result(outcomes, evaluate_outcomes(outcomes, tpr), MappingProxyType(adversarial))


def _copies(
    model: nn.Module,
    x: Tensor,
    cases: Sequence[Case],
    count: int,
    batch: int,
    asked: Compile,
    gradients: Gradients,
) -> Copies:
    """Return what makes the copies that are attacked; warns if one cannot be compiled as asked."""
    copies = Copies(Fast(True, gradients), batch)
    todo = [(case, blocks_in(count)) for case in cases]
    compiled, why = decide(asked, copies, model, x, todo)
    if asked == "on" and not compiled:
        warnings.warn(why, stacklevel=3)
    return copies if compiled else Copies(Fast(False, gradients), batch)


def _clean(
    model: nn.Module,
    rejection: Rejection,
    judges: Mapping[str, Judge],
    counted: Labelled,
    calibration: Labelled,
    device: torch.device,
) -> Clean:
    """What the model answers to images that are not attacked, and how it is judged."""
    x = torch.cat([counted[0], calibration[0]])
    given = torch.cat([probabilities(model, part) for part, _ in (counted, calibration)])
    scores = {}
    for name, judge in judges.items():
        parts = [
            judge(images.to(device), of)
            for images, of in zip(torch.split(x, _BATCH), torch.split(given, _BATCH), strict=True)
        ]
        scores[name] = torch.cat(parts).double().numpy()
    labels = torch.cat([counted[1], calibration[1]]).numpy()
    return clean_outcomes(rejection, given.numpy(), scores, labels, len(calibration[0]))


def _certificates(
    cases: Sequence[Case], proved: Mapping[Condition, Outcome], count: int
) -> dict[Condition, Certificate]:
    stored = {condition: Certificate(condition.key, one) for condition, one in proved.items()}
    return best_certificates(dict.fromkeys(case.condition for case in cases), stored, count)


def _attacked(
    target: Target,
    x: Tensor,
    y: Tensor,
    attempts: Sequence[Attempt],
    rest: Rest,
    device: str,
    progress: Progress,
) -> Memory:
    memory, shape = Memory(), (x.shape[1], x.shape[2], x.shape[3])

    def work(_: None, unit: Unit) -> tuple[Block, Tensor]:
        try:
            return solve(target, x, y, unit, device)
        except PipelineError as wrong:
            raise ValueError(str(wrong)) from wrong

    attack_units(attempts, y, memory, rest, Here(), work, None, shape, progress)
    return memory


def _adversarial(outcomes: RunOutcomes, memory: Memory, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """For every threat on images, the worst case of each example."""
    found = {}
    for group in outcomes.groups:
        if group.condition.on_noise:
            continue
        keys = {outcomes.attempts[member].key for member in group.members}
        parts = []
        for block in range(blocks_in(len(x))):
            labels = y[block * BLOCK : (block + 1) * BLOCK]
            rejects = group.condition.rejects
            each = [
                worst_of_block(
                    key, result, group.judge, labels, memory.deltas[key, block], rejects=rejects
                )
                for (key, number), result in memory.blocks.items()
                if number == block and key in keys
            ]
            parts.append(reduce(merge, each).delta)
        found[group.condition.title] = (x + torch.cat(parts).to(x)).clamp(0, 1)
    return found
