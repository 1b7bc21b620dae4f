"""Mutations of bytes; of a format they know only its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

#: Numbers that break programs.
NUMBERS = (
    "0", "-0", "1", "-1", "2", "3", "7", "127", "128", "255", "256", "65535", "65536", "1000000",
    "2147483647", "2147483648", "-2147483649", "4294967296", "9223372036854775807",
    "9223372036854775808", "1" + "0" * 30, "9" * 5000, "1e-400", "1e-46", "1e39", "1e300", "1e999",
    "-1e999", "0.1", "-0.5", "nan", "NaN", "inf", "-Infinity", "0x10", "0b1", "1_0", "١٢", "½",
    "1,5", "1.5.2", "+3", "00012", ".5", "5.", "1e", "1:30", "2020-01-01", "0o17",
)  # fmt: skip

#: Texts that are awkward in any format.
TEXTS = (
    "", " ", "\t", "\n", "\r", "\r\n", "\0", "\ufeff", "\u2028", "\x1b[31m", "é", "日本",
    "😀", "\ud7ff", "null", "None", "true", "false", "NA", "N/A", "~", "a" * 300, "x" * 140_000,
    "'", '"', "\\",
    "../..", "%s", "{}", "[]", "<!--", "&amp;", "e\u0301", "\u202e", "=1+1", "-", "--", ";",
)  # fmt: skip

_BAD_BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\x80")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def mutated(
    random: Random,
    seeds: Sequence[bytes],
    tokens: Sequence[str] = (),
    *,
    most: int = 4,
) -> bytes:
    """Change one of the seeds at random, once or several times."""
    data = random.choice(seeds)
    gentle = random.random() < 0.4
    for _ in range(1 if gentle else random.choice((1, 1, 1, 2, 3, most))):
        change = random.choice(_GENTLE if gentle else _CHANGES)
        data = change(random, data, seeds, tokens)
    return data[:400_000]


def _place(random: Random, data: bytes) -> int:
    return random.randint(0, len(data))


def _range(random: Random, data: bytes) -> tuple[int, int]:
    start = _place(random, data)
    length = min(random.choice((1, 1, 2, 4, 16, 256, 4096)), len(data) - start)
    return start, start + random.randint(0, length)


def _flip(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    if not data:
        return b"\0"
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 4, 32))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _set(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    if not data:
        return b"\xff"
    changed = bytearray(data)
    changed[random.randrange(len(changed))] = random.choice((0, 1, 9, 10, 34, 127, 128, 254, 255))
    return bytes(changed)


def _cut(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    return data[: _place(random, data)]


def _remove(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    start, end = _range(random, data)
    return data[:start] + data[end:]


def _repeat(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    start, end = _range(random, data)
    times = random.choice((1, 1, 2, 10, 2000))
    return data[:end] + (data[start:end] * times)[:100_000] + data[end:]


def _splice(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    other = random.choice(seeds)
    return data[: _place(random, data)] + other[_place(random, other) :]


def _bad(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    place = _place(random, data)
    return data[:place] + random.choice(_BAD_BYTES) + data[place:]


def _insert(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    pool = random.choice((TEXTS, NUMBERS, tokens or TEXTS))
    text = random.choice(pool).encode("utf-8", "surrogatepass")
    start, end = _range(random, data) if random.random() < 0.5 else (_place(random, data),) * 2
    return data[:start] + text * random.choice((1, 1, 1, 1, 2, 50)) + data[end:]


def _number(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _insert(random, data, seeds, tokens)
    match = random.choice(found)
    return data[: match.start()] + random.choice(NUMBERS).encode() + data[match.end() :]


def _lines(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    lines = data.split(b"\n")
    here, there = random.randrange(len(lines)), random.randrange(len(lines))
    what = random.randrange(4)
    if what == 0:
        lines[here], lines[there] = lines[there], lines[here]
    elif what == 1:
        lines.insert(there, lines[here])
    elif what == 2:
        del lines[here]
    else:
        return (b"\r\n", b"\r", b"\n\n")[random.randrange(3)].join(lines)
    return b"\n".join(lines)


def _word(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    """Replace a word by another one of this or another seed."""
    words = re.findall(rb"\w+", data)
    others = re.findall(rb"\w+", random.choice(seeds)) or [b"x"]
    if not words:
        return data + random.choice(others)
    return data.replace(random.choice(words), random.choice(others), random.choice((1, 1, -1)))


def _swap(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    """Replace a word by another one or by an awkward text."""
    words = list(re.finditer(rb"[\w.+-]+", data))
    if not words:
        return data
    match = random.choice(words)
    other = random.choice(words).group()
    if random.random() < 0.5:
        other = random.choice(random.choice((TEXTS, NUMBERS))).encode("utf-8", "surrogatepass")
    return data[: match.start()] + other + data[match.end() :]


def _encode(random: Random, data: bytes, seeds: Sequence[bytes], tokens: Sequence[str]) -> bytes:
    if random.random() < 0.7:
        return _flip(random, data, seeds, tokens)
    text = data.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32")), "replace")


Change = Callable[[Random, bytes, Sequence[bytes], Sequence[str]], bytes]
#: Files often remain readable after these changes, so that they reach the code behind the reader.
_GENTLE: tuple[Change, ...] = (_number, _word, _lines, _swap)
_CHANGES: tuple[Change, ...] = (
    _flip, _set, _cut, _remove, _repeat, _splice, _bad, _insert, _insert, _insert, _number,
    _number, _lines, _word, _encode,
)  # fmt: skip
