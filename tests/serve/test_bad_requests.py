"""Bad requests: the right status and one sentence; the server goes on."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from serving import Loaded
from starlette.testclient import TestClient

from smpgnn.serve import EXPLAINED, Limits

JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}


def refused(answer: Any, status: int, start: str) -> None:
    """One sentence with this start; the answer is JSON."""
    assert answer.status_code == status, answer.text
    content = answer.json()
    assert list(content) == ["error"]
    sentence = content["error"]
    assert sentence.startswith(start), sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "Traceback" not in sentence


@pytest.fixture(autouse=True)
def _still_answers(client: TestClient) -> Iterator[None]:
    yield
    answer = client.post("/api/predict", json={"smiles": ["CCO"]})
    assert answer.json()["rows"][0]["error"] is None
    assert client.get("/health").json() == {"status": "ok", "requests": 0}


@pytest.mark.parametrize(
    ("body", "status", "start"),
    [
        (b"", 400, "the body is not JSON (EOF"),
        (b"{", 400, "the body is not JSON"),
        (b"smiles", 400, "the body is not JSON"),
        (b"\xff\xfe\x00", 400, "the body is not JSON"),
        (b'{"smiles": ["\xff"]}', 400, "the body is not JSON"),
        (b'{"smiles": ["\\ud800"]}', 400, "the body is not JSON"),
        (b'{"smiles": ' + b"[" * 100_000, 400, "the body is not JSON (recursion limit"),
        (b'{"smiles": ' + b"9" * 100_000 + b"}", 400, "the body is not JSON (number out"),
        (b"3", 422, "the body: input should be an object"),
        (b'{"smiles": "CCO"}', 422, "smiles: input should be a valid array"),
        (b'{"smiles": []}', 422, "smiles: list should have at least 1 item"),
        (b'{"smiles": ["C", 3]}', 422, "smiles, item 2: input should be a valid string"),
        (b'{"smiles": ["C", null]}', 422, "smiles, item 2: input should be a valid string"),
        (b'{"smile": ["C"]}', 422, "smiles: field required"),
        (b'{"smiles": ["C"], "x": 1}', 422, "x: extra inputs are not permitted"),
        (b'{"graphs": [{}]}', 422, "smiles: field required"),
    ],
)
def test_a_body_that_is_not_as_it_should_be(
    client: TestClient, body: bytes, status: int, start: str
) -> None:
    refused(client.post("/api/predict", content=body, headers=JSON), status, start)


def _parquet() -> bytes:
    file = io.BytesIO()
    pd.DataFrame({"smiles": ["C"]}).to_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("body", "status", "start"),
    [
        (b"", 400, "the table is empty"),
        (b" \n\n ", 400, "the table is empty"),
        (b"\x00\x01\x02smiles\nC\n", 400, "the table is not UTF-8 text"),
        (b"smiles,name\nC,\xe9\n", 400, "the table is not UTF-8 text"),
        ("smiles\nC\n".encode("utf-16"), 400, "the table is not UTF-8 text"),
        (gzip.compress(b"smiles\nC\n", mtime=0), 400, "the table is not UTF-8 text"),
        (_parquet(), 400, "the table is not UTF-8 text"),
        (b"PK\x03\x04 an Excel file", 422, "The table is a spreadsheet or zip archive"),
        (b"SMILES\nC\n", 422, "The table has no column 'smiles' (did you mean 'SMILES'?)"),
        (b"smiles,smiles\nC,C\n", 422, "The table has several columns named 'smiles'"),
        (b"smiles\n", 422, "The table has a header but no rows"),
        (b"smiles,name\nC\n", 422, "The table, line 2: 1 cells, but the header has 2"),
        (b'smiles\n"C\n', 422, "The table, line 2: the row cannot be read"),
    ],
)
def test_a_table_that_is_none(client: TestClient, body: bytes, status: int, start: str) -> None:
    refused(client.post("/api/predict", content=body, headers=CSV), status, start)


def test_a_column_that_the_table_does_not_have(client: TestClient) -> None:
    query = {"smiles_column": "mol\n<b>"}
    answer = client.post("/api/predict", params=query, content=b"smiles\nC\n", headers=CSV)
    refused(answer, 422, "The table has no column 'mol <b>'")


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data; boundary=x", "nonsense"])
def test_a_body_of_another_type(client: TestClient, kind: str) -> None:
    answer = client.post("/api/predict", content=b"CCO", headers={"Content-Type": kind})
    refused(answer, 415, "the type of the body is not known: send the header 'Content-Type: ")


def test_other_paths_and_methods(client: TestClient) -> None:
    refused(client.get("/nowhere"), 404, "GET /nowhere: Not Found")
    refused(client.get("/static/../app.py"), 404, "GET /app.py: Not Found")
    refused(client.get("/static/%2e%2e/app.py"), 404, "GET /static/../app.py: Not Found")
    refused(client.get("/api/predict"), 405, "GET /api/predict: Method Not Allowed")
    refused(client.delete("/api/predict"), 405, "DELETE /api/predict: Method Not Allowed")


def test_too_much(small: Loaded) -> None:
    limits = Limits(molecules=3, characters=10, bytes=2_000)
    with small.client(limits=limits) as client:
        too_many = "more than 3 molecules in one request"
        refused(client.post("/api/predict", json={"smiles": ["C"] * 4}), 413, too_many)
        table = b"smiles\n" + b"C\n" * 4
        refused(client.post("/api/predict", content=table, headers=CSV), 413, too_many)
        refused(client.post("/api/explain", json={"smiles": ["C"] * 4}), 413, too_many)
        too_large = "the body is larger than 2,000 bytes"
        for size in (2_001, 50_000):  # the second one is not read to its end
            answer = client.post("/api/predict", content=b"x" * size, headers=CSV)
            refused(answer, 413, too_large)
            assert answer.headers["connection"] == "close"
        pieces = (b"x" * 500 for _ in range(5))  # of unknown length
        refused(client.post("/api/predict", content=pieces, headers=CSV), 413, too_large)
        assert client.post("/api/predict", json={"smiles": ["C"] * 3}).status_code == 200


def test_explanations_have_a_limit_of_their_own(client: TestClient) -> None:
    answer = client.post("/api/explain", json={"smiles": ["C"] * (EXPLAINED + 1)})
    refused(answer, 413, f"more than {EXPLAINED} molecules in one request")


def test_a_score_that_the_model_does_not_have(client: TestClient) -> None:
    for score, end in (("sizes", "did you mean 'size'?"), ("x", "it is one of ['size'].")):
        answer = client.post("/api/explain", json={"smiles": ["C"], "score": score})
        assert answer.status_code == 422
        assert answer.json()["error"] == f"score: this model has no score '{score}': {end}"


def test_bad_molecules_among_good_ones(client: TestClient) -> None:
    most = Limits().characters
    smiles = [
        "CCO", "", "C1CC", "c1ccccc", "C(C)(C)(C)(C)C", "C" * (most + 1), "\x00", "😀", "CC O",
        "C" * most,
    ]  # fmt: skip
    for path in ("/api/predict", "/api/explain"):
        rows = client.post(path, json={"smiles": smiles}).json()["rows"]
        reasons = [row["error"] for row in rows]
        assert [row["smiles"] for row in rows] == smiles
        assert [number for number, reason in enumerate(reasons) if reason is None] == [0, 9]
        assert reasons[1] == "the SMILES is empty"
        assert reasons[4].startswith("the molecule is invalid: Explicit valence")
        assert reasons[5] == f"the SMILES has {most + 1:,} characters, more than {most:,}"
        assert reasons[8] == "'O' follows the SMILES after a blank"
