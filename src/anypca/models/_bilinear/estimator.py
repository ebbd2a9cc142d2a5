"""What the estimators of bilinear models share: projection, means, imputation and sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats
from anypca.engine import Block, check_data
from anypca.families import Family
from anypca.models._base import LatentModel, check_n_samples, make_generator
from anypca.models._bilinear.kernel import Rows, open_block
from anypca.models._bilinear.support import check_rows, is_nonnegative
from anypca.models._entries import EntryLikelihood


class BilinearModel(EntryLikelihood, LatentModel):
    """Base of estimators with ``eta = offset + b + covariates B' + Z W'``.

    A subclass has the parameters ``family`` and ``fit_intercept``, writes ``fit``, ``score_samples`` and
    ``_project``, and calls ``_store_coefficients``.
    """

    family: Any
    fit_intercept: bool
    family_: Family
    components_: Floats
    dispersion_: Floats
    explained_variance_: Floats

    def _project(self, rows: Rows, start: int, *, with_std: bool) -> tuple[Floats, Floats]:
        """Scores of rows and their standard deviations (the scores again without ``with_std``), (rows, k) each.

        ``start`` is the number of the first row, for messages.
        """
        raise NotImplementedError

    def transform(
        self, X: Any, *, offset: Any = None, covariates: Any = None, return_std: bool = False
    ) -> Any:
        """Scores of rows under the fitted loadings, each row solved to its own convergence.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``
        return_std : bool
            Also return posterior standard deviations (see the class for how they are found).

        Returns
        -------
        scores : ndarray of shape (n_samples, n_components)
        std : ndarray of shape (n_samples, n_components)
            Only with ``return_std=True``.
        """
        check_is_fitted(self)

        def project(block: Block) -> tuple[Floats, Floats]:
            rows = self._open_rows(block)
            scores, std = self._project(rows, block.start, with_std=return_std)
            return scores.astype(rows.dtype), std.astype(rows.dtype)

        parts = self._map_rows(project, X, offset=offset, covariates=covariates)
        scores, std = (np.concatenate(part) for part in zip(*parts, strict=True))
        return (scores, std) if return_std else scores

    def inverse_transform(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Means of the entries given scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        eta = self._predict(X, offset, covariates)
        return self.family_.mean(eta)

    def impute(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """The table with missing entries replaced by their fitted means.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)

        def complete(block: Block) -> Floats:
            rows = self._open_rows(block)
            if rows.observed is None:
                return rows.x
            scores, _ = self._project(rows, block.start, with_std=False)
            eta = scores @ self.components_ + rows.features @ self._fixed.T
            means = self.family_.mean(eta if rows.offset is None else eta + rows.offset)
            return np.where(rows.observed, rows.x, means)

        return np.concatenate(self._map_rows(complete, X, offset=offset, covariates=covariates))

    def sample(
        self, n_samples: int = 1, *, offset: Any = None, covariates: Any = None, random_state: Any = None
    ) -> Floats:
        """Draw rows from the model: scores from a centred normal with the training scores' variances.

        Parameters
        ----------
        n_samples : int
        offset, covariates : as in ``fit``, for the new rows
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        rng = make_generator(random_state)
        shape = (check_n_samples(n_samples), self.n_components_)
        scores = rng.standard_normal(shape) * np.sqrt(self.explained_variance_)
        return self.family_.sample(self._predict(scores, offset, covariates), self.dispersion_, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_nonnegative(self.family)
        return tags

    def _store_coefficients(self, loadings: Floats, fixed: Floats, dispersion: Floats) -> None:
        """Set what all bilinear models report of their coefficients: W (p, k), [b | B] (p, f), dispersion (p,)."""
        first = int(self.fit_intercept)
        self._fixed = fixed
        self.components_ = loadings.T.copy()
        self.intercept_ = fixed[:, 0].copy() if first else np.zeros(len(fixed))
        self.coef_ = fixed[:, first:].copy()
        self.dispersion_ = dispersion
        self.n_components_ = len(self.components_)

    def _open_rows(self, block: Block) -> Rows:
        """The rows of a block of new data, checked against the family."""
        rows = open_block(block, fit_intercept=bool(self.fit_intercept))
        check_rows(self.family_, rows, block.start, getattr(self, "feature_names_in_", None))
        return rows

    def _predict(self, scores: Any, offset: Any, covariates: Any) -> Floats:
        """eta (n_samples, n_features) of scores."""
        scores = self._check_scores(scores)
        # A table without values: only its companions are of interest.
        shape = (len(scores), self.n_features_in_)
        data = check_data(np.broadcast_to(np.zeros(1), shape), offset=offset, covariates=covariates)
        self._check_companions(offset, data)
        return np.vstack(
            [self._predict_block(block, scores[block.start : block.stop]) for block in data.blocks]
        )

    def _noise(self) -> tuple[Family, Floats]:
        return self.family_, self.dispersion_

    def _predict_block(self, block: Block, scores: Floats) -> Floats:
        ones = np.ones((block.n_rows, int(self.fit_intercept)))
        eta = scores @ self.components_ + np.hstack([ones, block.covariates]) @ self._fixed.T
        offset = block.offset()
        return eta if offset is None else eta + offset
