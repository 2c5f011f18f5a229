"""Tables as Markdown that is aligned enough to be read in a terminal."""

from collections.abc import Sequence

from ccat.results import Evaluation


def main_table(evaluations: Sequence[Evaluation], tpr: float | None) -> str:
    """One row per run: clean error, coverage and the error under each threat, with what the numbers mean below."""
    threats = list(dict.fromkeys((a.source, a.threat) for one in evaluations for a in one.attacks))
    threats.sort(key=lambda threat: threat[0] == "noise")
    head = ["run", "Err", "accepted", "τ", *(("distal " if source == "noise" else "") + name for source, name in threats), "images"]
    rows = []
    for one in evaluations:
        found = {(a.source, a.threat): f"{_percent(a.error)}{'*' * a.seen}" for a in one.attacks}
        numbers = [_percent(one.error), _percent(one.coverage), f"{one.tau:.3f}"]
        rows.append([one.run, *numbers, *(found.get(threat, "–") for threat in threats), _range({a.examples for a in one.attacks})])
    at = f"at {100 * tpr:g} % TPR" if tpr is not None else "at the τ given"
    legend = [
        f"All numbers but τ in %, {at}: images with a confidence below τ are rejected.",
        "Err: wrong among the accepted test images. accepted: share of test images that are. (Without those that chose τ.)",
        "Linf:0.3 and so on: RErr, wrong among accepted, for each image the worst of all attempts within that threat.",
        "distal: share of adversarial noise images accepted (FPR). * a threat that training has seen. – not attacked.",
    ]
    tries = {threat: {a.attempts for one in evaluations for a in one.attacks if (a.source, a.threat) == threat} for threat in threats}
    if tries:
        legend.append(
            "Attempts per image: "
            + ", ".join(f"{_range(tries[key])} for {name}" for key, name in zip(threats, head[4:], strict=False))
            + "."
        )
    return "\n".join([markdown(head, rows), "", *legend, *(note for one in evaluations for note in one.notes)])


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of numbers to the right, of text to the left."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numbers = [all(cell[:1].isdigit() or cell[:1] in "-–" for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        aligned = [cell.rjust(width) if n else cell.ljust(width) for cell, width, n in zip(cells, widths, numbers, strict=True)]
        return "| " + " | ".join(aligned) + " |"

    rule = "|".join("-" * (width + 1) + ":" if n else "-" * (width + 2) for width, n in zip(widths, numbers, strict=True))
    return "\n".join([line(head), f"|{rule}|", *(line(row) for row in rows)])


def _range(numbers: set[int]) -> str:
    return "–".join(str(number) for number in sorted({min(numbers), max(numbers)})) if numbers else "–"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
