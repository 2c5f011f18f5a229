"""Errors from above: what a certificate means for RErr, in runs, tables and the command line."""

import csv
import io
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runs import says
from synthetic import JUDGE, LINF, NOISE, attempt, possible, run_outcomes
from torch import nn

import ccat
from ccat import PGD, Case, sealed
from ccat.errors import PipelineError
from ccat.evaluation.certified import between
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.metrics import Outcome, robust_error, worst
from ccat.report.certificates import certificates_table
from ccat.report.formats import FORMATS, shown
from ccat.report.tables import main_table
from ccat.runs import Run
from ccat.threats import L2, Condition, Linf


def literal(clean: Outcome, certificate: Outcome, tau: float) -> float:
    """U / (U + A), image by image."""
    uncertified = accepted = 0
    for n in range(len(clean)):
        if certificate.wrong[n] and certificate.score[n] >= tau:
            uncertified += 1
        elif clean.score[n] >= tau:
            accepted += 1
    return uncertified / (uncertified + accepted) if uncertified + accepted else 0.0


@given(st.integers(0, 1000), st.floats(0.0, 1.0))
def test_the_bound_is_u_over_u_plus_a_and_no_subset_of_it_is_worse(seed: int, tau: float) -> None:
    g = np.random.default_rng(seed)
    n = 5
    clean = Outcome(g.random(n) < 0.2, g.random(n))
    wrong = clean.wrong | (g.random(n) < 0.5)
    score = np.maximum(np.where(clean.wrong, clean.score, 0), g.random(n))
    certificate = Outcome(wrong, np.where(wrong, score, 0))
    upper = robust_error(clean, certificate, tau)
    assert upper == pytest.approx(literal(clean, certificate, tau))
    # Any attack finds some of what is possible, with some of the confidence that is.
    for reached in itertools.product((0.0, 0.6, 1.0), repeat=n):
        strength = np.array(reached)
        found = Outcome(certificate.wrong & (strength > 0), certificate.score * strength)
        assert robust_error(clean, worst(clean, [found]), tau) <= upper + 1e-12


def test_both_bounds_are_over_the_same_images() -> None:
    run = run_outcomes()
    run = replace(run, certified={LINF: possible(run)})
    found = between(run, LINF)
    assert found.images == 100  # 400 are certified, 100 attacked
    (one,) = evaluate(run, tau=0.5).certificates
    assert one.lower is not None
    assert one.lower.value <= one.upper.value
    pooled = next(a for a in evaluate(run, tau=0.5).attacks if a.condition == LINF).pooled
    assert one.lower.value == pooled.headline.value
    clean, certificate = run.clean[JUDGE].outcome[:100], possible(run)[:100]
    assert one.upper.value == pytest.approx(literal(clean, certificate, 0.5))
    assert one.certified == np.mean(~(certificate.wrong & (certificate.score >= 0.5)))
    assert one.without_rejection == np.mean(certificate.wrong)
    row = [shown(cell) for cell in certificates_table([evaluate(run, tau=0.5)]).rows[0]]
    assert f"between {100 * one.lower.value:.1f} and {100 * one.upper.value:.1f} %" in row


def test_a_condition_that_was_not_attacked_has_a_bound_from_above_only() -> None:
    run = run_outcomes()
    run = replace(run, certified={Condition(Linf(0.05)): possible(run)})
    (one,) = evaluate(run).certificates
    assert one.lower is None
    assert one.examples == 400


@pytest.mark.parametrize("change", ["impossible", "lower", "clean", "smaller threat"])
def test_a_certificate_that_an_attack_contradicts_stops_the_evaluation(change: str) -> None:
    run = run_outcomes()
    certificate, condition = possible(run, slack=0.0), LINF
    evaluate(replace(run, certified={condition: certificate}))  # exactly what was found is allowed
    wrong, score = certificate.wrong.copy(), certificate.score.copy()
    row = int(np.flatnonzero(wrong[:100])[3])
    if change == "impossible":
        wrong[row] = False
    elif change == "lower":
        score[row] -= 1e-6
    elif change == "clean":
        row = int(np.flatnonzero(run.clean[JUDGE].outcome.wrong[100:])[0]) + 100
        wrong[row] = False
    else:
        condition = Condition(Linf(0.4))  # holds what was found at 0.3
        wrong[row] = False
    with pytest.raises(PipelineError, match=f"certificate of image {row} says .* bug in ccat"):
        evaluate(replace(run, certified={condition: Outcome(wrong, score)}))


def test_on_noise_every_answer_counts() -> None:
    run = run_outcomes()
    found = attempt(run, 3).outcome
    certificate = Outcome(np.ones(100, np.bool_), np.minimum(1, found.score + 0.05))
    (one,) = evaluate(replace(run, certified={NOISE: certificate}), tau=0.5).certificates
    assert one.upper.value == np.mean(certificate.score >= 0.5)


def test_a_run_is_certified_and_its_tables_say_so(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    attack = ("attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1")
    says(capsys, *attack)
    said = says(capsys, "certify", "tiny", "--examples", "150", "--workers", "1")
    assert "| tiny | Linf:0.1 " in said
    assert "| tiny | Frame:2 " in said
    assert "| tiny | distal Linf:0.1 " in said
    assert "L2" not in said.split("In %")[0]
    assert "between" in said
    assert "Intervals grow from layer to layer" in said  # vacuous on such a model
    assert "Linf:0.1" in says(capsys, "evaluate", "tiny", "--table", "certificates")
    assert "every file is as it was written" in says(capsys, "verify", "tiny")
    (file,) = trained.path.glob("certificates/test-Linf-0.1.safetensors")
    tensors, about = sealed.unpack(file.read_bytes())
    before = tensors["score"][103].item()
    tensors["score"][103], tensors["wrong"][103] = 0.7 * before, True
    file.write_bytes(sealed.pack(tensors, about))
    refused = says(capsys, "verify", "tiny", error=True)
    assert "certificate of image 103" in refused
    tensors["score"], tensors["wrong"] = tensors["score"][:0], tensors["wrong"][:0]
    file.write_bytes(sealed.pack(tensors, about))
    assert "Linf-0.1.safetensors is damaged" in says(capsys, "evaluate", "tiny", error=True)


def test_what_cannot_be_certified_is_said(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--threat", "L2:1"], "needs a threat that is a box"),
        ([], "was not attacked within a box yet"),
        (["--threat", "Linf:0.1", "--examples", "9001"], "--examples must be 1 to 9000"),
        (["--threat", "Linf:1.2"], "epsilon=1.2 would allow every image"),
    ):
        assert message in says(capsys, "certify", "tiny", *arguments, error=True)
    assert not list(Path("runs/tiny").glob("certificates*"))


def test_certificates_of_other_weights_are_not_read(trained: Run) -> None:
    certificate = Outcome(np.ones(5, np.bool_), np.full(5, 0.5))
    condition = Condition(Linf(0.1))
    trained.certificates.save({condition: certificate}, "data", "linear")
    (read,) = trained.certificates.read("data").values()
    assert (read.wrong == certificate.wrong).all()
    assert (read.score == certificate.score).all()
    assert trained.certificates.bounds_of(condition) == "linear"
    assert trained.certificates.read("other data") == {}
    assert replace(trained.certificates, weights="other").read("data") == {}


def test_a_model_in_memory_is_bounded_from_both_sides() -> None:
    """A linear model, of which intervals are exact: the attack reaches the bound."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(3, 16, generator=generator))  # type: ignore[operator]
    x = torch.rand(240, 1, 4, 4, generator=generator)
    y = model(x).argmax(1)
    about = (x[:40], y[:40])
    case = Case("PGD", Linf(0.05), PGD(20, 0.02))
    cases = [case, replace(case, threat=L2(0.1))]
    images = {"calibration": (x[40:], y[40:]), "suite": cases}
    result = ccat.evaluate(model, *about, **images, certify="interval")  # type: ignore[arg-type]
    (one,) = result.evaluation.certificates
    assert one.condition == Condition(Linf(0.05))
    assert one.lower is not None
    assert 0 < one.lower.value <= one.upper.value < 1
    assert one.upper.value - one.lower.value < 0.06
    assert "≤" in result.table()
    assert "between" in result.table("certificates")
    with pytest.raises(ValueError, match="certify must be one of interval, linear, not 'exact'"):
        ccat.evaluate(model, *about, **images, certify="exact")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave rejection or certify out"):
        ccat.evaluate(
            model,
            *about,
            **images,  # type: ignore[arg-type]
            certify="interval",
            rejection=lambda images, f: f.amax(1),
        )


def test_tables_have_what_was_proved_in_every_format() -> None:
    run = run_outcomes()
    certified = {LINF: possible(run), Condition(Linf(0.05)): possible(run)}
    table = main_table([evaluate(replace(run, certified=certified), tau=0.5)])
    upper = evaluate(replace(run, certified=certified), tau=0.5).certificates
    proved = {one.condition.title: 100 * one.upper.value for one in upper}
    row = dict(zip(table.head, (shown(cell) for cell in table.rows[0]), strict=True))
    assert row["Linf:0.05"] == f"≤ {proved['Linf:0.05']:.1f}"  # not attacked
    assert row["Linf:0.3"].endswith(f") ≤ {proved['Linf:0.3']:.1f}")
    head, first, *_ = csv.reader(io.StringIO(FORMATS["csv"](table)))
    values = dict(zip(head, first, strict=True))
    assert 100 * float(values["Linf:0.3 at most"]) == pytest.approx(proved["Linf:0.3"])
    assert values["Linf:0.05"] == ""
    assert rf"$\le$ {proved['Linf:0.3']:.1f}" in FORMATS["tex"](table)
    assert any("by a proof" in line for line in table.legend)


def test_rejection_has_no_certificate(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    said = says(capsys, "certify", "tiny", "--threat", "reject:Linf:0.1", error=True)
    assert "reject Linf:0.1 has no certificate" in said
