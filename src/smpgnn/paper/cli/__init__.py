"""smpgnn paper: the verbs of the paper's part."""

from __future__ import annotations

import argparse
from typing import Any

from smpgnn.cli.arguments import Parser
from smpgnn.errors import InputError
from smpgnn.paper.cli.report import add_report
from smpgnn.paper.cli.reproduce import add_reproduce
from smpgnn.paper.cli.theory import add_theory


def add_paper(verbs: Any) -> None:
    """The verb and those below it."""
    parser = verbs.add_parser(
        "paper",
        help="train the paper's tables, report them, run its claims",
        description="Train the paper's tables, report them, and run its claims as programs.",
        epilog="examples:\n  smpgnn paper reproduce cycle_detection --dry-run\n"
        "  smpgnn paper report\n  smpgnn paper theory",
    )
    parser.set_defaults(parser=parser, command=_refuse)
    below = parser.add_subparsers(dest="paper_verb", metavar="VERB", parser_class=Parser)
    for add in (add_reproduce, add_report, add_theory):
        add(below)


def _refuse(_: argparse.Namespace) -> int:
    raise InputError("smpgnn paper: name one of reproduce, report, theory.")
