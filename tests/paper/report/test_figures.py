"""Charts: valid SVG with axes, units and a legend."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from smpgnn.paper.report.figures import Series, line_chart

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '))


def texts(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{NAMESPACE}text")]


def places(svg: ElementTree.Element, kind: str) -> list[list[tuple[float, float]]]:
    lines = []
    for path in svg.iter(f"{NAMESPACE}path"):
        if (path.get("class") or "").startswith(kind) and "L" in (path.get("d") or ""):
            points = (path.get("d") or "").strip("MZ").split("L")
            lines.append([(float(p.split()[0]), float(p.split()[1])) for p in points])
    return lines


def test_a_chart_has_title_axes_units_ticks_and_legend() -> None:
    lines = [Series("GIN & co", (1, 2, 3), (50, 60, 90), 0), Series("SMP", (1, 2), (50, 99), 7)]
    svg = parsed(line_chart("k=4 <cell>", "epoch", "accuracy (%)", lines))
    found = texts(svg)
    assert {"k=4 <cell>", "epoch", "accuracy (%)", "GIN & co", "SMP", "60", "80"} <= set(found)
    assert "accuracy (%) by epoch" in (svg.get("aria-label") or "")


def test_larger_values_are_higher_and_further_right_within_the_chart() -> None:
    svg = parsed(line_chart("t", "x", "y", [Series("a", (0, 5, 10), (-1, 0, 1), 0)]))
    (line,) = places(svg, "line")
    width, height = map(float, (svg.get("viewBox") or "").split()[2:])
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert [y for _, y in line] == sorted((y for _, y in line), reverse=True)
    assert all(0 < x < width and 0 < y < height for x, y in line)
    assert line[1][0] - line[0][0] == pytest.approx(line[2][0] - line[1][0], abs=0.2)


def test_log_axes_space_factors_evenly_and_leave_out_what_they_cannot_show() -> None:
    line = Series("a", (0, 1, 10, 100, 1000), (5, 1, 10, math.nan, 1000), 0)
    svg = parsed(line_chart("t", "nodes", "ms", [line], log_x=True, log_y=True))
    (found,) = places(svg, "line")
    assert len(found) == 3
    assert (found[2][0] - found[1][0]) == pytest.approx(2 * (found[1][0] - found[0][0]), abs=0.3)
    assert {"1", "10", "100", "1,000"} <= set(texts(svg))


def test_bands_single_points_and_nothing() -> None:
    band = Series("a", (1, 2), (5, 6), 1, low=(4, 5), high=(6, 7))
    assert len(places(parsed(line_chart("t", "x", "y", [band])), "band")[0]) == 4
    dot = parsed(line_chart("t", "x", "y", [Series("a", (1,), (5,), 0)]))
    assert len(list(dot.iter(f"{NAMESPACE}circle"))) == 1
    assert line_chart("t", "x", "y", []) == ""
    assert line_chart("t", "x", "y", [Series("a", (0,), (1,), 0)], log_x=True) == ""
    flat = parsed(line_chart("t", "x", "y", [Series("a", (1, 2), (3, 3), 0)], log_y=True))
    assert len(places(flat, "line")) == 1
