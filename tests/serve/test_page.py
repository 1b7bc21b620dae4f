"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from serving import Server, serving

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no Chromium on this machine", allow_module_level=True)

Page = Any
DRAWN = "img[src^='data:image/svg']"
SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "CCO", "nonsense"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # without a sandbox of its own: inside containers it cannot have one
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    """The page; it must load nothing from elsewhere, and no script may fail."""
    yield from opened(browser, server, server.url, "light")


def opened(browser: Any, server: Server, url: str, scheme: str) -> Iterator[Page]:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1100, "height": 900})
    found = context.new_page()
    found.set_default_timeout(30_000)
    asked: list[str] = []
    failed: list[str] = []
    found.on("request", lambda request: asked.append(request.url))
    found.on("pageerror", lambda error: failed.append(str(error)))
    found.on(
        "console",
        lambda message: failed.append(message.text) if "Security Policy" in message.text else None,
    )
    found.goto(url)
    yield found
    assert failed == []
    own = urlsplit(server.url).netloc
    assert [one for one in asked if urlsplit(one).netloc not in (own, "")] == []
    context.close()


def typed(page: Page, lines: list[str]) -> None:
    """Type SMILES and wait for the table."""
    page.get_by_label("SMILES, one per line").fill("\n".join(lines))
    page.get_by_role("button", name="Predict", exact=True).click()
    page.get_by_role("table").wait_for()


def cells(page: Page) -> list[list[str]]:
    rows = page.locator("#rows tr").all()
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]


def test_typed_molecules(page: Page) -> None:
    page.get_by_role("heading", name="run").wait_for()
    assert "Intervals contain 90% of the values" in page.locator("#about").inner_text()
    typed(page, ["", *SMILES, "  "])
    heads = page.locator("#heads th").all_inner_texts()
    assert heads == ["Row", "Molecule", "size", "90% interval", "Nearest training molecule"]
    first, _, wrong = cells(page)
    assert first[0] == "1"
    assert SMILES[0] in first[1]
    assert float(first[2].split()[0].replace("−", "-"))
    assert "members differ by" in first[2]
    assert " to " in first[3]
    assert "similarity 0." in first[4]
    assert wrong[1] == "nonsense\nNo prediction: the text is not a SMILES."
    assert page.locator("#status").inner_text() == "3 rows, 1 of them without a prediction."
    # both molecules and their nearest ones are drawn, with coloured atoms
    page.locator(DRAWN).nth(3).wait_for()
    assert page.locator(DRAWN).count() == 4
    assert page.evaluate("[...document.images].every((i) => i.complete && i.naturalWidth > 0)")
    drawing = page.get_by_alt_text("Structure of CCO; largest contribution").first
    assert "ellipse" in drawing.get_attribute("src")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colours_of_the_system(
    browser: Any, server: Server, scheme: str, tmp_path: Path
) -> None:
    for page in opened(browser, server, server.url, scheme):
        typed(page, ["CCO"])
        page.locator(DRAWN).first.wait_for()
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        level = int(colour.strip("rgb()").split(",")[0])
        assert (level < 64) == (scheme == "dark")


def test_a_table_is_uploaded_and_downloaded(page: Page, tmp_path: Path) -> None:
    rows = [
        ["name", "mol", "note"],
        ["ethanol", "CCO", 'with "quotes", and\na line'],
        ["x", "", ""],
    ]
    with (tmp_path / "mine.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    page.get_by_label("Table (CSV)").set_input_files(tmp_path / "mine.csv")
    page.get_by_role("button", name="Predict for the table").click()
    alert = page.get_by_role("alert")
    alert.filter(has_text="no column").wait_for()
    assert alert.inner_text().startswith("The table has no column 'smiles': its columns are 'name'")
    page.get_by_label("Column of the SMILES").fill("mol")
    page.get_by_role("button", name="Predict for the table").click()
    page.get_by_role("table").wait_for()
    assert alert.inner_text() == ""
    page.get_by_text("Other columns").first.click()
    assert "ethanol" in cells(page)[0][1]
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as CSV").click()
    assert download.value.suggested_filename == "mine-predictions.csv"
    with Path(download.value.path()).open(newline="") as file:
        found = list(csv.reader(file))
    assert [line[:3] for line in found] == rows
    assert found[0][3:] == [
        "predicted_size", "low_size", "high_size", "std_size", "similarity", "nearest",
        "nearest_row", "error",
    ]  # fmt: skip
    assert float(found[1][4]) < float(found[1][3]) < float(found[1][5])
    assert found[2][3:] == [*[""] * 7, "the SMILES is empty"]


def test_errors_are_shown(page: Page) -> None:
    alert = page.get_by_role("alert")
    page.get_by_role("button", name="Predict", exact=True).click()
    alert.filter(has_text="Type or paste at least one SMILES.").wait_for()
    page.get_by_role("button", name="Predict for the table").click()
    alert.filter(has_text="Choose a CSV file first.").wait_for()
    page.get_by_label("SMILES, one per line").fill("C\n" * 1_001)
    page.keyboard.press("Control+Enter")
    alert.filter(has_text="More than 1,000 molecules in one request").wait_for()
    assert page.get_by_role("table").count() == 0


def test_it_works_with_the_keyboard_and_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    field = page.get_by_label("SMILES, one per line")
    field.wait_for()  # the page hides it until it knows the model
    field.focus()
    page.keyboard.type("c1ccccc1O")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#rows td").first.wait_for()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360


def test_a_token_is_asked_for(browser: Any, run: Path) -> None:
    token = "a-token-of-some-length"
    with serving(run, "--token", token) as server:
        for page in opened(browser, server, server.url, "light"):
            page.get_by_label("Token of this server").fill("wrong")
            page.get_by_role("button", name="Continue").click()
            page.get_by_role("alert").filter(has_text="The token is missing or wrong").wait_for()
            page.get_by_label("Token of this server").fill(token)
            page.get_by_role("button", name="Continue").click()
            typed(page, ["CCO"])
        for page in opened(browser, server, f"{server.url}/#token={token}", "light"):
            typed(page, ["CCO"])
            assert token not in page.url


def test_a_page_of_another_origin_reads_nothing(page: Page, browser: Any, server: Server) -> None:
    address = urlsplit(server.url)
    typed(page, ["CCO"])  # its own page may
    with serving("zinc") as other:
        script = """async ([url, type]) => {
            const options = { method: "POST", body: '{"smiles": ["CCO"]}' };
            if (type) options.headers = { "Content-Type": type };
            try { return (await fetch(url, options)).status; } catch { return "refused"; }
        }"""
        # the other page is one of ours, too: switch its policy off, since others have none
        context = browser.new_context(bypass_csp=True)
        foreign = context.new_page()
        foreign.goto(f"{other.url}/docs")
        for host in ("127.0.0.1", "localhost"):
            url = f"http://{host}:{address.port}/api/predict"
            for kind in ("", "application/json", "text/csv"):
                assert foreign.evaluate(script, [url, kind]) == "refused"
        own = f"{other.url}/api/predict"
        assert foreign.evaluate(script, [own, "application/json"]) == 200
        context.close()
