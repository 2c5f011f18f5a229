"""Progress for people: bars with the time left on a terminal, a plain line now and then elsewhere.

report = ProgressBar("training")
for n in range(epochs):
    report(n, epochs, f"epoch {n}")
    inner_of(report)(step, steps, "steps")  # a second bar below, on a terminal only

The last call is the one where everything is done: its text stays, as a line with the time it took.
"""

import sys
import time
from collections.abc import Callable

from tqdm import tqdm

Progress = Callable[[int, int, str], None]  # called with (done, total, what is being done)
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
_INNER = "  {desc}: {n_fmt}/{total_fmt}|{bar}|"


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
        self.bars: list[tqdm] = []  # the outer and the inner one, while they are shown
        self.begin = self.last = time.monotonic()

    def __call__(self, done: int, total: int, text: str) -> None:
        if self._on_terminal() and done < total:
            self._draw(0, _BAR, self.title, done, total, text)
            return
        for bar in reversed(self.bars):
            bar.close()
        self.bars = []
        if done == total or time.monotonic() - self.last >= self.every or done == 0:
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

    def inner(self, done: int, total: int, text: str) -> None:
        """Show a part of the work in a second bar, below that of the whole."""
        if self.bars and self._on_terminal():
            self._draw(1, _INNER, text, done, total)

    def _on_terminal(self) -> bool:
        return sys.stderr.isatty() and not self.plain

    def _draw(
        self, place: int, form: str, title: str, done: int, total: int, text: str = ""
    ) -> None:
        """Draw the outer or the inner bar; often called, it draws ten times a second at most."""
        if len(self.bars) == place:
            about = {"bar_format": form, "position": place, "leave": False, "postfix": text}
            self.bars.append(
                tqdm(total=total, desc=title, dynamic_ncols=True, smoothing=0, **about)
            )
        bar = self.bars[place]
        if (bar.total, bar.desc) != (total, title):
            bar.reset(total)
            bar.set_description_str(title, refresh=False)
        bar.set_postfix_str(text, refresh=False)
        bar.update(done - bar.n)


def inner_of(progress: Progress) -> Progress:
    """Return what shows a part of the work below the whole; nothing, unless it is a bar."""
    return progress.inner if isinstance(progress, ProgressBar) else lambda *_: None


def duration(seconds: float) -> str:
    """Return a length of time as people say it: 40 s, 12 min, 3.5 h, 2.0 days."""
    for size, unit in ((86400, "days"), (3600, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
