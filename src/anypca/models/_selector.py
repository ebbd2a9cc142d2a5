"""Methods of models that select variables, in addition to their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Bools, Ints
from anypca.models._base import LatentModel


class SelectorMethods(LatentModel):
    """Base of models that set ``support_``, True for the selected variables."""

    support_: Bools

    def get_support(self, indices: bool = False) -> Bools | Ints:
        """The selected variables.

        Parameters
        ----------
        indices : bool, default=False
            Return their positions instead of a mask.

        Returns
        -------
        ndarray of shape (n_features,) of bool, or of shape (n_features_selected_,) of int
        """
        check_is_fitted(self)
        return np.flatnonzero(self.support_) if indices else self.support_

    def get_feature_names_out(self, input_features: Any = None, *, selected: bool = False) -> Any:
        """Names of the scores, or of the selected variables.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the variables, for ``selected``; those seen in ``fit`` (or x0, x1, ...) if not given.
        selected : bool, default=False
            Return the names of the selected variables. By default the names of the columns of ``transform``:
            the class in lower case with a number, such as gsppca0, gsppca1, ...

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if not selected:
            return super().get_feature_names_out(input_features)
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)[self.support_]
