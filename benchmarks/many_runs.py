"""What `ccat runs` costs over many runs: processor time beyond that of starting ccat.

    python benchmarks/many_runs.py [--runs 1000] [--attempts 20]

Runs are made for it: their descriptions and headlines are written by ccat, the blocks of attempts
are empty files, of which a list needs the names only. Programs take turns; medians over the rounds
are printed, with the smallest and the largest.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ccat.catalog import RECIPES
from ccat.catalog.zoo import zoo_path
from ccat.runs import Run

ROUNDS = 5
BLOCKS = 2  # of an attempt


def make(root: Path, runs: int, attempts: int) -> None:
    """Make trained, attacked and evaluated runs, one in ten of them evaluated before its end."""
    model = zoo_path("mnist-ccat-wide")
    evaluation = json.loads((model / "evaluation.json").read_text())
    for number in range(runs):
        path = root / f"run-{number:04d}"
        if number > 1:  # the first two are written by ccat, the others are copies
            shutil.copytree(root / f"run-{int(number % 10 > 0):04d}", path)
            continue
        one = Run.create(path, RECIPES["mnist-ccat-small"], "cpu")
        (path / "trained.json").write_bytes((model / "trained.json").read_bytes())
        for attempt in range(attempts):
            folder = path / "attempts" / f"{attempt:064x}"
            folder.mkdir(parents=True)
            for block in range(BLOCKS):
                (folder / f"{block:04d}.safetensors").touch()
            if attempt == attempts - 1 - (number == 0):
                one.save_evaluation(evaluation)


def processor_time(arguments: list[str]) -> float:
    """Return the seconds of processor time that Python takes with these arguments."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"python {' '.join(arguments)} has failed")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a line per program, and what lies between."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--attempts", type=int, default=20)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        make(Path(place) / "many", chosen.runs, chosen.attempts)
        make(Path(place) / "one", 1, chosen.attempts)
        programs = {
            "python -c pass": ["-c", "pass"],
            "import torch": ["-c", "import torch"],
            "ccat runs, 1 run": ["-m", "ccat", "runs", f"{place}/one"],
            f"ccat runs, {chosen.runs} runs": ["-m", "ccat", "runs", f"{place}/many"],
        }
        for arguments in programs.values():
            processor_time(arguments)  # files are in the cache then, and compiled
        rounds = [
            {name: processor_time(one) for name, one in programs.items()} for _ in range(ROUNDS)
        ]
    start, _, one, many = programs
    for name in programs:
        times = sorted(found[name] for found in rounds)
        print(f"{name:22} {statistics.median(times):.3f} s ({times[0]:.3f} to {times[-1]:.3f})")
    for name, begin in (("beyond python -c pass", start), ("beyond one run", one)):
        times = sorted(found[many] - found[begin] for found in rounds)
        print(f"{name:22} {statistics.median(times):.3f} s ({times[0]:.3f} to {times[-1]:.3f})")


if __name__ == "__main__":
    main()
