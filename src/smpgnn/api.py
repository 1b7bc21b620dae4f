"""Train from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TASKS, GraphsOptions, MoleculesOptions
from smpgnn.config.presets import PAPER, paper_preset
from smpgnn.config.settings import with_values
from smpgnn.errors import InputError

if TYPE_CHECKING:
    from smpgnn.training.train import Result


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
            place of `data` three such data.
        preset: 'paper' for the settings of the paper's experiment.
        resume: continue the run in `output`.
        quiet: print no notes and no progress bar.
        options: any setting of `smpgnn train TASK --help`, with _ for -; for your own data also
            `task`: 'regression' or 'classification'.
    """
    from smpgnn.training.members import Given
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
    prepared, given, parts = None, None, {"train": train, "val": val, "test": test}
    if data is not None or any(part is not None for part in parts.values()):
        if not isinstance(chosen, MoleculesOptions | GraphsOptions):
            raise InputError(
                f"data, train, val and test go with tasks 'molecules' and 'graphs', not '{task}'."
            )
        from smpgnn.training.from_python import prepare_python, with_path

        chosen, rest = with_path(chosen, data, path_given=bool(options.get("path")))
        saved = RunFolder(chosen.output).read_data() if resume else None
        prepared, given = prepare_python(chosen, rest, parts, saved), Given(rest, parts)
    return train_run(chosen, resume=resume, prepared=prepared, quiet=quiet, given=given)
