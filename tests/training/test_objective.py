"""Objectives: the mean of the errors of several targets, and of their logarithms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from smpgnn.config.options import PropertiesOptions
from smpgnn.data.base import Splits
from smpgnn.data.properties import property_graphs
from smpgnn.data.store import GraphBatch
from smpgnn.training.module import GraphModule
from smpgnn.training.objective import LEAST_ERROR, LogErrors
from smpgnn.training.prepare import assemble
from smpgnn.training.tasks import GraphProperties

GAPS = torch.tensor([1.0, 0.1, 0.01])
SQUARES = torch.cat([GAPS, 10 * GAPS]).square()


def off_by(gaps: Tensor) -> tuple[tuple[Tensor, Tensor], GraphBatch]:
    """Outputs that miss each target by so much, a tenth of it for the targets of nodes."""
    part = property_graphs((5, 6), 3, seed=0).batch()
    assert part.y is not None
    assert part.y_node is not None
    return (part.y_node + gaps, part.y + 10 * gaps), part


def test_the_objective_of_graph_properties_is_the_error_or_its_logarithm() -> None:
    output, part = off_by(GAPS)
    plain = GraphProperties().make_objective()
    assert plain(output, part).item() == pytest.approx(SQUARES.mean().item())
    logarithm = GraphProperties(objective="log-mse").make_objective()
    assert logarithm(output, part).item() == pytest.approx(SQUARES.log10().mean().item(), abs=1e-5)


def test_logarithms_are_of_the_running_mean() -> None:
    batches = [torch.tensor(errors) for errors in ([1.0, 4.0], [0.0, 2.0], [9.0, 3.0])]
    objective = LogErrors(lambda output, batch: output, 2, decay=0.5)
    _, part = off_by(GAPS)
    for errors, weights in zip(batches, ([1], [0.25, 0.5], [0.125, 0.25, 0.5]), strict=True):
        seen = torch.stack(batches[: len(weights)])
        share = torch.tensor(weights).unsqueeze(1) / sum(weights)
        mean = (share * seen).sum(0)
        errors.requires_grad_()
        value = objective(errors, part)
        value.backward()
        assert value.item() == pytest.approx(mean.log10().mean().item(), abs=1e-6)
        assert torch.allclose(errors.grad, 1 / (2 * math.log(10) * mean))


def test_exact_outputs_have_no_infinite_gradient() -> None:
    (nodes, graphs), part = off_by(torch.zeros(3))
    exact = nodes.clone().requires_grad_(), graphs.clone().requires_grad_()
    loss = GraphProperties(objective="log-mse").make_objective()(exact, part)
    loss.backward()
    assert loss.item() == pytest.approx(math.log10(LEAST_ERROR))
    assert all(part.grad is not None and not part.grad.any() for part in exact)


def test_running_means_go_into_checkpoints() -> None:
    data = property_graphs((5, 6), 3, seed=0)
    task, options = GraphProperties(objective="log-mse"), PropertiesOptions()
    prepared = assemble(options, Splits(data, data, data), task, {"kind": "graphs"})
    modules = [GraphModule(torch.nn.Linear(1, 1), prepared, options) for _ in range(2)]
    first, second = (module.objective for module in modules)
    value = first(*off_by(GAPS))
    modules[1].load_state_dict(modules[0].state_dict())
    assert torch.equal(second.total, first.total)
    assert second.weight > 0
    assert second(*off_by(GAPS)).item() == pytest.approx(value.item(), abs=1e-6)
