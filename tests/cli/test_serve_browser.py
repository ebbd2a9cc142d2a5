"""``anypca serve`` in a browser: a file is dropped, columns are edited, and the files are those of ``anypca fit``."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from tests.draws import generator

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip(
        "needs chromium and chromedriver (Debian: chromium, chromium-driver)", allow_module_level=True
    )

HOSTILE = '<img src=x onerror="window.hacked=1">, (a=b) *'
NAMES = ["__proto__", "b", HOSTILE, "amount", "spare", "</script><script>window.hacked=1</script>"]


@pytest.fixture(scope="module")
def table():
    rng = generator("table")
    counts = rng.poisson(np.exp(rng.normal(size=(40, 1)) @ rng.normal(size=(1, 6)) + 1))
    frame = pd.DataFrame(counts, columns=NAMES)
    frame["amount"] = np.exp(rng.normal(size=40)).round(3)
    return frame.to_csv(index=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address that the program printed, and the folder that it works in."""
    folder = tmp_path_factory.mktemp("served")
    words = [sys.executable, "-c", "import sys; from anypca.cli import main; sys.exit(main())", "serve"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE, env=environment) as process:
        address = re.search(r"http://\S+/\?token=\S+", process.stdout.readline())[0]
        yield address, folder
        process.terminate()


@pytest.fixture(scope="module")
def page(browser, server):
    end = time.monotonic() + 120
    while True:
        try:
            browser.get(server[0])
            break
        except Exception:  # the driver has several for a server that is not up yet
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    return browser


def wait_for(browser, script, *arguments, seconds=300.0):
    end = time.monotonic() + seconds
    while not browser.execute_script(f"return {script}", *arguments):
        told = browser.execute_script("return document.getElementById('error').textContent")
        assert time.monotonic() < end, f"the page did not get there: {told}"
        time.sleep(0.05)


def drop(browser, name, text):
    """Drop a file as a user does."""
    browser.execute_script(
        """const given = new DataTransfer();
        given.items.add(new File([arguments[1]], arguments[0]));
        const dropped = new DragEvent("drop", {dataTransfer: given, cancelable: true});
        document.getElementById("drop").dispatchEvent(dropped);""",
        name,
        text,
    )
    wait_for(browser, "!document.getElementById('table').hidden")


def choose(browser, key, column, value):
    browser.execute_script(
        """const menu = [...document.querySelectorAll(`select[data-${arguments[0]}]`)]
          .find((one) => one.dataset[arguments[0]] === arguments[1]);
        menu.value = arguments[2];
        menu.dispatchEvent(new Event("change"));""",
        key,
        column,
        value,
    )


def test_drop_edit_fit_and_the_files_of_the_command(page, table, tmp_path, call, monkeypatch):
    drop(page, "<b>my</b> table.csv", table)
    rows = page.execute_script(
        "return [...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].map((cell) => cell.firstChild"
        " && cell.firstChild.nodeName === 'SELECT' ? cell.firstChild.options[0].text : cell.textContent))"
    )
    assert [row[0] for row in rows] == NAMES
    kinds = {row[0]: (row[2].partition(" (")[0], row[3]) for row in rows}
    assert kinds["b"][0] == "counts"
    assert kinds["amount"][0] == "amounts"
    assert all(family.startswith("auto: ") for _, family in kinds.values())
    choose(page, "role", HOSTILE, "leave out")
    choose(page, "family", "__proto__", "poisson")
    choose(page, "family", NAMES[-1], "gaussian")
    page.execute_script(
        """document.getElementById("model").value = "epca"; document.getElementById("components").value = 2;
        document.getElementById("fit").click();"""
    )
    wait_for(page, "!document.getElementById('results').hidden")
    packed = page.execute_async_script(
        """const done = arguments[0];
        fetch(document.getElementById("files").href).then((answer) => answer.arrayBuffer()).then((content) =>
          done(btoa(Array.from(new Uint8Array(content), (one) => String.fromCharCode(one)).join(""))));"""
    )
    archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(packed)))
    assert page.execute_script("return window.hacked") is None

    (tmp_path / "b_table.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    # Signs with a meaning of their own in options.
    hidden, script = (re.sub(r"[,=()*]", "?", name) for name in (HOSTILE, NAMES[-1]))
    named = ["--family", "__proto__=poisson", "--family", f"{script}=gaussian"]
    words = ["--model", "epca", "--family", "auto", "-k", 2, *named, "--drop", hidden]
    assert call("fit", "b_table.csv", *words, "-o", "results")[0] == 0
    ours = {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    assert set(archive.namelist()) == set(ours)
    for name in set(ours) - {
        "report.html",
        "anypca-manifest.json",
    }:  # the report names the command as it was given
        assert archive.read(name) == ours[name], name
