"""Strided convolutions whose backward is fast on CPUs.

The gradient of a convolution of stride 2 at its input is, for each of the four places of a pixel in its 2×2 cell, a convolution of stride 1
of the gradient at its output. All four are one convolution with four times the channels, whose outputs are shuffled into place. PyTorch's
own backward takes up to four times as long where a kernel is large and input channels are few.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Strided(nn.Module):
    """A Conv2d of stride 2, frozen. Only gradients at the input are given."""

    weight: Tensor
    bias: Tensor | None
    backward_weight: Tensor

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.padding = int(convolution.padding[0])
        weight = convolution.weight.detach()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", None if convolution.bias is None else convolution.bias.detach())
        moved, self.first, self.last = _backward_weight(weight, self.padding)
        self.register_buffer("backward_weight", moved)

    def forward(self, x: Tensor) -> Tensor:
        if not (x.requires_grad and torch.is_grad_enabled()):
            return self.convolved(x)
        out: Tensor = _Convolution.apply(x, self)  # type: ignore[no-untyped-call]
        return out

    def convolved(self, x: Tensor) -> Tensor:
        """As Conv2d does it."""
        return functional.conv2d(x, self.weight, self.bias, stride=2, padding=self.padding)


def suits(module: nn.Conv2d) -> bool:
    """Where this is faster: kernels of 5×5 or more."""
    return (
        module.stride == (2, 2)
        and module.dilation == (1, 1)
        and module.groups == 1
        and module.padding_mode == "zeros"
        and module.kernel_size[0] == module.kernel_size[1] >= 5
        and isinstance(module.padding, tuple)
        and module.padding[0] == module.padding[1]
    )


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, module: Strided) -> Tensor:
        context.module, context.size = module, x.shape[2:]
        return module.convolved(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        module, (height, width) = context.module, context.size
        missing = [-(-size // 2) - have for size, have in zip((height, width), gradients[0].shape[2:], strict=True)]
        around = (-module.first, module.last + missing[1], -module.first, module.last + missing[0])
        if len(set(around)) == 1:
            cells = functional.conv2d(gradients[0], module.backward_weight, padding=around[0])
        else:
            cells = functional.conv2d(functional.pad(gradients[0], around), module.backward_weight)
        return functional.pixel_shuffle(cells, 2)[:, :, :height, :width], None


def _backward_weight(weight: Tensor, padding: int) -> tuple[Tensor, int, int]:
    """The gradient at input 2a+r is Σ_d gradient at output a+d times the weight at r − 2d + padding: (4·inputs, outputs, D, D), and the
    first and the last d.
    """
    outputs, inputs, kernel, _ = weight.shape
    shifts = [d for d in range(-kernel, kernel + 1) if any(0 <= r - 2 * d + padding < kernel for r in (0, 1))]
    moved = weight.new_zeros(inputs, 2, 2, outputs, len(shifts), len(shifts))
    for row in (0, 1):
        for column in (0, 1):
            for i, down in enumerate(shifts):
                for j, right in enumerate(shifts):
                    u, v = row - 2 * down + padding, column - 2 * right + padding
                    if 0 <= u < kernel and 0 <= v < kernel:
                        moved[:, row, column, :, i, j] = weight[:, :, u, v].T
    return moved.reshape(4 * inputs, outputs, len(shifts), len(shifts)), shifts[0], shifts[-1]
