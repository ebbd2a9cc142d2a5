"""What the estimators share whose posterior is known by draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.exceptions import ConvergenceWarning
from anypca.models._arguments import check_entries, check_n_samples, entries_of, in_order, make_generator
from anypca.models._bayes.rows import DrawnRowModel
from anypca.models._given_back import give_back
from anypca.models._opened import OpenedBlock
from anypca.models._posterior_model import PosteriorModel
from anypca.models._row_model import draw_table
from anypca.solvers import Result


class DrawnModel(PosteriorModel):
    """Base of estimators whose row model is a `DrawnRowModel`: what they say of rows are averages over draws."""

    def _row_model(self) -> DrawnRowModel:
        raise NotImplementedError

    def sample(
        self, n_samples: int = 1, *, offset: Any = None, covariates: Any = None, random_state: Any = None
    ) -> Any:
        """Draw rows from the posterior predictive distribution: each under a draw of the loadings of its own.

        Parameters
        ----------
        n_samples : int, default=1
        offset, covariates : None
            Not part of this model.
        random_state : int, RandomState instance, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_features), or data frame
            A frame, with labels, if ``set_output`` asks for it.
        """
        check_is_fitted(self)
        rng, n = make_generator(random_state), check_n_samples(n_samples)
        self._companions(n, offset, covariates)
        model = self._row_model()
        return give_back(self, draw_table(self.layout_, model, model.draw_predictors(n, rng), rng))

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
        """Log of the posterior predictive probability of values at some entries, given the observed entries of X.

        The probability is averaged over draws and over the scores that each leaves possible; nothing is plugged in.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Entries that are to be predicted are missing here.
        rows, columns : ndarray of int of shape (n_entries,)
            Where the values belong.
        values : ndarray of shape (n_entries,)
        offset, covariates : None
            Not part of this model.

        Returns
        -------
        ndarray of shape (n_entries,)
        """
        check_is_fitted(self)
        rows, columns = check_entries(rows, columns, self.n_features_in_)
        values = np.broadcast_to(np.asarray(values, dtype=float), rows.shape)
        steps = self._steps
        layout = self.layout_

        def visit(model: Any, block: Block, opened: OpenedBlock) -> tuple[Ints, Floats]:
            part = entries_of(block, rows)
            owner, column, value = layout.spread(columns[part], values[part])
            used, index = np.unique(rows[part][owner] - block.start, return_inverse=True)
            terms = model.entry_log_likelihood(opened.take(used), index, column, value, steps)
            return part, np.bincount(owner, terms, minlength=len(part)).astype(float)

        return in_order(self._visit_rows(visit, X, offset, covariates), len(rows))

    def _warn_unless_converged(self, result: Result[Any]) -> None:
        """Warn when the chains disagree."""
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__}: {result.status.value} (draws of each chain: {result.n_iter}, largest R-hat: "
                f"{result.criterion:.3g}).",
                ConvergenceWarning,
                stacklevel=3,
            )
