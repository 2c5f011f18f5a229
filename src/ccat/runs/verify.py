"""Read every file of a run, and say which of them are damaged, foreign or in the wrong place."""

from collections.abc import Callable, Iterator

from ccat.files import UNFINISHED
from ccat.runs.directory import Run
from ccat.runs.find import TRASH
from ccat.runs.folder import RunError

_KNOWN = (
    "run.json",
    "evaluation.json",
    "card.md",
    "card.html",
    "lock",
    "lock.pid",
    "timings.jsonl",
)


def problems(run: Run) -> Iterator[str]:
    """Yield what is wrong with the files of a run, one sentence for each.

    Every sealed file is read and its digest compared; files that no run holds are named too.
    """
    found: list[str] = []

    def tried(check: Callable[[], object]) -> bool:
        try:
            check()
        except RunError as wrong:
            found.append(str(wrong))
            return False
        return True

    tried(run.training.log)
    if run.training.trained and tried(lambda: run.training.weights):
        tried(run.planted.read)
        tried(run.classifier.read)
    tried(run.training.checkpoint)
    tried(run.plan.asked)
    tried(lambda: list(run.attempts.all()))
    for name in run.folder.names("**/*"):
        file = run.path / name
        if TRASH in file.relative_to(run.path).parts or (file.is_dir() and not file.is_symlink()):
            continue
        if name.endswith(".safetensors") and name != "model.safetensors":
            tried(lambda name=name: run.folder.tensors(name, "delete it"))  # type: ignore[misc]
        elif name.endswith(".json") and name not in _KNOWN:
            tried(lambda name=name: run.folder.json(name, "delete it"))  # type: ignore[misc]
        elif name not in (*_KNOWN, "log.jsonl", "model.safetensors") and "tensorboard/" not in name:
            found.append(f"{file} is no file of a run: move it elsewhere")
    found += [
        f"{file} is unfinished, left by a process that was killed: `ccat prune` removes it"
        for file in sorted(run.path.rglob(f".*{UNFINISHED}"))
    ]
    yield from dict.fromkeys(found)
