"""Methods that tell the number of components: known answers, what they refuse, and how they are compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.decomposition import PCA

from anypca._compat import minka_evidence
from anypca.datasets import make_low_rank
from anypca.families import (
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    LogNormal,
    NegativeBinomial,
    Poisson,
    StudentT,
    families,
)
from anypca.plotting import plot_rank_comparison
from anypca.selection import (
    BiCrossValidation,
    Biwhitening,
    DataThinning,
    GavishDonoho,
    ParallelAnalysis,
    compare_ranks,
    rank_methods,
)
from anypca.selection._residuals import RESIDUALS
from anypca.selection.biwhitening import noise_variances, scaled_to_ones
from anypca.selection.rank_methods import resolve_method
from anypca.selection.spectra import _best_threshold, _corner_losses, _median_marchenko_pastur, eigenvalues
from anypca.selection.thinning import split_columns

GAUSSIAN = [name for name in rank_methods if name != "biwhitening"]
#: Methods that claim the number of components under a log link; the others count its bends where these are strong.
COUNTS = ["bic", "biwhitening", "held_out", "parallel", "parametric", "screenot", "sepca", "thinning"]


def gaussian(rank, **options):
    return make_low_rank(100, 20, rank, family="gaussian", signal=2.0, random_state=4, **options).X


def counts(rank):
    """Rich counts and weak components: the mean then hardly bends."""
    signal = 0.25 if rank else 0.0
    return make_low_rank(
        150, 20, rank, family="poisson", signal=signal, intercept=3.5, random_state=rank + 3
    ).X


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", GAUSSIAN)
def test_normal_table(name, rank):
    X = gaussian(rank) if rank else make_low_rank(100, 20, 0, family="gaussian", random_state=0).X
    found = resolve_method(name).find_rank(X, family="gaussian", max_rank=5)
    assert (found.method, found.rank) == (name, rank)
    assert found.seconds > 0


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", COUNTS)
def test_table_of_counts(name, rank):
    assert resolve_method(name).find_rank(counts(rank), family="poisson", max_rank=5).rank == rank


# -------------------------------------------------------------------------------------------- residuals


@pytest.mark.parametrize(
    "family", [family for name in families for family in families[name].examples()], ids=str
)
def test_quantile_residuals_are_normal_under_the_model(family):
    rng = np.random.default_rng(0)
    phi = 1.0 if family.fixed_dispersion is None else family.fixed_dispersion
    eta = np.full((400, 3), 0.3)
    x = family.sample(eta, phi, rng)
    found = RESIDUALS["quantile"](family, x, eta, phi, rng)
    # Levels of families with parameters, such as those of ordered answers, are those of the examples.
    assert kstest(found.ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("kind", RESIDUALS)
@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(), Gamma(), StudentT(), Binomial(9)], ids=str)
def test_residuals_rise_with_the_entries(family, kind):
    x = np.arange(1.0, 9.0)[:, None]
    eta = np.zeros_like(x) + (0.5 if family.link_kind != "identity" else 4.0)
    found = RESIDUALS[kind](family, x, eta, 0.5, np.random.default_rng(0))[:, 0]
    # Scores of heavy tails fall again far out; their quantiles and deviances do not.
    assert (np.diff(found) > 0).all() or (kind == "pearson" and isinstance(family, StudentT))
    assert found[0] < 0 < found[-1]


def test_the_residual_must_be_known():
    with pytest.raises(
        ValueError, match="residual must be one of 'pearson', 'deviance', 'quantile'; got 'raw'"
    ):
        ParallelAnalysis("raw")


# ------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_the_threshold_for_white_noise_is_that_of_the_paper(beta):
    root = np.sqrt(beta**2 + 14 * beta + 1)
    best = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + root))
    # The authors' cubic approximation is right to 0.02.
    cubic = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
    assert best / np.sqrt(_median_marchenko_pastur(beta)) == pytest.approx(cubic, abs=0.02)


def test_screenot_has_the_threshold_for_white_noise_on_white_noise():
    rng = np.random.default_rng(0)
    size = np.sqrt(eigenvalues(rng.normal(size=(300, 300))))
    # Edges of finite tables scatter as the power -2/3 of their sides.
    assert _best_threshold(size, 1.0) / np.sqrt(300) == pytest.approx(4 / np.sqrt(3), rel=0.02)


def test_eigenvalues_of_wide_and_tall_tables_are_squared_singular_values():
    X = np.random.default_rng(0).normal(size=(12, 5))
    expected = np.linalg.svd(X, compute_uv=False) ** 2
    for table in (X, X.T):
        np.testing.assert_allclose(eigenvalues(table), expected, rtol=1e-10)


def test_minka_is_that_of_scikit_learn_where_there_is_a_component():
    X = gaussian(3)
    spectrum = PCA().fit(X).explained_variance_
    assert int(minka_evidence(spectrum, 100)[1:].argmax()) + 1 == PCA("mle").fit(X).n_components_ == 3


def test_minka_needs_more_rows_than_columns():
    with pytest.raises(ValueError, match=r"more rows than columns; got 20 rows and 100 columns.*'parallel'"):
        resolve_method("minka").find_rank(gaussian(3).T)


def test_a_corner_is_predicted_from_the_other_three():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 7))
    rows, columns = np.arange(4), np.arange(3)
    rest, others = np.arange(4, 9), np.arange(3, 7)
    found = _corner_losses(X, rows, rest, columns, others, 2)
    for rank, loss in enumerate(found):
        left, size, right = np.linalg.svd(X[np.ix_(rest, others)])
        inverse = right[:rank].T @ np.diag(1 / size[:rank]) @ left[:, :rank].T
        guess = X[np.ix_(rows, others)] @ inverse @ X[np.ix_(rest, columns)]
        assert loss == pytest.approx(((X[np.ix_(rows, columns)] - guess) ** 2).sum())


def test_methods_for_equal_noise_say_where_it_is_not():
    X = gaussian(2) * np.logspace(0, 3, 20)
    assert "spreads differ by a factor of" in GavishDonoho().find_rank(X, family="gaussian").remark
    assert GavishDonoho().find_rank(gaussian(2), family="gaussian").remark == ""
    assert BiCrossValidation().find_rank(gaussian(2), family="gaussian").rank == 2


def test_units_mean_nothing_to_parallel_analysis():
    X, scale = gaussian(3), np.logspace(-3, 3, 20)
    found = [ParallelAnalysis().find_rank(table, family="gaussian").rank for table in (X, X * scale)]
    assert found == [3, 3]


def test_the_level_is_that_of_false_components():
    """19 draws at 95 %: an eigenvalue must exceed all of them, which noise does in one of twenty tables."""
    rng = np.random.default_rng(0)
    method = ParallelAnalysis(n_draws=19)
    found = [method.find_rank(rng.normal(size=(25, 6)), family="gaussian").rank > 0 for _ in range(60)]
    # Binomial: more than 9 of 60 at 5 % have a probability of 0.1 %.
    assert sum(found) <= 9


@pytest.mark.parametrize("options", [{"n_draws": 0}, {"n_draws": 2.5}, {"level": 1.0}], ids=str)
def test_parallel_analysis_checks_its_settings(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        ParallelAnalysis(**options)


# ------------------------------------------------------------------------------------------- biwhitening


def test_rows_and_columns_are_scaled_to_unit_noise():
    variance = np.random.default_rng(0).gamma(2.0, size=(30, 8))
    scaled = variance * scaled_to_ones(variance)
    np.testing.assert_allclose(scaled.mean(axis=0), 1.0, rtol=1e-3)
    np.testing.assert_allclose(scaled.mean(axis=1), 1.0, rtol=1e-3)


@pytest.mark.parametrize("family", [Poisson(), Binomial(6), NegativeBinomial(4.0), Gamma(3.0)], ids=str)
def test_noise_variances_are_unbiased(family):
    eta, phi = np.full((40000, 1), 0.4), family.fixed_dispersion
    x = family.sample(eta, phi, np.random.default_rng(0))
    expected = family.variance(family.mean(eta[:1]), phi)
    assert noise_variances(family, x, "b").mean() == pytest.approx(expected[0, 0], rel=0.05)


def test_biwhitening_counts_the_rank_of_the_mean():
    """Two strong components under a log link: 1 + 2 + 3 directions to second order."""
    X = make_low_rank(200, 30, 2, family="poisson", signal=0.6, intercept=4.0, random_state=0).X
    found = Biwhitening().find_rank(X, family="poisson")
    assert found.rank >= 5
    assert "1 + k + k(k+1)/2" in found.remark


@pytest.mark.parametrize("family", ["negative_binomial", "bernoulli", "gaussian"])
def test_biwhitening_refuses_unknown_variances(family):
    with pytest.raises(ValueError, match=r"known quadratic function.*use 'parallel'"):
        Biwhitening().find_rank(np.random.default_rng(0).integers(0, 2, (30, 5)), family=family)


def test_biwhitening_refuses_offsets():
    with pytest.raises(ValueError, match=r"takes no offset.*Use 'parallel'"):
        Biwhitening().find_rank(counts(0), family="poisson", offset=np.ones(150))


# ---------------------------------------------------------------------------------------------- thinning


SPLIT = [
    (Poisson(), 1.0),
    (NegativeBinomial(), 0.4),
    (Binomial(10), 1.0),
    (Gamma(), 0.5),
    (Exponential(), 1.0),
    (Gaussian(), 2.0),
]


@pytest.mark.parametrize(("family", "phi"), SPLIT, ids=str)
def test_parts_are_independent_and_follow_their_families(family, phi):
    rng = np.random.default_rng(0)
    eta = np.full((20000, 1), 0.7)
    x = family.sample(eta, phi, rng)
    parts = split_columns(family, x, np.array([phi]), 0.7, rng)
    # Of 20000 pairs: four standard errors.
    assert abs(np.corrcoef(parts.fitted[:, 0], parts.kept[:, 0])[0, 1]) < 4 / np.sqrt(20000)
    predictor = parts.fitted_family.link(parts.fitted.mean(keepdims=True))
    mean = parts.kept_family.mean(predictor + parts.shift, parts.kept_dispersion)
    assert parts.kept.mean() == pytest.approx(mean[0, 0], rel=0.05)
    variance = parts.kept_family.variance(mean, parts.kept_dispersion)[0, 0]
    assert parts.kept.var() == pytest.approx(variance, rel=0.1)


def test_given_sizes_are_divided():
    rng, x = np.random.default_rng(0), np.ones((5, 1))
    split = {
        "size": split_columns(NegativeBinomial(3.0), x, np.ones(1) / 3, 0.5, rng).fitted_family.size,
        "shape": split_columns(Gamma(4.0), x, np.ones(1) / 4, 0.5, rng).fitted_family.shape,
        "variance": split_columns(Gaussian(2.0), x, np.full(1, 2.0), 0.5, rng).fitted_family.noise_variance,
    }
    assert split == {"size": 1.5, "shape": 2.0, "variance": 4.0}


@pytest.mark.parametrize("family", ["bernoulli", LogNormal(), StudentT(), Binomial(1)], ids=str)
def test_what_does_not_split_is_refused(family):
    X = np.random.default_rng(0).integers(0, 2, (30, 5)) + (
        0.0 if family in ("bernoulli", Binomial(1)) else 1.0
    )
    with pytest.raises(ValueError, match=r"'thinning'.*Use 'parallel', 'held_out' or 'sepca'"):
        DataThinning().find_rank(X, family=family)


def test_thinning_splits_columns_of_several_families():
    parts = [gaussian(2)[:, :10], make_low_rank(100, 8, 0, family="poisson", intercept=2.0, random_state=0).X]
    family = ["gaussian"] * 10 + ["poisson"] * 8
    # Families alternate, so that columns come back in another order than they were split in.
    order = np.r_[0, 10, 1, 11, np.arange(2, 10), np.arange(12, 18)]
    X = np.hstack(parts)[:, order]
    assert DataThinning().find_rank(X, family=[family[j] for j in order], max_rank=4).rank == 2


# --------------------------------------------------------------------------------- missing cells, offsets


@pytest.mark.parametrize("name", ["parallel", "parametric", "thinning", "held_out", "bic", "sepca"])
def test_missing_cells(name):
    X = gaussian(3, missing=0.1)
    assert resolve_method(name).find_rank(X, family="gaussian", max_rank=5).rank == 3


@pytest.mark.parametrize("name", ["gavish_donoho", "screenot", "minka", "bicv", "biwhitening"])
def test_missing_cells_are_refused_with_a_remedy(name):
    X = counts(0)
    X[3, 4] = np.nan
    with pytest.raises(ValueError, match=rf"X\[3, 4\] is missing; method '{name}' needs every.*'parallel'"):
        resolve_method(name).find_rank(X, family="poisson")


@pytest.mark.parametrize("name", ["parallel", "parametric", "thinning", "bicv", "sepca"])
def test_an_offset_takes_the_sizes_of_rows_out(name):
    rng = np.random.default_rng(0)
    size = rng.normal(0.0, 0.7, 120)
    X = rng.poisson(np.exp(2.0 + size[:, None] + rng.normal(size=15)))
    with_it = resolve_method(name).find_rank(X, family="poisson", max_rank=4, offset=size)
    without = resolve_method(name).find_rank(X, family="poisson", max_rank=4)
    assert (with_it.rank, without.rank > 0) == (0, True)


# -------------------------------------------------------------------------------------------- comparison


def test_a_comparison_has_a_row_for_each_method():
    found = compare_ranks(gaussian(3), ["parallel", "biwhitening", GavishDonoho()], max_rank=5)
    assert found.ranks == {"parallel": 3, "gavish_donoho": 3}
    frame = found.to_frame()
    assert list(frame.index) == ["parallel", "biwhitening", "gavish_donoho"]
    assert list(frame.columns) == ["rank", "seconds", "remark"]
    assert frame["rank"].isna().tolist() == [False, True, False]
    assert "known quadratic function" in frame.loc["biwhitening", "remark"]


def test_all_methods_are_asked_by_default():
    found = compare_ranks(
        make_low_rank(40, 8, 1, family="poisson", intercept=2.0, random_state=0).X, max_rank=2
    )
    assert [answer.method for answer in found.answers] == list(rank_methods)


def test_data_frames_and_sparse_tables_give_the_same_answers():
    from scipy import sparse

    X = counts(3)
    forms = (X, pd.DataFrame(X, columns=[f"g{j}" for j in range(20)]), sparse.csr_array(X))
    assert len({tuple(compare_ranks(form, ["parallel", "bicv"]).ranks.items()) for form in forms}) == 1


def test_the_answer_at_the_limit_is_told():
    assert "raise max_rank=2" in ParallelAnalysis().find_rank(gaussian(3), max_rank=2).remark


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (np.ones((9, 3)), {"methods": ["paralel"]}, ValueError, "Did you mean 'parallel'"),
        (np.ones((9, 3)), {"methods": []}, ValueError, "methods is empty; name some of"),
        (np.ones((9, 3)), {"methods": [3]}, TypeError, "a method is one of"),
        (np.ones((9, 3)), {"max_rank": 3}, ValueError, "3"),
        (np.ones((9, 1)), {}, ValueError, "9 rows and 1 column; components need at least two of each"),
        (-np.ones((9, 3)), {"family": "poisson"}, ValueError, "Negative values"),
    ],
    ids=["unknown", "none", "number", "too many", "one column", "support"],
)
def test_bad_input(X, options, error, message):
    with pytest.raises(error, match=message):
        compare_ranks(X, **options)


def test_a_constant_table_has_no_component():
    X = np.tile([1.0, 2.0, 3.0], (9, 1))
    found = compare_ranks(X, ["parallel", "gavish_donoho"], family="gaussian")
    assert found.ranks == {"parallel": 0, "gavish_donoho": 0}
    assert found.answers[0].remark == "fewer than two columns vary"


def test_picture():
    found = compare_ranks(gaussian(3), ["parallel", "biwhitening", "minka"], max_rank=5)
    ax = found.plot()
    told = [text.get_text() for text in ax.texts]
    assert "not for this table" in told
    assert ax.get_title() == "3 components: 2 of 2 methods"
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.labels)
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert dots == [3, 3]
    assert plot_rank_comparison(found, ax) is ax


def test_picture_without_answers():
    found = compare_ranks(gaussian(0), "biwhitening", family="gaussian")
    assert found.plot().get_title() == "no method is for this table"


def test_every_method_answers_or_refuses_a_table_of_several_families():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 1))
    answers = np.clip(np.rint(3 + z @ np.ones((1, 4)) + 0.8 * rng.normal(size=(40, 4))), 1, 6)
    answers[:, 3] = np.clip(answers[:, 3], 2, 5)
    X = np.hstack([answers, rng.poisson(np.exp(1 + 0.5 * z @ np.ones((1, 3))))])
    found = compare_ranks(X, family=["ordinal"] * 4 + ["negative_binomial"] * 3, max_rank=2, random_state=0)
    remarks = {answer.method: answer.remark for answer in found.answers if answer.rank is None}
    assert set(remarks) <= {"biwhitening", "thinning", "minka"}
    assert all("broadcast" not in remark and len(remark) < 300 for remark in remarks.values())
