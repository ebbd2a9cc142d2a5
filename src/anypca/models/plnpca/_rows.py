"""Posteriors of rows with frozen coefficients, each row solved to its own convergence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import PackedCholesky, packed_diagonal, packed_products, packed_size
from anypca.models._bilinear.kernel import Coefficients
from anypca.models.plnpca._kernel import CountRows, Kernel, State
from anypca.models.plnpca._problem import PLNProblem, newton_rows
from anypca.models.plnpca._start import HALF

_MAX_NEWTON = 200


class RowFit(NamedTuple):
    """Posteriors of rows."""

    state: State
    value: Floats
    """Bound of each row without ``-log x!``, shape (rows,)."""
    converged: Bools
    """(rows,)."""


def solve_rows(problem: PLNProblem, coefficients: Coefficients, rows: CountRows) -> RowFit:
    """Maximise the bound of each row over its posterior by damped Newton steps.

    A row's answer does not depend on its neighbours: each has its own step length and its own stop.
    """
    kernel = Kernel(coefficients, rows)
    with np.errstate(over="ignore", invalid="ignore"):
        state = _first_state(kernel)
        value, converged = np.zeros(rows.n_rows), np.zeros(rows.n_rows, dtype=bool)
        active = np.arange(rows.n_rows)
        for _ in range(_MAX_NEWTON):
            some = kernel if active.size == rows.n_rows else kernel.take(active)
            current = state.take(active)
            sums = some.row_sums(current)
            newton = newton_rows(current, sums)
            value[active] = sums.value - current.divergence()
            # A gain that the bound cannot resolve is taken unseen, as the last step: Newton's error squares.
            solved = newton.decrement <= problem.slack(sums.value)
            converged[active[solved]] = True
            last = newton.take(solved).apply(current.take(solved))
            state.mean[active[solved]], state.variance[active[solved]] = last
            active, going = active[~solved], ~solved
            if active.size == 0:
                break
            state.mean[active], state.variance[active] = problem.shorten(
                some.take(going), current.take(going), newton.take(going), sums.value[going], first=1.0
            )
    return RowFit(state, value, converged)


def _first_state(kernel: Kernel) -> State:
    """One weighted regression of the log counts on the loadings, from the rates without components.

    From the prior, Newton steps on exponentials overshoot where counts are far above these rates.
    """
    rows, loadings = kernel.rows, kernel.coefficients.loadings
    n, k = rows.n_rows, loadings.shape[1]
    absent = State(np.zeros((n, k)), np.zeros((n, k)))
    slope, packed = np.zeros((n, k)), np.zeros((n, packed_size(k)))
    for tile in rows.tiles():
        x = np.asarray(rows.x[:, tile], dtype=float) + HALF
        residual = np.log(x) - np.log(kernel.rates(absent, tile) + HALF)
        if rows.observed is not None:
            x = np.where(rows.observed[:, tile], x, 0.0)
        slope += (x * residual) @ loadings[tile]
        packed += x @ packed_products(loadings[tile])
    diagonal = packed_diagonal(k)
    packed[:, diagonal] += 1.0
    mean = PackedCholesky(packed, k).solve(slope)
    # Where rates overflow without components the prior is the only start.
    usable = np.isfinite(mean).all(axis=1, keepdims=True)
    return State(np.where(usable, mean, 0.0), np.where(usable, 1.0 / packed[:, diagonal], 1.0))
