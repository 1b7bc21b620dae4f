"""smpgnn embed."""

from __future__ import annotations

import argparse
from typing import Any

from smpgnn.cli.arguments import add_device
from smpgnn.cli.interrupts import importing
from smpgnn.cli.predict import add_inputs
from smpgnn.cli.rate import show_rate


def add_embed(verbs: Any) -> None:
    """Add the verb and its options."""
    parser = verbs.add_parser(
        "embed",
        help="compute the vectors before the last layer",
        description="Compute an embedding of each molecule, graph or node: the vector before the "
        "last linear layer of the network. The output has a row for every input row.",
        epilog="examples:\n  smpgnn embed runs/logS molecules.csv -o embeddings.parquet",
    )
    add_inputs(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="Parquet or CSV file to write"
    )
    add_device(parser)
    parser.set_defaults(parser=parser, command=embed)


def embed(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.data.tables import existing_file
        from smpgnn.inference.embed import embed_graphs, embed_table
        from smpgnn.inference.predict import load

    model = load(arguments.run, arguments.device)
    if model.reads_smiles:
        existing_file(arguments.data)
        written = embed_table(
            model,
            arguments.data,
            arguments.output,
            smiles_column=arguments.smiles_column,
            separator=arguments.separator,
            progress=show_rate("rows"),
        )
    else:
        written = embed_graphs(model, arguments.data, arguments.output)
    print(f"{written.rows} rows written to {arguments.output}")
    if written.failed:
        lack = "has" if written.failed == 1 else "have"
        column = written.columns[-1]
        print(f"{written.failed} of them {lack} no embedding: see the column '{column}'.")
    return 0
