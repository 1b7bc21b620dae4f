"""A run from begin to end, in this process: repeatable, resumable, explained by its folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CYCLES, GRAPHS, lines, record, ring, rings, words
from sweep import sweep
from torch_geometric.datasets import FakeDataset

import smpgnn
from smpgnn.config.models import MODELS
from smpgnn.config.options import CyclesOptions, from_config, read_config
from smpgnn.config.settings import with_values
from smpgnn.errors import InputError
from smpgnn.training import memory
from smpgnn.training.module import GraphModule
from smpgnn.training.prepare import prepare
from smpgnn.training.processes import first_process
from smpgnn.training.provenance import commit
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import load_model
from smpgnn.training.train import Result, evaluate_store

CPU = torch.device("cpu")


def train(folder: Path, **options: Any) -> Result:
    return smpgnn.train(
        "cycles", output=str(folder), quiet=True, **{**CYCLES, "epochs": 3, **options}
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return train(tmp_path_factory.mktemp("run") / "run", dropout=0.5)


def test_the_same_seed_gives_the_same_numbers(result: Result, tmp_path: Path) -> None:
    torch.manual_seed(12345)  # what was random before does not matter
    again = train(tmp_path / "again", dropout=0.5)
    assert lines(again.folder) == lines(result.folder)
    assert (again.test, again.validation) == (result.test, result.validation)
    other = train(tmp_path / "other", dropout=0.5, seed=1)
    assert lines(other.folder) != lines(result.folder)


def test_the_folder_explains_itself(result: Result) -> None:
    folder = result.folder
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.yaml", "curves.png", "data.json", "last.ckpt", "lock", "metrics.csv",
        "model.safetensors", "report.html", "run.json", "splits.csv", "tensorboard",
        "test_predictions.csv",
    ]  # fmt: skip
    options = with_values(
        CyclesOptions(),
        {**CYCLES, "epochs": 3, "dropout": 0.5, "output": str(folder)},
        "test",
    )
    assert from_config(read_config(folder / "config.yaml"), "config") == options
    assert [line["epoch"] for line in lines(folder)] == [1, 2, 3]
    assert set(lines(folder)[0]) == {"epoch", "train_loss", "lr", "val_accuracy"}
    found = record(folder)
    assert found["task"] == "cycles"
    assert found["model"] == "fast-smp"
    assert found["epochs"] == 3
    assert found["best_epoch"] == result.best_epoch
    assert found["test"] == result.test
    assert found["validation"] == result.validation
    assert found["seed"] == 0
    assert found["parameters"] == sum(p.numel() for p in result.saved.network.parameters())
    assert found["wall_time_s"] > 0
    assert found["device"]
    assert found["commit"] == commit()
    assert {"smpgnn", "python", "torch", "torch_geometric", "pytorch_lightning"} == set(
        found["versions"]
    )
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    events = [f for f in (folder / "tensorboard").iterdir() if "tfevents" in f.name]
    assert events
    assert b"val_accuracy" in b"".join(file.read_bytes() for file in events)
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 3


def test_the_model_kept_is_that_of_the_best_epoch(result: Result) -> None:
    values = [line["val_accuracy"] for line in lines(result.folder)]
    assert result.best_epoch == values.index(max(values)) + 1
    splits = prepare(RunFolder(result.folder).read_options()).splits
    saved = load_model(result.folder)
    for batch_size in (7, 1000):
        again = evaluate_store(saved.network, saved.task, splits.val, batch_size, CPU)
        assert again["accuracy"] == pytest.approx(max(values))
    again = evaluate_store(saved.network, saved.task, splits.test, 64, CPU, batch_rows=300)
    assert again == pytest.approx(result.test)


def test_training_leaves_the_settings_of_torch_alone(result: Result) -> None:
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_folder_with_a_run_is_not_touched(result: Result) -> None:
    before = {file: file.stat().st_mtime_ns for file in result.folder.iterdir()}
    with pytest.raises(InputError, match="already contains a run: add --resume to continue it"):
        train(result.folder)
    assert {file: file.stat().st_mtime_ns for file in result.folder.iterdir()} == before


def test_a_finished_run_is_not_trained_further(result: Result, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(result.folder, folder)
    (folder / ".last.ckpt.123.part").write_bytes(b"half-written by a process that was killed")
    again = smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)
    assert again.test == result.test
    assert again.best_epoch == result.best_epoch
    assert lines(folder) == lines(result.folder)
    assert (folder / "last.ckpt").read_bytes() == (result.folder / "last.ckpt").read_bytes()
    assert record(folder)["epochs"] == 3
    assert not list(folder.glob(".*"))


def test_a_changed_setting_is_refused_by_name(result: Result) -> None:
    folder = str(result.folder)
    with pytest.raises(InputError, match=r"^--lr 0\.5: the run has 0\.001, and --resume keeps"):
        smpgnn.train("cycles", output=folder, resume=True, lr=0.5)
    with pytest.raises(InputError, match=r"^--(\w|-)+ .*: the run has"):
        smpgnn.train("cycles", output=folder, resume=True, preset="paper")
    with pytest.raises(InputError, match="is a run of 'cycles', not of 'zinc'"):
        smpgnn.train("zinc", output=folder, resume=True)
    with pytest.raises(InputError, match=r"^--resume: name the run"):
        smpgnn.train("cycles", resume=True)
    with pytest.raises(InputError, match=r"contains no run \(config\.yaml is missing\)"):
        smpgnn.train("cycles", output=folder + "-not", resume=True)


def test_early_stopping(tmp_path: Path) -> None:
    # Without a learning rate to speak of nothing improves after the first epoch.
    options = {"lr": 1e-12, "patience": 2, "epochs": 9, "schedule": "constant"}
    first = train(tmp_path / "run", **options)
    assert [line["epoch"] for line in lines(first.folder)] == [1, 2, 3]
    assert first.best_epoch == 1
    again = smpgnn.train("cycles", output=str(first.folder), resume=True, quiet=True)
    assert len(lines(first.folder)) == 3
    assert again.test == first.test


def test_plateau_lowers_the_rate_and_ends_the_run(tmp_path: Path) -> None:
    options = {"lr": 1e-12, "schedule": "plateau", "decay": 0.5, "decay_epochs": 1, "epochs": 20}
    first = train(tmp_path / "run", min_lr=0.3e-12, **options)
    rates = [line["lr"] for line in lines(first.folder)]
    assert rates == pytest.approx([1e-12] * 3 + [0.5e-12] * 2)
    smpgnn.train("cycles", output=str(first.folder), resume=True, quiet=True)
    assert len(lines(first.folder)) == 5


@pytest.mark.parametrize(
    ("optimizer", "schedule", "rates"),
    [
        ("sgd", "constant", [1.0, 1.0, 1.0]),
        ("adam", "step", [1.0, 1.0, 0.25]),
        ("adamw", "exponential", [1.0, 0.5, 0.25]),
    ],
)
def test_optimisers_follow_their_schedules(
    tmp_path: Path, schedule: str, rates: list[float], optimizer: str
) -> None:
    made = smpgnn.train(
        "graphs",
        rings(),
        output=str(tmp_path / "run"),
        quiet=True,
        epochs=3,
        lr=1e-3,
        schedule=schedule,
        optimizer=optimizer,
        decay=0.25,
        decay_epochs=2,
        **GRAPHS,
    )
    found = lines(made.folder)
    assert [line["lr"] for line in found] == pytest.approx([1e-3 * rate for rate in rates])
    assert found[0]["train_loss"] != found[1]["train_loss"]
    state = torch.load(made.folder / "last.ckpt", weights_only=True)["optimizer_states"][0]
    group = state["param_groups"][0]
    assert ("momentum" in group) == (optimizer == "sgd")
    assert group.get("decoupled_weight_decay", False) == (optimizer == "adamw")


@pytest.mark.parametrize(
    ("model", "norm"),
    sweep(
        MODELS,
        ["batch", "layer", "none"],
        always=lambda model, norm: norm == "batch" or model in ("smp", "gin", "gated-gcn"),
    ),
)
def test_every_network_trains_with_every_norm(
    tmp_path: Path, model: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "draw_curves", lambda *_: None)  # takes most of the time
    made = smpgnn.train(
        "graphs", rings(), output=str(tmp_path / "run"), quiet=True, epochs=1, model=model,
        norm=norm, **GRAPHS,
    )  # fmt: skip
    assert made.saved.spec.options.model == model
    assert made.saved.spec.options.norm == norm
    assert 0 < made.test["mae"] < 10


@pytest.mark.parametrize("model", ["smp", "fast-smp"])
def test_local_contexts_train_and_come_back(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from smpgnn.cli.main import run

    options = {**CYCLES, "epochs": 2, "model": model, "identifiers": "local", "context_radius": 1}
    folder = tmp_path / "run"
    assert run(["train", "cycles", *words(options), "--output", str(folder)]) == 0
    saved = load_model(folder)
    assert (saved.spec.options.identifiers, saved.spec.options.context_radius) == ("local", 1)
    assert saved.network.options.context_radius == 1
    assert read_config(folder / "config.yaml")["context_radius"] == 1
    assert 0 <= record(folder)["test"]["accuracy"] <= 1
    made = train(tmp_path / "same", **{**options, "context_radius": 1})
    for one, two in zip(saved.network.parameters(), made.saved.network.parameters(), strict=True):
        assert torch.equal(one, two)


def test_bfloat16_trains(tmp_path: Path) -> None:
    made = smpgnn.train(
        "graphs", rings(), output=str(tmp_path / "run"), quiet=True, epochs=3,
        precision="bfloat16", **GRAPHS,
    )  # fmt: skip
    exact = smpgnn.train(
        "graphs", rings(), output=str(tmp_path / "exact"), quiet=True, epochs=3, **GRAPHS
    )
    ours, theirs = lines(made.folder), lines(exact.folder)
    assert ours != theirs
    assert ours[0]["train_loss"] == pytest.approx(theirs[0]["train_loss"], rel=0.1)
    weights = load_model(made.folder).network.state_dict().values()
    assert all(w.dtype == torch.float32 for w in weights if w.is_floating_point())


def test_batches_by_rows_see_every_graph_in_every_epoch(tmp_path: Path) -> None:
    # The number of batches differs from epoch to epoch, which Lightning must be told.
    seen: list[int] = []
    counts = set()
    take = GraphModule.transfer_batch_to_device

    def counting(self: Any, batch: Any, device: Any, index: int) -> Any:
        if torch.is_grad_enabled():
            seen.append(len(batch))
        return take(self, batch, device, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphModule, "transfer_batch_to_device", counting)
        made = smpgnn.train(
            "graphs", rings(40), output=str(tmp_path / "run"), quiet=True, epochs=6,
            batch_rows=90, model="smp", identifiers="onehot", **{**GRAPHS, "batch_size": 10},
        )  # fmt: skip
    assert sum(seen) == 6 * 32
    assert len(lines(made.folder)) == 6
    start = 0
    for _ in range(6):
        total = count = 0
        while total < 32:
            total, count = total + seen[start], count + 1
            start += 1
        assert total == 32
        counts.add(count)
    assert len(counts) > 1  # else this test shows nothing


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training diverged in epoch \d .*lower --lr \(now 1000"):
        train(tmp_path / "run", lr=1e3, clip=0.0, schedule="constant", optimizer="sgd")


def test_a_training_part_of_one_graph(tmp_path: Path) -> None:
    graphs = [ring(4, y=torch.tensor(float(i))) for i in range(3)]
    made = smpgnn.train(
        "graphs", graphs, output=str(tmp_path / "run"), quiet=True, epochs=2, task="regression",
        **GRAPHS,
    )  # fmt: skip
    assert made.test["mae"] >= 0


def test_a_data_set_of_pytorch_geometric(tmp_path: Path) -> None:
    graphs = FakeDataset(12, avg_num_nodes=6, num_channels=3, num_classes=2)
    made = smpgnn.train("graphs", graphs, output=str(tmp_path), quiet=True, epochs=1, **GRAPHS)
    assert len(smpgnn.load(made.folder).predict(graphs[:5])) == 5


def test_the_parts_keep_their_targets_when_some_are_missing(tmp_path: Path) -> None:
    graphs = rings(12)
    for graph in graphs:
        graph.y = torch.tensor([[float(graph.x[:, 0].mean()), float("nan")]])
    for graph in graphs[:10]:
        graph.y[0, 1] = float(graph.num_nodes)
    made = smpgnn.train(
        "graphs", graphs, output=str(tmp_path / "run"), quiet=True, epochs=2,
        targets=["log.P", "size"], **GRAPHS,
    )  # fmt: skip
    assert {"mae", "mse", "mae log.P"} <= set(made.test)
    assert "val_mae log.P" in lines(made.folder)[0]


def test_a_part_without_a_known_target_is_refused() -> None:
    graphs = rings(12)
    for graph in graphs[2:]:
        graph.y = torch.tensor(float("nan"))
    with pytest.raises(InputError, match=r"the (validation|test) split has no known target"):
        smpgnn.train("graphs", graphs, task="regression", quiet=True)


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
        ({"RANK": "2", "LOCAL_RANK": "0"}, False),
        ({"SLURM_PROCID": "3"}, False),
    ],
)
def test_one_process_of_all_is_the_first(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], first: bool
) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert first_process() == first


def test_processes_that_do_not_match_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="--devices 1 --nodes 1: 2 processes were started"):
        train(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_batches_that_fit_the_memory_are_kept_for_the_rest_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 2**24)
    made = train(tmp_path / "run", auto_batch=True, epochs=1)
    options = RunFolder(made.folder).read_options()
    assert options.batch_rows > 0
    assert not options.auto_batch
    # the same words with resume go on with the rows that were found then
    again = smpgnn.train(
        "cycles", output=str(made.folder), auto_batch=True, resume=True, quiet=True
    )
    assert again.test == made.test
    assert RunFolder(made.folder).read_options() == options
    with pytest.raises(InputError, match="--auto-batch: works with one process only"):
        train(tmp_path / "other", auto_batch=True, devices=2)
