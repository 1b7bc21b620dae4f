"""smpgnn serve."""

from __future__ import annotations

import argparse
import os
from typing import Any

from smpgnn.cli.arguments import add_device, add_model, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.errors import InputError
from smpgnn.serve import LEVEL, Limits, Settings

#: Environment variable of the token, which other users of the machine cannot read.
TOKEN = "SMPGNN_TOKEN"
_SHORTEST = 16


def add_serve(verbs: Any) -> None:
    parser = verbs.add_parser(
        "serve",
        help="open a page and a JSON interface for a trained model",
        description="Serve a trained model: a page on which molecules are typed or uploaded and "
        "shown with predictions, intervals and coloured atoms, and a JSON interface, described at "
        "/docs.",
        epilog="examples:\n  smpgnn serve runs/logS\n  smpgnn serve zinc --port 8080",
    )
    limits = Limits()
    model = parser.add_argument_group("model")
    add_model(model)
    model.add_argument(
        "--interval",
        metavar="P",
        type=float,
        help="share of the targets that intervals contain; "
        f"default: {LEVEL:g} if the run has calibration rows",
    )
    address = parser.add_argument_group("address and access").add_argument
    address(
        "--host",
        metavar="HOST",
        default=Settings.host,
        help=f"address to listen on; 0.0.0.0: all networks (default: {Settings.host})",
    )
    address(
        "--port",
        metavar="N",
        type=whole_number(0, 65535),
        default=Settings.port,
        help=f"port; 0: any free one (default: {Settings.port})",
    )
    address(
        "--token",
        metavar="TOKEN",
        help=f"token that requests need; default: {TOKEN}, else a new one that is printed, or none "
        "if only this machine can reach the address",
    )
    address(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name of the server, such as that of a proxy; may be repeated",
    )
    limit = parser.add_argument_group("limits").add_argument
    for name, metavar, most, default, text in (
        ("--max-molecules", "N", 10**6, limits.molecules, "molecules in a request"),
        ("--max-characters", "N", 5_000, limits.characters, "characters of a SMILES"),
        ("--max-body", "KIB", 2**20, limits.bytes >> 10, "KiB of a request"),
        ("--max-requests", "N", 10**4, limits.requests, "requests at a time; others get 503"),
        ("--timeout", "S", 10**5, limits.seconds, "seconds for a request"),
    ):
        help = f"{text} (default: {default})"
        limit(name, metavar=metavar, type=whole_number(1, most), default=default, help=help)
    add_device(parser)
    parser.set_defaults(parser=parser, command=serve)


def serve(arguments: argparse.Namespace) -> int:
    with importing():
        try:
            from smpgnn.serve.server import serve as run
        except ModuleNotFoundError as error:
            raise InputError(
                f'smpgnn serve needs {error.name}: pip install "smpgnn[serve]".'
            ) from error

    run(
        Settings(
            run=arguments.run,
            device=arguments.device,
            level=arguments.interval,
            host=arguments.host,
            port=arguments.port,
            names=tuple(arguments.allow_host),
            token=_token(arguments.token),
            limits=Limits(
                molecules=arguments.max_molecules,
                characters=arguments.max_characters,
                bytes=arguments.max_body << 10,
                requests=arguments.max_requests,
                seconds=arguments.timeout,
            ),
        )
    )
    return 0


def _token(given: str | None) -> str:
    """The token of the option or the environment; '': none is given."""
    token = os.environ.get(TOKEN, "") if given is None else given
    name = TOKEN if given is None else "--token"
    plain = token.isascii() and token.isprintable() and " " not in token
    if (token or given is not None) and (len(token) < _SHORTEST or not plain):
        raise InputError(
            f"{name}: must have at least {_SHORTEST} letters, digits or signs and no blanks: leave "
            "it out to have one made where it is needed."
        )
    return token
