"""smpgnn explain."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.cli.arguments import whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import show_rate
from smpgnn.config.catalogue import EXPLAIN_STEPS
from smpgnn.errors import InputError

if TYPE_CHECKING:
    from smpgnn.inference.explain_tables import Molecule


def add_explain(verbs: Any) -> None:
    """The verb and its options."""
    parser = verbs.add_parser(
        "explain",
        help="what each atom or node adds to a prediction",
        description="What each atom (or node) adds to the predictions for a table of SMILES or for "
        "graphs: a line each, which with the line (rest) add up to the prediction.",
        epilog="examples:\n  smpgnn explain runs/logS molecules.csv -o atoms.csv --figures atoms/\n"
        "  smpgnn explain zinc molecules.csv -o atoms.csv",
    )
    add = parser.add_argument
    add("run", metavar="RUN", help="folder of a run, its model.safetensors, or 'zinc'")
    add("data", metavar="DATA", help="CSV or Parquet table, or graphs")
    add("-o", "--output", metavar="FILE", required=True, help="CSV file to write")
    add("--figures", metavar="FOLDER", help="draw each molecule there, with its atoms in colour")
    add(
        "--steps",
        metavar="N",
        type=whole_number(1, 10**6),
        default=EXPLAIN_STEPS,
        help=f"points of the integrals, for precision (default: {EXPLAIN_STEPS})",
    )
    add("--smiles-column", metavar="NAME", help="default: as in training")
    add("--separator", metavar="CHAR", help="of a CSV file; default: found out")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.set_defaults(parser=parser)


def explain(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.data.tables import existing_file
        from smpgnn.inference.explain import explained
        from smpgnn.inference.explain_tables import explain_graphs, explain_table
        from smpgnn.inference.predict import load

    model = load(arguments.run, arguments.device)
    if not model.reads_smiles:
        if arguments.figures:
            raise InputError("--figures: only molecules can be drawn; this model takes graphs.")
        graphs, failed, missed = explain_graphs(
            model,
            arguments.data,
            arguments.output,
            steps=arguments.steps,
            progress=show_rate("graphs"),
        )
        print(f"{graphs - failed} graphs explained in {arguments.output}")
        _say_failed(failed)
        _say_missed(missed)
        return 0
    if arguments.figures and Path(arguments.figures).is_file():
        raise InputError(f"--figures {arguments.figures}: is a file: give the name of a folder.")
    existing_file(arguments.data)
    rows, failed, missed = explain_table(
        model,
        arguments.data,
        arguments.output,
        smiles_column=arguments.smiles_column,
        separator=arguments.separator,
        steps=arguments.steps,
        draw=_drawer(arguments.figures, explained(model.task).score_names()),
        progress=show_rate("rows"),
    )
    print(f"{rows - failed} molecules explained in {arguments.output}")
    _say_failed(failed)
    _say_missed(missed)
    return 0


def _say_failed(failed: int) -> None:
    if failed:
        print(f"{failed} others have no prediction: the column 'error' says why.")


def _say_missed(missed: float) -> None:
    print(
        f"The integrals are off by {missed:.2g} at most, which counts as rest; more --steps bring "
        "it down."
    )


def _drawer(folder: str | None, scores: list[str]) -> Callable[[Molecule, int], None]:
    if folder is None:
        return lambda molecule, row: None
    from smpgnn.files import file_name, write_text
    from smpgnn.inference.draw_molecules import molecules_svg

    place = Path(folder)

    def draw(entry: Molecule, row: int) -> None:
        try:  # with the first figure: a table that cannot be read leaves no folder
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--figures {folder}: cannot be made: {error.strerror}.") from error
        for number, name in enumerate(scores):
            end = "" if len(scores) == 1 else f"-{number + 1}-{file_name(name)}"
            write_text(place / f"row-{row}{end}.svg", molecules_svg([entry], number, name))

    return draw
