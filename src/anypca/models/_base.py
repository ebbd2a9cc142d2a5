"""Base class of all estimators of the package."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from anypca._compat import (
    callback_methods,
    check_features,
    fit_callbacks,
)
from anypca._typing import Floats
from anypca.columns import FamilyChoice, Layout, Nominal, choose_families, encode, find_labels, is_nonnegative
from anypca.columns.forms import Form
from anypca.engine import Block, Data, Executor, check_data, check_finite, check_matrix, executor_for
from anypca.engine.streams import header_of
from anypca.families import Mixed
from anypca.models._arguments import make_generator
from anypca.models._block_view import BlockView, refuse_missing
from anypca.models._checkpoint import checkpointed
from anypca.models._context import FitContext, lay_out, open_context
from anypca.models._covariates import Covariates, encode_covariates, warn_separated
from anypca.models._description import Description, describe
from anypca.models._output import to_named_output, to_output_frame
from anypca.models._rotation import Rotation, rotate
from anypca.models._row_model import RowModel, at_scores, log_steps
from anypca.models._validation import Estimator
from anypca.models._warm import start_from_last

Found = TypeVar("Found")


def for_rows(fit_params: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments of ``fit`` that ``transform`` takes too."""
    names = ("offset", "covariates", "entry_weight")
    return {name: fit_params[name] for name in names if fit_params.get(name) is not None}


class LatentModel(Estimator, TransformerMixin, BaseEstimator):
    """Base class of the estimators: validation, names, tags, progress, methods that follow from others.

    A subclass is a dataclass whose fields are its parameters; it has ``max_iter``, ``tol`` and ``random_state`` where
    they are meaningful. It defines ``_parameter_constraints`` and ``fit``, and sets ``components_`` and
    ``n_components_``. Methods for rows are inherited from `anypca.models._row_methods`.

    Attributes
    ----------
    layout_ : Layout
        Maps columns of the table to columns of the model. Loadings and other arrays over columns have one entry for
        each column of the table, 0 if it is dropped. If a column is encoded as several, they have one entry for each
        column of the model, with the names ``layout_.names``.
    """

    layout_: Layout
    intercept_: Floats
    resolution_: Floats
    """Step with which each column is recorded, shape (n_features,), where entries have a distribution."""
    _covariates: Covariates

    #: Whether ``fit`` and ``transform`` take ``entry_weight``.
    _takes_entry_weight: ClassVar[bool] = False
    #: Whether the training table must be complete.
    _needs_every_entry: ClassVar[bool] = False
    #: Fitted arrays with numbers of the columns, and the axis of the columns.
    _column_attributes: ClassVar[Mapping[str, int]] = {
        "components_": 1,
        "components_std_": 1,
        "inclusion_": 1,
        "piece_loadings_": 1,
        "piece_means_": 1,
        "intercept_": 0,
        "coef_": 0,
        "coef_std_": 0,
        "dispersion_": 0,
    }
    #: Whether loadings may be exactly 0.
    _has_sparse_loadings: bool | property = False
    # Assigned instead of inherited from mixins.
    get_feature_names_out = ClassNamePrefixFeaturesOutMixin.get_feature_names_out
    set_callbacks, _init_callback_context = callback_methods
    # Of models that have no such parameter: those that do not iterate, or do not draw.
    max_iter: int = 1
    tol: float = 0.0
    random_state: Any = None
    # Default of models without this parameter: steps are inferred from the values.
    resolution: Any = None
    # Default of models without this parameter; most of them do not accept covariates.
    coef_scale: float | None = 2.0

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit the model and return the scores: ``fit(X, ...).transform(X, ...)``.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Ignored.
        **fit_params : dict
            Further arguments of ``fit``; arguments for rows or entries are also passed to ``transform``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y, **fit_params).transform(X, **for_rows(fit_params))

    def score(self, X: Any, y: Any = None, **score_params: Any) -> float:
        """Mean log-likelihood of the rows, comparable in the same cases as ``score_samples``.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Ignored.
        **score_params : dict
            Further arguments of ``score_samples``.

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X, **score_params)))

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any,
        *,
        offset: Any = None,
        covariates: Any = None,
        row_names: Sequence[Any] | None = None,
        metadata: Any = None,
        title: str | None = None,
    ) -> Self:
        """Write one self-contained HTML file on the fitted model and a table.

        The report describes the table, the number of components and its choice, the loadings, the scores, the quality
        and convergence of the fit, and how to reproduce it. Requires jinja2 (``anypca[report]``).

        Parameters
        ----------
        path : path-like
            Where to write; the file appears whole or not at all.
        X : table of shape (n_samples, n_features)
            The rows to report on, usually the training rows.
        offset, covariates : as in ``fit``
        row_names : sequence of length n_samples, optional
            Names of the rows; the index of a pandas frame when not given.
        metadata : data frame or dict of str to sequences of length n_samples, optional
            Further columns to colour the rows by.
        title : str, optional

        Returns
        -------
        self
        """
        # By name and when called: the report is built on the models, which therefore must not import it, and it
        # needs jinja2, which is optional. A method all the same, since it is found where users look for it.
        write_report = importlib.import_module("anypca.report").write_report
        companions = {"offset": offset, "covariates": covariates}
        write_report(self, path, X, **companions, row_names=row_names, metadata=metadata, title=title)
        return self

    def _row_model(self) -> RowModel[Any]:
        """The fitted model, for rows."""
        raise NotImplementedError

    @property
    def _steps(self) -> Floats:
        """The steps with which the columns of the model are recorded, (n_columns,)."""
        return self.resolution_[self.layout_.sources]

    @property
    def _description(self) -> dict[str, Any]:
        """Fields of `describe` that neither attributes nor signatures show."""
        kind = self._row_model().likelihood if self.__sklearn_is_fitted__() else None
        return {"likelihood": kind, "has_sparse_loadings": self._has_sparse_loadings}

    def describe(self) -> Description:
        """Describe the model's capabilities and, after a fit, its results.

        Returns
        -------
        Description
        """
        return describe(self)

    def transform(
        self, X: Any, *, offset: Any = None, covariates: Any = None, entry_weight: Any = None
    ) -> Any:
        """Scores of rows under the fitted model, each row solved to its own convergence.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates, entry_weight : as in ``fit``, for these rows

        Returns
        -------
        array of shape (n_samples, n_components)
            A Dask array, not yet computed, if X is one.
        """

        def project(model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            return model.scores(model.solve(rows)).astype(rows.dtype)

        visit = self._visitor(project)
        companions = {"offset": offset, "covariates": covariates, "entry_weight": entry_weight}
        with self._open_new(X, **companions) as (data, executor):
            return executor.stack(visit, data, self._n_features_out)

    def inverse_transform(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Any:
        """Means of the entries given scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.
        offset, covariates : as in ``fit``, for these rows

        Returns
        -------
        ndarray of shape (n_samples, n_features), or data frame
            A frame if requested by ``set_output``; columns of labels then contain the label nearest to the mean.
        """
        scores = self._check_scores(X)
        model, data = self._row_model(), self._companions(len(scores), offset, covariates)
        means = np.empty((len(scores), self.n_features_in_), dtype=scores.dtype)
        for rows, part in at_scores(model.mean, data, scores):
            means[rows] = self.layout_.join(part)
        return to_output_frame(self, means)

    def class_probabilities(
        self, X: Any, column: int | str, *, offset: Any = None, covariates: Any = None
    ) -> Any:
        """Probabilities of the categories of a nominal column, or of two labels, given scores; they sum to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.
        column : int or str
            Number of the column in the table, or its name.
        offset, covariates : as in ``fit``, for these rows

        Returns
        -------
        ndarray of shape (n_samples, n_categories), or data frame
            In the order of ``layout_.categories(column)``, which name the columns if ``set_output`` asks for a frame.

        Raises
        ------
        ValueError
            If the column is not nominal.
        """
        scores, layout = self._check_scores(X), self.layout_
        number, levels = layout.number(column), layout.categories(column)
        form = dict(layout.forms).get(number)
        if not isinstance(form, Nominal) and len(levels) != 2:
            raise ValueError(
                f"column {column!r} is not nominal. Use family={{{column!r}: 'nominal', ...}} in fit."
            )
        model, data = self._row_model(), self._companions(len(scores), offset, covariates)
        blocks = [part for _, part in at_scores(model.mean, data, scores)]
        means = np.concatenate(blocks)[:, layout.part(number)]
        found = form.probabilities(means) if isinstance(form, Nominal) else np.hstack([1.0 - means, means])
        return to_named_output(self, found, levels)

    def score_samples(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Log-likelihood of the observed entries of each row, with scores integrated out if they have a distribution.

        `PPCA` integrates exactly. `SePCA` and `PLNPCA` return a lower bound. `GPCA` plugs in the row's own scores,
        which gives larger values than integration. See the class for other models.

        If columns have different families, or none is continuous, the result is the log-probability of the row
        recorded in steps of ``resolution_``. It is comparable across families, dimensions and units. If all columns are
        measurements of one family, it is a log-density, as in scikit-learn, comparable in the same units only. Use
        ``entry_log_likelihood`` to compare models of any kind.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``, for these rows

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        # Models whose entries have no distribution have no family either.
        steps = self._steps if isinstance(getattr(self, "family_", None), Mixed) else None

        def visit(model: RowModel[Any], _: Block, rows: BlockView) -> Floats:
            return model.log_likelihood(rows) + log_steps(model, rows, steps)

        return np.concatenate(self._visit_rows(visit, X, offset, covariates))

    def rotate(self, method: str = "varimax", *, normalize: bool = True) -> Rotation:
        """Rotate the components to a simple structure, with many loadings near 0 and few large ones.

        Fitted values do not change. Scores have unit variance, and loadings carry the scale.

        Parameters
        ----------
        method : {"varimax", "quartimax", "promax", "oblimin"}, default="varimax"
            The first two keep scores uncorrelated, the others let them be correlated.
        normalize : bool, default=True
            Whether every column counts the same, however much of it the components explain (Kaiser).

        Returns
        -------
        Rotation
            With ``components_``, ``components_std_``, ``explained_deviance_ratio_``, ``score_correlations_``,
            ``correlations_``, ``communalities_``, ``loadings_table``, ``transform``
            and ``inverse_transform``; pictures, reports and ``anypca.save`` take it as a model.

        Examples
        --------
        >>> import numpy as np
        >>> from anypca import PPCA
        >>> rng = np.random.default_rng(0)
        >>> X = np.repeat(rng.normal(size=(200, 2)), 3, axis=1) + 0.3 * rng.normal(size=(200, 6))
        >>> rotated = PPCA(2).fit(X).rotate("varimax")
        >>> sorted((abs(rotated.components_) > 0.5).astype(int).tolist())
        [[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
        """
        check_is_fitted(self)
        return rotate(self, method, normalize=normalize)

    def _visit_rows(
        self, function: Callable[[RowModel[Any], Block, BlockView], Found], X: Any, *companions: Any
    ) -> list[Found]:
        """``function(model, block, opened rows)`` of every block of new rows, in row order."""
        return self._map_rows(self._visitor(function), X, *companions)

    def _visitor(
        self, function: Callable[[RowModel[Any], Block, BlockView], Found]
    ) -> Callable[[Block], Found]:
        """``function`` of a block in place of the model, the block and its opened rows."""
        check_is_fitted(self)
        model, names = self._row_model(), getattr(self, "feature_names_in_", None)

        def visit(block: Block) -> Found:
            return function(model, block, model.open(block, names))

        return visit

    def _companions(self, n_samples: int, offset: Any, covariates: Any) -> Data:
        """A table without values: only its offsets and covariates are of interest."""
        shape = (n_samples, self.n_features_in_)
        encoded = self._covariates.encode(covariates)
        data = check_data(np.broadcast_to(np.zeros(1), shape), offset=offset, covariates=encoded)
        self._check_companions(offset, data)
        return self._covariates.standardise(self.layout_.lay_out(data))

    @property
    def _n_features_out(self) -> int:
        """Number of scores per row, for ``get_feature_names_out``."""
        return int(self.n_components_)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has ended well; one that fails leaves the estimator as it was."""
        return hasattr(self, "n_components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not self._needs_every_entry
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = is_nonnegative(getattr(self, "family", None))
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @contextmanager
    def _open_fit(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        covariates: Any = None,
        entry_weight: Any = None,
        checkpoint: Any = None,
    ) -> Iterator[FitContext]:
        """Validate the parameters and the training table, and open the context of the fit.

        An error or an interrupt inside of the ``with`` block leaves the estimator as it was before.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        sample_weight : array-like of shape (n_samples,) or None
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None
        covariates : array-like of shape (n_samples, n_covariates), data frame, dict of columns, or None
        entry_weight : array-like of shape (n_samples, n_features) or None
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit, which resumes from it after an interruption.

        Yields
        ------
        FitContext
        """
        self._check_parameters()
        with self._rollback_on_error():
            # Models without a choice of families need numbers in every column.
            labels = find_labels(X) if hasattr(self, "family") else {}
            covariates, columns = encode_covariates(covariates)
            companions = {"offset": offset, "covariates": covariates, "entry_weight": entry_weight}
            data = check_data(encode(X, labels), sample_weight=sample_weight, **companions)
            data = replace(data, labels=labels)
            self._set_input_metadata(X, data, uses_offset=offset is not None)
            rng = make_generator(self.random_state)
            with (
                fit_callbacks(self, self.max_iter) as notify,
                open_context(
                    data,
                    self.n_jobs,
                    callback=self._progress(notify),
                    rng=rng,
                    max_iter=self.max_iter,
                    tol=float(self.tol),
                    resolution=self.resolution,
                ) as session,
            ):
                session = self._standardise(session, columns)
                self._before_fit(session)
                if self._needs_every_entry:
                    refuse_missing(session, type(self).__name__)
                choice = self._choose_families(session)
                laid = lay_out(session, choice, self._dropped(session, choice))
                self.layout_ = laid.layout
                if laid.data.n_covariates and choice is not None:
                    warn_separated(self._covariates, laid.layout.family(choice.family), laid)
                parameters = self.get_params(deep=False)
                with (
                    checkpointed(laid, type(self).__name__, parameters, checkpoint) as resumable,
                    self._with_warm_start(resumable) as warmed,
                ):
                    yield warmed
                self._report_columns(laid)

    def _standardise(self, session: FitContext, columns: Any) -> FitContext:
        """A session with centred and scaled covariates, which also knows the scale of their prior."""
        is_centred = bool(getattr(self, "fit_intercept", True))
        self._covariates = known = Covariates.of(columns, session, is_centred=is_centred)
        return replace(session, data=known.standardise(session.data), coef_scale=self.coef_scale)

    def _store_fixed(self, intercept: Floats, coef: Floats, deviation: Floats | None = None) -> None:
        """Set intercepts and coefficients of covariates in the units of the user.

        Parameters
        ----------
        intercept : ndarray of shape (n_features,)
        coef, deviation : ndarray of shape (n_features, n_covariates)
            Coefficients of standardised covariates, and their standard deviations.
        """
        known = self._covariates
        self.intercept_, self.coef_ = known.intercept(intercept, coef), coef / known.scale
        self.coef_std_ = None if deviation is None else deviation / known.scale
        self.covariate_names_ = known.names

    def _choose_families(self, session: FitContext) -> FamilyChoice | None:
        """The families of the columns of the user's table; ``None`` for models that have no choice of them."""
        return choose_families(self.family, session) if hasattr(self, "family") else None

    def _can_stream(self) -> bool:
        """Whether ``partial_fit`` is available; an AttributeError states the reason if not."""
        return True

    def _dropped(self, session: FitContext, choice: FamilyChoice | None) -> Mapping[int, Form]:
        """Columns of the user's table that the model leaves out, with what comes back in their place.

        Parameters
        ----------
        session : FitContext
            Open on the user's table.
        choice : FamilyChoice or None
            The families of its columns.
        """
        return {}

    def _report_columns(self, session: FitContext) -> None:
        """Map fitted attributes of the model's columns to the table's columns; see `Layout.pad`."""
        layout, choice = session.layout, session.choice
        for name, axis in self._column_attributes.items():
            values = vars(self).get(name)
            if values is not None and np.ndim(values):
                setattr(self, name, layout.pad(values, axis))
        if choice is not None and "family_" in vars(self):
            setattr(self, "family_", layout.pad_family(vars(self)["family_"], choice.family))  # noqa: B010

    def _with_warm_start(self, session: FitContext) -> AbstractContextManager[FitContext]:
        """The session with the start of an earlier fit."""
        return start_from_last(self, session)

    @contextmanager
    def _rollback_on_error(self) -> Iterator[None]:
        """An error or an interrupt inside of the ``with`` block leaves the estimator as it was before."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _before_fit(self, session: FitContext) -> None:
        """Set attributes that depend on the table only, before the fit; none by default."""
        return None

    def _set_input_metadata(self, X: Any, data: Data, *, uses_offset: bool) -> None:
        """Store the input metadata that later calls are validated against."""
        check_features(self, header_of(X), reset=True)
        self.n_features_in_ = data.n_features
        self._uses_offset = uses_offset
        self.__dict__.pop("_stream", None)
        self._n_covariates = data.n_covariates

    @contextmanager
    def _open_new(
        self,
        X: Any,
        *,
        offset: Any = None,
        covariates: Any = None,
        sample_weight: Any = None,
        entry_weight: Any = None,
    ) -> Iterator[tuple[Data, Executor]]:
        """Check a table of new rows against the fitted model, and open an executor for it.

        Yields
        ------
        data : Data
        executor : Executor
        """
        check_is_fitted(self)
        if entry_weight is not None and not self._takes_entry_weight:
            raise ValueError(
                f"{type(self).__name__} has no weights of entries. Leave out entry_weight=, or use SePCA, EPCA, GPCA, "
                "PLNPCA or PPCA."
            )
        # By the labels of the fit: an unknown one is a missing cell.
        table = encode(X, dict(self.layout_.labels))
        weights = {"sample_weight": sample_weight, "entry_weight": entry_weight}
        data = check_data(table, offset=offset, covariates=self._covariates.encode(covariates), **weights)
        check_features(self, header_of(X), reset=False)
        self._check_companions(offset, data)
        with executor_for(data, self.n_jobs) as executor:
            check_finite(data, executor)
            yield self._covariates.standardise(self.layout_.lay_out(data)), executor

    def _check_companions(self, offset: Any, data: Data) -> None:
        """New rows must come with an offset and covariates exactly when the training rows did."""
        name = type(self).__name__
        if (offset is not None) != self._uses_offset:
            was, remedy = ("with", "Pass") if self._uses_offset else ("without", "Leave out")
            raise ValueError(f"{name} was fitted {was} an offset. {remedy} offset= for new rows too.")
        if data.n_covariates != self._n_covariates:
            remedy = (
                "Pass covariates= with the same columns as in fit."
                if self._n_covariates
                else "Leave out covariates= for new rows too."
            )
            raise ValueError(
                f"{name} was fitted with {self._n_covariates} covariates; "
                f"these rows have {data.n_covariates}. {remedy}"
            )

    def _check_scores(self, scores: Any) -> Floats:
        """Scores given by a user as an array (n_samples, n_components), float32 if they are.

        Raises
        ------
        TypeError, ValueError
            If they are not that, or an entry is not finite.
        """
        check_is_fitted(self)
        checked = check_matrix(scores, "scores")
        if len(checked) == 0 or checked.shape[1] != self.n_components_:
            raise ValueError(
                f"{type(self).__name__}.inverse_transform needs scores of shape (n_samples, {self.n_components_}), "
                f"one column per component; got {checked.shape}. Pass what transform returned."
            )
        return checked

    def _map_rows(
        self,
        function: Callable[[Block], Any],
        X: Any,
        offset: Any = None,
        covariates: Any = None,
        entry_weight: Any = None,
    ) -> list[Any]:
        """``function`` of every block of new rows, in row order.

        Parameters
        ----------
        function : callable
            Takes a `Block`; must not depend on how the rows are cut into blocks.
        X : table of shape (n_samples, n_features)
        offset, covariates, entry_weight : as in ``fit``

        Returns
        -------
        list
            One value per block.
        """
        companions = {"offset": offset, "covariates": covariates, "entry_weight": entry_weight}
        with self._open_new(X, **companions) as (data, executor):
            return executor.collect(function, data)
