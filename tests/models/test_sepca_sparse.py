"""SePCA with a price on non-zero loadings, and joint modes with penalties of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models.sepca_tables import fit, orthogonal
from tests.models.tables import is_monotone

from anypca import ModeOptions, SePCA
from anypca.columns import resolve_family
from anypca.exceptions import ConvergenceWarning

P = 24
#: Weights of a penalty at which columns of noise leave and the others stay: counts inform more.
STRENGTHS = {"gaussian": 80.0, "poisson": 120.0}


def draw_sparse(family: str, rng: np.random.Generator, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Draw two components of a third of the columns each, beside a third of noise; the table and where they are."""
    W = np.zeros((2, P))
    for k in range(2):
        W[k, 8 * k : 8 * k + 8] = rng.uniform(0.7, 1.2, 8) * rng.choice([-1, 1], 8)
    eta = orthogonal(rng, n, 2) @ W * (3.0 if family == "bernoulli" else 1.0) + (family == "poisson")
    return np.asarray(resolve_family(family, P).sample(eta, np.full(P, 0.5), rng), float), W != 0


def agreement(model: SePCA, used: np.ndarray) -> float:
    """Share of loadings that are zero, or not, as they should be, with components in the better order."""
    found = model.components_ != 0
    return float(max((found == used).mean(), (found == used[::-1]).mean()))


@pytest.mark.parametrize("inference", ["vb", "map"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_zeros_are_exact_and_where_they_belong(family: str, inference: str, rng: np.random.Generator) -> None:
    X, used = draw_sparse(family, rng)
    # A loading of noise gains as much once in a million, but a small true one may gain less; in modes the data weigh
    # a third.
    model = fit(X, family, inference=inference, sparsity=12.0 if inference == "vb" else 4.0)
    assert model.n_components_ == 2
    assert agreement(model, used) > (0.95 if inference == "vb" else 0.9)
    assert model.describe().has_sparse_loadings
    if inference == "vb":
        np.testing.assert_array_equal(model.components_std_ > 0, model.components_ != 0)


def test_the_price_decides_how_many_loadings_stay(rng: np.random.Generator) -> None:
    X, _ = draw_sparse("poisson", rng)
    fits = [fit(X, "poisson", 3, sparsity=price) for price in (0.0, 1.0, 60.0, 1e4)]
    sizes = [np.count_nonzero(model.components_) for model in fits]
    assert sizes[0] == fits[0].components_.size >= sizes[1] >= sizes[2] >= sizes[3] == 0
    assert sizes[0] > sizes[2]
    assert fits[3].transform(X).shape == (len(X), 0)
    assert [model.sparsity_ for model in fits] == [0.0, 1.0, 60.0, 1e4]


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_the_bound_with_the_price_never_falls(family: str, rng: np.random.Generator) -> None:
    X, _ = draw_sparse(family, rng)
    model = fit(X, family, 3, sparsity=2.0, dispersion=0.5 if family == "gaussian" else "auto")
    assert len(model.objective_trace_) > 1
    assert is_monotone(model.objective_trace_)


def test_the_price_is_chosen_by_hidden_entries(rng: np.random.Generator) -> None:
    X, used = draw_sparse("poisson", rng, 80)
    model = fit(X, "poisson", 3, sparsity="auto")
    assert model.sparsity_ > 0.0
    assert model.n_components_ >= 1
    noise = ~used.any(axis=0)
    assert (model.components_[:, noise] == 0).mean() > 0.5
    # Only the fit that is kept warns.
    with pytest.warns(ConvergenceWarning) as caught:
        fit(X, "poisson", 3, sparsity="auto", max_iter=2, tol=1e-12)
    assert len(caught) == 1


@pytest.mark.parametrize("penalty", ["l1", "scad", "group"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_penalties_of_joint_modes(family: str, penalty: str, rng: np.random.Generator) -> None:
    X, used = draw_sparse(family, rng)
    options = ModeOptions(loading_penalty=penalty, loading_strength=STRENGTHS[family])
    model = fit(X, family, inference=options)
    assert is_monotone(model.objective_trace_, 1e-9)
    assert model.n_components_ == 2
    noise = ~used.any(axis=0)
    if penalty == "group":  # columns leave all components at once
        np.testing.assert_array_equal(model.components_[0] != 0, model.components_[1] != 0)
    else:
        assert agreement(model, used) > 0.85
    assert (model.components_[:, noise] == 0).mean() > 0.6
    assert (model.components_[:, ~noise] != 0).any(axis=0).all()
    assert model.describe().has_sparse_loadings


@pytest.mark.parametrize(
    ("penalty", "price", "message"), [("l1", 1.0, "two penalties"), ("adaptive_l0", 0.0, "sparsity=")]
)
def test_bad_penalties_are_named(penalty: str, price: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(np.eye(6), "poisson", inference=ModeOptions(loading_penalty=penalty), sparsity=price)
