"""Progress for people: a bar with the time left on a terminal, a plain line now and then elsewhere.

report = ProgressBar("training")
for n in range(epochs):
    report(n, epochs, f"epoch {n}")
"""

import sys
import time
from collections.abc import Callable

from tqdm import tqdm

Progress = Callable[[int, int, str], None]  # called with (done, total, what is being done)
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


class ProgressBar:
    """A `Progress` that shows itself on stderr.

    Callers count units of equal work, so that the time left is estimated correctly.

    Args:
        title: What is shown before the percentage.
        every: Seconds between two plain lines.
        plain: Print lines even on a terminal, for several processes that share one.
    """

    def __init__(self, title: str, every: float = 10.0, *, plain: bool = False) -> None:
        self.title, self.every, self.plain = title, every, plain
        self.bar: tqdm | None = None
        self.begin = self.last = time.monotonic()

    def __call__(self, done: int, total: int, text: str) -> None:
        if sys.stderr.isatty() and not self.plain:
            self._draw(done, total, text)
        elif done == total or time.monotonic() - self.last >= self.every or done == 0:
            self.last = time.monotonic()
            passed = self.last - self.begin
            left = (
                f", about {duration(passed / done * (total - done))} left"
                if 0 < done < total
                else ""
            )
            share = 100 * done // total if total else 100
            print(
                f"{self.title}: {share} %{text and ', ' + text} ({duration(passed)}{left})",
                file=sys.stderr,
                flush=True,
            )

    def _draw(self, done: int, total: int, text: str) -> None:
        if self.bar is None or self.bar.total != total:
            self.bar = tqdm(
                total=total,
                desc=self.title,
                initial=done,
                dynamic_ncols=True,
                smoothing=0,
                bar_format=_BAR,
            )
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(done - self.bar.n)
        if done == total:
            self.bar.close()
            self.bar = None


def duration(seconds: float) -> str:
    """Return a length of time as people say it: 40 s, 12 min, 3.5 h, 2.0 days."""
    for size, unit in ((86400, "days"), (3600, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
