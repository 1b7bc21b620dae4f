"""smpgnn embed."""

from __future__ import annotations

import argparse
from typing import Any

from smpgnn.cli.arguments import add_device, add_inputs, add_output
from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import for_table, print_written


def add_embed(verbs: Any) -> None:
    parser = verbs.add_parser(
        "embed",
        help="compute the vectors before the last layer",
        description="Compute an embedding of each molecule, graph or node: the vector before the "
        "last linear layer of the network. The output has a row for every input row.",
        epilog="example:\n  smpgnn embed runs/logS molecules.csv -o embeddings.parquet",
    )
    add_inputs(parser)
    add_output(parser, "Parquet or CSV file to write")
    add_device(parser)
    parser.set_defaults(parser=parser, command=embed)


def embed(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.inference.embed import embed_graphs, embed_table
        from smpgnn.inference.predict import load

    model = load(arguments.run, arguments.device)
    if model.reads_smiles:
        written = embed_table(model, arguments.data, arguments.output, **for_table(arguments))
    else:
        written = embed_graphs(model, arguments.data, arguments.output)
    print_written(written, arguments.output, "embedding")
    return 0
