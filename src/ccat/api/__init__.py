"""Any model in three lines: attacked and judged in memory, in this process.

    result = ccat.evaluate(model, images, labels, threats=[ccat.Linf(8 / 255), ccat.L2(0.5)])
    print(result.table())

    x_adv = ccat.attack(model, images, labels, ccat.Linf(8 / 255))

    print(ccat.check(model, images, threats=ccat.Linf(8 / 255)))  # would attacks find errors?

    clf = ccat.load("zoo:mnist-ccat-union")  # a classifier that may abstain
    labels, confidence, accepted = clf(images)

    result.save("out"), result.table(format="tex"), result.to_dict(), result.plot()
    ccat.write_report([result, other], "report"); print(ccat.compare(result, other))

What takes hours belongs into a run directory, where it survives a kill: `ccat attack --model
package.module:factory --weights FILE`.
"""

from ccat.api.attack_model import attack
from ccat.api.check_model import Checked, check
from ccat.api.evaluate_model import evaluate
from ccat.api.evaluate_stored import evaluate_stored
from ccat.api.load import load
from ccat.api.result import Comparison, Result, compare, write_report

__all__ = [
    "Checked",
    "Comparison",
    "Result",
    "attack",
    "check",
    "compare",
    "evaluate",
    "evaluate_stored",
    "load",
    "write_report",
]
