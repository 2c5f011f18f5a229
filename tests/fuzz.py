"""Damage any file of a run, call any command: the numbers stay, or one line names the file.

    python tests/fuzz.py --minutes 60

Prints how many cases were tried. A failure is printed with its seed, which `--seed N` repeats.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runs import CASES, TINY

from ccat import SUITES, Suite
from ccat.cli import main
from ccat.pipeline import answers

UNREAD = {
    "lock",
    "lock.pid",
    "evaluation.json",
    "headline.json",
    "timings.jsonl",
}  # nothing depends on these
COMMANDS: dict[str, list[str]] = {
    "evaluate": ["evaluate", "runs/a", "--tpr", "0.9", "--format", "json"],
    "export": ["export", "runs/a", "--threat", "Linf:0.2", "--out", "out.npz"],
    "show": ["show", "runs/a"],
    "runs": ["runs"],
    "verify": ["verify", "runs/a", "--sample", "3"],
    "prune": ["prune", "runs/a"],
    "attack": ["attack", "runs/a", "--suite", "tiny", "--examples", "100", "--workers", "1"],
    "train": ["train", *TINY, "--epochs", "2", "--run", "runs/a"],
    "compare": ["compare", "runs/a", "runs/b", "--tpr", "0.9", "--format", "csv"],
    "analyse": ["analyse", "runs/a", "--examples", "5", "--iterations", "3", "--out", "analysis"],
    "corrupt": ["corrupt", "runs/a", "--examples", "20"],
}


def prepare(folder: Path) -> None:
    """Make two runs with everything that a run can hold, in the working directory."""
    os.chdir(folder)
    SUITES["tiny"] = Suite(CASES)
    for name in ("a", "b"):
        main(["train", *TINY, "--epochs", "2", "--seed", str(ord(name)), "--run", f"runs/{name}"])
        main(["attack", f"runs/{name}", *COMMANDS["attack"][2:]])
    COMMANDS["train"][-2:-2] = ["--seed", str(ord("a"))]
    main(COMMANDS["corrupt"])
    main(COMMANDS["analyse"])
    shutil.copytree("runs", "whole")


def called(arguments: list[str]) -> tuple[int, str, str]:
    """Call a command and return its exit code, what it printed, and what it said on stderr."""
    out, err = io.StringIO(), io.StringIO()
    answers.model_of.cache_clear()
    answers._judges.cache_clear()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return code, out.getvalue(), err.getvalue()


def numbers(name: str, printed: str) -> Any:
    """What must not change of what a command printed; timings and disk use aside."""
    if name == "evaluate" and printed:
        return without_seconds(json.loads(printed))
    return re.sub(r"disk use: .*|\d+\.\d MB", "", printed)


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_seconds(one) for name, one in value.items() if name != "seconds"}
    return [without_seconds(one) for one in value] if isinstance(value, list) else value


def flip(file: Path, others: list[Path], rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def truncate(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def extend(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(file.read_bytes() + rng.randbytes(rng.randrange(1, 100)))


def empty(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(b"")


def swap(file: Path, others: list[Path], rng: random.Random) -> None:
    other = rng.choice(others)
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def copy(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(rng.choice(others).read_bytes())


def reorder(file: Path, others: list[Path], rng: random.Random) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    rng.shuffle(lines)
    file.write_bytes(b"".join(lines))


def nest(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(rng.choice((b"[", b'{"a":')) * rng.choice((10, 100_000)))


def link(file: Path, others: list[Path], rng: random.Random) -> None:
    target = rng.choice([str(rng.choice(others).resolve()), "/dev/zero", "/nothing", "/"])
    file.unlink()
    file.symlink_to(target)


def folder(file: Path, others: list[Path], rng: random.Random) -> None:
    file.unlink()
    file.mkdir()


def edit(file: Path, others: list[Path], rng: random.Random) -> None:
    """Change a digit, as a person would who wants another number."""
    content = bytearray(file.read_bytes())
    digits = [place for place, byte in enumerate(content) if 48 <= byte <= 57]
    if digits:
        place = rng.choice(digits)
        content[place] = 48 + (content[place] - 48 + rng.randrange(1, 10)) % 10
    file.write_bytes(content)


DAMAGES: tuple[Callable[[Path, list[Path], random.Random], None], ...] = (
    flip,
    truncate,
    extend,
    empty,
    swap,
    copy,
    reorder,
    nest,
    link,
    folder,
    edit,
)


def tree(root: Path) -> dict[str, bytes | str]:
    """The content of every file, and where links lead."""
    found: dict[str, bytes | str] = {}
    for file in sorted(root.rglob("*")):
        name = str(file.relative_to(root))
        if file.is_symlink():
            found[name] = str(file.readlink())
        elif file.is_file():
            found[name] = file.read_bytes()
        else:
            found[name] = "folder"
    return found


_expected: dict[str, Any] = {}


def restore() -> None:
    """Put the runs back as they were, and remove what commands wrote elsewhere."""
    for name in ("runs", "analysis"):
        shutil.rmtree(name, ignore_errors=True)
    shutil.copytree("whole", "runs", symlinks=True)
    Path("out.npz").unlink(missing_ok=True)


def case(seed: int) -> str:
    """Try one case and return what it was; raises AssertionError if something is wrong."""
    rng = random.Random(seed)
    name = rng.choice(list(COMMANDS))
    restore()
    if name not in _expected:
        code, out, err = called(COMMANDS[name])
        assert code == 0, err
        _expected[name] = numbers(name, out)
        restore()
    files = [file for file in sorted(Path("runs/a").rglob("*")) if file.is_file()]
    file = rng.choice([one for one in files if one.stat().st_size])
    others = [one for one in files if one != file]
    damage = rng.choice(DAMAGES)
    what = f"seed {seed}: {damage.__name__} {file}, then {' '.join(COMMANDS[name])}"
    before = tree(Path("runs"))
    damage(file, others, rng)
    damaged = tree(Path("runs"))
    code, out, err = called(COMMANDS[name])
    after = tree(Path("runs"))
    assert "Traceback" not in err, f"{what}\n{err}"
    assert code in (0, 2), f"{what}: exit code {code}\n{err}"
    if code == 2:
        said = [line for line in err.splitlines() if line.startswith("ccat: ")]
        assert len(said) == 1, f"{what}\n{err}"
        changed = {one for one in damaged if damaged.get(one) != before.get(one)}
        named = any(Path(one).name in said[0] for one in changed) or "runs/a" in said[0]
        assert named, f"{what}: names no file\n{err}"
    elif damaged != before and not (name == "runs" and "is damaged" in out):
        assert numbers(name, out) == _expected[name], f"{what}: other numbers\n{out}\n{err}"
    for one in sorted(before.keys() | after.keys()):
        if one.rpartition("/")[2] in UNREAD or damaged.get(one) == after.get(one):
            continue
        raise AssertionError(f"{what}: {one} was written or deleted (exit code {code})")
    return f"{name} {damage.__name__} {code}"


def search(seconds: float, first: int, step: int) -> tuple[Counter[str], list[str]]:
    """Try cases for some time in a directory of its own."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
        with contextlib.redirect_stdout(io.StringIO()):
            prepare(Path(place))
        end, seed = time.monotonic() + seconds, first
        while time.monotonic() < end and len(failures) < 5:
            try:
                counts[case(seed)] += 1
            except Exception as wrong:
                text = str(wrong) if isinstance(wrong, AssertionError) else traceback.format_exc()
                failures.append(text)
            seed += step
        os.chdir("/")
    return counts, failures


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--seed", type=int, help="repeat one case")
    given = options.parse_args()
    import torch

    torch.set_num_threads(1)
    if given.seed is not None:
        with tempfile.TemporaryDirectory() as place:
            prepare(Path(place))
            sys.exit(case(given.seed))
    start = random.SystemRandom().randrange(10**9)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        parts = [(60 * given.minutes, start + n, given.jobs) for n in range(given.jobs)]
        done = pool.starmap(search, parts)
    total = sum((counts for counts, _ in done), Counter[str]())
    refused = sum(count for kind, count in total.items() if kind.endswith(" 2"))
    for _, failures in done:
        for failure in failures:
            print(failure)
    bad = sum(len(failures) for _, failures in done)
    print(f"{total.total() + bad} cases: {refused} refused by name, {bad} failures")
    sys.exit(bool(bad))
