"""Pairs of graphs from files, and BREC itself."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

from smpgnn.data.brec import brec_pairs, read_pairs
from smpgnn.data.brec_parts import BREC
from smpgnn.errors import InputError

RING, PATH = (nx.to_graph6_bytes(g, header=False).decode().strip()
              for g in (nx.cycle_graph(5), nx.path_graph(5)))  # fmt: skip


def write(folder: Path, text: str, name: str = "mine.g6") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_two_lines_are_a_pair(tmp_path: Path) -> None:
    path = write(tmp_path, f">>graph6<<{RING}\n{PATH}\n\n{PATH}\n{RING}\n")
    pairs = read_pairs(path)
    assert [pair.category for pair in pairs] == ["mine", "mine"]
    assert nx.utils.graphs_equal(pairs[0].first, nx.cycle_graph(5))
    assert nx.utils.graphs_equal(pairs[1].first, pairs[0].second)


def test_a_table_names_its_categories(tmp_path: Path) -> None:
    path = write(tmp_path, f"second\tcategory\tfirst\n{PATH}\trings\t{RING}\n{PATH}\t\t{RING}\n")
    pairs = read_pairs(path)
    assert [pair.category for pair in pairs] == ["rings", "mine"]
    assert nx.utils.graphs_equal(pairs[0].first, nx.cycle_graph(5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no pair of graphs"),
        (f"{RING}\n", "has 1 graphs, and two consecutive ones are a pair"),
        (f"{RING}\nnonsense here\n", "row 2: 'nonsense here' is no graph6"),
        (f"{RING}\n?\n", "row 2: the graph has no nodes"),
        (f"{RING}\n~~~~~~~~~\n", "row 2: .* is no graph6"),
        (f"{RING}\né\n", "is no text of graph6"),
        (f"a\tb\n{RING}\t{PATH}\n", "has no column 'first'"),
        (f"first\tsecond\n{RING}\n", "row 2: has 1 cells, not 2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pairs(write(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no\.g6: cannot be read"):
        read_pairs(tmp_path / "no.g6")
    with pytest.raises(InputError, match=r"has no brec/pairs\.tsv .*--data-dir or SMPGNN_DATA"):
        brec_pairs(tmp_path)
    monkeypatch.delenv("SMPGNN_DATA", raising=False)
    with pytest.raises(InputError, match=r"brec/pairs\.tsv is needed"):
        brec_pairs()


def test_other_categories_are_not_brec(tmp_path: Path) -> None:
    write(tmp_path, f"category\tfirst\tsecond\nrings\t{RING}\t{PATH}\n", "pairs.tsv")
    with pytest.raises(InputError, match="row 2: the category 'rings' is not one of BREC's"):
        brec_pairs(tmp_path)


def test_brec() -> None:
    folder = Path(os.environ.get("SMPGNN_DATA", "")) / "brec"
    if "SMPGNN_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("SMPGNN_DATA does not name a folder with brec")
    pairs = brec_pairs()
    assert Counter(pair.category for pair in pairs) == BREC
    assert all(len(pair.first) == len(pair.second) for pair in pairs)
