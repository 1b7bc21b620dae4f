"""Every flipped bit in a file with a checksum is detected or harmless."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from smpgnn.checksums import (
    add_last_line,
    file_digest,
    last_line_fits,
    read_json,
    safetensors_fits,
    seal_safetensors,
    sealed_metadata,
    to_json,
)
from smpgnn.errors import InputError

RECORD = {"test": {"mae": 0.1 + 0.2, "mse": 1e-30}, "note": "naïve", "parts": [1, 2], "best": None}


def flips(content: bytes, count: int) -> Iterator[bytes]:
    """Copies with one flipped bit each, at all or at `count` positions."""
    places = range(len(content))
    random.seed(0)
    for place in places if len(content) <= count else random.sample(places, count):
        copy = bytearray(content)
        copy[place] ^= 1 << random.randrange(8)
        yield bytes(copy)


def test_json_comes_back_and_a_flip_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(to_json(RECORD))
    assert read_json(path, "mend it") == RECORD
    refused = 0
    for content in flips(path.read_bytes(), 10_000):
        path.write_bytes(content)
        try:
            found = read_json(path, "mend it")
        except InputError:
            refused += 1
        else:
            # white space, or the name of the checksum itself
            assert {name: found.get(name) for name in RECORD} == RECORD
    assert refused > 0.8 * len(path.read_bytes())


def test_json_without_a_checksum_is_of_an_older_version(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(RECORD))
    assert read_json(path, "mend it") == RECORD


@pytest.mark.parametrize(
    "content",
    [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"null",
     b'{"a": 1, "sha256": 5}', b'{"a": 1, "sha256": "0"}'],
)  # fmt: skip
def test_foreign_json_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: .*: mend it\.$") as caught:
        read_json(path, "mend it")
    assert "\n" not in str(caught.value)


def test_json_of_absurd_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a sparse file takes no space
    with pytest.raises(InputError, match="too large for a file of smpgnn"):
        read_json(path, "mend it")


def test_a_last_line_finds_every_flip(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    random.seed(1)
    path.write_bytes(random.randbytes(500))
    assert last_line_fits(path) is None
    add_last_line(path)
    assert last_line_fits(path) is True
    whole = path.read_bytes()
    for content in flips(whole, 10_000):
        path.write_bytes(content)
        assert not last_line_fits(path)
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert not last_line_fits(path)


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    import hashlib

    path = tmp_path / "a.bin"
    content = bytes(range(256)) * 10_000
    path.write_bytes(content)
    assert file_digest(path) == hashlib.sha256(content).hexdigest()
    assert file_digest(path, 1_500_000) == hashlib.sha256(content[:1_500_000]).hexdigest()


def test_safetensors_keep_their_content_and_find_every_flip(tmp_path: Path) -> None:
    tricky = json.dumps({"sha256": "0" * 64, '"sha256":"': '"sha256":"' + "1" * 64})
    metadata = sealed_metadata({"content": tricky})
    whole = seal_safetensors(save({"sha256": torch.arange(9.0)}, metadata=metadata))
    assert safetensors_fits(whole) is True
    path = tmp_path / "a.safetensors"
    path.write_bytes(whole)
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["content"] == tricky
        assert torch.equal(file.get_tensor("sha256"), torch.arange(9.0))
    for content in flips(whole, 10_000):
        assert not safetensors_fits(content)
    for length in range(len(whole)):
        assert not safetensors_fits(whole[:length])
    assert safetensors_fits(save({"a": torch.zeros(2)})) is None
