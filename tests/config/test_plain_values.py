"""Plain values become dataclasses only where every value has the type that it must have."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import pytest

from smpgnn.config.plain import from_plain
from smpgnn.errors import InputError


@dataclass(frozen=True)
class Inner:
    kind: Literal["a", "b"]
    pair: tuple[str, int] = ("x", 1)


@dataclass(frozen=True)
class Outer:
    name: str
    count: int
    inner: Inner | None
    numbers: tuple[float, ...] = ()
    many: tuple[Inner, ...] = ()
    flag: bool = False


WHOLE: dict[str, Any] = {
    "name": "n", "count": 3, "inner": {"kind": "a"}, "numbers": [1, 2.5], "flag": True,
    "many": [{"kind": "b", "pair": ["y", 2]}],
}  # fmt: skip


def test_values_come_back() -> None:
    made = from_plain(Outer, WHOLE, "it")
    assert made == Outer("n", 3, Inner("a"), (1, 2.5), (Inner("b", ("y", 2)),), True)
    assert from_plain(Outer, asdict(made), "it") == made
    assert from_plain(Outer, {**WHOLE, "inner": None}, "it").inner is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 5}, "it.name is 5"),
        ({"count": True}, "it.count is True"),
        ({"count": 2.0}, "it.count is 2.0"),
        ({"count": None}, "it.count is None"),
        ({"flag": 1}, "it.flag is 1"),
        ({"numbers": "12"}, "it.numbers is '12'"),
        ({"numbers": [1, "2"]}, r"it.numbers\[1\] is '2'"),
        ({"numbers": [float("nan")]}, r"it.numbers\[0\] is nan"),
        ({"numbers": [10**400]}, r"it.numbers\[0\] is 1000000"),
        ({"inner": {"kind": "c"}}, "it.inner.kind is 'c'"),
        ({"inner": {"kind": ["a"]}}, r"it.inner.kind is \['a'\]"),
        ({"inner": {}}, "it.inner has no 'kind'"),
        ({"inner": [1]}, r"it.inner must be an object, not \[1\]"),
        ({"many": [{"kind": "a", "pair": ["x"]}]}, r"it.many\[0\].pair is"),
        ({"more": 1}, "it has an unknown key 'more'"),
        ({"name": "n" * 10**6, "count": "n" * 10**6}, r"it.count is 'nnn.*\.\.\.$"),
    ],
)  # fmt: skip
def test_others_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        from_plain(Outer, {**WHOLE, **change}, "it")
    assert len(str(caught.value)) < 100
