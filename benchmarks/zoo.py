"""Make models that come with ccat of trained, attacked and evaluated runs.

    python benchmarks/zoo.py runs/mnist-ccat-wide …

Each run's recipe, log, weights, thresholds and evaluation go to src/ccat/catalog/zoo, under
the name of the run's directory.
"""

import sys
from pathlib import Path

from ccat.pipeline.zoo import add_to_zoo
from ccat.runs import Run

ZOO = Path(__file__).resolve().parent.parent / "src" / "ccat" / "catalog" / "zoo"


def main() -> None:
    """Add the runs that are named."""
    for path in map(Path, sys.argv[1:]):
        add_to_zoo(Run.open(path), ZOO / path.name)
        print(ZOO.name, path.name)


if __name__ == "__main__":
    main()
