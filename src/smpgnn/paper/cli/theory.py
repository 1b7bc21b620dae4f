"""smpgnn paper theory."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from smpgnn.cli.arguments import Parser, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.outputs import prepare_file
from smpgnn.paper.theory.registry import FAMILY_NAMES, LISTINGS, NETWORK_NAMES, program

if TYPE_CHECKING:
    from smpgnn.paper.theory.program import Program

EXAMPLES = (
    "smpgnn paper theory",
    "smpgnn paper theory mpnn",
    "smpgnn paper theory expressivity --model fast-smp gin --families csl regular",
)


def add_theory(verbs: argparse._SubParsersAction[Parser]) -> None:
    """The verb, a word for each program, and the options of `expressivity`."""
    parser = verbs.add_parser(
        "theory",
        help="the claims of the paper as programs",
        description="Run the claims of the paper: each program constructs its object and shows the "
        "claim on graphs. Without a name: a list of them.",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES),
    )
    parser.set_defaults(parser=parser)
    names = parser.add_subparsers(dest="name", metavar="NAME", parser_class=Parser)
    for listing in LISTINGS:
        one = names.add_parser(
            listing.name,
            help=listing.claim,
            description=listing.claim + ".",
            epilog=f"example:\n  smpgnn paper theory {listing.name}",
        )
        if listing.name == "expressivity":
            _add_expressivity(one)
        one.set_defaults(parser=one)
    everything = names.add_parser(
        "all",
        help="all of them, one after the other",
        description="Run all programs, one after the other.",
        epilog="example:\n  smpgnn paper theory all",
    )
    everything.set_defaults(parser=everything)


def _add_expressivity(parser: Parser) -> None:
    parser.epilog = f"example:\n  {EXAMPLES[-1]}"
    add = parser.add_argument
    add(
        "--model", nargs="+", choices=NETWORK_NAMES, metavar="NAME", default=list(NETWORK_NAMES),
        help=f"networks (default: all, {', '.join(NETWORK_NAMES)})",
    )  # fmt: skip
    add(
        "--families", nargs="+", choices=FAMILY_NAMES, metavar="NAME", default=list(FAMILY_NAMES),
        help=f"families of graphs (default: all, {', '.join(FAMILY_NAMES)})",
    )  # fmt: skip
    add(
        "--seeds",
        type=whole_number(1, 10**6),
        metavar="S",
        default=5,
        help="draws of the weights (default: 5)",
    )
    add(
        "--relabelings", type=whole_number(1, 10**6), metavar="R", default=3,
        help="copies of each graph in another order (default: 3)",
    )  # fmt: skip
    size = whole_number(1, 1000)
    add("--layers", type=size, metavar="L", default=6, help="layers of the networks (default: 6)")
    add("--width", type=size, metavar="C", default=16, help="width of the networks (default: 16)")
    add(
        "--norm", choices=("layer", "none"), default="layer",
        help="norm of the rows (default: layer)",
    )  # fmt: skip
    add("-o", "--output", metavar="FILE", help="JSON file to write the counts to")


def theory(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        width = max(len(listing.name) for listing in LISTINGS)
        for listing in LISTINGS:
            print(f"{listing.name:<{width}}  {listing.claim}")
        print("Run one with smpgnn paper theory NAME, or all with smpgnn paper theory all.")
        return 0
    try:
        if arguments.name == "expressivity":
            return _expressivity(arguments)
        if arguments.name == "all":
            for number, listing in enumerate(LISTINGS):
                print(end="\n" if number else "")
                _run(_loaded(listing.name))
            return 0
        _run(_loaded(arguments.name))
    except AssertionError as failure:
        print(f"smpgnn: the claim does not hold: {failure}", file=sys.stderr)
        return 1
    return 0


def _loaded(name: str) -> Program:
    with importing():
        return program(name)


def _run(one: Program) -> None:
    print(f"{one.name}: {one.claim}.\n", flush=True)
    one.run()


def _expressivity(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.paper.theory.expressivity import PROGRAM, Settings, measure, show

    settings = Settings(
        tuple(dict.fromkeys(arguments.model)),
        tuple(dict.fromkeys(arguments.families)),
        arguments.seeds,
        arguments.relabelings,
        arguments.layers,
        arguments.width,
        arguments.norm,
    )
    if arguments.output is not None:
        prepare_file(arguments.output)
    print(f"{PROGRAM.name}: {PROGRAM.claim}.\n", flush=True)
    report = measure(settings)
    show(report)
    if arguments.output is not None:
        report.write(arguments.output)
        print(f"Counts: {arguments.output}")
    return 0
