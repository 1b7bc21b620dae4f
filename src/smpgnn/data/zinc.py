"""ZINC: penalised logP of molecules, as in `torch_geometric.datasets.ZINC`, packed.

PyTorch Geometric's raw files are pickles, and reading a pickle runs the code in it. So we prefer
plain arrays (`zinc12k.npz`), then the packed file that the first import leaves in the cache, and
read pickles only from PyTorch Geometric's own download or if the caller trusts them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError, shown
from smpgnn.files import replacing

if TYPE_CHECKING:
    from torch_geometric.datasets import ZINC

NUM_ATOM_TYPES = 28
NUM_BOND_TYPES = 3

_SPLITS = ("train", "val", "test")
_RAW_FILES = tuple(f"{split}.{kind}" for kind in ("pickle", "index") for split in _SPLITS)
_ARRAYS = "zinc12k.npz"
_ARRAY_BYTES = 1 << 28  # maximum uncompressed size of the file
_FORMAT = "1"  # version of the packed file; files of other versions are ignored


def zinc_splits(
    data_dir: str | Path | None = None, *, subset: bool = True, trust_pickle: bool = False
) -> Splits:
    """The 10,000 / 1,000 / 1,000 molecules of ZINC-12k, or with `subset=False` all 249,456.

    Shapes: x [N, 28] and edge_attr [E, 3] one-hot atom and bond types (uint8), y [G, 1] float32.

    The data are read from `data_dir` or, by default, from the folder SMPGNN_DATA: plain arrays in
    `zinc/zinc12k.npz` or `zinc12k.npz`, or the raw files of PyTorch Geometric in `zinc/raw` or
    `raw`. If there are none, they are downloaded. The folder is never written to: downloads and
    packed files are stored in `$XDG_CACHE_HOME/smpgnn` (`~/.cache/smpgnn`).

    Args:
        trust_pickle: read the raw files of the folder, which are pickles and can run any code.
            Needed once: later calls read the packed file.
    """
    folder = _given_folder(data_dir)
    arrays = _find_arrays(folder) if subset else None
    if arrays is not None:
        return read_arrays(arrays)
    cache = _cache_folder()
    raw = _find_raw(folder, cache)
    if raw is not None:
        packed = _packed_path(raw, subset, cache)
        splits = _load(packed)
        if splits is not None:
            return splits
        if not trust_pickle and raw != (cache / "raw").resolve():
            raise InputError(
                f"{raw / _RAW_FILES[0]}: is a pickle, which can run any code when it is read: add "
                "--trust-pickle (in Python trust_pickle=True) if you trust the file, or leave the "
                "data folder out to download ZINC."
            )
    _remove_abandoned(cache)
    # PyG assumes that files in its folder are complete, so give it a temporary folder.
    with tempfile.TemporaryDirectory(dir=cache, prefix="working-") as name:
        root = Path(name)
        if raw is not None:
            _link(raw, root / "raw")
        splits = _processed(root, raw, subset)
        if raw is None:
            raw = (cache / "raw").resolve()
            if not raw.is_dir():  # it exists if another process was faster
                os.replace(root / "raw", raw)
    _save(splits, _packed_path(raw, subset, cache))
    return splits


# --- folders ---


def _cache_folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "smpgnn" / "zinc"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The cache folder {folder} cannot be created ({error.strerror}): "
            "set XDG_CACHE_HOME to a writable folder."
        ) from error
    return folder


def _given_folder(data_dir: str | Path | None) -> Path | None:
    """The folder given by the caller or the environment."""
    given = data_dir if data_dir is not None else os.environ.get("SMPGNN_DATA") or None
    if given is None:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        name = "SMPGNN_DATA" if data_dir is None else "data_dir"
        raise InputError(f"{name} is {folder}, which is not a folder: correct it.")
    return folder


def _find_arrays(folder: Path | None) -> Path | None:
    places = [] if folder is None else [folder / "zinc" / _ARRAYS, folder / _ARRAYS]
    return next((place for place in places if place.is_file()), None)


def _find_raw(folder: Path | None, cache: Path) -> Path | None:
    """The folder with the raw files; None if they have to be downloaded."""
    places = [] if folder is None else [folder / "zinc" / "raw", folder / "raw"]
    raw = next((place for place in [*places, cache / "raw"] if place.is_dir()), None)
    if raw is None:
        return None
    missing = [file for file in _RAW_FILES if not (raw / file).is_file()]
    if missing:
        raise InputError(
            f"{raw} lacks {', '.join(missing)}: copy all six raw files of PyTorch Geometric's "
            "ZINC there, or remove the folder."
        )
    return raw.resolve()


def _packed_path(raw: Path, subset: bool, cache: Path) -> Path:
    """The path of the packed file; its name depends on the raw files."""
    stats = [(raw / file).stat() for file in _RAW_FILES]
    parts = [_FORMAT, str(raw), *(f"{s.st_size} {s.st_mtime_ns}" for s in stats)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache / f"{'subset' if subset else 'full'}-{key}.safetensors"


def _remove_abandoned(cache: Path) -> None:
    """Remove the working folders of killed processes: those older than a day."""
    for folder in cache.glob("working-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > 86_400:
                shutil.rmtree(folder)


def _link(target: Path, link: Path) -> None:
    try:
        link.symlink_to(target, target_is_directory=True)
    except OSError:  # no links on this file system
        shutil.copytree(target, link)


# --- plain arrays ---


def read_arrays(file: Path) -> Splits:
    """Read the splits from a file of NumPy arrays, which contains no code.

    `split` (0 train, 1 val, 2 test), `nodes`, `edges` and `y` have one entry per graph;
    `atom_type` [N], `edge_index` [2, E] and `bond_type` [E] are concatenated over the graphs, with
    node indices local to each graph.
    """
    try:
        arrays = _plain_arrays(file)
        nodes, edges, split = (torch.from_numpy(arrays[k]) for k in ("nodes", "edges", "split"))
        node_ptr, edge_ptr = _pointer(nodes), _pointer(edges)
        ends = torch.from_numpy(arrays["edge_index"])
        y = torch.from_numpy(arrays["y"]).view(-1, 1)
        sizes = nodes.repeat_interleave(edges)  # of the graph of each edge
        if ends.shape != (2, int(edge_ptr[-1])):
            raise ValueError(f"edge_index of shape {tuple(ends.shape)}")
        fine = bool((nodes > 0).all() and y.isfinite().all())
        if not fine or not bool(((ends >= 0) & (ends < sizes)).all()):
            raise ValueError("values out of range")
        whole = GraphStore(
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            edge_index=ends,
            x=_one_hot(torch.from_numpy(arrays["atom_type"]), NUM_ATOM_TYPES, "an atom type"),
            edge_attr=_one_hot(
                torch.from_numpy(arrays["bond_type"]) - 1, NUM_BOND_TYPES, "a bond type"
            ),
            y=y,
        )
        parts = [torch.nonzero(split == number).flatten() for number in range(len(_SPLITS))]
        if sum(part.numel() for part in parts) != len(whole) or not all(map(len, parts)):
            raise ValueError("splits other than 0, 1 and 2")
    except Exception as error:  # a damaged archive can raise anything
        reason = shown(f"{type(error).__name__}: {error}", 120).rstrip(".")
        raise InputError(
            f"{file} does not contain ZINC as plain arrays ({reason}): copy it again or remove it."
        ) from error
    return Splits(*(whole.select(part) for part in parts))


def _plain_arrays(file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _ARRAY_BYTES:
            raise ValueError("too large for 12,000 molecules")
    with np.load(file, allow_pickle=False) as archive:
        whole = ("split", "nodes", "edges", "atom_type", "edge_index", "bond_type")
        arrays = {name: archive[name].astype(np.int64, casting="same_kind") for name in whole}
        return {**arrays, "y": archive["y"].astype(np.float32, casting="same_kind")}


def _pointer(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


# --- PyG's data set, packed ---


def _processed(root: Path, raw: Path | None, subset: bool) -> Splits:
    from torch_geometric.datasets import ZINC

    try:
        train, val, test = (
            _packed(ZINC(str(root), subset=subset, split=split)) for split in _SPLITS
        )
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        reason = f"{type(error).__name__}: {error}".replace("\n", " ").rstrip(".")
        if raw is None:
            raise InputError(
                f"ZINC could not be downloaded ({reason}): give a folder that contains zinc/raw "
                "with --data-dir or SMPGNN_DATA."
            ) from error
        raise InputError(
            f"The ZINC files in {raw} cannot be read ({reason}): copy the six raw files of "
            "PyTorch Geometric's ZINC there again."
        ) from error
    return Splits(train, val, test)


def _packed(dataset: ZINC) -> GraphStore:
    """The store of one split; PyG's collated tensors have local node indices, as ours."""
    data, slices = dataset._data, dataset.slices
    if slices is None:  # PyG has no slices if there is only one molecule
        slices = {
            "x": torch.tensor([0, data.x.size(0)]),
            "edge_index": torch.tensor([0, data.edge_index.size(1)]),
        }
    return GraphStore(
        node_ptr=slices["x"],
        edge_ptr=slices["edge_index"],
        edge_index=data.edge_index,
        x=_one_hot(data.x.view(-1), NUM_ATOM_TYPES, "an atom type"),
        edge_attr=_one_hot(data.edge_attr - 1, NUM_BOND_TYPES, "a bond type"),
        y=data.y.view(-1, 1),
    )


def _one_hot(types: Tensor, number: int, name: str) -> Tensor:
    """One-hot rows, [R, number] uint8."""
    if types.numel() and not 0 <= int(types.min()) <= int(types.max()) < number:
        raise InputError(
            f"The ZINC files have {name} that is not one of the benchmark's {number}: "
            "copy the raw files of PyTorch Geometric's ZINC again."
        )
    rows = torch.zeros(types.numel(), number, dtype=torch.uint8)
    return rows.scatter_(1, types.view(-1, 1), 1)


# --- the packed file ---


def _save(splits: Splits, path: Path) -> None:
    from safetensors.torch import save

    tensors = {
        f"{split}.{field.name}": value.contiguous()
        for split in _SPLITS
        for field in fields(GraphStore)
        if (value := getattr(getattr(splits, split), field.name)) is not None
    }
    with replacing(path) as beside:
        beside.write_bytes(save(tensors))


def _load(path: Path) -> Splits | None:
    """The packed stores; None if the file is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        return None
    try:
        tensors: dict[str, Tensor] = load_file(path)
        train, val, test = (
            GraphStore(
                **{
                    name.removeprefix(f"{split}."): value
                    for name, value in tensors.items()
                    if name.startswith(f"{split}.")
                }
            )
            for split in _SPLITS
        )
    except (SafetensorError, OSError, TypeError, ValueError):
        return None
    return Splits(train, val, test)
