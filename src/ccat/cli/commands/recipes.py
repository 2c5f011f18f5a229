"""`ccat recipes`: list the recipes, or all fields of one."""

from argparse import Namespace

from ccat import codec
from ccat.catalog import RECIPES
from ccat.cli.screen import print_rows
from ccat.cli.values import entry
from ccat.overrides import described


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
        print_rows(["recipe", "dataset", "model", "method", "epochs", "images"], rows)
        return
    fields = described(entry(options.name, RECIPES, "recipe"))
    rows = [[f"--{one.name}", one.value, one.meaning] for one in fields if one.name != "name"]
    print_rows(["field", "value", "meaning"], rows)
