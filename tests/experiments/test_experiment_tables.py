"""The tables as data: complete beside the paper, and every run of them has valid settings."""

from __future__ import annotations

import pytest

from smpgnn.catalogue import MODELS
from smpgnn.data.cycles import CYCLE_SIZES, OOD_SIZES
from smpgnn.errors import InputError
from smpgnn.experiments.names import file_name, pick
from smpgnn.experiments.paper import paper_tables
from smpgnn.experiments.protocol import PROTOCOLS, Reduction, run_options, same_settings
from smpgnn.experiments.protocol import settings_of as settings
from smpgnn.experiments.tables import SELECTIONS, TABLES, find_table
from smpgnn.models.registry import NetworkSpec
from smpgnn.options import CyclesOptions

BEYOND = {"cycle_detection_matched"}


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
        table = TABLES[selection.table]
        assert set(selection.rows) <= {row.name for row in table.rows}
        assert set(selection.cells) <= {cell.name for cell in table.cells}


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
                options = run_options(table, row, training, PROTOCOLS[protocol], 3, Reduction())
                assert (options.model, options.seed) == (row.model, 3)
                assert options.task_name() == table.task


def test_all_rows_of_a_table_share_the_protocol() -> None:
    shared = ("optimizer", "schedule", "epochs", "batch_size", "weight_decay", "clip", "lr")
    for protocol in PROTOCOLS.values():
        for table in TABLES.values():
            for training in table.trainings:
                found = {
                    tuple(getattr(run_options(table, r, training, protocol, 0, Reduction()), name)
                          for name in shared)
                    for r in table.rows
                }  # fmt: skip
                assert len(found) == 1


def test_zinc_rows_have_about_as_many_parameters_as_the_paper_allows() -> None:
    table = TABLES["zinc"]
    for row in table.rows:
        training = table.training("with-edge-features")
        options = run_options(table, row, training, PROTOCOLS["modern"], 0, Reduction())
        spec = NetworkSpec.from_options(
            options, in_channels=28, edge_channels=3, node_outputs=0, graph_outputs=1
        )
        count = sum(p.numel() for p in spec.build().parameters())
        assert 90_000 < count < 120_000, (row.name, count)


def test_a_reduction_changes_settings_and_is_true() -> None:
    table = TABLES["cycle_less_data"]
    row, training = table.rows[0], table.training("500")
    reduction = Reduction(epochs=2, samples=300, settings={"hidden_channels": "8", "lr": "1e-4"})
    assert reduction
    assert not Reduction()
    options = run_options(table, row, training, PROTOCOLS["modern"], 0, reduction)
    assert isinstance(options, CyclesOptions)
    assert (options.epochs, options.train_samples, options.test_samples) == (2, 300, 300)
    assert (options.hidden_channels, options.lr) == (8, 1e-4)
    for words, message in (
        ({"hidden_channels": "wide"}, "--set hidden_channels=wide: must be like 32"),
        ({"residual": "maybe"}, "--set residual=maybe: must be like True"),
        ({"depth": "3"}, "--set: unknown key 'depth'"),
    ):
        with pytest.raises(InputError, match=message):
            run_options(table, row, training, PROTOCOLS["modern"], 0, Reduction(settings=words))


def test_settings_compare_without_the_place_and_with_defaults() -> None:
    options = CyclesOptions(lr=0.5, output="here")
    config = settings(options)
    assert "output" not in config
    assert same_settings(config, CyclesOptions(lr=0.5, output="there"), ())
    assert not same_settings(config, CyclesOptions(lr=0.25), ())
    assert same_settings(config, CyclesOptions(lr=0.25), ("lr",))
    del config["dropout"]  # a record of a version that had no such setting
    assert same_settings(config, CyclesOptions(lr=0.5), ())
    assert not same_settings(config, CyclesOptions(lr=0.5, dropout=0.1), ())
