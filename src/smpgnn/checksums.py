"""Files with a SHA-256 checksum, so that damage is detected when they are read.

JSON           a key "sha256" at the end: the digest of all other keys and values
safetensors    "sha256" in its metadata: the digest of the file with zeros in place of the digest
anything else  a last line "sha256 …": the digest of all bytes before it
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError

_KEY = "sha256"
_ZEROS = "0" * 64
_LAST_LINE = re.compile(rb"\nsha256 ([0-9a-f]{64})\n")
_LAST_LINE_BYTES = len("\nsha256 \n") + 64
_PIECE = 1 << 20
#: Maximum bytes of a JSON file or of the header of a model.
MOST_TEXT = 1 << 28


def file_digest(path: str | Path, end: int | None = None) -> str:
    """SHA-256 of a file, or of its first `end` bytes, read piece by piece."""
    digest, left = hashlib.sha256(), Path(path).stat().st_size if end is None else end
    with Path(path).open("rb") as file:
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def add_last_line(path: str | Path) -> None:
    """Append its checksum to a file."""
    digest = file_digest(path)
    with Path(path).open("ab") as file:
        file.write(f"\n{_KEY} {digest}\n".encode())


def last_line_fits(path: str | Path) -> bool | None:
    """Whether the checksum in the last line matches the bytes before it; None without one."""
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _LAST_LINE_BYTES))
        found = _LAST_LINE.fullmatch(file.read())
    if found is None:
        return None
    return file_digest(path, size - _LAST_LINE_BYTES) == found[1].decode()


def to_json(content: dict[str, Any]) -> str:
    """JSON text of an object, with its checksum as the last key."""
    return json.dumps({**content, _KEY: _json_digest(content)}, indent=1) + "\n"


def read_json(path: str | Path, remedy: str) -> dict[str, Any]:
    """Read and verify what `to_json` wrote; older versions wrote no checksum.

    `remedy` is the end of the error message.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MOST_TEXT:
            raise InputError(f"{path}: is too large for a file of smpgnn: {remedy}.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: is missing: {remedy}.") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: cannot be read because it is not valid JSON: {remedy}."
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: cannot be read because it contains no JSON object: {remedy}.")
    digest = content.pop(_KEY, None)
    if digest is not None and digest != _json_digest(content):
        raise InputError(f"{path}: was changed or damaged (wrong checksum): {remedy}.")
    return content


def _json_digest(content: dict[str, Any]) -> str:
    # of the JSON text, so that it is the same when read back
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sealed_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Safetensors metadata with space for the checksum that `seal_safetensors` writes."""
    return {**metadata, _KEY: _ZEROS}


def seal_safetensors(content: bytes) -> bytes:
    """Write the checksum into the bytes of a safetensors file with `sealed_metadata`."""
    start = _digest_place(content)
    assert start is not None
    digest = hashlib.sha256(content).hexdigest()
    return content[:start] + digest.encode() + content[start + 64 :]


def safetensors_fits(content: bytes) -> bool | None:
    """Whether the checksum of a safetensors file matches its bytes; None if it has none."""
    start = _digest_place(content)
    if start is None:
        return None
    written = content[start : start + 64]
    digest = hashlib.sha256(content[:start])
    digest.update(_ZEROS.encode())
    digest.update(memoryview(content)[start + 64 :])
    return digest.hexdigest().encode() == written


def _digest_place(content: bytes) -> int | None:
    """Where the 64 digits of the checksum begin."""
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    found = re.search(rb'"sha256":"([0-9a-f]{64})"', header)
    return None if found is None else 8 + found.start(1)
