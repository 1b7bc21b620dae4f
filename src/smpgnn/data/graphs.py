"""Read the user's own graphs, with their targets, from files to a GraphStore."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from smpgnn.data.graph_files import read_files
from smpgnn.data.graph_schema import (
    GraphSchema,
    Level,
    check_level,
    encode_attributes,
    infer_attributes,
)
from smpgnn.data.raw_graph import RawGraph
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import (
    listing,
    read_table,
    require_columns,
    select_columns,
    table_columns,
    table_name,
)
from smpgnn.data.targets import Targets, encode_targets, parse_targets
from smpgnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.tables import Table

TARGET_NAMES = ("label", "y", "target", "class")
GRAPH_COLUMNS = ("graph", "file", "filename", "name", "id")


@dataclass(frozen=True, eq=False)
class GraphTable:
    """Graphs from files, their schema, and the names of graphs and nodes.

    `store.y` [G, T] or `store.y_node` [N, T] has the targets (float64, NaN: unknown).
    """

    store: GraphStore
    schema: GraphSchema
    names: tuple[str, ...]
    node_names: tuple[tuple[str, ...], ...]


def read_graphs(
    path: str | Path,
    *,
    labels: Table | None = None,
    target: str | Sequence[str] | None = None,
    level: Level = "graph",
    task: str = "auto",
    log10: bool = False,
    schema: GraphSchema | None = None,
) -> GraphTable:
    """Read a file or folder of node-link JSON (.json, .jsonl), GraphML or edge lists.

    Features are all node and edge attributes; texts are one-hot. Graph targets are columns of the
    table `labels` or attributes of the graphs. The column graph, file, name or id of `labels` (else
    its first) contains file names (with or without extension) or the names or numbers of the
    graphs. With level="node" targets are node attributes, and nodes without them have unknown
    targets. Without `target` all columns of the table are targets, or the first of the attributes
    label, y, target and class that exists.

    A `schema` (of the training data) gives the same features and labels, and targets if all graphs
    have them; then `level`, `target`, `task` and `log10` are ignored.
    """
    check_level(level)
    if labels is not None and (level if schema is None else schema.level) == "node":
        raise InputError("labels has one row per graph: with level='node' use a node attribute.")
    if labels is not None:
        table_columns(labels)  # report a missing table before reading the folder
    source = str(path) if labels is None else table_name(labels)
    with _shallow(path):
        graphs = read_files(path, skip=labels)
        if schema is None:
            wanted = [target] if isinstance(target, str) else target
            frame, names = _target_frame(graphs, level, labels, wanted)
            targets = (
                parse_targets(frame, names, task, log10=log10, source=source) if names else None
            )
            exclude = names if level == "node" else []
            schema = GraphSchema(
                level=level,
                node_attributes=infer_attributes(graphs, "node", exclude),
                edge_attributes=infer_attributes(graphs, "edge"),
                targets=None if targets is None else targets.spec,
            )
        else:
            targets = _known_targets(graphs, schema, labels, source)
        store = _pack(graphs, schema)
        store = store if targets is None else targets.added(store, schema.level)
        return GraphTable(
            store=store,
            schema=schema,
            names=tuple(graph.name for graph in graphs),
            node_names=tuple(tuple(str(node) for node in graph.nodes) for graph in graphs),
        )


def graph_values(path: str | Path, name: str, *, labels: Table | None = None) -> pd.Series[Any]:
    """The value of a column of `labels`, or of an attribute, for each graph.

    The index says where the value is: on which line of the table or in which graph.
    """
    with _shallow(path):
        graphs = read_files(path, skip=labels)
        frame, _ = _target_frame(graphs, "graph", labels, [name])
    return frame[name]


@contextlib.contextmanager
def _shallow(path: str | Path) -> Iterator[None]:
    """Refuse values nested so deeply that Python raises a RecursionError."""
    try:
        yield
    except RecursionError as error:
        raise InputError(
            f"{path} contains values that are nested too deeply: flatten them."
        ) from error


def _target_frame(
    graphs: Sequence[RawGraph], level: Level, table: Table | None, names: Sequence[str] | None
) -> tuple[pd.DataFrame, Sequence[str]]:
    """A table of targets with one row per graph (or node), and the columns to use."""
    import pandas as pd

    if table is not None:
        return _from_table(graphs, table, names)
    if level == "graph":
        rows = [graph.attributes for graph in graphs]
        index = pd.Index([graph.name for graph in graphs], name="graph")
    else:
        rows = [values for graph in graphs for values in graph.node_values]
        places = [f"{node} of graph {graph.name}" for graph in graphs for node in graph.nodes]
        index = pd.Index(places, name="node")
    counts = Counter(name for row in rows for name in row)
    needed = len(rows) if level == "graph" else 1
    if names is None:
        names = [name for name in TARGET_NAMES if counts[name] >= needed][:1]
    for name in names:
        if counts[name] == 0:
            raise InputError(
                f"No {level} has the attribute '{name}': existing attributes are "
                f"{listing(sorted(counts)) or 'none'}."
            )
        if counts[name] < needed:
            gap = next(graph for graph in graphs if name not in graph.attributes)
            raise InputError(f"Graph {gap.name} has no attribute '{name}': add it to all graphs.")
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return pd.DataFrame(columns).set_axis(index) if names else pd.DataFrame(index=index), names


def _from_table(
    graphs: Sequence[RawGraph], table: Table, names: Sequence[str] | None
) -> tuple[pd.DataFrame, Sequence[str]]:
    import pandas as pd

    columns, where = table_columns(table), table_name(table)
    small = {column.casefold(): column for column in reversed(columns)}
    key = next((small[name] for name in GRAPH_COLUMNS if name in small), columns[0])
    if names is None:
        names = [column for column in columns if column != key]
        if not names:
            raise InputError(f"{where} has only the column '{key}': add one with the labels.")
    require_columns(names, columns, where)
    chosen_columns = [key, *(name for name in names if name != key)]
    if isinstance(table, str | Path):
        frame = read_table(table, chosen_columns)
    else:
        frame = select_columns(table, chosen_columns, where)
    keys = [str(value).strip() for value in frame[key].tolist()]
    twice = next((name for name, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{where} has several rows for graph '{twice}': keep one.")
    row_of = {name: row for row, name in enumerate(keys)}
    # Ignore names shared by several graphs, such as number 0 of two files.
    shared = Counter(alias for graph in graphs for alias in graph.names)
    rows: list[int] = []
    for graph in graphs:
        found = [row_of[alias] for alias in graph.names if shared[alias] == 1 and alias in row_of]
        if not found:
            raise InputError(
                f"{where} has no row for graph {graph.name}: add one "
                f"(its column '{key}' must be one of {listing(graph.names)})."
            )
        rows.append(found[0])
    chosen = frame.iloc[rows]
    return chosen.set_axis(pd.Index(chosen.index, name=frame.index.name)), names


def _known_targets(
    graphs: Sequence[RawGraph], schema: GraphSchema, table: Table | None, source: str
) -> Targets | None:
    """The targets of other graphs; None if they have none."""
    if schema.targets is None:
        return None
    names = schema.targets.names
    if table is None:
        if schema.level == "graph":
            known = all(name in graph.attributes for name in names for graph in graphs)
        else:
            values = [values for graph in graphs for values in graph.node_values]
            known = all(any(name in row for row in values) for name in names)
        if not known:
            return None
    frame, _ = _target_frame(graphs, schema.level, table, names)
    return encode_targets(frame, schema.targets, source=source)


def _pack(graphs: Sequence[RawGraph], schema: GraphSchema) -> GraphStore:
    edges = [edge for graph in graphs for edge in graph.edges]
    return GraphStore.of_sizes(
        [len(graph.nodes) for graph in graphs],
        [len(graph.edges) for graph in graphs],
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T.contiguous(),
        x=encode_attributes(graphs, "node", schema.node_attributes),
        edge_attr=encode_attributes(graphs, "edge", schema.edge_attributes),
    )
