"""Files that have caused failures: read from corpus/FORMAT, or generated here if large."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


@cache
def corpus(name: str) -> tuple[bytes, ...]:
    """The content of the files of a format."""
    files = sorted((FOLDER / name).glob("*")) if (FOLDER / name).is_dir() else []
    return (*(file.read_bytes() for file in files), *_LARGE.get(name, ()))


_DIGITS = b"9" * 5000
_LARGE: dict[str, tuple[bytes, ...]] = {
    "csv": (
        b"smiles,size\n" + b"C" * 140_000 + b",1\nCC,2\n",
        b"smiles,size\nC," + _DIGITS + b"\nCC,2\nCCC,1\nCCCC,3\n",
    ),
    "yaml": (
        b"lr: " + _DIGITS + b"\n",
        b"epochs: " + _DIGITS + b"\n",
        b"lr: " + b"[" * 3000 + b"]" * 3000 + b"\n",
        b"lr: " + b"{a: " * 2000 + b"1" + b"}" * 2000 + b"\n",
    ),
    "json": (
        b'{"nodes": [{"id": 0, "w": ' + _DIGITS + b'}], "edges": []}',
        b'{"nodes": [{"id": ' + _DIGITS + b'}], "edges": []}',
        b"[" * 100_000,
        b'{"nodes": ' * 20_000,
    ),
    "graphml": (
        b"<graphml>" * 20_000,
        b'<graphml><key id="d" for="node" attr.name="w" attr.type="int"/><graph><node id="a">'
        b'<data key="d">' + _DIGITS + b"</data></node></graph></graphml>",
    ),
    "edges": (
        b"a b " + _DIGITS + b"\n",
        b"a b {'w': " + _DIGITS + b"}\n",
        b"a b " + b"{" * 500 + b"\n",
        b"a b {'w': " + b"-" * 50_000 + b"1}\n",
        b"a b {'w': " + b"(" * 250 + b")" * 250 + b"}\n",
    ),
}
