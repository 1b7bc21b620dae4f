"""Convert the user's own graphs (PyTorch Geometric objects or files) to a GraphStore."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.data.graph_files import read_files
from smpgnn.data.graph_schema import (
    GraphSchema,
    Level,
    encode_attributes,
    infer_attributes,
)
from smpgnn.data.raw_graph import RawGraph
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import listing, read_table, require_columns, table_columns
from smpgnn.data.targets import encode_targets, parse_targets
from smpgnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

LEVELS = ("graph", "node")
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
    labels: str | Path | None = None,
    target: str | Sequence[str] | None = None,
    level: Level = "graph",
    task: str = "auto",
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    directed: bool = False,
    schema: GraphSchema | None = None,
) -> GraphTable:
    """Read a file or folder of node-link JSON (.json, .jsonl), GraphML or edge lists.

    Features are node and edge attributes (all, or the given ones); texts and `categorical`
    attributes are one-hot. Graph targets are columns of the table `labels` or attributes of the
    graphs. The column graph, file, name or id of `labels` (else its first) contains file names
    (with or without extension) or the names or numbers of the graphs. With level="node" targets are
    node attributes, and nodes without them have unknown targets. Without `target` all columns of
    the table are targets, or the first of the attributes label, y, target and class that exists.

    `directed` applies to edge lists, which do not specify it. A `schema` (of the training data)
    gives the same features and labels, and targets if all graphs have them; then `level`, `target`,
    `task` and the attribute arguments are ignored.
    """
    if level not in LEVELS:
        raise InputError(f"level is '{level}', but must be 'graph' or 'node'.")
    if labels is not None and (level if schema is None else schema.level) == "node":
        raise InputError("labels has one row per graph: with level='node' use a node attribute.")
    table = None if labels is None else Path(labels)
    if table is not None:
        table_columns(table)  # report a missing table before reading the folder
    with _shallow(path):
        graphs = read_files(path, directed=directed, skip=table)
        if schema is None:
            frame, names = _target_frame(graphs, level, table, _as_list(target))
            targets = (
                parse_targets(frame, names, task, source=str(table or path)) if names else None
            )
            exclude = names if level == "node" else []
            schema = GraphSchema(
                level=level,
                node_attributes=infer_attributes(
                    graphs, "node", names=node_attributes, exclude=exclude, categorical=categorical
                ),
                edge_attributes=infer_attributes(
                    graphs, "edge", names=edge_attributes, categorical=categorical
                ),
                targets=None if targets is None else targets.spec,
            )
            values = None if targets is None else targets.values
        else:
            values = _known_targets(graphs, schema, table, str(table or path))
        store = _pack(graphs, schema)
        store = (
            replace(store, y=values) if schema.level == "graph" else replace(store, y_node=values)
        )
        return GraphTable(
            store=store,
            schema=schema,
            names=tuple(graph.name for graph in graphs),
            node_names=tuple(tuple(str(node) for node in graph.nodes) for graph in graphs),
        )


def graph_values(
    path: str | Path, name: str, *, labels: str | Path | None = None
) -> pd.Series[Any]:
    """The value of a column of `labels`, or of an attribute, for each graph.

    The index says where the value is: on which line of the table or in which graph.
    """
    table = None if labels is None else Path(labels)
    with _shallow(path):
        graphs = read_files(path, directed=False, skip=table)
        frame, _ = _target_frame(graphs, "graph", table, [name])
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


def graphs_from_pyg(dataset: Sequence[Data], *, level: Level = "graph") -> GraphStore:
    """Pack a PyG dataset or list of `Data`.

    With level="graph" the `y` of a graph, of any shape, is one row of targets; with level="node" it
    has one row per node and becomes `y_node`. Features must be finite real numbers or booleans;
    integers are numbers (encode categories as one-hot first).
    """
    from torch_geometric.data import Data

    if level not in LEVELS:
        raise InputError(f"level is '{level}', but must be 'graph' or 'node'.")
    packed: list[Any] = []
    for number, graph in enumerate(dataset):
        nodes = _checked(graph, number)
        y = getattr(graph, "y", None)
        per_node = getattr(graph, "y_node", None) if level == "node" and y is None else y
        if level == "node" and per_node is not None and torch.as_tensor(per_node).dim() == 0:
            raise InputError(f"Graph {number}: y is one number, but level='node' needs {nodes}.")
        if level == "node" and per_node is not None and len(per_node) != nodes:
            raise InputError(
                f"Graph {number}: y has {len(per_node)} rows for {nodes} nodes: with level='node' "
                "give one row per node, or use level='graph'."
            )
        packed.append(
            Data(
                x=graph.x,
                edge_index=graph.edge_index.to(torch.long),
                edge_attr=graph.edge_attr,
                y=y if level == "graph" else None,
                y_node=per_node if level == "node" else None,
                num_nodes=nodes,
            )
        )
    if level == "graph":
        _refuse_node_targets(packed)
    return GraphStore.from_data_list(packed)


def _checked(graph: Any, number: int) -> int:
    """Check the tensors of a PyG graph and return its number of nodes."""
    edge_index = getattr(graph, "edge_index", None)
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"Graph {number} has no edge_index of shape [2, edges]: add one.")
    if edge_index.is_floating_point() or edge_index.is_complex():
        raise InputError(
            f"Graph {number}: edge_index has type {edge_index.dtype}: convert it to torch.long."
        )
    x = getattr(graph, "x", None)
    if x is None and "num_nodes" not in graph:
        raise InputError(f"Graph {number} has neither x nor num_nodes: set num_nodes.")
    nodes = int(graph.num_nodes)
    if nodes == 0:
        raise InputError(f"Graph {number} has no nodes: remove it or add a node.")
    if edge_index.numel() and int(edge_index.min()) < 0:
        raise InputError(
            f"Graph {number}: edge_index contains the negative index {int(edge_index.min())}."
        )
    for name, rows in (("x", nodes), ("edge_attr", edge_index.size(1))):
        value = getattr(graph, name, None)
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.is_complex() or value.dim() == 0:
            raise InputError(
                f"Graph {number}: {name} must be a tensor of real numbers, {rows} rows."
            )
        if value.size(0) != rows:
            raise InputError(f"Graph {number}: {name} has {value.size(0)} rows, not {rows}.")
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(f"Graph {number}: {name} contains NaN or infinity: replace it.")
    return nodes


def _refuse_node_targets(graphs: Sequence[Any]) -> None:
    """If the sizes of `y` differ and equal the node counts, the targets are those of nodes."""
    widths = [torch.as_tensor(g.y).numel() for g in graphs if g.y is not None]
    nodes = [g.num_nodes for g in graphs if g.y is not None]
    if len(set(widths)) > 1 and widths == nodes:
        raise InputError("Every graph's y has one row per node: use level='node'.")


def _as_list(target: str | Sequence[str] | None) -> list[str] | None:
    return [target] if isinstance(target, str) else None if target is None else list(target)


def _target_frame(
    graphs: Sequence[RawGraph], level: Level, table: Path | None, names: list[str] | None
) -> tuple[pd.DataFrame, list[str]]:
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
    graphs: Sequence[RawGraph], table: Path, names: list[str] | None
) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    columns = table_columns(table)
    small = {column.casefold(): column for column in reversed(columns)}
    key = next((small[name] for name in GRAPH_COLUMNS if name in small), columns[0])
    if names is None:
        names = [column for column in columns if column != key]
        if not names:
            raise InputError(f"{table} has only the column '{key}': add one with the labels.")
    require_columns(names, columns, table)
    frame = read_table(table, [key, *(name for name in names if name != key)])
    keys = [str(value).strip() for value in frame[key].tolist()]
    twice = next((name for name, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{table} has several rows for graph '{twice}': keep one.")
    row_of = {name: row for row, name in enumerate(keys)}
    # Ignore names shared by several graphs, such as number 0 of two files.
    shared = Counter(alias for graph in graphs for alias in graph.names)
    rows: list[int] = []
    for graph in graphs:
        found = [row_of[alias] for alias in graph.names if shared[alias] == 1 and alias in row_of]
        if not found:
            raise InputError(
                f"{table} has no row for graph {graph.name}: add one "
                f"(its column '{key}' must be one of {listing(graph.names)})."
            )
        rows.append(found[0])
    chosen = frame.iloc[rows]
    return chosen.set_axis(pd.Index(chosen.index, name=frame.index.name)), names


def _known_targets(
    graphs: Sequence[RawGraph], schema: GraphSchema, table: Path | None, source: str
) -> Tensor | None:
    """The targets of other graphs; None if they have none."""
    if schema.targets is None:
        return None
    names = list(schema.targets.names)
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
    return GraphStore(
        node_ptr=_pointer([len(graph.nodes) for graph in graphs]),
        edge_ptr=_pointer([len(graph.edges) for graph in graphs]),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T.contiguous(),
        x=encode_attributes(graphs, "node", schema.node_attributes),
        edge_attr=encode_attributes(graphs, "edge", schema.edge_attributes),
    )


def _pointer(sizes: Sequence[int]) -> Tensor:
    return torch.tensor([0, *sizes], dtype=torch.long).cumsum(0)
