"""Explanations as tables: one row per atom, or node, of each prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError, readable
from smpgnn.inference import EXPLAIN_STEPS
from smpgnn.inference.explain import Contributions, explain_store, explained, mean_contributions
from smpgnn.inference.predict import input_columns, table_of

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.inference.predict import Model

#: Stands for the element or node in the row of what belongs to none.
REST = "(rest)"
_GRAPH = ["graph", "node"]
#: Rows of a table that are explained at a time.
_CHUNK = 1_000

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Explanation:
    """The contributions to each score of one graph: score = rest + sum of `nodes`."""

    score: list[float]
    rest: list[float]
    nodes: list[list[float]]


@dataclass(frozen=True, eq=False)
class Molecule:
    """A row of a table: its explanation and RDKit's molecule, or why there is none."""

    row: int
    smiles: str
    molecule: Any
    explanation: Explanation | None
    error: str = ""


@dataclass(frozen=True)
class Explained:
    """How many inputs were read, how many of them failed, and the largest integration error."""

    rows: int
    failed: int
    missed: float


#: Of one input: its first columns, the labels of the rest and of each node, explanation, error.
_Entry = tuple[list[Any], list[list[Any]], Explanation | None, str]


def explain_molecules(
    model: Model,
    smiles: Sequence[str | None],
    table: pd.DataFrame | None = None,
    *,
    steps: int = EXPLAIN_STEPS,
    progress: Progress = lambda graphs: None,
) -> tuple[list[Molecule], float]:
    """Explain SMILES, in order; also returns the largest integration error.

    `table` has the columns of descriptors, if the model takes any.
    """
    from smpgnn.data.molecules import read_molecule, require_rdkit

    Chem = require_rdkit()
    from rdkit import rdBase

    graphs = model.featurize(smiles, table)
    by_row: dict[int, Explanation | None] = {}
    errors = dict(graphs.errors)
    texts: dict[int, str] = {}
    missed = 0.0
    if len(graphs.store):
        found = _explain_store(model, graphs.store, steps, progress)
        missed, rows = found.largest_miss, graphs.index.tolist()
        by_row = dict(zip(rows, _explanations(graphs.store, found), strict=True))
        texts = dict(zip(rows, graphs.smiles, strict=True))
        errors |= {rows[graph]: reason for graph, reason in found.errors.items()}
    molecules = []
    for row, given in enumerate(smiles):
        known, text = by_row.get(row), texts.get(row, given)
        with rdBase.BlockLogs():
            molecule = None if known is None else read_molecule(Chem, text)[0]
        shown = "" if text is None else readable(str(text))
        molecules.append(Molecule(row, shown, molecule, known, errors.get(row, "")))
    return molecules, missed


def explain_inputs(model: Model, inputs: Any, *, steps: int = EXPLAIN_STEPS) -> pd.DataFrame:
    """The table for SMILES or graphs given in Python (`Model.explain`)."""
    scores = _score_columns(model)
    found = model.read(inputs, "explain")
    if not isinstance(found, GraphStore):
        molecules, _ = explain_molecules(model, found, table_of(inputs), steps=steps)
        return _frame(_molecule_entries(molecules), _molecule_columns("smiles"), scores)
    names = [str(number + 1) for number in range(len(found))]
    nodes = [[str(node + 1) for node in range(count)] for count in found.num_nodes.tolist()]
    contributions = _explain_store(model, found, steps)
    return _frame(_graph_entries(names, nodes, found, contributions), _GRAPH, scores)


def explain_table(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    steps: int = EXPLAIN_STEPS,
    draw: Callable[[Molecule, int], None] = lambda molecule, row: None,
    progress: Progress = lambda rows: None,
) -> Explained:
    """Explain the predictions for a table of SMILES, in the order of its rows.

    `draw` is called with each explained molecule and its row.
    """
    from smpgnn.data.table_writer import AtomicCsvWriter
    from smpgnn.data.tables import stream_table

    scores = _score_columns(model)
    _, needed = input_columns(model, path, smiles_column, separator)
    column, *_ = needed
    before = _molecule_columns(column)
    columns = [*before, *scores, "error"]
    if columns.count(column) > 1:
        raise InputError(
            f"{path}: the output has its own column '{column}': rename it in the input."
        )
    rows = failed = 0
    missed = 0.0

    def show(done: int) -> None:
        progress(rows + done)

    with AtomicCsvWriter(output, columns) as writer:
        for chunk in stream_table(path, needed, chunk_rows=_CHUNK, separator=separator):
            smiles = chunk[column].tolist()
            found, off = explain_molecules(model, smiles, chunk, steps=steps, progress=show)
            writer.write(_frame(_molecule_entries(found, rows + 1), before, scores))
            for entry in found:
                if entry.explanation is not None:
                    draw(entry, rows + 1 + entry.row)
            failed += sum(entry.explanation is None for entry in found)
            rows, missed = rows + len(found), max(missed, off)
            progress(rows)
    return Explained(rows, failed, missed)


def explain_graphs(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    steps: int = EXPLAIN_STEPS,
    progress: Progress = lambda graphs: None,
) -> Explained:
    """Explain the predictions for a file or folder of graphs."""
    from smpgnn.data.graphs import read_graphs
    from smpgnn.data.table_writer import AtomicCsvWriter

    scores, schema = _score_columns(model), model.schema("explain its predictions")
    with AtomicCsvWriter(output, [*_GRAPH, *scores, "error"]) as writer:
        table = read_graphs(path, schema=schema)
        found = _explain_store(model, table.store, steps, progress)
        entries = _graph_entries(table.names, table.node_names, table.store, found)
        writer.write(_frame(entries, _GRAPH, scores))
    return Explained(len(table.store), len(found.errors), found.largest_miss)


def _explain_store(
    model: Model, store: GraphStore, steps: int, progress: Progress = lambda graphs: None
) -> Contributions:
    members = model.members()

    def explained_by(number: int) -> Contributions:
        def show(graphs: int) -> None:
            progress((number * len(store) + graphs) // len(members))

        one = members[number]
        encoded, spec = one.encoded(store), one.saved.spec
        return explain_store(one.network, one.task, encoded, spec=spec, steps=steps, progress=show)

    return mean_contributions([explained_by(number) for number in range(len(members))])


def _explanations(store: GraphStore, found: Contributions) -> list[Explanation | None]:
    """The explanation of each graph; None if it failed."""
    scores, rests = found.score.tolist(), found.rest.tolist()
    values, ends = found.nodes.tolist(), store.node_ptr.tolist()
    nodes = [values[start:end] for start, end in pairwise(ends)]
    return [
        None if graph in found.errors else Explanation(*parts)
        for graph, parts in enumerate(zip(scores, rests, nodes, strict=True))
    ]


def _molecule_columns(smiles: str) -> list[str]:
    return ["row", smiles, "atom", "element"]


def _score_columns(model: Model) -> list[str]:
    return [f"added_{name}" for name in explained(model.task).score_names()]


def _molecule_entries(molecules: Sequence[Molecule], first_row: int = 1) -> Iterator[_Entry]:
    for entry in molecules:
        atoms = [] if entry.molecule is None else entry.molecule.GetAtoms()
        labels = [[str(number + 1), _element(atom)] for number, atom in enumerate(atoms)]
        start = [first_row + entry.row, entry.smiles]
        yield start, [[None, REST], *labels], entry.explanation, entry.error


def _graph_entries(
    names: Sequence[str],
    node_names: Sequence[Sequence[str]],
    store: GraphStore,
    found: Contributions,
) -> Iterator[_Entry]:
    for graph, known in enumerate(_explanations(store, found)):
        labels = [[REST], *([node] for node in node_names[graph])]
        yield [names[graph]], labels, known, found.errors.get(graph, "")


def _frame(entries: Iterable[_Entry], before: list[str], scores: list[str]) -> pd.DataFrame:
    """One row per label of each entry, or a single one with its error.

    The columns are those of the input and of its labels (`before`), of the scores, and `error`.
    """
    import pandas as pd

    rows: list[list[Any]] = []
    for start, labels, explanation, error in entries:
        if explanation is None:
            gap = [None] * (len(before) - len(start) + len(scores))
            rows.append([*start, *gap, error])
        else:
            values = [explanation.rest, *explanation.nodes]
            pairs = zip(labels, values, strict=True)
            rows += [[*start, *label, *added, None] for label, added in pairs]
    return pd.DataFrame(rows, columns=[*before, *scores, "error"])


def _element(atom: Any) -> str:
    """The element of an atom, with its charge: 'C', 'N+', 'O-', 'Fe+3'."""
    charge = atom.GetFormalCharge()
    sign = "+" if charge > 0 else "-" if charge < 0 else ""
    return f"{atom.GetSymbol()}{sign}{abs(charge) if abs(charge) > 1 else ''}"
