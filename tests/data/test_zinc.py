"""ZINC: PyG's molecules, packed; nothing is written outside the cache."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from urllib.error import URLError

import pytest
import torch
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.data.zinc import NUM_ATOM_TYPES, NUM_BOND_TYPES, zinc_splits
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


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below a folder with its size and time of change."""
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
    train = zinc_splits(tmp_path / "data").train
    assert train.num_nodes.tolist() == [2, 3, 1]  # in the order of the index file
    assert train.num_edges.tolist() == [2, 4, 0]
    assert train.edge_index.tolist() == [[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]]
    assert train.x.dtype == train.edge_attr.dtype == torch.uint8
    assert train.x.shape == (6, NUM_ATOM_TYPES)
    assert train.x.argmax(1).tolist() == [2, 2, 0, 5, 27, 1]
    assert train.x.sum(1).tolist() == [1] * 6
    assert train.edge_attr.shape == (6, NUM_BOND_TYPES)
    assert train.edge_attr.argmax(1).tolist() == [1, 1, 0, 0, 2, 2]
    assert train.y.tolist() == [[2.25], [0.5], [-1.0]]
    assert train.y_node is None
    val = zinc_splits(tmp_path / "data").val  # of one molecule, which PyG keeps in another form
    assert (val.node_ptr.tolist(), val.edge_ptr.tolist(), val.y.tolist()) == (
        [0, 2],
        [0, 2],
        [[1.0]],
    )


def test_without_subset_the_index_is_not_used(tmp_path: Path) -> None:
    write_raw(tmp_path / "raw")
    assert zinc_splits(tmp_path, subset=False).train.y.view(-1).tolist() == [0.5, -1.0, 2.25]
    assert zinc_splits(tmp_path, subset=True).train.y.view(-1).tolist() == [2.25, 0.5, -1.0]


def test_folder_comes_from_the_argument_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_raw(tmp_path / "a" / "zinc" / "raw")
    write_raw(tmp_path / "b" / "raw")
    expected = zinc_splits(tmp_path / "a")
    assert_same(zinc_splits(str(tmp_path / "b")), expected)
    monkeypatch.setenv("SMPGNN_DATA", str(tmp_path / "a"))
    assert_same(zinc_splits(), expected)
    monkeypatch.setenv("SMPGNN_DATA", str(tmp_path / "nowhere"))
    assert_same(zinc_splits(tmp_path / "a"), expected)
    with pytest.raises(InputError, match=r"SMPGNN_DATA is .*nowhere"):
        zinc_splits()


def test_given_folder_is_only_read(tmp_path: Path, cache: Path) -> None:
    write_raw(tmp_path / "data" / "zinc" / "raw")
    before = contents(tmp_path / "data")
    zinc_splits(tmp_path / "data")
    assert contents(tmp_path / "data") == before
    # What is left in the cache is the packed file and no working folder.
    assert [path.suffix for path in cache.iterdir()] == [".safetensors"]


def test_second_time_comes_from_the_packed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_raw(tmp_path / "raw")
    first = zinc_splits(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("torch_geometric.datasets.ZINC.process", _never)
        assert_same(zinc_splits(tmp_path), first)


def test_damaged_packed_file_is_made_again(tmp_path: Path, cache: Path) -> None:
    write_raw(tmp_path / "raw")
    first = zinc_splits(tmp_path)
    (packed,) = cache.iterdir()
    packed.write_bytes(packed.read_bytes()[:50])
    assert_same(zinc_splits(tmp_path), first)


def test_changed_raw_files_are_read_again(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw")
    assert len(zinc_splits(tmp_path).train) == 3
    (raw / "train.index").write_text("0,1\n")
    assert len(zinc_splits(tmp_path).train) == 2


def test_links_that_cannot_be_made_are_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_raw(tmp_path / "raw")

    def refuse(self: Path, target: Path, target_is_directory: bool = False) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert len(zinc_splits(tmp_path).train) == 3


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
        zinc_splits(tmp_path)
    assert list(cache.iterdir()) == []


def test_missing_raw_file_is_named(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw")
    (raw / "val.index").unlink()
    with pytest.raises(InputError, match=r"lacks val\.index"):
        zinc_splits(tmp_path)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data_dir is .*nowhere"):
        zinc_splits(tmp_path / "nowhere")


def test_cache_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        zinc_splits(tmp_path)


def test_failed_download_names_the_remedy(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", fail)
    with pytest.raises(InputError, match=r"no route to host.*--data-dir or SMPGNN_DATA\.$"):
        zinc_splits(tmp_path)
    assert list(cache.iterdir()) == []


def test_download_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(self: object) -> None:
        folder = Path(self.raw_dir)
        folder.rmdir()
        write_raw(folder)

    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", download)
    first = zinc_splits()
    assert sorted(path.suffix for path in cache.iterdir()) == ["", ".safetensors"]
    monkeypatch.setattr("torch_geometric.datasets.ZINC.download", _never)
    assert_same(zinc_splits(), first)
    assert len(zinc_splits(subset=False).train) == 3


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


def test_benchmark_equals_pyg_sample_by_sample(real: tuple[Splits, Path], tmp_path: Path) -> None:
    from torch_geometric.datasets import ZINC

    splits, folder = real
    (tmp_path / "raw").symlink_to(folder / "raw")
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
