"""`ccat export`: write the worst adversarial examples found."""

from argparse import Namespace

from ccat.cli.values import device_of, run_named, typed_condition
from ccat.pipeline.examples import export
from ccat.report import save_examples


def run(options: Namespace) -> None:
    """Write them."""
    one = run_named(options.run)
    arrays = export(one, typed_condition(options.threat), device_of(options))
    save_examples(options.out, arrays)
    print(f"{len(arrays['y'])} adversarial examples in {options.out}")
