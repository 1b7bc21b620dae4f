"""What is to be trained: what records answer, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paper.experiments.made_records import made, write

from smpgnn.errors import InputError
from smpgnn.paper.experiments.plan import Plan, Request, make_plan
from smpgnn.paper.experiments.protocol import Reduction, settings_of
from smpgnn.paper.experiments.records import Choice, Trial, write_choice
from smpgnn.paper.experiments.tables import TABLES


def plan(tmp_path: Path, table: str = "cycle_detection", **changes: Any) -> Plan:
    request = Request(table, results=str(tmp_path / "r"), work_dir=str(tmp_path / "w"))
    return make_plan([replace(request, **changes)])


def done(found: Plan) -> list[bool]:
    return [final.answered for final in found.finals]


def test_all_of_a_table_is_wanted_by_default(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert len(found.finals) == 3 * 8 * 12
    assert len(found.pilots) == 8 * 3  # one a row and cycle length
    assert len(plan(tmp_path, "graph_properties", seeds=(0,)).finals) == 8
    assert len(plan(tmp_path, "cycle_generalization", seeds=(0,)).finals) == 4 * 3
    assert plan(tmp_path, protocol="paper").pilots == ()
    assert plan(tmp_path, search=False).pilots == ()


def test_the_first_seed_of_everything_comes_first(tmp_path: Path) -> None:
    seeds = [final.options.seed for final in plan(tmp_path, seeds=(4, 2)).finals]
    assert seeds == [4] * 96 + [2] * 96


def test_the_rate_is_chosen_at_the_second_size_of_the_same_length(tmp_path: Path) -> None:
    found = plan(tmp_path, rows=("SMP",), cells=("6-56",), seeds=(0,))
    (pilot,) = found.pilots
    assert pilot.key[2] == "6-31"
    assert [job.options.lr for job in pilot.trials] == [3e-4, 1e-3, 3e-3]
    assert {job.options.epochs for job in pilot.trials} == {5}
    assert len({job.folder for job in pilot.trials}) == 3


def test_a_selection_and_its_table_share_their_runs(tmp_path: Path) -> None:
    both = [
        Request(name, seeds=(0,), results=str(tmp_path), work_dir=str(tmp_path))
        for name in ("training_curves", "cycle_detection")
    ]
    assert len(make_plan(both[:1]).finals) == 9
    assert len(make_plan(both).finals) == 96


def test_a_row_of_another_table_is_trained_there_once(tmp_path: Path) -> None:
    name, home = "zinc_features", "zinc"
    found = plan(tmp_path, name, seeds=(0,))
    places = [(final.table, final.row) for final in found.finals]
    assert places == 2 * [(home, "SMP")] + 2 * [(name, "SMP, features in all contexts")]
    both = [
        Request(table, seeds=(0,), results=str(tmp_path), work_dir=str(tmp_path))
        for table in (name, home)
    ]
    assert len(make_plan(both).finals) == 2 * 7 + 2
    for cell in TABLES[home].cells:
        write(tmp_path / "r", made(home, "SMP", cell.name, 0, 0.2))
    assert done(plan(tmp_path, name, seeds=(0,))) == [True, True, False, False]
    write(tmp_path / "r", made(home, "GIN", "with edge features", 0, 0.2, protocol="paper"))
    with pytest.raises(InputError, match="is of protocol 'paper'"):
        plan(tmp_path, name)


def test_records_answer_their_cells(tmp_path: Path) -> None:
    want: dict[str, Any] = {"rows": ("SMP",), "cells": ("4-12", "4-20"), "seeds": (0, 1)}
    assert done(plan(tmp_path, **want)) == [False] * 4
    write(tmp_path / "r", made("cycle_detection", "SMP", "4 12", 1, 99.0))
    assert done(plan(tmp_path, **want)) == [False, False, True, False]


def test_a_training_is_answered_when_all_its_wanted_cells_are(tmp_path: Path) -> None:
    want: dict[str, Any] = {"table": "cycle_generalization", "rows": ("GIN",), "seeds": (0,)}
    write(tmp_path / "r", made("cycle_generalization", "GIN", "in 4", 0, 99.0))
    assert done(plan(tmp_path, **want)) == [False] * 3
    assert done(plan(tmp_path, **want, cells=("in-4",))) == [True]
    write(tmp_path / "r", made("cycle_generalization", "GIN", "out 4", 0, 99.0))
    assert done(plan(tmp_path, **want)) == [True, False, False]


def test_a_choice_that_was_made_is_taken(tmp_path: Path) -> None:
    want: dict[str, Any] = {"rows": ("SMP",), "cells": ("4-12",), "seeds": (0,)}
    (pilot,) = plan(tmp_path, **want).pilots
    config = settings_of(pilot.trials[0].options)
    trials = tuple(Trial(job.options.lr, 90.0, 1, 5, readout="max") for job in pilot.trials)
    metric = "validation accuracy (%)"
    choice = Choice(*pilot.key, "modern", False, pilot.rule, metric, trials, 3e-3, config, "max")
    write_choice(tmp_path / "r", choice)
    found = plan(tmp_path, **want)
    assert found.pilots[0].choice == choice
    assert found.finals[0].options.lr == 3e-3
    write_choice(tmp_path / "r", replace(choice, config={**config, "epochs": 99}))
    assert plan(tmp_path, **want).pilots[0].choice is None


def test_records_of_a_rate_that_was_given_up_are_made_anew(tmp_path: Path) -> None:
    want: dict[str, Any] = {"rows": ("SMP",), "cells": ("4-12",), "seeds": (0, 1)}
    (pilot,) = plan(tmp_path, **want).pilots
    trials = tuple(Trial(job.options.lr, 90.0, 1, 5, readout="max") for job in pilot.trials)
    config = settings_of(pilot.trials[0].options)
    choice = Choice(
        *pilot.key, "modern", False, pilot.rule, "accuracy", trials, 3e-3, config, "max"
    )
    write_choice(tmp_path / "r", choice)
    for seed, rate in ((0, 3e-3), (1, 1e-2)):
        record = made("cycle_detection", "SMP", "4 12", seed, 99.0)
        config = {**record.config, "lr": rate, "readout": "max"}
        write(tmp_path / "r", replace(record, config=config))
    assert done(plan(tmp_path, **want)) == [True, False]


def test_records_with_other_settings_are_not_passed_over(tmp_path: Path) -> None:
    want: dict[str, Any] = {"rows": ("SMP",), "cells": ("4-12",), "seeds": (0,)}
    record = made("cycle_detection", "SMP", "4 12", 0, 99.0)
    write(tmp_path / "r", replace(record, config={**record.config, "epochs": 7}))
    with pytest.raises(InputError, match=r"4-12-seed0\.json: was made with other settings"):
        plan(tmp_path, **want)
    assert done(plan(tmp_path, **want, again=True)) == [False]
    with pytest.raises(InputError, match="other settings"):  # one with and one without a search
        plan(tmp_path, **want, search=False)


def test_protocols_do_not_mix_in_a_table(tmp_path: Path) -> None:
    write(tmp_path / "r", made("cycle_detection", "GIN", "8 72", 5, 90.0, protocol="paper"))
    with pytest.raises(InputError, match="is of protocol 'paper', and all rows of a table share"):
        plan(tmp_path, rows=("SMP",))


def test_full_records_replace_reduced_ones_and_never_vice_versa(tmp_path: Path) -> None:
    want: dict[str, Any] = {"rows": ("SMP",), "cells": ("4-12",), "seeds": (0,)}
    small = Reduction(epochs=2)
    record = made("cycle_detection", "SMP", "4 12", 0, 99.0)
    config = settings_of(plan(tmp_path, **want, reduction=small).finals[0].options)
    assert config["epochs"] == 2
    reduced = replace(record, reduced=True, config=config)
    write(tmp_path / "r", reduced)
    assert done(plan(tmp_path, **want, reduction=small)) == [True]
    assert done(plan(tmp_path, **want)) == [False]
    write(tmp_path / "r", record)
    assert done(plan(tmp_path, **want)) == [True]
    for again in (False, True):
        with pytest.raises(InputError, match="a full run, which a reduced one never replaces"):
            plan(tmp_path, **want, reduction=small, again=again)


def test_unknown_rows_and_cells_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--rows 'ring': there is none"):
        plan(tmp_path, rows=("ring",))
    with pytest.raises(InputError, match=r"--cells '4-13': .* known are: 4-12, 4-20"):
        plan(tmp_path, cells=("4-13",))
    with pytest.raises(InputError, match="--cells '4-12'"):  # not in the selection
        plan(tmp_path, table="training_curves", cells=("4-12",))
