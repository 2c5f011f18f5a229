"""How long ccat takes to start, as ratios of processor time: beside bare Python, and beside torch.

    python benchmarks/startup.py

Every program is a process of its own. Programs take turns; a ratio is taken within each round, and
the median, the smallest and the largest are printed.
"""

import os
import statistics
import subprocess
import sys

ROUNDS = 7
PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import ccat": ["-c", "import ccat"],
    "import ccat; ccat.evaluate": ["-c", "import ccat; ccat.evaluate"],
    "ccat --help": ["-m", "ccat", "--help"],
    "ccat --version": ["-m", "ccat", "--version"],
    "ccat attack --help": ["-m", "ccat", "attack", "--help"],
    "ccat completion bash": ["-m", "ccat", "completion", "bash"],
    "ccat schema": ["-m", "ccat", "schema"],
    "ccat recipes": ["-m", "ccat", "recipes"],
    "ccat suites": ["-m", "ccat", "suites"],
}
UNITS = ("python -c pass", "import torch")


def processor_time(arguments: list[str]) -> float:
    """Return the seconds of processor time that Python takes with these arguments."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"python {' '.join(arguments)} has failed")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a line per program, in units of bare Python and of importing torch."""
    for arguments in PROGRAMS.values():
        processor_time(arguments)  # files are in the cache then, and compiled
    rounds = [{name: processor_time(one) for name, one in PROGRAMS.items()} for _ in range(ROUNDS)]
    for name in PROGRAMS:
        seconds = statistics.median(times[name] for times in rounds)
        parts = [f"{name:27} {seconds:.3f} s"]
        for unit in UNITS:
            ratios = sorted(times[name] / times[unit] for times in rounds)
            middle = statistics.median(ratios)
            parts.append(f"{middle:.3g} of {unit} ({ratios[0]:.3g} to {ratios[-1]:.3g})")
        print("; ".join(parts))


if __name__ == "__main__":
    main()
