"""Runs a script of the repository in this process, as `python SCRIPT WORDS…` would."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path
from unittest import mock

from cli.commands import Outcome


def run_script(script: Path, *words: object) -> Outcome:
    """Run a script here: starting Python and importing torch again would take most of the time."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    folder, known = str(script.parent), set(sys.modules)
    arguments = mock.patch.object(sys, "argv", [str(script), *map(str, words)])
    path = mock.patch.object(sys, "path", [folder, *sys.path])
    with arguments, path, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                err.write(end.code)
        finally:
            for name in set(sys.modules) - known:  # a copy of the script has its own modules
                if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
                    del sys.modules[name]
    return Outcome(status, out.getvalue(), err.getvalue())
