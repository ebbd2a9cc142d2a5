r"""How far sweeps over large tables go: farther in means, less far in precisions.

Rows beside columns that stand still, then columns beside rows: where many components are near the edge of noise each
side holds the other back, and a sweep goes a thousandth of the way. Two sides that both overshoot get there in the
square root of the number of sweeps (Young 1954, Transactions of the American Mathematical Society 76). A step of
:math:`\omega` times that to the optimum of a quadratic gains :math:`\omega (2 - \omega)` of what is to be gained: with
twice the length nothing is lost on the way, and what is gained comes from whatever does not overshoot (strong
components, intercepts, precisions) and from plain sweeps. These follow now and then, let settle what has been stirred
up, and tell whether the fit has converged.

Precisions have to be held back for this. The curvature of a rare event is its rate, which grows with the variance of
its predictor; a larger curvature makes a smaller variance, and the next one larger again. See `damping`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import packed_diagonal, packed_squares
from anypca.models.sepca._posterior import Loadings

# Length of a stride in plain steps. Near the end of a fit to the words of 3730 posts 14 strides and 4 plain sweeps
# gained 50 nats with it, 46 with 1.97, 44 with 1.95 and 39 with 1.9. Longer ones lose.
_FAR = 2.0
# Signal ratio up to which components go as far. Stronger ones do not need it, and are stirred up first.
_WEAK = 2.0
# Strides end where one gains less than this share of the best since plain sweeps.
_TIRED = 0.25
# Plain sweeps between strides, at least: the second has most of what has been stirred up.
_REST = 2
# They go on while the criterion falls to this share of its last value: what is left of the strides holds it up, and
# not the way that remains. Strides from there on would stir up more than they gain.
_FALLING = 0.8
# Median of the columns' damping below which leaps are taken to fail for their precisions, which strides are for. For
# measurements and usual counts it is near 1; leaps that fail there soon succeed again.
_ANSWERING = 0.9
# Most by which variances are taken to answer changes of the curvature; beyond it there is hardly any information.
_MOST_ANSWER = 1.0


def damping(shared: Loadings, information: Floats) -> Floats:
    r"""Part of the way that columns' precisions go, shape (n_features, 1).

    If the curvatures h of a column's entries grow by a share :math:`\epsilon`, its information :math:`I = \sum h \tilde
    z \tilde z'` does, and its covariance C falls by :math:`\epsilon C I C`. The predictors' variances fall by
    :math:`\epsilon \tilde z' C I C \tilde z`, on average with weights h by :math:`\epsilon\, \mathrm{tr} (C I)^2 / \sum
    h`; and a rate is proportional to the exponential of half of the variance. So information answers with the share
    :math:`-s \epsilon`, :math:`s = \mathrm{tr} (C I)^2 / (2 \sum h)`, and is where it stays after a step of
    :math:`1 / (1 + s)`. Where curvatures answer less, precisions get there a little later.

    Parameters
    ----------
    shared : Loadings
        With an intercept.
    information : ndarray of shape (n_features, m (m + 1) / 2)
        Of the last sweep, packed.
    """
    k, m = shared.n_components, shared.mean.shape[1]
    diagonal = packed_diagonal(m)
    # The prior is diagonal, and C I = 1 - C A with its precision A.
    prior = np.zeros((len(shared.mean), m))
    prior[:, :k], prior[:, k:] = shared.alpha / shared.unit_column, shared.fixed_precision
    covariance = shared.packed_covariance
    squares = packed_squares(covariance**2, prior)
    trace = m - 2.0 * np.einsum("ja,ja->j", covariance[:, diagonal], prior) + squares
    # The sum of the curvatures is the intercept's information; in units of the column it is a number of entries.
    entries = information[:, diagonal[k]] * shared.unit_column[:, 0]
    trace = np.maximum(trace, np.finfo(float).tiny)
    return np.asarray(1.0 / (1.0 + trace / np.maximum(2.0 * entries, trace / _MOST_ANSWER)))[:, None]


def is_answering(shared: Loadings, information: Floats) -> bool:
    """Whether precisions of most columns answer changes of themselves."""
    return float(np.median(damping(shared, information))) < _ANSWERING


def lengths(shared: Loadings, longest: float) -> Floats:
    """Of the components' steps, shape (k,): the longest for weak ones."""
    return np.asarray(1.0 + (longest - 1.0) * _WEAK / np.maximum(shared.signal_ratio, _WEAK))


@dataclass(frozen=True)
class Stride:
    """How far the next sweep goes, from what the last ones gained."""

    rest: int = _REST
    """Plain sweeps that are still to come before the next stride."""
    best: float = 0.0
    """Largest gain of a stride since then."""
    criterion: float = np.inf
    """After the last plain sweep."""

    @property
    def length(self) -> float:
        """In units of a plain step."""
        return 1.0 if self.rest else _FAR

    def gained(self, gain: float) -> Stride:
        """After a stride."""
        best = max(self.best, gain)
        return Stride(best=best, rest=0 if gain > _TIRED * best else _REST)

    def rested(self, criterion: float) -> Stride:
        """After a plain sweep."""
        is_falling = criterion <= _FALLING * self.criterion
        # After a stride that gained nothing the rest begins with this sweep.
        rest = (self.rest or _REST) - 1
        return Stride(rest=max(rest, int(is_falling)), criterion=criterion)
