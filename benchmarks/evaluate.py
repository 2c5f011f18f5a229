"""What `ccat evaluate` and its relatives cost: seconds of one core and memory, of whole processes.

python benchmarks/evaluate.py make FOLDER [--attempts 60] [--images 100]
python benchmarks/evaluate.py time RUN ... [--commands evaluate,report] [--against SRC] [--rounds 3]

`make` writes a run with made-up answers, as attacks would have left them: the cases of the suite
`standard`, each image resting once it is broken. `time` runs commands on stored runs, in turns with
the code of another version if there is one, and says whether both evaluations are the same JSON.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ccat import RECIPES, SUITES, create_model
from ccat.attacking import BLOCK, Attempt, Block, attempts_of
from ccat.data import calibration_size, data_digest, split_of
from ccat.evaluation.outcome import outcome, threshold
from ccat.rejection import CONFIDENCE
from ccat.runs import Run

REST = 0.9
COMMANDS = {
    "evaluate": ["evaluate", "{runs}", "--format", "json"],
    "report": ["report", "{runs}", "--out", "{folder}"],
    "compare": ["compare", "{runs}"],
    "verify": ["verify", "{runs}"],
}


def make(folder: Path, attempts: int, images: int) -> None:
    """Write a run of made-up answers to made-up images."""
    generator = torch.Generator().manual_seed(0)
    dataset = _images(folder, images + 1000)
    recipe = replace(RECIPES["mnist-ccat-demo"], dataset=dataset)
    run = Run.create(folder / f"{attempts}x{images}", recipe, "cpu")
    run.training.save_model(create_model(recipe.model, generator))
    data, labels = data_digest(dataset), split_of(dataset, "test").y
    clean = _answers(labels, 0.03, generator)
    run.answers.save_clean(clean, data)
    last = calibration_size(dataset)
    enough = threshold(outcome(clean[-last:], labels[-last:]), REST)
    os.fsync = lambda fd: None  # what is measured here is not lost with the machine
    resting: dict[tuple[str, int], torch.Tensor] = {}
    cases = SUITES["standard"].cases
    restarts = -(-attempts // len(cases))
    repeated = [replace(case, restarts=restarts) for case in cases]
    for attempt in attempts_of(repeated, run.weights, data, REST)[:attempts]:
        for number in range(-(-images // BLOCK)):
            rows = slice(number * BLOCK, min(images, (number + 1) * BLOCK))
            place = (attempt.case.condition.key, number)
            broken = resting.setdefault(place, torch.zeros(rows.stop - rows.start).bool())
            block = _block(attempt, clean[rows], labels[rows], ~broken, generator)
            run.attempts.save(attempt, number, block)
            wrong = block.probabilities.argmax(1) != labels[rows]
            resting[place] = broken | (wrong & (block.scores[CONFIDENCE].double() >= enough))
    print(run.path)


def _images(folder: Path, count: int) -> str:
    """Write images of ten classes as a data set, and return its name."""
    file = folder / f"images-{count}.npz"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generator = np.random.default_rng(0)
        sizes = {"train": 1000, "test": count}
        arrays: dict[str, Any] = {
            **{f"{split}_labels": np.arange(size) % 10 for split, size in sizes.items()},
            **{
                f"{split}_images": generator.integers(256, size=(size, 28, 28), dtype=np.uint8)
                for split, size in sizes.items()
            },
        }
        np.savez(file, **arrays)
    return f"unverified:{file.resolve()}"


def _answers(labels: torch.Tensor, wrong: float, generator: torch.Generator) -> torch.Tensor:
    """Return probabilities of classes, of which so many are wrong; some are exactly 1."""
    bad = torch.rand(len(labels), generator=generator) < wrong
    answered = torch.where(bad, (labels + 1) % 10, labels)
    logits = torch.rand(len(labels), 10, generator=generator)
    logits[torch.arange(len(labels)), answered] += torch.where(
        torch.rand(len(labels), generator=generator) < 0.1,
        40.0,
        1 + 8 * torch.rand(len(labels), generator=generator),
    )
    return logits.softmax(1)


def _block(
    attempt: Attempt,
    clean: torch.Tensor,
    labels: torch.Tensor,
    asked: torch.Tensor,
    generator: torch.Generator,
) -> Block:
    found = _answers(labels, 0.02 + 0.1 / (1 + attempt.position), generator)
    answers = torch.where(asked[:, None], found, clean)
    value = torch.where(asked, answers.amax(1), -torch.inf)
    passes = 100 * int(asked.sum())
    scores = {CONFIDENCE: answers.amax(1)}
    return Block(answers, value, scores, 0.5, passes, passes, 0, 0, asked)


_PROGRAM = """
import resource, sys, time
import scipy.optimize, scipy.stats, sklearn.metrics
from ccat.cli import main
from ccat.cli.commands import evaluate
begin = time.process_time()
main(sys.argv[1:])
print(time.process_time() - begin, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""


class Measured(NamedTuple):
    """Seconds of CPU of a process, those after it has imported everything, peak MB, its output."""

    whole: float
    work: float
    memory: float
    output: str


def measured(command: list[str], source: Path) -> Measured:
    """Run a command with the code of a version."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *command],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    work, memory = map(float, done.stderr.split()[-2:])
    return Measured(whole, work, memory, done.stdout)


def compare(runs: list[str], commands: list[str], against: Path | None, rounds: int) -> None:
    """Print a line for each command: seconds of CPU and memory, and the ratio to the other code."""
    here = Path(__file__).resolve().parents[1] / "src"
    sources = [here] if against is None else [here, against]
    for name in commands:
        with tempfile.TemporaryDirectory() as folder:
            filled = [part.replace("{folder}", folder) for part in COMMANDS[name]]
            command = [one for part in filled for one in (runs if part == "{runs}" else [part])]
            taken = [[measured(command, source) for source in sources] for _ in range(rounds)]
        print(f"{name}: {_said([each[0] for each in taken])}")
        if against is None:
            continue
        print(f"  the other: {_said([each[1] for each in taken])}")
        ratios = [other.work / ours.work for ours, other in taken]
        text = f"  {statistics.median(ratios):.1f} times the work"
        print(f"{text} ({min(ratios):.1f} to {max(ratios):.1f})", end="")
        ours, other = (one.output for one in taken[0])
        same = ours == other if name != "evaluate" else json.loads(ours) == json.loads(other)
        print(f"; the same output: {same}")


def _said(taken: list[Measured]) -> str:
    whole, work = (
        statistics.median(getattr(one, name) for one in taken) for name in ("whole", "work")
    )
    memory = max(one.memory for one in taken)
    return f"{whole:.2f} s, {work:.2f} s of them after imports, {memory:.0f} MB"


def main() -> None:
    """Make a run, or time commands on runs."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = options.add_subparsers(dest="what", required=True)
    making = what.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--attempts", type=int, default=60)
    making.add_argument("--images", type=int, default=100)
    timing = what.add_parser("time")
    timing.add_argument("runs", nargs="+")
    timing.add_argument("--commands", default="evaluate")
    timing.add_argument("--against", type=Path)
    timing.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    if chosen.what == "make":
        make(chosen.folder, chosen.attempts, chosen.images)
    else:
        compare(chosen.runs, chosen.commands.split(","), chosen.against, chosen.rounds)


if __name__ == "__main__":
    main()
