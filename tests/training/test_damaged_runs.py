"""Files of a run that are flipped, cut, foreign or edited: one sentence, at once, in no memory."""

from __future__ import annotations

import json
import random
import resource
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import Fork, finish
from safetensors.torch import load_file, save_file
from small_runs import CYCLES, lines, rings

import smpgnn
from smpgnn.checksums import file_digest, to_json
from smpgnn.config.models import MODELS
from smpgnn.config.options import GraphsOptions
from smpgnn.errors import InputError
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import FORMAT, OLD_FORMAT, load_model, save_model
from smpgnn.training.train import Result

OLD = Path(__file__).parent / "old_run"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("damaged") / "run"
    return smpgnn.train("cycles", output=str(folder), epochs=2, quiet=True, **CYCLES)


@pytest.fixture
def run(result: Result, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(result.folder, tmp_path / "run"))


def resume(folder: Path) -> Result:
    return smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)


def flips(path: Path, count: int, first: int = 0) -> Iterator[int]:
    """Flip one bit after the other, at so many places from `first` on; in the end none."""
    whole = path.read_bytes()
    random.seed(0)
    places = random.sample(range(first, len(whole)), min(count, len(whole) - first))
    for place in places:
        copy = bytearray(whole)
        copy[place] ^= 1 << random.randrange(8)
        path.write_bytes(copy)
        yield place
    path.write_bytes(whole)


def refused(call: Callable[[], Any]) -> bool:
    """Whether the call is refused in one sentence; any other exception is a failure."""
    try:
        call()
    except InputError as error:
        return "\n" not in str(error)
    return False


def test_every_flip_in_a_model_is_refused(run: Path) -> None:
    path = run / "model.safetensors"
    header = int.from_bytes(path.read_bytes()[:8], "little")
    for count, first in ((200, 0), (200, header)):
        for place in flips(path, count, first):
            assert refused(lambda: load_model(path)), place
    load_model(path)


def test_every_flip_in_a_checkpoint_is_refused(run: Path) -> None:
    path, before = run / "last.ckpt", lines(run)
    end = path.stat().st_size - 73  # the line with the checksum
    for count, first in ((12, 0), (4, end)):
        for place in flips(path, count, first):
            assert refused(lambda: resume(run)), place
    assert lines(run) == before
    resume(run)


@pytest.mark.parametrize("name", ["run.json", "data.json", "splits.csv", "metrics.csv"])
def test_every_flip_in_a_record_is_refused_or_harmless(run: Path, name: str) -> None:
    folder = RunFolder(run)

    def read() -> Any:
        saved = folder.read_data()
        assert saved is not None
        options = folder.read_options()
        record = {k: v for k, v in folder.read_record().items() if not k.startswith("sha")}
        return (
            saved.fingerprint, saved.splits.to_csv(), options, folder.read_metrics(),
            {k: record.get(k) for k in ("test", "validation", "best_epoch", "parameters")},
        )  # fmt: skip

    whole, found = read(), 0
    for place in flips(run / name, 250):
        if refused(read):
            found += 1
        else:
            assert read() == whole, place
    assert found > 0.8 * min(250, (run / name).stat().st_size)


def test_records_that_are_wrong_with_a_checksum_that_fits_are_refused(run: Path) -> None:
    folder = RunFolder(run)
    content = json.loads(folder.data.read_text())
    del content["sha256"]
    for wrong in ({"targets": "b"}, {"columns": [1]}, {"files": []}, {"inputs": 3}):
        folder.data.write_text(to_json({**content, **wrong}))
        with pytest.raises(InputError, match=r"data\.json: was changed or not written"):
            folder.read_data()
    for wrong_line in ("1,all", "1000000000000,train"):
        folder.splits.write_text(f"row,split\n{wrong_line}\n")
        folder.data.write_text(to_json({**content, "splits": file_digest(folder.splits)}))
        with pytest.raises(InputError, match=r"splits\.csv: was changed or damaged"):
            folder.read_data()


@pytest.mark.parametrize("name", ["run.json", "metrics.csv", "curves.png"])
def test_what_resume_writes_anew_does_not_stop_it(run: Path, result: Result, name: str) -> None:
    (run / name).write_bytes(b"hello")
    if name == "metrics.csv":
        with pytest.raises(
            InputError, match=r"metrics\.csv: was changed or damaged .* write it again"
        ):
            RunFolder(run).read_metrics()
    assert resume(run).test == result.test
    assert lines(run) == lines(result.folder)
    assert RunFolder(run).read_record()["test"] == result.test


def test_a_line_that_was_cut_in_a_run_without_checksums_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(shutil.copytree(OLD, tmp_path / "run"))
    assert folder.read_metrics()
    text = folder.metrics.read_text()
    folder.metrics.write_text(text.rstrip().rsplit(",", 1)[0] + "\n")
    with pytest.raises(InputError, match=r"metrics\.csv: was changed or damaged"):
        folder.read_metrics()


def test_a_checkpoint_without_a_checksum_is_refused_in_a_run_that_has_them(run: Path) -> None:
    path = run / "last.ckpt"
    path.write_bytes(path.read_bytes()[:-73])
    assert torch.load(path, weights_only=True)["epoch"] == 1  # whole, but who knows
    with pytest.raises(InputError, match=r"last\.ckpt: is damaged or not a checkpoint"):
        resume(run)


@pytest.mark.parametrize("missing", ["data.json", "splits.csv"])
def test_half_of_what_a_run_knows_of_its_data(run: Path, missing: str) -> None:
    (run / missing).unlink()
    with pytest.raises(InputError, match=rf"{missing}: is missing: restore it"):
        resume(run)


def test_an_edited_setting_is_named(run: Path, result: Result) -> None:
    config = run / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("lr: 0.001", "lr: 0.5"))
    with pytest.raises(InputError, match=r"config\.yaml: lr is 0\.5, but the run has 0\.001"):
        resume(run)
    config.write_text(text.replace("device: cpu", "device: auto"))  # where it runs may differ
    assert resume(run).test == result.test


RECORDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text for a number": lambda r: {**r, "parameters": "many"},
    "no results": lambda r: {k: v for k, v in r.items() if k != "test"},
    "results that are none": lambda r: {**r, "validation": [1]},
    "a metric that is text": lambda r: {**r, "test": {"accuracy": "good"}},
    "a list": lambda r: [r],
    "a number": lambda r: 7,
    "nothing": lambda r: {},
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_foreign_record_is_one_sentence(run: Path, what: str) -> None:
    path = run / "run.json"
    record = json.loads(path.read_text())
    del record["sha256"]
    path.write_text(json.dumps(RECORDS[what](record)))
    with pytest.raises(InputError, match=r"run\.json: .*restore it, or write it again"):
        RunFolder(run).read_record()


SPEC: dict[str, tuple[str, Any]] = {
    "a million layers": ("num_layers", 10**6),
    "layers beyond the tensors": ("num_layers", 5000),
    "a billion channels": ("hidden_channels", 10**9),
    "a wide head": ("extractor_channels", 10**8),
    "many features": ("in_channels", 10**9),
    "many towers": ("towers", 10**9),
    "many outputs": ("graph_outputs", 10**9),
    "no layers": ("num_layers", -1),
    "truth as text": ("residual", "yes"),
    "truth as a number": ("set_terms", 1),
    "text for a number": ("dropout", "little"),
    "not a number": ("set_scale", float("nan")),
    "a list": ("readout", ["max"]),
    "nothing": ("norm", None),
    "an unknown readout": ("readout", "loudest"),
}
TASK: dict[str, tuple[str, Any]] = {
    "no level": ("level", "edge"),
    "classes that are a number": ("classes", 2),
    "more classes than outputs": ("classes", ["a", "b", "c"]),
    "a class that is a number": ("classes", [1, 2]),
    "a monitor that is none": ("monitor", None),
    "more": ("evil", 1),
}
SOURCE: dict[str, tuple[str, Any]] = {
    "a schema that is text": ("schema", "x"),
    "a schema of another level": ("schema", {"level": "edge"}),
    "attributes that the network does not take": (
        "schema",
        {"level": "graph", "node_attributes": [{"name": "w", "kind": "number"}]},
    ),
    "a category without categories": (
        "schema",
        {"level": "graph", "edge_attributes": [{"name": "w", "kind": "category", "width": 3}]},
    ),
    "a column that is a number": ("smiles_column", 3),
}
HEADERS = [
    *(("spec", name, *SPEC[name]) for name in SPEC),
    *(("task", name, *TASK[name]) for name in TASK),
    *(("source", name, *SOURCE[name]) for name in SOURCE),
]


@pytest.mark.parametrize("form", [OLD_FORMAT, FORMAT])
@pytest.mark.parametrize(("part", "what", "key", "value"), HEADERS, ids=[h[1] for h in HEADERS])
def test_an_edited_header_is_one_sentence_in_little_memory(
    result: Result, tmp_path: Path, part: str, what: str, key: str, value: Any, form: str
) -> None:
    saved = load_model(result.folder)
    content: dict[str, Any] = {
        "spec": saved.spec.to_dict(), "task": saved.task.to_dict(), "source": {**saved.source}
    }  # fmt: skip
    content[part][key] = value
    weights = load_file(result.folder / "model.safetensors")
    path = tmp_path / "m.safetensors"
    save_file(weights, path, {"format": form, "content": json.dumps(content)})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as caught:
        smpgnn.load(path, device="cpu")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200_000  # KiB
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    said = "wrong checksum" if form == FORMAT else "does not fit this version of smpgnn"
    assert said in str(caught.value)


def test_a_header_nested_without_end(result: Result, tmp_path: Path) -> None:
    weights = load_file(result.folder / "model.safetensors")
    path = tmp_path / "m.safetensors"
    save_file(weights, path, {"format": OLD_FORMAT, "content": "[" * 200_000})
    with pytest.raises(InputError, match="does not fit this version"):
        smpgnn.load(path)


@pytest.mark.parametrize("model", MODELS)
def test_every_network_is_checked_before_it_is_built(model: str, tmp_path: Path) -> None:
    from smpgnn.data.pyg import graphs_from_pyg
    from smpgnn.data.targets import TargetSpec
    from smpgnn.training.own_data import prepare_store
    from smpgnn.training.saved import SavedModel

    options = GraphsOptions().changed(model=model, hidden_channels=8, num_layers=2)
    store = graphs_from_pyg(rings(12))
    prepared = prepare_store(options, store, TargetSpec("regression", ("y",)), None)
    saved = SavedModel(prepared.network(), prepared.spec, prepared.task, prepared.source)
    save_model(tmp_path / "m.safetensors", saved)
    again = load_model(tmp_path / "m.safetensors").network.state_dict()
    for name, value in saved.network.state_dict().items():
        assert torch.equal(value, again[name])
        assert again[name].device.type == "cpu"
    header = json.dumps(
        {
            "spec": {**saved.spec.to_dict(), "hidden_channels": 10**7},
            "task": saved.task.to_dict(),
            "source": saved.source,
        }
    )
    path = tmp_path / "wide.safetensors"
    save_file(dict(saved.network.state_dict()), path, {"format": OLD_FORMAT, "content": header})
    with pytest.raises(InputError, match="does not fit this version of smpgnn"):
        load_model(path)


def test_an_old_model_that_is_flipped_ends_in_a_sentence_or_loads(tmp_path: Path) -> None:
    path = Path(shutil.copy(OLD / "model.safetensors", tmp_path))
    found = [refused(lambda: load_model(path)) for _ in flips(path, 200)]
    assert 0 < sum(found) < 200  # it has no checksum


def test_an_old_checkpoint_with_a_flipped_byte_is_refused_or_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (OLD / "last.ckpt").read_bytes()
    random.seed(3)
    for number in range(10):
        folder = tmp_path / str(number)
        shutil.copytree(OLD, folder)
        monkeypatch.chdir(folder)
        copy = bytearray(whole)
        copy[random.randrange(len(whole))] ^= 1 << random.randrange(8)
        (folder / "last.ckpt").write_bytes(copy if number % 3 else copy[: 5000 * number])
        refused(lambda: smpgnn.train("molecules", output=".", resume=True, quiet=True))


@pytest.mark.parametrize("history", ["[{}]", '[{"epoch": "one"}]', "[1]", "7", "{", "null"])
def test_an_old_checkpoint_with_another_history_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    folder = Path(shutil.copytree(OLD, tmp_path / "run"))
    monkeypatch.chdir(folder)
    content = torch.load(folder / "last.ckpt", weights_only=True)
    content["callbacks"]["Keeper"]["history"] = history
    torch.save(content, folder / "last.ckpt")
    with pytest.raises(InputError, match=r"last\.ckpt: is damaged or not a checkpoint"):
        smpgnn.train("molecules", output=".", resume=True, quiet=True)


def test_a_packed_checkpoint_that_would_grow_is_refused(run: Path) -> None:
    for name in ("data.json", "splits.csv"):
        (run / name).unlink()  # as in an old run, where no checksum is asked for
    with zipfile.ZipFile(run / "last.ckpt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\0" * 50_000_000)
    with pytest.raises(InputError, match=r"last\.ckpt: is damaged or not a checkpoint"):
        resume(run)


def test_the_command_line_says_one_sentence(run: Path) -> None:
    path = run / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)
    said = f"smpgnn: {path}: was changed or damaged (wrong checksum): train it or copy it again.\n"
    assert finish(Fork(["info", run])) == (2, "", said)
