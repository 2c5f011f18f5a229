"""`ccat prune`: move what a run no longer needs to its trash, and empty the trash."""

import shlex
from argparse import Namespace

from ccat.cli.values import run_named
from ccat.report import markdown
from ccat.runs import trash
from ccat.runs.find import TRASH


def run(options: Namespace) -> None:
    """Say what is not needed and why; with --yes, move it."""
    one = run_named(options.run)
    with one.writing():
        found = trash.prunable(one)
        sizes = {name: trash.size_of(one, name) for name in found}
        if options.yes:
            trash.discard(one, found)
        freed = trash.empty(one) if options.empty_trash else 0
    if found:
        rows = [[name, f"{sizes[name] / 1e6:.1f} MB", why] for name, why in found.items()]
        print(markdown(["file or folder", "size", "why"], rows))
    if options.empty_trash:
        print(f"{freed / 1e6:.1f} MB deleted from the trash of {one.path}")
    elif not found:
        print(f"{one.path} holds nothing that it does not need")
    elif options.yes:
        again = f"ccat prune {shlex.quote(str(one.path))} --empty-trash"
        print(f"\nmoved to {one.path}/{TRASH}; `{again}` deletes it")
    else:
        print("\nnothing was changed; --yes moves these to the trash of the run")
