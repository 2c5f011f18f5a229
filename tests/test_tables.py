"""Tables, formats and JSON against what they are made of."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from synthetic import (
    corrupted,
    detected,
    run_outcomes,
)

from ccat.cli.options.evaluate import TABLES
from ccat.evaluation import rates
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import pooled_outcome
from ccat.evaluation.intervals import Estimate
from ccat.evaluation.rates import ATTACK_RATES
from ccat.evaluation.results import (
    AtCoverage,
    Availability,
    Certified,
    ClassAnswers,
    ClassRates,
    Evaluation,
    Pooled,
    Selective,
    Stratified,
    UnderAttack,
    UnderCorruption,
)
from ccat.report import (
    FORMATS,
    json_schema,
    proposition_table,
    tables,
    to_json,
)
from ccat.report.classes import classes_table
from ccat.report.confusion import confusion_table
from ccat.report.formats import percent, shown
from ccat.report.table import Number, Share, Table


def several_kinds() -> list[Evaluation]:
    m = run_outcomes()
    return [
        evaluate(m, 0.9),
        evaluate(corrupted(m), 0.9),
        evaluate(m, tau=-math.inf),
        evaluate(m, tau=2.0),
        evaluate(detected(m), 0.9),
        evaluate(replace(m, attempts=(), groups=()), 0.9),
    ]


def test_the_document_follows_its_schema() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for one in several_kinds():
        text = json.dumps(to_json([one]), allow_nan=False)
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("attacks", 0, "pooled", "rates", "robust_error", "value"), 50),
        (("attacks", 0, "pooled", "rates", "surprise"), {"value": 0, "low": 0, "high": 0}),
        (("attacks", 0, "pooled", "rates"), {}),
        (("attacks", 0, "pooled", "forwards"), None),
        (("attacks", 0, "condition", "source"), "train"),
        (("attacks", 0, "condition", "goal"), "harm"),
        (("attacks", 0, "seen"), "yes"),
        (("rates", "error"), 0.5),
        (("images",), 0),
        (("notes",), "text"),
        (("held_out",), 100),
        (("selective", "aurc"), 1.5),
        (("attacks", 0, "selective", "at", 0, "rate"), 0.5),
        (("confusion", 0, "accepted", "0"), -1),
        (("confusion", 0, "rejected"), None),
    ],
)
def test_a_wrong_document_does_not_follow_the_schema(place: tuple[Any, ...], value: Any) -> None:
    document = json.loads(json.dumps(to_json([evaluate(run_outcomes(), 0.9)])))
    *outer, last = place
    inner = document["evaluations"][0]
    for step in outer:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_schema())


def test_the_schema_describes_every_field_and_every_rate() -> None:
    schema = json_schema()
    defined = schema["$defs"]
    of_errors = (Evaluation, UnderAttack, Pooled, UnderCorruption, Selective, AtCoverage)
    for kind in (*of_errors, ClassAnswers, ClassRates, Certified, Availability, Stratified):
        properties = defined[kind.__name__]["properties"]
        assert list(properties) == [field.name for field in fields(kind)]
        assert all(len(one["description"]) > 10 for one in properties.values())
    assert all(one["description"] for one in defined.values())
    assert defined["ConditionText"]["properties"]["threat"]["description"] == "Such as Linf:0.3."
    attack, noise, rejection = defined["Pooled"]["properties"]["rates"]["anyOf"]
    for listed, found in (
        (rates.CLEAN_RATES, defined["Evaluation"]["properties"]["rates"]),
        (rates.CORRUPTION_RATES, defined["UnderCorruption"]["properties"]["rates"]),
        (rates.CLASS_RATES, defined["ClassRates"]["properties"]["rates"]),
        (rates.ATTACK_RATES, attack),
        (rates.NOISE_RATES, noise),
        (rates.REJECTION_RATES, rejection),
    ):
        described = {
            name: (one["title"], one["description"]) for name, one in found["properties"].items()
        }
        assert described == {rate.name: (rate.title, rate.meaning) for rate in listed}


def test_tables_hold_what_was_evaluated() -> None:
    at = [
        [evaluate(replace(run_outcomes(seed), run=f"run{seed}"), tpr) for tpr in (0.9, 0.8)]
        for seed in (0, 1)
    ]
    made = {table.name: table for table in tables(at)}
    names = ["main", "classes", "thresholds", "unseen", "coverage", "attacks", "strongest"]
    names.append("confusion")
    assert list(made) == names
    assert [name for name in TABLES if name in made] == names, "printed in the same order"
    main = dict(zip(made["main"].head, made["main"].rows[2], strict=True))
    assert list(main)[:5] == ["run", "Err", "coverage", "τ", "TPR"]
    assert main["coverage"] == Share.of(at[1][0].rates["coverage"])
    assert main["Linf:0.3"] == Share.of(at[1][0].attacks[0].pooled.headline, "*")
    assert main["distal Linf:0.3"] == Share.of(at[1][0].attacks[2].pooled.headline)
    assert made["thresholds"].rows[0][4] == Share.of(at[0][1].attacks[0].pooled.headline)
    assert len(made["attacks"].rows) == 2 * (3 + 2 + 2)
    for table in made.values():
        assert "τ" in "".join(table.legend)
        if table.name not in ("classes", "strongest", "confusion"):
            assert "RErr = wrong and accepted / accepted" in "".join(table.legend)
    assert "Err = wrong / accepted; coverage = accepted / all" in made["main"].legend[1]
    for rate in ATTACK_RATES:
        assert rate.title in made["attacks"].head
        assert f"{rate.title} = {rate.meaning}" in "".join(made["attacks"].legend)


def test_the_main_table_says_what_a_run_is_worth_if_nothing_is_rejected() -> None:
    m = corrupted(run_outcomes())
    found = evaluate(m, 0.9)
    (main, *_) = tables([[found]])
    row = dict(zip(main.head, main.rows[1], strict=True))
    assert row["run"] == "run, nothing rejected"
    clean, worst = pooled_outcome(m, m.groups[0])
    assert row["Err"] == Share(float(m.clean_answers.outcome.wrong.mean()))
    assert (row["coverage"], row["τ"], row["TPR"]) == (Share(1.0), "–", Share(1.0))
    assert row["Linf:0.3"] == Share((clean.wrong | worst.wrong).mean(), None, "*")
    assert row["distal Linf:0.3"] == "–"
    wrong = [one.answers.outcome.wrong.mean() for one in m.corrupted]
    assert shown(row["set-c"]) == percent(float(sum(wrong) / len(wrong)))
    assert row["images"] == "100"
    assert any(line.startswith("nothing rejected: ") for line in main.legend)
    (main, *_) = tables([[evaluate(m, tau=-math.inf)]])
    assert [row[0] for row in main.rows] == ["run"], "there the run itself rejects nothing"


def test_the_table_of_equal_coverage_holds_what_was_evaluated() -> None:
    rested = run_outcomes()
    rested = replace(rested, attempts=tuple(replace(a, rest_at=0.9) for a in rested.attempts))
    at = [evaluate(run_outcomes(), 0.9), evaluate(replace(rested, run="rested"), 0.9)]
    (table,) = (one for one in tables([[one] for one in at]) if one.name == "coverage")
    assert [row[:2] for row in table.rows] == [
        (run, threat)
        for run in ("run", "rested")
        for threat in ("clean", "Linf:0.3*", "L2:3", "distal Linf:0.3")
    ]
    assert table.head[2:6] == ("AURC", "AUGRC", "at 99 %", "reached at 99 %")
    clean, linf, _, noise = (
        dict(zip(table.head, row, strict=True)) for row in (*table.rows[:3], table.rows[7])
    )
    assert clean["AURC"] == Number(100 * at[0].selective.aurc, 2)
    assert clean["at 95 %"] == Share.of(at[0].selective.at[1].rate)
    assert clean["reached at 95 %"] == Share(at[0].selective.at[1].reached)
    under = at[0].attacks[0].selective
    assert linf["AUGRC"] == Number(100 * under.augrc, 2)
    assert linf["at 80 %"] == Share.of(under.at[3].rate)
    assert shown(noise["AURC"]) == "–"
    assert noise["at 80 %"] == Share.of(at[1].attacks[2].selective.at[3].rate, "+")
    lower = table.rows[5]
    assert shown(lower[2]) == f"{100 * under.aurc:.2f}+"
    assert "+ a lower bound" in table.legend[-1]
    (alone,) = (one for one in tables([at[:1]]) if one.name == "coverage")
    assert "lower bound" not in "".join(alone.legend)


def test_the_rows_of_a_confusion_matrix_sum_to_100_percent() -> None:
    names = tuple("kjihgfedcb")
    m = replace(run_outcomes(), classes=names)
    found = evaluate(m, tau=0.7)
    (table,) = (one for one in tables([[found]]) if one.name == "confusion")
    end = table.head.index("rejected")
    assert table.head[:end] == ("run", "threat", "class", *names), "in the order of the classes"
    assert [row[1] for row in table.rows[::10]] == ["clean", "Linf:0.3*", "L2:3"]
    for row in table.rows:
        shares = [cell.value for cell in row[3 : end + 1] if isinstance(cell, Share)]
        assert sum(shares) == pytest.approx(1)
    of_h = dict(zip(table.head, table.rows[3], strict=True))
    third = found.confusion[3]
    assert of_h["h"] == Share(third.accepted["h"] / third.images)
    assert (of_h["coverage"], of_h["Err"]) == (Share(third.coverage), Share(third.error))
    assert of_h["images"] == str((m.labels == 3).sum())


def test_the_table_of_classes_names_them_and_shows_the_worst_of_many() -> None:
    names = tuple("kjihgfedcb")
    found = evaluate(replace(run_outcomes(), classes=names), 0.9)
    table = classes_table([found])
    assert table.head == ("run", "class", "Err", "coverage", "images")
    assert [row[1] for row in table.rows] == list(names), "in the order of the classes"
    third = found.classes[3]
    assert table.rows[3][2:4] == tuple(
        Share.of(third.rates[name]) for name in ("error", "coverage")
    )
    assert table.rows[3][4] == str(third.images)
    many = tuple(
        ClassRates(str(n), 5, {**third.rates, "error": Estimate(n / 21, 0, 1)}) for n in range(21)
    )
    table = classes_table([replace(found, classes=many)])
    assert [row[1] for row in table.rows] == [str(n) for n in range(20, 0, -1)]
    assert table.legend[-1] == "Of more than 20 classes, those with the largest Err."


def test_many_classes_have_no_column_each() -> None:
    evaluation = evaluate(run_outcomes(), 0.9)
    for count in (20, 21):
        classes = tuple(map(str, range(count)))
        one = ClassAnswers("0", 21, 1, dict.fromkeys(classes[:20], 1))
        others = tuple(ClassAnswers(each, 1, 1, {}) for each in classes[1:])
        made = confusion_table([replace(evaluation, confusion=(one, *others), attacks=())])
        assert made.head[3:-4] == (classes if count == 20 else ("right", "wrong"))
        assert sum(cell.value for cell in made.rows[0][3:-3] if isinstance(cell, Share)) == (
            pytest.approx(1)
        )
    assert made.rows[0][3:6] == (Share(1 / 21), Share(19 / 21), Share(1 / 21))


TABLE = Table(
    "odd",
    "Odd & ends",
    ("run", "RErr", "n"),
    (("a_b|<c>", Share(0.5, (0.25, 1.0), "*"), "3"), ("–", Share(math.nan), "–")),
    ("100 % of τ",),
)


def test_formats() -> None:
    text = FORMATS["md"](TABLE)
    assert "| a_b\\|<c> | 50.0* (25.0–100.0) | 3 |" in text
    assert "| –        |                  – | – |" in text
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](TABLE))))
    assert rows == [
        ["run", "RErr", "RErr low", "RErr high", "n"],
        ["a_b|<c>", "0.5", "0.25", "1.0", "3"],
        ["", "", "", "", ""],
    ]
    tex = FORMATS["tex"](TABLE)
    assert (
        "a\\_b\\textbar{}$<$c$>$ & 50.0$^{*}$ & 3 \\\\\n & \\scriptsize [25.0, 100.0] &  \\\\"
        in tex
    )
    assert r"\caption{Odd \& ends, in \%, with 95 \% intervals in brackets.}" in tex
    assert tex.startswith("% 100 % of τ\n\\begin{table}")
    assert tex.count("{") == tex.count("}")


def test_latex_has_threats_as_mathematics_and_the_best_in_bold() -> None:
    rows = (
        ("a", Share(0.25, (0.125, 0.5)), Share(0.75, (0.5, 1.0)), Share(0.5, (0.25, 0.75))),
        ("b", Share(0.5, (0.25, 0.75)), Share(0.25, (0.0, 0.5)), Share(0.5, (0.25, 0.75), "*")),
    )
    head = ("run", "coverage", "Linf:0.3", "distal L2:3")
    tex = FORMATS["tex"](Table("main", "Errors", head, rows, ()))
    assert r"run & coverage & $L_\infty$ 0.3 & distal $L_2$ 3 \\" in tex
    assert re.findall(r"\\textbf{(.*?)}", tex) == ["50.0", "25.0"], "more coverage is better"
    assert r"\caption{Errors, in \%, with 95 \% intervals in brackets, the best in bold.}" in tex


def test_columns_are_chosen_by_title_or_pattern() -> None:
    head = ("run", "Err", "Linf:0.3", "Linf:0.4", "L2:3")
    table = Table("main", "Errors", head, (("a", "1", "2", "3", "4"),), ("legend",))
    chosen = table.select(["l2:3", "Linf*"])
    assert chosen.head == ("run", "L2:3", "Linf:0.3", "Linf:0.4")
    assert chosen.rows == (("a", "4", "2", "3"),)
    with pytest.raises(ValueError, match=r"has no column 'L1:3'; it has Err, Linf:0.3"):
        table.select(["Err", "L1:3"])


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex")
def test_latex_compiles(tmp_path: Path) -> None:
    """With booktabs alone, and the odd characters of every table that there is."""
    made = [TABLE, *tables([[evaluate(replace(run_outcomes(), run="a_b"), 0.9)]])]
    pages = "\n\\clearpage\n".join(map(FORMATS["tex"], [*made, proposition_table()]))
    source = "\n".join(
        [
            r"\documentclass{article}\usepackage{booktabs}\begin{document}",
            pages,
            r"\end{document}",
        ]
    )
    (tmp_path / "tables.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "tables.log").read_text(errors="replace")
    assert (tmp_path / "tables.pdf").stat().st_size > 10_000


def test_proposition_1_as_a_table() -> None:
    rows = {(row[0], row[1], row[2]): row for row in proposition_table().rows}
    assert [shown(cell) for cell in rows["0.1", "CCAT", "0"][3:]] == [
        "yes",
        "0.8867",
        "0.6502",
        "2.197",
        "2.197",
        "10.0",
    ]
    assert rows["0.3", "CCAT", "0"][3] == "yes"
    assert rows["0.3", "CCAT", "0"][-1] == Share(0.0)
    assert rows["0.3", "CCAT", "0.5"][3] == "no"
    assert [shown(rows["0.5", training, "–"][-1]) for training in ("AT-100%", "AT-50%")] == [
        "50.0",
        "50.0",
    ]
