"""smpgnn paper theory."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from smpgnn.cli.arguments import Parser, add_settings
from smpgnn.cli.interrupts import importing
from smpgnn.cli.outputs import prepare_file
from smpgnn.config.settings import settings, with_values
from smpgnn.paper.theory.programs import CLAIMS, Settings, load

EXAMPLES = (
    "smpgnn paper theory",
    "smpgnn paper theory mpnn",
    "smpgnn paper theory expressivity --model fast-smp gin --families csl regular",
    "smpgnn paper theory expressivity --model my_module:make --pairs brec/pairs.tsv",
)


def add_theory(verbs: argparse._SubParsersAction[Parser]) -> None:
    """The verb, a word for each program, and the options of `expressivity`."""
    parser = verbs.add_parser(
        "theory",
        help="check the claims of the paper",
        description="Check the claims of the paper: each program constructs the object of a claim "
        "and verifies the claim on graphs. Without a name, list the programs.",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES),
    )
    parser.set_defaults(parser=parser, command=theory)
    names = parser.add_subparsers(dest="name", metavar="NAME", parser_class=Parser)
    for name, text in {**CLAIMS, "all": "run all programs, one after the other"}.items():
        one = names.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"example:\n  smpgnn paper theory {name}",
        )
        if name == "expressivity":
            _add_expressivity(one)
        one.set_defaults(parser=one)


def _add_expressivity(parser: Parser) -> None:
    parser.epilog = f"examples:\n  {EXAMPLES[-2]}\n  {EXAMPLES[-1]}"

    add_settings(parser.add_argument_group("what to measure"), Settings)
    parser.add_argument("-o", "--output", metavar="FILE", help="JSON file to write the counts to")


def theory(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        width = max(map(len, CLAIMS))
        for name, claim in CLAIMS.items():
            print(f"{name:<{width}}  {claim}")
        print("Run one with smpgnn paper theory NAME, or all with smpgnn paper theory all.")
        return 0
    try:
        for number, name in enumerate(CLAIMS if arguments.name == "all" else [arguments.name]):
            print(end="\n" if number else "")
            _run(name, _options(arguments))
    except AssertionError as failure:
        print(f"smpgnn: the claim does not hold: {failure}", file=sys.stderr)
        return 1
    return 0


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `expressivity` is given; the other programs, and all together, take no options."""
    if arguments.name != "expressivity":
        return {}
    given = {name: value for name, value in vars(arguments).items() if name in settings(Settings)}
    if "pairs" in given:
        given = {"families": (), **given}
    unique = {n: tuple(dict.fromkeys(v)) if isinstance(v, list) else v for n, v in given.items()}
    chosen = with_values(Settings(), unique, "smpgnn paper theory expressivity")
    if arguments.output is not None:
        prepare_file(arguments.output)
    return {"settings": chosen, "output": arguments.output}


def _run(name: str, options: dict[str, Any]) -> None:
    with importing():
        run = load(name)
    print(f"{name}: {CLAIMS[name]}.\n", flush=True)
    run(**options)
