"""The tables of counting: real small trainings, with the weights of the last epoch."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from smpgnn.paper.experiments.plan import Request, make_plan
from smpgnn.paper.experiments.protocol import Reduction
from smpgnn.paper.experiments.records import read_records
from smpgnn.paper.experiments.worker import perform


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file like the benchmark's, of sixty random graphs."""
    graphs = [nx.gnm_random_graph(10, 20, seed=seed) for seed in range(60)]
    np.savez(
        tmp_path / "graphs.npz",
        nodes=np.full(60, 10),
        edges=np.full(60, 20),
        edge_list=np.concatenate([np.array(graph.edges) for graph in graphs]),
        split=np.arange(60) % 3,
    )
    return tmp_path


@pytest.mark.parametrize(
    ("table", "row", "cell"),
    [
        ("counting_graphs", "SMP, inside (SSWL)", "chordal5"),
        ("counting_graphs", "PPGN", "cycle4"),
        ("counting_nodes", "SMP, two marks at most 1 apart", "cycle6"),
        ("counting_nodes", "GIN", "cycle8"),
    ],
)
def test_a_training(table: str, row: str, cell: str, data: Path) -> None:
    request = Request(
        table,
        rows=(row,),
        cells=(cell,),
        seeds=(0,),
        reduction=Reduction(3, settings={"hidden_channels": "8", "num_layers": "2", "lr": "0.02"}),
        results=str(data / "results"),
        work_dir=str(data / "work"),
        data_dir=str(data),
        device="cpu",
    )
    (final,) = make_plan([request]).finals
    assert final.pilot is None  # one rate, that of the protocol
    options = final.options
    assert (options.optimizer, options.schedule, options.decay) == ("adam", "plateau", 0.9)
    assert (options.network.norm, options.clip, options.batch_size) == ("none", 0.0, 512)
    perform(final)
    (record,) = read_records(data / "results")
    assert record.best_epoch == 3  # the last one, whatever validation says
    with (final.folder / "metrics.csv").open() as file:
        *_, last = csv.DictReader(file)
    assert record.validation == pytest.approx(float(last["val_mae"]), rel=1e-5)
    assert record.value > 0
