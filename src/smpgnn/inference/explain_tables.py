"""Explanations as tables: a line for each atom, or node, of each prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError, readable
from smpgnn.inference import EXPLAIN_STEPS
from smpgnn.inference.explain import Contributions, explain_store, explained

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.inference.predict import Model

#: What stands in place of an element or node where a line is what belongs to none.
REST = "(rest)"
_GRAPH = ["graph", "node"]
#: Rows of a table worked on at a time.
_CHUNK = 1_000


@dataclass(frozen=True)
class Explanation:
    """The contributions of one graph to each of its scores: score = rest + sum of `nodes`."""

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


def explanations(store: GraphStore, found: Contributions) -> list[Explanation | None]:
    """What was found, graph by graph; None where there is an error."""
    scores, rests = found.score.tolist(), found.rest.tolist()
    values, ends = found.nodes.tolist(), store.node_ptr.tolist()
    nodes = [values[start:end] for start, end in pairwise(ends)]
    return [
        None if graph in found.errors else Explanation(*parts)
        for graph, parts in enumerate(zip(scores, rests, nodes, strict=True))
    ]


def largest_miss(found: Contributions) -> float:
    """How far the integrals are off at most."""
    missed = found.missed.abs().nan_to_num()
    return float(missed.max()) if missed.numel() else 0.0


def explain_molecules(
    model: Model,
    smiles: Sequence[str | None],
    *,
    steps: int = EXPLAIN_STEPS,
    progress: Callable[[int], None] = lambda graphs: None,
) -> tuple[list[Molecule], float]:
    """An entry for each text, in order, and how far the integrals are off at most."""
    from smpgnn.data.molecules import read_molecule, require_rdkit

    Chem = require_rdkit()
    from rdkit import rdBase

    table = model.featurize(smiles)
    by_row: dict[int, Explanation | None] = {}
    errors = dict(table.errors)
    missed = 0.0
    if len(table.store):
        found = _explained_store(model, table.store, steps, progress)
        missed, rows = largest_miss(found), table.index.tolist()
        by_row = dict(zip(rows, explanations(table.store, found), strict=True))
        errors |= {rows[graph]: reason for graph, reason in found.errors.items()}
    molecules = []
    for row, text in enumerate(smiles):
        error, known = errors.get(row, ""), by_row.get(row)
        with rdBase.BlockLogs():
            molecule = None if known is None else read_molecule(Chem, text)[0]
        shown = "" if text is None else readable(str(text))
        molecules.append(Molecule(row, shown, molecule, known, error))
    return molecules, missed


def molecule_lines(molecules: Sequence[Molecule], first_row: int = 1) -> Iterator[list[Any]]:
    """Row, SMILES, atom, element, the contributions to each score, error."""
    for entry in molecules:
        start = [first_row + entry.row, entry.smiles]
        if entry.explanation is None:
            yield [*start, None, None, None, entry.error]
            continue
        yield [*start, None, REST, entry.explanation.rest, None]
        for number, values in enumerate(entry.explanation.nodes):
            yield [*start, str(number + 1), _element(entry.molecule, number), values, None]


def graph_lines(
    names: Sequence[str],
    node_names: Sequence[Sequence[str]],
    store: GraphStore,
    found: Contributions,
) -> Iterator[list[Any]]:
    """Graph, node, the contributions to each score, error."""
    for graph, known in enumerate(explanations(store, found)):
        name = names[graph]
        if known is None:
            yield [name, None, None, found.errors[graph]]
            continue
        yield [name, REST, known.rest, None]
        for node, values in zip(node_names[graph], known.nodes, strict=True):
            yield [name, node, values, None]


def _element(molecule: Any, number: int) -> str:
    """The element of an atom, with its charge: 'C', 'N+', 'O-', 'Fe+3'."""
    atom = molecule.GetAtomWithIdx(number)
    charge = atom.GetFormalCharge()
    sign = "+" if charge > 0 else "-" if charge < 0 else ""
    return f"{atom.GetSymbol()}{sign}{abs(charge) if abs(charge) > 1 else ''}"


def frame_of(
    lines: Iterable[list[Any]], before: list[str], scores: list[str], *after: str
) -> pd.DataFrame:
    """Lines as a table: columns before the contributions, one for each score, columns after."""
    import pandas as pd

    place = len(before)
    flat = [
        [*line[:place], *(line[place] or [None] * len(scores)), *line[place + 1 :]]
        for line in lines
    ]
    return pd.DataFrame(flat, columns=[*before, *scores, *after])


def explain_inputs(model: Model, inputs: Any, *, steps: int = EXPLAIN_STEPS) -> pd.DataFrame:
    """The lines of SMILES or graphs that are given in Python (`Model.explain`)."""
    scores = _score_columns(model)
    found = model.read(inputs, "explain")
    if not isinstance(found, GraphStore):
        molecules, _ = explain_molecules(model, found, steps=steps)
        return frame_of(molecule_lines(molecules), _molecule_columns("smiles"), scores, "error")
    names = [str(number + 1) for number in range(len(found))]
    nodes = [[str(node + 1) for node in range(count)] for count in found.num_nodes.tolist()]
    lines = graph_lines(names, nodes, found, _explained_store(model, found, steps))
    return frame_of(lines, _GRAPH, scores, "error")


def _explained_store(
    model: Model,
    store: GraphStore,
    steps: int,
    progress: Callable[[int], None] = lambda graphs: None,
) -> Contributions:
    model.check_widths(store)
    spec = model.saved.spec
    return explain_store(
        model.network, model.task, store, spec=spec, steps=steps, progress=progress
    )


def _score_columns(model: Model) -> list[str]:
    return [f"added_{name}" for name in explained(model.task).score_names()]


def _molecule_columns(smiles: str) -> list[str]:
    return ["row", smiles, "atom", "element"]


def explain_table(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    steps: int = EXPLAIN_STEPS,
    draw: Callable[[Molecule, int], None] = lambda molecule, row: None,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[int, int, float]:
    """Explain the predictions for a table of SMILES, in the order of its rows.

    `draw` gets each molecule that was explained, and its row. Returns how many rows were read, how
    many of them have no prediction, and how far the integrals are off at most.
    """
    from smpgnn.data.table_writer import AtomicCsvWriter
    from smpgnn.data.tables import stream_table

    scores = _score_columns(model)
    column = model.smiles_column(smiles_column)
    before = _molecule_columns(column)
    columns = [*before, *scores, "error"]
    if columns.count(column) > 1:
        raise InputError(
            f"{path}: the output has its own column '{column}': rename it in the input."
        )
    rows = failed = 0
    missed = 0.0
    with AtomicCsvWriter(output, columns) as writer:
        for chunk in stream_table(path, [column], chunk_rows=_CHUNK, separator=separator):
            found, off = explain_molecules(
                model,
                chunk[column].tolist(),
                steps=steps,
                progress=partial(_after, rows, progress),
            )
            writer.write(frame_of(molecule_lines(found, rows + 1), before, scores, "error"))
            for entry in found:
                if entry.explanation is not None:
                    draw(entry, rows + 1 + entry.row)
            failed += sum(entry.explanation is None for entry in found)
            rows, missed = rows + len(found), max(missed, off)
            progress(rows)
    return rows, failed, missed


def _after(before: int, progress: Callable[[int], None], done: int) -> None:
    progress(before + done)


def explain_graphs(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    steps: int = EXPLAIN_STEPS,
    progress: Callable[[int], None] = lambda graphs: None,
) -> tuple[int, int, float]:
    """Explain the predictions for a file or folder of graphs.

    Returns how many graphs were read, how many of them have no prediction, and how far the
    integrals are off at most.
    """
    from smpgnn.data.graph_schema import GraphSchema
    from smpgnn.data.graphs import read_graphs
    from smpgnn.data.table_writer import AtomicCsvWriter

    scores = _score_columns(model)
    source = model.saved.source
    if "schema" not in source:
        raise InputError("this model was trained from Python: explain its predictions there.")
    with AtomicCsvWriter(output, [*_GRAPH, *scores, "error"]) as writer:
        table = read_graphs(path, schema=GraphSchema.from_dict(source["schema"]))
        found = _explained_store(model, table.store, steps, progress)
        lines = graph_lines(table.names, table.node_names, table.store, found)
        writer.write(frame_of(lines, _GRAPH, scores, "error"))
    return len(table.store), len(found.errors), largest_miss(found)
