"""Private functions of scikit-learn, and differences between its versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.decomposition._pca import _assess_dimension, _infer_dimension
from sklearn.utils._param_validation import Interval, InvalidParameterError, RealNotInt, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names, _check_n_features

from anypca._typing import Floats

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback._callback_support import callback_management_context

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for versions of scikit-learn without callbacks."""

    HAS_CALLBACKS = False

#: ``set_callbacks`` and the method behind it, for classes that do not inherit `CallbackSupportMixin`.
callback_methods = (
    getattr(CallbackSupportMixin, "set_callbacks", None),
    getattr(CallbackSupportMixin, "_init_callback_context", None),
)

__all__ = [
    "HAS_CALLBACKS",
    "Interval",
    "InvalidParameterError",
    "RealNotInt",
    "StrOptions",
    "callback_methods",
    "check_features",
    "fit_callbacks",
    "infer_dimension",
    "minka_evidence",
    "output_kind",
]


def output_kind(estimator: Any) -> str | None:
    """The container set by ``set_output``, ``"pandas"`` or ``"polars"``; ``None`` if it was not called.

    Parameters
    ----------
    estimator : estimator instance
    """
    kind = str(_get_output_config("transform", estimator)["dense"])
    return None if kind == "default" else kind


def check_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Set (``reset=True``) or compare the names and the number of columns, with scikit-learn's messages.

    Parameters
    ----------
    estimator : estimator instance
    X : table of shape (n_samples, n_features)
        As passed by the caller: only data frames have names.
    reset : bool
        True in ``fit``, False everywhere else.

    Raises
    ------
    ValueError
        If they differ; the message of scikit-learn is followed by a remedy.
    """
    try:
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
    except ValueError as error:
        has_names = hasattr(estimator, "feature_names_in_") and hasattr(X, "columns")
        remedy = "X[model.feature_names_in_] selects them." if has_names else ""
        message = f"{str(error).rstrip()}\nPass the columns of fit, in the same order. {remedy}"
        raise ValueError(message.rstrip()) from error


def infer_dimension(spectrum: Floats, n_samples: int) -> int:
    """Number of components by Minka's evidence, in 1..n_features - 1.

    Parameters
    ----------
    spectrum : ndarray of shape (n_features,)
        Eigenvalues of the covariance matrix, decreasing, of a table with at least as many rows as columns.
    n_samples : int
    """
    return int(_infer_dimension(np.asarray(spectrum, dtype=np.float64), n_samples))


def minka_evidence(spectrum: Floats, n_samples: int) -> Floats:
    """Minka's log evidence of 0, 1, ..., n_features - 1 components, shape (n_features,).

    Parameters
    ----------
    spectrum : ndarray of shape (n_features,)
        Eigenvalues of the covariance matrix, decreasing, of a table with more rows than columns.
    n_samples : int
    """
    values = np.asarray(spectrum, dtype=np.float64)
    # Without components the formula reduces to the likelihood of the noise.
    none = -0.5 * n_samples * len(values) * np.log(values.mean())
    some = [_assess_dimension(values, rank, n_samples) for rank in range(1, len(values))]
    return np.array([none, *some])


@contextmanager
def fit_callbacks(estimator: Any, max_iter: int) -> Iterator[Callable[[], None]]:
    """Surround a fit with the hooks of scikit-learn's callbacks.

    Parameters
    ----------
    estimator : estimator instance
    max_iter : int
        Largest number of iterations.

    Yields
    ------
    notify : callable
        Call it after each iteration. A callback cannot stop a fit: only convergence and ``max_iter`` do.
    """
    if not (HAS_CALLBACKS and hasattr(estimator, "_skl_callbacks")):
        yield lambda: None
        return
    with callback_management_context(estimator):
        root = estimator._init_callback_context(max_subtasks=max_iter)
        root.call_on_fit_task_begin(estimator=estimator)

        def notify() -> None:
            iteration = root.subcontext(task_name="iteration")
            iteration.call_on_fit_task_begin(estimator=estimator)
            iteration.call_on_fit_task_end(estimator=estimator)

        yield notify
        root.call_on_fit_task_end(estimator=estimator)
