"""Files appear whole or not at all."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from anypca.io import write_atomically
from anypca.io._manifest import MANIFEST, changed_files
from anypca.io.atomic import claim, recover


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


def test_new_folder_is_readable_as_usual(tmp_path):
    (tmp_path / "usual").mkdir()
    write_atomically(tmp_path / "out", {"x": text("1")})
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_existing_folder_keeps_other_files_and_replaces_same_names(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    (out / "x.txt").write_text("old")
    write_atomically(out, {"x.txt": text("new")})
    assert listing(tmp_path) == ["out", "out/mine.txt", "out/x.txt"]
    assert (out / "x.txt").read_text() == "new"


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
    out = tmp_path / "out"
    out.mkdir()
    (out / "b").write_text("old")
    replace, calls = os.replace, []

    def fail_at_third(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError("disk")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_third)
    with pytest.raises(OSError, match="disk"):
        write_atomically(out, {"a": text("1"), "b": text("2"), "c": text("3")})
    assert listing(tmp_path) == ["out", "out/b"]
    assert (out / "b").read_text() == "old"


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        write_atomically(tmp_path / "out", {"x": text("1")})
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        write_atomically(tmp_path / "out" / "deeper", {"x": text("1")})


def test_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "out" / "x").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="Move it away"):
        write_atomically(tmp_path / "out", {"a": text("0"), "x": text("1")})
    assert listing(tmp_path) == ["out", "out/x"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc/x"])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(ValueError, match="plain file name"):
        write_atomically(tmp_path / "out", {name: text("1")})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path):
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="no permission to write"):
        write_atomically(place / "out", {"x": text("1")})


def test_files_written_together_are_recorded(tmp_path):
    write_atomically(tmp_path / "out", {"x": text("1"), "y": text("2")})
    assert changed_files(tmp_path / "out") == []
    (tmp_path / "out" / "x").write_text("3")
    (tmp_path / "out" / "y").unlink()
    assert changed_files(tmp_path / "out") == ["x", "y"]
    # One of them written again stays part of the whole.
    write_atomically(tmp_path / "out", {"x": text("4")})
    assert changed_files(tmp_path / "out") == ["y"]


def test_a_single_file_is_recorded_nowhere(tmp_path):
    write_atomically(tmp_path, {"x": text("1")})
    assert listing(tmp_path) == ["x"]


def test_files_of_an_earlier_writing_do_not_stay_beside_the_new_ones(tmp_path):
    names = ("x", "y", "z")
    for written in (("x", "y"), ("x", "z")):
        with claim(tmp_path, names) as place:
            place.stage({name: text(name) for name in written})
            place.publish()
    assert listing(tmp_path) == [MANIFEST, "x", "z"]


@pytest.mark.parametrize("change", [False, True], ids=["foreign", "changed"])
def test_files_of_others_are_not_replaced(tmp_path, change):
    if change:
        write_atomically(tmp_path, {"x": text("1"), "y": text("2")})
    (tmp_path / "x").write_text("mine")
    before = listing(tmp_path)
    words = "holds x, not written by anypca or changed since.*--force"
    with pytest.raises(FileExistsError, match=words), claim(tmp_path, ["x", "y"], force=False):
        pass
    assert listing(tmp_path) == before
    with claim(tmp_path, ["x", "y"], force=True) as place:
        place.stage({"x": text("2"), "y": text("3")})
        place.publish()
    assert changed_files(tmp_path) == []


@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
def test_a_second_writer_is_told(tmp_path, exists):
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    with claim(out, ["x", "y"]) as place:
        place.stage({"x": text("1"), "y": text("2")})
        with pytest.raises(BlockingIOError, match="another process is writing to"), claim(out, ["x", "y"]):
            pass
        place.publish()
    assert listing(out) == [MANIFEST, "x", "y"]
    with claim(out, ["x", "y"]):
        pass


def test_writers_of_different_single_files_do_not_meet(tmp_path):
    with claim(tmp_path, ["x"]) as one, claim(tmp_path, ["y"]) as other:
        for place, name in ((one, "x"), (other, "y")):
            place.stage({name: text(name)})
            place.publish()
    assert listing(tmp_path) == ["x", "y"]


def test_a_folder_that_appears_meanwhile_is_left_alone(tmp_path):
    out = tmp_path / "out"
    with claim(out, "xy") as place:
        place.stage({"x": text("1"), "y": text("2")})
        out.mkdir()
        (out / "z").write_text("theirs")
        with pytest.raises(FileExistsError, match="has appeared while this was computed"):
            place.publish()
    assert listing(tmp_path) == ["out", "out/z"]


def test_what_a_dead_process_left_is_removed(tmp_path):
    out = tmp_path / "out"
    for scratch in (tmp_path / ".out.anypca-tmp", out / ".anypca-tmp", out / ".m.anypca-one"):
        scratch.mkdir(parents=True)
        (scratch / "half").write_text("x")
    recover(out)
    assert listing(tmp_path) == ["out"]


#: Writes one version after the other into a folder, slowly, until it is killed.
WRITER = """
import os, sys, time
from anypca.io import atomic
replace = os.replace
def slow(source, target):
    time.sleep(0.001)
    replace(source, target)
os.replace = slow
for number in range(1000):
    files = {name: lambda path: path.write_text(str(number)) for name in "abcdef"}
    atomic.write_atomically(sys.argv[1], files)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_the_old_or_the_new(tmp_path):
    """Thirty processes are killed at random moments: each time all files are of one version after `recover`."""
    out, rng, began = tmp_path / "out", random.Random(0), 0
    for _ in range(30):
        words = [sys.executable, "-c", WRITER, str(out)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
        began += (out / ".anypca-tmp" / MANIFEST).exists()
        recover(out)
        assert listing(out) == sorted([MANIFEST, *"abcdef"])
        assert changed_files(out) == []
        assert len({(out / name).read_text() for name in "abcdef"}) == 1
    assert began > 0, "no process was killed between two replacements; the test shows nothing"
