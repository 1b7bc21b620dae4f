"""Charts: SVG with axes, units and a legend, in the colours of the page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from smpgnn.pages.charts import Chart, Series, svg, svg_file


def series(
    name: str, x: Sequence[float], y: Sequence[float], style: int, margin: float = 0
) -> Series:
    """A line with a band of one width."""
    points = ((a, b, b - margin, b + margin) for a, b in zip(x, y, strict=True))
    return Series(name, style, tuple(points))


def chart(*lines: Series, log_x: bool = False, log_y: bool = False) -> Chart:
    return Chart("k=4 <cell>", "epoch", "accuracy (%)", lines, log_x, log_y)


def parsed(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(svg(chart))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


def paths(root: ElementTree.Element, style: str) -> list[list[tuple[float, float]]]:
    """The points of the paths with a style, in the order drawn: the legend comes last."""
    return [
        [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path.get("d") or "")]
        for path in root.iter("path")
        if style in (path.get("style") or "")
    ]


def test_a_chart_has_title_axes_units_ticks_and_legend() -> None:
    root = parsed(
        chart(series("GIN & co", (1, 2, 3), (50, 60, 90), 0), series("SMP", (1, 2), (50, 99), 7))
    )
    words = {"k=4 <cell>", "epoch", "accuracy (%)", "GIN & co", "SMP", "60", "80"}
    assert words <= set(texts(root))
    assert root.get("aria-label") == "k=4 <cell>: accuracy (%) by epoch"


def test_larger_values_are_higher_and_further_right_within_the_chart() -> None:
    root = parsed(chart(series("a", (0, 5, 10), (-1, 0, 1), 3)))
    line, _legend = paths(root, "stroke: var(--c3)")
    width, height = map(float, (root.get("viewBox") or "").split()[2:])
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert [y for _, y in line] == sorted((y for _, y in line), reverse=True)
    assert all(0 < x < width and 0 < y < height for x, y in line)
    assert line[1][0] - line[0][0] == pytest.approx(line[2][0] - line[1][0], abs=0.2)


def test_log_axes_space_factors_evenly_and_leave_out_what_they_cannot_show() -> None:
    line = series("a", (0, 1, 10, 100, 1000), (5, 1, 10, math.nan, 1000), 0)
    root = parsed(chart(line, log_x=True, log_y=True))
    drawn = paths(root, "stroke: var(--c0)")[0]
    assert len(drawn) == 3
    assert (drawn[2][0] - drawn[1][0]) == pytest.approx(2 * (drawn[1][0] - drawn[0][0]), abs=0.3)
    assert {"1", "10", "100", "1,000"} <= set(texts(root))


@pytest.mark.parametrize("lowest", [0.4, 0.02, 1e-4, 1e-9, 1e-30])
def test_log_axes_have_some_ticks_whatever_they_span(lowest: float) -> None:
    root = parsed(chart(series("a", (1, 2), (lowest, 0.7), 0), log_y=True))
    ticks = [text for text in texts(root) if re.fullmatch(r"[\d.,]+(e-?\d+)?", text)]
    levels = paths(root, "stroke: var(--rule)")
    assert 3 <= len({y for line in levels for _, y in line}) - 2 <= 10, ticks


def test_bands_single_points_and_nothing() -> None:
    band = parsed(chart(series("a", (1, 2), (5, 6), 1, margin=1)))
    assert len(set(paths(band, "opacity: 0.15")[0])) == 4
    dot = paths(parsed(chart(series("a", (1,), (5,), 0))), "stroke-linecap: round")[0]
    assert len(set(dot)) == 1
    assert chart().drawable == ()
    assert chart(series("a", (0,), (1,), 0), log_x=True).drawable == ()
    flat = parsed(chart(series("a", (1, 2), (3, 3), 0), log_y=True))
    assert len(set(paths(flat, "stroke: var(--c0)")[0])) == 2


def test_any_name_and_any_number_is_drawn() -> None:
    names = ("_a", "$x_", "<b> & 'c'", "手紙")
    values = (1.0, 1e30, -1e38, 1e308, math.inf)
    root = parsed(chart(*(series(name, (1, 2, 3, 4, 5), values, 0) for name in names)))
    assert set(names) <= set(texts(root))
    assert len(paths(root, "stroke: var(--c0)")[0]) == 3  # the last two are beyond float32


def test_charts_do_not_clash_on_a_page_and_look_the_same_each_time() -> None:
    one = chart(series("a", (1, 2), (5, 6), 1, margin=1))
    assert svg(one) == svg(one)
    for word in ("id=", "url(", "<style", "href", "#0000"):
        assert word not in svg(one)


def test_a_file_has_the_colours_of_the_page() -> None:
    one = chart(series("a", (1, 2), (5, 6), 1))
    text = svg_file(one)
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for variable in set(re.findall(r"var\((--\w+)\)", text)):
        assert text.count(f"{variable}: #") == 2  # light and dark
    assert one.fingerprint in text
    assert chart(series("a", (1, 2), (5, 7), 1)).fingerprint not in text
