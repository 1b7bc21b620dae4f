"""What the verbs that apply a trained model share: their options, and what they print."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from smpgnn.cli.arguments import Parser
from smpgnn.cli.rate import show_rate

if TYPE_CHECKING:
    from smpgnn.inference.predict import Written


def add_model(group: argparse._ArgumentGroup) -> None:
    """Add a trained model."""
    group.add_argument("run", metavar="RUN", help="run folder, model file, or 'zinc' (pretrained)")


def add_inputs(parser: Parser, more: str = "", **several: Any) -> None:
    """Add a model and the data to apply it to; `nargs` says that there may be several tables."""
    data = parser.add_argument_group("model and data")
    add_model(data)
    text = f"table, SDF or Mol file, or graphs{more}"
    data.add_argument("data", metavar="DATA", help=text, **several)
    add_table_format(data)


def add_table_format(group: argparse._ArgumentGroup) -> None:
    """Add the options that say how to read a table of SMILES."""
    group.add_argument(
        "--smiles-column", metavar="NAME", help="column of the SMILES; default: as in training"
    )
    group.add_argument(
        "--separator", metavar="CHAR", help="separator of a CSV file; default: detected"
    )


def add_output(parser: Parser, help: str) -> argparse._ArgumentGroup:
    """Add --output in a group, and return the group."""
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="FILE", required=True, help=help)
    return group


def for_table(arguments: argparse.Namespace) -> dict[str, Any]:
    """How to read a table of SMILES, and whom to tell about its rows."""
    table = {name: getattr(arguments, name) for name in ("smiles_column", "separator")}
    return {**table, "progress": show_rate("rows")}


def print_written(written: Written, output: str, what: str) -> None:
    """Print how many rows were written, and how many of them lack `what`."""
    print(f"{written.rows} rows written to {output}")
    if written.failed:
        lack = "has" if written.failed == 1 else "have"
        column = written.columns[-1]
        print(f"{written.failed} of them {lack} no {what}: see the column '{column}'.")
