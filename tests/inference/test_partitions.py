"""Predicting for many tables: a file for each, with all rows, and finished ones are skipped."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import done, smpgnn
from tiny_model import table, tiny_model
from training.processes import finish, start, wait_for

from smpgnn.errors import InputError
from smpgnn.inference import partitions
from smpgnn.inference.engines import run_local
from smpgnn.inference.partition_files import plan
from smpgnn.inference.partitions import Job, Partition, Worker
from smpgnn.training.tasks import MultiLabel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three Parquet files, of which the last has no rows."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    for name, rows in (("a", 25), ("b", 40)):
        table(folder / f"{name}.parquet", rows)
    pq.write_table(pa.table({"smiles": pa.array([], pa.string())}), folder / "c.parquet")
    return folder


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_files_are_equal_to_those_of_single_calls(
    model: Path, tables: Path, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if processes == 1:
        monkeypatch.setattr(partitions, "PIECE_ROWS", 7)
    out = done("predict", model, "in/*.parquet", "-o", "out/", "--processes", processes)
    assert out.out.splitlines()[0] == "65 rows in 3 files in out/"
    assert out.out.splitlines()[1].startswith("2 rows have no prediction")
    for name, rows in (("a", 25), ("b", 40)):
        found = read(Path(f"out/{name}.parquet"))
        assert found["row"].tolist() == list(range(rows))
        assert found.index[found["error"].notna()].tolist() == [rows // 2]
        assert found["error"][rows // 2] == "the text is not a SMILES"
        assert found["predicted_y"].isna().sum() == 1
        done("predict", model, f"in/{name}.parquet", "-o", f"{name}.csv", "--processes", 1)
        alone = pd.read_csv(f"{name}.csv")["predicted_y"]
        if processes == 2:  # in the same pieces: bit for bit
            assert alone.equals(found["predicted_y"])
        assert alone.to_numpy() == pytest.approx(found["predicted_y"], abs=1e-6, nan_ok=True)
    empty = read(Path("out/c.parquet"))
    assert empty.empty
    assert empty.columns.tolist() == ["smiles", "predicted_y", "error"]


def test_finished_files_are_skipped_and_changed_tables_are_not(model: Path, tables: Path) -> None:
    call = ("predict", model, tables, "-o", "out", "--processes", 1)
    done(*call)
    times = {path.name: path.stat().st_mtime_ns for path in Path("out").iterdir()}
    assert ", 3 of them finished before" in done(*call).out
    assert times == {path.name: path.stat().st_mtime_ns for path in Path("out").iterdir()}
    table(tables / "a.parquet", 26)  # another table
    file = Path("out/b.parquet")
    file.write_bytes(file.read_bytes()[:-20])  # damaged
    assert "66 rows in 3 files in out, 1 of them finished before" in done(*call).out
    assert len(read(Path("out/a.parquet"))) == 26
    assert len(read(file)) == 40


def test_other_predictions_and_other_files_are_not_replaced(
    model: Path, tables: Path, tmp_path: Path
) -> None:
    call = ("predict", model, "in/[ab].parquet", "-o", "out", "--processes", 1)
    done(*call)
    other = tiny_model(tmp_path, seed=1)
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    for words, said in (
        (("predict", other, *call[2:]), "was predicted by another model"),
        ((*call, "--smiles-column", "row"), "was predicted with other options"),
    ):
        found = smpgnn(*words)
        assert found.status == 2
        assert "2 of 2 tables have no predictions" in found.err
        assert said in found.err
    assert before == {path: path.read_bytes() for path in Path("out").iterdir()}
    table(Path("out/a.parquet"), 3)
    found = smpgnn(*call)
    assert found.status == 2
    assert "a.parquet: is no file of predictions" in found.err


def test_one_bad_table_does_not_stop_the_others(model: Path, tables: Path) -> None:
    (tables / "a.parquet").write_bytes(b"PAR1 and then nothing")
    pd.DataFrame({"text": ["C"]}).to_parquet(tables / "d.parquet")
    found = smpgnn("predict", model, tables, "-o", "out", "--processes", 1)
    assert found.status == 2
    assert "2 of 4 tables have no predictions (correct them and run the command again)" in found.err
    assert "a.parquet is a damaged Parquet file" in found.err
    assert "d.parquet has no column 'smiles'" in found.err
    assert sorted(path.name for path in Path("out").iterdir()) == ["b.parquet", "c.parquet"]


def test_columns_keep_their_types(tmp_path: Path) -> None:
    classes = MultiLabel(names=("toxic",), classes=(("no", "yes"),))
    model = tiny_model(tmp_path, classes)
    content = {
        "smiles": pa.array(["CC", None, "CCO"]),
        "error": pa.array([1, None, 3], pa.int16()),
        "list": pa.array([[1], None, [2, 3]]),
        "when": pa.array([1, 2, 3], pa.timestamp("ns", tz="UTC")),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table(content), source)
    done("predict", model, source, "-o", target)
    found = pq.read_table(target)
    assert found.column_names == [*content, "predicted_toxic", "probability_toxic_yes", "error_2"]
    assert found.select(list(content)).equals(pq.read_table(source))
    types = [found.schema.field(name).type for name in found.column_names[-3:]]
    assert types == [pa.string(), pa.float64(), pa.string()]
    assert found["error_2"].is_null().to_pylist() == [True, False, True]


def test_tables_of_text_become_parquet_with_text(model: Path, tmp_path: Path) -> None:
    data = table(tmp_path / "in.csv", 12)
    done("predict", model, data, "-o", f"{tmp_path}/out/")
    found = read(tmp_path / "out/in.parquet")
    assert found["row"].tolist() == [str(row) for row in range(12)]


def names(words: list[str], output: str = "out") -> list[str]:
    return [str(one.target.relative_to(Path.cwd() / output)) for one in plan(words, output)]


def test_where_predictions_are_written(tables: Path) -> None:
    (tables / "x/y").mkdir(parents=True)
    for name in ("x/b.parquet", "x/y/b.csv.gz", "[1].csv"):
        (tables / name).write_text("text")
    assert names(["in"]) == ["a.parquet", "b.parquet", "c.parquet"]
    assert names(["in/*/b.*"]) == ["x/b.parquet"]
    assert names(["in/**/b.*"]) == ["b.parquet", "x/b.parquet", "x/y/b.parquet"]
    assert names(["in/[1].csv", "in/a.parquet"]) == ["[1].parquet", "a.parquet"]
    for words, output, said in (
        (["in/**/b.*", "in/x/b.parquet"], "out", "would both be written to"),
        (["in/*.parquet"], "in", "is one of the tables: name another folder"),
        (["in/*.parquet"], "out.csv", "go into a folder"),
        (["in/*.parquet"], "in/a.parquet", "go into a folder"),
        (["in/z*"], "out", "'in/z\\*': no file has such a name"),
        (["in/x/y"], "out", "in/x/y: has no Parquet files"),
    ):
        with pytest.raises(InputError, match=said):
            plan(words, output)


def test_a_changed_model_on_another_machine_is_refused(model: Path) -> None:
    digest = Worker(Job(str(model))).job.digest
    assert Worker(Job(str(model), digest=digest)).job.digest == digest
    with pytest.raises(InputError, match="is another model on this machine"):
        Worker(Job(str(model), digest="0" * 64))


class Killed(Worker):
    """Is killed by one table."""

    def __call__(self, partition: Partition, *rest: Any) -> Any:
        if partition.source.name == "b.parquet":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(partition, *rest)


def test_a_killed_process_is_explained_and_a_second_call_continues(
    model: Path, tables: Path
) -> None:
    parts = plan(["in"], "out")
    with pytest.raises(InputError, match="one of the 2 processes was killed"):
        list(run_local(Killed(Job(str(model), "cpu")), parts, 2))
    again = list(run_local(Worker(Job(str(model), "cpu")), parts, 1))
    assert [one.written is not None for one in again] == [True, True, True]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "a.parquet", "b.parquet", "c.parquet",
    ]  # fmt: skip


def test_without_ray_it_is_one_sentence(
    model: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    made = smpgnn("predict", model, "in", "-o", "out", "--engine", "ray")
    assert made.status == 2
    assert made.err == "smpgnn: --engine ray: needs Ray: pip install 'smpgnn[ray]'.\n"
    assert not Path("out").exists()


@pytest.mark.slow
def test_ctrl_c_ends_it_and_a_second_call_continues(model: Path, tables: Path) -> None:
    for number in range(6):
        table(tables / f"d{number}.parquet", 9_000)
    call = ["predict", model, tables, "-o", "out", "--device", "cpu", "--processes", "2"]
    process = start(call)
    wait_for(process, lambda: Path("out/d0.parquet").exists())
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    assert (status, out) == (130, "")
    assert err.splitlines()[-1] == "smpgnn: interrupted."
    files = sorted(path.name for path in Path("out").iterdir())
    assert not [name for name in files if name.startswith(".")]
    assert len(files) < 9
    again = done(*call).out
    assert f"54,065 rows in 9 files in out, {len(files)} of them finished before" in again
