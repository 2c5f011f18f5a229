"""Make models that come with ccat of trained, attacked and evaluated runs.

    python benchmarks/zoo.py runs/mnist-ccat-wide …
    python benchmarks/zoo.py --cards    # only their evaluations, from docs/results

Each run's recipe, log, weights, thresholds and evaluation go to src/ccat/catalog/zoo, under
the name of the run's directory.
"""

import json
import sys
from pathlib import Path

from result_tables import renewed

from ccat.catalog.zoo import zoo
from ccat.pipeline.zoo import add_to_zoo
from ccat.runs import Run

ZOO = Path(__file__).resolve().parent.parent / "src" / "ccat" / "catalog" / "zoo"


def cards() -> None:
    """Give each model the evaluation that the tables of docs/RESULTS.md are made of."""
    for name, evaluations in renewed().items():
        if name in zoo():
            file = zoo()[name] / "evaluation.json"
            plain = {**json.loads(file.read_text()), "evaluations": evaluations}
            file.write_text(json.dumps(plain, separators=(",", ":"), allow_nan=False))


def main() -> None:
    """Add the runs that are named, or renew all cards."""
    if sys.argv[1:] == ["--cards"]:
        cards()
        return
    for path in map(Path, sys.argv[1:]):
        add_to_zoo(Run.open(path), ZOO / path.name)
        print(ZOO.name, path.name)


if __name__ == "__main__":
    main()
