"""The shapes of draw_concepts.py: graphs, matrices, arrows, boxes, on light and dark pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from torch import Tensor


@dataclass(frozen=True)
class Palette:
    """Colours of one kind of page."""

    name: str
    ink: str
    quiet: str
    zero: str
    accent: str
    low: str
    high: str
    fills: tuple[str, ...]

    @property
    def colors(self) -> LinearSegmentedColormap:
        return LinearSegmentedColormap.from_list(self.name, [self.low, self.zero, self.high])


PALETTES = (
    Palette("light", "#222222", "#8a8a8a", "#f1f1f1", "#c1440e", "#2166ac", "#e08214",
            ("#9ecae1", "#fdbe85", "#a1d99b")),
    Palette("dark", "#e8e8e8", "#8f959c", "#2b2f34", "#ff8a5c", "#5aa9e6", "#f0a04b",
            ("#2f6f9f", "#b86f1f", "#3c8150")),
)  # fmt: skip


@dataclass(frozen=True)
class Canvas:
    """An axes without axes, with the shapes that the figures need; `at` is a lower left corner."""

    axes: Any
    palette: Palette

    def text(self, x: float, y: float, words: str, size: float = 10, **more: Any) -> None:
        color = more.pop("color", self.palette.ink)
        self.axes.text(x, y, words, ha=more.pop("ha", "center"), va="center", fontsize=size,
                       color=color, linespacing=1.35, **more)  # fmt: skip

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], curve: float = 0.0
    ) -> None:
        style = f"arc3,rad={curve}"
        self.axes.add_patch(
            FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, shrinkA=0, shrinkB=0,
                            color=self.palette.quiet, connectionstyle=style, linewidth=1.2)
        )  # fmt: skip

    def graph(
        self,
        edges: Sequence[tuple[int, int]],
        places: Mapping[int, tuple[float, float]],
        at: tuple[float, float],
        scale: float,
        names: Sequence[str],
        strong: Collection[int] = (),
        shade: Mapping[int, int] | None = None,
    ) -> None:
        """Nodes with names; `shade` 1 to 3 fills them more and more, and 0 not at all."""
        lowest = min(y for _, y in places.values())
        put = {k: (at[0] + scale * x, at[1] + scale * (y - lowest)) for k, (x, y) in places.items()}
        for a, b in edges:
            self.axes.plot(*zip(put[a], put[b], strict=True), color=self.palette.quiet, lw=1.8,
                           zorder=1)  # fmt: skip
        for node, place in put.items():
            fill, amount = self.palette.zero, max((shade or {}).get(node, 0), 0)
            if amount:
                fill = self.palette.colors(0.5 - 0.12 * amount)
            edge = self.palette.accent if node in strong else self.palette.ink
            width = 2.2 if node in strong else 1.0
            self.axes.add_patch(Circle(place, 0.2, facecolor=fill, edgecolor=edge, lw=width,
                                       zorder=2))  # fmt: skip
            self.axes.text(*place, names[node], ha="center", va="center", fontsize=9,
                           color=self.palette.ink, zorder=3)  # fmt: skip

    def matrix(
        self,
        at: tuple[float, float],
        values: Tensor,
        names: Sequence[str] | None,
        *,
        strong: Collection[int] = (),
        frame: int | None = None,
        cell: float = 0.34,
        high: float | None = None,
    ) -> None:
        """Rows × channels from top to bottom; names on the left, a frame around one row."""
        high = high or cell
        count, width = values.shape
        for number, row in enumerate(values.tolist()):
            y = at[1] + high * (count - 1 - number)
            for channel, value in enumerate(row):
                fill = self.palette.colors(0.5 + 0.5 * max(-1.0, min(1.0, value)))
                self.axes.add_patch(Rectangle((at[0] + cell * channel, y), cell, high, fill=True,
                                              facecolor=fill, edgecolor="none"))  # fmt: skip
            if names is not None:
                accent = number in strong or number == frame
                self.text(at[0] - 0.1, y + high / 2, names[number], size=9, ha="right",
                          color=self.palette.accent if accent else self.palette.ink)  # fmt: skip
            if number in strong or number == frame:
                self.axes.add_patch(Rectangle((at[0], y), cell * width, high, fill=False, zorder=4,
                                              edgecolor=self.palette.accent, lw=1.4))  # fmt: skip
        self.axes.add_patch(Rectangle(at, cell * width, high * count, fill=False, zorder=3,
                                      edgecolor=self.palette.quiet, lw=0.8))  # fmt: skip

    def box(
        self, at: tuple[float, float], width: float, height: float, kind: int | None, words: str
    ) -> None:
        """A filled rectangle; without a kind it is hatched."""
        fill = "none" if kind is None else self.palette.fills[kind]
        self.axes.add_patch(
            Rectangle(at, width, height, facecolor=fill, edgecolor=self.palette.quiet, lw=0.8,
                      hatch="////" if kind is None else None)
        )  # fmt: skip
        if words and kind is not None:
            self.text(at[0] + width / 2, at[1] + height / 2, words, size=7.5)
        elif words and height > 0.3:
            self.text(at[0] + width / 2, at[1] + height / 2, words, size=7.5, bbox={
                "facecolor": self.palette.zero, "edgecolor": "none", "pad": 1.2})  # fmt: skip
