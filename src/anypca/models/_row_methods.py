"""The public methods that say something of rows, written once over `RowModel`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats, Ints
from anypca.columns import Nominal
from anypca.engine import Block, Data, check_data
from anypca.families import Mixed
from anypca.models._arguments import check_entries, check_n_samples, entries_of, in_order, make_generator
from anypca.models._base import LatentModel
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models._correlations import find_dependence, tabulate_loadings
from anypca.models._description import Description, describe
from anypca.models._imputation import Expectations, Slopes, fill, leave_one_out_slopes
from anypca.models._output import to_named_output, to_output_frame
from anypca.models._rotation import Rotation, rotate
from anypca.models._row_model import (
    RowModel,
    at_scores,
    draw_table,
    log_steps,
    plug_in,
    predict_table,
)

Found = TypeVar("Found")


class RowMethods(LatentModel):
    """Estimators whose fitted state is a `RowModel`: a subclass writes ``fit`` and ``_row_model``."""

    resolution_: Floats
    """Step with which each column is recorded, shape (n_features,), where entries have a distribution."""

    def _row_model(self) -> RowModel[Any]:
        """The fitted model, for rows."""
        raise NotImplementedError

    @property
    def _steps(self) -> Floats:
        """The steps with which the columns of the model are recorded, (n_columns,)."""
        return self.resolution_[self.layout_.sources]

    def describe(self) -> Description:
        kind = self._row_model().likelihood if self.__sklearn_is_fitted__() else None
        return replace(super().describe(), has_way_back=True, likelihood=kind)

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
            A frame if ``set_output`` asks for it: there the nearest label stands for the mean of its numbers.
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
        """Log-likelihood of the observed entries of each row, scores integrated out where they have a distribution.

        `PPCA` does so exactly, `SePCA` and `PLNPCA` give a lower bound, others what the class says, and `GPCA` plugs
        the row's own scores in, which is too large beside these. Where columns have different families, or none is
        continuous, it is the log-probability of the row as it is recorded, in steps of ``resolution_``: comparable
        across families, dimensions and units. Where all columns are measurements of one family it is a log-density, as
        in scikit-learn, comparable in the same units only; ``entry_log_likelihood`` compares models of any kind.

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
        """The fit seen along axes that are easier to name: many loadings near 0, few large ones.

        Fitted values stay what they are; scores have unit variance, and loadings carry the sizes.

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


class GenerativeModel(RowMethods):
    """Models in which entries are independent given a predictor that the scores decide."""

    #: Whether fits to tables with missing entries estimate how much to shrink expectations.
    _is_calibrated: ClassVar[bool] = False
    calibration_slope_: Floats | None = None
    _slopes: Slopes | None = None

    def describe(self) -> Description:
        found = replace(super().describe(), has_entries=True)
        if not self.__sklearn_is_fitted__():
            return found
        rows = self._row_model()
        family = found.family if self.layout_.is_identity else rows.family
        return replace(found, family=family, dispersion=rows.dispersion)

    def _before_fit(self, session: FitContext) -> None:
        self.resolution_ = session.summary.resolution

    def _report_columns(self, session: FitContext) -> None:
        self.calibration_slope_ = self._slopes = None
        # With offsets or covariates rows are not compared with the column means.
        is_plain = not (self._uses_offset or self._n_covariates)
        if (
            self._is_calibrated
            and is_plain
            and session.summary.has_missing
            and vars(self).get("n_components_")
        ):
            self._slopes = leave_one_out_slopes(self._row_model(), session)
            self.calibration_slope_ = self._slopes.near
        super()._report_columns(session)
        summary = session.summary
        self._moments = summary.mean, summary.variance, summary.low, summary.high

    @property
    def correlations_(self) -> Floats:
        """Correlations of components with columns, shape (n_components, n_columns), in [-1, 1].

        The loading times the standard deviation of the score, over the total standard deviation on the scale of the
        predictor: signal and noise (Nakagawa and Schielzeth 2013). Comparable across units and families.
        """
        return find_dependence(self).correlations

    @property
    def communalities_(self) -> Floats:
        """Share of each column's variance that the components explain, on the scale of the predictor, (n_columns,)."""
        return find_dependence(self).communalities

    def loadings_table(self, rotation: str | None = None, *, cutoff: float = 0.3) -> Any:
        """Return correlations and communalities as a data frame of pandas.

        Parameters
        ----------
        rotation : {"varimax", "quartimax", "promax", "oblimin"} or None, default=None
            Rotate first, see ``rotate``.
        cutoff : float, default=0.3
            Correlations that are smaller in absolute value are left blank.

        Returns
        -------
        DataFrame
            A row for each column, sorted by its strongest component. ``to_markdown`` and ``to_latex`` print it.
        """
        return tabulate_loadings(self if rotation is None else self.rotate(rotation), cutoff)

    @property
    def _limits(self) -> Expectations:
        """Limits of imputed entries; none with offsets or covariates."""
        if self._uses_offset or self._n_covariates:
            return Expectations()
        return Expectations.of(self._row_model(), self._moments, self._slopes)

    def impute(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Any:
        """The table with missing entries replaced by their expectations given the observed ones.

        Without offsets and covariates expectations are limited to the range of the column, or to three standard
        deviations around its mean if that is wider. If the training table had missing entries they are shrunk towards
        the column mean: by the factor ``calibration_slope_`` up to one standard deviation, by another one beyond.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``, for these rows

        Returns
        -------
        ndarray of shape (n_samples, n_features), or data frame
            A frame if ``set_output`` asks for it, or if X is one with columns of text or categories: there the most
            probable labels stand in empty cells.
        """
        check_is_fitted(self)
        layout, limits = self.layout_, self._limits

        def visit(model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            return layout.fill(block, fill(model, block, rows, limits)[0])

        return to_output_frame(self, np.concatenate(self._visit_rows(visit, X, offset, covariates)), X)

    def sample(
        self, n_samples: int = 1, *, offset: Any = None, covariates: Any = None, random_state: Any = None
    ) -> Any:
        """Draw rows from the model: scores from their distribution, then entries from the family.

        Of a posterior that is known by draws (`BEPCA`, `ISFA`) each row has one for itself.

        Parameters
        ----------
        n_samples : int, default=1
        offset, covariates : as in ``fit``, for the new rows
        random_state : int, RandomState instance, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_features), or data frame
            A frame, with labels, if ``set_output`` asks for it.
        """
        check_is_fitted(self)
        rng, n = make_generator(random_state), check_n_samples(n_samples)
        model, data = self._row_model(), self._companions(n, offset, covariates)
        return to_output_frame(self, draw_table(self.layout_, model, model.draw_predictors(data, rng), rng))

    def entry_log_likelihood(
        self,
        X: Any,
        rows: Ints,
        columns: Ints,
        values: Floats,
        *,
        offset: Any = None,
        covariates: Any = None,
    ) -> Floats:
        """Log-probability of values at some entries, given the scores that the observed entries of X decide.

        The scores are plugged in, ``log P(value | eta)`` with the fitted dispersion; a posterior of scores and loadings
        (`SePCA` unless ``inference="map"``, `BEPCA`, `ISFA`) is averaged over, ``log E P(value | eta)``. Continuous
        families give the probability of the interval of a step (``resolution_``) around the value. Figures of the same
        entries, seen by no fit, are thus comparable across models, families, dimensions and, if steps scale along,
        units; plugged-in with averaged ones too, which are less sure of themselves.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Entries that are to be predicted are missing here.
        rows, columns : ndarray of int of shape (n_entries,)
            Where the values belong.
        values : ndarray of shape (n_entries,)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_entries,)
        """
        check_is_fitted(self)
        rows, columns = check_entries(rows, columns, self.n_features_in_)
        values = np.broadcast_to(np.asarray(values, dtype=float), rows.shape)
        layout, steps = self.layout_, self._steps

        def visit(model: RowModel[Any], block: Block, opened: BlockView) -> tuple[Ints, Floats]:
            part = entries_of(block, rows)
            owner, column, value = layout.spread(columns[part], values[part])
            if not len(owner):
                return part, np.zeros(len(part))
            index = rows[part][owner] - block.start
            terms = model.entry_log_likelihood(block, opened, index, column, value, steps)
            return part, np.bincount(owner, terms, minlength=len(part)).astype(float)

        return in_order(self._visit_rows(visit, X, offset, covariates), len(rows))

    def plug_in_log_likelihood(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Log-probability of the observed entries of each row at its own scores, as ``entry_log_likelihood`` has it.

        The scores are plugged in, not integrated out as in ``score_samples``: this is the fit of the predictor to
        the entries it was fitted to, and grows with every component.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        steps = self._steps

        def visit(model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            return plug_in(model, block, rows, steps)

        return np.concatenate(self._visit_rows(visit, X, offset, covariates))


def linear_predictor(
    model: GenerativeModel, scores: Floats, *, offset: Any = None, covariates: Any = None
) -> Floats:
    """eta of rows with given scores, in the columns of the model; means do not tell it where they round to 0 or 1.

    Parameters
    ----------
    model : fitted estimator
    scores : ndarray of shape (n_samples, n_components)
    offset, covariates : as in ``fit``, for these rows

    Returns
    -------
    ndarray of shape (n_samples, n_features)
    """
    return predict_table(model._row_model(), model._companions(len(scores), offset, covariates), scores)


def model_predictor(model: Any, scores: Floats, **companions: Any) -> Floats | None:
    """eta (n_samples, n_columns) of any fitted model at scores; None where scores cannot be turned into rows."""
    if isinstance(model, Rotation):
        return model_predictor(model.model, model.unrotated(scores), **companions)
    if isinstance(model, GenerativeModel):
        return linear_predictor(model, scores, **companions)
    if not describe(model).has_way_back:
        return None
    # Models without a distribution go back by least squares: means are predictors.
    return np.asarray(model.inverse_transform(scores, **companions), dtype=float)
