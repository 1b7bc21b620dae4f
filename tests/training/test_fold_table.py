"""Folds as they are stored."""

from __future__ import annotations

import pytest
import torch

from smpgnn.data.splits import Split
from smpgnn.training.run_data import CALIBRATION, FoldTable, SplitTable

SPLITS = {
    (1, 1): ([0, 1], [2], [3, 4]),
    (1, 2): ([3, 4], [0], [1, 2]),
    (1, 3): ([1, 2, 3], [4], [0]),
}


def made() -> dict[tuple[int, int], Split]:
    return {key: Split(*map(torch.tensor, parts)) for key, parts in SPLITS.items()}


def test_rows_come_back() -> None:
    rows = torch.tensor([5, 6, 8, 9, 10])
    table = FoldTable({key: SplitTable.of_rows(part, rows) for key, part in made().items()})
    text = table.to_csv()
    assert text.splitlines()[:4] == [
        "repeat,fold,row,split",
        "1,1,9,val",
        "1,1,10,test",
        "1,1,11,test",
    ]
    again = FoldTable.from_csv(text)
    assert again.to_csv() == text
    assert list(again.splits) == list(SPLITS)
    for key, one in again.splits.items():
        assert one.row.tolist() == rows.tolist()
        found = one.split(rows, torch.arange(12))
        assert [part.tolist() for part in found] == [list(part) for part in SPLITS[key]]


def test_nodes_come_back() -> None:
    ends = torch.tensor([0, 3, 7])
    table = FoldTable({key: SplitTable.of_nodes(part, ends) for key, part in made().items()})
    again = FoldTable.from_csv(table.to_csv())
    for key, one in again.splits.items():
        found = one.split(torch.arange(2), ends)
        assert [sorted(part.tolist()) for part in found] == [list(part) for part in SPLITS[key]]
        assert sorted(one.outputs(torch.arange(2), ends).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "repeat,fold,row\n1,1,1\n",
        "repeat,fold,row,split\n",
        "repeat,fold,row,split\n1,1,0,test\n",
        "repeat,fold,row,split\n1,1,1,train\n",
        "repeat,fold,row,split\n1,1,1,test\n1,2,1,test\n",
        "repeat,fold,row,split\n1,1,1,test\n1,1,2,val\n",
        "repeat,fold,row,split\n1,x,1,test\n",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        FoldTable.from_csv(text)


def test_calibration_rows_are_in_no_split_of_a_member() -> None:
    parts = (*(torch.tensor(part) for part in ([0, 1], [2], [3])), torch.tensor([4]))
    table = SplitTable.of_rows(parts)
    again = SplitTable.from_csv(table.to_csv())
    assert again.to_csv().splitlines()[-1] == f"5,{CALIBRATION}"
    assert [part.tolist() for part in again.split(torch.arange(5), torch.arange(6))] == [
        [0, 1],
        [2],
        [3],
    ]
    assert again.of(CALIBRATION).row.tolist() == [4]
    before = again.without_calibration().split(torch.arange(5), torch.arange(6))
    assert [part.tolist() for part in before] == [[0, 1, 4], [2], [3]]
