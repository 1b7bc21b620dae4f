"""Line charts as inline SVG: axes with units, legend, colours of the page in light and dark."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

_WIDTH, _PLOT_HEIGHT = 360.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 10.0, 26.0, 38.0
_LEGEND_LINE, _CHARACTER = 15.0, 6.1
_DASHES = ("", "6 3", "2 2")
COLOURS = 10
LOOKS = COLOURS * len(_DASHES)  # a style from 0 on has a colour and a dash of its own


@dataclass(frozen=True)
class Series:
    """One line; `style` numbers colour and dash, `low` and `high` bound a band around it."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: int
    low: tuple[float, ...] = field(default=())
    high: tuple[float, ...] = field(default=())


@dataclass(frozen=True)
class _Axis:
    """From values to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def place(self, value: float) -> float:
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high)


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: list[Series],
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """One chart, '' if there is nothing to draw; what a log axis cannot show is left out."""
    kept = [s for line in series if (s := _drawable(line, log_x, log_y)).x]
    if not kept:
        return ""
    legend, legend_height = _legend(kept)
    height = _TOP + _PLOT_HEIGHT + _BOTTOM + legend_height
    bottom = _TOP + _PLOT_HEIGHT
    x = _axis([v for s in kept for v in s.x], _LEFT, _WIDTH - _RIGHT, log_x)
    y = _axis([v for s in kept for v in (*s.y, *s.low, *s.high)], bottom, _TOP, log_y)
    return "".join(
        [
            f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
            f'aria-label="{escape(title)}: {escape(y_label)} by {escape(x_label)}">',
            f'<text class="title" x="{_LEFT:g}" y="15">{escape(title)}</text>',
            _grid(x, y, bottom),
            *(_line(s, x, y) for s in kept),
            f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:g}" y="{bottom + 31:g}" '
            f'text-anchor="middle">{escape(x_label)}</text>',
            f'<text transform="translate(11 {(_TOP + bottom) / 2:g}) rotate(-90)" '
            f'text-anchor="middle">{escape(y_label)}</text>',
            f'<g transform="translate({_LEFT:g} {bottom + _BOTTOM + 8:g})">{legend}</g>',
            "</svg>",
        ]
    )


def standalone(chart: str, style: str) -> str:
    """A chart as a file of its own, with the style sheet of the page."""
    start = chart.index(">") + 1
    head = chart[: start - 1].replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    paper = '<rect width="100%" height="100%" fill="var(--page)"/>'
    width = f"svg {{ width: {2 * _WIDTH:g}px; max-width: none; }}"
    return f"{head}><style>\n{style}{width}</style>{paper}{chart[start:]}\n"


def _drawable(line: Series, log_x: bool, log_y: bool) -> Series:
    def shown(place: int) -> bool:
        values = [line.y[place], *(b[place] for b in (line.low, line.high) if b)]
        finite = all(map(math.isfinite, [line.x[place], *values]))
        return finite and not (log_x and line.x[place] <= 0) and not (log_y and min(values) <= 0)

    kept = [place for place in range(len(line.x)) if shown(place)]
    return Series(
        line.name,
        tuple(line.x[p] for p in kept),
        tuple(line.y[p] for p in kept),
        line.style,
        tuple(line.low[p] for p in kept) if line.low else (),
        tuple(line.high[p] for p in kept) if line.high else (),
    )


def _axis(values: list[float], start: float, end: float, log: bool) -> _Axis:
    low, high = min(values), max(values)
    if log:
        if low == high:
            low, high = low / 2, high * 2
        return _Axis(low / 1.1, high * 1.1, start, end, log)
    if low == high:
        low, high = low - 0.5, high + 0.5
    margin = 0.04 * (high - low)
    return _Axis(low - margin, high + margin, start, end, log)


def _ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers within the limits."""
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    first = math.ceil(low / step)
    return [step * place for place in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten; with their doubles and fives where these are too few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [f * 10.0**p for p in range(first, last + 1) for f in factors]
        within = [tick for tick in ticks if low <= tick <= high]
        if len(within) >= 3:
            break
    thin = math.ceil(len(within) / 6)
    return within[::thin]


def _number(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        digits, power = f"{value:.0e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:,.6g}".replace("-", "−")


def _grid(x: _Axis, y: _Axis, bottom: float) -> str:
    parts = []
    for tick in x.ticks():
        at = x.place(tick)
        parts.append(f'<path class="grid" d="M{at:.1f} {_TOP:g}V{bottom:g}"/>')
        parts.append(
            f'<text x="{at:.1f}" y="{bottom + 14:g}" text-anchor="middle">{_number(tick)}</text>'
        )
    for tick in y.ticks():
        at = y.place(tick)
        parts.append(f'<path class="grid" d="M{_LEFT:g} {at:.1f}H{_WIDTH - _RIGHT:g}"/>')
        parts.append(
            f'<text x="{_LEFT - 5:g}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    return "".join(parts)


def _line(line: Series, x: _Axis, y: _Axis) -> str:
    points = [f"{x.place(a):.1f} {y.place(b):.1f}" for a, b in zip(line.x, line.y, strict=True)]
    parts = []
    if line.low and len(points) > 1:
        upper = [
            f"{x.place(a):.1f} {y.place(b):.1f}" for a, b in zip(line.x, line.high, strict=True)
        ]
        lower = [
            f"{x.place(a):.1f} {y.place(b):.1f}" for a, b in zip(line.x, line.low, strict=True)
        ]
        outline = "L".join(upper + lower[::-1])
        parts.append(f'<path class="band c{line.style % COLOURS}" d="M{outline}Z"/>')
    if len(points) == 1:
        at = points[0].split()
        parts.append(
            f'<circle class="dot c{line.style % COLOURS}" cx="{at[0]}" cy="{at[1]}" r="3"/>'
        )
    else:
        parts.append(f'<path {_stroke(line.style)} d="M{"L".join(points)}"/>')
    return "".join(parts)


def _stroke(style: int) -> str:
    dash = _DASHES[style % len(_DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="line c{style % COLOURS}"{dashes}'


def _legend(series: list[Series]) -> tuple[str, float]:
    """Names beside a piece of their line, in as many lines as they need, and their height."""
    parts, x, y = [], 0.0, 0.0
    for line in series:
        width = 26 + _CHARACTER * len(line.name) + 12
        if x and x + width > _WIDTH - _LEFT:
            x, y = 0.0, y + _LEGEND_LINE
        parts.append(f'<path {_stroke(line.style)} d="M{x:.0f} {y - 4:.0f}h20"/>')
        parts.append(f'<text x="{x + 25:.0f}" y="{y:.0f}">{escape(line.name)}</text>')
        x += width
    return "".join(parts), y + _LEGEND_LINE
