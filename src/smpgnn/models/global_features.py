"""Features of whole graphs, standardised by those of the training graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smpgnn.errors import InputError, check_device, check_tensor

#: Standardised features lie between −LIMIT and LIMIT, so that odd graphs give no wild predictions.
LIMIT = 10.0


class GlobalFeatures(nn.Module):
    r"""Standardises the features u of graphs; unknown ones (NaN) become 0, the mean.

    .. math:: \text{clamp}((u - \text{mean}) / \text{scale}, -10, 10)

    Mean and scale are saved with the weights; they are 0 and 1 until `fit` is called.

    Shapes: [B, channels] to [B, channels].
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    def fit(self, u: Tensor) -> None:
        """Take mean and standard deviation of the known features of training graphs."""
        u = u.double()
        mean = u.nanmean(0).nan_to_num(0.0)
        scale = (u - mean).square().nanmean(0).sqrt()
        # what float32 cannot tell from a constant is one
        varies = scale > 1e-6 * mean.abs().clamp(min=1e-12)
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(varies, scale, 1.0))

    def forward(self, u: Tensor) -> Tensor:
        return ((u - self.mean) / self.scale).clamp(-LIMIT, LIMIT).nan_to_num(0.0)

    def check(self, u: Tensor | None, num_graphs: int) -> None:
        """Refuse features that are missing or have another shape, precision or device."""
        if u is None:
            raise InputError(f"u is missing: global_channels is {self.channels}.")
        check_tensor("u", u)
        if u.shape != (num_graphs, self.channels):
            raise InputError(
                f"u must have shape [number of graphs, {self.channels}] = "
                f"{[num_graphs, self.channels]}, not {list(u.shape)}."
            )
        if u.dtype != self.mean.dtype:
            raise InputError(
                f"u is {u.dtype} but the network {self.mean.dtype}: convert one of them "
                "(u.float(), model.double(), …)."
            )
        check_device("u", u, self.mean.device)
