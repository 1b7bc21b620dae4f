"""Which tables a command names, and where the predictions for each are written."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from smpgnn.errors import InputError
from smpgnn.inference.partitions import Partition

#: Endings that are no part of the name of a file of predictions.
_ENDINGS = (".gz", ".parquet", ".csv", ".tsv", ".txt", ".sdf", ".sd", ".mol")


def writes_folder(words: Sequence[str], output: str) -> bool:
    """Whether a command predicts for many tables: it names several, or a folder to write to."""
    return len(words) > 1 or is_pattern(words[0]) or output.endswith(os.sep)


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern of file names, such as 'in/*.parquet'."""
    return glob.has_magic(word) and not os.path.exists(word)


def plan(words: Sequence[str], output: str) -> list[Partition]:
    """The tables that files, folders and patterns name, and the file of predictions for each.

    A folder stands for the Parquet files in it. Predictions have the name of their table, in the
    folder `output` and in the folders below it that a pattern such as 'in/*/*.parquet' leaves open.
    """
    folder = Path(output)
    if folder.suffix in _ENDINGS or (folder.exists() and not folder.is_dir()):
        raise InputError(
            f"-o {output}: the predictions for tables go into a folder: name one, such as -o out/."
        )
    named = dict.fromkeys(pair for word in words for pair in _files(word))
    partitions = [
        Partition(file.absolute(), folder.absolute() / f"{_bare(file.relative_to(base))}.parquet")
        for file, base in named
    ]
    sources = {partition.source.resolve() for partition in partitions}
    first: dict[Path, Path] = {}
    for one in partitions:
        if one.target.resolve() in sources:
            raise InputError(
                f"-o {output}: {one.target} is one of the tables: name another folder."
            )
        other = first.setdefault(one.target, one.source)
        if other != one.source:
            raise InputError(
                f"{other} and {one.source} would both be written to {one.target}: rename one, or "
                "predict for each folder by itself."
            )
    return partitions


def _files(word: str) -> list[tuple[Path, Path]]:
    """The files that a word names, and the folder below which each keeps its path."""
    path = Path(word)
    if path.is_dir():
        found = [(file, path) for file in sorted(path.glob("[!._]*.parquet"))]
        if not found:
            raise InputError(
                f"{word}: has no Parquet files: name other tables by a pattern, such as "
                f"'{path / '*.csv'}'."
            )
        return found
    if not is_pattern(word):
        return [(path, path.parent)]
    parts = path.parts
    fixed = next(n for n, part in enumerate(parts) if glob.has_magic(part))
    base = Path(*parts[:fixed])
    found = [
        (Path(name), base)
        for name in sorted(glob.glob(word, recursive=True))
        if os.path.isfile(name)
    ]
    if not found:
        raise InputError(f"'{word}': no file has such a name: check the pattern.")
    return found


def _bare(file: Path) -> str:
    """The name of a table without the endings of its format."""
    name = str(file)
    while Path(name).suffix in _ENDINGS:
        name = name.removesuffix(Path(name).suffix)
    return name
