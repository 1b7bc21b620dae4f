"""Embeddings: the vector of each graph (or node) before the last linear layer of the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.inference.pieces import in_pieces
from smpgnn.inference.predict import (
    Model,
    Written,
    batch_rows,
    input_columns,
    table_of,
    with_index_of,
)
from smpgnn.training.network import run_network

if TYPE_CHECKING:
    import pandas as pd


def _single(model: Model) -> Model:
    """The model, or the only member of a run."""
    members = model.members()
    if len(members) > 1:
        raise InputError(
            f"{model.path}: each of its {len(members)} members has embeddings of its own: name "
            "one, as in RUN/members/fold1 or RUN/members/member1."
        )
    return members[0]


def last_layer(network: nn.Module) -> nn.Linear:
    """The last linear layer: the output of the network is this layer of the embedding."""
    layer = getattr(network, "out", None)
    if not isinstance(layer, nn.Linear):
        raise InputError(
            "this model predicts nodes and graphs, each with layers of their own, so it has no "
            "embedding: use a model of one of them."
        )
    return layer


def embed_batch(network: nn.Module, batch: GraphBatch) -> Tensor:
    """The embeddings of a batch, [B, width] or [N, width]; the network is in eval mode.

    Where the network averages several draws of random inputs, so does the embedding.
    """
    found: list[Tensor] = []
    hook = last_layer(network).register_forward_pre_hook(lambda _, given: found.append(given[0]))
    try:
        with torch.no_grad():
            run_network(network, batch)
    finally:
        hook.remove()
    return torch.stack(found).mean(0)


def embedding_columns(model: Model) -> list[str]:
    """The columns of the table of embeddings."""
    width = last_layer(model.network).in_features
    return [*(f"embedding_{number + 1}" for number in range(width)), "error"]


def embed_inputs(model: Model, inputs: Any) -> pd.DataFrame:
    """The embeddings of inputs as of `Model.predict`."""
    model = _single(model)
    found = model.read(inputs, "embed")
    if isinstance(found, GraphStore):
        return _frame(model, *_embed_store(model, found))
    return with_index_of(inputs, embed_smiles(model, found, table_of(inputs)))


def embed_smiles(
    model: Model, smiles: Sequence[str | None], table: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The embeddings of SMILES, one row each; `table` has the columns of descriptors."""
    molecules = model.featurize(smiles, table)
    width = last_layer(model.network).in_features
    values = np.full((len(smiles), width), np.nan, dtype=np.float32)
    errors: list[str | None] = [None] * len(smiles)
    for row, reason in molecules.errors.items():
        errors[row] = reason
    if len(molecules.store):
        rows = molecules.index.tolist()
        values[rows], reasons = _embed_store(model, molecules.store)
        for row, why in zip(rows, reasons, strict=True):
            errors[row] = why
    return _frame(model, values, errors)


def embed_table(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Written:
    """Embed a table of SMILES of any length, piece by piece.

    Writes the SMILES, the embeddings and `error`, one row per row of the input, in its order. The
    output is Parquet if its name ends in .parquet, else CSV.
    """
    import pandas as pd

    from smpgnn.data.tables import free_names, stream_table

    model = _single(model)
    _, needed = input_columns(model, path, smiles_column, separator)
    column, *_ = needed
    usual = embedding_columns(model)
    new = free_names(usual, [column])
    rows = failed = 0
    with _writer(output, [column], new) as writer:
        for chunk in stream_table(path, needed, separator=separator):
            found = embed_smiles(model, chunk[column].tolist(), chunk)
            failed += int(found["error"].notna().sum())
            rows += len(found)
            found.index, found.columns = chunk.index, pd.Index(new)
            writer.write(pd.concat([chunk[[column]], found], axis=1))
            progress(rows)
    return Written(rows, failed, tuple(new))


def embed_graphs(model: Model, path: str | Path, output: str | Path) -> Written:
    """Embed a file or folder of graphs; one row per graph, or node."""
    from smpgnn.data.graphs import read_graphs

    model = _single(model)
    schema = model.schema("embed with it")
    labels = ["graph", "node"] if model.saved.spec.level == "node" else ["graph"]
    columns = embedding_columns(model)
    with _writer(output, labels, columns) as writer:
        table = read_graphs(path, schema=schema)
        frame = _frame(model, *_embed_store(model, table.store))
        names: list[tuple[str, ...]] = [(name,) for name in table.names]
        if len(labels) == 2:
            pairs = zip(table.names, table.node_names, strict=True)
            names = [(graph, node) for graph, own in pairs for node in own]
        for place, values in enumerate(zip(*names, strict=True)):
            frame.insert(place, labels[place], values)
        writer.write(frame)
    return Written(len(frame), int(frame["error"].notna().sum()), tuple(columns))


def _embed_store(model: Model, store: GraphStore) -> tuple[np.ndarray[Any, Any], list[str | None]]:
    """The embeddings [R, width], NaN where there is none, and the reasons for these."""
    store = model.encoded(store)
    nodes, sizes = model.saved.spec.level == "node", store.num_nodes.tolist()
    width = last_layer(model.network).in_features
    parts, errors = [np.empty((0, width), dtype=np.float32)], list[str | None]()

    def work(batch: GraphBatch) -> Tensor:
        return embed_batch(model.network, batch).float().cpu()

    most = batch_rows(model.device)
    with model.threads():
        pieces = [*in_pieces(store.to(model.device), model.saved.spec, most, work)]
    for piece in pieces:
        count = sum(sizes[graph] if nodes else 1 for graph in piece.graphs)
        if piece.result is None:
            parts.append(np.full((count, width), np.nan, dtype=np.float32))
            errors += [piece.error] * count
            continue
        fine = piece.result.isfinite().all(1)
        parts.append(piece.result.masked_fill(~fine.unsqueeze(1), torch.nan).numpy())
        errors += [None if one else "the embedding is not finite" for one in fine.tolist()]
    return np.concatenate(parts), errors


def _frame(
    model: Model, values: np.ndarray[Any, Any], errors: Sequence[str | None]
) -> pd.DataFrame:
    import pandas as pd

    *names, last = embedding_columns(model)
    frame = pd.DataFrame(values, columns=names)
    frame[last] = pd.Series(list(errors), dtype=object)
    return frame


def _writer(output: str | Path, texts: list[str], columns: list[str]) -> Any:
    """Writes Parquet or CSV, by the name of the file; the first columns and the last are text."""
    if Path(output).suffix == ".parquet":
        from smpgnn.data.parquet_writer import AtomicParquetWriter

        return AtomicParquetWriter(output, [*texts, *columns], texts=[*texts, columns[-1]])
    from smpgnn.data.table_writer import AtomicCsvWriter

    return AtomicCsvWriter(output, [*texts, *columns])
