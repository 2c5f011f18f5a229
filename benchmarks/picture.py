"""Draw the README's picture: a digit, the digit attacked, an attack rejected, and one accepted.

    python benchmarks/picture.py [--image 9]

Both models come with ccat. Each is attacked on its own within L∞ 0.3, first with the paper's
attack, PGD from the image that maximises the confidence in a wrong class; the second is then
attacked by `Beam` as well, which starts near other images.
"""

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure

import ccat

OUT = Path(__file__).parents[1] / "docs" / "rejected.png"
INK, WARN, CALM = "#1f2430", "#b3261e", "#1a6e50"


def main() -> None:
    """Attack one test image on two models and draw what they answer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--image", type=int, default=9, help="which test image")
    index = parser.parse_args().image
    images = ccat.load_mnist("test")
    x, y = images[index : index + 1].floats(), images[index : index + 1].y
    normal, calibrated = (ccat.load(f"zoo:mnist-{name}") for name in ("normal-small", "ccat-union"))
    pool = ccat.load_mnist("train")[:10_000]
    about = (ccat.Linf(0.3), ccat.other_class_confidence, pool.floats(), None, pool.y)
    weak, strong = ccat.PGD(200, 0.01), ccat.Beam()
    panels = [(x, "a digit", *answer(normal, x, y))]
    for clf, attack, title in (
        (normal, weak, "attacked"),
        (calibrated, weak, "CCAT, the paper's attack"),
        (calibrated, strong, "CCAT, our attack"),
    ):
        problem = ccat.Problem.of(clf.model, x, y, *about)
        moved = problem.images(attack(problem, torch.Generator().manual_seed(0)))
        panels.append((moved, title, *answer(clf, moved, y)))
    figure = Figure(figsize=(9.4, 2.75), facecolor="white")
    for axes, (image, title, text, colour) in zip(figure.subplots(1, 4), panels, strict=True):
        axes.imshow(image[0, 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=10, color=INK)
        axes.set_xlabel(text, fontsize=12, color=colour, fontweight="bold")
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_visible(False)
    figure.tight_layout()
    figure.savefig(OUT, dpi=150)
    print(OUT, [text for *_, text, _ in panels])


def answer(clf: ccat.Rejecting, x: torch.Tensor, y: torch.Tensor) -> tuple[str, str]:
    """Return what a classifier says of an image, and a colour for it."""
    with torch.no_grad():
        labels, confidence, accepted = clf(x)
    share = f"{100 * float(confidence):.0f} %"
    if not accepted:
        return f"rejected ({share} sure)", CALM
    return f"“{int(labels)}”, {share} sure", INK if int(labels) == int(y) else WARN


if __name__ == "__main__":
    main()
