"""Files appear whole or not at all."""

from __future__ import annotations

import os

import pytest

from anypca.io import write_atomically


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
    assert listing(tmp_path) == ["a", "a/b", "a/b/x.txt", "a/b/y.txt"]
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
