"""The command `smpgnn`: one function per verb, which imports torch only if it needs it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from smpgnn.cli import interrupts
from smpgnn.cli.arguments import (
    DATA_DIR,
    Parser,
    add_device,
    add_options,
    add_table_format,
    whole_number,
)
from smpgnn.cli.explain import add_explain
from smpgnn.cli.signals import raise_when_ended
from smpgnn.cli.trust import add_trust_pickle
from smpgnn.config.options import TASKS
from smpgnn.config.settings import DATA, RUN
from smpgnn.errors import InputError, Terminated, one_sentence
from smpgnn.files import discard_unfinished
from smpgnn.paper.cli import add_paper

EXAMPLES = {
    "cycles": "smpgnn train cycles --k 6 --n 42 --epochs 50 --output runs/cycles",
    "properties": "smpgnn train properties --model smp --output runs/properties",
    "zinc": "smpgnn train zinc --data-dir ~/data --output runs/zinc",
    "molecules": "smpgnn train molecules data.csv --smiles-column smiles --targets logS",
    "graphs": "smpgnn train graphs my_graphs/ --labels labels.csv --targets class",
}


def build_parser() -> Parser:
    """The parser of all verbs and their options."""
    parser = Parser(
        prog="smpgnn",
        description="Train, evaluate, apply and explain structural message-passing networks.",
        epilog=f"example:\n  {EXAMPLES['molecules']}\n  smpgnn predict runs/... new.csv -o out.csv",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    _add_train(verbs)
    _add_evaluate(verbs)
    _add_predict(verbs)
    add_explain(verbs)
    _add_info(verbs)
    add_paper(verbs)
    return parser


def _add_train(verbs: Any) -> None:
    train = verbs.add_parser(
        "train",
        help="train a model",
        description="Train a model on one of the paper's tasks or on your own data.",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES.values()),
    )
    tasks = train.add_subparsers(dest="task_name", metavar="TASK", parser_class=Parser)
    for name, kind in TASKS.items():
        parser = tasks.add_parser(
            name,
            help=(kind.__doc__ or "").splitlines()[0],
            description=(kind.__doc__ or "").splitlines()[0],
            epilog=f"example:\n  {EXAMPLES[name]}",
            usage=f"{EXAMPLES[name].split(' --')[0]} [options]",
        )
        groups = add_options(parser, kind)
        run = groups[RUN]
        run.add_argument("--resume", action="store_true", help="continue the run in --output")
        run.add_argument("--config", metavar="FILE", help="read settings from a YAML file")
        run.add_argument(
            "--print_config",
            "--print-config",
            action="store_true",
            help="print all settings as YAML and exit",
        )
        if name in ("cycles", "properties", "zinc"):
            run.add_argument(
                "--preset", choices=("paper",), help="settings of the paper's experiment"
            )
        if name == "zinc":
            add_trust_pickle(groups[DATA])
        parser.add_help_all()
        parser.set_defaults(parser=parser)


def _add_evaluate(verbs: Any) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="compute metrics of a trained model",
        description="Compute metrics of a trained model, on the test split of its run or on all "
        "rows of your own labelled data.",
        epilog="examples:\n  smpgnn evaluate runs/zinc\n  smpgnn evaluate runs/logS --data new.csv",
    )
    data = parser.add_argument_group("model and data")
    data.add_argument("run", metavar="RUN", help="run folder, model file, or 'zinc' (pretrained)")
    data.add_argument("positional", metavar="DATA", nargs="?", help="same as --data")
    data.add_argument(
        "--data", metavar="DATA", help="table or graphs with targets; default: the test split"
    )
    data.add_argument("--labels", metavar="FILE", help="table of targets for a folder of graphs")
    add_table_format(data)
    data.add_argument("--data-dir", metavar="DIR", default="", help=DATA_DIR)
    add_trust_pickle(data)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the metrics as JSON")
    add_device(parser)
    parser.set_defaults(parser=parser)


def _add_predict(verbs: Any) -> None:
    parser = verbs.add_parser(
        "predict",
        help="predict with a trained model",
        description="Predict for a table of SMILES or for graphs; the output has a row for every "
        "input row.",
        epilog="examples:\n  smpgnn predict runs/logS molecules.csv -o predictions.csv",
    )
    data = parser.add_argument_group("model and data")
    data.add_argument("run", metavar="RUN", help="run folder, model file, or 'zinc' (pretrained)")
    data.add_argument("data", metavar="DATA", help="CSV or Parquet table, or graphs")
    add_table_format(data)
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="FILE", required=True, help="CSV file to write")
    add_device(parser)
    parser.set_defaults(parser=parser)


def _add_info(verbs: Any) -> None:
    parser = verbs.add_parser(
        "info",
        help="describe a run, model or data set",
        description="Describe a run, a model or a data set, or list the available models.",
        epilog="examples:\n  smpgnn info runs/zinc\n  smpgnn info zinc\n  smpgnn info models\n"
        "  smpgnn info pretrained",
    )
    data = parser.add_argument_group("what to describe")
    data.add_argument(
        "what",
        metavar="WHAT",
        help="run folder, model file, table, task (zinc, …), 'models', or 'pretrained'",
    )
    data.add_argument("--data-dir", metavar="DIR", default="", help=DATA_DIR)
    add_trust_pickle(data)
    memory = parser.add_argument_group("memory of a training step (tasks only)")
    positive = whole_number(1, 10**9)
    memory.add_argument("--batch-size", metavar="N", type=positive, help="graphs per batch")
    memory.add_argument("--model", metavar="NAME", default="", help="default: as in smpgnn train")
    memory.add_argument("--identifiers", metavar="NAME", default="", help="type of local contexts")
    memory.add_argument(
        "--context-radius", metavar="N", type=positive, help="radius in hops (--identifiers local)"
    )
    memory.add_argument("--checkpoint", action="store_true", help="with gradient checkpointing")
    parser.set_defaults(parser=parser)


def run(words: Sequence[str]) -> int:
    """Run a command line."""
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(list(words))
    getattr(arguments, "parser", parser).refuse_unknown(unknown)
    if arguments.version:
        import smpgnn

        print(f"smpgnn {smpgnn.__version__}")
        return 0
    if arguments.verb is None:
        parser.print_help()
        return 0
    if arguments.verb == "train":
        if arguments.task_name is None:
            raise InputError(f"smpgnn train: name a task ({', '.join(TASKS)}).")
        from smpgnn.cli.train import train as verb
    elif arguments.verb == "evaluate":
        from smpgnn.cli.evaluate import evaluate as verb
    elif arguments.verb == "predict":
        from smpgnn.cli.predict import predict as verb
    elif arguments.verb == "explain":
        from smpgnn.cli.explain import explain as verb
    elif arguments.verb == "paper":
        from smpgnn.paper.cli import paper as verb
    else:
        from smpgnn.cli.info import info as verb
    return verb(arguments)


def main() -> None:
    """Entry point; bad input gives a one-sentence error and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # file names may contain characters that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        with interrupts.raising():
            status = _status(sys.argv[1:])
    except KeyboardInterrupt as stop:  # raised after the verb has finished
        status = _interrupted(stop)
    sys.exit(status)


def _status(words: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    try:
        raise_when_ended()
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
