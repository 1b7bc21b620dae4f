"""Line charts as SVG. matplotlib draws them; CSS variables colour them, in light and dark."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from dataclasses import dataclass, replace
from importlib.resources import files

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

COLOURS = 10
_LARGEST = 3.5e38  # beyond float32; matplotlib's own arithmetic overflows somewhat later
_DASHES = ((0, ()), (0, (6, 3)), (0, (2, 2)))
LOOKS = COLOURS * len(_DASHES)  # each style from 0 on has its own pair of colour and dash

# matplotlib knows no CSS variables. It draws in these stand-ins, those of chart.mplstyle
# among them, and `svg` replaces them.
_VARIABLES = {"#0000d0": "--text", "#0000d1": "--rule", "#0000d2": "--page"}
_VARIABLES |= {f"#0000c{k}": f"--c{k}" for k in range(COLOURS)}

# Points of 1/72 inch, one unit of the SVG each.
_WIDTH, _PLOT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 190, 58, 10, 26, 38
_MARGIN, _LEGEND_LINE, _KEY, _CHARACTER = 10, 12.6, 38, 6.2
_TEMPLATES = files("smpgnn.paper.report") / "templates"


@dataclass(frozen=True)
class Series:
    """One line. `style` selects colour and dash; `points` are x, y, and a band's low and high."""

    name: str
    style: int
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class Chart:
    """Some series on one pair of axes."""

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
    return f" {' '.join(text.split())}"


def _figure(chart: Chart) -> Figure:
    lines = chart.drawable
    longest = max(len(line.name) for line in lines)
    columns = max(1, int((_WIDTH - _MARGIN) / (_KEY + _CHARACTER * longest)))
    legend = 6 + _LEGEND_LINE * math.ceil(len(lines) / columns)
    height = _TOP + _PLOT + _BOTTOM + legend
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    FigureCanvasSVG(figure)
    width = _WIDTH - _LEFT - _RIGHT
    bottom, middle = (legend + _BOTTOM) / height, (legend + _BOTTOM + _PLOT / 2) / height
    axes = figure.add_axes((_LEFT / _WIDTH, bottom, width / _WIDTH, _PLOT / height))
    for line in lines:
        _draw(axes, line)
    axes.set(xscale="log" if chart.log_x else "linear", yscale="log" if chart.log_y else "linear")
    _set_ticks(axes.xaxis)
    _set_ticks(axes.yaxis)
    axes.set(title=chart.title, xlabel=chart.x_label)
    axes.set_ylabel(chart.y_label, rotation_mode="anchor")
    axes.yaxis.set_label_coords(13 / _WIDTH, middle, transform=figure.transFigure)
    axes.grid(clip_on=False)
    names = [line.name for line in lines]
    at = (_MARGIN / _WIDTH, 0)
    figure.legend(axes.lines, names, ncols=columns, loc="lower left", bbox_to_anchor=at)
    return figure


def _draw(axes: Axes, line: Series) -> None:
    """A band and a line, or a dot for a single point."""
    colour = f"#0000c{line.style % COLOURS}"
    x, y, low, high = zip(*line.points, strict=True)
    if len(x) == 1:
        axes.plot(x * 2, y * 2, color=colour, linewidth=6, solid_capstyle="round", clip_on=False)
        return
    if low != high:
        outline = x + x[::-1], high + low[::-1]
        axes.fill(*outline, color=colour, alpha=0.15, linewidth=0, clip_on=False)
    axes.plot(x, y, color=colour, linestyle=_DASHES[line.style % len(_DASHES)], clip_on=False)


def _set_ticks(axis: Axis) -> None:
    """A few round numbers: on a logarithmic axis, powers of ten, on a short one their triples."""
    locator: Locator = MaxNLocator(6, steps=[1, 2, 5, 10])
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
