"""The page where a file is dropped: whom it answers, what it shows, what it gives."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
import zipfile

import httpx
import pandas as pd
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The folder that the program works in, a client with a session, and the answers on the way to it."""
    folder = tmp_path_factory.mktemp("served")
    words = [sys.executable, "-m", "anypca", "serve", "--limit", "1"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE, env=environment) as process:
        address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())[0]
        home, token = address.split("?token=")
        with httpx.Client(base_url=home, trust_env=False, timeout=60) as client:
            answers = {}
            for name, path in (("bare", "/"), ("wrong", "/?token=wrong"), ("table", "/tables/x")):
                answers[name] = ask(client, path)
            answers["right"] = ask(client, f"/?token={token}")
            answers["page"] = client.get("/")
            answers["again"] = httpx.get(address, trust_env=False)
            yield folder, client, answers
        process.terminate()
    assert list(folder.iterdir()) == []


def ask(client, path):
    """The answer of a server that may not be up yet."""
    for _ in range(300):
        try:
            return client.get(path)
        except httpx.ConnectError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


@pytest.fixture
def client(served):
    return served[1]


def wait(client, job):
    for _ in range(3000):
        found = client.get(f"/tables/{job}").json()
        if found["state"] != "running":
            return found
        time.sleep(0.1)
    raise AssertionError("the fit does not end")


def files_of(client, job):
    return zipfile.ZipFile(io.BytesIO(client.get(f"/tables/{job}/files").content))


def test_the_address_works_once(served):
    answers = served[2]
    assert [answers[name].status_code for name in ("bare", "wrong", "table", "again")] == [403] * 4
    assert answers["right"].status_code == 303
    for words in ("HttpOnly", "SameSite=strict"):
        assert words in answers["right"].headers["set-cookie"]
    assert answers["page"].status_code == 200
    assert "default-src 'none'" in answers["page"].headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8000"},
        {"host": "localhost:8000"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
    ids=["rebound", "other name", "origin", "no origin"],
)
def test_nobody_else_is_answered(client, headers):
    for method, path in (("GET", "/"), ("POST", "/tables?name=t.csv")):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 403
        assert "another" in answer.json()["error"]


def test_files_are_those_of_the_command(client, fitted_counts):
    out, table, _ = fitted_counts
    found = client.post("/tables?name=counts.csv", content=table.read_bytes()).json()
    assert (found["rows"], [column["name"] for column in found["columns"]]) == (40, list("abcdef"))
    wanted = {"model": "epca", "family": "poisson", "components": "2", "seed": "3", "roles": {}}
    assert client.get(f"/tables/{found['id']}/files").status_code == 409
    assert client.post(f"/tables/{found['id']}/fit", json=wanted).json() == {"state": "running"}
    assert wait(client, found["id"])["state"] == "done"
    archive = files_of(client, found["id"])
    for name in ("scores.csv", "loadings.csv", "scree.png", "biplot.png"):
        assert archive.read(name) == (out / name).read_bytes()
    report = client.get(f"/tables/{found['id']}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "EPCA of counts.csv" in report.text


def test_roles_of_columns_and_several_tables(served, counts):
    folder, client, _ = served
    table = pd.read_csv(counts)
    table["year"] = 2000 + table.index // 2
    table["word"] = [f"w{i}" for i in range(len(table))]
    table["--out=/etc"] = table.index % 3 + 1
    content = table.to_csv(index=False).encode()
    first, second = (client.post("/tables?name=t.csv", content=content).json() for _ in range(2))
    assert first["left_out"] == [
        {"name": "year", "values": ["2000", "2000", "2001"]},
        {"name": "word", "values": ["w0", "w1", "w2"]},
    ]
    roles = {"year": "in the model", "--out=/etc": "log offset", "a": "leave out"}
    wanted = {"model": "epca", "family": "gaussian", "components": "1", "roles": roles}
    for job in (first, second):
        client.post(f"/tables/{job['id']}/fit", json=wanted)
    # One of two is stopped, the other goes on.
    assert client.post(f"/tables/{second['id']}/fit", json=wanted).status_code == 409
    assert client.post(f"/tables/{second['id']}/stop").json()["state"] == "stopped"
    assert client.get(f"/tables/{second['id']}/files").status_code == 409
    assert wait(client, first["id"])["state"] == "done"
    summary = json.loads(files_of(client, first["id"]).read("summary.json"))
    assert summary["column_names"] == ["b", "c", "d", "e", "f", "year"]
    assert summary["offset"] == "log(--out=/etc)"
    assert len(list(folder.rglob("summary.json"))) >= 1
    assert not [path for path in folder.rglob("results") if second["id"] in str(path)]


def test_what_cannot_be_done_is_told(served, client, counts):
    before = set(served[0].rglob("*"))
    answer = client.post("/tables?name=t.xlsx", content=b"PK nothing")
    assert answer.status_code == 422
    assert "t.xlsx" in answer.json()["error"]
    answer = client.post("/tables?name=t.csv", content=b"1,2\n" * 250_001)
    assert (answer.status_code, "1 MB" in answer.json()["error"]) == (413, True)
    assert set(served[0].rglob("*")) == before  # what was refused is not kept
    job = client.post("/tables?name=t.csv", content=counts.read_bytes()).json()["id"]
    for content, code in ((b"no json", 422), (b"[" * 100_000, 422), (b" " * 10_000_000, 413)):
        assert client.post(f"/tables/{job}/fit", content=content).status_code == code
    strange = httpx.get(f"{client.base_url}tables/{job}", headers={"cookie": b"anypca=\xff"}, trust_env=False)
    assert strange.status_code == 403
    assert client.post(f"/tables/{job}/fit", json={"roles": {"a": "king"}}).status_code == 422
    assert client.post("/tables/none/fit", json={}).status_code == 404
    client.post(f"/tables/{job}/fit", json={"model": "nonsense", "family": "--force"})
    found = wait(client, job)
    assert found["state"] == "failed"
    assert found["line"].startswith("error: ")


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd.csv", "passwd.csv"),
        ("-rf.csv", "rf.csv"),
        ("<b>x</b>.csv", "b_.csv"),
        ("", "table.csv"),
    ],
)
def test_names_of_files_are_made_safe(served, counts, name, kept):
    folder, client, _ = served
    before = set(folder.rglob("*"))
    job = client.post("/tables", params={"name": name}, content=counts.read_bytes()).json()["id"]
    (path,) = (path for path in set(folder.rglob("*")) - before if path.is_file())
    assert (path.name, path.parent.name) == (kept, job)
