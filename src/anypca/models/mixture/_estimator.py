"""A mixture of any model with a likelihood, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from anypca._compat import Interval, StrOptions
from anypca._typing import Floats, Ints
from anypca.exceptions import ConvergenceWarning
from anypca.families.mixed import known_dispersion
from anypca.models._arguments import check_n_samples, make_generator
from anypca.models.mixture._em import MixtureProblem, Run

# Steps after which starts are compared; the best one is continued.
_COMPARE_STEPS = 5


class MixtureOf(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Mixture of latent variable models: each group of rows has its own means, loadings and noise.

    The density of a row is :math:`\sum_g \pi_g\, p(x \mid \theta_g)` with the likelihood of any estimator of this
    package that takes ``sample_weight``. ``MixtureOf(PPCA(2), 3)`` is the mixture of probabilistic PCA of Tipping and
    Bishop; `EPCA` and `PLNPCA` extend it to counts, categories and mixed columns with missing entries.

    Parameters
    ----------
    estimator : estimator
        Model of each group, with ``score_samples`` and ``sample_weight``.
    n_groups : int or "auto", default=2
        Number of groups. ``"auto"`` increases it from 1 while BIC improves, up to ``max_groups``.
    max_groups : int, default=8
        Largest number of groups that ``"auto"`` tries.
    n_init : int, default=5
        Number of starts: k-means on the scores of one common fit, with different seeds.
    max_iter : int, default=200
        Largest number of EM steps.
    tol : float, default=1e-3
        EM stops if two steps in a row raise the mean log-likelihood of the rows by less.
    random_state : int, RandomState instance, Generator or None, default=0
        Seed of the starts.

    Attributes
    ----------
    weights_ : ndarray of shape (n_groups_,)
        Shares of the groups, in decreasing order.
    estimators_ : list of estimators
        The fitted models of the groups.
    n_groups_ : int
        Number of groups. Groups with hardly more rows than components are removed during the fit.
    bic_by_n_groups_ : dict of int to float
        BIC of each number of groups that was fitted; lower is better.
    n_parameters_ : int
        Number of free parameters.
    objective_trace_ : ndarray of shape (n_iter_,)
        Log-likelihood of the training rows after each step, never decreasing.
    n_components_ : int
        Number of columns of ``transform``: the components of all groups.
    converged_ : bool
    n_iter_, n_features_in_ : int

    See Also
    --------
    PPCA : the model of a group of real-valued rows.
    EPCA : the model of a group of rows with columns of any kind.

    Notes
    -----
    EM alternates between the probabilities of the groups given the rows and fits of all models with these probabilities
    as row weights. Families and recording steps are chosen once, on all rows. The best state is kept: if the likelihood
    of the model is an approximation, a step may lower it. Starts are k-means on the scores of one model of all rows,
    with as many components as the means and components of all groups span.

    References
    ----------
    M. Tipping, C. Bishop (1999). Mixtures of probabilistic principal component analyzers. Neural Computation 11.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA, MixtureOf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) @ rng.normal(size=(1, 6)) + 0.2 * rng.normal(size=(200, 6))
    >>> X[:100] += 3.0
    >>> model = MixtureOf(PPCA(1), 2).fit(X)
    >>> sorted(np.bincount(model.predict(X)).tolist())
    [100, 100]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "n_groups": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_groups": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": "no_validation",
    }

    def __init__(
        self,
        estimator: Any,
        n_groups: int | str = 2,
        *,
        max_groups: int = 8,
        n_init: int = 5,
        max_iter: int = 200,
        tol: float = 1e-3,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.n_groups = n_groups
        self.max_groups = max_groups
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN is a missing entry if the model of the groups allows it.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            A weight of 2 has the effect of repeating the row.
        offset, covariates : as in ``fit`` of the estimator

        Returns
        -------
        self
        """
        self._validate_params()
        if not (
            hasattr(self.estimator, "score_samples") and has_fit_parameter(self.estimator, "sample_weight")
        ):
            raise TypeError(
                f"estimator must have score_samples and take sample_weight; got {type(self.estimator).__name__}. "
                "Use PPCA, EPCA, PLNPCA, SePCA or PiecewisePCA."
            )
        row_params = _given(offset=offset, covariates=covariates)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        common = clone(self.estimator).fit(X, sample_weight=sample_weight, **row_params)
        # A column has an intercept and a loading for each component; one more row determines the noise.
        least_rows = common.n_components_ + 2.0
        problem = MixtureProblem(X, _settled(common), weight, row_params, least_rows)
        numbers = range(1, self.max_groups + 1) if self.n_groups == "auto" else [int(self.n_groups)]
        self.bic_by_n_groups_: dict[int, float] = {}
        best: Run | None = None
        for number in numbers:
            run = self._fit_groups(problem, common, number)
            n_rows = len(run.state.log_joint) if weight is None else float(weight.sum())
            bic = -2.0 * run.state.value + _count_parameters(run) * float(np.log(n_rows))
            if best is not None and (bic >= min(self.bic_by_n_groups_.values()) or run.n_lost):
                self.bic_by_n_groups_[number] = bic
                break
            self.bic_by_n_groups_[number], best = bic, run
        assert best is not None
        self._store(best, common)
        return self

    def _fit_groups(self, problem: MixtureProblem, common: Any, n_groups: int) -> Run:
        """The best of some starts after a few steps, continued."""
        rng, scores = make_generator(self.random_state), self._start_scores(problem, common, n_groups)
        runs = []
        for number in range(self.n_init if n_groups > 1 else 1):
            # Every other start stops after one step from random rows: groups may differ in more than their means.
            means = KMeans(
                n_groups,
                init="random" if number % 2 else "k-means++",
                max_iter=1 if number % 2 else 300,
                n_init=1,
                random_state=int(rng.integers(2**31)),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                labels = means.fit(scores, sample_weight=problem.weight).labels_
            start = problem.start(np.eye(n_groups)[labels])
            runs.append(problem.run(start, _COMPARE_STEPS, self.tol))
        best = max(runs, key=lambda run: run.state.value)
        return problem.run(best, self.max_iter - len(best.trace), self.tol)

    @staticmethod
    def _start_scores(problem: MixtureProblem, common: Any, n_groups: int) -> Floats:
        """Scores of one model of all rows with as many components as the means and components of all groups span."""
        k, n_columns = int(common.n_components_), common.n_features_in_
        wanted = getattr(common, "n_components", None)
        if n_groups == 1 or not isinstance(wanted, Integral):
            return np.asarray(common.transform(problem.X, **problem.row_params))
        most = max(min(n_groups * (k + 1) - 1, n_columns - 1), k)
        wide = clone(problem.model).set_params(n_components=most)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            wide.fit(problem.X, sample_weight=problem.weight, **problem.row_params)
        return np.asarray(wide.transform(problem.X, **problem.row_params))

    def _store(self, run: Run, common: Any) -> None:
        order = np.argsort(-run.state.weights, kind="stable")
        self.weights_ = run.state.weights[order]
        self.estimators_ = [run.state.estimators[g] for g in order]
        self.n_groups_, self.n_parameters_ = len(order), _count_parameters(run)
        self.n_components_ = sum(int(model.n_components_) for model in self.estimators_)
        self.objective_trace_, self.n_iter_ = np.array(run.trace), len(run.trace)
        self.converged_, self.n_features_in_ = run.converged, common.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(common, "feature_names_in_"):
            self.feature_names_in_ = common.feature_names_in_
        if run.n_lost:
            warnings.warn(
                f"MixtureOf: {run.n_lost} group(s) had hardly more rows than components and were removed; "
                f"{self.n_groups_} are left. Use fewer groups.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not run.converged:
            warnings.warn(
                f"MixtureOf: stopped at max_iter={self.max_iter} before the log-likelihood settled; increase max_iter "
                "or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _log_joint(self, X: Any, row_params: dict[str, Any]) -> Floats:
        """Log density of each row and each group (n_samples, n_groups_)."""
        check_is_fitted(self)
        columns = [model.score_samples(X, **row_params) for model in self.estimators_]
        return np.asarray(np.column_stack(columns) + np.log(self.weights_))

    def score_samples(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Log-likelihood of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``, for these rows

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(logsumexp(self._log_joint(X, _given(offset=offset, covariates=covariates)), axis=1))

    def score(self, X: Any, y: Any = None, **row_params: Any) -> float:
        """Mean log-likelihood of the rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Ignored.
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X, **row_params)))

    def bic(self, X: Any, **row_params: Any) -> float:
        """Bayesian information criterion of a table; lower is better.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        float
        """
        values = self.score_samples(X, **row_params)
        return float(-2.0 * values.sum() + self.n_parameters_ * np.log(len(values)))

    def predict_proba(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Probabilities of the groups given each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``, for these rows

        Returns
        -------
        ndarray of shape (n_samples, n_groups_)
        """
        log_joint = self._log_joint(X, _given(offset=offset, covariates=covariates))
        return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))

    def predict(self, X: Any, **row_params: Any) -> Ints:
        """The most probable group of each row, counted from 0.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(self.predict_proba(X, **row_params).argmax(axis=1))

    def transform(self, X: Any, **row_params: Any) -> Floats:
        """Scores under each group times the probability of the group, side by side.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            With one group, the scores of its model.
        """
        shares = self.predict_proba(X, **row_params).T
        parts = zip(shares, self.estimators_, strict=True)
        return np.hstack(
            [share[:, None] * np.asarray(one.transform(X, **row_params)) for share, one in parts]
        )

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, then transform the same rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Ignored.
        **fit_params
            Further arguments of ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        row_params = {name: value for name, value in fit_params.items() if name != "sample_weight"}
        return self.fit(X, y, **fit_params).transform(X, **row_params)

    def impute(self, X: Any, **row_params: Any) -> Any:
        """The table with missing entries replaced by their expectations given the observed entries of the row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        ndarray of shape (n_samples, n_features), or data frame
            A frame has the values of the most probable group, an array the average over the groups.
        """
        shares = self.predict_proba(X, **row_params)
        tables = [model.impute(X, **row_params) for model in self.estimators_]
        if isinstance(tables[0], np.ndarray):
            return np.einsum("ig,gij->ij", shares, np.array(tables))
        return _choose_rows(tables, shares.argmax(axis=1))

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """Draw rows: a group, then a row of its model.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_features), or data frame
        """
        check_is_fitted(self)
        rng, n = make_generator(random_state), check_n_samples(n_samples)
        groups = rng.choice(self.n_groups_, size=n, p=self.weights_ / self.weights_.sum())
        return _choose_rows([model.sample(n, random_state=rng) for model in self.estimators_], groups)


def _given(**values: Any) -> dict[str, Any]:
    """Arguments other than None."""
    return {name: value for name, value in values.items() if value is not None}


def _settled(common: Any) -> Any:
    """A copy that is not fitted, with the families and recording steps of a fitted model, and warm starts if it can."""
    params, settled = common.get_params(deep=False), clone(common)
    chosen: dict[str, Any] = {}
    if "family" in params:
        chosen["family"] = common.layout_.settled(common.family_)
    if "resolution" in params:
        chosen["resolution"] = common.resolution_
    if "warm_start" in params:
        chosen["warm_start"] = True
    return settled.set_params(**chosen)


def _count_parameters(run: Run) -> int:
    """Free parameters of all groups and of their shares."""
    counts = [_count_of(model) for model in run.state.estimators]
    return sum(counts) + len(counts) - 1


def _count_of(model: Any) -> int:
    """Free parameters of a fitted model: intercepts, coefficients, loadings without rotations, open dispersions."""
    if hasattr(model, "n_parameters_"):
        return int(model.n_parameters_)
    k, n_columns = model.components_.shape
    count = n_columns * (k + 1) - k * (k - 1) // 2 + np.size(getattr(model, "coef_", ()))
    if not hasattr(model, "dispersion_"):
        return int(count) + 1
    rows = model._row_model()
    open_columns = np.isnan(known_dispersion(rows.family, len(rows.dispersion)))
    return int(count) + len(np.unique(np.asarray(rows.dispersion)[open_columns]))


def _choose_rows(tables: list[Any], groups: Ints) -> Any:
    """Each row from the table of its group."""
    places = [np.flatnonzero(groups == g) for g in range(len(tables))]
    order = np.argsort(np.concatenate(places), kind="stable")
    if isinstance(tables[0], np.ndarray):
        return np.concatenate([table[rows] for table, rows in zip(tables, places, strict=True)])[order]
    frames = [nw.from_native(table)[rows] for table, rows in zip(tables, places, strict=True)]
    return nw.to_native(nw.concat(frames)[order])
