"""What is in results/: every record is of the training that its table asks for today."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from smpgnn.config.options import from_config, read_config, to_yaml
from smpgnn.paper.experiments.protocol import (
    CHOSEN,
    Reduction,
    run_options,
    same_settings,
)
from smpgnn.paper.experiments.records import Record, read_records
from smpgnn.paper.experiments.tables import TABLES

RESULTS = Path(__file__).parents[3] / "results"


@cache
def records() -> list[Record]:
    return read_records(RESULTS)


@pytest.mark.parametrize("name", TABLES)
def test_every_record_matches_its_table(name: str) -> None:
    table = TABLES[name]
    found = [record for record in records() if record.table == name]
    if not found:
        pytest.skip(f"{name} is not trained yet")
    for record in found:
        training = next(
            one for one in table.trainings if record.cell_name in [cell.name for cell in one.cells]
        )
        options = run_options(
            table, table.row(record.row), training, record.protocol, record.seed,
            Reduction(),
        )  # fmt: skip
        without = () if record.search is None else CHOSEN
        assert same_settings(record.config, options, without), (record.row, record.cell_name)


def test_there_is_a_table_for_every_record() -> None:
    assert {record.table for record in records()} <= set(TABLES)
    assert len(records()) > 800


def test_the_settings_of_every_record_come_back(tmp_path: Path) -> None:
    """As a config file they give options, whose settings are those of the record."""
    configs = {str(r.config): (TABLES[r.table].task, r.config) for r in records()}
    for task, config in configs.values():
        options = from_config({"task_type": task, **config}, "record")
        assert same_settings(config, options, ())


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("config.yaml")), ids=str)
def test_the_config_files_of_kept_runs_load(path: Path, tmp_path: Path) -> None:
    options = from_config(read_config(path), str(path))
    (tmp_path / "c.yaml").write_text(to_yaml(options))
    assert from_config(read_config(tmp_path / "c.yaml"), "c.yaml") == options
