"""`ccat suites`: list the suites of attacks, or the cases of one."""

from argparse import Namespace

from ccat.catalog import SUITES
from ccat.cli.values import entry
from ccat.report import markdown
from ccat.threats import label


def run(options: Namespace) -> None:
    """Print the table."""
    if options.name is None:
        rows = []
        for name, suite in SUITES.items():
            threats = dict.fromkeys(label(case.threat) for case in suite.cases)
            rows.append([name, str(len(suite.cases)), ", ".join(threats)])
        print(markdown(["suite", "cases", "threats"], rows))
        return
    suite = entry(options.name, SUITES, "suite")
    channels, height, width = suite.shape
    rows, forwards, backwards = [], 0, 0
    for case in suite.cases:
        cost = case.attack.cost((channels, height, width))
        total = (cost.forwards * case.restarts, cost.backwards * case.restarts)
        forwards, backwards = forwards + total[0], backwards + total[1]
        about = [label(case.threat), case.name, case.source, str(case.restarts)]
        rows.append([*about, *map(str, total), repr(case.attack)])
    head = ["threat", "case", "images", "restarts", "forwards", "backwards", "attack"]
    print(markdown(head, rows))
    print(f"\nper image {forwards} forwards and {backwards} backwards in all")
