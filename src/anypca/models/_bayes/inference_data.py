"""Aligned draws as ArviZ InferenceData, and how well the chains agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.models._bayes.points import Point
from anypca.solvers.nuts import Draws, import_sampler

_DIMS = {
    "scores": ["sample", "component"],
    "loadings": ["component", "feature"],
    "intercept": ["feature"],
    "coef": ["covariate", "feature"],
}


def to_inference_data(draws: Point, found: Draws, features: Any, *, has_intercept: bool) -> Any:
    """Draws with named dimensions.

    Parameters
    ----------
    draws : Point
        Aligned: scores (s, n, k) and coefficients (s, p, m), chain after chain.
    found : Draws
        The run they come from.
    features : array of shape (n_features,)
        Names of the columns.
    has_intercept : bool
        Whether the first fixed coefficient is the intercept.

    Returns
    -------
    arviz.InferenceData
        Group ``posterior`` with ``scores`` (chain, draw, sample, component), ``loadings`` (chain, draw, component,
        feature) and, where the model has them, ``intercept`` (chain, draw, feature) and ``coef`` (chain, draw,
        covariate, feature); group ``sample_stats`` with ``lp``, ``diverging`` and ``n_steps``.
    """
    _, arviz = import_sampler()
    chains = found.log_density.shape
    fixed = np.swapaxes(draws.fixed, -1, -2)
    variables = {"scores": draws.scores, "loadings": np.swapaxes(draws.loadings, -1, -2)}
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
        sample_stats={"lp": found.log_density, "diverging": found.diverging, "n_steps": found.n_steps},
        coords=coords,
        dims={name: _DIMS[name] for name in variables},
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
    r_hat, ess = arviz.rhat(posterior[used]), arviz.ess(posterior[used])
    return ({name: r_hat[name].values for name in used}, {name: ess[name].values for name in used})
