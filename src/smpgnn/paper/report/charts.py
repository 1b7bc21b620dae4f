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

# matplotlib knows no CSS variables. It draws in these stand-ins, which `svg` then replaces.
_TEXT, _RULE, _PAGE = "#0000d0", "#0000d1", "#0000d2"
_VARIABLES = {_TEXT: "--text", _RULE: "--rule", _PAGE: "--page"}
_VARIABLES |= {f"#0000c{k}": f"--c{k}" for k in range(COLOURS)}

# Points of 1/72 inch, one unit of the SVG each.
_WIDTH, _PLOT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 190, 58, 10, 26, 38
_MARGIN, _LEGEND_LINE, _KEY, _CHARACTER = 10, 12.6, 38, 6.2
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "smpgnn",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.parse_math": False,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.facecolor": _PAGE,
    "figure.facecolor": _PAGE,
    "xtick.labelcolor": _TEXT,
    "ytick.labelcolor": _TEXT,
}


@dataclass(frozen=True)
class Series:
    """One line. `style` selects colour and dash; `low` and `high` bound a band around it."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: int
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


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
        """The series without points that the axes cannot show, and only those with points left."""
        return tuple(kept for line in self.series if (kept := self._drawable(line)).x)

    @property
    def fingerprint(self) -> str:
        """Identifies the numbers, whichever version of matplotlib draws them."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def _drawable(self, line: Series) -> Series:
        def shown(place: int) -> bool:
            values = [line.y[place], *(band[place] for band in (line.low, line.high) if band)]
            return (
                all(abs(value) < _LARGEST for value in (line.x[place], *values))
                and not (self.log_x and line.x[place] <= 0)
                and not (self.log_y and min(values) <= 0)
            )

        kept = [place for place in range(len(line.x)) if shown(place)]

        def pick(values: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(values[place] for place in kept) if values else ()

        x, y, low, high = map(pick, (line.x, line.y, line.low, line.high))
        return replace(line, x=x, y=y, low=low, high=high)


def svg(chart: Chart) -> Markup:
    """The chart as an element of an HTML page that defines the colours."""
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
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
    palette = files("smpgnn.paper.report").joinpath("templates/palette.css").read_text("utf-8")
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
    axes = figure.add_axes(
        (
            _LEFT / _WIDTH,
            (legend + _BOTTOM) / height,
            (_WIDTH - _LEFT - _RIGHT) / _WIDTH,
            _PLOT / height,
        )
    )
    for line in lines:
        _draw(axes, line)
    axes.set(xscale="log" if chart.log_x else "linear", yscale="log" if chart.log_y else "linear")
    _set_ticks(axes.xaxis)
    _set_ticks(axes.yaxis)
    axes.set_title(chart.title, loc="left", fontsize=11.5, fontweight="bold")
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label, rotation_mode="anchor")
    axes.yaxis.set_label_coords(13 / _WIDTH, (legend + _BOTTOM + _PLOT / 2) / height,
                                transform=figure.transFigure)  # fmt: skip
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_axisbelow(True)
    axes.grid(color=_RULE, linewidth=1, clip_on=False)
    figure.legend(
        axes.lines, [line.name for line in lines], ncols=columns, loc="lower left",
        bbox_to_anchor=(_MARGIN / _WIDTH, 0), frameon=False, fontsize=10, labelspacing=0.3,
        columnspacing=1.2, handletextpad=0.5, borderpad=0.2, borderaxespad=0,
    )  # fmt: skip
    return figure


def _draw(axes: Axes, line: Series) -> None:
    """A band and a line, or a dot for a single point."""
    colour = f"#0000c{line.style % COLOURS}"
    if line.low and len(line.x) > 1:
        outline = line.x + line.x[::-1], line.high + line.low[::-1]
        axes.fill(*outline, color=colour, alpha=0.15, linewidth=0, clip_on=False)
    if len(line.x) > 1:
        dash = _DASHES[line.style % len(_DASHES)]
        axes.plot(line.x, line.y, color=colour, linestyle=dash, linewidth=1.8, clip_on=False)
    else:
        axes.plot(line.x * 2, line.y * 2, color=colour, linewidth=6, clip_on=False,
                  solid_capstyle="round")  # fmt: skip


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
