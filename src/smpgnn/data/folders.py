"""Where the folder of benchmark data, given by the caller or the environment, may have a file."""

from __future__ import annotations

import os
from pathlib import Path

from smpgnn.errors import InputError


def given_folders(name: str, data_dir: str | Path | None) -> list[Path]:
    """Folders for the data set `name`: in `data_dir` or else SMPGNN_DATA; empty if neither."""
    given = data_dir if data_dir is not None else os.environ.get("SMPGNN_DATA") or None
    if given is None:
        return []
    folder = Path(given).expanduser()
    if not folder.is_dir():
        option = "SMPGNN_DATA" if data_dir is None else "data_dir"
        raise InputError(f"{option} is {folder}, which is not a folder: correct it.")
    return [folder / name, folder]


def benchmark_file(name: str, file: str, source: str, data_dir: str | Path | None) -> Path:
    """The file of a data set that is not downloaded; `source` says where it comes from."""
    folders = given_folders(name, data_dir)
    found = next((path for folder in folders if (path := folder / file).is_file()), None)
    if found is None:
        where = f"{folders[1]} has no {name}/{file}" if folders else f"{name}/{file} is needed"
        raise InputError(
            f"{where} ({source}): name the folder that contains it with --data-dir or SMPGNN_DATA."
        )
    return found
