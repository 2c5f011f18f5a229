"""`ccat zoo`: the models that come with ccat."""

from argparse import Namespace

from ccat import codec
from ccat.catalog.zoo import PREFIX, zoo, zoo_path
from ccat.overrides import flatten
from ccat.report import markdown
from ccat.report.zoo import measured
from ccat.runs import Run


def run(options: Namespace) -> None:
    """Print the list, or the card of one model."""
    words = options.words[1:] if options.words[:1] == ["show"] else options.words
    if len(words) > 1 or (options.words and not words):
        raise ValueError("`ccat zoo show NAME` takes one name: `ccat zoo` lists them")
    print(_card(words[0]) if words else _list())


def _list() -> str:
    rows = []
    for name, path in zoo().items():
        one = Run.open(path)
        method = codec.short_name(one.recipe.method)
        size = f"{one.training.size / 1e6:.2f} MB"
        rows.append([PREFIX + name, method, one.recipe.model, one.recipe.dataset, size])
    if not rows:
        return "no models come with this installation"
    text = markdown(["name", "method", "network", "data", "size"], rows)
    return f"{text}\n\n`ccat zoo show NAME` tells what was measured."


def _card(name: str) -> str:
    one = Run.open(zoo_path(name))
    fields = {
        "method": codec.short_name(one.recipe.method),
        **flatten(one.recipe),
        "SHA-256 of the weights": one.weights,
        "licence": "Apache-2.0",
    }
    parts = [
        f"# {PREFIX}{zoo_path(name).name}",
        markdown(["recipe", ""], [[key, str(value)] for key, value in fields.items()]),
    ]
    if (stored := one.classifier.read()) is not None:
        rows = [
            [f"{one.level:g}", f"{one.tau:.6g}", *map(str, (one.images, one.rejected, one.wrong))]
            for one in stored.others
        ]
        head = ["TPR", "τ", "calibration images", "rejected", "accepted and wrong"]
        parts.append(markdown(head, rows))
    if (evaluation := one.evaluation()) is not None:
        parts.append(measured(evaluation))
    return "\n\n".join(parts)
