"""Tables, formats and JSON against what they are made of."""

import csv
import io
import json
import math
from dataclasses import fields, replace
from typing import Any

import jsonschema
import pytest
from synthetic import (
    corrupted,
    detected,
    run_outcomes,
)

from ccat.evaluation import rates
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.rates import ATTACK_RATES
from ccat.evaluation.results import (
    Availability,
    Evaluation,
    Pooled,
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
from ccat.report.formats import shown
from ccat.report.table import Share, Table


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
    for kind in (Evaluation, UnderAttack, Pooled, UnderCorruption, Availability, Stratified):
        properties = defined[kind.__name__]["properties"]
        assert list(properties) == [field.name for field in fields(kind)]
        assert all(len(one["description"]) > 10 for one in properties.values())
    assert all(one["description"] for one in defined.values())
    assert defined["ConditionText"]["properties"]["threat"]["description"] == "Such as Linf:0.3."
    attack, noise, rejection = defined["Pooled"]["properties"]["rates"]["anyOf"]
    for listed, found in (
        (rates.CLEAN_RATES, defined["Evaluation"]["properties"]["rates"]),
        (rates.CORRUPTION_RATES, defined["UnderCorruption"]["properties"]["rates"]),
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
    assert list(made) == ["main", "thresholds", "unseen", "attacks", "strongest"]
    main = dict(zip(made["main"].head, made["main"].rows[1], strict=True))
    assert list(main)[:5] == ["run", "Err", "coverage", "τ", "TPR"]
    assert main["coverage"] == Share.of(at[1][0].rates["coverage"])
    assert main["Linf:0.3"] == Share.of(at[1][0].attacks[0].pooled.headline, "*")
    assert main["distal Linf:0.3"] == Share.of(at[1][0].attacks[2].pooled.headline)
    assert made["thresholds"].rows[0][4] == Share.of(at[0][1].attacks[0].pooled.headline)
    assert len(made["attacks"].rows) == 2 * (3 + 2 + 2)
    for table in made.values():
        assert "τ" in "".join(table.legend)
        if table.name != "strongest":
            assert "RErr = wrong and accepted / accepted" in "".join(table.legend)
    assert "Err = wrong / accepted; coverage = accepted / all" in made["main"].legend[1]
    for rate in ATTACK_RATES:
        assert rate.title in made["attacks"].head
        assert f"{rate.title} = {rate.meaning}" in "".join(made["attacks"].legend)


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
    assert r"a\_b\textbar{}$<$c$>$ & 50.0$^{*}$ {\scriptsize [25.0, 100.0]} & 3 \\" in tex
    assert r"Odd \& ends. 100 \% of $\tau$" in tex
    assert tex.count("{") == tex.count("}")


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
