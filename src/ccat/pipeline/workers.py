"""What workers that attack a run need: the run, its images, and the model as a target."""

import atexit
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ccat import extensions
from ccat.attacking import BLOCK, Rest, Target, blocks_in
from ccat.attacking.copies import EAGER, Copies, Fast
from ccat.data import Images, counted, split_of
from ccat.engine import Engine
from ccat.pipeline.answers import judges_of, model_of
from ccat.runs import Files, Run

POOL, POOL_BYTES = 10_000, 400_000_000


class Common(NamedTuple):
    """What all units share.

    `run` is where the run is or, for workers on other machines, its files; these workers also get
    the images that are attacked and the pool of images that attacks may start from.
    """

    run: Path | Files
    weights: str
    device: str
    batch: int
    trusted: frozenset[str]
    enough: Mapping[str, float]
    tau: float | None
    fast: Fast = EAGER
    images: Images | None = None
    pool: Images | None = None


def common_of(
    run: Run,
    examples: int,
    engine: Engine,
    device: str,
    batch: int = BLOCK,
    rest: Rest | None = None,
    fast: Fast = EAGER,
) -> Common:
    """Return what workers of an engine need; those on other machines get files and images."""
    rest = rest or Rest()
    known = (run.weights, device, batch, extensions.trusted())
    about = (*known, dict(rest.enough), rest.tau, fast)
    if not engine.away:
        return Common(run.path, *about)
    images = counted(run.recipe.dataset)[: blocks_in(examples) * BLOCK]
    return Common(run.packed(), *about, images, _pool(run.recipe.dataset))


def run_of(common: Common) -> tuple[Run, Images]:
    """Return the run in a worker process, and the images that are attacked."""
    extensions.trust(*common.trusted)
    run = Run.open(common.run) if isinstance(common.run, Path) else _unpacked(common.run)
    return run, common.images or counted(run.recipe.dataset)


def target_of(run: Run, common: Common) -> Target:
    """Return the run's model and what rejects, with the pool that attacks may start from."""
    pool = common.pool or _pool(run.recipe.dataset)
    target = target_with(run, common.device, pool, common.batch, common.enough, common.tau)
    return replace(target, copied=copies_of(run, common.device, common.batch, common.fast))


def target_with(
    run: Run,
    device: str,
    pool: Images | None,
    batch: int,
    enough: Mapping[str, float] | None = None,
    tau: float | None = None,
) -> Target:
    """Return the run's model and what rejects, with a pool of these images."""
    model = model_of(run.path, run.weights, device)
    x, y = (pool.floats().to(device), pool.y.to(device)) if pool else (None, None)
    judges = judges_of(run, device)
    return Target(model, run.rejection, judges, x, batch, enough or {}, y, tau)


def copies_of(run: Run, device: str, batch: int, fast: Fast) -> Copies:
    """Return what makes the copies of a run's model; a compiled one is made once per process."""
    return _copies(run.path, run.weights, device, batch, fast)


@lru_cache(maxsize=1)
def _copies(path: Path, weights: str, device: str, batch: int, fast: Fast) -> Copies:
    return Copies(fast, batch)


@lru_cache(maxsize=1)
def _unpacked(files: Files) -> Run:
    """A run from another machine, for as long as the process lives."""
    place = TemporaryDirectory(prefix="ccat-")
    atexit.register(place.cleanup)
    return Run.unpacked(files, Path(place.name))


def _pool(dataset: str) -> Images:
    """The first training images, as many as fit: attacks may start from them."""
    images = split_of(dataset, "train")
    return images[: min(POOL, POOL_BYTES // (4 * images.x[0].numel()))]
