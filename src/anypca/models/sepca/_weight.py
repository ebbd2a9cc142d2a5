r"""The weight :math:`\nu` of the data in joint modes: which ones are tried, and which one is taken.

The joint log-likelihood cannot choose it. It is the objective at weight 1, so that among fits of one dimension the one
at weight 1 is best whatever the data, and larger weights keep more components, which fit better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from anypca.models._session import Session
from anypca.models.sepca._hidden import hide
from anypca.models.sepca._noise import count_rows

# Times that a tenth of the entries is hidden: together they judge a weight by a third of all entries.
_SPLITS = 4
# Seed of the first; a constant, so that the weight does not depend on ``random_state``. Its value is arbitrary.
_SEED = 30
# Weights of a path. With seven rows to a column each is a third larger than the last; for noisy bits the range of good
# weights, from 30 to 40 over the number of rows (Li and Tao 2013, section V-B), is as wide as that.
_PATH_LENGTH = 7


def scaled_nu(n_samples: float, n_features: int) -> float:
    """The weight at which pure noise of unit information just fails to keep a component."""
    return float(4.0 * n_features / (np.sqrt(n_samples) + np.sqrt(n_features)) ** 2)


def usual_path(n_samples: float, n_features: int) -> tuple[float, ...]:
    """Weights from half of `scaled_nu` to 1: a larger one would count an entry more than once."""
    least = min(0.5 * scaled_nu(n_samples, n_features), 1.0)
    return tuple(sorted({float(nu) for nu in np.geomspace(least, 1.0, _PATH_LENGTH)}))


def weights_to_try(
    nu: str | float, nu_path: Sequence[float] | str | None, session: Session
) -> tuple[float, ...]:
    """Weights of the data to try in modes, from the parameters of those names."""
    shape = count_rows(session), session.data.n_features
    if nu_path is None:
        return (scaled_nu(*shape) if isinstance(nu, str) else float(nu),)
    if isinstance(nu_path, str):
        return usual_path(*shape)
    weights = tuple(sorted({float(nu) for nu in nu_path}))
    if not weights or not weights[0] > 0:
        raise ValueError(
            f"nu_path must hold weights above 0; got {nu_path!r}. Use nu_path='auto' for the usual ones."
        )
    return weights


def choose_weight(
    estimator: Any, X: Any, weights: Sequence[float], *, sample_weight: Any, companions: Mapping[str, Any]
) -> tuple[float, dict[float, tuple[float, int]]]:
    """The weight whose fits predict hidden entries best, and what was found at each.

    Parameters
    ----------
    estimator : SePCA
        With its settings; it is not changed.
    X : table of shape (n_samples, n_features)
        In this process, not a Dask array.
    weights : sequence of float
    sample_weight : array-like or None
    companions : mapping
        ``offset`` and ``covariates``, as in ``fit``.

    Returns
    -------
    nu : float
    path : dict
        Of each weight the mean log-likelihood of a hidden entry and the dimension, the median of its fits.
    """
    tables = [hide(X, _SEED + number, "nu_path") for number in range(_SPLITS)]
    # A price that is to be chosen too is looked for later, at the weight that is taken.
    price = 0.0 if isinstance(estimator.sparsity, str) else estimator.sparsity
    path = {}
    for nu in weights:
        likelihoods, dimensions = [], []
        for hidden in tables:
            model = clone(estimator).set_params(nu=nu, nu_path=None, sparsity=price, verbose=0)
            hidden.fitted(model, sample_weight=sample_weight, companions=companions)
            likelihoods.append(hidden.log_likelihood(model, companions))
            dimensions.append(model.n_components_)
        path[nu] = float(np.concatenate(likelihoods).mean()), int(np.median(dimensions))
    return max(path, key=lambda nu: path[nu][0]), path
