"""The average of the weights: by hand, in a run, through interrupts, and what is kept of it."""

from __future__ import annotations

import signal
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import finish, start, wait_for_epochs
from safetensors.torch import load_file
from small_runs import CYCLES, lines, record, words
from torch import Tensor, nn

import smpgnn
from smpgnn.config.options import CyclesOptions, with_values
from smpgnn.data.base import Splits
from smpgnn.data.cycles import cycle_graphs
from smpgnn.errors import InputError
from smpgnn.training.average import WeightAverage
from smpgnn.training.module import GraphModule
from smpgnn.training.prepare import assemble, prepare
from smpgnn.training.saved import load_model
from smpgnn.training.tasks import Classification
from smpgnn.training.train import Result, evaluate_store, train_run

EPOCHS = 30  # so many that the signal comes well before the end
SMALL = {**CYCLES, "epochs": EPOCHS, "lr": 0.01, "average": 0.9, "batch_size": 16}


def train(folder: Path, **options: Any) -> Result:
    values = {**SMALL, "epochs": 3, **options}
    return smpgnn.train("cycles", output=str(folder), quiet=True, **values)


def test_the_average_by_hand() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double()
    average = WeightAverage(network, 0.9)
    average.follow(network)
    names = list(network.state_dict())
    expected = {name: value.clone() for name, value in network.state_dict().items()}
    generator = torch.Generator().manual_seed(0)
    for step, decay in enumerate((2 / 11, 3 / 12, 4 / 13), start=1):
        for value in network.state_dict().values():
            if value.is_floating_point():
                noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(noise)
            else:
                value += 7
        average.update(step)
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                expected[name] = decay * expected[name] + (1 - decay) * value
            else:
                expected[name] = value.clone()
    found = average.network.state_dict()
    assert list(found) == names
    for name in names:
        assert torch.allclose(found[name].double(), expected[name].double(), rtol=1e-12, atol=1e-12)
    assert found["1.num_batches_tracked"] == 21
    assert not any(parameter.requires_grad for parameter in average.parameters())


def test_the_decay_rises_to_the_one_given() -> None:
    average = WeightAverage(nn.Linear(1, 1), 0.99)
    found = [average.decay_at(step) for step in (1, 10, 890, 891, 10_000)]
    assert found == [2 / 11, 11 / 20, 0.99, 0.99, 0.99]


def weights_of_steps(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """Filled, while a run goes on, with what the network is after each step."""
    seen: list[dict[str, Tensor]] = []
    whole = GraphModule.on_train_batch_end

    def noted(self: GraphModule, *arguments: Any) -> None:
        seen.append({name: v.clone() for name, v in self.network.state_dict().items()})
        whole(self, *arguments)

    monkeypatch.setattr(GraphModule, "on_train_batch_end", noted)
    return seen


def test_a_run_validates_keeps_and_tests_the_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = weights_of_steps(monkeypatch)
    result = train(tmp_path / "run", epochs=4)
    options = with_values(CyclesOptions(), {**SMALL, "epochs": 4}, "test")
    prepared = prepare(options)
    torch.manual_seed(options.seed)
    network = prepared.network()
    expected = {name: value.clone() for name, value in network.state_dict().items()}
    assert len(seen) == 4 * 4
    accuracies = []
    for step, after in enumerate(seen, start=1):
        decay = min(0.9, (1 + step) / (10 + step))
        for name, value in after.items():
            mixed = value.is_floating_point()
            expected[name] = decay * expected[name] + (1 - decay) * value if mixed else value
        if step % 4 == 0:
            network.load_state_dict(expected)
            found = evaluate_store(
                network, prepared.task, prepared.splits.val, 64, torch.device("cpu")
            )
            accuracies.append(found["accuracy"])
        if step == 4 * result.best_epoch:
            kept = load_model(result.folder).network.state_dict()
            for name, value in kept.items():
                assert torch.allclose(value, expected[name], rtol=1e-4, atol=1e-6), name
            # and the weights of the last step are others
            assert any(not torch.equal(kept[name], after[name]) for name in kept)
    assert [line["val_accuracy"] for line in lines(result.folder)] == pytest.approx(accuracies)
    assert result.validation["accuracy"] == pytest.approx(max(accuracies))


def test_the_training_itself_is_the_same_with_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = weights_of_steps(monkeypatch)
    with_average = train(tmp_path / "with")
    first = list(seen)
    seen.clear()
    without = train(tmp_path / "without", average=0.0)
    for one, other in zip(first, seen, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    ours, theirs = lines(with_average.folder), lines(without.folder)
    assert [line["train_loss"] for line in ours] == [line["train_loss"] for line in theirs]
    state = torch.load(without.folder / "last.ckpt", weights_only=True)["state_dict"]
    assert not any(name.startswith("average.") for name in state)


def test_a_run_with_an_average_goes_on_after_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "half"
    process = start(["train", "cycles", *words(SMALL), "--output", str(folder)])
    wait_for_epochs(process, folder, 2)
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert 2 <= len(lines(folder)) < EPOCHS
    smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)
    whole = train(tmp_path / "whole", epochs=EPOCHS)
    assert lines(folder) == lines(whole.folder)
    assert record(folder)["test"] == record(whole.folder)["test"]
    ours, theirs = (load_file(run / "model.safetensors") for run in (folder, whole.folder))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    last = [torch.load(run / "last.ckpt", weights_only=True) for run in (folder, whole.folder)]
    for name, value in last[1]["state_dict"].items():
        assert torch.equal(last[0]["state_dict"][name], value), name


@pytest.mark.parametrize("value", [1.0, -0.1])
def test_a_decay_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"^train: average must (be below 1|not be negative)"):
        smpgnn.train("cycles", average=value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_steps_validate_the_average_too(tmp_path: Path) -> None:
    train_part, val = (cycle_graphs(4, 12, n, seed=seed) for n, seed in ((60, 0), (30, 1)))
    results = {}
    for name, cuda_graphs in (("recorded", True), ("plain", False)):
        values = {"k": 4, "n": 12, "epochs": 3, "batch_size": 16, "hidden_channels": 8}
        values |= {"num_layers": 3, "device": "cuda", "average": 0.9, "cuda_graphs": cuda_graphs}
        options = with_values(CyclesOptions(), {**values, "output": str(tmp_path / name)}, "test")
        prepared = assemble(
            options, Splits(train_part, val, val), Classification(), {"kind": "graphs"}
        )
        results[name] = train_run(options, prepared=prepared, quiet=True)
    recorded, plain = (deepcopy(results[name].saved.network.cpu()) for name in results)
    for one, other in zip(recorded.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-2, atol=1e-3)
    # the accuracy of the epoch that was kept is that of the network that was kept
    found = max(line["val_accuracy"] for line in lines(tmp_path / "recorded"))
    assert results["recorded"].validation["accuracy"] == pytest.approx(found)
