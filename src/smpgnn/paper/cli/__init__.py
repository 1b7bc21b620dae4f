"""smpgnn paper: the verbs of the paper's part."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from smpgnn.cli.arguments import Parser
from smpgnn.errors import InputError
from smpgnn.paper.cli.report import add_report
from smpgnn.paper.cli.reproduce import add_reproduce
from smpgnn.paper.cli.theory import add_theory

VERBS = ("reproduce", "report", "theory")


def add_paper(verbs: Any) -> None:
    """The verb and those below it."""
    parser = verbs.add_parser(
        "paper",
        help="train the paper's tables, report them, run its claims",
        description="Train the paper's tables, report them, and run its claims as programs.",
        epilog="examples:\n  smpgnn paper reproduce cycle_detection --dry-run\n"
        "  smpgnn paper report\n  smpgnn paper theory",
    )
    parser.set_defaults(parser=parser, command=paper)
    below = parser.add_subparsers(dest="paper_verb", metavar="VERB", parser_class=Parser)
    add_reproduce(below)
    add_report(below)
    add_theory(below)


def paper(arguments: argparse.Namespace) -> int:
    """Do what the word after `smpgnn paper` says."""
    verb: Callable[[argparse.Namespace], int]
    if arguments.paper_verb == "reproduce":
        from smpgnn.paper.cli.reproduce import reproduce as verb
    elif arguments.paper_verb == "report":
        from smpgnn.paper.cli.report import report as verb
    elif arguments.paper_verb == "theory":
        from smpgnn.paper.cli.theory import theory as verb
    else:
        raise InputError(f"smpgnn paper: name one of {', '.join(VERBS)}.")
    return verb(arguments)
