"""Special functions in forms that neither overflow nor cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leggauss
from scipy.special import gammaln, kve, log_ndtr

from anypca._typing import Bools, Floats

__all__ = [
    "TruncatedNormal",
    "digamma_rise",
    "inverted",
    "log1pexp",
    "log_bessel_k",
    "log_ndtr_difference",
    "log_rising",
    "mills_ratio",
    "truncated_normal",
]

#: Steps of `inverted`: Newton's method doubles its digits, and nearly linear functions start with one.
_NEWTON_STEPS = 20
#: From this order on the uniform expansion is used: with eleven terms its error is below 1e-13 there.
_DEBYE_ORDER = 15.0
_DEBYE_TERMS = 11
#: Beyond this argument the library routine loses digits and then returns NaN; below order 15 three terms of
#: the expansion in 1/x are exact to working precision from here on.
_LARGE_ARGUMENT = 1e6
#: Closed forms of truncated moments subtract numbers of size edge^2 and divide by the mass: for intervals narrower than
#: the first or beyond the second they lose three digits or more, and quadrature is used.
_WIDE = 0.5
_NEAR = 4.0
#: exp(-40) is below the working precision: the density further out does not count.
_NEGLIGIBLE = 40.0
#: Coefficients of the normal distribution's tail over its density (Abramowitz and Stegun 26.2.17), highest power first.
_TAIL_RATE = 0.2316419
_TAIL = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530)
#: Recurrence steps before Stirling's series, and its coefficients (Abramowitz and Stegun, 6.1.41 and 6.3.18) from the
#: last to the first, for the logarithm of the gamma function and for minus its derivative: at arguments from 8 on the
#: dropped terms are below 2e-14.
_SHIFT = 8
_LOG_GAMMA = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_DIGAMMA = (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def log1pexp(x: Floats) -> Floats:
    """Logarithm of ``1 + exp(x)``, in the dtype of x.

    Parameters
    ----------
    x : ndarray

    Returns
    -------
    ndarray of the shape of x

    Notes
    -----
    ``max(x, 0) + log1p(exp(-|x|))`` never overflows and is fifteen times faster than ``logaddexp(0, x)``.

    Examples
    --------
    >>> import numpy as np
    >>> log1pexp(np.array([0.0, 800.0])).round(4).tolist()
    [0.6931, 800.0]
    """
    value: Floats = np.log1p(np.exp(-np.abs(x)))
    return value + np.maximum(x, 0)


def mills_ratio(x: Floats, width: Floats | float = 1.0) -> Floats:
    """Probability beyond x under a normal distribution around 0, over the standard normal density at ``x / width``.

    Parameters
    ----------
    x : ndarray
        Values >= 0.
    width : ndarray or float, default=1.0
        Standard deviations; they broadcast with x.

    Returns
    -------
    ndarray of the dtype of x
        Times that density it is the probability to within 7.5e-8, in half the time of the exact one.

    References
    ----------
    M. Abramowitz, I. Stegun (1964). Handbook of Mathematical Functions, 26.2.17.

    Examples
    --------
    >>> mills_ratio(np.array([0.0, 1.0])).round(5).tolist()
    [1.25331, 0.65568]
    """
    inner = x * _TAIL_RATE + width
    np.divide(width, inner, out=inner)
    ratio = inner * _TAIL[0]
    for coefficient in _TAIL[1:]:
        ratio += coefficient
        ratio *= inner
    return ratio


def log_rising(x: Floats, inverse: Floats) -> Floats:
    """``log G(r + x) - log G(r) - x log r`` with G the gamma function and r = 1 / inverse; it tends to 0 as r grows.

    Parameters
    ----------
    x : ndarray
        Values >= 0.
    inverse : ndarray
        1 / r > 0; it broadcasts with x.

    Returns
    -------
    ndarray in the dtype of x

    Notes
    -----
    Stirling's series at r + 8 and r + 8 + x, and the recurrence ``G(z + 1) = z G(z)``. Only the differences between the
    two arguments are computed, so that large r cancel no digits.

    Examples
    --------
    >>> log_rising(np.array([3.0]), np.array([0.5])).round(6).tolist()  # log(2 * 3 * 4 / 2^3)
    [1.098612]
    """
    r = 1.0 / inverse
    far = r + _SHIFT
    end = far + x
    growth = np.log1p(x / far)
    value = far * growth
    value -= x
    value += (x - 0.5) * growth
    value += x * np.log1p(_SHIFT * inverse)
    value += _even_series(end, _LOG_GAMMA) / end - _even_series(far, _LOG_GAMMA) / far
    # (r + x + i) (r + x + 7 - i) over (r + i) (r + 7 - i), less 1.
    span = end + (r - 1.0)
    for i in range(_SHIFT // 2):
        value -= np.log1p(x / (r + i) * (span / (r + (_SHIFT - 1 - i))))
    return np.asarray(value)


def digamma_rise(x: Floats, r: Floats) -> Floats:
    """``psi(r + x) - psi(r)`` with psi the derivative of the logarithm of the gamma function, without cancellation.

    Parameters
    ----------
    x, r : ndarray
        x >= 0, r > 0; they broadcast.

    Returns
    -------
    ndarray in the dtype of x

    Notes
    -----
    As in `log_rising`.

    Examples
    --------
    >>> digamma_rise(np.array([2.0]), np.array([4.0])).round(6).tolist()  # 1/4 + 1/5
    [0.45]
    """
    far, start = r + _SHIFT, r + x
    end = start + _SHIFT
    inverse, inverse_end = 1.0 / far, 1.0 / end
    value = np.log1p(x * inverse)
    value += 0.5 * x * inverse * inverse_end
    value += _even_series(far, _DIGAMMA) * inverse**2 - _even_series(end, _DIGAMMA) * inverse_end**2
    for i in range(_SHIFT):
        value += x / (r + i) / (start + i)
    return np.asarray(value)


def _even_series(z: Floats, coefficients: tuple[float, ...]) -> Floats:
    """The polynomial in ``1 / z^2`` with these coefficients, from the last to the first."""
    square = 1.0 / (z * z)
    value = square * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= square
    value += coefficients[-1]
    return value


def log_bessel_k(nu: npt.ArrayLike, x: npt.ArrayLike) -> Floats:
    r"""Logarithm of the modified Bessel function of the second kind, ``log K_nu(x)``.

    Parameters
    ----------
    nu : array-like
        Order, any sign (K is even in it).
    x : array-like
        Argument, > 0. The value is ``inf`` at 0 and ``nan`` below.

    Returns
    -------
    ndarray of float64, of the shape of ``nu`` and ``x`` broadcast

    Notes
    -----
    Below order 15 the scaled library routine, continued by the leading terms for small and for large
    arguments. From order 15 on the uniform expansion, with :math:`z = x/\nu`, :math:`s = \sqrt{1+z^2}`:

    .. math:: \log K_\nu(x) = \tfrac12\log\frac{\pi}{2\nu} - \nu\Big(s + \log\frac{z}{1+s}\Big)
              - \tfrac12\log s + \log\sum_k (-1)^k u_k(1/s)\,\nu^{-k}.

    References
    ----------
    NIST Digital Library of Mathematical Functions, equations 10.30.2, 10.40.2 and 10.41.4.

    Examples
    --------
    >>> float(round(log_bessel_k(0.5, 2.0), 6))
    -2.120782
    """
    order, argument = np.broadcast_arrays(np.abs(np.asarray(nu, float)), np.asarray(x, float))
    value = np.full(order.shape, np.nan)
    value[argument == 0] = np.inf
    value[np.isposinf(argument)] = -np.inf
    inside = (argument > 0) & np.isfinite(argument)
    high = order >= _DEBYE_ORDER
    large = argument > _LARGE_ARGUMENT
    for branch, where in (
        (_bessel_debye, inside & high),
        (_bessel_large_argument, inside & ~high & large),
        (_bessel_library, inside & ~high & ~large),
    ):
        if where.any():
            value[where] = branch(order[where], argument[where])
    return value[()]


def _bessel_library(nu: Floats, x: Floats) -> Floats:
    """Moderate arguments; where K itself overflows (tiny x) its leading term is exact in float64."""
    scaled = kve(nu, x)
    huge = np.isinf(scaled)
    value: Floats = np.log(np.where(huge, 1.0, scaled)) - x
    if huge.any():
        value[huge] = gammaln(nu[huge]) - np.log(2.0) + nu[huge] * (np.log(2.0) - np.log(x[huge]))
    return value


def _bessel_large_argument(nu: Floats, x: Floats) -> Floats:
    """Hankel's expansion to third order in 1/x."""
    square = 4.0 * nu * nu
    first = (square - 1.0) / (8.0 * x)
    second = first * (square - 9.0) / (16.0 * x)
    third = second * (square - 25.0) / (24.0 * x)
    return np.asarray(0.5 * np.log(np.pi / 2.0) - 0.5 * np.log(x) - x + np.log1p(first + second + third))


def _debye_polynomials(n_terms: int) -> tuple[Polynomial, ...]:
    """The polynomials u_k of the uniform expansion, by their recurrence."""
    terms = [Polynomial([1.0])]
    derivative_factor = Polynomial([0.0, 0.0, 0.5, 0.0, -0.5])
    integral_factor = Polynomial([1.0 / 8.0, 0.0, -5.0 / 8.0])
    for _ in range(n_terms - 1):
        last = terms[-1]
        terms.append(derivative_factor * last.deriv() + (integral_factor * last).integ())
    return tuple(terms)


_DEBYE = _debye_polynomials(_DEBYE_TERMS)


def _bessel_debye(nu: Floats, x: Floats) -> Floats:
    z = x / nu
    s = np.hypot(1.0, z)
    # log(z) from its parts: x / nu may underflow where log(x) - log(nu) does not.
    exponent = s + np.log(x) - np.log(nu) - np.log1p(s)
    correction = np.zeros_like(nu)
    for term in reversed(_DEBYE):
        correction = term(1.0 / s) - correction / nu
    return np.asarray(0.5 * np.log(np.pi / (2.0 * nu)) - nu * exponent - 0.5 * np.log(s) + np.log(correction))


class TruncatedNormal(NamedTuple):
    """Mass and moments of a standard normal on an interval, elementwise."""

    log_interval_probability: Floats
    """Logarithm of the probability of the interval."""
    mean: Floats
    """Mean given the interval."""
    variance: Floats
    """Variance given the interval, in [0, 1]."""


def log_ndtr_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    """Logarithm of the standard normal probability of the interval from a to b.

    Parameters
    ----------
    a, b : array-like
        Ends, ``a <= b``, possibly infinite.

    Returns
    -------
    ndarray of float64, ``-inf`` where ``a == b``

    Examples
    --------
    >>> float(round(log_ndtr_difference(8.0, 9.0), 6))
    -35.013619
    """
    return truncated_normal(a, b).log_interval_probability


def truncated_normal(a: npt.ArrayLike, b: npt.ArrayLike) -> TruncatedNormal:
    r"""Mass, mean and variance of a standard normal truncated to the interval from a to b.

    Parameters
    ----------
    a, b : array-like
        Ends, ``a <= b``, possibly infinite; they broadcast.

    Returns
    -------
    TruncatedNormal
        Three arrays of float64 of the broadcast shape.

    Raises
    ------
    ValueError
        If some a is larger than its b, or NaN.

    Notes
    -----
    With :math:`Z = \Phi(b) - \Phi(a)` the mean is :math:`\lambda = (\phi(a) - \phi(b))/Z` and the variance
    :math:`1 + (a\phi(a) - b\phi(b))/Z - \lambda^2`. On narrow intervals and in the tails these forms cancel
    (completely for the variance on (0, 1e-6)), so there the moments come from a Gauss-Legendre rule of 48
    nodes, which is exact to working precision on the part of the interval that carries mass.

    Examples
    --------
    >>> moments = truncated_normal(0.0, np.inf)
    >>> float(round(moments.mean, 6)), float(round(moments.variance, 6))
    (0.797885, 0.36338)
    """
    low, high = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    if not np.all(low <= high):
        raise ValueError("an interval needs a <= b; some a is larger than its b, or NaN.")
    # Intervals are mirrored so that the end nearer to the mode is the lower one: log_ndtr is accurate on the left.
    mirrored = high < -low
    near, far = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    log_interval_probability, mean, variance = (np.empty(low.shape) for _ in range(3))
    closed = (far - near > _WIDE) & (near < _NEAR) if low.size else np.zeros(low.shape, bool)
    for branch, where in ((_moments_closed, closed), (_moments_quadrature, ~closed)):
        if where.any():
            log_interval_probability[where], mean[where], variance[where] = branch(near[where], far[where])
    return TruncatedNormal(log_interval_probability[()], np.where(mirrored, -mean, mean)[()], variance[()])


def _moments_closed(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """The closed forms; a is the end nearer to zero, so the mass is a difference of upper tails."""
    log_upper_a, log_upper_b = log_ndtr(-a), log_ndtr(-b)
    log_interval_probability: Floats = log_upper_a + np.log1p(-np.exp(log_upper_b - log_upper_a))
    ratio_a, ratio_b = (
        np.exp(-0.5 * (e * e + np.log(2.0 * np.pi)) - log_interval_probability) for e in (a, b)
    )
    mean = ratio_a - ratio_b
    variance = 1.0 + _edge_product(a, ratio_a) - _edge_product(b, ratio_b) - mean * mean
    return log_interval_probability, mean, variance


def _edge_product(edge: Floats, ratio: Floats) -> Floats:
    """``edge * ratio`` with its limit 0 at infinite edges."""
    finite: Bools = np.isfinite(edge)
    return np.where(finite, edge, 0.0) * ratio


# Exact to working precision over the part that carries mass, which is at most nine standard deviations wide.
_NODES, _WEIGHTS = leggauss(48)
_UNIT_NODES, _UNIT_WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


def _moments_quadrature(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Quadrature of ``exp(-(a u + u^2 / 2))`` over u = x - a, up to where it is negligible."""
    slope = np.maximum(a, 0.0)
    reach = 2.0 * _NEGLIGIBLE / (slope + np.sqrt(slope * slope + 2.0 * _NEGLIGIBLE))
    width = np.minimum(b - a, reach)
    u = width[:, None] * _UNIT_NODES
    density = np.exp(-u * (a[:, None] + 0.5 * u)) * _UNIT_WEIGHTS
    total = density.sum(axis=1)
    shift = (density * u).sum(axis=1) / total
    variance = (density * (u - shift[:, None]) ** 2).sum(axis=1) / total
    with np.errstate(divide="ignore"):  # an empty interval has log mass -inf
        log_interval_probability = np.log(width * total) - 0.5 * (a * a + np.log(2.0 * np.pi))
    return log_interval_probability, a + shift, variance


def inverted(goal: Floats, start: Floats, function: Callable[[Floats], tuple[Floats, Floats]]) -> Floats:
    """Solve ``function(x) = goal`` for an increasing function by Newton's method.

    Parameters
    ----------
    goal, start : ndarray of the same shape
    function : callable
        Value and slope at a point; so nearly linear that steps do not overshoot, such as the logarithm of a mean.
    """
    eta = start
    for _ in range(_NEWTON_STEPS):
        value, slope = function(eta)
        eta = eta + (goal - value) / slope
    return eta
