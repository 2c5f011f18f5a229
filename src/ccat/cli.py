"""The command line: commands over the same recipes, suites and stages that Python code uses."""

import difflib
import math
import os
import shlex
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
import torch

from ccat import engine
from ccat.checks import require_count
from ccat.data import DATASETS, DataUnavailableError
from ccat.demo import demo
from ccat.fields import digest, flatten, override, parse, to_plain
from ccat.models import ModelFileError
from ccat.progress import Reporter
from ccat.recipes import RECIPES, Recipe, label, parse_threat
from ccat.report import main_table, markdown, write_examples
from ccat.stages import StageError, attack, begin, evaluate, export, score, train
from ccat.stages.shared import images_of
from ccat.store import Run, StoreError, find_runs
from ccat.suites import SUITES, image_shape, select

HELP = """\
Train image classifiers that may say “I don't know”, attack them, and measure what gets through.

  ccat demo                                   three small models, attacked: the paper's claim put to the test in minutes

  ccat recipes                                what can be trained
  ccat train mnist-ccat-small                 into runs/mnist-ccat-small; after a stop the same command goes on
  ccat train mnist-ccat-small --epochs 3 --method.rho 6 --method.threat.epsilon 8/255
                                              any field of a recipe can be set
  ccat attack mnist-ccat-small --suite quick  what is stored already is not computed again
  ccat evaluate mnist-ccat-small mnist-at-small
                                              one table over several runs
  ccat export mnist-ccat-small --threat Linf:0.4 --out worst.npz
"""
USER_ERRORS = (StoreError, StageError, DataUnavailableError, ModelFileError, engine.WorkerError, ValueError, OSError)
Named = TypeVar("Named")
Command = Callable[[Namespace], None]


def main(arguments: Sequence[str] | None = None) -> None:
    """The `ccat` command. A user's mistake ends with a sentence on stderr and exit code 2, an interrupt with how to go on and 130."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if "function" not in options:
        parser.print_help()
        return
    if rest and options.function is not _train:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    torch.set_num_threads(1)  # only then are results bit-identical; `train --threads` may ask for more
    warnings.showwarning = lambda message, *_, **__: print(f"ccat: warning: {message}", file=sys.stderr)
    try:
        options.function(options)
    except KeyboardInterrupt:
        print(f"\nStopped. What was finished is stored; this goes on from there:\n  ccat {shlex.join(arguments)}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `ccat recipes | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except USER_ERRORS as mistake:
        print(f"ccat: {mistake}", file=sys.stderr)
        sys.exit(2)


def _parser() -> ArgumentParser:
    parser = ArgumentParser("ccat", description=HELP, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"ccat {version('ccat-torch')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, function: Command, text: str) -> ArgumentParser:
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        command.set_defaults(function=function)
        return command

    command = add("demo", _demo, "train three small models side by side, attack them, print the table")
    command.add_argument("--full", action="store_true", help="the long version: hours instead of minutes")
    command.add_argument("--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="where its runs go (default: runs/demo)")
    _add_workers(command)

    command = add("recipes", _recipes, "list the recipes, or all fields of one")
    command.add_argument("name", nargs="?")
    command = add("suites", _suites, "list the suites of attacks, or the cases of one")
    command.add_argument("name", nargs="?")
    command = add("data", _data, "fetch and check the data sets")
    command.add_argument("name", nargs="?", default="mnist")

    command = add("train", _train, "train a model by a recipe, with any of its fields set: --epochs 3 --method.rho 6")
    command.epilog = "`ccat recipes RECIPE` lists the fields that can be set. The recipe comes first."
    command.add_argument("recipe")
    command.add_argument(
        "--run", type=Path, metavar="DIR", help="the run directory (default: runs/RECIPE, with a suffix if fields are set)"
    )
    command.add_argument(
        "--threads", type=_count, default=1, help="more than one is faster on large models, but not bit-identical (default: 1)"
    )
    _add_device(command)

    command = add("attack", _attack, "attack a trained run and store the outcome")
    command.add_argument("run")
    command.add_argument("--suite", default="quick", help="which attacks (default: quick); `ccat suites` lists them")
    command.add_argument("--only", metavar="PATTERN", help="of these only the cases with such a name: 'square*'")
    command.add_argument("--threat", help="of these only the cases of one threat: Linf:0.3")
    command.add_argument("--examples", type=int, default=200, help="how many test images, in hundreds (default: 200)")
    command.add_argument("--keep", choices=["worst", "none"], default="worst", help="which perturbations to keep (default: the worst ones)")
    _add_workers(command)
    _add_device(command)

    command = add("evaluate", _evaluate, "tabulate errors of runs, clean and under attack, with rejection")
    command.add_argument("runs", nargs="+", metavar="RUN")
    threshold = command.add_mutually_exclusive_group()
    threshold.add_argument("--tpr", type=_number, default=0.99, help="share of correct held-out images to accept (default: 0.99)")
    threshold.add_argument("--tau", type=_number, help="the threshold itself instead; none rejects nothing")
    _add_device(command)

    _add_housekeeping(add)
    return parser


def _add_housekeeping(add: Callable[[str, Command, str], ArgumentParser]) -> None:
    command = add("export", _export, "write the worst adversarial examples found")
    command.add_argument("run")
    command.add_argument("--threat", required=True, help="such as Linf:0.4")
    command.add_argument(
        "--out", type=Path, required=True, help="a file .npz, which is exact, or a folder for PNG images, rounded to 8 bits"
    )
    command = add("score", _score, "score adversarial examples computed elsewhere as one more attempt")
    command.add_argument("run")
    command.add_argument("file", type=Path, help="an .npz with the array x_adv: examples of the first test images, in hundreds")
    command.add_argument("--threat", required=True, help="what they are allowed, such as Linf:0.4")
    command.add_argument("--name", required=True, help="what the attempt is called")
    _add_device(command)

    command = add("runs", _runs, "list the runs of a directory")
    command.add_argument("directory", type=Path, nargs="?", default=Path("runs"))
    command = add("show", _show, "tell what a run is and holds")
    command.add_argument("run")
    command = add("prune", _prune, "delete what a run no longer needs: checkpoints, unfinished files, results of other weights")
    command.add_argument("run")


def _add_device(command: ArgumentParser) -> None:
    command.add_argument("--device", choices=["cpu", "cuda", "mps"], help="(default: cuda or mps where there is one)")


def _add_workers(command: ArgumentParser) -> None:
    command.add_argument("--workers", type=_count, help="processes to compute with (default: one per core; one on a GPU)")


def _demo(options: Namespace) -> None:
    print(demo(options.out, options.full, options.workers or engine.cores()))


def _recipes(options: Namespace) -> None:
    if options.name is None:
        rows = [[r.name, r.dataset, r.model, type(r.method).__name__, str(r.epochs), str(r.images or "all")] for r in RECIPES.values()]
        print(markdown(["recipe", "dataset", "model", "method", "epochs", "images"], rows))
    else:
        rows = [[f"--{name}", value] for name, value in flatten(_named(options.name, RECIPES, "recipe")).items() if name != "name"]
        print(markdown(["field", "value"], rows))


def _suites(options: Namespace) -> None:
    if options.name is None:
        rows = [[name, str(len(suite)), ", ".join(dict.fromkeys(label(case.threat) for case in suite))] for name, suite in SUITES.items()]
        print(markdown(["suite", "cases", "threats"], rows))
    else:
        cases = _named(options.name, SUITES, "suite")
        costs = [case.attack.cost(image_shape(options.name)) for case in cases]
        totals = [(cost.forwards * case.restarts, cost.backwards * case.restarts) for case, cost in zip(cases, costs, strict=True)]
        rows = [
            [label(c.threat), c.name, c.source, str(c.restarts), *map(str, total), repr(c.attack)]
            for c, total in zip(cases, totals, strict=True)
        ]
        print(markdown(["threat", "case", "images", "restarts", "forwards", "backwards", "attack"], rows))
        print(f"\nper image {sum(f for f, _ in totals)} forwards and {sum(b for _, b in totals)} backwards in all")


def _data(options: Namespace) -> None:
    load = _named(options.name, DATASETS, "dataset")
    for split in ("train", "test"):
        images = load("train" if split == "train" else "test")
        print(f"{options.name} {split}: {len(images)} images of {'x'.join(map(str, images.x.shape[1:]))}, verified")


def _train(options: Namespace) -> None:
    named: Recipe = _named(options.recipe, RECIPES, "recipe")
    recipe = _overridden(named, options.rest)
    default = named.name if recipe == named else f"{named.name}-{digest(to_plain(recipe))[:8]}"
    device = _device(options)
    torch.set_num_threads(options.threads)
    run = begin(options.run or Path("runs") / default, recipe, device)
    if run.trained:
        print(f"{run.path} is trained already")
        return
    train(run, device, Reporter(recipe.name))
    last = run.log()[-1]
    print(
        f"{run.path}: after {last['epoch']} epochs {100 * last['clean_error']:.1f} % of held-out training images are wrong, "
        f"{100 * last['adversarial_error']:.1f} % under a short attack (without rejection)"
    )


def _attack(options: Namespace) -> None:
    run, device = _run(options.run), _device(options)
    _named(options.suite, SUITES, "suite")
    shape = tuple(images_of(run.recipe.dataset, "test").x.shape[1:])
    suite = select(options.suite, shape, options.only, parse_threat(options.threat) if options.threat else None)
    workers = options.workers or (engine.cores() if device == "cpu" else 1)
    computed = attack(run, options.suite, suite, options.examples, workers, device, Reporter(run.path.name), options.keep)
    print(f"{run.path}: {computed} blocks computed; `ccat evaluate {shlex.quote(str(run.path))}` shows the outcome")


def _evaluate(options: Namespace) -> None:
    found = [evaluate(_run(name), options.tpr, options.tau, _device(options)) for name in options.runs]
    if len({one.dataset for one in found}) > 1:
        raise ValueError("runs of different data sets do not fit into one table: " + ", ".join(f"{e.run} is {e.dataset}" for e in found))
    print(main_table(found, None if options.tau is not None else options.tpr))


def _export(options: Namespace) -> None:
    arrays = export(_run(options.run), parse_threat(options.threat))
    write_examples(options.out, arrays)
    print(f"{len(arrays['y'])} adversarial examples in {options.out}")


def _score(options: Namespace) -> None:
    threat = parse_threat(options.threat)
    try:
        with options.file.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            x_adv = torch.from_numpy(file["x_adv"])
    except (KeyError, ValueError, IndexError, TypeError, AttributeError, EOFError, BadZipFile) as wrong:
        raise ValueError(f"{options.file} is not an .npz file with an array x_adv ({wrong})") from wrong
    size = score(_run(options.run), x_adv, threat, options.name, _device(options))
    outside = f"; the largest was {size:g} and was projected" if size > threat.epsilon * (1 + 1e-5) else ""
    print(f"{len(x_adv)} examples scored within {label(threat)}{outside}")


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
            str(len(run.attempts())),
        ]
    except StoreError as unreadable:
        return [name, "–", str(unreadable), "–"]


def _show(options: Namespace) -> None:
    run = _run(options.run)
    print(markdown(["recipe", ""], [[name, value] for name, value in flatten(run.recipe).items()]))
    versions = ", ".join(f"{name} {number}" for name, number in run.about.get("versions", {}).items())
    print(f"\nmade with {versions} on {run.about.get('device')}")
    if log := run.log():
        names = ["epoch", "loss", "clean_error", "clean_confidence", "adversarial_error", "adversarial_confidence"]
        print("\n" + markdown(names, [[f"{entry[name]:.4g}" for name in names] for entry in log]))
    if attempts := run.attempts():
        rows = [
            [label(a.case.threat), a.case.name, a.case.source, str(sum(len(b.value) for b in blocks))] for a, blocks in attempts.items()
        ]
        print("\n" + markdown(["threat", "case", "source", "examples"], sorted(rows)))
    use = run.disk_use()
    print(
        "\ndisk use: "
        + ", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in use.items())
        + f"; in all {sum(use.values()) / 1e6:.1f} MB"
    )


def _prune(options: Namespace) -> None:
    run = _run(options.run)
    with run.writing():
        print(f"{run.prune() / 1e6:.1f} MB freed")


def _run(name: str) -> Run:
    """A run by its path, or by its name in runs/."""
    for path in (Path(name), Path("runs") / name):
        if (path / "run.json").exists():
            return Run.open(path)
    near = difflib.get_close_matches(name, [str(path.relative_to("runs")) for path in find_runs(Path("runs"))])
    raise StoreError(
        f"there is no run {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else "; `ccat runs` lists those there are")
    )


def _named(name: str, table: Mapping[str, Named], what: str) -> Named:
    if name not in table:
        near = difflib.get_close_matches(name, table, cutoff=0.4) or list(table)
        raise ValueError(f"there is no {what} {name!r}; did you mean {' or '.join(near)}?")
    return table[name]


def _overridden(recipe: Recipe, arguments: Sequence[str]) -> Recipe:
    """The recipe with `--field value` or `--field=value` set."""
    words = iter([part for argument in arguments for part in (argument.split("=", 1) if argument.startswith("--") else [argument])])
    changes = {}
    for word in words:
        if not word.startswith("--"):
            raise ValueError(f"{word!r} is not an option; fields are set as --epochs 3")
        value = next(words, None)
        if value is None or value.startswith("--"):
            raise ValueError(f"{word} needs a value")
        changes[word.removeprefix("--").replace("-", "_")] = value
    if "name" in changes:
        raise ValueError("a recipe keeps its name; --run chooses the directory")
    return override(recipe, changes)


def _device(options: Namespace) -> str:
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if options.device is None:
        return next(name for name, available in there.items() if available)
    if not there[options.device]:
        raise ValueError(f"there is no device {options.device!r} on this machine; there is {', '.join(n for n, a in there.items() if a)}")
    return str(options.device)


def _count(text: str) -> int:
    """For argparse: a whole number of at least 1."""
    try:
        require_count("it", int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}") from None
    return int(text)


def _number(text: str) -> float:
    """For argparse: 0.99, 99/100, or none for −∞."""
    try:
        return -math.inf if text.lower() == "none" else float(parse(text, float, "the value"))
    except ValueError as wrong:
        raise ArgumentTypeError(str(wrong)) from wrong
