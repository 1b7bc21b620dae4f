"""Names of tables, rows and cells as names of files."""

from __future__ import annotations

from collections.abc import Iterable

from smpgnn.errors import InputError
from smpgnn.files import file_name


def pick(wanted: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """The known names that the words mean, in their known order; no words mean all of them.

    A word is a name, or its file name.
    """
    by_file = {file_name(name): name for name in known}
    chosen = set()
    for word in wanted:
        if file_name(word) not in by_file:
            raise InputError(
                f"{what} '{word}': there is none of this name; known are: {', '.join(by_file)}."
            )
        chosen.add(by_file[file_name(word)])
    return [name for name in by_file.values() if not chosen or name in chosen]
