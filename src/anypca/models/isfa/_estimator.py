"""Infinite sparse factor analysis as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from anypca._compat import StrOptions
from anypca._typing import Floats
from anypca.families import Family
from anypca.models._arguments import read_settings
from anypca.models._bayes.estimator import DrawnModel
from anypca.models._context import FitContext
from anypca.models._validation import AT_LEAST_ONE, POSITIVE
from anypca.models.isfa._fit import ISFAFit, fit_buffet
from anypca.models.isfa._sampler import Settings

# Components of the fit that estimates open dispersions, because the number of factors is unknown before sampling.
_DISPERSION_COMPONENTS = 3


@dataclass(eq=False, repr=False)
class ISFA(DrawnModel):
    r"""Infinite sparse factor analysis with any family; samples the number of factors.

    The predictor is :math:`\eta = b + (Z \circ V) T` with a binary mask Z from an Indian buffet process. Each row uses
    some of an unbounded number of factors, with scores :math:`v_{ik} \sim N(0, 1)`. The loadings of the factors are
    :math:`t_{kj} \sim N(0, 1 / \tau)`. With ``mask="loadings"`` the mask applies to columns, and scores are normal.

    Parameters
    ----------
    family : str, Family, list or dict, default="auto"
        As in `EPCA`.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, such as 0.1 for one decimal: one for all, one per column, or a dict from
        column to step. None finds it from the values.
    mask : {"scores", "loadings"}, default="scores"
        Whether the mask selects factors for each row, or for each column.
    sampler : {"infinite", "finite"}, default="infinite"
        ``"infinite"``: the Indian buffet process. ``"finite"``: its approximation with ``max_factors`` factors.
    max_factors : int, default=10
        Number of factors of the finite sampler.
    concentration : float or None, default=None
        :math:`\alpha`: a row uses that many factors on average. None: drawn, from Gamma(1, 1).
    fit_intercept : bool, default=True
        Whether b is where the columns' means are; it is not drawn. The published model has none.
    dispersion : "auto" or float, default="auto"
        Of families that leave it open; ``"auto"`` takes the estimate of `EPCA` with three components.
    n_draws, n_tune, n_chains : int, default=150, 150, 2
        Draws that each chain keeps, draws before that it does not keep, and number of chains. A draw is five sweeps.
    n_jobs : int or None, default=None
        Number of threads for new rows; None means all cores.
    verbose : int, default=0
        If positive, log each chain to the logger ``anypca``.
    random_state : int, RandomState or None, default=0
        Seed of the draws.

    Attributes
    ----------
    n_components_ : int
        Most frequent number of factors that at least 5 % of the rows (of the columns with ``mask="loadings"``) use.
    n_factors_ : ndarray of shape (n_chains, n_draws)
        Numbers of factors as they were drawn. Rows get factors of their own that come and go, hence they are larger.
    n_used_ : ndarray of shape (n_chains, n_draws)
        Numbers of factors that 5 % use.
    components_ : ndarray of shape (n_components_, n_features)
        Posterior means of the loadings over the draws that have the factor. With ``mask="loadings"`` they are 0 where
        a column more likely does not take part.
    components_std_ : ndarray of shape (n_components_, n_features)
    inclusion_ : ndarray of shape (n_components_, n_samples) or (n_components_, n_features)
        Posterior probability that a row uses a factor; with ``mask="loadings"``, that a column does.
    intercept_, dispersion_ : ndarray of shape (n_features,)
    explained_deviance_ratio_ : ndarray of shape (n_components_,)
        Share of a column's deviance that each component explains, mean over columns, at the posterior means.
    posterior_ : arviz.InferenceData or xarray.DataTree
        All draws: ``scores`` and ``loadings`` of the components, ``expected`` values of up to 200 entries; of each
        draw the log-likelihood (``lp``), ``n_factors`` and ``n_used``.
    r_hat_, ess_ : dict of ndarray
        R-hat and effective sample sizes; convergence is judged by the R-hat of ``expected``.
    family_, family_report_, resolution_, layout_, n_features_in_, converged_, status_
        As in `EPCA`; converged means that the chains agree.
    objective_trace_ : ndarray of shape (n_draws,)
        Log-likelihood without constants of the draws, the mean of the chains; not monotone.
    n_iter_ : int
        Draws of each chain.

    See Also
    --------
    BEPCA : every row uses every component.
    SPCA : loadings that are mostly zero.

    Notes
    -----
    Given a likelihood that is quadratic in the predictor, mask and value are drawn together. Bernoulli, binomial and
    negative binomial columns become so by Polya-Gamma weights, gaussian ones are; for other families the quadratic is
    an expansion, and its draws are accepted or not.

    Factors of a draw are matched to the factors of the most likely draw with the right number, by their part of the
    predictor. Predictions for rows are averages over 64 draws.

    References
    ----------
    D. Knowles, Z. Ghahramani (2007). Infinite sparse factor analysis and infinite independent components analysis. ICA.
    D. Knowles, Z. Ghahramani (2011). Nonparametric Bayesian sparse factor models. Annals of Applied Statistics 5.

    Examples
    --------
    >>> import warnings
    >>> from anypca import ISFA
    >>> from anypca.datasets import make_prototype_bits
    >>> X = make_prototype_bits(random_state=1).X
    >>> model = ISFA(family="bernoulli", fit_intercept=False, n_chains=1, n_tune=60, n_draws=40)
    >>> with warnings.catch_warnings(action="ignore"):  # so few draws of a chain do not agree
    ...     model = model.fit(X)
    >>> model.n_components_
    3
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mask": [StrOptions({"scores", "loadings"})],
        "sampler": [StrOptions({"infinite", "finite"})],
        "max_factors": [AT_LEAST_ONE],
        "concentration": [None, POSITIVE],
    }

    _: KW_ONLY
    family: Any = "auto"
    resolution: Any = None
    mask: str = "scores"
    sampler: str = "infinite"
    max_factors: int = 10
    concentration: float | None = None
    fit_intercept: bool = True
    dispersion: str | float = "auto"
    n_draws: int = 150
    n_tune: int = 150
    n_chains: int = 2
    random_state: Any = 0

    def _dispersion_rank(self, session: FitContext) -> int:
        return max(min(_DISPERSION_COMPONENTS, session.data.n_samples - 1, session.data.n_features - 1), 0)

    def _draw(self, session: FitContext, family: Family, dispersion: Floats) -> ISFAFit:
        return fit_buffet(session, family, dispersion, read_settings(Settings, self))

    def _store(self, fit: ISFAFit) -> None:
        super()._store(fit)
        self.components_, self.components_std_ = fit.components, fit.deviations
        self.n_components_ = len(fit.components)
        self.inclusion_ = fit.inclusion
        self.intercept_, self.dispersion_ = fit.intercept, fit.dispersion
        self.explained_variance_ = np.ones(self.n_components_)
        self.n_factors_, self.n_used_ = fit.n_factors, fit.n_used

    @property
    def _has_sparse_loadings(self) -> bool:  # type: ignore[override]
        return self.mask == "loadings"
