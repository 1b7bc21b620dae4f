"""The command `smpgnn`: one function a verb; torch is imported only when a verb needs it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from smpgnn.cli import interrupts
from smpgnn.cli.arguments import Parser, add_options, whole_number
from smpgnn.cli.explain import add_explain
from smpgnn.cli.signals import raise_when_ended
from smpgnn.cli.trust import add_trust_pickle
from smpgnn.config.options import TASKS
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
    """All verbs with their options."""
    parser = Parser(
        prog="smpgnn",
        description="Structural message-passing networks: train, evaluate, predict, explain.",
        epilog=f"example:\n  {EXAMPLES['molecules']}\n  smpgnn predict runs/... new.csv -o out.csv",
    )
    parser.add_argument("--version", action="store_true", help="show the version and leave")
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
        description="Train a model on one of the paper's tasks or on data of your own.",
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
        has_path = "path" in kind.__dataclass_fields__
        if has_path:
            what = kind.__dataclass_fields__["path"].metadata["help"]
            parser.add_argument("path", nargs="?", default="", help=what)
        parser.add_argument("--config", metavar="FILE", help="YAML file with settings")
        parser.add_argument(
            "--print_config",
            "--print-config",
            action="store_true",
            help="print all settings as YAML and leave",
        )
        parser.add_argument("--resume", action="store_true", help="go on with the run in --output")
        if name in ("cycles", "properties", "zinc"):
            parser.add_argument(
                "--preset", choices=("paper",), help="settings of the paper's experiment"
            )
        add_options(parser, kind, leave_out=("path",) if has_path else ())
        if name == "zinc":
            add_trust_pickle(parser)
        parser.set_defaults(parser=parser)


def _add_evaluate(verbs: Any) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="metrics of a trained model",
        description="Metrics of a trained model on the test split that its run saved, or on all "
        "rows of labelled data of your own.",
        epilog="examples:\n  smpgnn evaluate runs/zinc\n  smpgnn evaluate runs/logS --data new.csv",
    )
    parser.add_argument("run", metavar="RUN", help="folder of a run, or a model that ships: zinc")
    parser.add_argument("positional", metavar="DATA", nargs="?", help="the same as --data")
    parser.add_argument(
        "--data", metavar="DATA", help="table or graphs with targets; default: the test split"
    )
    parser.add_argument("--labels", metavar="FILE", help="table of targets for a folder of graphs")
    parser.add_argument("--smiles-column", metavar="NAME", help="default: as in training")
    parser.add_argument("--separator", metavar="CHAR", help="of a CSV file; default: found out")
    parser.add_argument("--data-dir", metavar="D", default="", help="folder with the data sets")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--json", action="store_true", help="print the metrics as JSON")
    add_trust_pickle(parser)
    parser.set_defaults(parser=parser)


def _add_predict(verbs: Any) -> None:
    parser = verbs.add_parser(
        "predict",
        help="predictions for new data",
        description="Predictions for a table of SMILES or for graphs; every input row is kept.",
        epilog="examples:\n  smpgnn predict runs/logS molecules.csv -o predictions.csv",
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        help="folder of a run, its model.safetensors, or 'zinc': the model that ships",
    )
    parser.add_argument("data", metavar="DATA", help="CSV or Parquet table, or graphs")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="CSV file to write")
    parser.add_argument("--smiles-column", metavar="NAME", help="default: as in training")
    parser.add_argument("--separator", metavar="CHAR", help="of a CSV file; default: found out")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.set_defaults(parser=parser)


def _add_info(verbs: Any) -> None:
    parser = verbs.add_parser(
        "info",
        help="what is in a run, model or data set",
        description="What is in a run or model, what a data set holds, or which models there are.",
        epilog="examples:\n  smpgnn info runs/zinc\n  smpgnn info zinc\n  smpgnn info models\n"
        "  smpgnn info pretrained",
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="run folder, model file, table, task (zinc, …), 'models', or 'pretrained'",
    )
    parser.add_argument("--data-dir", metavar="D", default="", help="folder with the data sets")
    parser.add_argument(
        "--batch-size",
        metavar="B",
        type=whole_number(1, 10**9),
        help="for the memory of a batch",
    )
    parser.add_argument("--model", metavar="M", default="", help="likewise; default: of the task")
    parser.add_argument("--identifiers", metavar="I", default="", help="likewise")
    radius = whole_number(1, 10**9)
    parser.add_argument("--context-radius", metavar="R", type=radius, help="likewise (local)")
    parser.add_argument("--checkpoint", action="store_true", help="likewise")
    add_trust_pickle(parser)
    parser.set_defaults(parser=parser)


def run(words: Sequence[str]) -> int:
    """Do what the words of a command line say."""
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
            raise InputError(f"smpgnn train: name a task: {', '.join(TASKS)}.")
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
    """Entry point: errors of the input are one sentence and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        with interrupts.raising():
            status = _status(sys.argv[1:])
    except KeyboardInterrupt as stop:  # between the last line of the work and here
        status = _interrupted(stop)
    sys.exit(status)


def _status(words: Sequence[str]) -> int:
    """Do what the words say; the exit status."""
    try:
        raise_when_ended()
        return run(words)
    except Exception as error:
        # an interrupt may have become another error on its way through a library
        return _interrupted(error) if interrupts.interrupted() else _failed(error)
    except KeyboardInterrupt as stop:
        return _interrupted(stop)


def _interrupted(stop: BaseException) -> int:
    """Say who ended the work, with nothing half-written left behind."""
    discard_unfinished()
    if isinstance(stop, Terminated):
        print("smpgnn: ended by the system.", file=sys.stderr)
        return 143
    print("smpgnn: interrupted.", file=sys.stderr)
    return interrupts.STATUS


def _failed(error: Exception) -> int:
    """Say in a sentence what is wrong with the input or the machine; all else is a bug."""
    if isinstance(error, InputError):
        text = str(error)
    elif isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    elif _out_of_memory(error):
        text = "out of memory: take smaller batches, graphs or networks, or a larger machine."
    elif isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename}: "
        text = f"{name}{error.strerror}."
    else:
        raise error
    text = one_sentence(text)
    print(text if text.startswith(("smpgnn ", "smpgnn:")) else f"smpgnn: {text}", file=sys.stderr)
    return 2


def _out_of_memory(error: Exception) -> bool:
    """Python's error, that of a GPU, or that of torch on the CPU, which has no class of its own."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )
