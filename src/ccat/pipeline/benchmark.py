"""Benchmark a run: attack it, bound it from above, and write a card that anybody can verify."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ccat import codec
from ccat.attacking import Case
from ccat.attacking.rest import TPR as REST_TPR
from ccat.bounds import NoBoundError, certify, is_box
from ccat.data import counted
from ccat.engine import Engine
from ccat.errors import PipelineError, UntrustedError
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.results import Evaluation, RunOutcomes
from ccat.overrides import shortened
from ccat.pipeline.attack import attack
from ccat.pipeline.certify import certify_run
from ccat.pipeline.check import check_small
from ccat.pipeline.collect import collect
from ccat.progress import Progress
from ccat.rejection import Confidence
from ccat.report.card import Facts, card_html, card_json, card_markdown
from ccat.runs import Run
from ccat.threats import Condition, label

TPR = 0.99
_CLOSE = 1e-9


def benchmark(
    run: Run,
    suite: str,
    cases: Sequence[Case],
    examples: int,
    engine: Engine,
    device: str,
    progress: Progress,
    rest_tpr: float | None = REST_TPR,
    *,
    attack_certified: bool = False,
) -> Path:
    """Certify what can be, attack a run with all cases, and write its card.

    Args:
        run: A trained run; what it holds already is not computed again.
        suite: What the suite is called, as a command that asks for it.
        cases: Its cases.
        examples: How many of the first test images.
        engine: Where to compute.
        device: The device of the model.
        progress: Called after each block.
        rest_tpr: As of `attack`.
        attack_certified: As of `attack`.

    Returns:
        Where the card lies, as Markdown.
    """
    conditions = dict.fromkeys(case.condition for case in cases)
    boxes = [one for one in conditions if is_box(one.threat) and not one.rejects]
    if boxes and not _no_certificate(run, boxes[0]):
        certify_run(run, boxes, examples, engine, device, progress)
    attack(
        run,
        suite,
        cases,
        examples,
        engine,
        device,
        progress,
        rest_tpr=rest_tpr,
        attack_certified=attack_certified,
    )
    check_small(run, suite, cases, examples, engine, device)
    return write_card(run)


def write_card(run: Run) -> Path:
    """Write the card of what a run holds, and return where it lies, as Markdown."""
    outcomes = collect(run)
    if not outcomes.groups:
        raise PipelineError(outcomes.notes[0])
    name = re.sub(r"[^\w .+-]", "-", outcomes.run)[:100]  # no text of its own, see card_problems
    facts, evaluation = _card(run, replace(outcomes, run=name))
    texts = {"md": card_markdown(facts, evaluation), "html": card_html(facts, evaluation)}
    return run.card.save(card_json(facts, evaluation), texts)


def require_all_images(run: Run, x_adv: Tensor, condition: Condition) -> None:
    """Raise a PipelineError if examples are fewer than a card counts: it would count fewer then."""
    sizes = [size for record, _, size in run.attempts.records() if record.condition == condition]
    needed = max(sizes, default=min(size for _, _, size in run.attempts.records()))
    if len(x_adv) < needed:
        raise PipelineError(
            f"the card counts {needed} images, and the file has {len(x_adv)}: put in the image as "
            f"it is where your attack failed"
        )


def card_problems(run: Run, outcomes: RunOutcomes) -> Iterator[str]:
    """Yield in what the card of a run differs from what the run holds, one sentence each."""
    stored = run.card.read()
    if stored is None:
        return
    said = stored.get("facts")
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[\w .+-]{1,100}", name):
        yield f"{run.path}: its card does not say what the model is called"
        return
    facts, evaluation = _card(run, replace(outcomes, run=name))  # a card may be moved
    again = json.loads(json.dumps(card_json(facts, evaluation)))
    differing = next(_differences(stored, again), None)
    if differing is not None:
        field, claimed, found = differing
        yield (
            f"{run.path}: its card says {shortened(str(claimed))} for {field}, and what the run "
            f"holds gives {shortened(str(found))}: "
            f"the same `ccat benchmark` writes it again"
        )
        return
    texts = {"md": card_markdown(facts, evaluation), "html": card_html(facts, evaluation)}
    if run.card.texts() != texts:
        yield (
            f"{run.path}: the card to read is not what its numbers make: the same `ccat "
            f"benchmark` writes it again"
        )


def _card(run: Run, outcomes: RunOutcomes) -> tuple[Facts, Evaluation]:
    boxes = [one.condition for one in outcomes.groups if is_box(one.condition.threat)]
    uncertified = [one for one in boxes if one not in outcomes.certified and not one.rejects]
    suites = tuple(asked.suite for asked in run.plan.asked() if asked.weights == run.weights)
    planned = {key for asked in run.plan.asked() for key in asked.attempts}
    scored = dict.fromkeys(one.name for one in outcomes.attempts if one.key not in planned)
    return Facts(
        name=outcomes.run,
        architecture=run.recipe.model,
        parameters=sum(weight.numel() for weight in run.training.model().parameters()),
        method=codec.short_name(run.recipe.method),
        seen=tuple(label(threat) for threat in run.seen),
        suites=tuple(dict.fromkeys(suites)),
        scored=tuple(scored),
        no_certificate=_no_certificate(run, uncertified[0]) if uncertified else "",
        versions=dict(run.about.get("versions", {})),
    ), replace(evaluate(outcomes, TPR), notes=())


def _no_certificate(run: Run, condition: Condition) -> str:
    """Return why a run has no certificates; empty if it can have some."""
    if not isinstance(run.rejection, Confidence):
        return "a detector rejects, and bounds are those of the confidence"
    one = counted(run.recipe.dataset)[:1]
    try:
        certify(run.training.model(), one.floats(), one.y, condition.known_threat)
    except (NoBoundError, UntrustedError) as none:
        return str(none)
    return ""


def _differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two values that JSON can store differ, with both."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other} - {"seconds"}):  # these are kept beside, unsealed
            yield from _differences(one.get(key), other.get(key), f"{name}.{key}".strip("."))
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            yield name, f"{len(one)} entries", f"{len(other)}"
        for n, (mine, yours) in enumerate(zip(one, other, strict=False)):
            yield from _differences(mine, yours, f"{name}[{n}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE):
            yield name, one, other
    elif one != other:
        yield name, one, other
