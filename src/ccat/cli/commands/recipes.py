"""`ccat recipes`: list the recipes, or all fields of one."""

from argparse import Namespace

from ccat import codec
from ccat.catalog import RECIPES
from ccat.cli.values import entry
from ccat.overrides import flatten
from ccat.report import markdown


def run(options: Namespace) -> None:
    """Print the table."""
    if options.name is None:
        rows = [
            [
                one.name,
                one.dataset,
                one.model,
                codec.short_name(one.method),
                str(one.epochs),
                str(one.images or "all"),
            ]
            for one in RECIPES.values()
        ]
        print(markdown(["recipe", "dataset", "model", "method", "epochs", "images"], rows))
        return
    fields = flatten(entry(options.name, RECIPES, "recipe"))
    rows = [[f"--{name}", value] for name, value in fields.items() if name != "name"]
    print(markdown(["field", "value"], rows))
