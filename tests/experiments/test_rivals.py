"""Published methods for the number of components that the truth table compares: answers, refusals, mathematics."""

from __future__ import annotations

import numpy as np
import pytest
from experiments._rivals import (
    RIVALS,
    _best_threshold,
    _corner_losses,
    _median_marchenko_pastur,
    noise_variances,
    scaled_to_ones,
    split_columns,
)
from tests.draws import seed
from tests.selection.tables import flat_noise

from anypca.datasets import make_low_rank
from anypca.families import (
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)


def find(name, X, family="gaussian", max_rank=5, **options):
    return RIVALS[name].find_rank(X, family=family, max_rank=max_rank, **options)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", ["gavish_donoho", "bicv", "thinning"])
def test_normal_table(name, rank, rng):
    assert find(name, flat_noise(rng, rank)).rank == rank


@pytest.mark.parametrize("rank", [0, 3])
def test_screenot_finds_the_components_in_noise_that_is_not_flat(rank, rng):
    drawn = rng.normal(size=(120, 40)) + 4.0 * rng.normal(size=(120, rank)) @ rng.normal(size=(rank, 40))
    # Columns of the same variance: the noise is then not white, and its largest values count sometimes.
    assert find("screenot", drawn).rank >= rank
    assert rank or find("screenot", drawn).rank == 0


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_the_threshold_for_white_noise_is_that_of_the_paper(beta):
    root = np.sqrt(beta**2 + 14 * beta + 1)
    best = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + root))
    # The authors' cubic approximation is right to 0.02.
    cubic = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
    assert best / np.sqrt(_median_marchenko_pastur(beta)) == pytest.approx(cubic, abs=0.02)


def test_screenot_has_the_threshold_for_white_noise_on_white_noise():
    """Quantiles of the quarter circle, the singular values of large square tables."""
    angle = np.linspace(0.0, np.pi / 2, 200_001)
    mass = (angle + 0.5 * np.sin(2 * angle)) / (np.pi / 2)
    size = 2.0 * np.sin(np.interp((np.arange(2000) + 0.5) / 2000, mass, angle))
    assert _best_threshold(size, 1.0) == pytest.approx(4 / np.sqrt(3), rel=1e-3)


def test_a_corner_is_predicted_from_the_other_three(rng):
    X = rng.normal(size=(9, 7))
    rows, columns, rest, others = np.arange(4), np.arange(3), np.arange(4, 9), np.arange(3, 7)
    for rank, loss in enumerate(_corner_losses(X, rows, rest, columns, others, 2)):
        left, size, right = np.linalg.svd(X[np.ix_(rest, others)])
        inverse = right[:rank].T @ np.diag(1 / size[:rank]) @ left[:, :rank].T
        guess = X[np.ix_(rows, others)] @ inverse @ X[np.ix_(rest, columns)]
        assert loss == pytest.approx(((X[np.ix_(rows, columns)] - guess) ** 2).sum())


def test_rows_and_columns_are_scaled_to_unit_noise(rng):
    variance = rng.gamma(2.0, size=(30, 8))
    scaled = variance * scaled_to_ones(variance)
    np.testing.assert_allclose(scaled.mean(axis=0), 1.0, rtol=1e-3)
    np.testing.assert_allclose(scaled.mean(axis=1), 1.0, rtol=1e-3)


@pytest.mark.parametrize("family", [Poisson(), Binomial(6), NegativeBinomial(4.0), Gamma(3.0)], ids=str)
def test_noise_variances_are_unbiased(family, rng):
    eta, phi = np.full((40000, 1), 0.4), family.fixed_dispersion
    found = noise_variances(family, family.sample(eta, phi, rng), "b")
    expected = family.variance(family.mean(eta[:1]), phi)[0, 0]
    assert abs(found.mean() - expected) < 5 * found.std() / 200


SPLIT = [
    (Poisson(), 1.0),
    (NegativeBinomial(), 0.4),
    (Binomial(10), 1.0),
    (Gamma(), 0.5),
    (Exponential(), 1.0),
    (Gaussian(), 2.0),
]


@pytest.mark.parametrize(("family", "phi"), SPLIT, ids=str)
def test_parts_are_independent_and_follow_their_families(family, phi, rng):
    n = 20_000
    eta = np.full((n, 1), 0.7)
    parts = split_columns(family, family.sample(eta, phi, rng), np.array([phi]), 0.7, rng)
    # Four and a half standard errors.
    assert abs(np.corrcoef(parts.fitted[:, 0], parts.kept[:, 0])[0, 1]) < 4.5 / np.sqrt(n)
    predictor = parts.fitted_family.link(parts.fitted.mean(keepdims=True))
    mean = parts.kept_family.mean(predictor + parts.shift, parts.kept_dispersion)[0, 0]
    spread = parts.kept.std() + parts.fitted.std() * mean / parts.fitted.mean()
    assert abs(parts.kept.mean() - mean) < 4.5 * spread / np.sqrt(n)
    variance = parts.kept_family.variance(np.full((1, 1), mean), parts.kept_dispersion)[0, 0]
    squares = (parts.kept - parts.kept.mean()) ** 2
    assert abs(squares.mean() - variance) < 4.5 * squares.std() / np.sqrt(n) + 0.05 * variance


def test_given_sizes_are_divided(rng):
    x = np.ones((5, 1))
    split = {
        "size": split_columns(NegativeBinomial(3.0), x, np.ones(1) / 3, 0.5, rng).fitted_family.size,
        "shape": split_columns(Gamma(4.0), x, np.ones(1) / 4, 0.5, rng).fitted_family.shape,
        "variance": split_columns(Gaussian(2.0), x, np.full(1, 2.0), 0.5, rng).fitted_family.noise_variance,
    }
    assert split == {"size": 1.5, "shape": 2.0, "variance": 4.0}


def test_biwhitening_counts_the_rank_of_the_mean():
    """Two strong components under a log link: 1 + 2 + 3 directions to second order."""
    X = make_low_rank(200, 30, 2, family="poisson", signal=0.6, intercept=4.0, random_state=seed()).X
    found = RIVALS["biwhitening"].find_rank(X, family="poisson")
    assert found.rank >= 4
    assert f"rank {found.rank + 1}" in found.remark
    assert find("biwhitening", np.zeros((9, 4)) + np.arange(9)[:, None], "poisson", max_rank=3).rank == 0


def test_thinning_takes_offsets_out_and_gaps(rng):
    X = flat_noise(rng, 3, missing=0.05)
    offset = rng.normal(size=X.shape)
    assert find("thinning", X).rank == find("thinning", X + offset, offset=offset).rank == 3


@pytest.mark.parametrize(
    ("name", "family", "message"),
    [
        ("biwhitening", "negative_binomial", r"'biwhitening'.*use 'parallel'"),
        ("thinning", "bernoulli", r"'thinning'.*Use 'parallel'"),
        ("thinning", StudentT(), r"'thinning'.*Use 'parallel'"),
    ],
    ids=str,
)
def test_families_that_a_method_is_not_for(name, family, message, rng):
    with pytest.raises(ValueError, match=message):
        find(name, rng.integers(0, 2, (30, 5)), family, max_rank=3)


@pytest.mark.filterwarnings("ignore:family 'poisson' is for integers")
def test_tables_that_a_method_is_not_for(rng):
    counts = rng.poisson(30.0, (100, 15)).astype(float)
    with pytest.raises(ValueError, match=r"4 rows and columns.*'parallel'"):
        find("screenot", rng.normal(size=(9, 3)), max_rank=2)
    with pytest.raises(ValueError, match=r"offset.*Use 'parallel'"):
        find("biwhitening", counts, "poisson", offset=np.ones(100))
    with pytest.raises(ValueError, match=r"fractions.*family='gamma'"):
        find("thinning", counts + 0.5, "poisson")
