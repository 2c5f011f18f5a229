"""Gradients in bfloat16 with logits in float32, for GPUs that compute faster in bfloat16."""

import copy

import torch
from torch import Tensor, nn

from ccat.models.compiled import Compiled, functions_replaced


class HalfGradients(nn.Module):
    """A copy whose logits are those of `eager`, and whose gradients are computed in bfloat16.

    A pass with a gradient costs a forward in float32 and a forward and a backward in bfloat16. The
    objective and its gradient with respect to the logits are computed in float32.
    """

    def __init__(self, eager: nn.Module) -> None:
        super().__init__()
        self.eager = eager
        self.rough = copy.deepcopy(eager).to(torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        gradient = x.requires_grad and torch.is_grad_enabled()
        if not gradient or (not torch.compiler.is_compiling() and functions_replaced()):
            logits: Tensor = self.eager(x)
            return logits
        with torch.no_grad():
            exact: Tensor = self.eager(x)
        rough: Tensor = self.rough(x.to(torch.bfloat16)).to(exact.dtype)
        # The value of the first, and the gradient of the second.
        return exact + (rough - rough.detach())


def eager_of(model: nn.Module) -> nn.Module:
    """Return the copy that answers and differentiates as PyTorch itself does, behind a fast one."""
    while isinstance(model, Compiled | HalfGradients):
        model = model.eager
    return model
