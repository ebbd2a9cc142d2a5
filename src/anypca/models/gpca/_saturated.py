"""Saturated natural parameters: the values of eta that fit each entry as well as a bound allows."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Summary
from anypca.families import Bernoulli, Family, Gaussian, Poisson
from anypca.families._logistic import Logistic
from anypca.models._session import Session
from anypca.models._support import choose_family


@singledispatch
def saturated_parameters(family: Family, x: Floats, bound: float) -> Floats:
    """The eta at which the mean is x, kept within a bound where it is infinite.

    Parameters
    ----------
    family : Family
    x : ndarray of shape (n, p)
    bound : float
        M > 0. Logits are cut to [-M, M], logarithms of counts to [-M, inf); real numbers are as they are.

    Returns
    -------
    ndarray of shape (n, p)

    Raises
    ------
    ValueError
        If the family has no such parameters here; the message names those that have.
    """
    raise ValueError(
        f"GPCA is for the families 'gaussian', 'poisson', 'bernoulli' and 'binomial(n)', one for all columns; got "
        f"{family.name!r}. Use EPCA or SePCA for other and for mixed families."
    )


@saturated_parameters.register
def _(family: Gaussian, x: Floats, bound: float) -> Floats:
    return x.copy()


@saturated_parameters.register
def _(family: Poisson, x: Floats, bound: float) -> Floats:
    return np.log(np.maximum(x, np.exp(-bound)))


@saturated_parameters.register
def _(family: Logistic, x: Floats, bound: float) -> Floats:
    # Bounding the share of successes is bounding its logit, without infinite values on the way.
    rare = 1.0 / (1.0 + np.exp(bound))
    share = np.maximum(x / family.trials, rare)
    rest = np.maximum(1.0 - x / family.trials, rare)
    logit: Floats = np.clip(np.log(share) - np.log(rest), -bound, bound)
    return logit


def find_family(family: Any, session: Session) -> Family:
    """The family of a table, one for all columns, checked against its values.

    Parameters
    ----------
    family : str or Family
        ``"auto"``: bernoulli if all entries are 0 or 1, poisson if all are whole numbers >= 0, else gaussian.
    session : Session
        Open on the table.

    Raises
    ------
    ValueError
        If the family is not one that GPCA can fit, or an entry is outside its support.
    """
    is_auto = isinstance(family, str) and family.strip().lower() == "auto"
    chosen = _guess(session.summary) if is_auto else choose_family(family, session)[0]
    saturated_parameters(chosen, np.ones((1, session.data.n_features)), 1.0)  # refuses what it does not know
    return chosen


def _guess(summary: Summary) -> Family:
    # One family for the table: saturated parameters of different kinds have no common scale.
    if summary.n_noninteger.any() or summary.minimum.min() < 0:
        return Gaussian()
    return Bernoulli() if summary.maximum.max() <= 1 else Poisson()
