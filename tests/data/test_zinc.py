"""ZINC equals PyG's molecules; nothing is written outside the cache."""

from __future__ import annotations

import os
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torch import Tensor

from smpgnn.cli.main import run
from smpgnn.config.options import TASKS
from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.data.zinc import zinc_splits
from smpgnn.errors import InputError

SPLITS = ("train", "val", "test")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no data folder in the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SMPGNN_DATA", raising=False)
    return tmp_path / "cache" / "smpgnn" / "zinc"


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Splits, Path]:
    """The benchmark and the folder it came from."""
    folder = Path(os.environ.get("SMPGNN_DATA", "")) / "zinc"
    if "SMPGNN_DATA" not in os.environ or not (folder / "raw").is_dir():
        pytest.skip("SMPGNN_DATA does not name a folder with zinc/raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        before = contents(folder)
        splits = zinc_splits(folder.parent)
        assert contents(folder) == before
        return splits, folder


def trusted(data_dir: str | Path | None = None, *, subset: bool = True) -> Splits:
    """The data, with trust in the raw files of the folder."""
    return zinc_splits(data_dir, subset=subset, trust_pickle=True)


def molecule(atoms: list[int], bonds: list[tuple[int, int, int]], y: float) -> dict[str, Tensor]:
    """One entry of a raw file of PyG: atom types, matrix of bond types, target."""
    matrix = torch.zeros(len(atoms), len(atoms), dtype=torch.int8)
    for a, b, kind in bonds:
        matrix[a, b] = matrix[b, a] = kind
    return {
        "atom_type": torch.tensor(atoms, dtype=torch.int8),
        "bond_type": matrix,
        "logP_SA_cycle_normalized": torch.tensor([y]),
    }


MOLECULES = {
    "train": [
        molecule([0, 5, 27], [(0, 1, 1), (1, 2, 3)], 0.5),
        molecule([1], [], -1.0),
        molecule([2, 2], [(0, 1, 2)], 2.25),
    ],
    "val": [molecule([3, 4], [(0, 1, 1)], 1.0)],
    "test": [molecule([6, 7, 8], [(0, 2, 1), (0, 1, 2)], -0.25)],
}
INDEX = {"train": [2, 0, 1], "val": [0], "test": [0]}


def write_raw(raw: Path) -> Path:
    raw.mkdir(parents=True)
    for split in SPLITS:
        (raw / f"{split}.pickle").write_bytes(pickle.dumps(MOLECULES[split]))
        (raw / f"{split}.index").write_text(",".join(map(str, INDEX[split])) + "\n")
    return raw


def download(self: Any) -> None:
    """Replaces PyG's download."""
    folder = Path(self.raw_dir)
    folder.rmdir()
    write_raw(folder)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """All paths in a folder with size and modification time."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in [folder, *folder.rglob("*")]
    }


def assert_same(a: Splits, b: Splits) -> None:
    for split in SPLITS:
        for name in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr", "y"):
            left, right = (getattr(getattr(s, split), name) for s in (a, b))
            assert left.dtype == right.dtype
            assert torch.equal(left, right)


def test_a_tiny_raw_folder_by_hand(tmp_path: Path) -> None:
    write_raw(tmp_path / "data" / "zinc" / "raw")
    train = trusted(tmp_path / "data").train
    assert train.num_nodes.tolist() == [2, 3, 1]  # in the order of the index file
    assert train.num_edges.tolist() == [2, 4, 0]
    assert train.edge_index.tolist() == [[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]]
    assert train.x.dtype == train.edge_attr.dtype == torch.uint8
    assert train.x.shape == (6, 28)
    assert train.x.argmax(1).tolist() == [2, 2, 0, 5, 27, 1]
    assert train.x.sum(1).tolist() == [1] * 6
    assert train.edge_attr.shape == (6, 3)
    assert train.edge_attr.argmax(1).tolist() == [1, 1, 0, 0, 2, 2]
    assert train.y.tolist() == [[2.25], [0.5], [-1.0]]
    assert train.y_node is None
    val = trusted(tmp_path / "data").val  # of one molecule, which PyG keeps in another form
    assert (val.node_ptr.tolist(), val.edge_ptr.tolist(), val.y.tolist()) == (
        [0, 2],
        [0, 2],
        [[1.0]],
    )


def test_without_subset_the_index_is_not_used(tmp_path: Path) -> None:
    write_raw(tmp_path / "raw")
    assert trusted(tmp_path, subset=False).train.y.view(-1).tolist() == [0.5, -1.0, 2.25]
    assert trusted(tmp_path, subset=True).train.y.view(-1).tolist() == [2.25, 0.5, -1.0]


def test_folder_comes_from_the_argument_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_raw(tmp_path / "a" / "zinc" / "raw")
    write_raw(tmp_path / "b" / "raw")
    expected = trusted(tmp_path / "a")
    assert_same(trusted(str(tmp_path / "b")), expected)
    monkeypatch.setenv("SMPGNN_DATA", str(tmp_path / "a"))
    assert_same(trusted(), expected)
    monkeypatch.setenv("SMPGNN_DATA", str(tmp_path / "nowhere"))
    assert_same(trusted(tmp_path / "a"), expected)
    with pytest.raises(InputError, match=r"SMPGNN_DATA is .*nowhere"):
        trusted()


def test_given_folder_is_only_read(tmp_path: Path, cache: Path) -> None:
    write_raw(tmp_path / "data" / "zinc" / "raw")
    before = contents(tmp_path / "data")
    trusted(tmp_path / "data")
    assert contents(tmp_path / "data") == before
    # What is left in the cache is the packed file and no working folder.
    assert [path.suffix for path in cache.iterdir()] == [".npz"]


def test_what_a_killed_download_left_is_removed_later(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("working-old", "working-now"):
        (cache / name).mkdir(parents=True)
    (cache / "working-old" / "file").write_text("")
    os.utime(cache / "working-old", (0, 0))
    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", download)
    zinc_splits()
    assert sorted(path.suffix or path.name for path in cache.iterdir()) == [
        ".npz",
        "raw",
        "working-now",
    ]


def test_second_time_comes_from_the_packed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_raw(tmp_path / "raw")
    first = trusted(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pickle, "load", _never)
        assert_same(trusted(tmp_path), first)


def test_damaged_packed_file_is_made_again(tmp_path: Path, cache: Path) -> None:
    write_raw(tmp_path / "raw")
    first = trusted(tmp_path)
    (packed,) = cache.iterdir()
    packed.write_bytes(packed.read_bytes()[:50])
    assert_same(trusted(tmp_path), first)


def test_changed_raw_files_are_read_again(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw")
    assert len(trusted(tmp_path).train) == 3
    (raw / "train.index").write_text("0,1\n")
    assert len(trusted(tmp_path).train) == 2


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"not a pickle",
        pickle.dumps(MOLECULES["train"])[:-40],
        pickle.dumps([{"atom_type": torch.zeros(1)}]),
        pickle.dumps([molecule([28], [], 0.0)] * 3),
        pickle.dumps([molecule([1, 1], [(0, 1, 4)], 0.0)] * 3),
    ],
    ids=["empty", "garbage", "cut", "keys", "atom type", "bond type"],
)
def test_damaged_raw_file_is_an_input_error(tmp_path: Path, cache: Path, damage: bytes) -> None:
    raw = write_raw(tmp_path / "raw")
    (raw / "train.pickle").write_bytes(damage)
    with pytest.raises(InputError, match=r"ZINC files.*again"):
        trusted(tmp_path)
    assert list(cache.iterdir()) == []


def test_missing_raw_file_is_named(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw")
    (raw / "val.index").unlink()
    with pytest.raises(InputError, match=r"lacks val\.index"):
        trusted(tmp_path)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data_dir is .*nowhere"):
        trusted(tmp_path / "nowhere")


def test_cache_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        trusted(tmp_path)


def test_failed_download_names_the_remedy(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", fail)
    with pytest.raises(InputError, match=r"no route to host.*--data-dir or SMPGNN_DATA\.$"):
        trusted(tmp_path)
    assert list(cache.iterdir()) == []


def test_download_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", download)
    first = trusted()
    assert sorted(path.suffix for path in cache.iterdir()) == ["", ".npz"]
    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", _never)
    assert_same(trusted(), first)
    assert len(trusted(subset=False).train) == 3


def test_benchmark_has_the_known_numbers(real: tuple[Splits, Path]) -> None:
    splits, _ = real
    stores = [splits.train, splits.val, splits.test]
    assert [len(store) for store in stores] == [10_000, 1_000, 1_000]
    train = splits.train
    assert (int(train.num_nodes[0]), int(train.num_edges[0])) == (29, 64)
    assert float(train.y[0]) == pytest.approx(0.8350, abs=5e-5)
    assert float(train.y.mean()) == pytest.approx(0.0153, abs=5e-5)
    assert float(train.y.std()) == pytest.approx(2.0109, abs=5e-5)
    nodes = torch.cat([store.num_nodes for store in stores]).double()
    edges = torch.cat([store.num_edges for store in stores]).double()
    assert float(nodes.mean()) == pytest.approx(23.15, abs=1e-2)
    assert float(edges.mean()) == pytest.approx(49.83, abs=1e-2)


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_benchmark_equals_pyg_sample_by_sample(
    real: tuple[Splits, Path], tmp_path: Path, count: int
) -> None:
    from torch_geometric.datasets import ZINC

    (tmp_path / "raw").mkdir()
    for split in SPLITS:
        with (real[1] / "raw" / f"{split}.pickle").open("rb") as file:
            molecules = pickle.load(file)[:count]
        (tmp_path / "raw" / f"{split}.pickle").write_bytes(pickle.dumps(molecules))
        index = ",".join(str(k) for k in reversed(range(len(molecules))))
        (tmp_path / "raw" / f"{split}.index").write_text(index + "\n")
    splits = trusted(tmp_path)
    for split in SPLITS:
        store: GraphStore = getattr(splits, split)
        dataset = ZINC(str(tmp_path), subset=True, split=split)
        assert len(dataset) == len(store)
        atoms, bonds = store.x.argmax(1), store.edge_attr.argmax(1) + 1
        node_ptr, edge_ptr = store.node_ptr.tolist(), store.edge_ptr.tolist()
        for g, data in enumerate(dataset):
            nodes, edges = slice(*node_ptr[g : g + 2]), slice(*edge_ptr[g : g + 2])
            assert torch.equal(data.x[:, 0], atoms[nodes])
            assert torch.equal(data.edge_index, store.edge_index[:, edges])
            assert torch.equal(data.edge_attr, bonds[edges])
            assert torch.equal(data.y, store.y[g])


def _never(self: object) -> None:
    raise AssertionError("must not be called")


# --- pickles are opened only where they are trusted ---


class Malicious:
    """An object whose pickle creates a folder when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.mark),)


def write_malicious(raw: Path, mark: Path) -> Path:
    write_raw(raw)
    for split in SPLITS:
        (raw / f"{split}.pickle").write_bytes(pickle.dumps(Malicious(mark)))
    return raw


@pytest.mark.parametrize("subset", [True, False])
def test_a_pickle_of_a_folder_is_not_read(tmp_path: Path, cache: Path, subset: bool) -> None:
    mark = tmp_path / "mark"
    raw = write_malicious(tmp_path / "data" / "zinc" / "raw", mark)
    with pytest.raises(InputError, match=r"train\.pickle: is a pickle.* --trust-pickle") as caught:
        zinc_splits(tmp_path / "data", subset=subset)
    assert str(raw) in str(caught.value)
    assert not mark.exists()
    assert list(cache.iterdir()) == []
    with pytest.raises(InputError, match="cannot be read"):  # the pickle runs its code
        trusted(tmp_path / "data", subset=subset)
    assert mark.exists()


def test_trust_is_needed_once(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw")
    first = trusted(tmp_path)
    assert_same(zinc_splits(tmp_path), first)
    (raw / "train.index").write_text("0,1\n")
    with pytest.raises(InputError, match="--trust-pickle"):
        zinc_splits(tmp_path)


def test_trust_is_that_of_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_raw(tmp_path / "raw")
    words = ["info", "zinc", "--data-dir", str(tmp_path)]
    with pytest.raises(InputError, match="--trust-pickle"):
        run(words)
    assert run([*words, "--trust-pickle"]) == 0
    assert "train       3 graphs" in capsys.readouterr().out
    assert run(words) == 0
    options = [entry.name for entry in fields(TASKS["zinc"])]
    assert "trust_pickle" not in options  # so no config file and no run folder can give it


def test_what_was_downloaded_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", download)
    assert len(zinc_splits().train) == 3
    assert len(zinc_splits(subset=False).train) == 3


# --- plain arrays ---


def arrays_of(splits: Splits) -> dict[str, np.ndarray[Any, Any]]:
    """The content of zinc12k.npz."""
    stores = [splits.train, splits.val, splits.test]
    return {
        "split": np.repeat(np.arange(3), [len(store) for store in stores]).astype(np.uint8),
        "nodes": torch.cat([store.num_nodes for store in stores]).numpy().astype(np.int16),
        "edges": torch.cat([store.num_edges for store in stores]).numpy().astype(np.int16),
        "atom_type": torch.cat([store.x.argmax(1) for store in stores]).numpy().astype(np.int8),
        "edge_index": torch.cat([store.edge_index for store in stores], dim=1).numpy(),
        "bond_type": torch.cat([store.edge_attr.argmax(1) + 1 for store in stores]).numpy(),
        "y": torch.cat([store.y for store in stores]).flatten().numpy(),
    }


def test_arrays_are_taken_before_pickles(tmp_path: Path, cache: Path) -> None:
    expected = trusted(write_raw(tmp_path / "good" / "raw").parent)
    mark = tmp_path / "mark"
    write_malicious(tmp_path / "data" / "raw", mark)
    np.savez_compressed(tmp_path / "data" / "zinc12k.npz", **arrays_of(expected))
    before = contents(tmp_path / "data")
    assert_same(zinc_splits(tmp_path / "data"), expected)
    assert_same(trusted(tmp_path / "data"), expected)
    assert contents(tmp_path / "data") == before
    assert not mark.exists()
    with pytest.raises(InputError, match="--trust-pickle"):  # the arrays are those of the subset
        zinc_splits(tmp_path / "data", subset=False)


def test_the_order_of_the_splits_in_the_arrays_does_not_matter(tmp_path: Path) -> None:
    expected = trusted(write_raw(tmp_path / "good" / "raw").parent)
    stores = {"train": expected.val, "val": expected.test, "test": expected.train}
    arrays = {**arrays_of(Splits(**stores)), "split": np.array([1, 2, 0, 0, 0])}
    np.savez(tmp_path / "zinc12k.npz", **arrays)
    assert_same(zinc_splits(tmp_path), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"y": np.array([Malicious(Path("nowhere"))] * 5, dtype=object)},
        {"y": np.array([0.0, 1.0, np.nan, 2.0, 3.0], dtype=np.float32)},
        {"y": np.zeros(4, dtype=np.float32)},
        {"split": np.array([0, 0, 0, 0, 1])},
        {"split": np.array([0, 0, 0, 1, 3])},
        {"nodes": np.array([2, 3, 1, 2, 4])},
        {"nodes": np.array([2, 3, 1, 5, 0])},
        {"nodes": np.array([2.0, 3.0, 1.0, 2.0, 3.0])},
        {"edges": np.array([2, 4, 0, 2, -4])},
        {"atom_type": np.full(11, 28)},
        {"bond_type": np.zeros(12, dtype=np.int64)},
        {"edge_index": np.full((2, 12), 7)},
        {"edge_index": np.zeros((3, 12), dtype=np.int64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_arrays_that_are_not_zinc(tmp_path: Path, change: dict[str, Any]) -> None:
    arrays = arrays_of(trusted(write_raw(tmp_path / "good" / "raw").parent)) | change
    np.savez(tmp_path / "zinc12k.npz", **arrays)
    with pytest.raises(
        InputError, match=r"zinc12k\.npz does not contain ZINC as plain arrays .*copy"
    ):
        zinc_splits(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK", b"not an archive", pickle.dumps([1])])
def test_damaged_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "zinc12k.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"zinc12k\.npz does not contain ZINC as plain arrays"):
        zinc_splits(tmp_path)


def test_arrays_too_large_for_zinc_are_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = arrays_of(trusted(write_raw(tmp_path / "good" / "raw").parent))
    np.savez_compressed(tmp_path / "zinc12k.npz", **arrays, more=np.zeros(10**6))
    monkeypatch.setattr("smpgnn.data.zinc._ARRAY_BYTES", 10**6)
    with pytest.raises(InputError, match="too large for ZINC"):
        zinc_splits(tmp_path)


def test_benchmark_is_the_same_from_pickles_and_from_arrays(
    real: tuple[Splits, Path], tmp_path: Path
) -> None:
    _, folder = real
    if not (folder / "zinc12k.npz").is_file():
        pytest.skip("SMPGNN_DATA does not hold zinc/zinc12k.npz")
    (tmp_path / "pickles").mkdir()
    (tmp_path / "pickles" / "raw").symlink_to(folder / "raw")
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "zinc12k.npz").symlink_to(folder / "zinc12k.npz")
    assert_same(zinc_splits(tmp_path / "arrays"), trusted(tmp_path / "pickles"))
