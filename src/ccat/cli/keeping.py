"""Commands that look after runs: list, show, prune."""

from argparse import Namespace
from pathlib import Path

from ccat.cli.arguments import Add, run_of
from ccat.fields import flatten
from ccat.recipes import label
from ccat.report import markdown
from ccat.store import Run, StoreError, find_runs


def add_commands(add: Add) -> None:
    """To the command line."""
    command = add("runs", _runs, "list the runs of a directory")
    command.add_argument("directory", type=Path, nargs="?", default=Path("runs"))
    command = add("show", _show, "tell what a run is and holds")
    command.add_argument("run")
    command = add("prune", _prune, "delete what a run no longer needs: checkpoints, unfinished files, results of other weights")
    command.add_argument("run")


def _runs(options: Namespace) -> None:
    rows = [_summary(path, options.directory) for path in find_runs(options.directory)]
    print(markdown(["run", "recipe", "state", "attempts"], rows) if rows else f"there are no runs in {options.directory}")


def _summary(path: Path, root: Path) -> list[str]:
    name = str(path.relative_to(root))
    try:
        run = Run.open(path)
        return [
            name,
            run.recipe.name,
            "trained" if run.trained else f"{len(run.log())} of {run.recipe.epochs} epochs",
            str(sum(1 for _ in run.attempts())),
        ]
    except StoreError as unreadable:
        return [name, "–", str(unreadable), "–"]


def _show(options: Namespace) -> None:
    run = run_of(options.run)
    print(markdown(["recipe", ""], [[name, value] for name, value in flatten(run.recipe).items()]))
    versions = ", ".join(f"{name} {number}" for name, number in run.about.get("versions", {}).items())
    print(f"\nmade with {versions} on {run.about.get('device')}")
    if log := run.log():
        names = ["epoch", "loss", "clean_error", "clean_confidence", "adversarial_error", "adversarial_confidence"]
        print("\n" + markdown(names, [[f"{entry[name]:.4g}" for name in names] for entry in log]))
    if attempts := list(run.attempts()):
        rows = [[label(a.case.threat), a.case.name, a.case.source, str(sum(len(b.value) for b in blocks))] for a, blocks in attempts]
        print("\n" + markdown(["threat", "case", "source", "examples"], sorted(rows)))
    use = run.disk_use()
    print(
        "\ndisk use: "
        + ", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in use.items())
        + f"; in all {sum(use.values()) / 1e6:.1f} MB"
    )


def _prune(options: Namespace) -> None:
    run = run_of(options.run)
    with run.writing():
        print(f"{run.prune() / 1e6:.1f} MB freed")
