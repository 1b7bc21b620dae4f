"""Train, and search for settings, from Python."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TASKS, GraphsOptions, MoleculesOptions
from smpgnn.config.presets import PRESETS, with_preset
from smpgnn.config.settings import renamed, settings, with_values
from smpgnn.errors import InputError

if TYPE_CHECKING:
    from smpgnn.config.options import TrainOptions
    from smpgnn.training.prepare import Prepared
    from smpgnn.training.train import Result
    from smpgnn.tuning.search import TuneResult


def train(
    task: str,
    /,
    data: Any = None,
    *,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    preset: str = "",
    resume: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Result:
    """Train a model and return its result: folder, best network, metrics.

    Args:
        task: 'cycles', 'properties', 'zinc', 'molecules' (with `data` and targets=['logS']) or
            'graphs' (with `data`).
        data: for 'molecules' a DataFrame or the path of a table; for 'graphs' a path, or graphs of
            PyTorch Geometric with targets `y`. With level='node', their train_mask, val_mask and
            test_mask are the split.
        train, val, test: a split of your own: the row numbers of `data`, counted from 0, or in
            place of `data` three such data. Without `test`, there are no test metrics.
        preset: 'paper' for the settings of the paper's experiment; for 'molecules' 'small', a
            network that trains faster on a CPU.
        resume: continue the run in `output`.
        quiet: print no notes and no progress bar.
        options: any setting of `smpgnn train TASK --help`, with _ for -; for your own data also
            `task`: 'regression' or 'classification'. `labels` may be a DataFrame.
    """
    from smpgnn.training.members import Given
    from smpgnn.training.resume import resumed_options
    from smpgnn.training.train import train_run

    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, not {task!r}.")
    chosen = TASKS[task]()
    if preset not in ("", *PRESETS):
        raise InputError(f"preset must be {' or '.join(map(repr, PRESETS))}, not {preset!r}.")
    if preset:
        chosen = with_preset(chosen, preset)
    labels = _table_of(options)
    chosen = with_values(chosen, options, "train")
    named = {*options, *(PRESETS[preset][task] if preset else ())}
    if resume:
        chosen = resumed_options(chosen, named)
    elif getattr(chosen, "from_run", ""):
        from smpgnn.training.start import with_start

        chosen = with_start(chosen, named)
    parts = {"train": train, "val": val, "test": test}
    chosen, prepared = _with_data(chosen, data, parts, options, labels, resume)
    given = None
    if prepared is not None:
        given = Given(None if isinstance(data, str | Path) else data, parts, labels)
    return train_run(chosen, resume=resume, prepared=prepared, quiet=quiet, given=given)


def tune(
    task: str,
    /,
    data: Any = None,
    *,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    trials: int = 30,
    pruner: str = "median",
    storage: str = "",
    study: str = "",
    quiet: bool = False,
    **options: Any,
) -> TuneResult:
    """Search for settings with a good validation metric, as `smpgnn tune`; test rows play no part.

    Args:
        task, data, train, val, test: as of `train`; the task is 'molecules' or 'graphs'.
        trials, pruner, storage, study: as of `smpgnn tune --help`.
        quiet: print nothing.
        options: settings that are not searched; `output` is the folder of the search.
    """
    if importlib.util.find_spec("optuna") is None:
        raise InputError("tune needs Optuna: pip install 'smpgnn[tune]'.")
    from smpgnn.config.tuning import TuneOptions
    from smpgnn.tuning.search import tune_run

    if task not in ("molecules", "graphs"):
        raise InputError(f"tune: task must be 'molecules' or 'graphs', not {task!r}.")
    plan = TuneOptions(trials=trials, pruner=pruner, storage=storage, study=study)
    labels = _table_of(options)
    chosen = with_values(TASKS[task](), options, "tune")
    parts = {"train": train, "val": val, "test": test}
    chosen, prepared = _with_data(chosen, data, parts, options, labels)
    given = renamed(options, settings(TASKS[task]))
    return tune_run(chosen, plan, given=given, prepared=prepared, quiet=quiet)


def report(run: str | Path, output: str | Path | None = None) -> Path:
    """Write the page of a finished run, as `smpgnn report`; default: report.html in its folder."""
    from smpgnn.pages.run_page import write_report

    return write_report(run, output)


def _table_of(options: dict[str, Any]) -> Any:
    """The table `labels`, taken out of the options, if it is in memory."""
    return options.pop("labels") if hasattr(options.get("labels"), "columns") else None


def _with_data(
    options: TrainOptions,
    data: Any,
    parts: Mapping[str, Any],
    given: Mapping[str, Any],
    labels: Any,
    resume: bool = False,
) -> tuple[TrainOptions, Prepared | None]:
    """The settings, of which some are `given`, and the user's own data if they are in memory."""
    from smpgnn.training.run_folder import RunFolder

    if data is None and labels is None and all(part is None for part in parts.values()):
        return options, None
    if not isinstance(options, MoleculesOptions | GraphsOptions):
        raise InputError(
            "data, train, val and test go with tasks 'molecules' and 'graphs', not "
            f"'{options.task_name()}'."
        )
    from smpgnn.training.from_python import prepare_python, with_path

    options, rest = with_path(options, data, path_given=bool(given.get("path")))
    if isinstance(options, GraphsOptions) and not options.path and not resume:
        options = replace(options, integers=given.get("integers", "categories"))
    saved = RunFolder(options.output).read_data() if resume else None
    return options, prepare_python(options, rest, parts, saved, labels)
