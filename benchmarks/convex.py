r"""The networks of Wong & Kolter 2018, whose weights their authors publish, to attack and certify.

    PYTHONPATH=benchmarks ccat import runs/convex-mnist --model convex:mnist --dataset mnist \
        --weights convex-mnist.pth --seen Linf:0.1
    PYTHONPATH=benchmarks python benchmarks/found.py runs/convex-mnist@Linf:0.1 --add --trust

The weights are in the repository locuslab/convex_adversarial, under the MIT licence.
"""

from torch import nn


def mnist() -> nn.Module:
    """Return the network for MNIST, trained with provable bounds at L∞ 0.1."""
    return _network(1, 7)


def svhn() -> nn.Module:
    """Return the network for SVHN, trained with provable bounds at L∞ 0.01."""
    return _network(3, 8)


def _network(channels: int, last: int) -> nn.Module:
    """Return two strided convolutions and a hidden layer of 100, for maps of `last`×`last`."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * last * last, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )
