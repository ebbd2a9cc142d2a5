"""The public methods for rows, implemented once for every `RowModel`."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._arguments import check_entries, check_n_samples, entries_of, in_order, make_generator
from anypca.models._base import LatentModel
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models._correlations import find_dependence, tabulate_loadings
from anypca.models._description import describe
from anypca.models._imputation import Expectations, Slopes, fill, leave_one_out_slopes
from anypca.models._output import to_output_frame
from anypca.models._rotation import Rotation
from anypca.models._row_model import (
    RowModel,
    draw_table,
    plug_in,
    predict_table,
)

Found = TypeVar("Found")


class GenerativeModel(LatentModel):
    """Models in which entries are independent given a predictor that the scores decide."""

    #: Whether fits to tables with missing entries estimate how much to shrink expectations.
    _is_calibrated: ClassVar[bool] = False
    calibration_slope_: Floats | None = None
    _slopes: Slopes | None = None

    @property
    def _description(self) -> dict[str, Any]:
        facts = super()._description
        if self.__sklearn_is_fitted__():
            rows = self._row_model()
            facts["dispersion"] = rows.dispersion
            if not self.layout_.is_identity:
                facts["family"] = rows.family
        return facts

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
