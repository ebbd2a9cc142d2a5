"""What the estimators of bilinear models share: their coefficients and their tags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._bilinear.coefficients import Coefficients
from anypca.models._description import Description
from anypca.models._row_methods import PosteriorModel
from anypca.models._support import is_nonnegative


class BilinearModel(PosteriorModel):
    """Base of estimators with ``eta = offset + b + covariates B' + Z W'``.

    A subclass has the parameters ``family`` and ``fit_intercept``, writes ``fit`` and ``_row_model``, and calls
    ``_store_coefficients``.
    """

    family: Any
    fit_intercept: bool
    family_: Family
    components_: Floats
    dispersion_: Floats
    explained_variance_: Floats

    def describe(self) -> Description:
        return replace(super().describe(), takes_offset=True, takes_covariates=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_nonnegative(self.family)
        return tags

    def _store_coefficients(self, coefficients: Coefficients) -> None:
        """Set what all bilinear models report of their coefficients."""
        first, fixed = int(self.fit_intercept), coefficients.fixed
        self.components_ = coefficients.loadings.T.copy()
        self.intercept_ = fixed[:, 0].copy() if first else np.zeros(len(fixed))
        self.coef_ = fixed[:, first:].copy()
        self.dispersion_ = coefficients.dispersion
        self.n_components_ = len(self.components_)
