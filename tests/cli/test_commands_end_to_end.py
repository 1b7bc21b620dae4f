"""train, evaluate, predict and info, one after the other, on small data of every kind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from commands import CYCLES, SMALL, done, molecules, smpgnn

import smpgnn as library
from smpgnn.config.metrics import METRICS
from smpgnn.config.models import MODELS
from smpgnn.training.run_folder import RunFolder


def record(run: Path) -> dict[str, dict[str, float]]:
    return RunFolder(run).read_record()


def test_cycles(cycles_run: Path, home: Path, tmp_path: Path) -> None:
    found = done("evaluate", cycles_run, "--json")
    assert json.loads(found.out) == record(cycles_run)["test"]
    assert done("evaluate", cycles_run).out.startswith("test split: accuracy 0.")
    out = tmp_path / "out.csv"
    assert done("predict", cycles_run, home / "graphs", "-o", out).out == (
        f"24 rows written to {out}\n"
    )
    frame = pd.read_csv(out)
    assert list(frame.columns) == [
        "graph",
        "predicted_cycle",
        "probability_cycle_no",
        "probability_cycle_yes",
        "error",
    ]
    assert set(frame["predicted_cycle"]) <= {"no", "yes"}
    text = done("info", cycles_run).out
    assert "fast-smp, 2 layers of width 8" in text
    assert "predicts    predicted_cycle, probability_cycle_no, probability_cycle_yes" in text
    assert f"{record(cycles_run)['test']['accuracy']:.4f}" in text


def test_training_says_what_it_does(home: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    rows = molecules().assign(smiles=["C(", None, *molecules()["smiles"][2:]])
    rows.to_csv(tmp_path / "d.csv", index=False)
    found = done("train", "molecules", tmp_path / "d.csv", "--targets", "size", *SMALL,
                 "--output", run)  # fmt: skip
    assert re.fullmatch(
        r"Test rmse \d+\.\d{4}  validation \d+\.\d{4}  best epoch \d  \d+ s\n"
        r" +rmse +mae +mse +r2 +pearson +spearman\n"
        r"validation {21}( +-?\d+\.\d{4}){6}\ntest {27}( +-?\d+\.\d{4}){6}\n"
        r"validation, gradient boosting( +-?\d+\.\d{4}){6}\n"
        r"test, gradient boosting {6}( +-?\d+\.\d{4}){6}\n"
        r".* is ahead of .* on the test rows: .*\. The validation rows .*\.\n"
        r"Run folder: \S+run\n",
        found.out,
    )
    notes = found.err.splitlines()
    left_out = "2 rows left out, the first at line 2: the text is not a SMILES."
    assert notes[0] == f"{tmp_path / 'd.csv'}: {left_out}"
    assert notes[1] == "Target 'size': numbers from 1.5 to 9, median 5.25."
    assert notes[2] == "Graphs: 30 training, 4 validation, 4 test."
    assert re.fullmatch(r"Training on .+, \d+ threads?\.", notes[3])
    assert notes[4].startswith("epoch 1/2  loss ")
    assert len(notes) == 6
    found = done("train", "molecules", "--output", run, "--resume")
    assert "Test rmse" in found.out
    assert "epoch" not in found.err


def test_a_run_of_ones_own_name_is_under_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = done("train", *CYCLES)
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("cycles-fast-smp-20")
    assert found.out.endswith(f"Run folder: runs/{run.name}\n")
    assert RunFolder(run).read_options().output == f"runs/{run.name}"


def test_regression_of_molecules(size_run: Path, home: Path, tmp_path: Path) -> None:
    assert json.loads(done("evaluate", size_run, "--json").out) == pytest.approx(
        record(size_run)["test"]
    )
    found = done("evaluate", size_run, home / "data.csv")
    names, values = found.out.splitlines()
    assert names.split() == list(METRICS["regression"])
    assert re.match(r".*data\.csv( +-?\d+\.\d{4}){6}$", values)
    done("predict", size_run, home / "data.csv", "-o", tmp_path / "out.csv")
    frame = pd.read_csv(tmp_path / "out.csv")
    assert frame["name"].tolist() == molecules()["name"].tolist()
    error = (frame["predicted_size"] - frame["size"]).abs().mean()
    metrics = json.loads(done("evaluate", size_run, home / "data.csv", "--json").out)
    assert metrics["mae"] == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize(
    ("targets", "metrics", "columns"),
    [
        (["size", "weight.g"], {"mae size", "r2 weight.g", *METRICS["regression"]},
         ["predicted_size", "predicted_weight.g", "error"]),
        (["kind"], {*METRICS["classification"]},
         ["predicted_kind", "probability_kind_aldehyde", "probability_kind_alkane",
          "probability_kind_other", "error"]),
        (["long", "polar"], {"log_loss long", "f1 polar", *METRICS["classification"]},
         ["predicted_long", "probability_long_yes", "predicted_polar", "probability_polar_1",
          "error"]),
    ],
    ids=["several with gaps", "text labels", "several labels"],
)  # fmt: skip
def test_other_targets_of_molecules(
    home: Path, tmp_path: Path, targets: list[str], metrics: set[str], columns: list[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out.csv"
    data, kind = home / "data.csv", "regression" if targets[0] == "size" else "classification"
    done("train", "molecules", data, "--targets", *targets, *SMALL, "--output", run)
    found = json.loads(done("evaluate", run, data, "--json").out)
    assert metrics <= found.keys()
    assert len(found) == len(METRICS[kind]) * (1 if len(targets) == 1 else 1 + len(targets))
    assert set(json.loads(done("evaluate", run, "--json").out)) <= found.keys()
    shown = done("evaluate", run, data).out.splitlines()
    several = targets if len(targets) > 1 else []
    assert [line.split()[0] for line in shown[2:]] == several
    done("predict", run, data, "-o", out)
    frame = pd.read_csv(out)
    assert list(frame.columns) == [*molecules().columns, *columns]
    if targets[0] != "size":
        assert set(frame[columns[0]]) <= set(molecules()[targets[0]])
    assert ", ".join(columns[:-1]) in done("info", run).out


def test_graphs_with_a_table_of_labels(kind_run: Path, home: Path, tmp_path: Path) -> None:
    labels = ("--labels", home / "labels.csv")
    metrics = json.loads(done("evaluate", kind_run, home / "graphs", *labels, "--json").out)
    out = tmp_path / "out.csv"
    done("predict", kind_run, home / "graphs", "-o", out)
    frame = pd.read_csv(out)
    assert frame["graph"].tolist() == [f"g{n:02d}.json" for n in range(24)]
    known = pd.read_csv(home / "labels.csv")["kind"]
    assert metrics["accuracy"] == pytest.approx((frame["predicted_kind"] == known).mean())
    # one file instead of the folder
    done("predict", kind_run, home / "graphs" / "g03.json", "-o", out)
    again = pd.read_csv(out)
    assert again["probability_kind_ring"][0] == pytest.approx(
        frame["probability_kind_ring"][3], abs=1e-5
    )


def test_graphs_parted_by_a_column(home: Path, tmp_path: Path) -> None:
    words = ("train", "graphs", home / "graphs", "--labels", home / "labels.csv", *SMALL)
    found = done(*words, "--targets", "kind", "--split-column", "part", "--output", tmp_path / "r")
    assert "Graphs: 16 training, 4 validation, 4 test." in found.err
    found = smpgnn(*words, "--split-column", "part", "--output", tmp_path / "s")
    assert found.err == "smpgnn: --split-column: name the targets as well, with --targets.\n"


def test_targets_of_nodes(home: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out.csv"
    words = ("--level", "node", "--targets", "end", *SMALL)
    done("train", "graphs", home / "graphs", *words, "--output", run)
    found = json.loads(done("evaluate", run, home / "graphs", "--json").out)
    assert set(found) == {*METRICS["classification"]}
    # the graphs of the test split are rings, whose nodes have one class
    _, values, why = done("evaluate", run).out.splitlines()
    assert values.split()[:4] == ["test", "split", "-", "-"]
    assert why.startswith("-: no value, because all known targets are equal")
    done("predict", run, home / "graphs", "-o", out)
    frame = pd.read_csv(out)
    assert list(frame.columns) == [
        "graph",
        "node",
        "predicted_end",
        "probability_end_no",
        "probability_end_yes",
        "error",
    ]
    assert len(frame) == sum(4 + n % 4 for n in range(24))
    assert frame["node"].tolist()[:4] == [0, 1, 2, 3]


def test_nodes_of_one_graph_are_parted(home: Path, tmp_path: Path) -> None:
    found = done("train", "graphs", home / "graphs" / "g07.json", "--level", "node", "--targets",
                 "w", "--task", "regression", *SMALL, "--output", tmp_path / "run")  # fmt: skip
    assert "Test rmse" in found.out


def test_graph_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from smpgnn.data import properties
    from smpgnn.data.base import Splits

    def few(**_: object) -> Splits:
        graphs = properties.property_graphs((6, 7, 8), 4, seed=0)
        return Splits(graphs, graphs.select([0, 4, 8]), graphs.select([1, 5, 9]))

    monkeypatch.setattr(properties, "property_splits", few)
    run = tmp_path / "run"
    done("train", "properties", *SMALL, "--epochs", "1", "--output", run)
    assert json.loads(done("evaluate", run, "--json").out) == pytest.approx(record(run)["test"])
    assert "predicted_conn" in done("info", run).out
    assert re.search(r"train +12 graphs, 7\.0 nodes \(at most 8\)", done("info", "properties").out)


def test_info_about_tables_models_and_data(home: Path, size_run: Path) -> None:
    text = done("info", home / "data.csv").out
    assert text.startswith("40 rows, 7 columns\n")
    assert re.search(r"weight\.g +34 known, first: 12\.0", text)
    shown = {line.split()[0] for line in done("info", "models").out.splitlines() if line}
    assert set(MODELS) <= shown
    assert "smp, 2 layers of width 8" in done("info", size_run / "model.safetensors").out


def test_an_unfinished_run_says_so(size_run: Path, tmp_path: Path) -> None:
    for name in ("config.yaml", "model.safetensors"):
        (tmp_path / name).write_bytes((size_run / name).read_bytes())
    assert done("info", tmp_path).out.endswith("not finished: continue with --resume\n")


def test_a_model_from_python_is_told_apart(tmp_path: Path) -> None:
    import torch
    from torch_geometric.data import Data

    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Data(x=torch.randn(2, 1), edge_index=edges, y=torch.tensor([i / 7])) for i in range(9)
    ]
    run = library.train(
        "graphs", graphs, output=str(tmp_path / "run"), quiet=True, epochs=1, hidden_channels=4,
        num_layers=1, device="cpu",
    ).folder  # fmt: skip
    for words in (("evaluate", run), ("predict", run, tmp_path, "-o", tmp_path / "o.csv")):
        found = smpgnn(*words)
        assert found.status == 2
        assert "trained from Python" in found.err
