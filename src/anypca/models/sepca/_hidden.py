"""Settings that hidden entries choose: the weight of a joint mode, and the price of a non-zero loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import check_data
from anypca.models._cross_validation import HeldOut, cross_validate, hash_folds
from anypca.models._warm import cold_clone

#: Prices tried besides none, each twice the last. A loading stays if its square exceeds 8 prices of its variance: up to
#: 1/2 no loading becomes zero, and a price of 8 keeps loadings of more than 8 standard errors only.
PRICES = (1.0, 2.0, 4.0, 8.0)
# Folds of the entries, and how many of them are hidden in turn for a weight: together a third of all entries.
_FOLDS, _SPLITS = 10, 4


def choose_weight(
    estimator: Any, X: Any, weights: Sequence[float], companions: Mapping[str, Any]
) -> dict[float, tuple[float, int]]:
    """For each weight nu the mean log-likelihood of a hidden entry, and the median dimension of its fits."""
    # A price that is to be chosen too is chosen later, at the weight that is taken.
    price = 0.0 if isinstance(estimator.sparsity, str) else estimator.sparsity
    options = [replace(estimator.mode_options, nu=nu, nu_path=None) for nu in weights]
    settings = [{"inference": each, "sparsity": price} for each in options]
    found = _scores(estimator, settings, X, companions, _SPLITS, "nu_path")
    path = {}
    for nu, splits in zip(weights, zip(*found, strict=True), strict=True):
        likelihood = np.concatenate([terms for terms, _ in splits])
        path[nu] = float(likelihood.sum() / max(len(likelihood), 1)), int(np.median([k for _, k in splits]))
    return path


def choose_sparsity(estimator: Any, X: Any, companions: Mapping[str, Any]) -> float:
    """The largest price whose fit has components left and predicts hidden entries as well as the best.

    As well means within one standard error of the difference.
    """

    def scores(prices: Sequence[float], rank: int | None) -> list[tuple[Floats, int]]:
        settings = [{"sparsity": price, "max_components": rank} for price in prices]
        return _scores(estimator, settings, X, companions, 1, "sparsity='auto'")[0]

    ((free, rank),) = scores([0.0], estimator.max_components)
    # The evidence decides whether there are components, the price which loadings are zero.
    priced = zip(PRICES, scores(PRICES, rank) if len(free) else [], strict=False)
    found = {0.0: free} | {price: terms for price, (terms, k) in priced if k or not rank}
    best = max(found.values(), key=np.mean)

    def is_near(terms: Floats) -> bool:
        lost = best - terms
        return bool(lost.mean() <= lost.std() / np.sqrt(len(lost)))

    return max((price for price, terms in found.items() if is_near(terms)), default=0.0)


def _scores(
    estimator: Any,
    settings: Sequence[dict[str, Any]],
    X: Any,
    companions: Mapping[str, Any],
    n_splits: int,
    parameter: str,
) -> list[list[tuple[Floats, int]]]:
    """Log-likelihoods of the hidden entries and the dimension, for each split and each setting."""
    if check_data(X).is_distributed:
        raise TypeError(
            f"{parameter} is chosen by hidden entries, which a Dask array cannot have; X must be in this process. "
            "Pass X.compute(), or give a number."
        )

    def score(model: Any, hidden: HeldOut) -> tuple[Floats, int]:
        terms = model.entry_log_likelihood(hidden.table, *hidden.entries, hidden.values, **hidden.row_params)
        return np.asarray(terms), model.n_components_

    folds = hash_folds(X, _FOLDS, companions["sample_weight"])
    order = np.argsort([-len(fold.rows) for fold in folds], kind="stable")[:n_splits]
    models = [cold_clone(estimator).set_params(**each, verbose=0) for each in settings]
    given = {name: value for name, value in companions.items() if name != "entry_weight"}
    return cross_validate(models, X, [folds[fold] for fold in order], score=score, **given)
