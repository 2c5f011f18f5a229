"""What the models that come with ccat do with pictures that nobody attacked.

    CCAT_DATA=… python benchmarks/in_use.py

The first 1000 test images as they are, resampled (to 56×56 and back), inverted, and uniform noise;
each model decides with its own threshold for 99 % TPR.
"""

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import ccat
from ccat.catalog.zoo import PREFIX, zoo
from ccat.report import markdown

COUNT = 1000


def resampled(images: Tensor) -> Tensor:
    """Return images as a picture file of twice the size would bring them."""
    sampling = Image.Resampling
    back = [
        np.asarray(
            Image.fromarray(one.numpy())
            .resize((56, 56), sampling.BICUBIC)
            .resize((28, 28), sampling.LANCZOS)
        )
        for one in images[:, 0]
    ]
    return torch.from_numpy(np.stack(back))[:, None]


def main() -> None:
    """Print rejected and right answers of every model, in per cent."""
    torch.set_num_threads(1)
    images = ccat.load_mnist("test")[:COUNT]
    noise = torch.Generator().manual_seed(0)
    shape = (COUNT, 1, 28, 28)
    kinds = {
        "as they are": images.x,
        "resampled": resampled(images.x),
        "inverted": 255 - images.x,
        "noise": torch.randint(0, 256, shape, generator=noise, dtype=torch.uint8),
    }
    rows = []
    for name in zoo():
        clf = ccat.load(PREFIX + name)
        cells = []
        for kind, x in kinds.items():
            labels = torch.from_numpy(clf.predict(x))
            rejected = f"{100 * (labels < 0).double().mean():.1f}"
            right = f" / {100 * (labels == images.y).double().mean():.1f}"
            cells.append(rejected + right * (kind != "noise"))
        rows.append([PREFIX + name, *cells])
    print(markdown(["rejected / right, in %", *kinds], rows))


if __name__ == "__main__":
    main()
