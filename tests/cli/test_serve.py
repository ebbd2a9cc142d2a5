"""The page where a file is dropped: whom it answers, what it shows, what it gives."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
import warnings
import zipfile

import httpx
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
with warnings.catch_warnings():
    # Newer versions would rather have the successor of httpx, older ones do not know it.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from anypca.cli._serve import Service, make_app
from anypca.cli._serve_jobs import Job, fit_words

HOST = "127.0.0.1:8000"


@pytest.fixture
def service(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Service(HOST, root, 100_000)


@pytest.fixture
def client(service):
    with TestClient(make_app(service), base_url=f"http://{HOST}") as client:
        assert client.get(f"/?token={service.token}").status_code == 200
        yield client


def wait(client, job):
    for _ in range(1200):
        found = client.get(f"/tables/{job}").json()
        if found["state"] != "running":
            return found
        time.sleep(0.1)
    raise AssertionError("the fit does not end")


def test_the_address_works_once(service):
    with TestClient(make_app(service), base_url=f"http://{HOST}") as client:
        token = service.token
        for path in ("/", "/?token=wrong", "/tables/x"):
            assert client.get(path).status_code == 403
        answer = client.get(f"/?token={token}")
        assert answer.status_code == 200
        assert "HttpOnly" in answer.history[0].headers["set-cookie"]
        assert "SameSite=strict" in answer.history[0].headers["set-cookie"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert client.get("/").status_code == 200
        client.cookies.clear()
        assert client.get(f"/?token={token}").status_code == 403


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
def test_nobody_else_is_answered(client, headers, counts):
    for method, path in (("GET", "/"), ("POST", "/tables?name=t.csv")):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 403
        assert "another" in answer.json()["error"]


def test_files_are_those_of_the_command(client, counts, tmp_path, call):
    found = client.post("/tables?name=counts.csv", content=counts.read_bytes()).json()
    assert (found["rows"], [column["name"] for column in found["columns"]]) == (40, list("abcdef"))
    wanted = {"model": "epca", "family": "poisson", "components": "2", "roles": {}}
    assert client.get(f"/tables/{found['id']}/files").status_code == 409
    assert client.post(f"/tables/{found['id']}/fit", json=wanted).json() == {"state": "running"}
    assert wait(client, found["id"])["state"] == "done"
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/tables/{found['id']}/files").content))
    assert (
        call("fit", counts, "--model", "epca", "--family", "poisson", "-k", 2, "-o", tmp_path / "out")[0] == 0
    )
    for name in ("scores.csv", "loadings.csv", "scree.png", "biplot.png"):
        assert archive.read(name) == (tmp_path / "out" / name).read_bytes()
    report = client.get(f"/tables/{found['id']}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "EPCA of counts.csv" in report.text


def test_a_column_that_was_left_out_can_be_kept(client, counts):
    lines = counts.read_text().splitlines()
    years = [f"{line},{2000 + i // 2},w{i}" for i, line in enumerate(lines[1:])]
    content = "\n".join([f"{lines[0]},year,word", *years])
    found = client.post("/tables?name=counts.csv", content=content.encode()).json()
    assert found["left_out"] == [
        {"name": "year", "values": ["2000", "2000", "2001"]},
        {"name": "word", "values": ["w0", "w1", "w2"]},
    ]
    wanted = {"model": "ppca", "components": "1", "roles": {"year": "in the model"}}
    client.post(f"/tables/{found['id']}/fit", json=wanted)
    assert wait(client, found["id"])["state"] == "done"
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/tables/{found['id']}/files").content))
    assert b"year," in archive.read("loadings.csv")


def test_several_tables_and_one_that_is_stopped(client, service, counts):
    first, second = (
        client.post("/tables?name=t.csv", content=counts.read_bytes()).json()["id"] for _ in range(2)
    )
    for job in (first, second):
        client.post(f"/tables/{job}/fit", json={"model": "ppca"})
    assert client.post(f"/tables/{first}/fit", json={"model": "ppca"}).status_code == 409
    assert client.post(f"/tables/{first}/stop").json()["state"] == "stopped"
    assert not service.jobs[first].out.exists()
    assert wait(client, second)["state"] == "done"


def test_what_cannot_be_done_is_told(client, counts):
    answer = client.post("/tables?name=t.xlsx", content=b"PK nothing")
    assert answer.status_code == 422
    assert "t.xlsx" in answer.json()["error"]
    answer = client.post("/tables?name=t.csv", content=b"1,2\n" * 50_000)
    assert (answer.status_code, "larger than 0 MB" in answer.json()["error"]) == (413, True)
    job = client.post("/tables?name=t.csv", content=counts.read_bytes()).json()["id"]
    assert client.post(f"/tables/{job}/fit", content=b"no json").status_code == 422
    assert client.post(f"/tables/{job}/fit", json={"roles": {"a": "king"}}).status_code == 422
    assert client.post("/tables/none/fit", json={}).status_code == 404
    client.post(f"/tables/{job}/fit", json={"model": "nonsense"})
    found = wait(client, job)
    assert found["state"] == "failed"
    assert found["line"].startswith("error: ")


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../etc/passwd", "passwd"), ("-rf.csv", "rf.csv"), ("<b>x</b>.csv", "b_.csv"), ("", "table.csv")],
)
def test_names_of_files_are_made_safe(client, service, counts, name, kept):
    job = client.post("/tables", params={"name": name}, content=counts.read_bytes()).json()
    if "id" in job:
        assert service.jobs[job["id"]].table.name == kept
    assert [path.parent for path in service.root.rglob("*") if path.is_file()] == [
        next(service.root.iterdir())
    ]


def test_columns_with_hostile_names_are_no_options(tmp_path):
    job = Job(tmp_path, tmp_path / "t.csv")
    roles = {"--out=/etc": "offset", "b": "log offset", "c": "covariate", "d": "row names"}
    words = fit_words(job, {"family": "--force", "roles": roles})
    assert words[:4] == ["fit", "t.csv", "--out=results", "--family=--force"]
    assert words[4:] == ["--offset=--out=/etc", "--offset=log(b)", "--covariates=c", "--id=d"]


def test_the_program_answers_and_leaves_nothing(tmp_path):
    words = [sys.executable, "-c", "import sys; from anypca.cli import main; sys.exit(main())", "serve"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        words, text=True, **pipes, env={**__import__("os").environ, "TMPDIR": str(tmp_path)}
    ) as process:
        address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())[0]
        for _ in range(100):
            try:
                answer = httpx.get(address, follow_redirects=False, trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        assert answer.status_code == 303
        process.terminate()
    assert list(tmp_path.iterdir()) == []
