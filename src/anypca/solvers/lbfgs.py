"""L-BFGS on all parameters at once: the reference that other solvers are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.optimize

from anypca._typing import Floats
from anypca.exceptions import NonFiniteError
from anypca.solvers.result import Callback, Progress, Result, Status

# Pairs of steps that are remembered. Reference solutions are of small problems, where memory is no concern.
_MEMORY = 30
# Steps whose gain is judged together: single ones may gain little on the way to a better direction.
_WINDOW = 10


class SmoothProblem(Protocol):
    """Interface of a model to L-BFGS."""

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """The objective to maximise and its gradient, at a vector (m,)."""


def lbfgs(
    problem: SmoothProblem,
    start: Floats,
    *,
    max_iter: int = 10_000,
    tol: float = 1e-6,
    least_gain: float | None = None,
    callback: Callback | None = None,
) -> Result[Floats]:
    """Maximise a smooth function of a vector.

    All scores are kept in one vector, which is slow on tables: it is an independent check of the solvers that use the
    structure of rows and columns.

    Parameters
    ----------
    problem : SmoothProblem
    start : ndarray of shape (m,)
    max_iter : int
    tol : float
        Stop when no entry of the gradient is larger than this.
    least_gain : float or None
        Also stop when ten steps together raise the objective by less than this share of it: for functions with
        kinks, at which gradients do not vanish.
    callback : callable or None
        Called after each iteration with the largest entry of the gradient at the last point that was tried.

    Returns
    -------
    Result
        ``shared`` is the vector (m,), ``criterion`` the largest entry of the gradient.

    Raises
    ------
    NonFiniteError
        If the objective or its gradient is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> class Parabola:
    ...     def value_and_gradient(self, vector):
    ...         return -float(((vector - 3.0) ** 2).sum()), -2.0 * (vector - 3.0)
    >>> lbfgs(Parabola(), np.zeros(2)).shared.round(6).tolist()
    [3.0, 3.0]
    """
    trace = [_evaluate(problem, start, 0)[0]]
    largest = np.inf

    def loss(vector: Floats) -> tuple[float, Floats]:
        nonlocal largest
        value, gradient = _evaluate(problem, vector, len(trace))
        largest = float(np.max(np.abs(gradient), initial=0.0))
        return -value, -gradient

    def record(intermediate_result: Any) -> None:
        trace.append(-float(intermediate_result.fun))
        if callback is not None:
            callback(Progress(len(trace) - 1, max_iter, trace[-1], largest))
        if least_gain is not None and _is_flat(trace, least_gain):
            raise StopIteration

    # ftol=0: a small change of the objective is no reason to stop, only a small gradient is.
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": tol, "maxcor": _MEMORY}
    found = scipy.optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", callback=record, options=options
    )
    criterion = float(np.max(np.abs(found.jac), initial=0.0))
    is_spent = found.nit >= max_iter or found.nfev >= 20 * max_iter
    if least_gain is not None and criterion > tol:
        is_rising = is_spent and not _is_flat(trace, least_gain)
        status = Status.RISING if is_rising else Status.PLATEAU
    else:
        status = _status(criterion <= tol, is_spent)
    return Result(found.x, np.array(trace), status, criterion, len(trace))


def _is_flat(trace: Sequence[float], least_gain: float) -> bool:
    """Whether the last steps gained too little, or nothing at all."""
    return len(trace) > _WINDOW and trace[-1] - trace[-1 - _WINDOW] <= least_gain * abs(trace[-1])


def _status(is_stationary: bool, is_spent: bool) -> Status:
    if is_stationary:
        return Status.CONVERGED
    return Status.MAX_ITER if is_spent else Status.STALLED


def _evaluate(problem: SmoothProblem, vector: Floats, iteration: int) -> tuple[float, Floats]:
    value, gradient = problem.value_and_gradient(vector)
    if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
        raise NonFiniteError(
            f"the objective or its gradient became non-finite ({value}) at iteration {iteration} of L-BFGS. "
            "Start nearer to the optimum."
        )
    return float(value), gradient
