"""Threads: few for small work and on busy machines, and never more than somebody has chosen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from smpgnn import threads
from smpgnn.threads import idle_processors, kept_memory, processors, short_waits, suitable_threads

MUCH = 1e12


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Eight idle processors, of which torch uses all."""
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(threads, "GROUP", tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    load(monkeypatch, 0.2)
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


def load(monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (busy, 0.0, 0.0), raising=False)


def chosen(values: float) -> int:
    """The threads for steps on so many values; afterwards they are as before."""
    before = torch.get_num_threads()
    with suitable_threads(values):
        found = torch.get_num_threads()
    assert torch.get_num_threads() == before
    return found


def test_small_work_takes_one_thread() -> None:
    assert [chosen(values) for values in (0, 2e5, 6e5, 1e6, MUCH)] == [1, 1, 2, 3, 8]


def test_a_busy_machine_takes_the_idle_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for busy, idle in ((0.2, 8), (2.9, 5), (8.0, 1), (40.0, 1)):
        load(monkeypatch, busy)
        assert (idle_processors(), chosen(MUCH)) == (idle, idle)


def test_what_somebody_has_chosen_is_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(3)
    assert (chosen(MUCH), chosen(0)) == (3, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    load(monkeypatch, 40.0)
    assert chosen(0) == 3


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "nonsense\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_limits_of_containers(tmp_path: Path, files: dict[str, str], most: int) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (processors(), chosen(MUCH)) == (most, most)


def test_waits_are_short_unless_somebody_chose_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for names, expected in (
        ({}, "2000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, None),
    ):
        monkeypatch.setattr(os, "environ", dict(names))
        short_waits()
        assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_memory_is_kept_and_given_back() -> None:
    resident = Path("/proc/self/statm")
    if not resident.exists():
        pytest.skip("resident memory is found in /proc")

    def mib() -> float:
        return int(resident.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    before = mib()
    with kept_memory():
        torch.ones(60, 2**20)  # freed at once
        kept = mib()
    if kept < before + 200:
        pytest.skip("the allocator of this system is another one")
    assert mib() < before + 60
