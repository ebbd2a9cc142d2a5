"""Dispersions of columns for models that do not draw them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Layout
from anypca.exceptions import ConvergenceWarning
from anypca.families import Family
from anypca.models.epca import EPCA


def find_dispersion(
    X: Any, family: Family, layout: Layout, given: str | float, *, n_components: int, fit_intercept: bool
) -> Floats:
    """Dispersion of each column: that of its family, the given number, or for ``"auto"`` the estimate of EPCA.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
    family : Family
        Of the columns of the model.
    layout : Layout
    given : "auto" or float
        For columns whose family leaves it open.
    n_components : int
        Of EPCA.
    fit_intercept : bool
        Of EPCA.

    Returns
    -------
    ndarray of shape (n_columns,)
        For the columns of the model.
    """
    known = family.known_dispersion(layout.n_columns)
    if not np.isnan(known).any():
        return known
    if not isinstance(given, str):
        return np.where(np.isnan(known), float(given), known)
    with warnings.catch_warnings():
        # A dispersion between two estimates of a fit that goes on is as good.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = EPCA(n_components, family=layout.settled(family), fit_intercept=fit_intercept).fit(X)
    return np.asarray(np.where(np.isnan(known), fitted._row_model().dispersion, known))
