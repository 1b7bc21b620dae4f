"""smpgnn predict."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import show_rate

if TYPE_CHECKING:
    from smpgnn.inference.predict import Written


def predict(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.data.tables import existing_file
        from smpgnn.inference.predict import load, predict_graphs, predict_table

    model = load(arguments.run, arguments.device)
    if not model.reads_smiles:
        _say(predict_graphs(model, arguments.data, arguments.output), arguments.output)
        return 0
    existing_file(arguments.data)
    written = predict_table(
        model,
        arguments.data,
        arguments.output,
        smiles_column=arguments.smiles_column,
        separator=arguments.separator,
        progress=show_rate("rows"),
    )
    _say(written, arguments.output)
    return 0


def _say(written: Written, output: str) -> None:
    print(f"{written.rows} rows written to {output}")
    if written.failed:
        print(
            f"{written.failed} of them have no prediction: see the column '{written.columns[-1]}'."
        )
    if written.renamed:
        names = ", ".join(f"'{name}'" for name in written.renamed)
        print(f"The table already has columns of the usual names: the new columns are {names}.")
