"""Runs as a report shows them."""

import base64
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
from synthetic import L2_3, run_outcomes

from ccat.evaluation.confusion import attacked_answers
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import pooled_answers
from ccat.evaluation.results import Group, Picture, RunOutcomes
from ccat.report import tables
from ccat.report.save import save_report
from ccat.report.section import Section
from ccat.report.table import Table

ON = date(2026, 3, 14)
NASTY = '</script><img src=x onerror="window.hacked=1">&{{data}}'


def run(seed: int, name: str, method: str, images: int = 400, attacked: int = 100) -> RunOutcomes:
    recipe = {"name": NASTY, "seed": str(seed)}
    made = run_outcomes(seed, images, attacked)
    return replace(made, run=name, method=method, recipe=recipe)


def pictures(outcomes: RunOutcomes, group: Group, count: int) -> list[Picture]:
    """As a pipeline makes them: what they say comes from the pooled answers."""
    g = np.random.default_rng(1)
    image = g.random((1, 28, 28)).astype(np.float32)
    clean = outcomes.clean[group.judge]
    errors = group.condition.on_errors
    worst, by = (attacked_answers if errors else pooled_answers)(outcomes, group)
    noise = group.condition.on_noise
    return [
        Picture(
            n,
            None if noise else int(outcomes.labels[n]),
            image,
            image if by[n] < 0 else image[:, ::-1].copy(),
            (int(clean.predicted[n]), float(clean.outcome.score[n])),
            (int(worst.predicted[n]), float(worst.outcome.score[n])),
        )
        for n in range(count)
    ]


def unpacked(text: str) -> np.ndarray:
    """Whole numbers as the page packs them."""
    return np.frombuffer(base64.b64decode(text[1:]), f"<u{text[0]}").astype(int)


RUNS = [
    run(0, "first", "Normal"),
    run(1, NASTY, "ConfidenceCalibrated"),
    run(2, "third", "ConfidenceCalibrated"),
]


def sections() -> list[Section]:
    """These runs; of L2 no pictures were kept."""
    return [
        Section(
            one,
            evaluate(one, 0.9),
            {
                group.condition: pictures(one, group, 24)
                for group in one.groups
                if group.condition != L2_3
            },
        )
        for one in RUNS
    ]


def made_tables() -> list[Table]:
    """The tables of these runs."""
    return tables([[evaluate(one, tpr) for tpr in (0.9, 0.8)] for one in RUNS])


def save_site(out: Path) -> Path:
    """A report of these runs."""
    return save_report(out, sections(), made_tables(), {}, ON)
