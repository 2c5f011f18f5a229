"""`ccat benchmark`: attack a model, bound it from above, and write a card that can be verified."""

from argparse import Namespace

from ccat.cli.commands.attack import as_typed, chosen_cases
from ccat.cli.commands.import_model import imported
from ccat.cli.options.benchmark import EXAMPLES
from ccat.cli.values import engine_of, run_named
from ccat.data import counted
from ccat.models import is_model_name
from ccat.pipeline.benchmark import benchmark
from ccat.progress import ProgressBar
from ccat.runs import Run, RunError, is_run


def run(options: Namespace) -> None:
    """Attack, certify, and write the card; what is stored already is not computed again."""
    one = _run(options)
    engine, device = engine_of(options)
    options.suite = options.suite or (None if options.attack else "standard")
    cases = chosen_cases(one, options, one.rejection)
    there = len(counted(one.recipe.dataset))
    examples = min(EXAMPLES, there) if options.examples is None else options.examples
    bar = ProgressBar(one.path.name)
    card = benchmark(
        one,
        as_typed(options),
        cases,
        examples,
        engine,
        device,
        bar,
        None if options.complete else options.rest_at_tpr,
        attack_certified=options.attack_certified,
    )
    print(card.read_text(encoding="utf-8"))
    print(f"The card is {card}; `ccat verify {one.path}` computes it again.")


def _run(options: Namespace) -> Run:
    """Return the run that holds the card: the one named, a copy of it, or an imported model."""
    described = [name for name in ("weights", "dataset", "mean", "std") if getattr(options, name)]
    try:
        source = run_named(options.model)
    except RunError:
        if not is_model_name(options.model):
            raise
        if options.out is None:
            raise ValueError("where to? --out names the folder of the card") from None
        return imported(options, options.out)[0]
    if described:
        raise ValueError(f"--{described[0]} belongs to a model from elsewhere, not to a run")
    if options.out is None or options.out.resolve() == source.path.resolve():
        return source
    if is_run(options.out):
        there = Run.open(options.out)
        if there.weights != source.weights:
            raise ValueError(f"{options.out} holds another model: choose another --out")
        return there
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise ValueError(f"{options.out} is not empty and not a card: choose another --out")
    return Run.unpacked(source.packed(), options.out)
