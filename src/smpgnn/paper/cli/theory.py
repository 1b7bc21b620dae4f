"""smpgnn paper theory."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from smpgnn.cli.arguments import Parser, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.outputs import prepare_file
from smpgnn.errors import quoted
from smpgnn.paper.theory.programs import (
    CLAIMS,
    FAMILY_NAMES,
    NETWORK_NAMES,
    NORMS,
    Settings,
    load,
)

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
    parser.set_defaults(parser=parser)
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

    def names(option: str, known: tuple[str, ...], text: str, **more: Any) -> None:
        parser.add_argument(
            option,
            nargs="+",
            metavar="NAME",
            default=known,
            help=f"{text} (default: all, {', '.join(known)})",
            **more,
        )

    def count(option: str, letter: str, default: int, most: int, text: str) -> None:
        parser.add_argument(
            option,
            type=whole_number(1, most),
            metavar=letter,
            default=default,
            help=f"{text} (default: {default})",
        )

    own = "networks, or module:function that returns your own, called as f(x, edge_index, batch=)"
    names("--model", NETWORK_NAMES, own, type=_network)
    names("--families", FAMILY_NAMES, "families of graphs", choices=FAMILY_NAMES)
    parser.add_argument(
        "--pairs",
        nargs="+",
        metavar="FILE",
        default=[],
        help="also measure pairs of these files: one graph6 per line, two lines a pair, or a table "
        "like BREC's; only these unless --families is given",
    )
    count("--seeds", "S", Settings.seeds, 10**6, "random initialisations")
    count("--relabelings", "R", Settings.relabelings, 10**6, "relabelled copies of each graph")
    count("--layers", "L", Settings.layers, 1000, "layers of the networks")
    count("--width", "C", Settings.width, 1000, "width of the networks")
    parser.add_argument(
        "--norm", choices=NORMS, default=Settings.norm, help="norm of the rows (default: layer)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="JSON file to write the counts to")


def _network(name: str) -> str:
    """The name of a network, or of the function that makes the user's own."""
    if name not in NETWORK_NAMES and ":" not in name:
        raise argparse.ArgumentTypeError(
            f"invalid choice: {quoted(name)} (give module:function for your own network)"
        )
    return name


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
    families = arguments.families
    if arguments.pairs and families is FAMILY_NAMES:
        families = ()
    settings = Settings(
        models=tuple(dict.fromkeys(arguments.model)),
        families=tuple(dict.fromkeys(families)),
        pairs=tuple(dict.fromkeys(arguments.pairs)),
        seeds=arguments.seeds,
        relabelings=arguments.relabelings,
        layers=arguments.layers,
        width=arguments.width,
        norm=arguments.norm,
    )
    if arguments.output is not None:
        prepare_file(arguments.output)
    return {"settings": settings, "output": arguments.output}


def _run(name: str, options: dict[str, Any]) -> None:
    with importing():
        run = load(name)
    print(f"{name}: {CLAIMS[name]}.\n", flush=True)
    run(**options)
