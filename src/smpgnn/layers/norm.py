"""Norms of rows that count a row as often as it stands for a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from smpgnn.contexts.context import LocalContext, ScaledContext
from smpgnn.errors import InputError
from smpgnn.ops import NormState
from smpgnn.ops.backend import fused, mapped


class RowBatchNorm(nn.BatchNorm1d):
    """Batch norm over all rows of all contexts, each counted with its multiplicity.

    In training the statistics are those that one-hot contexts of the same graphs would have, and
    where several processes train together, those of all their rows. Where there is one row only,
    its variance is 0 and the result is the bias, not an error.

    Shapes: rows [P, C] to [P, C].
    """

    def forward(self, context: LocalContext) -> LocalContext:  # type: ignore[override]
        """The rows stay as they are where they can: what follows takes scale and shift with it."""
        if context.rows.size(0) == 0 and not (self.training and _processes() > 1):
            return context
        if not self.training:
            scaled = ScaledContext(context, self._learned)
        else:
            raw = context.measured(squares=True)
            if self.contains(raw.rows):  # a fused set map does it with its own work, or a kernel
                scaled = ScaledContext(raw, lambda: self._affine(raw), self._state())
            else:
                made = self._affine(raw)
                scaled = ScaledContext(raw, lambda: made)
        # contexts that carry more than rows keep the rest
        return scaled if type(context) is LocalContext else context.with_rows(scaled.rows)

    def contains(self, rows: Tensor) -> bool:
        """Whether the kernels serve these rows: those that no context owns come out as zeros."""
        return self.training and _processes() == 1 and fused(rows)

    def _learned(self) -> tuple[Tensor, Tensor, Tensor]:
        """Center, scale and shift from the running statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        return self.running_mean, self._scale(self.running_var), self.bias

    def _affine(self, raw: LocalContext) -> tuple[Tensor, Tensor, Tensor]:
        """Center, scale and shift from the statistics of these rows, which are tracked."""
        layout, moments = raw.layout, raw.moments
        assert moments is not None
        assert moments.squares is not None
        count = layout.total(moments.squares.dtype)
        total = layout.counts(count.dtype) @ moments.mean.to(count.dtype)
        mean, variance = self._moments(count, total, moments.squares)
        return mean, self._scale(variance), self.bias

    def _scale(self, variance: Tensor) -> Tensor:
        return self.weight * torch.rsqrt(variance + self.eps)

    def _state(self) -> NormState:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        return NormState(
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            self.num_batches_tracked,
            self.eps,
            self.momentum,
        )

    def _moments(self, count: Tensor, total: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of all rows, those of other processes included."""
        mean = total / count.clamp(min=1)
        if _processes() > 1:
            both = _sum_over_processes(torch.cat([count.unsqueeze(0), total]))
            everyone, common = both[0].detach(), both[1:] / both[0].detach()
            squares = _sum_over_processes(squares + count * (mean - common).square())
            count, mean = everyone, common
        variance = squares / count.clamp(min=1)
        self._track(count, mean.detach(), variance.detach())
        return mean, variance

    def normalize(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Normalise rows [P, C], each of which counts `multiplicity` times."""
        together = self.training and _processes() > 1
        if rows.size(0) == 0 and not together:
            return rows
        if not self.training or (multiplicity is None and rows.size(0) > 1 and not together):
            return super().forward(rows)
        count, mean, variance = _weighted_moments(rows, multiplicity, together)
        self._track(count, mean.detach(), variance.detach())
        normal = (rows - mean) * torch.rsqrt(variance + self.eps)
        return normal * self.weight + self.bias

    def _track(self, count: Tensor, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        if mapped():
            raise InputError(
                "batch norm in training updates its running statistics, which torch.func does not "
                "allow: call model.eval() first, or take norm='layer'."
            )
        with torch.no_grad():
            unbiased = variance * count / (count - 1).clamp(min=1)
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)


class RowLayerNorm(nn.LayerNorm):
    """Layer norm of each row by itself. Shapes: rows [P, C] to [P, C]."""

    def forward(self, context: LocalContext) -> LocalContext:  # type: ignore[override]
        return context.with_rows(super().forward(context.rows))


class NoNorm(nn.Identity):
    """The contexts as they are."""


def row_norm(name: str | None, channels: int) -> nn.Module:
    """The norm called 'batch' or 'layer', or none."""
    if name is None:
        return NoNorm()
    norms: dict[str, Callable[[int], nn.Module]] = {"batch": RowBatchNorm, "layer": RowLayerNorm}
    if name not in norms:
        raise InputError(f"norm must be None or one of {', '.join(norms)}, not {name!r}.")
    return norms[name](channels)


def _weighted_moments(
    rows: Tensor, multiplicity: Tensor | None, together: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Number of rows, mean and variance of each channel, over all processes if `together`."""
    if multiplicity is None:
        multiplicity = torch.ones(rows.size(0), dtype=torch.long, device=rows.device)
    wide = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
    weight = multiplicity.to(wide.dtype)
    sums = torch.cat([weight.sum().unsqueeze(0), weight @ wide])
    sums = _sum_over_processes(sums) if together else sums
    count, mean = sums[0].detach(), sums[1:] / sums[0].detach()
    squares = weight @ (wide - mean).square()
    squares = _sum_over_processes(squares) if together else squares
    return count, mean, squares / count


def _processes() -> int:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return 1
    return distributed.get_world_size()


class _SumOverProcesses(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        torch.distributed.all_reduce(total)
        return total


def _sum_over_processes(values: Tensor) -> Tensor:
    total: Tensor = _SumOverProcesses.apply(values)  # type: ignore[no-untyped-call]
    return total
