"""model.safetensors and last.ckpt: whole, refused if foreign, and unable to run anything."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_runs import CYCLES, lines, record

import smpgnn
from smpgnn.errors import InputError
from smpgnn.training.saved import FORMAT, copied, load_model, pick_device, save_model, to_cpu
from smpgnn.training.train import Result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("saved") / "run"
    return smpgnn.train("cycles", output=str(folder), epochs=1, quiet=True, **CYCLES)


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_model_comes_back_as_it_was(result: Result, tmp_path: Path) -> None:
    again = load_model(result.folder)
    save_model(tmp_path / "m.safetensors", again)
    other = load_model(tmp_path / "m.safetensors")
    assert (other.spec, other.task, other.source) == (again.spec, again.task, again.source)
    theirs = other.network.state_dict()
    for name, value in again.network.state_dict().items():
        assert torch.equal(value, theirs[name])
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]


def content(result: Result) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    saved = load_model(result.folder)
    description = {
        "spec": saved.spec.to_dict(), "task": saved.task.to_dict(), "source": saved.source
    }  # fmt: skip
    return load_file(result.folder / "model.safetensors"), description


def damage(kind: str, result: Result, path: Path) -> None:
    weights, description = content(result)
    header = {"format": FORMAT, "content": json.dumps(description)}
    whole = (result.folder / "model.safetensors").read_bytes()
    if kind == "text":
        path.write_text("hello")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Bomb(path.with_name("boom"))))
    elif kind == "foreign":
        save_file(weights, path)
    elif kind == "no content":
        save_file(weights, path, {"format": FORMAT})
    elif kind == "not json":
        save_file(weights, path, {"format": FORMAT, "content": "__import__('os')"})
    elif kind == "a list":
        save_file(weights, path, {"format": FORMAT, "content": "[1]"})
    elif kind == "odd name":
        save_file({**weights, "../../etc/passwd": torch.zeros(1)}, path, header)
    elif kind == "missing weights":
        save_file({"a": torch.zeros(1)}, path, header)
    else:
        part, key, value = {
            "unknown model": ("spec", "model", "os.system"),
            "unknown setting": ("spec", "evil", 1),
            "negative width": ("spec", "hidden_channels", -1),
            "width is text": ("spec", "hidden_channels", "8"),
            "unknown task": ("task", "kind", "builtins.eval"),
            "unknown source": ("source", "kind", "../x"),
            "absurd width": ("spec", "hidden_channels", 10**15),
        }[kind]
        description[part][key] = value
        save_file(weights, path, {"format": FORMAT, "content": json.dumps(description)})


@pytest.mark.parametrize(
    "kind",
    ["text", "empty", "cut", "pickle", "foreign", "no content", "not json", "a list", "odd name",
     "missing weights", "unknown model", "unknown setting", "negative width", "width is text",
     "unknown task", "unknown source", "absurd width"],
)  # fmt: skip
def test_a_bad_model_is_one_sentence(kind: str, result: Result, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    damage(kind, result, path)
    with pytest.raises(InputError) as caught:
        smpgnn.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "boom").exists()


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        smpgnn.load(tmp_path / "none")
    with pytest.raises(InputError, match=r"contains no model\.safetensors"):
        smpgnn.load(tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_one_sentence(result: Result) -> None:
    with pytest.raises(InputError, match="--device cuda: this machine has no usable GPU"):
        smpgnn.load(result.folder, device="cuda")
    assert pick_device("auto").type == "cpu"
    with pytest.raises(InputError, match="must be one of auto, cpu, cuda, mps, not 'tpu'"):
        pick_device("tpu")


def resume(folder: Path) -> Result:
    return smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)


@pytest.fixture
def run(result: Result, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    for file in result.folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_checkpoint_holds_plain_values(run: Path) -> None:
    loaded = torch.load(run / "last.ckpt", weights_only=True)
    assert loaded["epoch"] == 0
    assert resume(run).test == record(run)["test"]


@pytest.mark.parametrize("kind", ["cut", "empty", "text", "pickle", "torch pickle", "zip", "other"])
def test_a_bad_checkpoint_is_one_sentence_and_runs_nothing(kind: str, run: Path) -> None:
    path, before = run / "last.ckpt", lines(run)
    whole = path.read_bytes()
    if kind == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("hello\n")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"state_dict": Bomb(run / "boom")}))
    elif kind == "torch pickle":
        torch.save({**torch.load(path, weights_only=True), "epoch": Bomb(run / "boom")}, path)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps(Bomb(run / "boom")))
    else:
        torch.save({"state_dict": {"a": torch.zeros(2)}}, path)
    with pytest.raises(InputError, match=r"last\.ckpt: is .*: delete it to restart the run\.$"):
        resume(run)
    assert not (run / "boom").exists()
    assert lines(run) == before
    path.unlink()
    assert resume(run).test  # as the sentence says


def test_the_payload_of_these_tests_is_live(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "boom")))
    assert (tmp_path / "boom").exists()


def test_tensors_are_copied_together() -> None:
    values = [
        torch.randn(3, 2).requires_grad_(),
        torch.tensor(5.0),
        torch.arange(4),
        torch.randn(2, 3).T,
        torch.empty(0, 7),
        torch.tensor([True, False]),
    ]
    found = copied(values)
    for one, other in zip(found, values, strict=True):
        assert torch.equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert not one.requires_grad
        assert one.untyped_storage().nbytes() == one.nbytes  # of its own
    assert copied([]) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nested_tensors_come_to_the_cpu() -> None:
    values = {"a": [torch.ones(2, device="cuda"), torch.zeros(1)], "b": {1: ("c", 2.0)}}
    found = to_cpu(values)
    assert found["b"] == values["b"]
    assert found["a"][0].device.type == "cpu"
    assert torch.equal(found["a"][0], torch.ones(2))
    assert found["a"][1] is values["a"][1]
