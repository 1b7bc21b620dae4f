"""Fuzz tables: CSV (also gzipped), Parquet, and SMILES in a table."""

from __future__ import annotations

import base64
import gzip
import io
import json
from functools import cache
from random import Random
from typing import Any

from fuzz.cases import Case
from fuzz.corpus import corpus
from fuzz.models import graph, table
from fuzz.mutate import TEXTS, mutated

_TOKENS = (
    ",", ";", "\t", '"', '""', "\n", "\r", "smiles", "size", "error", "CCO", "c1ccccc1", "train",
    "val", "test", "NA", "nan", "prediction", "\n\n", '"\n"', "a", "b", ">", "<", "≥ ", "<= 2",
)  # fmt: skip


def csv_case(random: Random) -> Case:
    """A damaged CSV file for the commands that read tables."""
    data = mutated(random, _csv_seeds(), _TOKENS)
    name = "t.csv"
    if random.random() < 0.06:
        name, data = "t.csv.gz", gzip.compress(data, 1, mtime=0)
        if random.random() < 0.5:
            data = mutated(random, [data])
    return table_case(random, name, data)


def table_case(random: Random, name: str, data: bytes) -> Case:
    files = {name: data}
    more: tuple[str, ...] = ()
    if random.random() < 0.1:
        more = ("--smiles-column", random.choice(("size", "name", "SMILES", "", " ", "part")))
    elif random.random() < 0.1 and name.endswith(".csv"):
        more = ("--separator", random.choice((",", ";", "\t", "|", '"', "\\t", "", "\n", "é")))
    model = random.choice(("MOLECULES", "MOLECULES", "CLASSES", "MIXED"))
    interrupt = random.uniform(0, 0.04) if random.random() < 0.03 else None
    what = random.random()
    if what < 0.5:
        output = random.choice(("out.csv", "out.csv", "out.tsv", "out.csv.gz", "out"))
        words = ("predict", model, name, "-o", output, *more)
        return Case(words, files, (output,), interrupt)
    if what < 0.55:
        words = ("explain", model, name, "-o", "out.csv", "--steps", "2", *more)
        return Case(words, files, ("out.csv",), interrupt)
    if what < 0.7:
        return Case(("info", name), files, (), interrupt)
    if what < 0.85:
        return Case(("evaluate", model, name, *more), files, (), interrupt)
    if what < 0.95:
        target = random.choice(("size", "size", "kind", "part", "smiles", "size kind")).split()
        split = random.choice(
            ((), (), ("--split", "scaffold"), ("--split-column", "part"), ("--task", "regression"))
        )
        chosen = random.choice(
            ((), (), ("--standardize",), ("--replicates", "mean"), ("--log-target",),
             ("--standardize", "--replicates", "mean"))
        )  # fmt: skip
        words = (
            "train", "molecules", name, "--targets", *target, "--output", "run", *split, *chosen,
            *more,
        )  # fmt: skip
        return Case(words, files, ("run",))
    files["graphs.jsonl"] = _graphs()
    words = ("train", "graphs", "graphs.jsonl", "--labels", name, "--output", "run")
    return Case(words, files, ("run",))


@cache
def _graphs() -> bytes:
    return "\n".join(json.dumps(graph(number)) for number in range(5)).encode()


@cache
def _csv_seeds() -> list[bytes]:
    plain = table()
    labels = "graph,size,kind\n" + "\n".join(f"g{k},{k},{'ab'[k % 2]}" for k in range(5)) + "\n"
    quoted = 'name,smiles,size\n"a, b","CCO",1\n"line\nbreak",CC,2\n"quo""te",C,3\n'
    return [
        plain.encode(),
        plain.replace(",", ";").encode(),
        plain.replace(",", "\t").encode(),
        plain.replace("\n", "\r\n").encode("utf-8-sig"),
        labels.encode(),
        quoted.encode(),
        b"smiles\nC\nCC\n",
        b"smiles,size\nC,1\nCC,2\nCCC,3\nCCCC,4\n",
        *corpus("csv"),
    ]


# SMILES

_ATOMS = (
    "C", "N", "O", "S", "P", "F", "Cl", "Br", "I", "B", "c", "n", "o", "s", "p", "*", "[H]",
    "[Na+]", "[nH]", "[13CH4]", "[C@H]", "[C@@]", "[NH4+]", "[O-]", "[Fe+2]", "[Xe]", "[U]", "[Og]",
    "[se]", "[C@TH1]", "[Co@OH7]", "[*:1]", "[999C]", "[CH9]", "[C+9]", "[C-999]", "[#6]", "[#200]",
    "[D]", "[2H]", "[R1]", "[te]", "[H][H]", "[Pt@SP1]", "[C:99999999999]", "[HH]", "[CH-]", "[0C]",
)  # fmt: skip
_LINKS = ("", "", "", "-", "=", "#", ":", "$", "~", "/", "\\", ".", "->", "<-", ">>", ">")
_RINGS = ("1", "2", "9", "0", "%10", "%99", "%(100)", "%(99999)", "%", "11", "=1", "#2", "/1")
_SEEDS = (
    "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C[C@H](N)C(=O)O", "F/C=C/F",
    "OC[C@@H](O1)[C@@H](O)[C@H](O)[C@@H](O)[C@@H](O)1", "[Na+].[Cl-]", "C1CC1", "c1ccc2ccccc2c1",
    "N#N", "[Fe+2].[O-]S(=O)(=O)[O-]", "CCO |$a;b;$|", "CC>>CO", "C" * 60, "c1ccsc1", "[2H]C",
)  # fmt: skip


def smiles_case(random: Random) -> Case:
    """A table of texts similar to SMILES; every row must have a prediction or a reason."""
    rows = [_smiles(random) for _ in range(random.choice((1, 3, 8)))]
    text = io.StringIO()
    text.write("smiles,size\n")
    for row in rows:
        quoted = '"' + row.replace('"', '""') + '"'
        text.write(f"{quoted},{random.choice(('1', '2.5', ''))}\n")
    files = {"t.csv": text.getvalue().encode("utf-8", "replace")}
    what = random.random()
    model = random.choice(("MOLECULES", "MOLECULES", "MIXED", "CLASSES", "zinc"))
    if what < 0.8:
        return Case(("predict", model, "t.csv", "-o", "out.csv"), files, ("out.csv",))
    if what < 0.85:
        words = ("explain", "MOLECULES", "t.csv", "-o", "out.csv", "--steps", "1")
        if random.random() < 0.3:
            return Case((*words, "--figures", "fig"), files, ("out.csv", "fig"))
        return Case(words, files, ("out.csv",))
    if what < 0.93:
        return Case(("evaluate", "MOLECULES", "t.csv"), files)
    valid = "".join(f"{'C' * number},{number}\n" for number in range(1, 9))
    files["t.csv"] += valid.encode()
    split = random.choice(((), ("--split", "scaffold")))
    words = ("train", "molecules", "t.csv", "--targets", "size", "--output", "run", *split)
    return Case(words, files, ("run",))


def _smiles(random: Random) -> str:
    if random.random() < 0.4:
        seeds = [*(seed.encode() for seed in _SEEDS), *corpus("smiles")[0].splitlines()]
        tokens = (*_ATOMS, *_LINKS, *_RINGS, "(", ")", "[", "]")
        return mutated(random, seeds, tokens, most=6).decode("utf-8", "replace")[:2000]
    parts: list[str] = []
    for _ in range(random.choice((1, 2, 4, 8, 16, 40))):
        parts.append(random.choice(_LINKS))
        parts.append(random.choice(_ATOMS[:15]) if random.random() < 0.7 else random.choice(_ATOMS))
        if random.random() < 0.25:
            parts.append(random.choice(_RINGS))
        if random.random() < 0.2:
            parts.append(random.choice("()"))
    text = "".join(parts)
    if random.random() < 0.02:
        text *= random.choice((10, 40))
    if random.random() < 0.03:
        text += random.choice((" name", " |c:1|", " |$;;$|", "\tx", " |", " |SgD:1:a:b::::|"))
    return text


# Parquet


def parquet_case(random: Random) -> Case:
    """A valid Parquet file with odd types, or a damaged one with usual types."""
    if random.random() < 0.5:
        data = _odd_parquet(random)
        if random.random() < 0.3:
            data = mutated(random, [data], most=2)
    else:
        data = _damaged_parquet(random)
    return table_case(random, "t.parquet", data)


def _damaged_parquet(random: Random) -> bytes:
    """Change mostly the end of the file, which has its metadata."""
    data = bytearray(random.choice(_parquet_seeds()))
    for _ in range(random.choice((1, 1, 2, 5))):
        length = int.from_bytes(data[-8:-4], "little")
        start = len(data) - 8 - length if random.random() < 0.7 else 4
        place = random.randrange(max(0, min(start, len(data) - 5)), len(data))
        what = random.randrange(4)
        if what == 0:
            data[place] ^= 1 << random.randrange(8)
        elif what == 1:
            data[place] = random.choice((0, 1, 127, 128, 255))
        elif what == 2:
            text = random.choice(TEXTS[:20]).encode("utf-8", "replace")
            data[place : place + len(text)] = text
        else:
            del data[place : place + random.choice((1, 2, 8))]
        if len(data) < 12:
            break
    return bytes(data)


def _write_parquet(arrow: Any, **options: Any) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(arrow, sink, **options)
    return sink.getvalue()


@cache
def _parquet_seeds() -> list[bytes]:
    import pandas as pd
    import pyarrow as pa

    frame = pd.read_csv(io.StringIO(table()))
    arrow = pa.Table.from_pandas(frame)
    return [
        _write_parquet(arrow),
        _write_parquet(arrow.replace_schema_metadata(None), compression="none"),
        _write_parquet(arrow, use_dictionary=False, row_group_size=3),
        *corpus("parquet"),
    ]


def _odd_parquet(random: Random) -> bytes:
    """A valid file with columns of any Arrow type."""
    import pyarrow as pa

    rows = random.choice((0, 1, 2, 12))
    columns: dict[str, Any] = {"smiles": pa.array(["CCO"] * rows, pa.string())}
    kinds = _arrow_kinds()
    names = ["size", "kind", "part", "name", "error", "", "size", "p_a", "a\0b", "a\nb"]
    fields, arrays = [], []
    for _ in range(random.choice((1, 2, 3))):
        name = random.choice(("smiles", *names))
        kind, values = random.choice(kinds)
        try:
            array = pa.array([random.choice(values) for _ in range(rows)], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
        fields.append(pa.field(name, array.type))
        arrays.append(array)
    if "smiles" not in {entry.name for entry in fields} or random.random() < 0.2:
        fields.append(pa.field("smiles", pa.string()))
        arrays.append(columns["smiles"])
    metadata = random.choice((None, None, *_metadata()))
    try:
        found = pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))
        return _write_parquet(found, store_schema=random.random() < 0.8)
    except (pa.ArrowException, NotImplementedError, OSError, ValueError):
        return _parquet_seeds()[0]


@cache
def _metadata() -> tuple[dict[bytes, bytes], ...]:
    bad = {"index_columns": ["none"], "columns": [{"name": 3}], "column_indexes": []}
    return (
        {b"pandas": b"{"},
        {b"pandas": b"\xff\xfe"},
        {b"pandas": json.dumps(bad).encode()},
        {b"pandas": b"null"},
        {b"ARROW:schema": base64.b64encode(b"nonsense")},
        {b"a": b"\0"},
    )


@cache
def _arrow_kinds() -> list[tuple[Any, list[Any]]]:
    import datetime
    from decimal import Decimal

    import pyarrow as pa

    texts = ["C", "CC", "", None, "nan", "x" * 300, "é", "1", "1e39"]
    numbers: list[Any] = [0, 1, -1, None, 3]
    floats = [0.0, 1.5, float("nan"), float("inf"), None, 1e39, 1e-46, 1e300]
    moments = [0, 1, -1, None, 2**62, -(2**62)]
    day = datetime.date(2020, 1, 1)
    return [
        (pa.string(), texts),
        (pa.large_string(), texts),
        (pa.binary(), [b"C", b"\xff", None, b""]),
        (pa.binary(2), [b"CC", b"\xff\xff", None]),
        (pa.bool_(), [True, False, None]),
        (pa.null(), [None]),
        *((kind, numbers) for kind in (pa.int8(), pa.int64(), pa.int32())),
        (pa.int64(), [2**63 - 1, -(2**63), 0]),
        (pa.uint64(), [2**64 - 1, 0, None]),
        (pa.float32(), floats),
        (pa.float64(), floats),
        (pa.timestamp("ns"), moments),
        (pa.timestamp("s"), moments),
        (pa.timestamp("us", tz="UTC"), moments),
        (pa.timestamp("us", tz="Mars/Phobos"), moments),
        (pa.timestamp("ms", tz="+99:99"), moments),
        (pa.date32(), [day, None]),
        (pa.date64(), [day, None]),
        (pa.time64("ns"), [0, 1, None]),
        (pa.duration("s"), moments),
        (pa.decimal128(38, 2), [Decimal("1.25"), None, Decimal("9" * 30)]),
        (pa.decimal256(60, 0), [Decimal("9" * 55), None]),
        (pa.list_(pa.int32()), [[1], [], None, [None]]),
        (pa.list_(pa.string()), [["C"], [], None]),
        (pa.struct([("a", pa.int32())]), [{"a": 1}, None]),
        (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None]),
    ]
