"""A figure of the rejection rate over time, beside what calibration images lead one to expect."""

import io
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from ccat.evaluation.watch import Watched
from ccat.files import write_whole
from ccat.report.figures import COLOURS, RC


def save_watched(watched: Watched, path: Path) -> None:
    """Write the figure, in the format that the file's ending names."""
    with rc_context(RC):
        figure = Figure(figsize=(6, 2.8), layout="constrained")
        panel = figure.add_subplot()
        low, high = (100 * end for end in watched.calibrated[1:])
        panel.axhspan(low, high, color="0.88", label="calibrated")
        panel.fill_between(
            watched.at,
            100 * watched.low,
            100 * watched.high,
            color=COLOURS[0],
            alpha=0.25,
            linewidth=0,
            label="interval, at all times",
        )
        panel.plot(watched.at, 100 * watched.rate, color=COLOURS[0], label="rejected so far")
        if watched.alarm is not None:
            panel.axvline(watched.alarm.image, color=COLOURS[1], linestyle="--", label="alarm")
        panel.set(xlabel="images", ylabel="rejected, %", xlim=(0, watched.images))
        top = max(high, 100 * watched.rate[-1], 100 * watched.rate[len(watched.rate) // 10])
        panel.set_ylim(0, min(100, 2.5 * top + 1))
        panel.legend(frameon=False, ncols=4, loc="upper center", fontsize=8)
        content = io.BytesIO()
        figure.savefig(content, format=path.suffix[1:], dpi=150)
    write_whole(path, content.getvalue())
