"""smpgnn explain."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.cli.arguments import add_device, add_table_format, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import show_rate
from smpgnn.errors import InputError
from smpgnn.inference import EXPLAIN_STEPS

if TYPE_CHECKING:
    from smpgnn.inference.explain_tables import Molecule


def add_explain(verbs: Any) -> None:
    """Add the verb and its options."""
    parser = verbs.add_parser(
        "explain",
        help="compute what each atom or node contributes to a prediction",
        description="Compute the contribution of each atom (or node) to the predictions for a "
        "table of SMILES or for graphs. The output has one row per atom and one row (rest) per "
        "molecule; together they sum to the prediction.",
        epilog="examples:\n  smpgnn explain runs/logS molecules.csv -o atoms.csv --figures atoms/\n"
        "  smpgnn explain zinc molecules.csv -o atoms.csv",
    )
    data = parser.add_argument_group("model and data")
    data.add_argument("run", metavar="RUN", help="run folder, model file, or 'zinc' (pretrained)")
    data.add_argument("data", metavar="DATA", help="CSV or Parquet table, or graphs")
    add_table_format(data)
    add = parser.add_argument_group("output").add_argument
    add("-o", "--output", metavar="FILE", required=True, help="CSV file to write")
    add("--figures", metavar="DIR", help="folder for drawings of the molecules, atoms coloured")
    add(
        "--steps",
        metavar="N",
        type=whole_number(1, 10**6),
        default=EXPLAIN_STEPS,
        help=f"integration steps; more are more precise (default: {EXPLAIN_STEPS})",
    )
    add_device(parser)
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
            raise InputError(
                "--figures: this model takes graphs, but only molecules can be drawn: leave it out."
            )
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
        raise InputError(f"--figures {arguments.figures}: is a file: give a folder.")
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
        print(f"{failed} others have no prediction: see the column 'error'.")


def _say_missed(missed: float) -> None:
    print(
        f"The integration error is at most {missed:.2g} and is part of (rest); use more --steps to "
        "reduce it."
    )


def _drawer(folder: str | None, scores: list[str]) -> Callable[[Molecule, int], None]:
    if folder is None:
        return lambda molecule, row: None
    from smpgnn.files import file_name, write_text
    from smpgnn.inference.draw_molecules import molecules_svg

    place = Path(folder)

    def draw(entry: Molecule, row: int) -> None:
        try:  # only now: an unreadable table leaves no folder behind
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--figures {folder}: cannot create the folder: {error.strerror}."
            ) from error
        for number, name in enumerate(scores):
            end = "" if len(scores) == 1 else f"-{number + 1}-{file_name(name)}"
            write_text(place / f"row-{row}{end}.svg", molecules_svg([entry], number, name))

    return draw
