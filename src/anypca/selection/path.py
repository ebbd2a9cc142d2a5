"""Fits over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from anypca.engine import check_data
from anypca.models._bilinear.estimator import BilinearModel
from anypca.models._description import describe, find_attribute
from anypca.models._ranks import check_ranks
from anypca.models._session import open_session
from anypca.models._support import choose_family
from anypca.selection.facts import Companions

#: Parameters that set a rank, in order of preference.
_RANK_PARAMETERS = ("n_components", "max_components")
# More components than this are tried only when they are asked for: each costs a fit, and few tables show as many.
_DEFAULT_LARGEST = 10


def rank_path(
    estimator: Any,
    X: Any,
    ranks: Any = None,
    *,
    offset: Any = None,
    covariates: Any = None,
    sample_weight: Any = None,
) -> tuple[Any, ...]:
    """Fit copies of an estimator with several numbers of components.

    Estimators with a method ``path`` (`PLNPCA`) fit all ranks in one go, each started from the rank below or afresh,
    whichever is better. All others are fitted rank by rank, each from its own start: that of `EPCA` and `SePCA`,
    the leading directions of the residuals, holds those of the ranks below.

    Parameters
    ----------
    estimator : estimator with a parameter ``n_components`` or ``max_components``
        Left as it is.
    X : table of shape (n_samples, n_features)
    ranks : int or sequence of int, optional
        Numbers of components; 1, 2, ... up to 10 or less than the table's sides by default. 0 is allowed where the
        estimator allows it (`EPCA`, `SePCA`): no components at all.
    offset, covariates, sample_weight : as in ``fit``
        For estimators that take them.

    Returns
    -------
    tuple of fitted estimators
        By increasing rank.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA
    >>> from anypca.selection import rank_path
    >>> X = np.random.default_rng(0).normal(size=(50, 6))
    >>> [model.n_components_ for model in rank_path(PPCA(), X, [1, 3])]
    [1, 3]
    """
    name = rank_parameter(estimator)
    companions = Companions(offset, covariates, sample_weight)
    return fit_ranks(estimator, name, X, choose_ranks(ranks, X), companions)


def fit_ranks(
    estimator: Any, name: str, X: Any, ranks: Sequence[int], companions: Companions
) -> tuple[Any, ...]:
    """Fitted copies of an estimator for checked ranks."""
    if describe(estimator).has_path:
        return tuple(estimator.path(X, ranks, **companions.for_fit()).models)
    return tuple(clone(estimator).set_params(**{name: rank}).fit(X, **companions.for_fit()) for rank in ranks)


def rank_parameter(estimator: Any) -> str:
    """The name of the parameter that sets the rank of an estimator.

    Raises
    ------
    TypeError
        If it is no estimator, or has no such parameter.
    """
    if isinstance(estimator, type) or find_attribute(estimator, "get_params") is None:
        call = f" Write {estimator.__name__}()." if isinstance(estimator, type) else ""
        raise TypeError(f"estimator must be an estimator such as EPCA(); got {estimator!r}.{call}")
    parameters = estimator.get_params(deep=False)
    for name in _RANK_PARAMETERS:
        if name in parameters:
            return name
    raise TypeError(
        f"{type(estimator).__name__} has no parameter that sets a rank (n_components or max_components), so there is "
        "nothing to choose. Pass an estimator such as EPCA()."
    )


def choose_ranks(ranks: Any, X: Any) -> list[int]:
    """Ranks that fit a table, in increasing order without repetitions; the default ones for None.

    Raises
    ------
    TypeError, ValueError
        If they are not integers from 0 to the smaller side of the table.
    """
    data = check_data(X)
    largest = min(data.n_samples, data.n_features)
    if ranks is None:
        return list(range(1, max(min(_DEFAULT_LARGEST, largest - 1), 1) + 1))
    return check_ranks(ranks, largest)


def settle_family(estimator: Any, X: Any) -> Any:
    """A copy of an estimator in which ``family="auto"`` is replaced by what it means for the whole table.

    Fits to parts of the table must not disagree about it: a column of small counts of which the part shows zeros and
    ones only would become binary, and its other counts impossible.
    """
    copy = clone(estimator)
    family = copy.family if isinstance(copy, BilinearModel) else None
    if not (isinstance(family, str) and family.strip().lower() == "auto"):
        return copy
    with open_session(check_data(X), copy.n_jobs) as session:
        chosen, _ = choose_family(family, session)
    return copy.set_params(family=chosen)
