"""The list of programs agrees with the modules, and the pages with the records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from smpgnn.errors import InputError
from smpgnn.paper.theory.families import FAMILIES
from smpgnn.paper.theory.registry import BY_NAME, FAMILY_NAMES, LISTINGS, program

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs" / "theory"


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.name)
def test_listing_says_what_the_module_says(listing) -> None:  # type: ignore[no-untyped-def]
    found = listing.load()
    assert (found.name, found.claim) == (listing.name, listing.claim)
    assert program(listing.name) is found


def test_names_are_unique_and_all_modules_with_a_program_are_listed() -> None:
    assert len(BY_NAME) == len(LISTINGS)
    folder = ROOT / "src" / "smpgnn" / "paper" / "theory"
    modules = {
        path.stem
        for path in folder.glob("*.py")
        if "\nPROGRAM = Program(" in path.read_text(encoding="utf-8")
    }
    assert modules == {listing.module for listing in LISTINGS}


def test_names_of_families() -> None:
    assert tuple(FAMILIES) == FAMILY_NAMES


def test_unknown_program() -> None:
    with pytest.raises(InputError, match=r"program must be one of equivariance, .*'nope'"):
        program("nope")


def test_every_program_has_a_line_and_a_page() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    for listing in LISTINGS:
        assert f"smpgnn paper theory {listing.name}`" in text
        page = (DOCS / listing.page).read_text(encoding="utf-8")
        assert f"smpgnn paper theory {listing.name}" in page
        assert f"[{listing.name}]({listing.page})" in text


def test_the_pages_say_what_the_records_say() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS.parent / "fill_theory.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["index", "mpnn", "ppgn", "coloring", "expressivity"])
def test_every_linked_file_is_there(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    local = [link.split("#")[0] for link in links if not link.startswith("http")]
    assert [link for link in local if not (DOCS / link).exists()] == []
