"""Progress as a person sees it: a bar with the time left on a terminal, a plain line now and then elsewhere."""

import sys
import time

from tqdm import tqdm


class Reporter:
    """Called with (done, of how many, what) by stages. `plain`: no bar even on a terminal, for several processes that share one."""

    def __init__(self, title: str, every: float = 10.0, *, plain: bool = False) -> None:
        self.title, self.every, self.plain = title, every, plain
        self.bar: tqdm | None = None
        self.begin = self.last = time.monotonic()

    def __call__(self, done: int, total: int, text: str) -> None:
        if sys.stderr.isatty() and not self.plain:
            self._draw(done, total, text)
        elif done == total or time.monotonic() - self.last >= self.every or done == 0:
            self.last = time.monotonic()
            print(f"{self.title}: {done} of {total}{text and ', ' + text} ({self.last - self.begin:.0f} s)", file=sys.stderr, flush=True)

    def _draw(self, done: int, total: int, text: str) -> None:
        if self.bar is None or self.bar.total != total:
            self.bar = tqdm(total=total, desc=self.title, initial=done, dynamic_ncols=True)
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(done - self.bar.n)
        if done == total:
            self.bar.close()
            self.bar = None
