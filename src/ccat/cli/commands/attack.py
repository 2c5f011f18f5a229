"""`ccat attack`: attack a trained run, or a model of your own, and store the outcome."""

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ccat import extensions
from ccat.attacking import Case
from ccat.attacking.forecast import Forecast
from ccat.attacking.rest import TPR as REST_TPR
from ccat.attacks.external import as_attack
from ccat.catalog.suites import SUITES, cases_of, conditions_of, select
from ccat.cli.commands.import_model import imported
from ccat.cli.values import engine_of, entry, run_named, typed_condition
from ccat.data import counted
from ccat.engine import Local
from ccat.overrides import typed_instance
from ccat.pipeline.answers import split_shape
from ccat.pipeline.attack import attack, dry_run
from ccat.pipeline.check import check_small
from ccat.progress import ProgressBar, duration
from ccat.rejection import Rejection
from ccat.report import markdown
from ccat.runs import Run, is_run

EXAMPLES = 200  # test images that are attacked by default


def run(options: Namespace) -> None:
    """Attack; what is stored already is not computed again."""
    attack_run(_run(options), options, forecast=options.dry_run)


def attack_run(run: Run, options: Namespace, *, forecast: bool = False) -> None:
    """Attack a run with what the options of `add_suite` choose, or forecast the cost."""
    engine, device = engine_of(options)
    there = len(counted(run.recipe.dataset))
    examples = min(EXAMPLES, there) if options.examples is None else options.examples
    cases = chosen_cases(run, options, run.rejection)
    rest_tpr = None if options.complete else options.rest_at_tpr
    if forecast:
        if not isinstance(engine, Local):
            raise ValueError("--dry-run times passes on this machine: leave --engine ray out")
        limits = (options.keep, options.batch, rest_tpr)
        costs, batch = dry_run(
            run,
            cases,
            examples,
            engine,
            device,
            *limits,
            attack_certified=options.attack_certified,
        )
        print(_forecast(costs, batch, engine.workers))
        return
    computed = attack(
        run,
        as_typed(options),
        cases,
        examples,
        engine,
        device,
        ProgressBar(run.path.name),
        options.keep,
        options.batch,
        rest_tpr,
        options.compile,
        options.gradients,
        attack_certified=options.attack_certified,
    )
    if not options.no_check:
        check_small(run, as_typed(options), cases, examples, engine, device)
    command = f"ccat evaluate {shlex.quote(str(run.path))}"
    print(f"{run.path}: {computed} blocks computed; `{command}` shows the outcome")


def chosen_cases(run: Run, options: Namespace, rejection: Rejection) -> tuple[Case, ...]:
    """Return the cases that the options of `add_suite` choose for a run."""
    shape = split_shape(run)
    conditions = [typed_condition(text) for text in options.threat]
    own = [as_attack(typed_instance(name)) for name in options.attack]
    cases: tuple[Case, ...] = ()
    if options.suite or not own:
        suite = options.suite or "quick"
        entry(suite, SUITES, "suite")
        cases = select(suite, shape, options.only, conditions, rejection)
    if own and not conditions:
        conditions = conditions_of(cases or select("quick", shape))
    return (*cases, *cases_of(own, conditions))


def _run(options: Namespace) -> Run:
    about = ("weights", "dataset", "mean", "std", "seen", "unverified")
    given = [name for name in about if getattr(options, name)]
    if options.model is None:
        if given:
            raise ValueError(f"--{given[0]} belongs to a model of your own: name it with --model")
        if options.run is None:
            raise ValueError(
                "which run? Name one (`ccat runs` lists them), or a model of your own with "
                "--model package.module:factory"
            )
        return run_named(options.run)
    path = Path(options.run or Path("runs") / options.model.split(":")[-1])
    there = next((one for one in (path, Path("runs") / path) if is_run(one)), None)
    if there is None or given:
        made = imported(options, there or path)[0]
    else:
        if extensions.is_name(options.model):
            extensions.load_typed(options.model)
        made = Run.open(there)
    if made.recipe.model != options.model:
        raise ValueError(
            f"{made.path} holds {made.recipe.model}, not {options.model}: name another run "
            f"directory"
        )
    return made


def as_typed(options: Namespace) -> str:
    """Return the options that choose the cases, as they would be typed again."""
    words = ["--suite", options.suite or "quick"] * bool(options.suite or not options.attack)
    words += ["--only", options.only] * bool(options.only)
    for name, values in (("--attack", options.attack), ("--threat", options.threat)):
        words += [word for value in values for word in (name, value)]
    if options.rest_at_tpr != REST_TPR and not options.complete:
        words += ["--rest-at-tpr", f"{options.rest_at_tpr!r}"]
    if options.attack_certified and not options.complete:
        words.append("--attack-certified")
    return shlex.join([*words, *["--complete"] * options.complete])


def _forecast(cases: Sequence[Forecast], batch: int, workers: int) -> str:
    rows = [
        [
            f"{one.case.condition.title} {one.case.name}",
            str(one.blocks),
            f"{one.forwards:,}",
            f"{one.backwards:,}",
            duration(one.seconds),
        ]
        for one in cases
    ]
    seconds = sum(one.seconds for one in cases)
    processes = min(workers, max(1, sum(one.blocks for one in cases)))
    return (
        markdown(["case", "blocks", "forwards", "backwards", "one process"], rows)
        + f"\n\nAll: {duration(seconds)} on one process, about {duration(seconds / processes)} on "
        f"{processes}; less where images rest or retire. {batch} images at once. Nothing was "
        f"attacked."
    )
