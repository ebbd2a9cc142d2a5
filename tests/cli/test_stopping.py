"""Commands that are stopped, disturbed or killed: old files or new ones, and the user is told."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pandas as pd
import pytest

from anypca.cli._folder import open_fitted
from anypca.io._manifest import MANIFEST, changed_files

#: Fits when it is told to, in a child of its own which has everything imported; pictures are left out, moves are slow.
ZYGOTE = """
import os, signal, sys, time
# A program that was started in the background, as tests may be, ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from anypca.cli import _app, _outcome, main
replace = os.replace
def slow(source, target):
    time.sleep(0.004)
    replace(source, target)
os.replace = slow
for name in ("write_scree", "write_biplot", "write_report"):
    setattr(_outcome.Outcome, name, lambda self, path: path.write_text(str(self.n_components)))
def wait(number=0, frame=None):
    time.sleep(60)
if "wait" in sys.argv:
    _outcome.Outcome.write_scree = lambda self, path: (os.write(1, b"here\\n"), wait())
print("ready", flush=True)
if "wait" not in sys.argv:
    # The first one here: what is imported on demand is then there for all.
    print("ended", main(sys.stdin.readline().split()), flush=True)
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
    """A process that forks fits."""
    words = [sys.executable, "-c", ZYGOTE, *getattr(request, "param", [])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True, bufsize=1) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        process.wait(timeout=20)


def tell(zygote, *words) -> None:
    """Ask for a fit."""
    zygote.stdin.write(" ".join(map(str, words)) + "\n")


def heard(zygote, word) -> int:
    """The number after a word, which is waited for: of a child's process, or its exit code when it has ended."""
    while not (line := zygote.stdout.readline()).startswith(f"{word} "):
        assert line, "the process has ended"
    return int(line.split()[1])


def test_a_fit_killed_at_any_moment_leaves_a_whole_folder(zygote, counts, tmp_path):
    out, rng = tmp_path / "out", random.Random(1)
    words = ["fit", counts, "--model", "ppca", "-o", out]
    tell(zygote, *words, "-k", 1)
    assert heard(zygote, "ended") == 0
    began = time.perf_counter()
    tell(zygote, *words, "-k", 2)
    assert heard(zygote, "ended") == 0
    length = time.perf_counter() - began
    for i in range(30):
        tell(zygote, *words, "-k", 1 + i % 2)
        child = heard(zygote, "child")
        time.sleep(rng.uniform(0.2, 1.0) * length)
        with suppress(ProcessLookupError):  # it may have been quicker
            os.kill(child, signal.SIGKILL)
        heard(zygote, "ended")
        fitted = open_fitted(out)
        n_components = fitted.model.n_components_
        assert changed_files(out) == []
        assert fitted.summary["n_components"] == n_components == len(fitted.summary["components"])
        assert (out / "report.html").read_text() == str(n_components)
        assert len(pd.read_csv(out / "scores.csv").filter(regex=r"^component_\d$").columns) == n_components


@pytest.mark.parametrize("zygote", [["wait"]], indirect=True, ids=["slow"])
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT], ids=["term", "ctrl-c"])
def test_a_stopped_fit_says_so_and_leaves_the_old_files(zygote, counts, tmp_path, call, kind):
    out = tmp_path / "out"
    assert call("fit", counts, "--model", "ppca", "-o", out)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
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
        select.select([process.stdout], [], [], 20)
        process.send_signal(kind)
        assert process.stderr.read() == b"stopped, nothing written\n"
    assert process.returncode == 128 + kind


def test_the_exit_code_after_code_in_a_string_was_interrupted(tmp_path):
    (tmp_path / "stopped.py").write_text(
        "import sys\nfrom anypca.cli._stopping import say_stopped\n"
        "try:\n    exec('raise KeyboardInterrupt')\nexcept KeyboardInterrupt:\n    sys.exit(say_stopped())\n"
    )
    ended = subprocess.run([sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "stopped, nothing written\n")


def test_files_of_the_user_are_not_replaced(counts, tmp_path, call):
    out = tmp_path / "out"
    out.mkdir()
    (out / "scores.csv").write_text("mine")
    words = ["fit", counts, "--model", "ppca", "-o", out]
    code, _, err = call(*words)
    assert (code, (out / "scores.csv").read_text()) == (2, "mine")
    assert "holds scores.csv, not written by anypca or changed since" in err
    assert call(*words, "--force")[0] == 0
    assert call(*words)[0] == 0
    (tmp_path / "s.csv").write_text("mine")
    code, _, err = call("transform", out, counts, "-o", tmp_path / "s.csv")
    assert (code, "s.csv holds no scores of anypca" in err) == (2, True)
    assert call("transform", out, counts, "-o", tmp_path / "s.csv", "--force")[0] == 0
    assert call("transform", out, counts, "-o", tmp_path / "s.csv")[0] == 0


@pytest.mark.parametrize("name", ["model.anypca", "summary.json"])
def test_folders_that_are_mixed_are_called_incomplete(counts, tmp_path, call, name):
    for k, out in ((1, "a"), (2, "b")):
        assert call("fit", counts, "--model", "ppca", "-k", k, "-o", tmp_path / out)[0] == 0
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    for words in (["transform", tmp_path / "a", counts], ["report", tmp_path / "a"]):
        code, _, err = call(*words)
        assert code == 2
        assert f"is incomplete: {name} does not fit {MANIFEST}" in err
    (tmp_path / "a" / MANIFEST).unlink()
    assert call("transform", tmp_path / "a", counts, "-o", tmp_path / "s.csv")[0] == 0


def test_names_that_a_spreadsheet_would_run(tmp_path, call):
    names = ["=1+1", "+x", "-x", "@SUM(A1)", "-5", "plain"]
    table = pd.DataFrame({"id": [f"{name}{i}" for i in range(5) for name in names]})
    for j, name in enumerate(names):
        table[name] = [(7 * i + (j + 2) * i * i) % 11 for i in range(len(table))]
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--model", "ppca", "--id", "id"]
    assert call(*words, "-o", tmp_path / "safe")[0] == 0
    assert call(*words, "-o", tmp_path / "raw", "--raw")[0] == 0
    safe, raw = (pd.read_csv(tmp_path / kind / "loadings.csv")["column"].tolist() for kind in ("safe", "raw"))
    assert raw == names
    assert safe == ["'=1+1", "'+x", "'-x", "'@SUM(A1)", "-5", "plain"]
    assert pd.read_csv(tmp_path / "safe" / "scores.csv")["row"][0] == "'=1+10"
    # The model knows the columns by their own names.
    assert call("transform", tmp_path / "safe", tmp_path / "t.csv", "-o", tmp_path / "s.csv")[0] == 0
