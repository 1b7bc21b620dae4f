"""Records: what they hold, where they are, and that damaged ones are refused."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
from paper.experiments.made_records import made

from smpgnn.errors import InputError
from smpgnn.paper.experiments.records import (
    BySize,
    Curves,
    Record,
    choice_path,
    read_choice,
    read_record,
    read_records,
    record_path,
    write_choice,
    write_record,
)


def test_a_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    for record in (
        made("cycle_detection", "GIN + rand id", "4 12", 2, 98.5),
        made("zinc", "SMP", "no edge features", 0, 0.2, search=None, commit=None),
        made("graph_properties", "SMP", "dist", 0, -3.0, by_size=BySize((15,), (19,), (-3.0,))),
    ):
        assert read_record(write_record(tmp_path, record)) == record


def test_the_file_has_the_names_of_the_paper(tmp_path: Path) -> None:
    path = write_record(tmp_path, made("cycle_detection", "GIN + rand id", "4 12", 2, 98.5))
    assert path == tmp_path / "cycle_detection" / "gin-rand-id" / "4-12-seed2.json"
    assert path == record_path(tmp_path, "cycle_detection", "GIN + rand id", "4 12", 2)
    content = json.loads(path.read_text())
    assert set(content) == {"format", *(entry.name for entry in fields(Record))}
    assert (content["row"], content["cell"], content["seed"]) == ("GIN + rand id", [4, 12], 2)
    assert set(content["curves"]) == {"epoch", "train_loss", "validation", "seconds"}
    assert not list(path.parent.glob(".*"))


def test_a_number_that_overflowed_is_null_in_the_file(tmp_path: Path) -> None:
    sizes = BySize((15, 20, 25), (19, 24, 29), (-3.0, math.nan, math.inf))
    path = write_record(tmp_path, made("graph_properties", "SMP", "dist", 0, -3.0, by_size=sizes))

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    content = json.loads(path.read_text(), parse_constant=refuse)
    assert content["by_size"]["value"] == [-3.0, None, None]
    found = read_record(path).by_size
    assert found is not None
    assert found.value[0] == -3.0
    assert all(map(math.isnan, found.value[1:]))


def test_a_record_of_a_version_without_sizes_is_read(tmp_path: Path) -> None:
    record = made("zinc", "SMP", "no edge features", 0, 0.2)
    path = write_record(tmp_path, record)
    content = json.loads(path.read_text())
    assert content.pop("by_size") is None
    path.write_text(json.dumps(content))
    assert read_record(path) == record


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-20], "cannot be read"),
        (lambda text: "[]", "is no record"),
        (lambda text: text.replace('"format": 1', '"format": 99'), "is no record"),
        (lambda text: text.replace('"value": 98.5,', ""), "lacks value"),
        (lambda text: text.replace('"value": 98.5,', '"value": NaN,'), "not a number"),
        (lambda text: text.replace('"table"', '"tabel": 1, "table"', 1), "is no record"),
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, damage: object, message: str) -> None:
    assert callable(damage)
    path = write_record(tmp_path, made("cycle_detection", "SMP", "4 12", 0, 98.5))
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)


def test_records_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        read_records(tmp_path / "none")
    assert read_records(tmp_path) == []
    first = made("cycle_detection", "SMP", "4 12", 0, 99.0)
    assert first.search is not None
    write_record(tmp_path, first)
    write_choice(tmp_path, first.search)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "step.json").write_text("{}")
    assert read_records(tmp_path) == [first]


def test_a_choice_of_reduced_runs_has_another_place(tmp_path: Path) -> None:
    choice = made("cycle_detection", "SMP", "4 12", 0, 99.0).search
    assert choice is not None
    small = replace(choice, reduced=True, chosen=3e-3)
    write_choice(tmp_path, choice)
    write_choice(tmp_path, small)
    at = ("cycle_detection", "SMP", choice.training)
    assert read_choice(choice_path(tmp_path, *at, False)) == choice
    assert read_choice(choice_path(tmp_path, *at, True)) == small
    assert read_choice(tmp_path / "none.json") is None


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    history = [
        {"epoch": e, "train_loss": 1 / e, "val_accuracy": 0.5, "seconds": e / 3}
        for e in range(1, 1501)
    ]
    curves = Curves.of(history, "accuracy", 100.0)
    assert len(curves.epoch) <= 400
    assert curves.epoch[-1] == 1500
    assert set(curves.validation) == {50.0}
    short = Curves.of(history[:3], "accuracy")
    assert short.epoch == (1, 2, 3)
    assert short.train_loss == (1.0, 0.5, 0.33333)
