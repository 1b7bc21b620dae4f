"""Charts as SVG. matplotlib draws them; CSS variables colour them, in light and dark."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

COLOURS = 10
_LARGEST = 3.5e38  # beyond float32; matplotlib's own arithmetic overflows somewhat later
_DASHES = ((0, ()), (0, (6, 3)), (0, (2, 2)))
LOOKS = COLOURS * len(_DASHES)  # each style from 0 on has its own pair of colour and dash

# matplotlib knows no CSS variables. It draws in these stand-ins, those of chart.mplstyle
# among them, and `svg` replaces them.
_VARIABLES = {"#0000d0": "--text", "#0000d1": "--rule", "#0000d2": "--page", "#0000d3": "--muted"}
_VARIABLES |= {f"#0000c{k}": f"--c{k}" for k in range(COLOURS)}

# Points of 1/72 inch, one unit of the SVG each.
_WIDTH, _PLOT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 190, 58, 10, 26, 38
_MARGIN, _LEGEND_LINE, _KEY, _CHARACTER = 10, 12.6, 38, 6.2
_SQUARE = _WIDTH - _LEFT - _RIGHT
_DOT = re.compile(r"M (\S+ [^\s\"]+) L \1(?=[\s\"])")  # a segment without a length
_FEW = 40  # dots that are drawn larger
_TEMPLATES = files("smpgnn.pages") / "templates"


@dataclass(frozen=True)
class Series:
    """One line. `style` selects colour and dash; `points` are x, y, and a band's low and high."""

    name: str
    style: int
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class Dots(Series):
    """Points without a line. A point whose low and high differ has a bar from one to the other."""


@dataclass(frozen=True)
class Chart:
    """Some series on one pair of axes. Series without a name are not in the legend."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False

    @property
    def drawable(self) -> tuple[Series, ...]:
        """The series that have points, without the points that the axes cannot show."""
        kept = (replace(one, points=tuple(filter(self._shows, one.points))) for one in self.series)
        return tuple(one for one in kept if one.points)

    @property
    def fingerprint(self) -> str:
        """Identifies the numbers, whichever version of matplotlib draws them."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def _shows(self, point: tuple[float, float, float, float]) -> bool:
        x, *ys = point
        finite = all(abs(value) < _LARGEST for value in point)
        return finite and not (self.log_x and x <= 0) and not (self.log_y and min(ys) <= 0)


@dataclass(frozen=True)
class Plot(Chart):
    """A square chart with dashed guides. Both axes may have limits, which bars do not exceed."""

    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    guides: tuple[tuple[tuple[float, float], tuple[float, float]], ...] = ()


def solid(colour: int) -> int:
    """The style of a solid line in this colour."""
    return next(k for k in range(colour, LOOKS, COLOURS) if not _DASHES[k % len(_DASHES)][1])


def svg(chart: Chart) -> Markup:
    """The chart as an element of an HTML page that defines the colours."""
    with mpl.rc_context(fname=str(_TEMPLATES / "chart.mplstyle")), warnings.catch_warnings():
        # A browser has the characters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure, text = _figure(chart), io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=metadata)
    root = Markup('<svg role="img" aria-label="{}: {} by {}" viewBox="0 0 {:g} {:g}">').format(
        chart.title, chart.y_label, chart.x_label, *(72 * figure.get_size_inches())
    )
    _, _, content = text.getvalue().partition("<svg")
    return root + Markup(_inline(content.partition(">")[2]))


def svg_file(chart: Chart) -> str:
    """The chart as a file of its own, with the colours of the page."""
    root, _, content = str(svg(chart)).partition(">")
    root = root.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH}"', 1)
    palette = (_TEMPLATES / "palette.css").read_text(encoding="utf-8")
    style = f"{palette}text {{ font-family: system-ui, sans-serif !important; }}"
    return f"{root}><!-- {chart.fingerprint} --><style>\n{style}\n</style>{content}\n"


def _inline(content: str) -> str:
    """matplotlib's SVG without ids and global styles, which would clash on a page; rounded."""
    content = re.sub(r"<defs>.*?</defs>", "", content, flags=re.DOTALL)
    content = re.sub(r' id="[^"]*"', "", content)
    content = re.sub(r' (?:d|x|y|transform)="[^"]*"', _rounded, content)
    content = re.sub("#0000[cd][0-9]", lambda found: f"var({_VARIABLES[found[0]]})", content)
    return re.sub(r">\s+<", "><", content).replace("<g/>", "").strip()


def _rounded(attribute: re.Match[str]) -> str:
    text = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}", attribute[0])
    return " " + _DOT.sub(r"M \1 h0", " ".join(text.split()))


def _figure(chart: Chart) -> Figure:
    lines = chart.drawable
    names = [line.name for line in lines if line.name]
    longest = max(map(len, names), default=0)
    columns = max(1, int((_WIDTH - _MARGIN) / (_KEY + _CHARACTER * longest)))
    legend = 6 + _LEGEND_LINE * math.ceil(len(names) / columns)
    plot = _SQUARE if isinstance(chart, Plot) else _PLOT
    height = _TOP + plot + _BOTTOM + legend
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    FigureCanvasSVG(figure)
    width = _WIDTH - _LEFT - _RIGHT
    bottom, middle = (legend + _BOTTOM) / height, (legend + _BOTTOM + plot / 2) / height
    axes = figure.add_axes((_LEFT / _WIDTH, bottom, width / _WIDTH, plot / height))
    if isinstance(chart, Plot):
        _prepare(axes, chart)
    drawn = [_draw(axes, line) for line in lines]
    axes.set(xscale="log" if chart.log_x else "linear", yscale="log" if chart.log_y else "linear")
    whole = all(float(x).is_integer() for line in lines for x, *_ in line.points)
    most = 8 if isinstance(chart, Plot) else 6
    _set_ticks(axes.xaxis, most, whole=whole)
    _set_ticks(axes.yaxis, most)
    axes.set(title=chart.title, xlabel=chart.x_label)
    axes.set_ylabel(chart.y_label, rotation_mode="anchor")
    axes.yaxis.set_label_coords(13 / _WIDTH, middle, transform=figure.transFigure)
    axes.grid(clip_on=False)
    handles = [handle for handle, line in zip(drawn, lines, strict=True) if line.name]
    at = (_MARGIN / _WIDTH, 0)
    figure.legend(handles, names, ncols=columns, loc="lower left", bbox_to_anchor=at)
    return figure


def _prepare(axes: Axes, plot: Plot) -> None:
    """Set the limits and draw the guides."""
    axes.xaxis.labelpad = 7
    if plot.x_limits is not None:
        axes.set_xlim(plot.x_limits)
    if plot.y_limits is not None:
        axes.set_ylim(plot.y_limits)
    for (x, y), (to_x, to_y) in plot.guides:
        axes.plot((x, to_x), (y, to_y), color="#0000d3", linewidth=1, dashes=(4, 3), clip_on=False)


def _draw(axes: Axes, line: Series) -> Line2D:
    """A band and a line, or dots and their bars; the line, for the legend."""
    colour = f"#0000c{line.style % COLOURS}"
    x, y, low, high = zip(*line.points, strict=True)
    if isinstance(line, Dots):
        if low != high:
            _segments(axes, x, low, high, color=colour, linewidth=1, alpha=0.35)
        width = 4.2 if len(x) > _FEW else 7
        return _segments(axes, x, y, y, color=colour, linewidth=width, alpha=0.6)
    if len(x) == 1:
        return _segments(axes, x, y, y, color=colour, linewidth=6)
    if low != high:
        outline = x + x[::-1], high + low[::-1]
        axes.fill(*outline, color=colour, alpha=0.15, linewidth=0, clip_on=False)
    dashes = _DASHES[line.style % len(_DASHES)]
    return axes.plot(x, y, color=colour, linestyle=dashes, clip_on=False)[0]


def _segments(
    axes: Axes, x: Sequence[float], low: Sequence[float], high: Sequence[float], **look: Any
) -> Line2D:
    """Vertical segments as one path; those without a length are dots."""
    gaps = [math.nan] * len(x)
    xs, ys = (
        [value for triple in zip(*columns, strict=True) for value in triple]
        for columns in ((x, x, gaps), (low, high, gaps))
    )
    return axes.plot(xs, ys, solid_capstyle="round", clip_on=False, **look)[0]


def _set_ticks(axis: Axis, most: int, whole: bool = False) -> None:
    """A few round numbers: on a logarithmic axis, powers of ten, on a short one their triples."""
    locator: Locator = MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole)
    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        locator = LogLocator(subs=(1,) if high / low > 1e4 else (1, 3), numticks=9)
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))


def _number(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        digits, power = f"{value:.0e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:,.6g}".replace("-", "−")
