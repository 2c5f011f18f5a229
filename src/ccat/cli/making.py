"""Commands that compute: train, attack, and adversarial examples in and out."""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from ccat.cli.arguments import (
    Add,
    add_device,
    add_engine,
    add_workers,
    channels,
    count,
    device_of,
    engine_of,
    named,
    overridden,
    run_of,
)
from ccat.cookbook import RECIPES
from ccat.data import DATASETS, UNVERIFIED, data_states, load_dataset
from ccat.data.corruptions import FAMILIES, generate
from ccat.detectors import KINDS
from ccat.engine import Local, cores
from ccat.fields import digest, flatten, to_plain
from ccat.models import MODELS
from ccat.progress import Reporter, duration
from ccat.recipes import Case, Detecting, Recipe, label, parse_threat
from ccat.report import markdown, write_examples
from ccat.stages import attack, begin, bring, corrupt, derive, export, foresee, help_train, joined, score, train
from ccat.stages.blocks import name_of
from ccat.stages.forecast import Forecast
from ccat.stages.shared import images_of
from ccat.store import Run
from ccat.suites import SUITES, image_shape, select


def add_commands(add: Add) -> None:
    """To the command line."""
    command = add("demo", _demo, "train three small models side by side, attack them, print the table")
    command.add_argument("--full", action="store_true", help="the long version: hours instead of minutes")
    command.add_argument("--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="where its runs go (default: runs/demo)")
    add_workers(command)

    command = add("recipes", _recipes, "list the recipes, or all fields of one")
    command.add_argument("name", nargs="?")
    command = add("suites", _suites, "list the suites of attacks, or the cases of one")
    command.add_argument("name", nargs="?")
    command = add("data", _data, "list the data sets, get and check one, or make a corrupted one")
    command.add_argument("what", choices=["list", "get", "make"], nargs="?", default="list")
    command.add_argument("name", nargs="?", help=f"of the data set to get, or the path of your own; to make: {' or '.join(FAMILIES)}")
    command.add_argument("--unverified", action="store_true", help="take data that cannot be verified")
    command.add_argument("--seed", type=int, default=0, help="of what is made (default: 0)")
    command.add_argument("--out", type=Path, metavar="DIR", help="where it is made (default: data/NAME-generated)")

    command = add("train", train_command, "train a model by a recipe, with any of its fields set: --epochs 3 --method.rho 6")
    command.epilog = "`ccat recipes RECIPE` lists the fields that can be set. The recipe comes first."
    command.add_argument("recipe")
    command.add_argument(
        "--run",
        "--out",  # torchrun takes --run for an option of its own
        type=Path,
        metavar="DIR",
        help="the run directory (default: runs/RECIPE, with a suffix if fields are set)",
    )
    command.add_argument("--tensorboard", action="store_true", help="write event files for TensorBoard, too")
    command.add_argument("--unverified", action="store_true", help="train on data that cannot be verified, which the run then records")
    command.add_argument(
        "--threads", type=count, default=1, help="more than one is faster on large models, but not bit-identical (default: 1)"
    )
    add_device(command)

    command = add("import", _import, "make a run of a model that was trained elsewhere")
    command.add_argument("run", type=Path, help="the run directory to make")
    _add_model(command, required=True)
    add_device(command)

    command = add("attack", attack_command, "attack a trained run, or a model of your own, and store the outcome")
    command.add_argument("run", nargs="?", help="of a model of your own the directory to make (default: runs/FACTORY)")
    _add_model(command, required=False)
    _add_suite(command)
    command.add_argument("--dry-run", action="store_true", help="time a few passes and say how long each case would take; attack nothing")

    command = add("detect", _detect, "make a run that rejects by a detector instead of by the confidence, and attack it")
    command.add_argument("run")
    command.add_argument("--detector", choices=KINDS, required=True)
    command.add_argument("--layers", default="", metavar="A,B", help="whose features it looks at (default: the last of each size)")
    command.add_argument("--known", type=count, default=2000, help="training images that its statistics are taken from (default: 2000)")
    command.add_argument("--pairs", type=count, default=1000, help="others, attacked, that its layers are weighed by (default: 1000)")
    command.add_argument("--out", type=Path, metavar="DIR", help="the run directory to make (default: RUN-DETECTOR)")
    _add_suite(command)

    command = add("corrupt", _corrupt, "measure a run on corrupted test images: MNIST-C, CIFAR-10-C, published or generated")
    command.add_argument("run")
    command.add_argument("--examples", type=count, help="the first so many test images (default: all that are counted)")
    command.add_argument("--seed", type=int, default=0, help="of generated corruptions (default: 0)")
    add_device(command)
    _add_examples(add)


def _add_examples(add: Add) -> None:
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
    add_device(command)


def _add_suite(command: ArgumentParser) -> None:
    command.add_argument("--suite", default="quick", help="which attacks (default: quick); `ccat suites` lists them")
    command.add_argument("--only", metavar="PATTERN", help="of these only the cases with such a name: 'square*'")
    command.add_argument("--threat", action="append", default=[], help="its attacks within this one, such as Linf:8/255; may be repeated")
    command.add_argument("--examples", type=int, default=200, help="how many test images, in hundreds (default: 200)")
    command.add_argument("--keep", choices=["worst", "none"], default="worst", help="which perturbations to keep (default: the worst ones)")
    command.add_argument("--batch", type=count, help="images that go through the model at once (default: what memory holds, at most 100)")
    add_engine(command)
    add_device(command)


def _add_model(command: ArgumentParser, required: bool) -> None:
    command.add_argument("--model", required=required, metavar="NAME", help=f"package.module:factory, or {', '.join(MODELS)}")
    command.add_argument("--weights", type=Path, metavar="FILE", help="its weights: safetensors, or a state_dict saved by torch")
    command.add_argument("--dataset", required=required, metavar="NAME", help="what it was trained on")
    command.add_argument("--unverified", action="store_true", help="take data that cannot be verified, which the run then records")
    command.add_argument("--mean", type=channels, metavar="A,B,C", help="what it subtracts from images in [0,1] first")
    command.add_argument("--std", type=channels, metavar="A,B,C", help="what it divides them by then")
    command.add_argument("--seen", metavar="THREAT", help="what it was trained against, which tables mark: Linf:8/255")


def _demo(options: Namespace) -> None:
    from ccat.demo import demo  # noqa: PLC0415 (matplotlib takes a second to import)

    print(demo(options.out, options.full, options.workers or cores()))


def _recipes(options: Namespace) -> None:
    if options.name is None:
        rows = [[r.name, r.dataset, r.model, type(r.method).__name__, str(r.epochs), str(r.images or "all")] for r in RECIPES.values()]
        print(markdown(["recipe", "dataset", "model", "method", "epochs", "images"], rows))
    else:
        rows = [[f"--{name}", value] for name, value in flatten(named(options.name, RECIPES, "recipe")).items() if name != "name"]
        print(markdown(["field", "value"], rows))


def _suites(options: Namespace) -> None:
    if options.name is None:
        rows = [[name, str(len(suite)), ", ".join(dict.fromkeys(label(case.threat) for case in suite))] for name, suite in SUITES.items()]
        print(markdown(["suite", "cases", "threats"], rows))
    else:
        cases = named(options.name, SUITES, "suite")
        costs = [case.attack.cost(image_shape(options.name)) for case in cases]
        totals = [(cost.forwards * case.restarts, cost.backwards * case.restarts) for case, cost in zip(cases, costs, strict=True)]
        rows = [
            [label(c.threat), c.name, c.source, str(c.restarts), *map(str, total), repr(c.attack)]
            for c, total in zip(cases, totals, strict=True)
        ]
        print(markdown(["threat", "case", "images", "restarts", "forwards", "backwards", "attack"], rows))
        print(f"\nper image {sum(f for f, _ in totals)} forwards and {sum(b for _, b in totals)} backwards in all")


def _data(options: Namespace) -> None:
    if options.what == "list":
        rows = [[name, state, how] for name, (state, how) in data_states().items()]
        print(markdown(["data set", "here", "how to get it"], rows))
        return
    if options.what == "make":
        dataset, _ = named(options.name or "", FAMILIES, "set of corruptions")
        out = options.out or Path("data") / f"{options.name}-generated"
        generate(load_dataset(dataset, "test"), options.name, out, options.seed, Reporter(options.name))
        print(f"{out}: {options.name} in the published layout, generated with seed {options.seed}")
        return
    if options.name is None:
        raise ValueError(f"which data set? {', '.join(DATASETS)}, or the path of your own with --unverified")
    name = UNVERIFIED * options.unverified + options.name
    for split in ("train", "test"):
        images = load_dataset(name, split)
        checked = "unverified" if options.unverified else "verified"
        classes = f"{int(images.y.max()) + 1} classes"
        print(f"{options.name} {split}: {len(images)} images of {'x'.join(map(str, images.x.shape[1:]))}, {classes}, {checked}")


def train_command(options: Namespace) -> None:
    """`ccat train`."""
    chosen: Recipe = named(options.recipe, RECIPES, "recipe")
    recipe = overridden(chosen, options.rest, options.unverified)
    default = chosen.name if recipe == chosen else f"{chosen.name}-{digest(to_plain(recipe))[:8]}"
    torch.set_num_threads(options.threads)
    with joined(device_of(options)) as (ranks, device):
        if not ranks.first:
            help_train(recipe, device, ranks)
            return
        try:
            run = begin(options.run or Path("runs") / default, recipe, device)
        except BaseException:
            ranks.told(True)  # the others have nothing to do
            raise
        there = run.trained
        train(run, device, Reporter(recipe.name), ranks, tensorboard=options.tensorboard)
    if there:
        print(f"{run.path} is trained already")
        return
    last = run.log()[-1]
    print(
        f"{run.path}: after {last['epoch']} epochs {100 * last['clean_error']:.1f} % of held-out training images are wrong, "
        f"{100 * last['adversarial_error']:.1f} % under a short attack (without rejection)"
    )


def _import(options: Namespace) -> None:
    run, error = _brought(options, options.run)
    print(f"{run.path}: {100 * error:.1f} % of the first test images are wrong; `ccat attack {shlex.quote(str(run.path))}` attacks it")


def _brought(options: Namespace, path: Path) -> tuple[Run, float]:
    if (options.mean is None) != (options.std is None):
        raise ValueError("--mean and --std belong together")
    if options.dataset is None:
        raise ValueError("on which images? --dataset names them")
    normalisation = None if options.mean is None else (options.mean, options.std)
    seen = parse_threat(options.seen) if options.seen else None
    dataset = UNVERIFIED * options.unverified + options.dataset
    return bring(path, options.model, options.weights, dataset, normalisation, seen, device_of(options))


def _detect(options: Namespace) -> None:
    base = run_of(options.run)
    whole = base.path.resolve()
    path = options.out or whole.with_name(f"{whole.name}-{options.detector}")
    detecting = Detecting(options.detector, options.layers, options.known, options.pairs)
    _cases(base, options, detector=True)  # a mistake in them is said before anything is made
    _attack(derive(base, path, detecting, device_of(options)), options)


def attack_command(options: Namespace) -> None:
    """`ccat attack`."""
    if options.model is not None:
        path = Path(options.run or Path("runs") / options.model.split(":")[-1])
        there = next((one for one in (path, Path("runs") / path) if (one / "run.json").exists()), None)
        if there is None or options.weights or options.dataset or options.mean or options.seen:
            run = _brought(options, there or path)[0]  # the same, if it is there already
        else:
            run = Run.open(there)
        if run.recipe.model != options.model:
            raise ValueError(f"{run.path} holds {run.recipe.model}, not {options.model}: name another run directory")
    elif given := [name for name in ("weights", "dataset", "mean", "std", "seen", "unverified") if getattr(options, name)]:
        raise ValueError(f"--{given[0]} belongs to a model of your own: name it with --model, or leave it out")
    elif options.run is None:
        raise ValueError("which run? Name one (`ccat runs` lists them), or a model of your own with --model package.module:factory")
    else:
        run = run_of(options.run)
    _attack(run, options)


def _attack(run: Run, options: Namespace) -> None:
    engine, device = engine_of(options)
    cases = _cases(run, options, detector=run.recipe.detector is not None)
    part = [("--only", options.only)] * bool(options.only) + [("--threat", threat) for threat in options.threat]
    suite = shlex.join([options.suite, *(word for pair in part for word in pair)])  # as it would be typed again
    if getattr(options, "dry_run", False):
        if not isinstance(engine, Local):
            raise ValueError("--dry-run times passes on this machine: leave --engine ray out")
        print(_forecast(*foresee(run, cases, options.examples, engine, device, options.keep, options.batch), engine.workers))
        return
    computed = attack(run, suite, cases, options.examples, engine, device, Reporter(run.path.name), options.keep, options.batch)
    print(f"{run.path}: {computed} blocks computed; `ccat evaluate {shlex.quote(str(run.path))}` shows the outcome")


def _forecast(cases: Sequence[Forecast], batch: int, workers: int) -> str:
    rows = [
        [f"{name_of(one.case)} {one.case.name}", str(one.blocks), f"{one.forwards:,}", f"{one.backwards:,}", duration(one.seconds)]
        for one in cases
    ]
    seconds = sum(one.seconds for one in cases)
    processes = min(workers, max(1, sum(one.blocks for one in cases)))
    return (
        markdown(["case", "blocks", "forwards", "backwards", "one process"], rows)
        + f"\n\nAll: {duration(seconds)} of one process, about {duration(seconds / processes)} on {processes}; less where examples can no "
        f"longer change. {batch} images at once. Nothing was attacked."
    )


def _cases(run: Run, options: Namespace, detector: bool) -> tuple[Case, ...]:
    named(options.suite, SUITES, "suite")
    shape = tuple(images_of(run.recipe.dataset, "test").x.shape[1:])
    return select(options.suite, shape, options.only, [parse_threat(threat) for threat in options.threat], detector)


def _corrupt(options: Namespace) -> None:
    run = run_of(options.run)
    name = corrupt(run, device_of(options), Reporter(run.path.name), options.examples, options.seed)
    print(f"{run.path}: {name} is stored; `ccat evaluate {shlex.quote(str(run.path))} --table corruptions` shows it")


def _export(options: Namespace) -> None:
    arrays = export(run_of(options.run), parse_threat(options.threat))
    write_examples(options.out, arrays)
    print(f"{len(arrays['y'])} adversarial examples in {options.out}")


def _score(options: Namespace) -> None:
    threat = parse_threat(options.threat)
    try:
        with options.file.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            x_adv = torch.from_numpy(file["x_adv"])
    except (KeyError, ValueError, IndexError, TypeError, AttributeError, EOFError, BadZipFile) as wrong:
        raise ValueError(f"{options.file} is not an .npz file with an array x_adv ({wrong})") from wrong
    score(run_of(options.run), x_adv, threat, options.name, device_of(options))
    print(f"{len(x_adv)} examples scored within {label(threat)}")
