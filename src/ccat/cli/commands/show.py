"""`ccat show`: tell what a run is and holds."""

import shlex
from argparse import Namespace

from ccat import codec
from ccat.cli.screen import print_rows
from ccat.cli.values import run_named
from ccat.overrides import flatten
from ccat.report.zoo import measured
from ccat.runs import Run
from ccat.runs.glance import headline_of
from ccat.threats import label

_LOG = (
    "epoch",
    "loss",
    "clean_error",
    "clean_confidence",
    "adversarial_error",
    "adversarial_confidence",
)


def run(options: Namespace) -> None:
    """Print recipe, log, attempts and disk use; nobody's code is imported."""
    one = run_named(options.run)
    fields = {"method": codec.short_name(one.recipe.method), **flatten(one.recipe)}
    fields["rejection"] = one.rejection.title or "confidence"
    print_rows(["recipe", ""], [[name, value] for name, value in fields.items()])
    print(f"\n{_evaluated(one)}")
    versions = one.about.get("versions", {})
    text = ", ".join(f"{name} {number}" for name, number in versions.items())
    print(f"\nmade with {text} on {one.about.get('device')}")
    if log := one.training.log():
        rows = [[f"{entry[name]:.4g}" for name in _LOG] for entry in log]
        print()
        print_rows(_LOG, rows)
    attempts = []
    for record, _, size in one.attempts.records():
        condition = record.condition
        attempts.append([label(condition.threat), record.name, condition.source, str(size)])
    if attempts:
        print()
        print_rows(["threat", "case", "source", "examples"], sorted(attempts))
    use = one.disk_use()
    parts = ", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in use.items())
    print(f"\ndisk use: {parts}; in all {sum(use.values()) / 1e6:.1f} MB")


def _evaluated(run: Run) -> str:
    """Return what the stored evaluation says, and whether it is of what the run holds."""
    command = f"`ccat evaluate {shlex.quote(str(run.path))}`"
    state = headline_of(run.folder)[1]
    stored = run.evaluation()
    if stored is None:
        return f"not evaluated yet: {command} shows and stores Err and RErr"
    text = measured(stored)
    if state == "yes":
        return text
    return f"{text}\n\nThis is stale: the run holds more than it has seen. {command} makes it anew."
