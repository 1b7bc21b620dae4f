"""smpgnn report."""

from __future__ import annotations

import argparse
from typing import Any

from smpgnn.cli.interrupts import importing
from smpgnn.cli.outputs import prepare_file


def add_report(verbs: Any) -> None:
    parser = verbs.add_parser(
        "report",
        help="write a page about a trained run",
        description="Write one self-contained HTML page about a finished run: metrics beside the "
        "baseline, charts of the test predictions, the worst and best molecules, learning curves, "
        "data and settings. Training writes it into the run folder.",
        epilog="examples:\n  smpgnn report runs/logS\n  smpgnn report runs/logS -o logS.html",
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="page to write; default: report.html in RUN"
    )
    parser.set_defaults(parser=parser, command=report)


def report(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.pages.run_page import write_report

    if arguments.output is not None:
        prepare_file(arguments.output)
    print(f"Page: {write_report(arguments.run, arguments.output)}")
    return 0
