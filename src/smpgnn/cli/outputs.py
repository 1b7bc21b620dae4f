"""Files that a command writes in the end, checked before it starts to work."""

from __future__ import annotations

import os
from pathlib import Path

from smpgnn.errors import InputError, quoted


def prepare_file(name: str) -> None:
    """Make the folder of a file to write; refuse a name that no file can have."""
    if not name:
        raise InputError("--output '': give the name of a file to write.")
    path = Path(name)
    try:
        if path.is_dir():
            raise InputError(f"{quoted(name)}: is a folder: give the name of a file to write.")
        if path.exists() and not path.is_file():
            raise InputError(f"{quoted(name)}: is not a regular file: give the name of a file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.stat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{quoted(name)}: cannot be written: {error.strerror}.") from error
