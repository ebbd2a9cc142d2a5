"""The program that runs the tests as other processors do: settings, what it notices, what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import portability
from tools.portability import Setting

LOOPS = ["X86_V3", "X86_V4", "AVX512_ICL"]


def test_all_settings_are_run_with_one_and_two_threads() -> None:
    settings = portability.all_settings(["Nehalem", "Haswell"], LOOPS)
    assert [setting.threads for setting in settings] == [1, 2] * 4
    assert {(setting.kernel, tuple(setting.without)) for setting in settings} == {
        ("Nehalem", ()),
        ("Haswell", ()),
        ("Haswell", ("X86_V4", "AVX512_ICL")),
        (None, tuple(LOOPS)),
    }


@pytest.mark.parametrize(
    ("usual", "kernels", "expected"),
    [
        ({"SkylakeX"}, ["Nehalem", "Haswell", "SkylakeX"], [Setting("Haswell", ["X86_V4", "AVX512_ICL"])]),
        ({"Haswell"}, ["Nehalem", "Haswell"], [Setting("Nehalem")]),
        (set(), [], [Setting(without=LOOPS)]),
    ],
    ids=["new", "older", "other-blas"],
)
def test_the_quick_setting_is_not_the_usual_one(
    usual: set[str], kernels: list[str], expected: list[Setting]
) -> None:
    assert portability.quick_settings(usual, kernels, LOOPS) == expected


def test_kernels_of_other_processors_are_skipped_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(portability.platform, "machine", lambda: "x86_64")
    assert list(portability.supported_kernels({"Nehalem"}, {"SSE3", "SSE42"})) == ["Prescott", "Nehalem"]
    assert "skip kernel SkylakeX: this processor lacks AVX512F" in capsys.readouterr().out
    monkeypatch.setattr(portability.platform, "machine", lambda: "aarch64")
    assert list(portability.supported_kernels({"neoversen1"}, {"ASIMD"})) == []
    assert "skip kernel Haswell: it is for x86, this processor is aarch64" in capsys.readouterr().out


def test_a_setting_that_is_not_taken_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portability, "probe", lambda environment: ({"Haswell"}, {"X86_V3"}))
    assert portability.complaints_about(Setting("Haswell", ["X86_V4"])) == []
    assert portability.complaints_about(Setting("Nehalem")) == ["OpenBLAS took Haswell"]
    assert portability.complaints_about(Setting(without=["X86_V3"])) == ["numpy still uses X86_V3"]
    assert portability.run(Setting("Nehalem"), []).complaints


def test_the_probe_sees_what_numpy_leaves_out() -> None:
    loops = portability.dispatched(portability.probe(Setting().environment)[1])
    assert portability.complaints_about(Setting(without=loops)) == []


def test_failures_are_counted_and_named() -> None:
    lines = ["..F", "FAILED tests/test_x.py::test_y - assert", "1 failed, 12 passed, 3 skipped in 0.5s"]
    outcome = portability.summary_of(lines, 1)
    assert (
        str(outcome) == "12 passed, 1 failed, 3 skipped in 0 s\n    FAILED tests/test_x.py::test_y - assert"
    )
    assert not portability.summary_of(["12 passed in 1s"], 0).complaints
    assert portability.summary_of(["no tests ran in 1s"], 5).complaints


def test_what_is_left_out_exists_and_would_be_run() -> None:
    for path in portability.LEFT_OUT:
        assert Path(path).is_file()
        assert any(Path(path).is_relative_to(folder) for folder in portability.TESTS)
