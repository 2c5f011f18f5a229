"""A run that decides on small grey images, made without training: its labels are its own answers.

Every tenth label of the 1500 test images, of those that the model is least sure of, is wrong.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from truth import seeded

from ccat import RECIPES, Detection, Rejection, create_model
from ccat.data import UNVERIFIED
from ccat.rejection import fit, usual_layers
from ccat.runs import Run

CLASSES, SIDE = 3, 8
SHAPE = (1, SIDE, SIDE)


def network() -> nn.Module:
    """A network whose confidences reach from a third to 1."""
    net = create_model("lenet", seeded(1), channels=1, size=SIDE, classes=CLASSES).eval()
    with torch.no_grad():
        *_, last = [part for part in net.modules() if isinstance(part, nn.Linear)]
        last.weight.mul_(300)
        last.bias.copy_(-net(pixels(400).float() / 255).mean(0) + last.bias)
    return net


def pixels(count: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(0, 256, (count, *SHAPE), dtype=torch.uint8, generator=seeded(seed))


def labelled(count: int, seed: int, wrong: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels; of the less confident half every so-many-th label is wrong."""
    x = pixels(count, seed)
    with torch.no_grad():
        top = network()(x.float() / 255).softmax(1).max(1)
    unsure = top.values.argsort()[: count // 2 : wrong]
    y = top.indices.clone()
    y[unsure] = (y[unsure] + 1) % CLASSES
    return x, y


def make_run(path: Path, rejection: Rejection | None = None) -> Run:
    """Store such a run, and beside it its data."""
    (x, y), (a, b) = labelled(200, 3), labelled(1500, 4)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.parent / "data.npz"
    np.savez(
        data,
        train_images=x.numpy(),
        train_labels=y.numpy(),
        test_images=a.numpy(),
        test_labels=b.numpy(),
    )
    recipe = replace(RECIPES["mnist-ccat-demo"], dataset=f"{UNVERIFIED}{data}")
    run = Run.create(path, recipe, "cpu", rejection)
    run.training.save_model(network())
    if isinstance(rejection, Detection):
        run.answers.save_detector("Linf:0.3", detector(rejection), first=True)
    return run


def detector(rejection: Detection) -> dict[str, torch.Tensor]:
    net, x = network(), pixels(300).float() / 255
    layers = usual_layers(net, x[:1])
    y = net(x).argmax(1)
    return fit(rejection.name, net, layers, (x, y), x[:60], x[60:120] * 0.3, None).tensors()


def save_picture(image: torch.Tensor, path: Path) -> Path:
    """Write an image (1, H, W) of bytes as a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image[0].numpy()).save(path)
    return path
