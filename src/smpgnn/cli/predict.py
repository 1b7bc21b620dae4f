"""smpgnn predict."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from smpgnn.cli.arguments import add_device, add_inputs, add_output, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.rate import for_table, print_written, show_rate
from smpgnn.errors import InputError


def add_predict(verbs: Any) -> None:
    parser = verbs.add_parser(
        "predict",
        help="predict with a trained model",
        description="Predict for a table of SMILES or for graphs; the output has a row for every "
        "input row.",
        epilog="examples:\n  smpgnn predict runs/logS molecules.csv -o predictions.csv\n"
        "  smpgnn predict runs/logS 'in/*.parquet' -o out/ --engine ray",
    )
    add_inputs(parser, "; several tables by a pattern such as 'in/*.parquet'", nargs="+")
    output = add_output(
        parser,
        "CSV or Parquet file to write; for several tables a folder, such as out/, whose finished "
        "files are skipped",
    )
    output.add_argument(
        "--interval",
        metavar="P",
        type=float,
        help="add intervals that contain this share of the targets, such as 0.9",
    )
    output.add_argument(
        "--domain",
        action="store_true",
        help="add the similarity to the nearest training molecule, and which one it is",
    )
    hardware = add_device(parser)
    hardware.add_argument(
        "--processes",
        metavar="N",
        type=whole_number(1, 100_000),
        default=0,
        help="processes for tables of SMILES; default: one per idle processor for long tables",
    )
    hardware.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="with a folder as output: processes of this machine, or Ray on many machines",
    )
    parser.set_defaults(parser=parser, command=predict)


def predict(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.inference.partition_files import writes_folder
        from smpgnn.inference.predict import load, predict_graphs, predict_table

    if arguments.engine == "ray" or writes_folder(arguments.data, arguments.output):
        return _predict_folder(arguments)
    (data,) = arguments.data
    model = load(arguments.run, arguments.device)
    if model.reads_smiles and Path(data).is_dir():
        return _predict_folder(arguments)
    if arguments.interval is not None:
        model = model.with_interval(arguments.interval)
    if arguments.domain:
        model = model.with_domain()
    if model.reads_smiles:
        written = predict_table(
            model, data, arguments.output, processes=arguments.processes, **for_table(arguments)
        )
    else:
        written = predict_graphs(model, data, arguments.output)
    print_written(written, arguments.output, "prediction")
    if written.renamed:
        names = ", ".join(f"'{name}'" for name in written.renamed)
        print(f"The table already has columns of the usual names: the new columns are {names}.")
    return 0


def _predict_folder(arguments: argparse.Namespace) -> int:
    """Predict for several tables, each into a file of its own."""
    with importing():
        from smpgnn.inference.engines import check_ray, run_local, run_ray
        from smpgnn.inference.partition_files import plan
        from smpgnn.inference.partitions import Job, Worker

    by_ray = arguments.engine == "ray"
    if by_ray:
        check_ray()
    job = Job(
        arguments.run,
        "cpu" if by_ray else arguments.device,
        arguments.smiles_column,
        arguments.separator,
        arguments.interval,
        arguments.domain,
    )
    worker = Worker(job)
    partitions = plan(arguments.data, arguments.output)
    show, total = show_rate("rows"), len(partitions)
    done = new = rows = failed = earlier = 0
    unwritten = []

    def progress(more: int) -> None:
        show(new + more, f"; {done} of {total} files")

    if by_ray:
        everywhere = replace(worker.job, device=arguments.device)
        outcomes = run_ray(everywhere, partitions, arguments.processes)
    else:
        outcomes = run_local(worker, partitions, arguments.processes, progress)
    for outcome in outcomes:
        done += 1
        if outcome.written is None:
            unwritten.append(outcome.reason)
            continue
        rows, failed = rows + outcome.written.rows, failed + outcome.written.failed
        earlier += outcome.earlier
        new += 0 if outcome.earlier else outcome.written.rows
        progress(0)
    written = done - len(unwritten)
    files = "file" if written == 1 else "files"
    print(f"{rows:,} rows in {written:,} {files} in {arguments.output}", end="")
    print(f", {earlier:,} of them finished before" if earlier else "")
    if failed:
        print(f"{failed:,} rows have no prediction: see the column 'error'.")
    if unwritten:
        raise InputError(
            f"{len(unwritten)} of {total} tables have no predictions (correct them and run the "
            f"command again): {' '.join(unwritten[:5])}"
        )
    return 0
