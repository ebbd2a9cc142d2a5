"""Settings that hidden entries choose: the weight of a joint mode, and the price of a non-zero loading."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import check_data
from anypca.engine.entries import hide_entries, take_entries
from anypca.exceptions import ConvergenceWarning
from anypca.models._warm import cold_clone

#: Prices tried besides none, each twice the last. A loading stays if its square exceeds 8 prices of its variance: up to
#: 1/2 no loading becomes zero, and a price of 8 keeps loadings of more than 8 standard errors only.
PRICES = (1.0, 2.0, 4.0, 8.0)
# Share of the entries that is hidden, and how often for a weight: together its splits hide a third of all entries.
_HIDDEN_SHARE, _SPLITS = 0.1, 4


@dataclass(frozen=True, eq=False)
class HiddenEntries:
    """A table without some of its entries, and these."""

    table: Any
    """Of the kind of the table that was given, NaN at hidden entries."""
    rows: Ints
    columns: Ints
    values: Floats

    @classmethod
    def of(cls, X: Any, seed: int, parameter: str) -> HiddenEntries:
        """Hide a tenth of the observed entries; ``parameter`` is what they choose, for the error message."""
        data, rng = check_data(X), np.random.default_rng(seed)
        if data.is_distributed:
            raise TypeError(
                f"{parameter} is chosen by hidden entries, which a Dask array cannot have; X must be in this process. "
                "Pass X.compute(), or give a number."
            )
        places = []
        for block in data.blocks:
            table = block.read()
            observed = np.ones(table.x.shape, dtype=bool) if table.observed is None else table.observed
            picked = np.argwhere(observed & (rng.random(table.x.shape) < _HIDDEN_SHARE))
            picked[:, 0] += block.start
            places.append(picked)
        row, column = np.concatenate(places).T
        return cls(hide_entries(X, row, column), row, column, take_entries(X, row, column))

    def log_likelihood(self, model: Any, companions: Mapping[str, Any]) -> Floats:
        """Log-likelihood of each hidden entry under a model that is fitted to the others, shape (n_entries,)."""
        rows = {name: companions[name] for name in ("offset", "covariates")}
        with warnings.catch_warnings():
            # A trial that stopped early predicts as well as it can; the fit that is kept reports how it ended.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self.table, sample_weight=companions["sample_weight"], **rows)
        return np.asarray(
            model.entry_log_likelihood(self.table, self.rows, self.columns, self.values, **rows)
        )


def choose_weight(
    estimator: Any, X: Any, weights: Sequence[float], companions: Mapping[str, Any]
) -> dict[float, tuple[float, int]]:
    """For each weight nu the mean log-likelihood of a hidden entry, and the median dimension of its fits."""
    tables = [HiddenEntries.of(X, number, "nu_path") for number in range(_SPLITS)]
    tables = [hidden for hidden in tables if len(hidden.rows)] or tables[:1]
    # A price that is to be chosen too is chosen later, at the weight that is taken.
    price = 0.0 if isinstance(estimator.sparsity, str) else estimator.sparsity
    path = {}
    for nu in weights:
        inference = replace(estimator.mode_options, nu=nu, nu_path=None)
        models = [
            cold_clone(estimator).set_params(inference=inference, sparsity=price, verbose=0) for _ in tables
        ]
        pairs = zip(tables, models, strict=True)
        likelihood = np.concatenate([hidden.log_likelihood(model, companions) for hidden, model in pairs])
        mean = float(likelihood.sum() / max(len(likelihood), 1))
        path[nu] = mean, int(np.median([model.n_components_ for model in models]))
    return path


def choose_sparsity(estimator: Any, X: Any, companions: Mapping[str, Any]) -> float:
    """The largest price whose fit has components left and predicts hidden entries as well as the best.

    As well means within one standard error of the difference.
    """
    hidden = HiddenEntries.of(X, _SPLITS, "sparsity='auto'")
    if not len(hidden.rows):
        return 0.0

    def losses(price: float, rank: int | None) -> tuple[Floats, int]:
        model = cold_clone(estimator).set_params(sparsity=price, max_components=rank, verbose=0)
        return -hidden.log_likelihood(model, companions), model.n_components_

    free, rank = losses(0.0, estimator.max_components)
    found = {0.0: free}
    for price in PRICES:
        loss, n_components = losses(price, rank)
        # The evidence decides whether there are components, the price which loadings are zero.
        if n_components or not rank:
            found[price] = loss
    best = min(found.values(), key=np.mean)

    def is_near(loss: Floats) -> bool:
        excess = loss - best
        return bool(excess.mean() <= excess.std() / np.sqrt(len(excess)))

    return max(price for price, loss in found.items() if is_near(loss))
