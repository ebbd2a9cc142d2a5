"""Commands that are stopped, disturbed or killed: old files or new ones, and the user is told."""

from __future__ import annotations

import json
import logging
import os
import random
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from tests.draws import seed

import anypca

#: Fits when it is told to, in a child of its own which has everything imported; moving files is slow. With the word
#: "wait" it stands still in the middle of writing.
ZYGOTE = """
import os, signal, sys, time
# A program that was started in the background, as tests may be, ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from matplotlib.figure import Figure
from anypca.cli import main
replace = os.replace
def slow(source, target):
    time.sleep(0.004)
    replace(source, target)
os.replace = slow
print("ready", flush=True)
print("ended", main(sys.stdin.readline().split()), flush=True)
def wait(*arguments, **options):
    os.write(1, b"here\\n")
    time.sleep(60)
if "wait" in sys.argv:
    Figure.savefig = wait
for line in sys.stdin:
    child = os.fork()
    if not child:
        code = main(line.split())
        sys.stdout.flush()
        os._exit(code)
    print("child", child, flush=True)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def zygote(request):
    """A process that forks fits, after a first one of its own."""
    words = [sys.executable, "-c", ZYGOTE, *getattr(request, "param", [])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True, bufsize=1) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        process.wait(timeout=60)


def tell(zygote, *words) -> None:
    """Ask for a fit."""
    zygote.stdin.write(" ".join(map(str, words)) + "\n")


def heard(zygote, word) -> int:
    """The number after a word, which is waited for: of a child's process, or its exit code when it has ended."""
    while not (line := zygote.stdout.readline()).startswith(f"{word} "):
        assert line, "the process has ended"
    return int(line.split()[1])


def test_a_fit_killed_at_any_moment_leaves_a_whole_folder(zygote, counts, tmp_path, call):
    out, rng = tmp_path / "out", random.Random(seed())
    words = ["fit", counts, "--model", "ppca", "-o", out]
    tell(zygote, *words, "-k", 1)
    assert heard(zygote, "ended") == 0
    began = time.perf_counter()
    tell(zygote, *words, "-k", 2)
    assert heard(zygote, "ended") == 0
    length = time.perf_counter() - began
    for i in range(10):
        tell(zygote, *words, "-k", 1 + i % 2)
        child = heard(zygote, "child")
        time.sleep(rng.uniform(0.2, 1.0) * length)
        with suppress(ProcessLookupError):  # it may have been quicker
            os.kill(child, signal.SIGKILL)
        heard(zygote, "ended")
        assert call("transform", out, counts, "-o", tmp_path / "s.csv")[0] == 0
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        k = anypca.load(out / "model.anypca").n_components_
        assert summary["n_components"] == k == len(summary["components"])
        assert list(pd.read_csv(out / "scores.csv").columns[: k + 1]) == [
            "row",
            *(f"component_{j + 1}" for j in range(k)),
        ]
        assert (tmp_path / "s.csv").read_text() == (out / "scores.csv").read_text()
        assert f"n_components={k}" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("zygote", [["wait"]], indirect=True, ids=["slow"])
def test_a_stopped_fit_says_so_and_leaves_the_old_files(zygote, counts, tmp_path, call):
    out = tmp_path / "out"
    tell(zygote, "fit", counts, "--model", "ppca", "-o", out)
    assert heard(zygote, "ended") == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for kind in (signal.SIGTERM, signal.SIGINT):
        tell(zygote, "fit", counts, "--model", "ppca", "-k", 1, "-o", out)
        child = heard(zygote, "child")
        while zygote.stdout.readline() != "here\n":
            pass
        code, _, err = call("fit", counts, "--model", "ppca", "-o", out)
        assert (code, err.startswith("error: another process is writing to")) == (2, True)
        os.kill(child, kind)
        assert heard(zygote, "ended") == 128 + kind
        assert zygote.stderr.readline() == "stopped, nothing written\n"
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT], ids=["term", "ctrl-c"])
def test_stopped_while_importing(kind, tmp_path):
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import builtins, sys, os, anypca.cli; take = builtins.__import__\n"
        "def slow(name, *rest, **options):\n"
        "    if name == 'numpy': os.write(1, b'x'); import time; time.sleep(60)\n"
        "    return take(name, *rest, **options)\n"
        "builtins.__import__ = slow\n"
        "sys.exit(anypca.cli.main(['fit', 'x.csv']))"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes, cwd=tmp_path) as process:
        select.select([process.stdout], [], [], 60)
        process.send_signal(kind)
        assert process.stderr.read() == b"stopped, nothing written\n"
    assert process.returncode == 128 + kind


@pytest.mark.parametrize("command", ["transform", "report"])
def test_ctrl_c_leaves_whole_files_or_none(fitted_counts, tmp_path, call, monkeypatch, command):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    out, table, _ = fitted_counts
    monkeypatch.setattr(anypca.EPCA, "transform", stop)
    before = {path: path.read_bytes() for path in out.iterdir()}
    words = [out] if command == "report" else [out, table, "-o", tmp_path / "s.csv"]
    assert call(command, *words) == (130, "", "stopped, nothing written\n")
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert list(tmp_path.iterdir()) == []


class StopAt(logging.Handler):
    """Presses Ctrl-C in some iteration."""

    def __init__(self, iteration):
        super().__init__(logging.INFO)
        self.iteration = iteration

    def emit(self, record):
        if getattr(record, "iteration", None) == self.iteration:
            raise KeyboardInterrupt


def test_a_stopped_fit_with_a_checkpoint_goes_on(counts, tmp_path, call):
    path, out = tmp_path / "progress", tmp_path / "out"
    command = ["fit", counts, "--model", "epca", "--family", "poisson", "--threads", 1, "--checkpoint", path]
    logger, handler = logging.getLogger("anypca"), StopAt(3)
    logger.addHandler(handler)
    try:
        assert call(*command, "-o", out)[0] == 130
    finally:
        logger.removeHandler(handler)
    assert path.exists()
    assert not out.exists()
    assert call(*command, "-o", out)[0] == 0
    assert not path.exists()
    assert call(*command, "-o", tmp_path / "whole")[0] == 0
    first, second = (anypca.load(tmp_path / name / "model.anypca").components_ for name in ("out", "whole"))
    np.testing.assert_allclose(first, second, atol=1e-3)
