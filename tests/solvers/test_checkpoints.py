"""Checkpoints: a fit that is killed continues, a file that is torn or of something else does no harm."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.draws import generator

from anypca import EPCA, Checkpoint
from anypca.families import Poisson


class Killed(BaseException):
    """What a kill looks like from inside."""


class Bomb(Poisson):
    """Poisson counts that end the process at a given evaluation of the likelihood."""

    left = 10**9

    def evaluate(self, *args, **options):
        Bomb.left -= 1
        if Bomb.left < 0:
            raise Killed
        return super().evaluate(*args, **options)

    def cumulant(self, *args, **options):
        Bomb.left -= 1
        if Bomb.left < 0:
            raise Killed
        return super().cumulant(*args, **options)


@pytest.fixture
def counts():
    rng = generator("checkpoint")
    eta = 0.5 + 0.7 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6))
    return rng.poisson(np.exp(eta)).astype(float)


def fit(counts, path, moment=10**9, **options):
    Bomb.left = moment
    model = EPCA(2, family=Bomb(), tol=1e-8, n_jobs=1, **options)
    return model.fit(counts, checkpoint=Checkpoint(path, every=0.0))


def kill(counts, path, moment):
    with pytest.raises(Killed):
        fit(counts, path, moment)


@pytest.mark.parametrize("moments", [[3], [25], [20, 20], [6, 12, 25]], ids=str)
def test_a_killed_fit_ends_as_if_it_had_not_been(counts, tmp_path, moments):
    path = tmp_path / "fit.checkpoint"
    expected = EPCA(2, family="poisson", tol=1e-8, n_jobs=1).fit(counts)
    for moment in moments:
        kill(counts, path, moment)
    found = fit(counts, path)
    assert_allclose(found.components_, expected.components_, atol=1e-4)
    assert_allclose(found.transform(counts), expected.transform(counts), atol=1e-3)
    assert found.converged_
    assert np.diff(found.objective_trace_).min(initial=0.0) >= -1e-8 * abs(found.objective_trace_[-1])
    assert not path.exists()


def test_a_torn_file_counts_as_far_as_it_is_whole(counts, tmp_path):
    path = tmp_path / "fit.checkpoint"
    expected = EPCA(2, family="poisson", tol=1e-8, n_jobs=1).fit(counts)
    kill(counts, path, 25)
    whole = path.read_bytes()
    for cut in (1, 9, 100, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        assert_allclose(fit(counts, path).components_, expected.components_, atol=1e-4)


def test_files_of_something_else_are_refused_and_left_alone(counts, tmp_path):
    path = tmp_path / "fit.checkpoint"
    kill(counts, path, 25)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"another table.*number of rows.*60.*50"):
        fit(counts[:50], path)
    with pytest.raises(ValueError, match="another table"):
        fit(counts + np.eye(60, 6), path)
    with pytest.raises(ValueError, match="ridge differs"):
        fit(counts, path, ridge=3.0)
    assert path.read_bytes() == before
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    with pytest.raises(ValueError, match=r"notes\.txt is not a checkpoint"):
        fit(counts, notes)
    assert notes.read_text() == "my notes"
