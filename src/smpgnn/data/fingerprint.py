"""Fingerprint: digests of the data of a run; a file's name and date do not count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.data.targets import Targets, TargetSpec

_DIGITS = 8  # per row, to locate a changed row; the full digest detects the change
_GRAPHS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Fingerprint:
    """A digest of all data, and short digests of the input and the targets of each row.

    `columns` describes the rows; `inputs` and `targets` have eight hexadecimal digits per row.
    """

    unit: str  # name of a row's input
    columns: tuple[str, ...]
    inputs: str
    targets: str
    sha256: str

    @property
    def rows(self) -> int:
        return len(self.inputs) // _DIGITS

    def change(self, now: Fingerprint, place: Callable[[int], str]) -> str:
        """Describe how other data differ from these; empty if they are equal.

        `place` names a row of the other data.
        """
        if self == now:
            return ""
        if self.columns != now.columns:
            return _changed_columns(self.columns, now.columns)
        then_inputs, now_inputs = _cut(self.inputs), _cut(now.inputs)
        then_targets, now_targets = _cut(self.targets), _cut(now.targets)
        inputs = _different(then_inputs, now_inputs)
        if self.rows != now.rows:
            first = inputs[0] if inputs else min(self.rows, now.rows)
            where = f"at {place(first)}" if first < now.rows else "at the end"
            return f"it has {now.rows} rows instead of {self.rows} (first difference: {where})"
        targets = _different(then_targets, now_targets)
        then_rows = sorted(zip(then_inputs, then_targets, strict=True))
        moved = sorted({*inputs, *targets})  # of equal inputs only the targets may have moved
        if moved and then_rows == sorted(zip(now_inputs, now_targets, strict=True)):
            return f"its rows are in a different order (first difference: {place(moved[0])})"
        found = []
        for what, rows in ((self.unit, inputs), ("targets", targets)):
            if rows:
                count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
                found.append(f"the {what} of {count} changed (first: {place(rows[0])})")
        return " and ".join(found) or "its rows changed"


@dataclass(frozen=True, eq=False)
class Content:
    """The fingerprint of data, and how messages name the data and their rows."""

    source: str
    fingerprint: Fingerprint
    place: Callable[[int], str] = lambda row: f"row {row + 1}"


def smiles_fingerprint(
    smiles: Sequence[object],
    targets: Targets,
    more: Tensor | None = None,
    more_columns: Sequence[str] = (),
) -> Fingerprint:
    """The fingerprint of SMILES, targets and more columns: weights, descriptors.

    Shapes: more [rows, M].
    """
    texts = (text.strip().encode() if isinstance(text, str) else b"" for text in smiles)
    columns = (*target_columns(targets.spec), *more_columns)
    rest = (part.double() for part in (targets.side, more) if part is not None)
    return _fingerprint("SMILES", columns, texts, _rows(torch.cat([targets.values, *rest], dim=1)))


def store_fingerprint(store: GraphStore, columns: Iterable[str] = ()) -> Fingerprint:
    """The fingerprint of graphs with targets."""
    widths = [
        f"{0 if value is None else value.size(1)} {name}"
        for name, value in (("node features", store.x), ("edge features", store.edge_attr))
    ]
    return _fingerprint("graphs", (*columns, *widths), _graphs(store), _targets(store))


def splits_fingerprint(splits: Splits) -> Fingerprint:
    """The fingerprint of a data set with three splits; rows are counted across them."""
    parts = [store_fingerprint(part) for part in (splits.train, splits.val, splits.test)]
    sizes = tuple(f"{part.rows} {name}" for part, name in zip(parts, vars(splits), strict=True))
    whole = hashlib.sha256("".join(part.sha256 for part in parts).encode())
    return Fingerprint(
        "graphs",
        (*parts[0].columns, *sizes),
        "".join(part.inputs for part in parts),
        "".join(part.targets for part in parts),
        whole.hexdigest(),
    )


def target_columns(spec: TargetSpec) -> tuple[str, ...]:
    """Descriptions of the targets, with their classes."""
    pairs = zip(spec.names, spec.labels, strict=True)
    return tuple(
        f"target '{name}'" + (f" with the classes {', '.join(labels)}" if labels else "")
        for name, labels in pairs
    )


def weight_columns(name: str) -> tuple[str, ...]:
    return (f"weights '{name}'",) if name else ()


def descriptor_columns(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"descriptor '{name}'" for name in names)


def _fingerprint(
    unit: str, columns: tuple[str, ...], inputs: Iterable[bytes], targets: Iterable[bytes]
) -> Fingerprint:
    whole = hashlib.sha256(json.dumps([unit, *columns]).encode())
    short = {"inputs": "", "targets": ""}
    for name, pieces in (("inputs", inputs), ("targets", targets)):
        digests = [hashlib.sha256(piece) for piece in pieces]
        whole.update(b"".join(digest.digest() for digest in digests))
        short[name] = "".join(digest.hexdigest()[:_DIGITS] for digest in digests)
    return Fingerprint(unit, columns, **short, sha256=whole.hexdigest())


def _graphs(store: GraphStore) -> Iterator[bytes]:
    for part in _pieces(store):
        nodes = _rows(part.x, part.node_ptr)
        edges = _rows(part.edge_attr, part.edge_ptr)
        ends = _rows(part.edge_index.T, part.edge_ptr, torch.int64)
        for size, x, edge_attr, pairs in zip(
            part.num_nodes.tolist(), nodes, edges, ends, strict=True
        ):
            yield b"%d %d " % (size, len(pairs)) + x + edge_attr + pairs


def _targets(store: GraphStore) -> Iterator[bytes]:
    for part in _pieces(store):
        graphs = _rows(part.y, torch.arange(len(part) + 1))
        targets = map(bytes.__add__, graphs, _rows(part.y_node, part.node_ptr))
        for more in (part.weight, part.side):
            targets = map(bytes.__add__, targets, _rows(more, torch.arange(len(part) + 1)))
        yield from targets


def _pieces(store: GraphStore) -> Iterator[GraphStore]:
    for first in range(0, len(store), _GRAPHS_AT_A_TIME):
        yield store.select(range(first, min(len(store), first + _GRAPHS_AT_A_TIME))).to("cpu")


def _rows(
    values: Tensor | None, pointer: Tensor | None = None, dtype: torch.dtype = torch.float32
) -> Iterator[bytes]:
    """The bytes of each row, or of the rows of each segment, in the precision of a run."""
    if values is None:
        assert pointer is not None
        return iter([b""] * (pointer.numel() - 1))
    plain = values.detach().cpu().to(dtype) + 0  # a unique zero
    if plain.is_floating_point():
        plain = torch.where(plain.isnan(), torch.nan, plain)  # and a unique NaN
    content = plain.contiguous().numpy().tobytes()
    size = plain.element_size() * plain.size(1)
    bounds = range(len(plain) + 1) if pointer is None else pointer.tolist()
    return (content[size * start : size * end] for start, end in pairwise(bounds))


def _cut(digits: str) -> list[str]:
    return [digits[start : start + _DIGITS] for start in range(0, len(digits), _DIGITS)]


def _different(then: Sequence[str], now: Sequence[str]) -> list[int]:
    """The common rows that differ."""
    return [row for row, pair in enumerate(zip(then, now, strict=False)) if pair[0] != pair[1]]


def _changed_columns(then: Sequence[str], now: Sequence[str]) -> str:
    gone = [name for name in then if name not in now]
    new = [name for name in now if name not in then]
    if gone and new:
        return f"it has {new[0]} instead of {gone[0]}"
    if gone or new:
        return f"it also has {new[0]}" if new else f"it no longer has {gone[0]}"
    return "its targets are in a different order"
