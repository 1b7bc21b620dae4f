"""A case: a command line, its input files and the outputs it may write."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random


@dataclass(frozen=True)
class Case:
    """One call of the program.

    Args:
        words: the command line after `smpgnn`; MOLECULES, GRAPHS, … name trained models.
        files: the content of the working folder, by path.
        outputs: paths that the call may create, in full or not at all.
        interrupt: seconds after which Ctrl-C is pressed, or SIGTERM arrives, if any.
        trains: whether a training really runs; else it ends where the first epoch would start.
    """

    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    interrupt: float | None = None
    trains: bool = False

    def command(self) -> str:
        """The command line, quoted for a shell."""
        return shlex.join(("smpgnn", *self.words))

    def save(self, folder: Path) -> None:
        """Write the files of the case, and the command line that reads them."""
        for name, content in self.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


#: Makes a random case of a format.
Maker = Callable[[Random], Case]
