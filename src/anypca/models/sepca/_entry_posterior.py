"""The predictor at entries that are asked for, with its error bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._bilinear.estimator import BilinearModel
from anypca.models._entries import check_entries, entries_of, in_order
from anypca.models.sepca._views import ModeView, PosteriorView


class EntryPosterior(BilinearModel):
    """Models that know mean and variance of their predictor."""

    _view: PosteriorView | ModeView

    def entry_posterior(
        self, X: Any, rows: Ints, columns: Ints, *, offset: Any = None, covariates: Any = None
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the linear predictor at some entries, hidden or observed.

        Scores and loadings are both unknown; in ``"map"`` the loadings are at their mode. In ``"hmc"`` the draws are
        summarised by normal distributions; ``posterior_`` has them all. For an interval in the units of the entries
        send its ends through the inverse link: ``family_.mean`` where all columns have one family, that of
        ``family_.columns(slice(j, j + 1))`` for column j of a mixed table.

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

        def visit(block: Block) -> tuple[Ints, Floats]:
            part = entries_of(block, rows)
            if not part.size:
                return part, np.empty((0, 2))
            opened, index = self._open_rows(block), rows[part] - block.start
            mean, variance = self._view.predictor(opened, block.start, index, columns[part])
            if opened.offset is not None:
                mean = mean + opened.offset[index, columns[part] if opened.offset.shape[1] > 1 else 0]
            return part, np.column_stack([mean, np.sqrt(variance)])

        found = self._map_rows(visit, X, offset=offset, covariates=covariates)
        mean, std = in_order(found, len(rows)).T
        return mean, std
