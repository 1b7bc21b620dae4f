"""Predict for many tables: a Parquet file of predictions for each, which may be there already.

A file of predictions carries a stamp: the digests of the model and of the table, and the options. A
table whose predictions have its stamp is finished and is not predicted again.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from smpgnn.checksums import file_digest
from smpgnn.data.parquet_tables import ParquetTable
from smpgnn.data.parquet_writer import AtomicArrowWriter, text_array
from smpgnn.data.tables import free_names, open_table, require_columns
from smpgnn.errors import InputError, readable
from smpgnn.inference import domain
from smpgnn.inference.predict import Model, Written, load
from smpgnn.inference.processes import predicted
from smpgnn.pretrained import model_path, named
from smpgnn.processes import PIECE_ROWS

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.sdf import SdfTable
    from smpgnn.data.text_tables import TextTable

#: The key of the stamp in the metadata of a Parquet file.
_KEY = "smpgnn"
#: The files of a run folder that its predictions depend on.
_FILES = ("model.safetensors", "members/*/model.safetensors", "calibration.json", domain.FILE)


@dataclass(frozen=True)
class Partition:
    """A table, and the Parquet file of its predictions."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Outcome:
    """What became of a partition.

    `reason` says why there is no file of predictions. `earlier`: it was finished before.
    """

    partition: Partition
    written: Written | None = None
    reason: str = ""
    earlier: bool = False


@dataclass(frozen=True)
class Job:
    """A model and how to apply it, as sent to other processes and machines.

    `digest` is that of the model; '': not checked.
    """

    run: str
    device: str = "auto"
    smiles_column: str | None = None
    separator: str | None = None
    interval: float | None = None
    domain: bool = False
    digest: str = ""


class Worker:
    """Predicts for partitions, with the model of a job.

    Called with a partition, it returns the outcome; it raises no errors of files and tables.
    """

    def __init__(self, job: Job) -> None:
        digest = model_digest(job.run)
        if job.digest not in ("", digest):
            raise InputError(f"{job.run}: is another model on this machine: copy it again.")
        model = load(job.run, job.device)
        if not model.reads_smiles:
            raise InputError(
                f"{job.run}: takes graphs, whose predictions go into one file: name one, such as "
                "-o predictions.csv."
            )
        if job.interval is not None:
            model = model.with_interval(job.interval)
        self.model = model.with_domain() if job.domain else model
        # Processes of Ray have other working folders.
        run = job.run if named(job.run) else str(Path(job.run).absolute())
        self.job = replace(job, run=run, digest=digest)

    def __call__(
        self,
        partition: Partition,
        processes: int = 1,
        progress: Callable[[int], None] = lambda rows: None,
    ) -> Outcome:
        try:
            stamp = self._stamp(partition.source)
            found = _finished(partition.target, stamp)
            if found is not None:
                return Outcome(partition, found, earlier=True)
            partition.target.parent.mkdir(parents=True, exist_ok=True)
            written = write_parquet(
                self.model,
                partition.source,
                partition.target,
                smiles_column=self.job.smiles_column,
                separator=self.job.separator,
                processes=processes,
                progress=progress,
                stamp=stamp,
            )
            return Outcome(partition, written)
        except InputError as error:
            return Outcome(partition, reason=str(error))
        except (OSError, MemoryError) as error:
            what = getattr(error, "strerror", None) or "out of memory"
            return Outcome(partition, reason=f"{partition.source}: {what}.")

    def _stamp(self, source: Path) -> dict[str, Any]:
        """What the predictions for a table depend on."""
        job = self.job
        options = {name: getattr(job, name) for name in ("separator", "interval", "domain")}
        options["smiles_column"] = self.model.smiles_column(job.smiles_column, source)
        return {"model": job.digest, "options": options, "table": file_digest(source)}


def model_digest(run: str | Path) -> str:
    """A digest of the files that a model consists of, with its training molecules."""
    path = model_path(run)
    folder = path if path.is_dir() else path.parent
    names = [domain.FILE] if path.is_file() else _FILES
    files = [path] if path.is_file() else []
    files += [file for name in names for file in sorted(folder.glob(name))]
    lines = [f"{file.relative_to(folder).as_posix()} {file_digest(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def write_parquet(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    processes: int = 1,
    progress: Callable[[int], None] = lambda rows: None,
    stamp: Mapping[str, Any] | None = None,
) -> Written:
    """Predict for a table of SMILES of any length, piece by piece.

    Writes all columns of the input, those of Parquet with their types, then the predictions, then
    `error`. Options are those of `predict_table`.
    """
    import pyarrow as pa

    table = open_table(path, separator)
    needed = model.table_columns(smiles_column, path)
    require_columns(needed, table.names, path)
    new = free_names(model.all_columns, table.names)
    fields = [pa.field(readable(n), t) for n, t in zip(new, _types(model), strict=True)]
    if isinstance(table, ParquetTable):
        old = table.schema()
    else:
        old = pa.schema([pa.field(readable(name), pa.string()) for name in table.names])
    schema = pa.schema([*old, *fields], metadata=old.metadata)
    rows = failed = 0
    copied: deque[list[Any]] = deque()  # columns of the pieces under way
    with AtomicArrowWriter(output, schema) as writer:
        for _, found in predicted(model, _pieces(table, needed, copied), needed, processes):
            pairs = zip(found.columns, fields, strict=True)
            arrays = [_array(found[name], field.type) for name, field in pairs]
            arrays = [*copied.popleft(), *arrays]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            failed += int(found["error"].notna().sum())
            rows += len(found)
            progress(rows)
        about = {**(stamp or {}), "rows": rows, "failed": failed, "columns": new}
        writer.finish({_KEY: json.dumps(about)})
    return Written(rows, failed, tuple(new))


def _pieces(
    table: TextTable | ParquetTable | SdfTable, needed: list[str], copied: deque[list[Any]]
) -> Iterator[pd.DataFrame]:
    """The needed columns of the pieces of a table; all columns as Arrow's go into `copied`."""
    if isinstance(table, ParquetTable):
        for batch in table.batches(table.names, PIECE_ROWS):
            copied.append(batch.columns)
            yield table.frame(batch, needed)
    else:
        for frame in table.chunks(table.names, PIECE_ROWS):
            copied.append([text_array(frame[name]) for name in table.names])
            yield frame[needed]


def _types(model: Model) -> list[Any]:
    """Arrow's types of the columns of predictions."""
    import pyarrow as pa

    task = model.task
    (row,) = task.predict(torch.zeros(1, task.graph_outputs))
    cells = zip(task.columns(), row, strict=True)
    texts = {name for name, cell in cells if isinstance(cell, str)} | {"nearest", "error"}
    kinds = {name: pa.string() for name in texts} | {"nearest_row": pa.int64()}
    return [kinds.get(name, pa.float64()) for name in model.all_columns]


def _array(column: pd.Series[Any], kind: Any) -> Any:
    import pyarrow as pa

    return text_array(column) if kind == pa.string() else pa.array(column, kind, from_pandas=True)


def _finished(target: Path, stamp: Mapping[str, Any]) -> Written | None:
    """What is in a file of predictions with this stamp; None: it is to be written.

    Predictions of another model or with other options, and other files, are not replaced.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(target).metadata or {}
    except FileNotFoundError:
        return None
    except pa.ArrowException:
        return None  # not a whole Parquet file, as after a crash of the machine
    try:
        about = json.loads(metadata[_KEY.encode()])
        found = {name: about[name] for name in stamp}
        written = Written(int(about["rows"]), int(about["failed"]), tuple(about["columns"]))
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{target}: is no file of predictions: choose another folder, or remove it."
        ) from error
    for name, what in (("model", "by another model"), ("options", "with other options")):
        if found[name] != stamp[name]:
            raise InputError(
                f"{target}: was predicted {what}: choose another folder, or remove it."
            )
    return written if found == stamp else None
