"""The public methods of models that know the posterior of scores, written once over `RowModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._arguments import check_entries, check_n_samples, entries_of, in_order, make_generator
from anypca.models._base import LatentModel
from anypca.models._block_view import BlockView
from anypca.models._imputation import fill_with_deviations
from anypca.models._output import to_output_frame
from anypca.models._row_methods import GenerativeModel
from anypca.models._row_model import (
    RowModel,
    draw_table,
    in_pieces,
    log_steps,
    with_offset,
)


class PosteriorModel(GenerativeModel):
    """Models that know the posterior of scores, and with it how well they predict."""

    def transform(
        self,
        X: Any,
        *,
        offset: Any = None,
        covariates: Any = None,
        entry_weight: Any = None,
        return_std: bool = False,
    ) -> Any:
        """Scores of rows under the fitted model, each row solved to its own convergence.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates, entry_weight : as in ``fit``, for these rows
        return_std : bool, default=False
            Also return posterior standard deviations (see the class for how they are found).

        Returns
        -------
        scores : ndarray of shape (n_samples, n_components)
        std : ndarray of shape (n_samples, n_components)
            Only with ``return_std=True``.
        """
        if not return_std:
            return super().transform(X, offset=offset, covariates=covariates, entry_weight=entry_weight)

        def project(model: RowModel[Any], block: Block, rows: BlockView) -> tuple[Floats, Floats]:
            solved = model.solve(rows)
            return model.scores(solved).astype(rows.dtype), model.deviations(solved).astype(rows.dtype)

        return _joined(self._visit_rows(project, X, offset, covariates, entry_weight))

    def impute(self, X: Any, *, offset: Any = None, covariates: Any = None, return_std: bool = False) -> Any:
        """The table with missing entries replaced by their expectations given the observed ones.

        Without offsets and covariates expectations are limited to the range of the column, or to three standard
        deviations around its mean if that is wider. If the training table had missing entries they are shrunk towards
        the column mean: by the factor ``calibration_slope_`` up to one standard deviation, by another one beyond.
        ``inverse_transform`` of the scores does neither.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``, for these rows
        return_std : bool, default=False
            Also return the standard deviations with which the missing entries are predicted.

        Returns
        -------
        filled : ndarray of shape (n_samples, n_features), or data frame
            Observed entries as they are in X. A frame if ``set_output`` asks for it, or if X is one with columns of
            text or categories: there the most probable labels stand in empty cells.
        std : ndarray of shape (n_samples, n_features)
            Only with ``return_std=True``; 0 for observed entries.
        """
        if not return_std:
            return super().impute(X, offset=offset, covariates=covariates)
        check_is_fitted(self)
        layout, limits = self.layout_, self._limits

        def visit(model: RowModel[Any], block: Block, rows: BlockView) -> tuple[Floats, Floats]:
            return layout.fill_with_deviations(block, *fill_with_deviations(model, block, rows, limits))

        filled, deviations = _joined(self._visit_rows(visit, X, offset, covariates))
        return to_output_frame(self, filled, X), deviations

    def draw_missing(
        self,
        X: Any,
        n_draws: int = 1,
        *,
        offset: Any = None,
        covariates: Any = None,
        random_state: Any = None,
    ) -> list[Any]:
        """Draw completed tables: multiple imputation.

        Missing entries are drawn from their posterior predictive distribution: scores of a row given its observed
        entries, then entries from the family of their column. `SePCA` also draws loadings from their posterior.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        n_draws : int, default=1
        offset, covariates : as in ``fit``, for these rows
        random_state : int, RandomState instance, Generator or None, default=None

        Returns
        -------
        list of n_draws tables of shape (n_samples, n_features)
            As from ``impute``; observed entries are copied from X.
        """
        drawn = self._draw_tables(X, n_draws, offset, covariates, random_state)
        return [to_output_frame(self, table, X) for table in drawn]

    def impute_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        offset: Any = None,
        covariates: Any = None,
        n_draws: int = 400,
        random_state: Any = 0,
    ) -> tuple[Floats, Floats]:
        """Return the ends of central prediction intervals of missing entries.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        level : float, default=0.9
            Probability that a missing entry lies inside its interval.
        offset, covariates : as in ``fit``, for these rows
        n_draws : int, default=400
            Draws (see ``draw_missing``) whose quantiles are the ends.
        random_state : int, RandomState instance, Generator or None, default=0

        Returns
        -------
        lower, upper : ndarray of shape (n_samples, n_features)
            Both equal the entry if it is observed; NaN in columns of labels.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {level!r}. Use 0.9 for 90 % intervals.")
        drawn = self._draw_tables(X, n_draws, offset, covariates, random_state)
        drawn[:, :, [j for j, _ in self.layout_.labels]] = np.nan
        lower, upper = np.quantile(drawn, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        return lower, upper

    def _draw_tables(self, X: Any, n_draws: int, offset: Any, covariates: Any, random_state: Any) -> Floats:
        """Return completed tables of numbers, shape (n_draws, n_samples, n_features)."""
        check_is_fitted(self)
        layout, seeds = (
            self.layout_,
            make_generator(random_state).integers(2**62, size=check_n_samples(n_draws)),
        )

        def visit(model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            table = layout.table_rows(block)
            solved = model.solve(rows)

            def draw(seed: int) -> Floats:
                rng, shared = np.random.default_rng([seed, block.start]), np.random.default_rng(seed)
                eta = model.draw_posterior(block, rows, solved, rng, shared)
                return np.where(np.isnan(table), draw_table(layout, model, eta, rng), table)

            return np.stack([draw(int(seed)) for seed in seeds]).astype(rows.dtype, copy=False)

        return np.concatenate(self._visit_rows(visit, X, offset, covariates), axis=1)

    def entry_posterior(
        self, X: Any, rows: Ints, columns: Ints, *, offset: Any = None, covariates: Any = None
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the linear predictor at some entries, hidden or observed.

        For an interval in the units of the entries, apply the inverse link to its ends: ``family_.mean`` if all columns
        have one family, or ``family_.take(slice(j, j + 1)).mean`` for column j of a mixed table.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Decides the scores; entries that are to be predicted are missing here.
        rows, columns : ndarray of int of shape (n_entries,)
            Where.
        offset, covariates : as in ``fit``

        Returns
        -------
        mean, std : ndarray of shape (n_entries,)

        Examples
        --------
        >>> import numpy as np
        >>> from anypca import SePCA
        >>> from anypca.datasets import make_low_rank_counts
        >>> X = make_low_rank_counts(60, 12, 1, typical_mean=12.0, missing=0.1, random_state=0).X
        >>> model = SePCA(3, family="poisson").fit(X)
        >>> rows, columns = np.nonzero(np.isnan(X))
        >>> mean, std = model.entry_posterior(X, rows, columns)
        >>> low, high = (model.family_.mean(mean + side * 1.645 * std) for side in (-1, 1))
        >>> bool((low < high).all())
        True
        """
        check_is_fitted(self)
        rows, columns = check_entries(rows, columns, self.n_features_in_)
        columns = self.layout_.predictors(columns)

        def visit(model: RowModel[Any], block: Block, opened: BlockView) -> tuple[Ints, Floats]:
            part = entries_of(block, rows)
            used, index = np.unique(rows[part] - block.start, return_inverse=True)
            some = opened.take(used)
            solved = model.solve(some)

            def moments(index: Ints, columns: Ints) -> Floats:
                found = model.entry_moments(some, solved, index, columns)
                return np.column_stack(with_offset(some, index, columns, *found))

            return part, in_pieces(moments, index, columns[part], np.empty((0, 2)))

        mean, variance = in_order(self._visit_rows(visit, X, offset, covariates), len(rows)).T
        return mean, np.sqrt(variance)


def integrate_rows(
    model: LatentModel, X: Any, *, offset: Any = None, covariates: Any = None
) -> tuple[Floats, Floats]:
    """Marginal log-probabilities of rows as they are recorded, and the entropies of their scores in prior units.

    Parameters
    ----------
    model : fitted estimator
        Whose row model has `RowModel.integrate`.
    X : table of shape (n_samples, n_features)
    offset, covariates : as in ``fit``, for these rows

    Returns
    -------
    log_likelihoods, entropies : ndarray of shape (n_samples,)
    """
    steps = model._steps

    def visit(found: RowModel[Any], _: Block, rows: BlockView) -> tuple[Floats, Floats]:
        likelihood, entropy = found.integrate(rows)
        return likelihood + log_steps(found, rows, steps), entropy

    return _joined(model._visit_rows(visit, X, offset, covariates))


def _joined(parts: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Two arrays from what the blocks say of each."""
    first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    return first, second
