"""ZINC: penalised logP of molecules, as in `torch_geometric.datasets.ZINC`.

PyTorch Geometric's raw files are pickles, and reading a pickle runs the code in it. So we prefer
plain arrays: `zinc12k.npz`, then the file of arrays that the first import leaves in the cache. We
read pickles only from PyTorch Geometric's own download or if the caller trusts them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.folders import given_folders
from smpgnn.data.store import GraphStore, pointer
from smpgnn.data.zinc_vocabulary import ATOM_TYPES, NUM_BOND_TYPES
from smpgnn.errors import InputError, reason
from smpgnn.files import replacing

Arrays = dict[str, NDArray[Any]]

_SPLITS = ("train", "val", "test")
_RAW_FILES = tuple(f"{split}.{kind}" for kind in ("pickle", "index") for split in _SPLITS)
_ARRAYS = "zinc12k.npz"
_ARRAY_BYTES = 1 << 28  # maximum uncompressed size of a file of arrays
_FORMAT = "2"  # version of the cached arrays; files of other versions are ignored


def zinc_splits(
    data_dir: str | Path | None = None, *, subset: bool = True, trust_pickle: bool = False
) -> Splits:
    """The 10,000 / 1,000 / 1,000 molecules of ZINC-12k, or with `subset=False` all 249,456.

    Shapes: x [N, 28] and edge_attr [E, 3] one-hot atom and bond types (uint8), y [G, 1] float32.

    The data are read from `data_dir` or, by default, from the folder SMPGNN_DATA: plain arrays in
    `zinc/zinc12k.npz` or `zinc12k.npz`, or the raw files of PyTorch Geometric in `zinc/raw` or
    `raw`. If there are none, they are downloaded. The folder is never written to: downloads and
    imported arrays are stored in `$XDG_CACHE_HOME/smpgnn` (`~/.cache/smpgnn`).

    Args:
        trust_pickle: read the raw files of the folder, which are pickles and can run any code.
            Needed once: later calls read the imported arrays.
    """
    folders = given_folders("zinc", data_dir)
    arrays = next((path for f in folders if subset and (path := f / _ARRAYS).is_file()), None)
    if arrays is not None:
        return read_arrays(arrays)
    cache = _cache_folder()
    raw = _find_raw([*(folder / "raw" for folder in folders), cache / "raw"])
    downloaded = (cache / "raw").resolve()
    if raw is None:
        raw = _download(downloaded)
    imported = _imported_path(raw, subset, cache)
    if imported.is_file():
        with contextlib.suppress(InputError):  # damaged: import again
            return read_arrays(imported)
    if not trust_pickle and raw != downloaded:
        raise InputError(
            f"{raw / _RAW_FILES[0]}: is a pickle, which can run any code when it is read: add "
            "--trust-pickle (in Python trust_pickle=True) if you trust the file, or leave the "
            "data folder out to download ZINC."
        )
    try:
        found = _read_pickles(raw, subset)
        splits = _splits(found)
    except Exception as error:  # a damaged pickle can raise anything
        raise InputError(
            f"The ZINC files in {raw} cannot be read ({reason(error)}): copy the six raw files of "
            "PyTorch Geometric's ZINC there again."
        ) from error
    with replacing(imported) as part, part.open("wb") as file:
        np.savez(file, **cast(Any, found))
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


def _find_raw(folders: list[Path]) -> Path | None:
    """The first folder of raw files that exists; None if they have to be downloaded."""
    raw = next((folder for folder in folders if folder.is_dir()), None)
    if raw is None:
        return None
    missing = [file for file in _RAW_FILES if not (raw / file).is_file()]
    if missing:
        raise InputError(
            f"{raw} lacks {', '.join(missing)}: copy the six raw files of PyTorch Geometric's "
            "ZINC there, or remove the folder."
        )
    return raw.resolve()


def _imported_path(raw: Path, subset: bool, cache: Path) -> Path:
    """Where the arrays imported from raw files are stored; the name depends on these files."""
    stats = [(raw / file).stat() for file in _RAW_FILES]
    parts = [_FORMAT, str(raw), *(f"{s.st_size} {s.st_mtime_ns}" for s in stats)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache / f"{'subset' if subset else 'full'}-{key}.npz"


def _download(raw: Path) -> Path:
    """Download the raw files with PyTorch Geometric."""
    from torch_geometric.datasets import ZINC

    for folder in raw.parent.glob("working-*"):  # of killed processes, if older than a day
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > 86_400:
                shutil.rmtree(folder)
    # PyG assumes that files in its folder are complete, so give it a temporary folder.
    with tempfile.TemporaryDirectory(dir=raw.parent, prefix="working-") as name:
        try:
            ZINC(name, subset=True)
        except Exception as error:
            raise InputError(
                f"ZINC could not be downloaded ({reason(error)}): give a folder that contains "
                "zinc/raw with --data-dir or SMPGNN_DATA."
            ) from error
        if not raw.is_dir():  # it exists if another process was faster
            os.replace(Path(name) / "raw", raw)
    return raw


# --- pickles and plain arrays ---


def _read_pickles(raw: Path, subset: bool) -> Arrays:
    """The raw files as the arrays that `read_arrays` describes."""
    molecules: list[dict[str, Tensor]] = []
    split: list[int] = []
    for number, name in enumerate(_SPLITS):
        with (raw / f"{name}.pickle").open("rb") as file:
            found = pickle.load(file)
        if subset:
            index = (raw / f"{name}.index").read_text(encoding="ascii").split(",")
            found = [found[int(k)] for k in index]
        molecules += found
        split += [number] * len(found)
    bonds = [molecule["bond_type"].nonzero().T for molecule in molecules]
    orders = [m["bond_type"][a, b] for m, (a, b) in zip(molecules, bonds, strict=True)]
    return {
        "split": np.array(split, dtype=np.int8),
        "nodes": np.array([m["atom_type"].numel() for m in molecules], dtype=np.int32),
        "edges": np.array([ends.size(1) for ends in bonds], dtype=np.int32),
        "atom_type": torch.cat([m["atom_type"].flatten() for m in molecules]).numpy(),
        "edge_index": torch.cat(bonds, dim=1).int().numpy(),
        "bond_type": torch.cat(orders).numpy(),
        "y": torch.cat(
            [m["logP_SA_cycle_normalized"].flatten().float() for m in molecules]
        ).numpy(),
    }


def read_arrays(file: Path) -> Splits:
    """Read the splits from a file of NumPy arrays, which contains no code.

    `split` (0 train, 1 val, 2 test), `nodes`, `edges` and `y` have one entry per graph;
    `atom_type` [N], `edge_index` [2, E] and `bond_type` [E] are concatenated over the graphs, with
    node indices local to each graph.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _ARRAY_BYTES:
                raise ValueError("too large for ZINC")
        with np.load(file, allow_pickle=False) as content:
            names = ("split", "nodes", "edges", "atom_type", "edge_index", "bond_type", "y")
            return _splits({name: content[name] for name in names})
    except Exception as error:  # a damaged archive can raise anything
        raise InputError(
            f"{file} does not contain ZINC as plain arrays ({reason(error)}): copy it again or "
            "remove it."
        ) from error


def _splits(arrays: Arrays) -> Splits:
    """Check the arrays and convert them to stores."""

    def tensor(name: str, kind: Any = np.int64) -> Tensor:
        return torch.from_numpy(arrays[name].astype(kind, casting="same_kind"))

    nodes, edges, split = tensor("nodes"), tensor("edges"), tensor("split")
    ends, y = tensor("edge_index"), tensor("y", np.float32).view(-1, 1)
    if ends.shape != (2, int(pointer(edges)[-1])):
        raise ValueError(f"edge_index of shape {tuple(ends.shape)}")
    sizes = nodes.repeat_interleave(edges)  # of the graph of each edge
    fine = bool((nodes > 0).all() and y.isfinite().all())
    if not fine or not bool(((ends >= 0) & (ends < sizes)).all()):
        raise ValueError("values out of range")
    whole = GraphStore.of_sizes(
        nodes,
        edges,
        edge_index=ends,
        x=_one_hot(tensor("atom_type"), len(ATOM_TYPES), "an atom type"),
        edge_attr=_one_hot(tensor("bond_type") - 1, NUM_BOND_TYPES, "a bond type"),
        y=y,
    )
    parts = [torch.nonzero(split == number).flatten() for number in range(len(_SPLITS))]
    if sum(part.numel() for part in parts) != len(whole) or not all(map(len, parts)):
        raise ValueError("splits other than 0, 1 and 2")
    return Splits(*(whole.select(part) for part in parts))


def _one_hot(types: Tensor, number: int, name: str) -> Tensor:
    """One-hot rows, [R, number] uint8."""
    if types.numel() and not 0 <= int(types.min()) <= int(types.max()) < number:
        raise ValueError(f"{name} that is not one of the benchmark's {number}")
    rows = torch.zeros(types.numel(), number, dtype=torch.uint8)
    return rows.scatter_(1, types.view(-1, 1), 1)
