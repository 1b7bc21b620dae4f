"""Train from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TASKS, GraphsOptions
from smpgnn.config.presets import PAPER, paper_preset
from smpgnn.config.settings import with_values
from smpgnn.errors import InputError

if TYPE_CHECKING:
    from smpgnn.training.prepare import Prepared
    from smpgnn.training.run_data import RunData
    from smpgnn.training.train import Result


def train(
    task: str,
    /,
    data: Sequence[Any] | None = None,
    *,
    preset: str = "",
    resume: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Result:
    """Train a model and return its result: folder, best network, metrics.

    Args:
        task: 'cycles', 'properties', 'zinc', 'molecules' (with path='data.csv', targets=['logS'])
            or 'graphs' (with `path` or `data`).
        data: graphs of PyTorch Geometric with a target `y` each, for task 'graphs'.
        preset: 'paper' for the settings of the paper's experiment.
        resume: continue the run in `output`.
        quiet: print no notes and no progress bar.
        options: any setting of `smpgnn train TASK --help`, with _ for -; for your own data also
            `task`: 'regression' or 'classification'.
    """
    from smpgnn.training.resume import resumed_options
    from smpgnn.training.run_folder import RunFolder
    from smpgnn.training.train import train_run

    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, not {task!r}.")
    chosen = TASKS[task]()
    if preset not in ("", "paper"):
        raise InputError(f"preset must be 'paper' or left out, not {preset!r}.")
    if preset:
        chosen = paper_preset(chosen)
    chosen = with_values(chosen, options, "train")
    if resume:
        chosen = resumed_options(chosen, {*options, *(PAPER[task] if preset else ())})
    prepared = None
    if data is not None:
        if not isinstance(chosen, GraphsOptions):
            raise InputError(f"data goes with task 'graphs', not with '{task}'.")
        saved = RunFolder(chosen.output).read_data() if resume else None
        prepared = _prepared(chosen, data, saved)
    return train_run(chosen, resume=resume, prepared=prepared, quiet=quiet)


def _prepared(options: GraphsOptions, data: Sequence[Any], saved: RunData | None) -> Prepared:
    import pandas as pd

    from smpgnn.data.pyg import graphs_from_pyg
    from smpgnn.data.targets import parse_targets
    from smpgnn.training.own_data import prepare_store

    store = graphs_from_pyg(data, level="node" if options.level == "node" else "graph")
    target = store.y if options.level == "graph" else store.y_node
    if target is None:
        raise InputError("data: the graphs have no targets: add 'y' to each.")
    names = list(options.targets) or (
        ["y"] if target.size(1) == 1 else [f"y{k}" for k in range(target.size(1))]
    )
    if len(names) != target.size(1):
        raise InputError(f"targets: {len(names)} names were given for {target.size(1)} targets.")
    frame = pd.DataFrame(target.double().numpy(), columns=names)
    targets = parse_targets(frame, names, options.task, source="data")
    values = targets.values
    store = replace(store, y=values) if options.level == "graph" else replace(store, y_node=values)
    return prepare_store(options, store, targets.spec, None, saved=saved)
