"""Files appear whole or not at all, whoever is interrupted or killed meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from tests.draws import seed

from anypca.io import check_target, write_atomically

MANIFEST = "anypca-manifest.json"


def text(content):
    return lambda path: path.write_text(content)


def fail(error):
    def write(path):
        path.write_text("half")
        raise error

    return write


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_new_folder_with_parents(tmp_path):
    write_atomically(tmp_path / "a" / "b", {"x.txt": text("1"), "y.txt": text("2")})
    assert listing(tmp_path) == ["a", "a/b", f"a/b/{MANIFEST}", "a/b/x.txt", "a/b/y.txt"]
    assert (tmp_path / "a" / "b" / "y.txt").read_text() == "2"
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "a" / "b").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_existing_folder_keeps_other_files_and_replaces_same_names(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "x.txt").write_text("old")
    write_atomically(tmp_path, {"x.txt": text("new")})
    assert listing(tmp_path) == ["mine.txt", "x.txt"]
    assert (tmp_path / "x.txt").read_text() == "new"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
def test_failure_leaves_nothing(tmp_path, error, exists):
    out = tmp_path / "deep" / "out"
    if exists:
        out.mkdir(parents=True)
        (out / "x.txt").write_text("old")
    before = listing(tmp_path)
    with pytest.raises(type(error)):
        write_atomically(out, {"x.txt": text("new"), "y.txt": fail(error)})
    assert listing(tmp_path) == before
    if exists:
        assert (out / "x.txt").read_text() == "old"


def test_failure_while_moving_puts_earlier_files_back(tmp_path, monkeypatch):
    (tmp_path / "b").write_text("old")
    replace, calls = os.replace, []

    def fail_at_third(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError("disk")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_third)
    with pytest.raises(OSError, match="disk"):
        write_atomically(tmp_path, {"a": text("1"), "b": text("2"), "c": text("3")})
    assert listing(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "old"


def test_places_that_are_taken(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "out" / "x").mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        for call in (
            lambda f=folder: write_atomically(f, {"x": text("1")}),
            lambda f=folder: check_target(f, ["x"]),
        ):
            with pytest.raises(NotADirectoryError, match=r"file is a file.*Choose another"):
                call()
    with pytest.raises(IsADirectoryError, match="Move it away"):
        write_atomically(tmp_path / "out", {"a": text("0"), "x": text("1")})
    assert listing(tmp_path) == ["file", "out", "out/x"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc/x"])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(ValueError, match="plain file name"):
        write_atomically(tmp_path / "out", {name: text("1")})


def test_a_locked_folder_is_named_before_the_work(tmp_path, monkeypatch):
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    monkeypatch.setattr(os, "access", lambda *arguments, **options: False)  # root may write everywhere
    with pytest.raises(PermissionError, match="locked"):
        check_target(place, ["x"])


#: Writes one version after the other into a folder, slowly, until it is killed.
WRITER = """
import os, sys, time
from anypca.io import write_atomically
replace = os.replace
def slow(source, target):
    time.sleep(0.002)
    replace(source, target)
os.replace = slow
for number in range(int(sys.argv[2]), 10000):
    files = {name: lambda path: path.write_text(str(number)) for name in "abcdef"}
    write_atomically(sys.argv[1], files)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_the_old_or_the_new(tmp_path):
    """Whoever writes next finishes or removes what a killed process left; no file is ever half written."""
    out, rng = tmp_path / "out", random.Random(seed())
    for number in range(6):
        words = [sys.executable, "-c", WRITER, str(out), str(1000 * number)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.04))
            process.kill()
        assert {(out / name).read_text() for name in "abcdef"} < {str(i) for i in range(10000)}
        write_atomically(out, {"g": text("1")})
        assert listing(out) == sorted([MANIFEST, *"abcdefg"] if (out / MANIFEST).exists() else "abcdefg")
        assert len({(out / name).read_text() for name in "abcdef"}) == 1
        (out / "g").unlink()
