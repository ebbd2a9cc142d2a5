"""Results say which code made them, and are called stale when that code changes."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from experiments._common import Options, Outcome, Record
from experiments._origin import Origin, _code, code_of, commit_of, modules_of, origin_of, stated_code

from experiments import __main__ as everything

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")


def git(folder, *arguments):
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *settings, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init")
    for name in ("src", "experiments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


@needs_git
def test_commit_has_a_plus_when_code_differs(repository):
    clean = commit_of(repository)
    assert clean
    assert not clean.endswith("+")
    (repository / "experiments" / "RESULTS.md").write_text("results\n")
    assert commit_of(repository) == clean
    (repository / "src" / "new.py").write_text("y = 2\n")
    assert commit_of(repository) == clean + "+"


def test_commit_is_empty_without_a_repository(tmp_path, monkeypatch):
    # Folders above the temporary one may belong to a repository; git must not find it.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == ""


def test_commit_is_empty_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) == ""


def test_modules_follow_what_is_imported_from_where_it_is_defined():
    used = modules_of("gsppca_noise")
    assert {"experiments.gsppca_noise", "experiments._gsppca", "anypca.models.gsppca._evidence"} <= used
    assert {"anypca.families.poisson", "anypca.solvers._loop"} <= used
    assert not [name for name in used if name.startswith(("anypca.models.sepca", "experiments._common"))]


def test_comments_and_docstrings_are_not_code(tmp_path):
    def code(text):
        path = tmp_path / f"{abs(hash(text))}.py"
        path.write_text(text)
        return _code(path)

    bare = code("class A:\n    x: int = 1\n")
    assert code('"""Words."""\nclass A:\n    """More."""\n    x: int = 1  # why\n    """Said."""\n') == bare
    assert code("class A:\n    x: int = 2\n") != bare


def test_code_of_an_experiment():
    assert code_of("gsppca_noise") == code_of("gsppca_noise")
    assert code_of("gsppca_noise") != code_of("gsppca_intro")
    assert code_of("no_such_experiment") == ""


def test_stale_sections_are_named(tmp_path, capsys):
    def record(name, origin, seed=0):
        return Record(name, "Title.", Outcome([]), Options(seed=seed), 1.0, origin=origin)

    now, before = origin_of("gsppca_noise"), Origin("abc1234", "0" * 8)
    records = [
        record("gsppca_noise", now),
        record("gsppca_noise", before, 3),
        record("gsppca_intro", Origin()),
    ]
    results = tmp_path / "RESULTS.md"
    results.write_text(everything.merge_sections("", records))
    assert stated_code(records[1].as_markdown()) == "0" * 8
    assert everything.main(["--stale", "--results", str(results)]) == 1
    assert capsys.readouterr().err.strip().endswith(": gsppca_intro; gsppca_noise, seed 3")
    results.write_text(everything.merge_sections("", records[:1]))
    assert everything.main(["--stale", "--results", str(results)]) == 0
    assert not capsys.readouterr().err
