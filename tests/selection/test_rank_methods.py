"""Methods for the number of components: known answers, levels, what they refuse, and how they are compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.draws import seed
from tests.selection.tables import flat_noise

from anypca.datasets import make_low_rank
from anypca.selection import (
    Finding,
    Minka,
    ParallelAnalysis,
    ParametricParallelAnalysis,
    RankMethod,
    compare_ranks,
    rank_methods,
)

#: Methods for normal tables, with gaps or without.
GAUSSIAN = ["parallel", "parametric", "held_out", "bic", "sepca"]
OFFSETS = ["parallel", "parametric", "bic"]


class OneComponent(RankMethod):
    name, label, caveat = "fixed", "one component", "always"

    def find(self, task):
        return Finding(1)


def counts(rank, n=100, p=15):
    """Rich counts and weak components: the mean then hardly bends."""
    signal = 0.3 if rank else 0.0
    return make_low_rank(
        n, p, rank, family="poisson", signal=signal, intercept=3.5, random_state=seed(rank)
    ).X


def find(name, X, family="gaussian", max_rank=5, **options):
    return rank_methods.create(name).find_rank(X, family=family, max_rank=max_rank, **options)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", [*GAUSSIAN, "icl"])
def test_normal_table(name, rank, rng):
    found = find(name, flat_noise(rng, rank))
    assert (found.method, found.rank) == (name, rank)
    assert found.seconds > 0


@pytest.mark.parametrize("name", GAUSSIAN)
def test_missing_cells(name, rng):
    assert find(name, flat_noise(rng, 3, missing=0.05)).rank == 3


@pytest.mark.parametrize("rank", [0, 3])
def test_minka_finds_the_components_in_noise_that_is_not_flat(rank, rng):
    assert find("minka", flat_noise(rng, rank, 200, 8, spread=0.1)).rank == rank


@pytest.mark.parametrize("name", ["bic", "sepca", "parametric"])
def test_counts(name):
    """Two components: no method misses one, and those without a level of false alarms find no other."""
    found = find(name, counts(2), family="poisson").rank
    assert found == 2 or (name == "parametric" and found > 2)


@pytest.mark.parametrize("kind", ["offset", "covariates"])
@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_and_covariates_are_taken_out(name, kind, rng):
    """Of normal tables what is added can be subtracted, and what is regressed on leaves nothing."""
    X = flat_noise(rng, 2)
    if kind == "offset":
        given, added = (rng.normal(size=X.shape),) * 2
    else:
        given = rng.normal(size=(len(X), 1))
        added = given * rng.normal(size=X.shape[1])
    found = find(name, X + added, **{kind: given})
    expected = find(name, X) if kind == "offset" else find(name, X, covariates=given)
    assert (found.rank, found.rank >= 2) == (expected.rank, True)


def test_units_mean_nothing_to_parallel_analysis(rng):
    X, scale = flat_noise(rng, 3), np.logspace(-3, 3, 16)
    assert [find("parallel", table).rank for table in (X, X * scale)] == [3, 3]


def test_methods_for_equal_noise_warn_of_unequal_noise(rng):
    X = flat_noise(rng, 2, 200, 8, spread=0.1)
    assert "spreads" in find("minka", X * np.logspace(0, 3, 8)).remark
    assert find("minka", X).remark == ""


# ---------------------------------------------------------------------------------------------- refusals


def test_missing_cells_are_refused_with_a_remedy():
    X = counts(0)
    X[3, 4] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 4\] is missing.*'minka'.*'parallel'"):
        find("minka", X, "poisson")


def test_tables_that_a_method_is_not_for(rng):
    with pytest.raises(ValueError, match=r"16 rows and 60 columns.*'parallel'"):
        Minka().find_rank(flat_noise(rng, 2).T, family="gaussian")


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (ParallelAnalysis, {"n_draws": 0}, "n_draws.*got 0"),
        (ParametricParallelAnalysis, {"level": 0.0}, "level.*0.0"),
    ],
)
def test_settings_are_checked(method, options, message):
    with pytest.raises(ValueError, match=message):
        method(**options)


# -------------------------------------------------------------------------------------------- comparison


def test_a_comparison_has_a_row_for_each_method(rng):
    found = compare_ranks(
        flat_noise(rng, 3, missing=0.05),
        ["parallel", "minka", ParallelAnalysis()],
        family="gaussian",
        max_rank=5,
    )
    assert found.ranks == {"parallel": 3}
    assert found.family == "gaussian"
    frame = found.to_frame()
    assert list(frame.index) == ["parallel", "minka", "parallel"]
    assert list(frame.columns) == ["rank", "seconds", "remark"]
    assert frame["rank"].isna().tolist() == [False, True, False]
    assert "missing" in frame.loc["minka", "remark"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_method_answers_or_refuses_a_table_of_several_families(rng):
    z = rng.normal(size=(40, 1))
    answers = np.clip(np.rint(3 + z @ np.ones((1, 4)) + 0.8 * rng.normal(size=(40, 4))), 1, 5)
    answers[:5] = np.arange(1, 6)[:, None]
    X = np.hstack([answers, rng.poisson(np.exp(1 + 0.5 * z @ np.ones((1, 3))))])
    family = ["ordinal"] * 4 + ["negative_binomial"] * 3
    found = compare_ranks(X, family=family, max_rank=2)
    assert [answer.method for answer in found.answers] == list(rank_methods)
    assert set(rank_methods) - set(found.ranks) <= {"minka"}
    assert set(found.ranks.values()) <= {0, 1, 2}


def test_the_conclusion_names_the_method_to_believe(rng):
    X = flat_noise(rng, 3)
    assert (
        compare_ranks(X, ["parallel", "bic"], family="gaussian").conclusion == "2 methods found 3 components."
    )
    found = compare_ranks(X, ["parallel", "sepca", OneComponent()], family="gaussian").conclusion
    assert found == "Believe sepca: 3 components. fixed found 1 (always)."


def test_data_frames_and_sparse_tables_give_the_same_answers():
    X = counts(2)
    forms = (X, pd.DataFrame(X, columns=[f"g{j}" for j in range(15)]), sparse.csr_array(X))
    answers = [compare_ranks(form, ["parallel", "bic"], family="poisson").ranks for form in forms]
    assert answers[0] == answers[1] == answers[2]


def test_the_answer_at_the_limit_comes_with_the_remedy(rng):
    found = find("parallel", flat_noise(rng, 3), max_rank=2)
    assert found.rank == 2
    assert "raise max_rank=2" in found.remark


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (np.ones((9, 3)), {"methods": ["paralel"]}, ValueError, "Did you mean 'parallel'"),
        (np.ones((9, 3)), {"methods": []}, ValueError, "methods is empty.*parallel"),
        (np.ones((9, 3)), {"methods": [3]}, TypeError, "'parallel'.*got 3"),
        (np.ones((9, 1)), {}, ValueError, "9 rows and 1 column"),
        (np.ones((1, 9)), {}, ValueError, "1 row and 9 columns"),
    ],
    ids=["unknown", "none", "number", "one column", "one row"],
)
def test_bad_input(X, options, error, message):
    with pytest.raises(error, match=message):
        compare_ranks(X, **options)


def test_dask_arrays_are_refused_with_a_remedy():
    array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"Dask.*compute\(\)"):
        compare_ranks(array.ones((9, 3), chunks=(3, 3)))


def test_a_constant_table_has_no_component():
    X = np.tile([1.0, 2.0, 3.0], (9, 1))
    found = compare_ranks(X, ["parallel", "minka"], family="gaussian")
    assert found.ranks == {"parallel": 0, "minka": 0}
    assert "vary" in found.answers[0].remark
