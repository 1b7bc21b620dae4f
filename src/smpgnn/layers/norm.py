"""Norms over rows, in which each row counts with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from smpgnn.contexts.context import LocalContext
from smpgnn.errors import InputError
from smpgnn.ops import NormState, batch_norm
from smpgnn.ops.backend import fused, mapped
from smpgnn.tracing import traced


@dataclass(frozen=True, eq=False)
class Affine:
    """The map x ↦ (x − center) ⊙ scale + shift. Shapes: [C] each."""

    center: Tensor
    scale: Tensor
    shift: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        return torch.addcmul(self.shift, values - self.center, self.scale).to(values.dtype)


class RowBatchNorm(nn.BatchNorm1d):
    """Batch norm over all rows of all contexts, each with its multiplicity.

    In training the statistics equal those of one-hot contexts of the same graphs. With several
    processes they include the rows of all of them. A single row has variance 0 and becomes the
    bias. Padding rows become zero.

    Shapes: rows [P, C] to [P, C].
    """

    def forward(self, context: LocalContext) -> LocalContext:  # type: ignore[override]
        if self.training and self.has_kernel(context.rows):
            context = context.measured(squares=True)
            assert context.moments is not None
            rows = batch_norm(context.rows, context.layout, context.moments, self.state())
            return context.with_rows(rows)
        context, affine = self.as_affine(context)
        if affine is None:
            return context
        rows, unowned = affine(context.rows), context.layout.unowned
        return context.with_rows(rows if unowned is None else rows.masked_fill(unowned, 0.0))

    def has_kernel(self, rows: Tensor) -> bool:
        """Whether a kernel normalises these rows in training."""
        return fused(rows) and _processes() == 1 and rows.size(0) > 0

    def as_affine(self, context: LocalContext) -> tuple[LocalContext, Affine | None]:
        """The norm as an affine map, which a linear map can merge with its own weights.

        In training this updates the running statistics. Use the returned contexts instead of the
        given ones: their statistics are computed. None: there are no rows to normalise.
        """
        together = self.training and _processes() > 1
        if not traced() and context.rows.size(0) == 0 and not together:
            return context, None
        if not self.training:
            assert self.running_mean is not None
            assert self.running_var is not None
            return context, Affine(self.running_mean, self._scale(self.running_var), self.bias)
        context = context.measured(squares=True)
        layout, moments = context.layout, context.moments
        assert moments is not None
        assert moments.squares is not None
        count = layout.total(moments.squares.dtype)
        total = layout.counts(count.dtype) @ moments.mean.to(count.dtype)
        mean, variance = self._moments(count, total, moments.squares)
        return context, Affine(mean, self._scale(variance), self.bias)

    def _scale(self, variance: Tensor) -> Tensor:
        return self.weight * torch.rsqrt(variance + self.eps)

    def state(self) -> NormState:
        """Weights and running statistics, for the kernels."""
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
        """Mean and variance of all rows, including those of other processes."""
        mean = total / count.clamp(min=1)
        if _processes() > 1:
            both = _sum_over_processes(torch.cat([count.unsqueeze(0), total]))
            everyone, common = both[0].detach(), both[1:] / both[0].detach()
            squares = _sum_over_processes(squares + count * (mean - common).square())
            count, mean = everyone, common
        variance = squares / count.clamp(min=1)
        self._track(count, mean.detach(), variance.detach())
        return mean, variance

    def _track(self, count: Tensor, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        if not traced() and mapped():
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
    """Layer norm of each row. Shapes: rows [P, C] to [P, C]."""

    def forward(self, context: LocalContext) -> LocalContext:  # type: ignore[override]
        return context.with_rows(super().forward(context.rows))


class NoNorm(nn.Identity):
    """The identity."""


def row_norm(name: str | None, channels: int) -> nn.Module:
    """The norm called 'batch' or 'layer'; with 'none' or None the contexts as they are."""
    if name in (None, "none"):
        return NoNorm()
    norms: dict[str, Callable[[int], nn.Module]] = {"batch": RowBatchNorm, "layer": RowLayerNorm}
    if name not in norms:
        raise InputError(f"norm must be None or one of {', '.join(norms)}, not {name!r}.")
    return norms[name](channels)


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
