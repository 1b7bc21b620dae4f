"""The one exception for input that cannot be used, and the checks that raise it everywhere."""

from __future__ import annotations

import operator
from typing import Any


class InputError(ValueError):
    """Bad input from a person: an argument, a file, a row.

    The message is one sentence that names the file, row or argument and says what to do about it;
    the command line prints it without a traceback and exits with status 2.
    """


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM or SIGHUP); treated like Ctrl-C."""


def readable(text: str) -> str:
    """The text as UTF-8 can hold it: half a character, as in odd names of files, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object, limit: int = 60) -> str:
    """What a message shows of a value from a file: its text on one line, cut after `limit`."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= limit else f"{text[:limit]}…"


def check_counts(*, at_least: int, **counts: Any) -> None:
    """Refuse numbers of channels or layers that are not whole or too small."""
    for name, value in counts.items():
        try:
            fits = operator.index(value) >= at_least and not isinstance(value, bool)
        except TypeError:
            fits = False
        if not fits:
            raise InputError(
                f"{name} must be a whole number of at least {at_least}, not {value!r}."
            )


def check_tensor(name: str, value: Any) -> None:
    """Refuse lists and arrays where a tensor is needed."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise InputError(f"{name} must be a torch.Tensor, not {type(value).__name__}.")
