"""The page as a test reads it: whole HTML, its tables as text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "path", "ellipse", "rect"}


class Reader(HTMLParser):
    """Checks that elements close in order, and keeps the tables of each section as text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.section = ""
        self.links: list[str] = []
        self.ids: list[str] = []
        self.cells: dict[str, list[list[list[str]]]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [v for k, v in attrs if k in ("href", "src", "srcset", "data") and v]
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "section":
            self.section = str(given["id"])
        if tag == "table":
            self.cells.setdefault(self.section, []).append([])
        if tag == "tr":
            self.cells[self.section][-1].append([])
        if tag in ("th", "td"):
            self.cells[self.section][-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "th" in self.open or "td" in self.open:
            self.cells[self.section][-1][-1][-1] += f" {data}"


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader
