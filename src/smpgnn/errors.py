"""The one exception for input that cannot be used, and the checks that raise it everywhere."""

from __future__ import annotations

import operator
from typing import Any


_WORD, _LINE = 300, 2000  # longest word and line of a message


class InputError(ValueError):
    """Bad input from a person: an argument, a file, a row.

    The message is one sentence that names the file, row or argument and says what to do about it;
    the command line prints it without a traceback and exits with status 2.
    """


def one_sentence(text: str) -> str:
    """A message as it is printed: one line of bounded length, without control characters.

    Messages quote cells, names and values of the user's files, which may be of any length and hold
    anything, such as the escape sequences of a terminal.
    """
    words = (word if len(word) <= _WORD else f"{word[: _WORD // 2]}…" for word in text.split())
    line = " ".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in w) for w in words)
    if len(line) > _LINE:
        line = f"{line[: _LINE // 2]} … {line[-_LINE // 4 :]}"
    return line if line.endswith((".", "?", "!")) else f"{line}."


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
