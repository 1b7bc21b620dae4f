"""smpgnn predict."""

from __future__ import annotations

import argparse
from typing import Any

from smpgnn.cli.arguments import Parser, add_device, add_table_format, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import show_rate


def add_predict(verbs: Any) -> None:
    """Add the verb and its options."""
    parser = verbs.add_parser(
        "predict",
        help="predict with a trained model",
        description="Predict for a table of SMILES or for graphs; the output has a row for every "
        "input row.",
        epilog="examples:\n  smpgnn predict runs/logS molecules.csv -o predictions.csv",
    )
    add_inputs(parser)
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="FILE", required=True, help="CSV file to write")
    output.add_argument(
        "--interval",
        metavar="P",
        type=float,
        help="add intervals that contain this share of the targets, such as 0.9",
    )
    output.add_argument(
        "--domain",
        action="store_true",
        help="add the similarity to the nearest training molecule, and which one it is",
    )
    add_device(parser).add_argument(
        "--processes",
        metavar="N",
        type=whole_number(1, 1000),
        default=0,
        help="processes for a table of SMILES; default: one per idle processor for long tables",
    )
    parser.set_defaults(parser=parser, command=predict)


def add_inputs(parser: Parser) -> None:
    """Add a model and the data to apply it to."""
    data = parser.add_argument_group("model and data")
    add_model(data)
    data.add_argument("data", metavar="DATA", help="table, SDF or Mol file, or graphs")
    add_table_format(data)


def add_model(group: argparse._ArgumentGroup) -> None:
    """Add a trained model."""
    group.add_argument("run", metavar="RUN", help="run folder, model file, or 'zinc' (pretrained)")


def predict(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.data.tables import existing_file
        from smpgnn.inference.predict import load, predict_graphs, predict_table

    model = load(arguments.run, arguments.device)
    if arguments.interval is not None:
        model = model.with_interval(arguments.interval)
    if arguments.domain:
        model = model.with_domain()
    if model.reads_smiles:
        existing_file(arguments.data)
        written = predict_table(
            model,
            arguments.data,
            arguments.output,
            smiles_column=arguments.smiles_column,
            separator=arguments.separator,
            processes=arguments.processes,
            progress=show_rate("rows"),
        )
    else:
        written = predict_graphs(model, arguments.data, arguments.output)
    print(f"{written.rows} rows written to {arguments.output}")
    if written.failed:
        lack = "has" if written.failed == 1 else "have"
        column = written.columns[-1]
        print(f"{written.failed} of them {lack} no prediction: see the column '{column}'.")
    if written.renamed:
        names = ", ".join(f"'{name}'" for name in written.renamed)
        print(f"The table already has columns of the usual names: the new columns are {names}.")
    return 0
