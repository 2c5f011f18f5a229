"""The predictions of a model, batch by batch."""

import torch
from torch import Tensor, nn

from ccat.data.images import to_floats


def probabilities(model: nn.Module, x: Tensor, batch: int = 250) -> Tensor:
    """Predict class probabilities without gradients, in the mode the model is in.

    Args:
        model: Maps images (N, C, H, W) in [0,1] to logits (N, K).
        x: Images as floats in [0,1], or as bytes.
        batch: How many images go through the model at once.

    Returns:
        Probabilities (N, K) on the CPU.
    """
    device = next((weight.device for weight in model.parameters()), x.device)
    with torch.no_grad():
        parts = [model(to_floats(part.to(device))) for part in torch.split(x, batch)]
    kind = torch.promote_types(parts[0].dtype, torch.float32)
    return torch.cat([logits.to(kind).softmax(1).cpu() for logits in parts])
