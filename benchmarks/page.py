"""How large the report page is, and how long it takes to follow its slider.

    python benchmarks/page.py

Runs are synthetic: random scores and attempts under six conditions, all images attacked. The page
of three runs of 1,000 images is opened in a headless Chromium without a network, and the slider is
moved over all of its stops; a move ends when the browser has computed style and layout anew. Beside
the time on the clock, which other programs lengthen, stands the processor time that the page takes.
The same is done with the page of ten runs of 10,000 images.
"""

import shutil
import statistics
import tempfile
from datetime import date
from pathlib import Path

import numpy as np
from playwright.sync_api import CDPSession, Page, sync_playwright

from ccat import L1, L2, Condition, Frame, Linf, Threat
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import group_attempts
from ccat.evaluation.outcome import Outcome
from ccat.evaluation.results import Answers, AttemptOutcomes, Picture, RunOutcomes
from ccat.pipeline.report import pictures_of_each
from ccat.report import tables
from ccat.report.page import page
from ccat.report.section import Section

THREATS: tuple[Threat, ...] = (Linf(0.3), Linf(0.4), L2(3), L1(18), Frame(2))
CONDITIONS = (*(Condition(threat) for threat in THREATS), Condition(Linf(0.3), "noise"))
ATTEMPTS = 1  # under each condition
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
)
MOVES = """() => {
  const slider = document.getElementById("stop"), times = [];
  for (let round = 0; round < 3; round += 1) {
    for (let stop = 0; stop <= Number(slider.max); stop += 1) {
      slider.value = stop;
      const begin = performance.now();
      slider.dispatchEvent(new Event("input"));
      document.body.getBoundingClientRect();
      times.push(performance.now() - begin);
    }
  }
  return times;
}"""


def answers(g: np.random.Generator, labels: np.ndarray, wrong: float, low: float) -> Answers:
    """Return answers that are wrong so often, with scores from `low` up."""
    bad = g.random(len(labels)) < wrong
    return Answers(
        np.where(bad, (labels + 1) % 10, labels), Outcome(bad, g.uniform(low, 1, len(labels)))
    )


def synthetic(seed: int, images: int) -> RunOutcomes:
    """Return a run that was never trained."""
    g = np.random.default_rng(seed)
    labels = np.random.default_rng(0).integers(10, size=images)
    every = [one for one in CONDITIONS for _ in range(ATTEMPTS)]
    attempts = tuple(
        AttemptOutcomes(
            key=f"{n}",
            name=f"attack {n}",
            family=f"family {n % ATTEMPTS}",
            condition=condition,
            restart=0,
            aware=False,
            answers={"confidence": answers(g, labels, 0.6, 0.2)},
            forwards=1,
            backwards=1,
            seconds=1.0,
            no_gradient=0,
            rising=0,
            asked=np.ones(images, dtype=np.bool_),
        )
        for n, condition in enumerate(every)
    )
    return RunOutcomes(
        run=f"mnist-run-{seed}",
        recipe={},
        about={},
        method=("Normal", "Adversarial", "ConfidenceCalibrated")[seed % 3],
        dataset="mnist",
        weights="",
        classes=(),
        labels=labels,
        judge="confidence",
        shared_judge=True,
        clean={"confidence": answers(g, labels, 0.02, 0.4)},
        calibration=answers(g, labels[:1000], 0.02, 0.4).outcome,
        attempts=attempts,
        groups=group_attempts(every, lambda _: "confidence", lambda one: one == CONDITIONS[0]),
        notes=(),
    )


def pictures(seed: int, runs: int) -> dict[Condition, list[Picture]]:
    """Return pictures of noise, which no format makes smaller; the images are those of all runs."""
    g, clean = np.random.default_rng([seed, 1]), np.random.default_rng(0)
    images = clean.random((pictures_of_each(runs), 1, 28, 28), dtype=np.float32)
    return {
        condition: [
            Picture(n, 0, image, g.random((1, 28, 28), dtype=np.float32), (0, 0.5), (1, 0.5))
            for n, image in enumerate(images)
        ]
        for condition in CONDITIONS
    }


def written(count: int, images: int) -> str:
    """Return the page of so many runs of so many images."""
    runs = [synthetic(seed, images) for seed in range(count)]
    sections = [
        Section(run, evaluate(run, 0.99), pictures(seed, count)) for seed, run in enumerate(runs)
    ]
    made = tables([[one.evaluation] for one in sections])
    return page("benchmark", sections, made, {}, date(2000, 1, 1))


def measured(tab: Page, content: str, folder: Path) -> str:
    """Open a page from a file, and return its size and how it follows its slider, in words."""
    file = folder / "index.html"
    file.write_text(content, encoding="utf-8")
    tab.goto(file.as_uri())
    rows = tab.locator("#main tbody tr").count()
    devtools = tab.context.new_cdp_session(tab)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    tab.evaluate(MOVES)  # everything is decoded and compiled then
    before = _busy(devtools)
    times = sorted(tab.evaluate(MOVES))
    busy = 1000 * (_busy(devtools) - before) / len(times)
    return (
        f"{len(content.encode()) / 1e6:.2f} MB, {rows} rows; {len(times)} moves of the slider: "
        f"{busy:.1f} ms of processor time each; on the clock median "
        f"{statistics.median(times):.1f} ms, shortest {times[0]:.1f} ms, longest {times[-1]:.1f} ms"
    )


def _busy(devtools: CDPSession) -> float:
    """Return the seconds of processor time that the page's thread has worked."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def main() -> None:
    """Print sizes and times."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        for runs, images in ((3, 1000), (10, 10_000)):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            said = measured(tab, written(runs, images), Path(folder))
            print(f"{runs} runs × {images:,} images: {said}", flush=True)
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
