"""Two-layer perceptrons of the baselines, with the norm before them taken into their first map."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.layout import RowLayout
from smpgnn.ops.perceptron import Maps, perceptron


@dataclass(frozen=True, eq=False)
class NormalInput:
    """Rows [P, C], still to be normalised where `affine` is given: (x − center) ⊙ scale + shift."""

    layout: RowLayout
    rows: Tensor
    affine: tuple[Tensor, Tensor, Tensor] | None = None


def normal_input(context: LocalContext) -> NormalInput:
    """The rows of a context as perceptrons take them."""
    return NormalInput(context.layout, context.rows)


def run_perceptron(maps: nn.Sequential, t: NormalInput, before: Tensor | None = None) -> Tensor:
    """Linear, relu, linear of t, or of `before` [P, D] and t side by side.

    Rows that no context owns are zero.
    """
    first, second = maps[0], maps[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    other = first.in_features - t.rows.size(1)
    wy, wx = first.weight[:, :other], first.weight[:, other:]
    b1: Tensor = first.bias
    center = None
    if t.affine is not None:
        center, scale, shift = (value.to(wx.dtype) for value in t.affine)
        b1 = b1 + wx @ shift
        wx = wx * scale
    both = Maps(wx, None if before is None else wy, b1, second.weight, second.bias)
    return perceptron(t.rows, before, both, t.layout, center)
