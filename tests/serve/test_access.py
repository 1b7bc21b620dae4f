"""Only this server's own page, under its own names and with the token, may use the model."""

from __future__ import annotations

import pytest
from serving import NAME, Loaded
from starlette.testclient import TestClient
from test_bad_requests import refused

TOKEN = "a-token-of-some-length"
BODY = {"smiles": ["CCO"]}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "10.1.2.3", f"{NAME}:443"]
)
def test_own_names_and_addresses(client: TestClient, host: str) -> None:
    for path in ("/", "/health", "/api/model"):
        assert client.get(path, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"{NAME}.evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example",
     "127.0.0.1@evil.example", "[::1", "evil.example:127.0.0.1", "@", "0x7f.1:8000"],
)  # fmt: skip
def test_a_name_of_someone_else(client: TestClient, host: str) -> None:
    for path in ("/", "/health", "/docs", "/api/model", "/static/page.js"):
        answer = client.get(path, headers={"Host": host})
        refused(answer, 421, "this server is not known under the name of the Host header")
    refused(client.post("/api/predict", json=BODY, headers={"Host": host}), 421, "this server")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://localhost:8000"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_origin(client: TestClient, headers: dict[str, str]) -> None:
    sentence = "pages of other origins may not use this server"
    refused(client.post("/api/predict", json=BODY, headers=headers), 403, sentence)
    refused(client.get("/api/model", headers=headers), 403, sentence)
    asked = {**headers, "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/predict", headers=asked)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_its_own_page(client: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    answer = client.post("/api/predict", json=BODY, headers=own)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    for path in ("/", "/static/page.js", "/api/model", "/nowhere"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"


def test_the_token(small: Loaded) -> None:
    with small.client(token=TOKEN) as client:
        for path in ("/", "/health", "/docs", "/openapi.json", "/static/page.js"):
            assert client.get(path).status_code == 200
        wrong = ["", TOKEN, "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é"]
        for text in wrong:
            given = {"Authorization": text.encode()}
            for answer in (
                client.get("/api/model", headers=given),
                client.post("/api/predict", json=BODY, headers=given),
                client.post(f"/api/explain?token={TOKEN}", json=BODY, headers=given),
                client.get("/api/nowhere", headers=given),
            ):
                refused(answer, 401, "the token is missing or wrong")
                assert answer.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in answer.text
        for text in (f"Bearer {TOKEN}", f"bearer  {TOKEN} "):
            answer = client.post("/api/predict", json=BODY, headers={"Authorization": text})
            assert answer.status_code == 200
