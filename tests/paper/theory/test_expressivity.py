"""What networks tell apart: never more than their class, and never copies of one graph."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import networkx as nx
import pytest
import torch

from smpgnn.config.options import MoleculesOptions, ZincOptions
from smpgnn.config.settings import flat
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.paper.theory.expressivity import (
    BOUND,
    FLOOR,
    LIMIT,
    Gaps,
    Report,
    copies,
    count_table,
    measure,
    network_spec,
    random_network,
    relative_gaps,
)
from smpgnn.paper.theory.families import FAMILIES, Family
from smpgnn.paper.theory.programs import NETWORK_NAMES, VARIANTS, Settings

QUICK = {"seeds": 1, "relabelings": 1, "layers": 4, "width": 8}
FAMILIES_HERE = ("regular", "strongly-regular")
INVARIANT = [model for model in NETWORK_NAMES if model not in ("gin-random", "rp")]


@pytest.fixture(scope="module")
def report() -> Report:
    """All networks on two small families."""
    return measure(Settings(families=FAMILIES_HERE, **QUICK))


@pytest.mark.parametrize("model", BOUND)
def test_no_network_exceeds_its_class(model: str, report: Report) -> None:
    for count in report.counts:
        if count.model != model:
            continue
        (most,) = [
            reference.told_apart
            for reference in report.references
            if (reference.family, reference.refinement) == (count.family, BOUND[model])
        ]
        assert count.told_apart is not None
        assert count.told_apart <= most


@pytest.mark.parametrize("model", INVARIANT)
def test_copies_of_one_graph_are_never_distinguished(model: str, report: Report) -> None:
    counts = [count for count in report.counts if count.model == model]
    assert len(counts) == len(FAMILIES_HERE)
    assert all(count.told_apart is not None for count in counts)
    assert all(count.copies_gap < count.tolerance < LIMIT * 100 for count in counts)
    assert all(c.smallest_gap is None or c.smallest_gap > c.tolerance for c in counts)


@pytest.mark.parametrize("model", ["smp", "fast-smp", "ppgn", "gin"])
def test_a_family_of_copies(model: str) -> None:
    graph = nx.barabasi_albert_graph(12, 2, seed=0)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3)).tolist()
    renamed = nx.relabel_nodes(graph, dict(enumerate(order)))
    pair = Family("", (graph, renamed), ((0, 1),))
    settings = Settings(**{**QUICK, "relabelings": 2})
    gaps = relative_gaps(model, pair, copies(pair, 2), settings)
    assert gaps.told_apart() == set()


@pytest.mark.parametrize("model", ["gin-random", "rp"])
def test_networks_that_depend_on_the_order_are_not_counted(model: str, report: Report) -> None:
    counts = [count for count in report.counts if count.model == model]
    assert [count.told_apart for count in counts] == [None] * len(FAMILIES_HERE)
    assert all(count.copies_gap > LIMIT for count in counts)


def test_contexts_tell_apart_what_node_features_do_not(report: Report) -> None:
    told = {(count.model, count.family): count.told_apart for count in report.counts}
    assert told["fast-smp", "regular"] > 15
    assert told["smp", "regular"] > 15
    assert told["gin", "regular"] == told["mpnn", "regular"] == 0
    assert told["fast-smp", "strongly-regular"] == told["ppgn", "strongly-regular"] == 0
    found = measure(Settings(models=("fast-smp", "gin"), families=("cfi",), **QUICK))
    assert [count.told_apart for count in found.counts] == [4, 0]


@pytest.mark.slow
def test_no_network_exceeds_its_class_on_cfi_graphs() -> None:
    found = measure(Settings(families=("cfi",), **QUICK))  # fails if one does
    assert len(found.counts) == len(NETWORK_NAMES)


def test_skip_links() -> None:
    found = measure(Settings(models=("fast-smp", "gin"), families=("csl",), seeds=1, relabelings=1))
    assert [count.told_apart for count in found.counts] == [45, 0]


def test_a_network_beyond_its_class_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOUND, "fast-smp", "1-WL")
    with pytest.raises(AssertionError, match=r"fast-smp distinguishes pairs .* which 1-WL cannot"):
        measure(Settings(models=("fast-smp",), families=("regular",), **QUICK))


def test_tolerance_follows_the_copies() -> None:
    assert Gaps({(0, 1): 2e-13}, 0.0).told_apart() == {(0, 1)}
    assert Gaps({(0, 1): FLOOR / 2}, 0.0).told_apart() == set()
    assert Gaps({(0, 1): 2e-13}, 1e-14).told_apart() == set()
    assert Gaps({(0, 1): 1.0}, 2 * LIMIT).told_apart() is None
    assert Gaps({(0, 1): 2e-13, (1, 2): 0.0}, 0.0).count("m", "f").smallest_gap == 2e-13


def test_every_network_of_the_catalogue_can_be_measured() -> None:
    graphs = FAMILIES["strongly-regular"]()
    for model in NETWORK_NAMES:
        network = random_network(model, graphs, Settings(**QUICK), 0)
        assert next(network.parameters()).dtype == torch.float64
        assert not network.training
    assert set(BOUND) | {"gin-random", "rp", "mpnn-jt"} == set(NETWORK_NAMES)


def test_report_can_be_written(tmp_path: Path, report: Report) -> None:
    report.write(tmp_path / "report.json")
    found = Report.read(tmp_path / "report.json")
    assert json.dumps(asdict(found)) == json.dumps(asdict(report))
    with pytest.raises(InputError, match="cannot be written"):
        report.write(tmp_path / "no" / "report.json")


def test_table(report: Report) -> None:
    head, *rows = count_table(report)
    assert head == ["", "bound", *FAMILIES_HERE]
    (row,) = [row for row in rows if row[0] == "fast-smp"]
    assert (row[1], row[-1]) == ("SMP", 0)
    (row,) = [row for row in rows if row[0] == "rp"]
    assert row[1:] == ["–", *["not invariant"] * len(FAMILIES_HERE)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"models": ("cnn",)}, "models must be one of smp, .*'cnn'"),
        ({"families": ("trees",)}, "families must be one of regular, csl"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"norm": "batch"}, "norm must be one of layer, none"),
        ({"readout": "median"}, "readout must be one of mean"),
    ],
)
def test_bad_settings(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**wrong)  # type: ignore[arg-type]


def test_variants_are_the_contexts_that_ship() -> None:
    for name, task in (("smp-local", ZincOptions()), ("smp-local-own-terms", MoleculesOptions())):
        options = {"own_terms": False, **VARIANTS[name]}
        assert options == {key: value for key, value in flat(task).items() if key in options}
        radius = network_spec(name, Settings()).options.context_radius
        assert radius == task.network.context_radius


RECORD = Path(__file__).resolve().parents[3] / "results" / "theory" / "expressivity.json"


def test_the_record_is_of_these_networks_families_and_references() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["settings"] == json.loads(json.dumps(asdict(Settings())))
    for model in NETWORK_NAMES:  # options that are newer than the record must be at their defaults
        recorded = NetworkSpec.from_dict(record["networks"][model])
        assert recorded == network_spec(model, Settings()), model
    found = measure(Settings(models=()))
    assert record["families"] == [asdict(size) for size in found.families]
    assert record["references"] == [asdict(reference) for reference in found.references]


def check_record(name: str, models: tuple[str, ...]) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    recorded = {(count["model"], count["family"]): count for count in record["counts"]}
    for count in measure(Settings(models=models, families=(name,))).counts:
        before = recorded[count.model, name]
        assert count.told_apart == before["told_apart"], count
        if before["smallest_gap"] is not None and before["smallest_gap"] > 1e-6:
            assert count.smallest_gap == pytest.approx(before["smallest_gap"], rel=1e-3)


def test_the_record_is_what_the_program_finds() -> None:
    check_record("regular", ("smp-local", "dgn"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_whole_record_is_what_the_program_finds(name: str) -> None:
    check_record(name, NETWORK_NAMES)
