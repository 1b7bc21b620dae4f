"""Prepare a run on data given in Python: tables of molecules or lists of graphs, and their split.

`train`, `val` and `test` are either three data objects or the row numbers of `data`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from smpgnn.config.options import GraphsOptions, MoleculesOptions
from smpgnn.data.pyg import graphs_from_pyg, node_masks
from smpgnn.data.splits import PARTS, Split
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import read_table, select_columns
from smpgnn.data.targets import parse_targets
from smpgnn.errors import InputError
from smpgnn.training.own_data import OwnSplit, graphs, molecules, prepare_store, table_columns_of
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_data import RunData, SplitTable

if TYPE_CHECKING:
    import pandas as pd

Own = TypeVar("Own", bound=MoleculesOptions | GraphsOptions)


def with_path(options: Own, data: Any, *, path_given: bool) -> tuple[Own, Any]:
    """The settings with the path that `data` is, and the data that are not a path."""
    if data is None:
        return options, None
    if path_given:
        raise InputError("data and path are both given: leave one of them out.")
    if isinstance(data, str | Path):
        return replace(options, path=str(data)), None
    return replace(options, path=""), data


def prepare_python(
    options: MoleculesOptions | GraphsOptions,
    data: Any,
    parts: Mapping[str, Any],
    saved: RunData | None,
    labels: pd.DataFrame | None = None,
) -> Prepared:
    """Prepare a run on `data`, or on the path of `options` if `data` is None.

    Args:
        data: a DataFrame or graphs of PyTorch Geometric.
        parts: train, val and test: data, row numbers, or all None.
        saved: what a run stores about its data, to continue it.
        labels: the table of targets of graph files.
    """
    pieces = _pieces(options, data is not None or bool(options.path), parts)
    indices = pieces is None and parts["train"] is not None
    own: OwnSplit | None = partial(_of_indices, parts) if indices else None
    if isinstance(options, MoleculesOptions):
        if pieces is not None:
            import pandas as pd

            frames = [_table(options, part, name) for name, part in pieces.items()]
            data = pd.concat(frames).rename_axis("row")
            own = _in_turn([len(frame) for frame in frames])
        elif data is not None:
            _check_table(data, "data")
        return molecules(options, saved, data=data, own=own)
    if pieces is None and data is None:
        return graphs(options, saved, own=own, labels=labels)
    if labels is not None:
        raise InputError("labels: applies to graph files only: set y of each graph instead.")
    if pieces is None:
        items = _graphs(data, "data")
    else:
        lists = [_graphs(part, name) for name, part in pieces.items()]
        items, own = [g for part in lists for g in part], _in_turn([len(part) for part in lists])
    return _graphs_in_memory(options, items, own, saved)


def _pieces(
    options: MoleculesOptions | GraphsOptions, has_data: bool, parts: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The three data objects; None if there are none. Refuses what contradicts itself."""
    given = [name for name in PARTS if parts[name] is not None]
    if not given:
        return None
    missing = [name for name in ("train", "val") if name not in given]
    if missing:
        raise InputError(
            f"{given[0]} is given without {missing[0]}: give train and val, and test if you "
            "have test rows."
        )
    unset = {"split_column": "", "split_time": "", "split": "random", "folds": 0}
    for name, value in unset.items():
        if getattr(options, name) != value:
            raise InputError(
                f"{name} and train, val, test both say how to split: leave one of them out."
            )
    for name in given:
        indices = _is_indices(parts[name])
        if has_data and not indices:
            raise InputError(
                f"data and {name} are both data: leave out data, or give {name} as row "
                "numbers of data, counted from 0."
            )
        if indices and not has_data:
            raise InputError(f"{name} has row numbers: give the data that they count in data=.")
    return None if has_data else {name: parts[name] for name in given}


def _is_indices(value: Any) -> bool:
    """Whether a value is a list, array or tensor of numbers, not data."""
    if isinstance(value, list | tuple | set | range):
        return all(isinstance(entry, Integral | np.bool_ | float) for entry in value)
    return hasattr(value, "dtype") and not hasattr(value, "columns")


def _of_indices(parts: Mapping[str, Any], rows: int) -> SplitTable:
    """The split of `rows` rows by the row numbers in `parts`, counted from 0."""
    part = torch.full((rows,), -1)
    for number, name in enumerate(PARTS):
        given = parts[name]
        if given is None:  # no test rows
            continue
        values = np.asarray(list(given) if isinstance(given, set) else given)
        if values.size == 0:
            raise InputError(f"{name} has no row numbers: give at least one.")
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise InputError(
                f"{name} must be a list of row numbers, not of {values.dtype} with "
                f"{values.ndim} dimensions: use np.flatnonzero for masks."
            )
        outside = values[(values < 0) | (values >= rows)]
        if outside.size:
            raise InputError(
                f"{name}: there is no row {outside[0]}: data has {rows} rows, counted from 0."
            )
        different, counts = np.unique(values, return_counts=True)
        if different.size < values.size:
            raise InputError(f"{name} has row {different[counts.argmax()]} twice: give it once.")
        index = torch.from_numpy(different.astype(np.int64))
        taken = index[part[index] >= 0]
        if taken.numel():
            row = int(taken[0])
            raise InputError(
                f"row {row} is in both {PARTS[int(part[row])]} and {name}: leave it in one."
            )
        part[index] = number
    kept = torch.nonzero(part >= 0).flatten()
    return SplitTable(kept, part[kept])


def _in_turn(sizes: Sequence[int]) -> OwnSplit:
    """The split of consecutive rows: first train, then val, then test."""
    part = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return lambda rows: SplitTable(torch.arange(rows), part)


def _table(options: MoleculesOptions, data: Any, name: str) -> pd.DataFrame:
    """One of three tables, in memory or a file; its rows are called 'row 3 of train'."""
    import pandas as pd

    columns = table_columns_of(options)
    if isinstance(data, str | Path):
        frame = read_table(data, columns, separator=options.separator or None)
    else:
        _check_table(data, name)
        frame = select_columns(data, columns, name)
    return frame.set_axis(pd.Index([f"{row} of {name}" for row in frame.index.tolist()]))


def _check_table(data: Any, name: str) -> None:
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise InputError(
            f"{name} must be a pandas DataFrame or the path of a table, not {type(data).__name__}."
        )


def _graphs(value: Any, name: str) -> list[Any]:
    """The graphs of a list, data set or single graph."""
    from torch_geometric.data import Dataset  # has all attributes of its graphs, too

    if hasattr(value, "edge_index") and not isinstance(value, Sequence | Dataset):
        return [value]
    if isinstance(value, str | Path) or not hasattr(value, "__iter__"):
        raise InputError(
            f"{name} must be a list of graphs of PyTorch Geometric, not {type(value).__name__}."
        )
    return list(value)


def _graphs_in_memory(
    options: GraphsOptions, items: list[Any], own: OwnSplit | None, saved: RunData | None
) -> Prepared:
    import pandas as pd

    for name in ("split_column", "split_time", "labels"):
        if getattr(options, name):
            raise InputError(
                f"{name}: graphs in memory have no columns: leave it out; give a split of your own "
                "with train=, val= and test=."
            )
    by_node = options.level == "node"
    store = graphs_from_pyg(items, level="node" if by_node else "graph")
    masks = node_masks(items, store.num_nodes)
    if masks:
        _check_masks(options, own)
    target = store.y_node if by_node else store.y
    if target is None:
        raise InputError("data: the graphs have no targets: add 'y' to each.")
    names = list(options.targets) or (
        ["y"] if target.size(1) == 1 else [f"y{k}" for k in range(target.size(1))]
    )
    if len(names) != target.size(1):
        raise InputError(f"targets: {len(names)} names were given for {target.size(1)} targets.")
    frame = pd.DataFrame(target.double().numpy(), columns=names)
    targets = parse_targets(frame, names, options.task, log10=options.log_target, source="data")
    store = targets.added(store, options.level)
    table, notes = (None if own is None else own(len(store))), tuple[str, ...]()
    if masks:
        table, notes = _of_masks(options, store, masks)
    return prepare_store(options, store, targets.spec, None, saved=saved, own=table, notes=notes)


def _check_masks(options: GraphsOptions, own: OwnSplit | None) -> None:
    """Refuse masks if there is another split."""
    if options.level == "graph":
        raise InputError(
            "the graphs have train_mask, which splits nodes: use level='node', or delete the masks."
        )
    if own is not None:
        raise InputError(
            "the graphs have train_mask: leave out train, val and test, or delete the masks."
        )
    for name, usual in (("folds", 0), ("split", "random")):
        if (value := getattr(options, name)) != usual:
            raise InputError(
                f"{name}={value!r} and train_mask both say how to split: leave out {name}, or "
                "delete the masks."
            )


def _of_masks(
    options: GraphsOptions, store: GraphStore, masks: Mapping[str, Tensor]
) -> tuple[SplitTable, tuple[str, ...]]:
    """The split by the masks, of nodes with a target; a share of train if there is no val_mask."""
    assert store.y_node is not None
    known = ~store.y_node.isnan().all(1)
    train, test = (
        (masks[name] & known).nonzero().flatten() for name in ("train_mask", "test_mask")
    )
    if "val_mask" in masks:
        val, notes = (masks["val_mask"] & known).nonzero().flatten(), tuple[str, ...]()
    else:
        count = train.numel()
        if count < 2:
            raise InputError("train_mask has fewer than two nodes with a target: add val_mask.")
        share = options.split_fractions[1] / sum(options.split_fractions[:2])
        size = min(max(1, round(count * share)), count - 1)
        order = np.random.default_rng(options.seed).permutation(count)
        val = train[np.sort(order[:size])]
        train = train[np.sort(order[size:])]
        notes = (
            f"There is no val_mask: {size} of the {count} nodes of train_mask are for validation.",
        )
    return SplitTable.of_nodes(Split(train, val, test), store.node_ptr), notes
