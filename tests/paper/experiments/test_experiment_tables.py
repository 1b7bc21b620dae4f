"""The tables as data: complete beside the paper, and every run of them has valid settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from smpgnn.config.models import MODELS
from smpgnn.config.options import CyclesOptions, TrainOptions
from smpgnn.data.cycles import CYCLE_SIZES, OOD_SIZES
from smpgnn.errors import InputError
from smpgnn.files import file_name
from smpgnn.models.registry import NetworkSpec
from smpgnn.ops.backend import WIDEST
from smpgnn.paper.experiments.paper import paper_tables
from smpgnn.paper.experiments.protocol import PROTOCOLS, Reduction, run_options, same_settings
from smpgnn.paper.experiments.protocol import settings_of as settings
from smpgnn.paper.experiments.table import Row, Table, pick
from smpgnn.paper.experiments.tables import SELECTIONS, TABLES, find_table

BEYOND = {
    "cycle_detection_matched",
    "cycle_detection_parts",
    "cycle_generalization_parts",
    "zinc_parts",
    "zinc_recipe",
    "zinc_family",
    "zinc_beyond",
    "zinc_features",
    "zinc_batches",
    "zinc_500k",
    "properties_parts",
    "properties_larger",
    "graph_properties_connected",
    "paper_cycle_detection",
    "paper_cycle_generalization",
    "paper_cycle_less_data",
    "paper_graph_properties",
    "paper_zinc",
    "brec",
    "brec_untrained",
    "counting_graphs",
    "counting_nodes",
}


@pytest.mark.parametrize("name", sorted(set(TABLES) - BEYOND))
def test_rows_and_cells_are_those_of_the_paper(name: str) -> None:
    paper, table = paper_tables()[name], TABLES[name]
    assert [row.name for row in table.rows] == list(paper.rows)
    assert [cell.name for cell in table.cells] == list(paper.columns)
    assert table.metric == paper.metric


def test_the_paper_has_all_its_tables_and_figures() -> None:
    tables = paper_tables()
    assert set(tables) == {*(set(TABLES) - BEYOND), "complexity"}
    assert tables["cycle_detection"].figure("SMP", "8 72") == 99.9
    assert tables["cycle_detection"].figure("GIN + degree", "8 66") is None
    assert tables["cycle_generalization"].figure("SMP", "out 6") == 87.8
    assert tables["graph_properties"].figure("SMP", "average") == -3.59
    assert tables["zinc"].figure("MPNN-JT", "with edge features") == 0.151
    assert tables["zinc"].figure("nobody", "with edge features") is None
    assert tables["complexity"].figure("GIN", "memory per layer") == "n c"


def test_sizes_are_those_of_the_data() -> None:
    cells = {(t.settings["k"], t.settings["n"]) for t in TABLES["cycle_detection"].trainings}
    assert cells == {(k, n) for k, sizes in CYCLE_SIZES.items() for n in sizes}
    for training in TABLES["cycle_generalization"].trainings:
        assert training.settings["n"] == OOD_SIZES[training.settings["k"]][0]


def test_a_selection_is_part_of_its_table() -> None:
    for selection in SELECTIONS.values():
        for row in selection.rows:
            home = TABLES[row.of]
            assert replace(row, of="") == home.row(row.name)
            assert all(training in home.trainings for training in selection.trainings)


def test_file_names_are_distinct_and_plain() -> None:
    assert file_name("GIN + rand id") == "gin-rand-id"
    assert file_name("MPNN (sum)") == "mpnn-sum"
    for table in TABLES.values():
        for names in ([r.name for r in table.rows], [c.name for c in table.cells]):
            assert len({file_name(name) for name in names}) == len(names)


def test_words_pick_by_name_or_file_name() -> None:
    known = ["GIN", "GIN + rand id", "SMP"]
    assert pick([], known, "--rows") == known
    assert pick(["smp", "gin-rand-id"], known, "--rows") == ["GIN + rand id", "SMP"]
    with pytest.raises(
        InputError, match=r"--rows 'gni': there is none .* known are: gin, gin-rand-id, smp"
    ):
        pick(["gni"], known, "--rows")
    with pytest.raises(InputError, match=r"TABLE 'cycle-detectoin': .* did you mean cycle_detec"):
        find_table("cycle-detectoin")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_run_has_valid_settings(protocol: str) -> None:
    for table in TABLES.values():
        names = {training.name for training in table.trainings}
        for row in table.rows:
            assert row.model in MODELS
            for training in table.trainings:
                assert training.pilot in names
                options = run_options(table, row, training, protocol, 3, Reduction())
                assert (options.network.model, options.seed) == (row.model, 3)
                assert options.task_name() == table.task


def test_all_rows_of_a_table_share_the_protocol() -> None:
    shared = ("optimizer", "schedule", "epochs", "batch_size", "weight_decay", "clip", "lr")
    varied = ("zinc_recipe", "properties_larger")  # just in these
    same = [table for table in TABLES.values() if table.name not in varied]
    for protocol in PROTOCOLS:
        for table in same:
            for training in table.trainings:
                found = {
                    tuple(getattr(run_options(table, r, training, protocol, 0, Reduction()), name)
                          for name in shared)
                    for r in table.rows
                }  # fmt: skip
                assert len(found) == 1


def options_of(table: Table, row: Row) -> TrainOptions:
    return run_options(table, row, table.trainings[-1], "modern", 0, Reduction())


def parameters(table: Table, row: Row) -> int:
    """Of the network of a row, with the edge features of ZINC."""
    widths = {"in_channels": 28, "edge_channels": 3, "node_outputs": 0, "graph_outputs": 1}
    if table.task == "properties":
        widths = {"in_channels": 2, "edge_channels": 0, "node_outputs": 3, "graph_outputs": 3}
    network = NetworkSpec(options=options_of(table, row).network, **widths).build()
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("zinc", 90_000, 120_000),
        ("zinc_batches", 95_000, 105_000),
        ("zinc_beyond", 95_000, 105_000),
        ("zinc_500k", 450_000, 505_000),
    ],
)
def test_zinc_rows_have_as_many_parameters_as_they_say(name: str, least: int, most: int) -> None:
    table = TABLES[name]
    for row in table.rows:
        assert least < parameters(table, row) <= most, row.name
        assert row.model != "smp" or options_of(table, row).network.hidden_channels <= WIDEST


@pytest.mark.parametrize(
    ("name", "of"), [("zinc_parts", "zinc"), ("properties_parts", "graph_properties")]
)
def test_parts_differ_from_smp_in_one_thing(name: str, of: str) -> None:
    table, home = TABLES[name], TABLES[of]
    first, *others = table.rows
    assert replace(options_of(table, first), epochs=1) == replace(
        options_of(home, home.row("SMP")), epochs=1
    )
    assert table.search is None
    base = settings(options_of(table, first))
    changed = []
    for row in others:
        found = settings(options_of(table, row))
        names = [key for key in found if found[key] != base[key]]
        assert names == [key for key in found if key in row.settings], row.name
        changed.append("+".join(names))
    assert changed == [
        "towers", "hidden_channels+towers", "set_scale", "divide_update", "update_residual",
        "residual", "message_residual",
    ]  # fmt: skip
    narrow = table.row("one tower, same parameters")
    assert parameters(table, narrow) == pytest.approx(parameters(table, first), rel=0.02)


def test_a_row_of_another_table_is_the_same_there() -> None:
    shared = 0
    for table in TABLES.values():
        for row in table.rows:
            if row.of:
                home = TABLES[row.of]
                assert table.modern == home.modern
                for training in table.trainings:
                    at = home.training(training.name)
                    assert (at.cells, at.settings) == (training.cells, training.settings)
                    assert options_of(table, row) == options_of(home, home.row(row.name))
                shared += 1
    assert shared >= 3


def test_a_table_has_what_the_one_it_is_like_has_unless_it_says_otherwise() -> None:
    for table in TABLES.values():
        assert table.modern or table.protocol == "benchmark"
    home, parts = TABLES["graph_properties"], TABLES["properties_parts"]
    assert TABLES["graph_properties_connected"].modern == home.modern
    assert parts.modern == {**home.modern, "epochs": 40}
    assert (parts.metric, parts.digits, parts.trainings) == (
        home.metric,
        home.digits,
        home.trainings,
    )
    assert (home.ours, parts.ours) == ("SMP", "")
    less, row = TABLES["cycle_less_data"], TABLES["cycle_less_data"].rows[0]
    epochs = [
        run_options(less, row, training, "modern", 0, Reduction()).epochs
        for training in less.trainings
    ]
    assert epochs == [200, 120, 80, 40]


def test_a_reduction_changes_settings_and_is_true() -> None:
    table = TABLES["cycle_less_data"]
    row, training = table.rows[0], table.training("500")
    reduction = Reduction(epochs=2, samples=300, settings={"hidden_channels": "8", "lr": "1e-4"})
    assert reduction
    assert not Reduction()
    options = run_options(table, row, training, "modern", 0, reduction)
    assert isinstance(options, CyclesOptions)
    assert (options.epochs, options.train_samples, options.test_samples) == (2, 300, 300)
    assert (options.network.hidden_channels, options.lr) == (8, 1e-4)
    for words, message in (
        ({"hidden_channels": "wide"}, "--set: hidden_channels must be a whole number, not 'wide'"),
        ({"residual": "maybe"}, "--set: residual must be true or false, not 'maybe'"),
        ({"depth": "3"}, "--set: unknown key 'depth'"),
    ):
        with pytest.raises(InputError, match=message):
            run_options(table, row, training, "modern", 0, Reduction(settings=words))


def test_settings_compare_without_the_place_and_with_defaults() -> None:
    options = CyclesOptions(lr=0.5, output="here")
    config = settings(options)
    assert "output" not in config
    assert same_settings(config, CyclesOptions(lr=0.5, output="there"), ())
    assert not same_settings(config, CyclesOptions(lr=0.25), ())
    assert same_settings(config, CyclesOptions(lr=0.25), ("lr",))
    del config["dropout"]  # a record of a version that had no such setting
    assert same_settings(config, CyclesOptions(lr=0.5), ())
    assert not same_settings(config, CyclesOptions().changed(lr=0.5, dropout=0.1), ())
