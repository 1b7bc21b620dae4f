"""Pairs of graphs that are hard to tell apart: BREC (Wang and Zhang, 2023), and files of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from smpgnn.data.brec_parts import BREC
from smpgnn.data.folders import benchmark_file
from smpgnn.errors import InputError, shown

_SOURCE = "the pairs of GraphPKU/BREC as a table with the columns pair, category, first, second"
_HEADER = ">>graph6<<"


@dataclass(frozen=True, eq=False)
class GraphPair:
    """Two graphs, with nodes 0, 1, …, and the category that they are counted in."""

    category: str
    first: nx.Graph
    second: nx.Graph


def brec_file(data_dir: str | Path | None = None) -> Path:
    """`brec/pairs.tsv` in `data_dir` or in the folder SMPGNN_DATA."""
    return benchmark_file("brec", "pairs.tsv", _SOURCE, data_dir)


def brec_pairs(data_dir: str | Path | None = None) -> list[GraphPair]:
    """The 400 pairs of BREC, from the file above."""
    path = brec_file(data_dir)
    pairs = read_pairs(path)
    for number, pair in enumerate(pairs, start=2):
        if pair.category not in BREC:
            raise InputError(
                f"{path}: row {number}: the category {shown(pair.category)!r} is not one of BREC's "
                f"({', '.join(BREC)}): copy the file again."
            )
    return pairs


def read_pairs(path: str | Path) -> list[GraphPair]:
    """Pairs of graphs from a file, with graphs as graph6.

    Either a table whose columns, separated by tabs, contain `first` and `second` and possibly
    `category`, as BREC's, or one graph per line, of which two consecutive ones are a pair; its
    category is the name of the file.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text of graph6: give one graph per line.") from error
    head = lines[0].split("\t") if lines else []
    pairs = list(_of_table(path, head, lines[1:]) if len(head) > 1 else _of_lines(path, lines))
    if not pairs:
        raise InputError(f"{path}: has no pair of graphs: give one graph per line, as graph6.")
    return pairs


def _of_table(path: Path, head: list[str], lines: list[str]) -> Iterator[GraphPair]:
    missing = [name for name in ("first", "second") if name not in head]
    if missing:
        raise InputError(
            f"{path}: has no column '{missing[0]}': name the columns in its first row."
        )
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != len(head):
            raise InputError(f"{path}: row {number}: has {len(cells)} cells, not {len(head)}.")
        row = dict(zip(head, cells, strict=True))
        first, second = (_graph(path, number, row[name]) for name in ("first", "second"))
        yield GraphPair(row.get("category") or path.stem, first, second)


def _of_lines(path: Path, lines: list[str]) -> Iterator[GraphPair]:
    given = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if len(given) % 2:
        raise InputError(
            f"{path}: has {len(given)} graphs, and two consecutive ones are a pair: add or remove "
            "one."
        )
    graphs = [_graph(path, number, line.removeprefix(_HEADER)) for number, line in given]
    for first, second in zip(graphs[::2], graphs[1::2], strict=True):
        yield GraphPair(path.stem, first, second)


def _graph(path: Path, number: int, text: str) -> nx.Graph:
    try:
        graph = nx.from_graph6_bytes(text.strip().encode("ascii"))
    except Exception as error:  # damaged text can raise anything
        raise InputError(
            f"{path}: row {number}: {shown(text)!r} is no graph6: write it with "
            "networkx.to_graph6_bytes(graph, header=False)."
        ) from error
    if len(graph) == 0:
        raise InputError(f"{path}: row {number}: the graph has no nodes: remove its pair.")
    return graph
