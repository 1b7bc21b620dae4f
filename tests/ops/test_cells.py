"""Recurrent cells: those of torch, and their equations under `torch.func`."""

from __future__ import annotations

import torch
from strategies import assert_same, randomize
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.ops import gru_step, lstm_step

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    value = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.to(DEVICE).requires_grad_()


def run_gru(x: Tensor, state: Tensor, w: Tensor, v: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return gru_step(F.linear(x, w, b), state, v, c)


def run_lstm(
    x: Tensor, state: Tensor, memory: Tensor, w: Tensor, v: Tensor, b: Tensor, c: Tensor
) -> Tensor:
    return torch.cat(lstm_step(F.linear(x, w, b + c), state, memory, v), dim=1)


def test_the_equations_of_the_gru_equal_the_cell_of_torch() -> None:
    unit = randomize(nn.GRUCell(5, 3)).to(DEVICE)
    inputs = [draw(7, 5), draw(7, 3), *unit.parameters()]
    expected = unit(*inputs[:2])
    assert_same(run_gru(*inputs), expected)
    out, back = torch.func.vjp(run_gru, *inputs)
    assert_same(out, expected)
    slope = draw(7, 3, seed=1).detach()
    assert_same(back(slope), torch.autograd.grad(expected, inputs, slope))


def test_the_equations_of_the_lstm_equal_the_cell_of_torch() -> None:
    unit = randomize(nn.LSTMCell(5, 3)).to(DEVICE)
    inputs = [draw(7, 5), draw(7, 3), draw(7, 3, seed=1), *unit.parameters()]
    expected = torch.cat(unit(inputs[0], tuple(inputs[1:3])), dim=1)
    assert_same(run_lstm(*inputs), expected)
    out, back = torch.func.vjp(run_lstm, *inputs)
    assert_same(out, expected)
    slope = draw(7, 6, seed=1).detach()
    assert_same(back(slope), torch.autograd.grad(expected, inputs, slope))


def test_forward_mode_derivatives_exist() -> None:
    for run, unit, states in ((run_gru, nn.GRUCell(2, 3), 1), (run_lstm, nn.LSTMCell(2, 3), 2)):
        given = [draw(4, 2), *(draw(4, 3, seed=k) for k in range(states))]
        inputs = [*given, *randomize(unit).to(DEVICE).parameters()]
        along = [draw(*value.shape, seed=9).detach() for value in inputs]
        out, slope = torch.func.jvp(run, tuple(inputs), tuple(along))
        found = torch.autograd.grad(run(*inputs).sum(), inputs)
        expected = sum((g * a).sum() for g, a in zip(found, along, strict=True))
        assert_same(slope.sum(), expected)
        assert_same(out, run(*inputs))
