"""Checks of output files before a command starts its work."""

from __future__ import annotations

import os
from pathlib import Path

from smpgnn.errors import InputError, quoted


def prepare_file(name: str) -> None:
    """Create the folder of an output file; refuse an invalid name."""
    if not name:
        raise InputError("--output '': give a file name.")
    path = Path(name)
    try:
        if path.is_dir():
            raise InputError(f"{quoted(name)}: is a folder: give a file name.")
        if path.exists() and not path.is_file():
            raise InputError(f"{quoted(name)}: is not a regular file: choose another path.")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.stat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{quoted(name)}: cannot be written: {error.strerror}.") from error
