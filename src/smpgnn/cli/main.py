"""The command `smpgnn`; each verb is a file here with its options and its function.

Verbs import torch only when they need it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from smpgnn.cli import interrupts
from smpgnn.cli.arguments import Parser
from smpgnn.cli.embed import add_embed
from smpgnn.cli.evaluate import add_evaluate
from smpgnn.cli.explain import add_explain
from smpgnn.cli.export import add_export
from smpgnn.cli.info import add_info
from smpgnn.cli.predict import add_predict
from smpgnn.cli.report import add_report
from smpgnn.cli.serve import add_serve
from smpgnn.cli.train import EXAMPLES, add_train
from smpgnn.cli.tune import add_tune
from smpgnn.errors import InputError, Terminated, one_sentence
from smpgnn.files import discard_unfinished
from smpgnn.paper.cli import add_paper
from smpgnn.threads import short_waits


def build_parser() -> Parser:
    parser = Parser(
        prog="smpgnn",
        description="Train, evaluate, apply and explain structural message-passing networks.",
        epilog=f"example:\n  {EXAMPLES['molecules']}\n  smpgnn predict runs/... new.csv -o out.csv",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.set_defaults(parser=parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    kinds = (add_train, add_tune, add_report, add_evaluate, add_predict, add_explain, add_embed)
    for add in (*kinds, add_serve, add_export, add_info, add_paper):
        add(verbs)
    return parser


def run(words: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(list(words))
    arguments.parser.refuse_unknown(unknown)
    if arguments.version:
        import smpgnn

        print(f"smpgnn {smpgnn.__version__}")
        return 0
    if arguments.verb is None:
        parser.print_help()
        return 0
    status: int = arguments.command(arguments)
    return status


def main() -> None:
    """Entry point; bad input prints one sentence and exits with status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # file names may contain characters that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    short_waits()
    try:
        with interrupts.raising():
            status = _status(sys.argv[1:])
    except KeyboardInterrupt as stop:  # raised after the verb has finished
        status = _interrupted(stop)
    sys.exit(status)


def _status(words: Sequence[str]) -> int:
    """The exit status of a command line, also if it fails."""
    try:
        return run(words)
    except Exception as error:
        # libraries may turn an interrupt into another exception
        return _interrupted(error) if interrupts.interrupted() else _failed(error)
    except KeyboardInterrupt as stop:
        return _interrupted(stop)


def _interrupted(stop: BaseException) -> int:
    """Remove partial files, print one line and return the exit status."""
    discard_unfinished()
    if isinstance(stop, Terminated):
        print("smpgnn: terminated by the system.", file=sys.stderr)
        return 143
    print("smpgnn: interrupted.", file=sys.stderr)
    return interrupts.STATUS


def _failed(error: Exception) -> int:
    """Print one sentence for an error of the input or machine; raise all others, which are bugs."""
    if isinstance(error, InputError):
        text = str(error)
    elif isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    elif _out_of_memory(error):
        text = "out of memory: use smaller batches, graphs or networks, or a larger machine."
    elif isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename}: "
        text = f"{name}{error.strerror}."
    else:
        raise error
    text = one_sentence(text)
    print(text if text.startswith(("smpgnn ", "smpgnn:")) else f"smpgnn: {text}", file=sys.stderr)
    return 2


def _out_of_memory(error: Exception) -> bool:
    """Whether Python, the GPU or torch on the CPU (which has no special class) is out of memory."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )
