"""smpgnn info."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from smpgnn.cli.arguments import DATA_DIR, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.metrics_table import metrics_table
from smpgnn.cli.trust import add_trust_pickle, import_trusted
from smpgnn.config.models import MODELS
from smpgnn.config.options import TASKS, TableOptions, ZincOptions
from smpgnn.config.settings import with_values
from smpgnn.errors import InputError, shown
from smpgnn.pretrained import NAMES, named, shipped

#: Columns of predictions that are all named.
_MOST_COLUMNS = 12


def add_info(verbs: Any) -> None:
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
        help="run folder, model file, table, task (zinc, …), 'models', 'pretrained', or 'general'",
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
    parser.set_defaults(parser=parser, command=info)


def info(arguments: argparse.Namespace) -> int:
    if arguments.what == "models":
        print(f"{'name':<11} {'memory':<6} {'time':<14} network")
        for entry in MODELS.values():
            edges = "" if entry.edges else "; no edge features"
            print(
                f"{entry.name:<11} {entry.cost[0]:<6} {entry.cost[1]:<14} "
                f"{entry.text} ({entry.paper}){edges}"
            )
        print(
            "(per layer, for n nodes, m edges and width c; "
            "local contexts reduce the memory of smp and fast-smp)"
        )
        return 0
    is_task = arguments.what in TASKS and not Path(arguments.what).exists()
    if arguments.what == "pretrained" or (named(arguments.what) and not is_task):
        for name in NAMES if arguments.what == "pretrained" else [arguments.what]:
            model = shipped(name)
            print(f"{name}: {model.file.stat().st_size / 1e6:.2f} MB, {NAMES[name]}")
            _model(model.file, model.run)
        return 0
    if is_task:
        return _data_set(arguments)
    if not Path(arguments.what).exists():
        raise InputError(
            f"{arguments.what}: no such run, file or task; tasks are {', '.join(TASKS)}."
        )
    path = Path(arguments.what)
    if path.is_file() and path.suffix != ".safetensors":
        return _table(path)
    return _run(path)


def _run(path: Path) -> int:
    from smpgnn.training.member_plan import members
    from smpgnn.training.run_folder import RunFolder

    folder = RunFolder(path)
    record = folder.read_record() if path.is_dir() else {}
    found = members(folder.read_options()) if path.is_dir() and folder.config.exists() else ()
    if not found:
        _model(path, record)
    elif record:
        _model(found[0].folder(path), record, len(found))
    if not record and path.is_dir():
        print("not finished: continue with --resume")
    return 0


def _model(path: Path, record: dict[str, Any], members: int = 0) -> None:
    """Print what a model is and, if the record of its run is known, its metrics.

    Of a run with members, `path` is that of one of them.
    """
    with importing():
        from smpgnn.training.saved import load_model
        from smpgnn.training.verdict import split_metrics, verdict

    saved = load_model(path)
    spec, network = saved.spec, saved.spec.options
    count = sum(parameter.numel() for parameter in saved.network.parameters())
    size = f"{network.num_layers} layers of width {network.hidden_channels}"
    each = f" in each of {members} members" if members > 1 else ""
    print(f"model       {network.model}, {size}{each}")
    print(f"parameters  {count:,}{each}")
    print(f"inputs      {spec.in_channels} node features, {spec.edge_channels} edge features")
    columns = saved.task.columns()
    few = columns if len(columns) <= _MOST_COLUMNS else [*columns[:3], "…", columns[-1]]
    total = "" if few is columns else f" ({len(columns)} columns)"
    print(f"predicts    {', '.join(few)}{total}")
    if record and saved.task.metric_names:
        splits = split_metrics(record)
        print(metrics_table(saved.task, {part: found for part, found in splits.items() if found}))
    elif record:
        for split in ("validation", "test"):
            values = "  ".join(f"{name} {value:.4f}" for name, value in record[split].items())
            print(f"{split:<11} {values}")
    if record.get("baseline"):
        print(verdict(record))
    if record:
        if not members:
            print(f"trained     {record['epochs']} epochs, best {record['best_epoch']}")
        print(f"on          {record['device']}, {record['wall_time_s']:.0f} s")


def _data_set(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.training.memory_probe import probe
        from smpgnn.training.prepare import prepare
        from smpgnn.training.row_counts import count_rows
        from smpgnn.training.saved import pick_device

    names = ("data_dir", "model", "identifiers", "checkpoint")
    given = {name: value for name in names if (value := getattr(arguments, name))}
    if arguments.context_radius is not None:
        given["context_radius"] = arguments.context_radius
    options = with_values(TASKS[arguments.what](), given, "smpgnn info")
    if isinstance(options, TableOptions):
        raise InputError(f"{arguments.what}: has no built-in data: name a table or a run.")
    if isinstance(options, ZincOptions):
        import_trusted(arguments, options.data_dir, subset=not options.full)
    prepared = prepare(options)
    for name in ("train", "val", "test"):
        store = getattr(prepared.splits, name)
        sizes = store.num_nodes.double()
        print(
            f"{name:<6} {len(store):>6} graphs, {sizes.mean():.1f} nodes (at most "
            f"{int(sizes.max())}), {store.num_edges.double().mean():.1f} directed edges"
        )
    batch_size = arguments.batch_size or options.batch_size
    device, counts = pick_device("auto"), count_rows(prepared.splits.train, prepared.spec)
    need = probe(
        prepared.splits.train,
        prepared.spec,
        device,
        counts,
        optimizer=options.optimizer,
        precision=options.precision,
    )
    total = need.of_batch(counts, batch_size, counts[:, 0], 0)
    largest = need.of(counts).topk(min(batch_size, len(counts))).indices
    rows, messages = counts[largest].sum(0).tolist()
    print(
        f"memory of a training step of {options.network.model} with {batch_size} graphs on "
        f"{device.type}: up to about {total / 2**20:.0f} MiB"
    )
    print(
        f"  {rows:,.0f} rows of {need.per_row / 2**10:.2f} KiB, {messages:,.0f} messages of "
        f"{need.per_message / 2**10:.2f} KiB, and {need.fixed / 2**20:.1f} MiB in every batch"
    )
    return 0


def _table(path: Path) -> int:
    with importing():
        from smpgnn.data.tables import stream_table, table_columns

    names = table_columns(path)
    rows = 0
    known = dict.fromkeys(names, 0)
    first: dict[str, str] = {}
    for chunk in stream_table(path):
        rows += len(chunk)
        for name in names:
            there = chunk[name].dropna()
            known[name] += len(there)
            if name not in first and len(there):
                first[name] = shown(str(there.iloc[0]))
    print(f"{rows} rows, {len(names)} columns")
    for name in names:
        print(f"  {name:<24} {known[name]:>8} known, first: {first.get(name, '')}")
    return 0
