"""Aligned draws as ArviZ InferenceData, and how well the chains agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Data
from anypca.models._bayes.points import Point
from anypca.solvers.nuts import import_sampler

_DIMS = {
    "scores": ["sample", "component"],
    "loadings": ["component", "feature"],
    "intercept": ["feature"],
    "coef": ["covariate", "feature"],
    "expected": ["entry"],
}


def to_inference_data(
    draws: Point,
    stats: Mapping[str, Any],
    features: Any,
    *,
    has_intercept: bool,
    more: Mapping[str, Floats] | None = None,
) -> Any:
    """Draws with named dimensions.

    Parameters
    ----------
    draws : Point
        Aligned: scores (s, n, k) and coefficients (s, p, m), chain after chain.
    stats : mapping of str to ndarray of shape (chains, draws)
        What is known of each draw: its log density ``lp``, and more if the sampler has more.
    features : array of shape (n_features,)
        Names of the columns.
    has_intercept : bool
        Whether the first fixed coefficient is the intercept.
    more : mapping of str to ndarray of shape (s, ...), optional
        Further variables.

    Returns
    -------
    arviz.InferenceData
        Group ``posterior`` with ``scores`` (chain, draw, sample, component), ``loadings`` (chain, draw, component,
        feature) and, where the model has them, ``intercept`` (chain, draw, feature) and ``coef`` (chain, draw,
        covariate, feature); group ``sample_stats``.
    """
    _, arviz = import_sampler()
    chains = stats["lp"].shape
    fixed = np.swapaxes(draws.fixed, -1, -2)
    variables = {"scores": draws.scores, "loadings": np.swapaxes(draws.loadings, -1, -2), **(more or {})}
    if has_intercept:
        variables["intercept"] = fixed[:, 0]
    if fixed.shape[1] > int(has_intercept):
        variables["coef"] = fixed[:, int(has_intercept) :]
    coords = {
        "sample": np.arange(draws.scores.shape[1]),
        "component": np.arange(draws.scores.shape[2]),
        "feature": features,
        "covariate": np.arange(fixed.shape[1] - int(has_intercept)),
    }
    return arviz.from_dict(
        posterior={name: values.reshape(*chains, *values.shape[1:]) for name, values in variables.items()},
        sample_stats=dict(stats),
        coords=coords,
        dims={name: _DIMS[name] for name in variables if name in _DIMS},
    )


def diagnose(inference_data: Any) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """R-hat and bulk effective sample size of each variable, entry by entry.

    Parameters
    ----------
    inference_data : arviz.InferenceData

    Returns
    -------
    r_hat, ess : dict of ndarray
        By variable, without the axes of chains and draws.
    """
    _, arviz = import_sampler()
    import xarray  # comes with arviz

    posterior = inference_data.posterior
    used = [name for name, values in posterior.items() if values.size]
    if posterior.sizes["chain"] == 1:  # its halves are compared instead
        half = posterior.sizes["draw"] // 2
        halves = [
            posterior.isel(draw=slice(a, a + half)).assign_coords(draw=np.arange(half)) for a in (0, half)
        ]
        posterior = xarray.concat([halves[0], halves[1].assign_coords(chain=[1])], dim="chain")
    # Chains that stand still at different places have an infinite R-hat.
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat, ess = arviz.rhat(posterior[used]), arviz.ess(posterior[used])
    return ({name: r_hat[name].values for name in used}, {name: ess[name].values for name in used})


def label_features(data: Data) -> Any:
    """Names of the columns of a table, or their numbers."""
    names = data.feature_names
    return np.arange(data.n_features) if names is None else np.asarray(names, dtype=object)
