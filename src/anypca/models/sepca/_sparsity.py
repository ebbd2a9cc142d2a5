"""The price of a non-zero loading, chosen by entries that were hidden."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.models._warm import cold_clone
from anypca.models.sepca._hidden import hide

#: Prices tried besides none, each twice the last. A loading stays if its square exceeds 8 prices of its variance: up to
#: 1/2 nothing becomes zero, and a price of 8 keeps loadings of more than 8 standard errors only.
PRICES = (1.0, 2.0, 4.0, 8.0)
# Of the entries that are hidden. A constant, so that the price does not depend on ``random_state``; its value is
# arbitrary.
_SEED = 20


def choose_sparsity(estimator: Any, X: Any, *, sample_weight: Any, offset: Any, covariates: Any) -> float:
    """The largest price whose fit has components left and predicts hidden entries as well as the best.

    As well is: within one standard error of the difference.

    Parameters
    ----------
    estimator : SePCA
        With its settings; it is not changed.
    X : table of shape (n_samples, n_features)
        In this process, not a Dask array.
    sample_weight, offset, covariates : as in ``fit``

    Returns
    -------
    float
    """
    hidden = hide(X, _SEED, "sparsity='auto'")
    companions = {"offset": offset, "covariates": covariates}

    def losses(price: float, rank: int | None) -> tuple[Floats, Any]:
        model = cold_clone(estimator).set_params(sparsity=price, max_components=rank, verbose=0)
        hidden.fitted(model, sample_weight=sample_weight, companions=companions)
        return -hidden.log_likelihood(model, companions), model

    free, model = losses(0.0, estimator.max_components)
    found = {0.0: free}
    for price in PRICES:
        # The dimension is chosen before the price matters; the first fit's need not be looked for again.
        loss, priced = losses(price, model.n_components_)
        # Whether there are components is for the evidence to say, the price says which loadings are zero.
        if priced.n_components_ or not model.n_components_:
            found[price] = loss
    best = min(found.values(), key=np.mean)

    def is_near(loss: Floats) -> bool:
        excess = loss - best
        return bool(excess.mean() <= excess.std() / np.sqrt(len(excess)))

    return max(price for price, loss in found.items() if is_near(loss))
