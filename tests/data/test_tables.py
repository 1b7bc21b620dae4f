"""Tables: text stays as written, errors name the line, chunks are bounded."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.data import text_tables
from smpgnn.data.tables import read_table, stream_table, table_columns
from smpgnn.errors import InputError

TRICKY = ["N", "NA", "NaN", "None", "nan", "null", "CCO", "-inf", "1.0", "007", "True", " C "]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_text_stays_as_written_and_only_empty_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    pd.DataFrame({"smiles": [*TRICKY, ""], "y": range(len(TRICKY) + 1)}).to_csv(path, index=False)
    frame = read_table(path)
    assert frame["smiles"].tolist()[:-1] == TRICKY
    assert frame["smiles"].isna().tolist() == [False] * len(TRICKY) + [True]
    assert frame["y"].tolist() == [str(k) for k in range(len(TRICKY) + 1)]


def test_rows_are_indexed_by_their_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'smiles,y\nC,1\n\n"C\nC",2\nO,3\n')
    frame = read_table(path)
    assert frame.index.name == "line"
    assert frame.index.tolist() == [2, 4, 6]
    assert frame["smiles"].tolist() == ["C", "C\nC", "O"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz"])
def test_separator_and_compression_are_found(tmp_path: Path, separator: str, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    text = separator.join(["smiles", "y", "z"]) + "\n" + separator.join(["C", "1.5", "a b"]) + "\n"
    if suffix.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    assert table_columns(path) == ("smiles", "y", "z")
    assert read_table(path).to_numpy().tolist() == [["C", "1.5", "a b"]]
    assert read_table(path, ["z", "smiles"]).to_numpy().tolist() == [["a b", "C"]]


def test_decimal_commas_do_not_hide_the_semicolons(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles;y\nC;1,5\nO;2,5\n")
    assert read_table(path)["y"].tolist() == ["1,5", "2,5"]


def test_header_with_both_separators_is_decided_by_the_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles;logP, measured\nC;1\nO;2\n")
    assert table_columns(path) == ("smiles", "logP, measured")


def test_byte_order_mark_blanks_and_unnamed_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfsmiles , y,\r\nC,1,2\r\n")
    assert table_columns(path) == ("smiles", "y", "Unnamed: 2")
    assert read_table(path, ["smiles"])["smiles"].tolist() == ["C"]


def test_parquet_keeps_types_and_numbers_rows_from_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"smiles": ["C", None, "NA"], "y": [1.5, 2.5, None]}, index=[7, 8, 9])
    frame.to_parquet(path)
    back = read_table(path, ["y", "smiles"])
    assert list(back.columns) == ["y", "smiles"]
    assert back.index.name == "row"
    assert back.index.tolist() == [1, 2, 3]
    assert back["smiles"].isna().tolist() == [False, True, False]
    assert back["smiles"].tolist()[2] == "NA"
    assert back["y"].tolist()[:2] == [1.5, 2.5]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_chunks_have_the_given_size(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    frame = pd.DataFrame({"smiles": ["C" * k for k in range(1, 26)], "y": range(25)})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    chunks = list(stream_table(path, chunk_rows=10))
    assert [len(chunk) for chunk in chunks] == [10, 10, 5]
    together = pd.concat(chunks)
    assert together.index.is_monotonic_increasing
    assert together.index.is_unique
    assert together["smiles"].tolist() == frame["smiles"].tolist()


def test_stream_reads_only_what_is_requested(tmp_path: Path) -> None:
    # The bad line is far behind the first chunk: a reader that ran ahead would meet it.
    path = written(tmp_path / "a.csv", "smiles,y\n" + "C,1\n" * 20_000 + "C,1,too many\n")
    stream = stream_table(path, chunk_rows=3)
    assert len(next(stream)) == 3
    assert len(next(stream)) == 3
    del stream
    with pytest.raises(InputError, match="line 20002: 3 cells, but the header has 2"):
        list(stream_table(path))


def test_stream_checks_the_header_in_the_call(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles,y\nC,1\n")
    with pytest.raises(InputError, match="no column 'Y2'"):
        stream_table(path, ["Y2"])
    with pytest.raises(InputError, match="chunk_rows is 0"):
        stream_table(path, chunk_rows=0)


def test_explicit_separator(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles|y\nC|1\n")
    assert table_columns(path) == ("smiles|y",)
    assert table_columns(path, separator="|") == ("smiles", "y")
    semicolons = written(tmp_path / "b.csv", "smiles;y\nC;1\n")
    with pytest.raises(InputError, match="its separator seems to be ';', not ','"):
        read_table(semicolons, separator=",")
    with pytest.raises(InputError, match="one character"):
        read_table(path, separator="||")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n \n", "only blanks"),
        ("header.csv", b"smiles,y\n", "header but no row"),
        ("twice.csv", b"a,a,b\n1,2,3\n", "several columns named 'a'"),
        ("short.csv", b"a,b\n1,2\n\n3\n", "line 4: 1 cells, but the header has 2"),
        ("long.csv", b"a,b\n1,2\n3,4,5\n", "line 3: 3 cells, but the header has 2"),
        ("quote.csv", b'a,b\n1,2\n"3,4\n', "line 3: the row cannot be read"),
        ("latin.csv", "a,b\né,2\n".encode("latin-1"), "UTF-8"),
        ("late.csv", b"a,b\n" + b"1,2\n" * 50_000 + b"\xff,2\n", "UTF-8"),
        ("utf16.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("binary.csv", b"a\x00\x01\x02,b\n", "is not a table"),
        ("sheet.xlsx", b"PK\x03\x04....", "spreadsheet or zip"),
        # without the time of day, which would stand in the name of the test
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40], "damaged gzip"),
        ("cut.parquet", b"PAR1 and then nothing", "damaged Parquet"),
    ],
)
def test_unusable_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_wrong_column_suggests_the_closest(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    frame = pd.DataFrame({"smiles": ["C"], "logP": [1.0]})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    message = r"no column 'SMILE' \(did you mean 'smiles'\?\): its columns are 'smiles', 'logP'\."
    with pytest.raises(InputError, match=message):
        read_table(path, ["SMILE"])
    with pytest.raises(InputError, match="given twice"):
        read_table(path, ["smiles", "smiles"])
    with pytest.raises(InputError, match="a list of names"):
        read_table(path, "smiles")


def test_a_parquet_file_without_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet has no columns"):
        table_columns(tmp_path / "a.parquet")


def test_empty_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"smiles": pd.Series([], dtype="string")}).to_parquet(path)
    with pytest.raises(InputError, match="no row"):
        read_table(path)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(
    rows=st.lists(st.tuples(cells, cells, st.integers()), min_size=1, max_size=8),
    separator=st.sampled_from(",;\t"),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]], separator: str
) -> None:
    path = tmp_path_factory.mktemp("round") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=separator).writerows([("smiles", "b", "n"), *rows])
    frame = read_table(path)
    back = [["" if pd.isna(cell) else cell for cell in row] for row in frame.to_numpy()]
    assert back == [[str(cell) for cell in row] for row in rows]
    by_two = pd.concat(list(stream_table(path, chunk_rows=2)))
    pd.testing.assert_frame_equal(by_two, frame)


def test_long_cells_are_read(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    text = "x" * 200_000
    path = written(tmp_path / "a.csv", f'smiles,note\nC,{text}\nO,"{text}"\nN,short\n')
    assert read_table(path)["note"].tolist() == [text, text, "short"]
    assert csv.field_size_limit() == usual  # a setting of the whole process


def test_long_cells_make_short_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "MAX_CHUNK", 1000)
    path = written(tmp_path / "a.csv", "smiles,note\n" + f"C,{'x' * 400}\n" * 7)
    assert [len(chunk) for chunk in stream_table(path)] == [3, 3, 1]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "MAX_LINE", 1000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"smiles\nC\n" + b"C" * 100_000))
    with pytest.raises(InputError, match="line 3 has more than 1,000 characters"):
        read_table(path)


def test_pipes_and_devices_are_refused_immediately(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    reading, writing = os.pipe()  # as of 'smpgnn predict RUN /dev/stdin' behind a '|'
    try:
        for path in (tmp_path / "pipe.csv", f"/dev/fd/{reading}", "/dev/zero"):
            with pytest.raises(InputError, match="is a pipe or device: save its content"):
                table_columns(path)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_invalid_file_names(name: str) -> None:
    with pytest.raises(InputError, match=r"(cannot be opened|does not exist).*: check the path"):
        read_table(name)


def parquet(path: Path, columns: dict[str, pa.Array], **metadata: bytes) -> Path:
    table = pa.table(columns)
    pq.write_table(table.replace_schema_metadata(metadata or None), path)
    return path


def not_utf8() -> pa.Array:
    ends = pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0")
    return pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"CC\xff\xfe")])


@pytest.mark.parametrize(
    "column",
    [
        not_utf8(),
        not_utf8().dictionary_encode(),
        pa.array([0, 1], pa.timestamp("us", tz="Mars/Olympus")),
        pa.array([10**8, 0], pa.date32()),
        pa.array([10**16, 0], pa.time64("us")),
        pa.array([2**62, 0], pa.timestamp("us", tz="UTC")),
    ],
    ids=["text", "categories", "time zone", "date", "time", "far future"],
)
def test_a_parquet_column_that_cannot_be_read_is_named(tmp_path: Path, column: pa.Array) -> None:
    path = parquet(tmp_path / "a.parquet", {"smiles": pa.array(["C", "O"]), "odd": column})
    with pytest.raises(
        InputError, match=r"a\.parquet, column 'odd' of type .*: convert or remove it"
    ):
        read_table(path)
    assert read_table(path, ["smiles"])["smiles"].tolist() == ["C", "O"]


@pytest.mark.parametrize("note", [b"{", b"\xff", b"[]", b"{}", b'{"columns": 3}'])
def test_damaged_pandas_metadata_is_ignored(tmp_path: Path, note: bytes) -> None:
    path = parquet(tmp_path / "a.parquet", {"smiles": pa.array(["C", "O"])}, pandas=note)
    assert read_table(path)["smiles"].tolist() == ["C", "O"]


def test_whole_numbers_with_gaps_keep_their_digits(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"id": pa.array([2**62 + 1, None, 3])})
    assert read_table(path)["id"].tolist() == [2**62 + 1, None, 3]
