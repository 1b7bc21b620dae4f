"""smpgnn predict."""

from __future__ import annotations

import argparse

from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import show_rate


def predict(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.data.tables import existing_file
        from smpgnn.training.predict import load, predict_graphs, predict_table

    model = load(arguments.run, arguments.device)
    if not model.reads_smiles:
        lines = predict_graphs(model, arguments.data, arguments.output)
        print(f"{lines} predictions written to {arguments.output}")
        return 0
    existing_file(arguments.data)
    rows, failed = predict_table(
        model,
        arguments.data,
        arguments.output,
        smiles_column=arguments.smiles_column,
        separator=arguments.separator,
        progress=show_rate("rows"),
    )
    print(f"{rows} rows written to {arguments.output}")
    if failed:
        print(f"{failed} of them could not be read: the column 'error' says why.")
    return 0
