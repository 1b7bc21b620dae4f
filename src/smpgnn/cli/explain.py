"""smpgnn explain."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.cli.arguments import add_device, add_inputs, add_output, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import for_table, show_rate
from smpgnn.errors import InputError
from smpgnn.inference import EXPLAIN_STEPS

if TYPE_CHECKING:
    from smpgnn.inference.explain_tables import Molecule


def add_explain(verbs: Any) -> None:
    parser = verbs.add_parser(
        "explain",
        help="compute what each atom or node contributes to a prediction",
        description="Compute the contribution of each atom (or node) to the predictions for a "
        "table of SMILES or for graphs. The output has one row per atom and one row (rest) per "
        "molecule; together they sum to the prediction.",
        epilog="examples:\n  smpgnn explain runs/logS molecules.csv -o atoms.csv --figures atoms/\n"
        "  smpgnn explain zinc molecules.csv -o atoms.csv",
    )
    add_inputs(parser)
    add = add_output(parser, "CSV file to write").add_argument
    add("--figures", metavar="DIR", help="folder for drawings of the molecules, atoms coloured")
    add(
        "--steps",
        metavar="N",
        type=whole_number(1, 10**6),
        default=EXPLAIN_STEPS,
        help=f"integration steps; more are more precise (default: {EXPLAIN_STEPS})",
    )
    add_device(parser)
    parser.set_defaults(parser=parser, command=explain)


def explain(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.inference.explain import explained
        from smpgnn.inference.explain_tables import explain_graphs, explain_table
        from smpgnn.inference.predict import load

    model = load(arguments.run, arguments.device)
    files, figures = (arguments.data, arguments.output), arguments.figures
    if model.reads_smiles:
        what = "molecules"
        if figures and Path(figures).is_file():
            raise InputError(f"--figures {figures}: is a file: give a folder.")
        draw = _drawer(figures, explained(model.task).score_names())
        table = for_table(arguments)
        written = explain_table(model, *files, steps=arguments.steps, draw=draw, **table)
    else:
        what = "graphs"
        if figures:
            raise InputError(
                "--figures: this model takes graphs, but only molecules can be drawn: leave it out."
            )
        progress = show_rate(what)
        written = explain_graphs(model, *files, steps=arguments.steps, progress=progress)
    print(f"{written.rows - written.failed} {what} explained in {arguments.output}")
    if written.failed:
        others = "other has" if written.failed == 1 else "others have"
        print(f"{written.failed} {others} no prediction: see the column 'error'.")
    print(
        f"The integration error is at most {written.missed:.2g} and is part of (rest); use more "
        "--steps to reduce it."
    )
    return 0


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
