"""The JSON interface: its answers are those of the model in Python."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import pandas as pd
import pytest
from serving import loaded
from starlette.testclient import TestClient

import smpgnn
from smpgnn.inference.predict import Model
from smpgnn.serve import EXPLAINED, Limits, Settings

SMILES = ["CCO", "c1ccccc1O", "nonsense", "CC(=O)Oc1ccccc1C(=O)O"]
CSV = {"Content-Type": "text/csv"}


def predicted(client: TestClient, smiles: list[str], **more: Any) -> dict[str, Any]:
    answer = client.post("/api/predict", json={"smiles": smiles, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def same(rows: list[dict[str, Any]], expected: pd.DataFrame) -> None:
    """Equal up to the rounding of other batches."""
    wanted = expected.astype(object).where(expected.notna(), None).to_dict("records")
    assert len(rows) == len(wanted)
    for row, one in zip(rows, wanted, strict=True):
        for name, value in one.items():
            close = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
            assert row[name] == close, name


def test_predictions_are_those_of_python(client: TestClient, model: Model) -> None:
    answer = predicted(client, SMILES)
    new = [
        "predicted_size", "low_size", "high_size", "std_size", "similarity", "nearest",
        "nearest_row", "error",
    ]  # fmt: skip
    assert answer["predicted"] == new
    assert answer["columns"] == ["smiles", *new]
    assert [list(row) for row in answer["rows"]] == [answer["columns"]] * len(SMILES)
    assert [row.pop("smiles") for row in answer["rows"]] == SMILES
    same(answer["rows"], model.predict(SMILES))
    assert answer["rows"][2]["predicted_size"] is None
    assert answer["rows"][2]["error"] == "the text is not a SMILES"


def test_many_molecules_keep_their_order(client: TestClient, model: Model) -> None:
    smiles = ["C" * (1 + row % 60) + "O" for row in range(Limits().molecules)]
    frame = pd.DataFrame(predicted(client, smiles)["rows"])
    assert frame["smiles"].tolist() == smiles
    expected = model.predict(smiles[:60])["predicted_size"].tolist()
    found = frame["predicted_size"].tolist()
    assert found == pytest.approx([expected[row % 60] for row in range(len(smiles))], rel=1e-4)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_keeps_its_columns(client: TestClient, separator: str) -> None:
    table = pd.DataFrame({"name": ["a,b", 'say "c"', "ü"], "SMILES": ["CCO", None, "CCN"]})
    table["error"] = ["1", "2", "3"]
    body = table.to_csv(index=False, sep=separator).encode()
    query = {"smiles_column": "SMILES"}
    answer = client.post("/api/predict", params=query, content=body, headers=CSV).json()
    assert answer["predicted"][-1] == "error_2"
    rows = answer["rows"]
    assert list(rows[0]) == answer["columns"] == [*table.columns, *answer["predicted"]]
    same([{name: row[name] for name in table.columns} for row in rows], table)
    assert [row["error_2"] for row in rows] == [None, "the SMILES is empty", None]
    wanted = {**CSV, "Accept": "text/csv"}
    text = client.post("/api/predict", params=query, content=body, headers=wanted)
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    same(rows, pd.read_csv(io.StringIO(text.text), dtype={"error": str}))


def test_atoms_add_up_to_the_prediction(client: TestClient, model: Model) -> None:
    answer = client.post("/api/explain", json={"smiles": SMILES}).json()
    assert answer["score"] == "size"
    values = model.predict(SMILES)["predicted_size"].tolist()
    for row, value, smiles in zip(answer["rows"], values, SMILES, strict=True):
        assert row["smiles"] == smiles
        if smiles == "nonsense":
            assert (row["error"], row["drawing"], row["atoms"]) == (
                "the text is not a SMILES", None, [],
            )  # fmt: skip
            continue
        total = row["rest"] + sum(atom["contribution"] for atom in row["atoms"])
        assert total == pytest.approx(row["score"], abs=1e-6)
        assert row["score"] == pytest.approx(value, rel=1e-4)
        assert ElementTree.fromstring(row["drawing"]).tag == "{http://www.w3.org/2000/svg}svg"
    assert [atom["element"] for atom in answer["rows"][0]["atoms"]] == ["C", "C", "O"]


def test_the_model_is_described(client: TestClient, run: Path) -> None:
    found = client.get("/api/model").json()
    limits = Limits()
    assert found.pop("limits") == {
        "molecules": limits.molecules,
        "explained": EXPLAINED,
        "characters": limits.characters,
        "bytes": limits.bytes,
        "seconds": limits.seconds,
    }
    assert found == {
        "run": run.name, "molecules": True, "scores": ["size"], "smiles_column": "smiles",
        "columns": predicted(client, ["C"])["predicted"], "descriptors": [], "interval": 0.9,
        "domain": True, "notes": [], "version": smpgnn.__version__,
    }  # fmt: skip
    assert client.get("/health").json() == {"status": "ok", "requests": 0}


def test_the_documents_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.status_code == client.head(path).status_code == 200
        linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert linked
        for link in linked:
            assert client.get(f"/{link}").status_code == 200, link
    scripts = Path(smpgnn.__file__).parent / "serve" / "static"
    for file in scripts.iterdir():
        text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "//" not in re.sub(r"^ *// .*$", "", text, flags=re.M).replace("://www.w3", "")


def test_the_openapi_document_names_every_path_and_error(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {"/health", "/api/model", "/api/predict", "/api/explain"}
    page = client.get("/docs").text
    for path, methods in schema["paths"].items():
        assert path in page
        for operation in methods.values():
            assert "200" in operation["responses"]
    predict = schema["paths"]["/api/predict"]["post"]
    assert set(predict["requestBody"]["content"]) == {"application/json", "text/csv"}
    assert {"400", "401", "413", "415", "421", "422", "503", "504"} <= set(predict["responses"])


@pytest.mark.slow
def test_a_model_with_descriptors_asks_for_them(tmp_path: Path) -> None:
    from conftest import SMALL

    table = pd.DataFrame({"smiles": ["C" * n for n in range(1, 41)]})
    table["pH"] = [n % 5 + 0.5 for n in range(40)]
    table["y"] = table["pH"] * 2
    folder = tmp_path / "run"
    options = {**SMALL, "descriptors": ["pH"]}
    smpgnn.train("molecules", data=table, targets=["y"], output=str(folder), **options)
    expected = smpgnn.load(folder, "cpu").predict(table[:3])["predicted_y"].tolist()
    with loaded(Settings(str(folder), device="cpu")) as own, own.client() as client:
        smiles, values = table["smiles"][:3].tolist(), table["pH"][:3].tolist()
        asked = {"smiles": smiles, "descriptors": {"pH": values}}
        rows = client.post("/api/predict", json=asked).json()["rows"]
        assert [row["predicted_y"] for row in rows] == pytest.approx(expected, rel=1e-4)
        body = table[["pH", "smiles"]][:3].to_csv(index=False)
        rows = client.post("/api/predict", content=body, headers=CSV).json()["rows"]
        assert [row["predicted_y"] for row in rows] == pytest.approx(expected, rel=1e-4)
        rows = client.post("/api/explain", json=asked).json()["rows"]
        assert [row["score"] for row in rows] == pytest.approx(expected, rel=1e-4)
        for wrong, sentence in (
            ({}, "descriptors: this model also takes the column 'pH'"),
            ({"pH": [1.0]}, "descriptors: 'pH' has 1 numbers, but there are 3 molecules"),
            ({"pH": values, "x": values}, "descriptors: this model has no column 'x'"),
            ({"pH": [1, 2, "3"]}, "descriptors, pH, item 3: input should be a valid number"),
        ):
            answer = client.post("/api/predict", json={"smiles": smiles, "descriptors": wrong})
            assert answer.status_code == 422
            assert answer.json()["error"].startswith(sentence)
        assert client.get("/api/model").json()["notes"] == [
            "No intervals: the model has no calibration rows: train it with --calibration 0.1, or "
            "with --folds 5."
        ]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_model_of_graphs_takes_node_link_graphs(tmp_path: Path, level: str) -> None:
    from conftest import SMALL

    graphs = [nx.cycle_graph(4 + n % 5) for n in range(20)]
    for graph in graphs:
        graph.graph["y"] = float(len(graph))
        for node in graph:
            graph.nodes[node].update(w=0.5 * node, y=float(node))
    linked = [nx.node_link_data(graph, edges="edges") for graph in graphs]
    (tmp_path / "graphs.json").write_text(pd.io.json.ujson_dumps(linked))
    folder = tmp_path / "run"
    smpgnn.train(
        "graphs", path=str(tmp_path / "graphs.json"), targets=["y"], output=str(folder),
        level=level, **{name: value for name, value in SMALL.items() if name != "baseline"},
    )  # fmt: skip
    with loaded(Settings(str(folder), device="cpu")) as own, own.client() as client:
        answer = client.post("/api/predict", json={"graphs": linked[:3]}).json()
        names = ["graph"] if level == "graph" else ["graph", "node"]
        assert answer["columns"] == [*names, "predicted_y", "error"]
        assert len(answer["rows"]) == (3 if level == "graph" else sum(map(len, graphs[:3])))
        assert all(isinstance(row["predicted_y"], float) for row in answer["rows"])
        wrong = {"nodes": [{"id": 0}], "edges": [{"source": 0, "target": 7}]}
        refused = client.post("/api/predict", json={"graphs": [linked[0], wrong]})
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("graphs, ")
        assert client.post("/api/explain", json={"smiles": ["C"]}).status_code == 404
        assert client.get("/docs").status_code == 200
        assert not client.get("/api/model").json()["molecules"]
