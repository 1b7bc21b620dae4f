"""Fresh weights that keep differences from fading."""

from __future__ import annotations

import torch
from torch import nn

#: Fresh weights are uniform within 1/√fan-in and a ReLU halves the variance again, so differences
#: would fade by √6 with every map; this factor keeps their scale.
GAIN = 6**0.5


def rescaled(network: nn.Module) -> nn.Module:
    """The network, its fresh matrices multiplied by `GAIN`."""
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.mul_(GAIN)
    return network
