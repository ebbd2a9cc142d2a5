"""Bayesian exponential-family PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from anypca._compat import StrOptions
from anypca._typing import Floats
from anypca.families import Family
from anypca.models._arguments import check_rank
from anypca.models._bayes.estimator import DrawnModel
from anypca.models._context import FitContext
from anypca.models._validation import POSITIVE
from anypca.models.bepca._fit import BEPCAFit, fit_factors


@dataclass(eq=False, repr=False)
class BEPCA(DrawnModel):
    r"""Bayesian exponential-family PCA: loadings, scores and their distribution by draws from the posterior.

    The predictor of an entry is :math:`\eta_{ij} = b_j + \sum_k v_{ik} t_{jk}` with scores
    :math:`v_i \sim N(m, \mathrm{diag}(s))`, :math:`m_k \sim N(0, 1)`, :math:`s_k \sim` inverse gamma(a, b), and the
    conjugate prior of the family for each loading: :math:`\nu` observations of a value :math:`x_0`. Nothing is
    optimised, and predictions for rows are averages over draws.

    Parameters
    ----------
    n_components : int, default=2
        Number of components; those too many do little harm, since they are averaged out. See ``bic_by_rank_``.
    family : str, Family, list or dict, default="auto"
        As in `EPCA`.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, such as 0.1 for one decimal: one for all, one per column, or a dict from
        column to step. None finds it from the values.
    prior_weight : float, default=4.0
        :math:`\nu`, the number of observations that equals the prior of a loading.
    prior_value : float or None, default=None
        :math:`x_0`, their value; None is the mean of an entry whose predictor is 0, which favours no sign. With the
        names of the literature :math:`\lambda = \nu x_0`.
    variance_shape, variance_rate : float, default=10.0, 2.5
        a and b of the prior of the scores' variances.
    fit_intercept : bool, default=True
        The published model has none. The prior of an intercept is one observation at the mean of its column.
    dispersion : "auto" or float, default="auto"
        Of families that leave it open; ``"auto"`` takes the estimate of `EPCA` with as many components.
    sampler : {"auto", "gibbs", "nuts"}, default="auto"
        ``"gibbs"``: exact conditional draws with Polya-Gamma weights, for tables of bernoulli, binomial, negative
        binomial and gaussian columns. ``"nuts"``: the No-U-Turn sampler on the same density, for any family.
        ``"auto"``: the first where it is possible.
    n_draws, n_tune, n_chains : int, default=500, 250, 4
        Draws that each chain keeps, draws before that it does not keep, and number of chains. A draw is two sweeps of
        the Gibbs sampler.
    n_jobs : int or None, default=None
        Number of threads for new rows; None means all cores.
    verbose : int, default=0
        If positive, log the progress to the logger ``anypca``.
    random_state : int, RandomState or None, default=0
        Seed of the draws.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Posterior means of the loadings after alignment; scores have unit mean square in each draw.
    components_std_ : ndarray of shape (n_components, n_features)
        Posterior standard deviations of the loadings.
    intercept_ : ndarray of shape (n_features,)
        Posterior means of the intercepts, with the scores' means moved there; zeros without an intercept.
    posterior_ : arviz.InferenceData or xarray.DataTree
        All draws: ``scores``, ``loadings`` and ``intercept`` aligned, and ``expected``, the means of up to 200 entries
        spread over the table, which do not depend on latent coordinates.
    r_hat_, ess_ : dict of ndarray
        R-hat and effective sample size of each variable. Components that carry nothing have no axes of their own: their
        R-hat may be large. Convergence is judged by the R-hat of ``expected``.
    bic_by_rank_ : dict of int to float
        A BIC, larger is better, of the number of dimensions of the mean predictor without intercept.
    rank_ : int
        That with the largest ``bic_by_rank_``.
    dispersion_ : ndarray of shape (n_features,)
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Share of a column's deviance that each component explains, mean over columns, at the posterior means.
    explained_variance_ : ndarray of shape (n_components,)
        Ones: the mean square of the scores.
    n_components_, family_, family_report_, resolution_, layout_, n_features_in_, converged_, status_
        As in `EPCA`; converged means that the chains agree.
    objective_trace_ : ndarray of shape (n_draws,)
        Log density of the draws, the mean of the chains; not monotone.
    n_iter_ : int
        Draws of each chain.

    See Also
    --------
    SePCA : takes minutes where sampling takes hours.
    ISFA : factors that rows use or do not.

    Notes
    -----
    ``transform``, ``impute``, ``inverse_transform``, ``entry_posterior``, ``entry_log_likelihood``, ``score_samples``
    and ``sample`` average over 64 of the draws (all if there are fewer). Under each the posterior of a row's scores is
    integrated by importance sampling from the normal distribution at its mode.

    The scale of loadings against scores is held by the priors alone, and draws differ by rotations that hardly change
    the predictor. Draws are therefore brought to scores of unit mean square and turned to a common orientation.

    References
    ----------
    S. Mohamed, K. Heller, Z. Ghahramani (2008). Bayesian exponential family PCA. NIPS.
    N. Polson, J. Scott, J. Windle (2013). Bayesian inference for logistic models using Polya-Gamma latent variables.
    JASA 108.

    Examples
    --------
    >>> from anypca import BEPCA
    >>> from anypca.datasets import make_prototype_bits
    >>> X = make_prototype_bits(missing=0.1, random_state=0).X
    >>> model = BEPCA(5, family="bernoulli", fit_intercept=False, n_chains=2).fit(X)
    >>> model.rank_
    3
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "prior_weight": [POSITIVE],
        "prior_value": [None, Real],
        "variance_shape": [POSITIVE],
        "variance_rate": [POSITIVE],
        "sampler": [StrOptions({"auto", "gibbs", "nuts"})],
    }

    n_components: int = 2
    _: KW_ONLY
    family: Any = "auto"
    resolution: Any = None
    prior_weight: float = 4.0
    prior_value: float | None = None
    variance_shape: float = 10.0
    variance_rate: float = 2.5
    fit_intercept: bool = True
    dispersion: str | float = "auto"
    sampler: str = "auto"
    n_draws: int = 500
    n_tune: int = 250
    n_chains: int = 4
    random_state: Any = 0

    def _dispersion_rank(self, session: FitContext) -> int:
        check_rank(self.n_components, session.data)
        return self.n_components

    def _draw(self, session: FitContext, family: Family, dispersion: Floats) -> BEPCAFit:
        return fit_factors(session, family, dispersion, self)

    def _store(self, fit: BEPCAFit) -> None:
        super()._store(fit)
        found = fit.coefficients
        self.components_, self.components_std_ = found.loadings.T.copy(), fit.loading_std.T.copy()
        self.n_components_ = len(self.components_)
        self.intercept_ = found.fixed[:, 0].copy() if self.fit_intercept else np.zeros(len(found.fixed))
        self.dispersion_ = found.dispersion
        self.explained_variance_ = fit.score_variance
        self.bic_by_rank_ = dict(fit.rank_bic)
        self.rank_ = max(self.bic_by_rank_, key=lambda rank: self.bic_by_rank_[rank])
