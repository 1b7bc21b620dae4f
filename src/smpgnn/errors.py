"""`InputError`, the exception for bad input, and common checks that raise it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_WORD, _LINE = 300, 2000  # maximum lengths of a word and of a line in a message


class InputError(ValueError):
    """Bad input from the user: an argument, a file, a row.

    The message is one sentence that names the file, row or argument and the remedy. The command
    line prints it without a traceback and exits with status 2.
    """


def one_sentence(text: str) -> str:
    """Format a message for printing: one line of bounded length without control characters.

    Messages quote cells, names and values of the user's files. These may have any length and
    contain anything, such as terminal escape sequences.
    """
    words = (_cut(word, _WORD) for word in text.split())
    line = " ".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in w) for w in words)
    line = _cut(line, _LINE)
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _cut(text: str, most: int) -> str:
    """The text; if it is longer than `most`, its middle is replaced by '…'."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 4 :]}"


def quoted(value: Any, most: int = 80) -> str:
    """The repr of a value for a message, truncated if long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print integers with 5,000 digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= most else text[: most - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`, if any is close; hyphens and case do not count."""

    def bare(text: str) -> str:
        return text[:100].strip("-").replace("-", "_").casefold()

    by_bare = {bare(other): other for other in reversed([*known])}
    near = get_close_matches(bare(name), by_bare, n=1, cutoff=0.65)
    return by_bare[near[0]] if near else None


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM or SIGHUP); treated like Ctrl-C."""


def readable(text: str) -> str:
    """Escape lone surrogates, as in odd file names, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object, limit: int = 60) -> str:
    """A value from a file as a message shows it: on one line, truncated after `limit`."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= limit else f"{text[:limit]}…"


def reason(error: Exception) -> str:
    """What a library says about damaged content, for a message."""
    return shown(f"{type(error).__name__}: {error}", 120).rstrip(".")


def check_counts(*, at_least: int, **counts: Any) -> None:
    """Refuse counts (of channels or layers) that are not integers or are too small."""
    for name, value in counts.items():
        try:
            fits = operator.index(value) >= at_least and not isinstance(value, bool)
        except TypeError:
            fits = False
        if not fits:
            raise InputError(
                f"{name} must be a whole number of at least {at_least}, not {quoted(value)}."
            )


def check_tensor(name: str, value: Any) -> None:
    """Refuse lists, arrays and sparse tensors where a dense tensor is needed."""
    import torch

    if not isinstance(value, torch.Tensor):
        remedy = ""
        if name == "edge_index" and type(value).__name__ == "SparseTensor":
            remedy = _TO_EDGE_INDEX
        elif hasattr(value, "__array__") or isinstance(value, list | tuple):
            remedy = f": call torch.as_tensor({name})"
        raise InputError(f"{name} must be a torch.Tensor, not {type(value).__name__}{remedy}.")
    if value.is_nested:
        raise InputError(f"{name} must be a dense tensor, not a nested one: stack its components.")
    if value.layout != torch.strided:
        remedy = _TO_EDGE_INDEX if name == "edge_index" else f": call {name}.to_dense()"
        raise InputError(f"{name} must be a dense tensor, not {value.layout}{remedy}.")


_TO_EDGE_INDEX = (
    ": call torch_geometric.utils.to_edge_index(edge_index)[0] (on edge_index.t() if it is the "
    "transposed adjacency matrix adj_t)"
)


def check_device(name: str, value: Any, device: Any) -> None:
    """Refuse a tensor on another device than the network."""
    if value is not None and value.device != device:
        raise InputError(
            f"{name} is on {value.device}, but the network is on {device}: "
            f"call {name}.to('{device}') or model.to('{value.device}')."
        )
