"""Every network of the catalogue is built from plain values, trains, and comes back from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from smpgnn.config.models import MODELS, Entry
from smpgnn.config.options import CyclesOptions, PropertiesOptions, TrainOptions
from smpgnn.config.settings import with_values
from smpgnn.data.base import Splits
from smpgnn.data.cycles import cycle_graphs
from smpgnn.data.properties import property_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.training.network import run_network
from smpgnn.training.prepare import Prepared, assemble
from smpgnn.training.saved import SavedModel, load_model, save_model
from smpgnn.training.tasks import Classification, GraphProperties, Task

SMALL: dict[str, Any] = {"hidden_channels": 8, "num_layers": 2, "towers": 2}
SEVERAL = [entry for entry in MODELS.values() if entry.multitask]
ALONE = [entry for entry in MODELS.values() if not entry.multitask]


def prepared(options: TrainOptions, store: GraphStore, task: Task) -> Prepared:
    return assemble(options, Splits(store, store, store), task, {"kind": "graphs"})


def cycles(entry: Entry) -> Prepared:
    options = with_values(CyclesOptions(), {"model": entry.name, **SMALL}, "test")
    return prepared(options, cycle_graphs(4, 12, 16, seed=0), Classification())


def properties(entry: Entry) -> Prepared:
    options = with_values(PropertiesOptions(), {"model": entry.name, **SMALL}, "test")
    return prepared(options, property_graphs([15, 16], 4), GraphProperties())


def check(case: Prepared, folder: Path) -> None:
    """A few steps lower the loss, and the saved network gives the same results."""
    torch.manual_seed(0)
    network, batch = case.network(), case.splits.train.batch()
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    losses = []
    for _ in range(15):
        loss = case.task.loss(run_network(network, batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    save_model(folder / "m.safetensors", SavedModel(network, case.spec, case.task, case.source))
    loaded = load_model(folder / "m.safetensors").network
    torch.manual_seed(1)
    ours = run_network(network.eval(), batch)
    torch.manual_seed(1)
    theirs = run_network(loaded, batch)
    torch.testing.assert_close(theirs, ours)


@pytest.mark.parametrize("entry", MODELS.values(), ids=lambda entry: entry.name)
def test_every_network_trains_on_graphs_and_is_saved(entry: Entry, tmp_path: Path) -> None:
    check(cycles(entry), tmp_path)


@pytest.mark.parametrize("entry", SEVERAL, ids=lambda entry: entry.name)
def test_networks_for_several_targets_train_and_are_saved(entry: Entry, tmp_path: Path) -> None:
    check(properties(entry), tmp_path)


@pytest.mark.parametrize(
    "entry",
    [entry for entry in MODELS.values() if not entry.multitask],
    ids=lambda entry: entry.name,
)
def test_the_others_name_those_that_can(entry: Entry) -> None:
    with pytest.raises(InputError, match=f"'{entry.name}'.*several targets.*smp"):
        properties(entry).network()


def test_networks_that_scale_by_degree_get_the_degrees_of_the_data() -> None:
    pna = MODELS["pna"]
    case = cycles(pna)
    told, untold = case.network().state_dict(), case.spec.build().state_dict()
    buffers = [name for name in told if name not in dict(case.spec.build().named_parameters())]
    assert any(not torch.equal(told[name], untold[name]) for name in buffers)
