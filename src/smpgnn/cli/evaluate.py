"""smpgnn evaluate."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.cli.arguments import DATA_DIR, add_device, add_model, add_table_format
from smpgnn.cli.interrupts import importing
from smpgnn.cli.metrics_table import metrics_table
from smpgnn.cli.trust import add_trust_pickle, import_trusted
from smpgnn.config.options import TableOptions, ZincOptions
from smpgnn.errors import InputError
from smpgnn.pretrained import named, shipped

if TYPE_CHECKING:
    from smpgnn.inference.predict import Model


#: Ends the names of standard deviations over held-out folds.
_SD = " (sd over folds)"


def add_evaluate(verbs: Any) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="compute metrics of a trained model",
        description="Compute metrics of a trained model, on the test split of its run or on all "
        "rows of your own labelled data.",
        epilog="examples:\n  smpgnn evaluate runs/zinc\n  smpgnn evaluate runs/logS --data new.csv",
    )
    data = parser.add_argument_group("model and data")
    add_model(data)
    text = "table or graphs with targets; default: the test split"
    data.add_argument("positional", metavar="DATA", nargs="?", help=text)
    data.add_argument("--data", metavar="DATA", help="the same as an option")
    data.add_argument("--labels", metavar="FILE", help="table of targets for a folder of graphs")
    add_table_format(data)
    data.add_argument("--data-dir", metavar="DIR", default="", help=DATA_DIR)
    add_trust_pickle(data)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the metrics as JSON")
    add_device(parser)
    parser.set_defaults(parser=parser, command=evaluate)


def evaluate(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.inference.evaluate import evaluate_file
        from smpgnn.inference.predict import load

    if arguments.data and arguments.positional:
        raise InputError(
            f"--data {arguments.data}: {arguments.positional} is given, too: leave one of them out."
        )
    data = arguments.data or arguments.positional
    table = {name: getattr(arguments, name) for name in ("labels", "smiles_column", "separator")}
    for name, value in table.items():
        if value and not data:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option}: applies only to your own data: name them with --data.")
    model = load(arguments.run, arguments.device)
    if data:
        metrics, notes = evaluate_file(model, data, **table)
        for note in notes:
            print(note, file=sys.stderr)
    else:
        metrics = _evaluate_test_split(model, arguments)
    sd = {name.removesuffix(_SD): metrics[name] for name in metrics if name.endswith(_SD)}
    where = data or "test split"
    rows = {"held-out folds, mean": metrics, "held-out folds, sd": sd} if sd else {where: metrics}
    if not data:
        rows |= _baseline(arguments.run, "held-out folds" if sd else where)
    if arguments.json:
        print(json.dumps(metrics, indent=1))
    elif model.task.metric_names:
        print(metrics_table(model.task, rows))
    else:
        values = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"{where}: {values}")
    return 0


def _baseline(run: str, rows: str) -> dict[str, dict[str, float]]:
    """The metrics of the plain baseline of a run on its test rows, if it has one."""
    from smpgnn.training.run_folder import RunFolder

    record = RunFolder(run).read_record() if named(run) is None else {}
    baseline = record.get("baseline") or {}
    return {f"{rows}, {baseline['name']}": baseline["test"]} if "name" in baseline else {}


def _evaluate_test_split(model: Model, arguments: argparse.Namespace) -> dict[str, float]:
    with importing():
        from smpgnn.training.evaluation import evaluate_store
        from smpgnn.training.member_results import held_out_folds
        from smpgnn.training.prepare import prepare
        from smpgnn.training.run_folder import RunFolder

    name, saved = named(arguments.run), None
    if name is not None:
        options = shipped(name).options
        if isinstance(options, TableOptions):
            raise InputError(f"{name}: its data are not in the package: name labelled data.")
    elif Path(arguments.run).is_dir():
        run = RunFolder(arguments.run)
        options, saved = run.read_options(), run.read_data()
    else:
        raise InputError(
            f"{arguments.run}: is a model file without data: add --data, or name a run folder."
        )
    if arguments.data_dir:
        options = replace(options, data_dir=arguments.data_dir)
    if isinstance(options, TableOptions):
        if not getattr(options, "path", ""):
            raise InputError(
                f"{arguments.run}: was trained from Python: evaluate it there with "
                "smpgnn.load(RUN).evaluate(data)."
            )
        if saved is None:
            print(RunFolder(arguments.run).no_split(), file=sys.stderr)
    if isinstance(options, ZincOptions):
        import_trusted(arguments, options.data_dir, subset=not options.full)
    prepared = prepare(options, saved, old=saved is None)
    if isinstance(options, TableOptions) and options.folds:
        found = held_out_folds(Path(arguments.run), options, prepared, model.device)
        return {**found.test, **{name + _SD: value for name, value in found.sd.items()}}
    test = prepared.splits.test
    return evaluate_store(
        model.network,
        model.task,
        test,
        options.batch_size,
        model.device,
        batch_rows=options.batch_rows,
    )
