"""The experiment on families in its reduced form, and what it was judged by."""

from __future__ import annotations

from experiments._common import Options

from experiments import families_auto


def test_quick_run_meets_its_targets():
    outcome = families_auto.run(Options(quick=True))
    assert outcome.is_met, [target.as_text() for target in outcome.targets]


def test_acceptable_kinds_are_kinds_and_at_most_two():
    kinds = families_auto.read_kinds()
    known = {"counts", "ratings", "amounts", "real numbers", "shares", "yes/no", "categories", "excluded"}
    assert len(kinds) >= 150
    assert all(1 <= len(accepted) <= 2 and set(accepted) <= known for accepted in kinds.values())
