"""`smpgnn serve` as a process: many requests side by side, slow and broken ones, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from cli.commands import smpgnn
from serving import Server, serving
from training.processes import finish, start

from smpgnn.inference.predict import Model

psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="processes are observed in /proc"),
]

#: Drawing these takes minutes.
HUGE = ["C1CC1" * 200] * 50
MiB = 2**20


def peaks(server: Server) -> dict[int, int]:
    """The most memory that each process of a server has had, in bytes."""
    processes = [server.process.pid, *(child.pid for child in children(server))]
    found = {}
    for pid in processes:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found[pid] = next(int(line.split()[1]) << 10 for line in lines if line[:6] == "VmHWM:")
    return found


def children(server: Server) -> list[Any]:
    return psutil.Process(server.process.pid).children(recursive=True)


def workers(server: Server) -> list[Any]:
    """The process with the model."""
    return [child for child in children(server) if "spawn_main" in " ".join(child.cmdline())]


async def ask_all(
    url: str, bodies: Sequence[dict[str, Any]], together: int
) -> tuple[list[dict[str, Any]], int]:
    """The answers to all bodies, `together` at a time; a busy server is asked again."""
    refused = 0
    places = asyncio.Semaphore(together)
    limits = httpx2.Limits(max_connections=together)
    async with httpx2.AsyncClient(
        base_url=url, timeout=120, limits=limits, trust_env=False
    ) as client:

        async def ask(body: dict[str, Any]) -> dict[str, Any]:
            nonlocal refused
            async with places:
                while True:
                    answer = await client.post("/api/predict", json=body)
                    if answer.status_code != 503:
                        break
                    refused += 1
                    assert int(answer.headers["retry-after"]) > 0
                    assert answer.json()["error"].startswith("the server is busy")
                    await asyncio.sleep(0.2)
                assert answer.status_code == 200, answer.text
                found: dict[str, Any] = answer.json()
                return found

        return await asyncio.gather(*map(ask, bodies)), refused


def chains(number: int) -> dict[str, Any]:
    """A request whose answer tells it from the others."""
    return {"smiles": ["C" * (1 + number % 50), "CCO", f"{number}"]}


def check(answers: Sequence[dict[str, Any]], model: Model) -> None:
    """Each answer is that of its own request."""
    known = model.predict(["C" * n for n in range(1, 51)] + ["CCO"])["predicted_size"].tolist()
    for number, answer in enumerate(answers):
        assert [row["smiles"] for row in answer["rows"]] == chains(number)["smiles"]
        values = [row["predicted_size"] for row in answer["rows"]]
        assert values[:2] == pytest.approx([known[number % 50], known[50]], rel=1e-4)
        assert values[2] is None


def test_hundreds_of_requests_side_by_side(server: Server, model: Model) -> None:
    asyncio.run(ask_all(server.url, [chains(n) for n in range(20)], 20))
    before = peaks(server)
    answers, refused = asyncio.run(ask_all(server.url, [chains(n) for n in range(400)], 80))
    assert refused == 0
    check(answers, model)
    after = peaks(server)
    assert after.keys() == before.keys()
    assert all(after[pid] - before[pid] < 64 * MiB for pid in before)
    assert sum(after.values()) < 2048 * MiB


def test_a_full_queue_refuses_and_loses_nothing(run: Path, model: Model) -> None:
    with serving(run, "--max-requests", 4) as server:
        answers, refused = asyncio.run(ask_all(server.url, [chains(n) for n in range(200)], 40))
        assert refused > 0
        check(answers, model)


def test_more_work_than_time_finishes_some_in_bounded_memory(run: Path) -> None:
    body = b"smiles,note\n" + b"".join(b"C,%s\n" % (b"x" * 1_900) for _ in range(1_000))

    async def flood(url: str) -> list[int]:
        limits = httpx2.Limits(max_connections=120)
        async with httpx2.AsyncClient(timeout=120, limits=limits, trust_env=False) as client:
            headers = {"Content-Type": "text/csv"}
            one = (
                client.post(f"{url}/api/predict", content=body, headers=headers) for _ in range(120)
            )
            return [answer.status_code for answer in await asyncio.gather(*one)]

    with serving(run, "--timeout", 20) as server:
        statuses = asyncio.run(flood(server.url))
        assert set(statuses) <= {200, 503, 504}
        assert statuses.count(200) > 0
        assert statuses.count(503) > 0  # more than have a place
        assert peaks(server)[server.process.pid] < 768 * MiB
        idle(server)


def raw(server: Server, head: str, body: bytes) -> socket.socket:
    """A connection on which a request was sent, perhaps not all of it."""
    address = urlsplit(server.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    text = f"POST /api/predict HTTP/1.1\r\nHost: {address.netloc}\r\n{head}\r\n\r\n"
    connection.sendall(text.encode() + body)
    return connection


def idle(server: Server, seconds: float = 30) -> None:
    """Until no request is left."""
    end = time.monotonic() + seconds
    with server.client() as client:
        while client.get("/health").json()["requests"]:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_requests_that_are_cut_off_do_not_block_others(server: Server) -> None:
    body = b"smiles\n" + b"CCCCCCCCCCCCCCCCCCCCCCCCCCCCCC\n" * 900
    head = f"Content-Type: text/csv\r\nContent-Length: {len(body)}"
    waiting = [raw(server, head, body[:100]) for _ in range(30)]  # half a body
    whole = [raw(server, head, body) for _ in range(40)]
    for connection in whole:
        connection.close()
    with server.client() as client:
        started = time.monotonic()
        assert client.post("/api/predict", json={"smiles": ["CCO"]}).status_code == 200
        took = time.monotonic() - started
        assert client.get("/health").json()["requests"] >= len(waiting)
    for connection in waiting:
        connection.close()
    idle(server)
    with server.client() as client:
        started = time.monotonic()
        answer = client.post("/api/predict", content=body, headers={"Content-Type": "text/csv"})
        assert len(answer.json()["rows"]) == 900
        assert took < 10 * (time.monotonic() - started) + 5  # not 40 times


def test_garbage_is_no_request(server: Server) -> None:
    address = urlsplit(server.url)
    for text in (b"\x16\x03\x01\x02", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 70_000):
        with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            assert b" 200 " not in connection.recv(1_000)
    idle(server)


def test_limits_of_time(run: Path) -> None:
    with serving(run, "--timeout", 2) as server, server.client() as client:
        slow = raw(server, "Content-Type: text/csv\r\nContent-Length: 100", b"smiles\n")
        answer = b"".join(iter(lambda: slow.recv(10_000), b""))  # until it is closed
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive within 2 seconds" in answer
        slow.close()
        refused = client.post("/api/explain", json={"smiles": HUGE})
        assert refused.status_code == 504
        assert refused.json()["error"].startswith("the request took longer than 2 seconds: send")
        # the process that was ended is started again
        deadline = time.monotonic() + 60
        while client.post("/api/predict", json={"smiles": ["C"]}).status_code == 504:
            assert time.monotonic() < deadline
        assert client.post("/api/predict", json={"smiles": ["C"]}).status_code == 200


def test_a_worker_that_is_killed_is_started_again(run: Path) -> None:
    with serving(run) as server, server.client() as client:
        (worker,) = workers(server)
        worker.kill()
        threads = Path(f"/proc/{worker.pid}/task")
        while worker.status() != psutil.STATUS_ZOMBIE or len(list(threads.iterdir())) > 1:
            time.sleep(0.01)
        assert client.post("/api/predict", json={"smiles": ["C"]}).status_code == 200

        async def killed() -> httpx2.Response:
            async with httpx2.AsyncClient(
                base_url=server.url, timeout=60, trust_env=False
            ) as other:
                answer = asyncio.create_task(other.post("/api/explain", json={"smiles": HUGE}))
                await asyncio.sleep(1)
                workers(server)[0].kill()
                return await answer

        refused = asyncio.run(killed())
        assert refused.status_code == 500
        sentence = "the process with the model ended while it worked on this request, probably"
        assert refused.json()["error"].startswith(sentence)
        assert client.post("/api/predict", json={"smiles": ["C"]}).status_code == 200


@pytest.mark.parametrize(
    ("how", "status", "sentence"),
    [
        (signal.SIGINT, 130, "smpgnn: interrupted.\n"),
        (signal.SIGTERM, 143, "smpgnn: terminated by the system.\n"),
        (signal.SIGHUP, 143, "smpgnn: terminated by the system.\n"),
    ],
)
def test_signals_end_it(run: Path, how: signal.Signals, status: int, sentence: str) -> None:
    with serving(run) as server:
        others = children(server)
        with raw(server, "Content-Type: text/csv\r\nContent-Length: 100", b"smiles\n"):
            server.process.send_signal(how)
            found, out, err = finish(server.process, 30)
        assert (found, out, err) == (status, "", sentence)
        assert psutil.wait_procs(others, 10)[1] == []


def test_a_token_where_others_can_reach_it(run: Path) -> None:
    with serving(run, "--host", "0.0.0.0") as server:
        token = server.log[-1].split("#token=")[1].split()[0]
        assert len(token) >= 32
        url = f"http://127.0.0.1:{urlsplit(server.url).port}"
        body = {"smiles": ["CCO"]}
        with httpx2.Client(base_url=url, trust_env=False, timeout=60) as client:
            assert client.post("/api/predict", json=body).status_code == 401
            assert client.get("/health").status_code == 200
            given = {"Authorization": f"Bearer {token}"}
            assert client.post("/api/predict", json=body, headers=given).status_code == 200


def test_a_token_from_the_environment(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMPGNN_TOKEN", "t" * 20)
    with serving(run) as server, server.client() as client:
        assert client.get("/api/model").status_code == 401
        given = {"Authorization": f"Bearer {'t' * 20}"}
        assert client.get("/api/model", headers=given).status_code == 200


@pytest.mark.parametrize(("name", "target"), [("zinc", "y"), ("general", "tpsa")])
def test_the_pretrained_models(name: str, target: str) -> None:
    with serving(name) as server, server.client() as client:
        assert client.get("/api/model").json()["run"] == name
        row = client.post("/api/predict", json={"smiles": ["CCO"]}).json()["rows"][0]
        assert row[f"predicted_{target}"] is not None
        assert "No intervals: the model has no calibration rows" in server.log[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "smpgnn: nowhere"),
        (["zinc", "--interval", "0.9"], "smpgnn: --interval: the model has no calibration rows"),
    ],
)
def test_a_model_that_cannot_be_served(words: list[str], sentence: str, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    status, out, err = finish(start(["serve", *words, "--port", 0]), 60)
    assert (status, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        found = smpgnn("serve", "zinc", "--port", port)
    assert found.status == 2
    assert found.err.startswith(f"smpgnn: --host 127.0.0.1 --port {port}: cannot listen there (")
