"""Fill the blocks of documents, between <!-- results: NAME --> and <!-- end -->, from records."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Writers = Mapping[str, Callable[[], str]]


def read(path: str) -> dict[str, Any]:
    """A JSON file below results/."""
    content: dict[str, Any] = json.loads((ROOT / "results" / path).read_text(encoding="utf-8"))
    return content


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], about: str = "") -> str:
    """A table as Markdown, and below it in brackets what it is about."""
    first, *lines = ("| " + " | ".join(map(str, line)) + " |" for line in [heads, *rows])
    text = "\n".join([first, "|---" * len(heads) + "|", *lines])
    return f"{text}\n\n({about})" if about else text


def filled(name: str, text: str, writers: Writers) -> str:
    """The text of the document `name` with every block rewritten."""
    for block, write in writers.items():
        pattern = re.compile(rf"(<!-- results: {block} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{name}: no block '{block}'.")
        body = write()
        text = pattern.sub(lambda found, body=body: f"{found[1]}{body}\n{found[2]}", text)
    return text


def fill_documents(documents: Mapping[str, Writers]) -> None:
    """Rewrite the blocks of documents; with --check, exit 1 if one would change."""
    for name, writers in documents.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        write_document(name, filled(name, text, writers))


def write_document(name: str, text: str, key: str = "") -> None:
    """Rewrite a whole document; with --check, exit 1 if it would change.

    A document with a `key` counts as unchanged as long as it contains the key.
    """
    path = ROOT / name
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    if (key not in found) if key else (found != text):
        raise SystemExit(f"{name} does not match results/: run {sys.argv[0]}.")
