"""`ccat monitor`: watch the rejection rate of a classifier in use."""

import csv
import sys
from argparse import Namespace
from datetime import datetime
from pathlib import Path

import numpy as np

from ccat.cli.commands.predict import COLUMNS
from ccat.cli.values import classifier_named
from ccat.evaluation.watch import Watched

ENDINGS = (".svg", ".png", ".pdf")
_MOST = 1 << 31  # bytes of a log


def run(options: Namespace) -> None:
    """Print whether the rate has changed, and draw it; exit code 1 if there is an alarm."""
    if options.plot is not None and options.plot.suffix not in ENDINGS:
        raise ValueError(f"--plot writes {', '.join(ENDINGS)}, not {options.plot}")
    clf = classifier_named(options.source)
    rows = [row for log in options.log for row in _read(log, clf.tau)]
    rows.sort(key=lambda row: row[0])  # stable: decisions of one moment keep their order
    if not rows:
        raise ValueError(f"{options.log[0]} has no decisions yet")
    watched = clf.monitor(np.array([accepted for _, accepted in rows]), options.delta)
    print(f"{watched.sentence[0].upper()}{watched.sentence[1:]}.")
    if watched.alarm is not None:
        first, alarm = (rows[n - 1][0] for n in (watched.alarm.since, watched.alarm.image))
        print(f"It began about {first.isoformat()}, and could be told at {alarm.isoformat()}.")
    if options.plot is not None:
        _draw(watched, options.plot)
        print(options.plot)
    if watched.alarm is not None:
        sys.exit(1)


def _read(log: Path, tau: float) -> list[tuple[datetime, bool]]:
    """Return the time of each decision of a log, and whether it was accepted."""
    if not log.is_file():
        raise ValueError(f"there is no log {log}")
    if log.stat().st_size > _MOST:
        raise ValueError(f"{log} is larger than {_MOST >> 30} GiB: split it")
    found = []
    with log.open(newline="", encoding="utf-8", errors="replace") as file:
        table = csv.DictReader(file)
        if missing := set(COLUMNS) - set(table.fieldnames or ()):
            raise ValueError(
                f"{log} has no column {min(missing)}: monitor reads what `ccat predict --format "
                f"csv` writes"
            )
        for row in table:
            where = f"{log}, line {table.line_num}"
            try:
                when, used = datetime.fromisoformat(row["time"]), float(row["tau"])
            except (TypeError, ValueError):
                raise ValueError(f"{where}: the time or tau cannot be read") from None
            if when.tzinfo is None:
                raise ValueError(f"{where}: the time {row['time']} names no time zone")
            if used != tau:
                raise ValueError(
                    f"{where} was decided with tau {used!r}, and the classifier's is {tau!r}: a "
                    f"log is compared with the threshold that made it"
                )
            found.append((when, row["label"] != "rejected"))
    return found


def _draw(watched: Watched, path: Path) -> None:
    # Imported here because it takes a second.
    from ccat.report.watched import save_watched  # noqa: PLC0415

    save_watched(watched, path)
