"""Continue a run: its settings, and the checks of its last checkpoint.

`resumed_options` needs no torch, so that its errors appear at once.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.checksums import last_line_fits
from smpgnn.config.options import TrainOptions
from smpgnn.config.settings import flat, plain, renamed
from smpgnn.config.settings import settings as settings_of
from smpgnn.errors import InputError
from smpgnn.training.run_folder import DATA, PLACE, RunFolder

if TYPE_CHECKING:
    from torch import Tensor


def resumed_options(options: TrainOptions, given: Collection[str]) -> TrainOptions:
    """The settings of the run in `output`; of those `given`, only where it runs may differ."""
    if not options.output:
        raise InputError("--resume: name the run to continue with --output RUN.")
    folder = RunFolder(options.output)
    stored = folder.read_options()
    if stored.task_name() != options.task_name():
        raise InputError(
            f"{options.output}: is a run of '{stored.task_name()}', not of '{options.task_name()}'."
        )
    before, now = flat(stored), flat(options)
    for name in renamed(dict.fromkeys(given), before):
        known, wanted = before[name], now[name]
        if name in DATA and (folder.data.exists() or _same_file(known, wanted)):
            continue  # identified by the fingerprint
        if name not in (*PLACE, "auto_batch") and known != wanted:  # the run has its batch_rows
            shown = name if name == "path" else settings_of(type(stored))[name].option
            raise InputError(
                f"{shown} {wanted}: the run has {known}, and --resume keeps its settings: "
                "leave it out, or start a new run."
            )
    place = {name: getattr(options, name) for name in (*PLACE, *DATA) if name in given}
    return replace(stored, **{**place, "output": options.output})


def settings(options: TrainOptions) -> dict[str, Any]:
    """The settings that affect results, as plain values: all but the places of run and data."""
    return {name: value for name, value in plain(options).items() if name not in (*PLACE, *DATA)}


def check_checkpoint(
    path: Path, options: TrainOptions, weights: Mapping[str, Tensor], *, sealed: bool
) -> bool:
    """Refuse a checkpoint that is damaged or of another run, without running anything in it.

    Args:
        path: the file.
        options: the settings of the run.
        weights: the state of its module, by name.
        sealed: refuse a file without a checksum; older versions wrote none.

    Returns:
        Whether the file has a checksum.
    """
    import torch

    try:
        fits = last_line_fits(path)
        if fits is False or (sealed and fits is None):
            raise damaged(path)
        with zipfile.ZipFile(path) as file:  # torch does not compress, so nothing can expand
            if sum(entry.file_size for entry in file.infolist()) > path.stat().st_size:
                raise damaged(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        shapes = {name: value.shape for name, value in content["state_dict"].items()}
        whole = {"epoch", "loops", "callbacks", "optimizer_states", "plateau"} <= set(content)
        before = dict(content.get("settings", {}))
    except Exception as error:  # a damaged file may cause any
        raise damaged(path) from error
    if not whole or shapes != {name: value.shape for name, value in weights.items()}:
        raise InputError(f"{path}: belongs to another run: delete it to restart the run.")
    now = settings(options)
    before = renamed(before, now)
    for name, value in now.items():
        if name in before and before[name] != value:
            raise InputError(
                f"{path.with_name('config.yaml')}: {name} is {value}, but the run has "
                f"{before[name]}: change it back, or start a new run."
            )
    return bool(fits)


def damaged(path: Path) -> InputError:
    """The error for a damaged checkpoint."""
    return InputError(
        f"{path}: is damaged or not a checkpoint of smpgnn: delete it to restart the run."
    )


def _same_file(one: str, other: str) -> bool:
    return bool(one and other) and os.path.realpath(one) == os.path.realpath(other)
