"""Special functions against quadrature, library routines and identities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import log_ndtr

from anypca.special import log1pexp, log_bessel_k, log_ndtr_difference, truncated_normal


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log1pexp(dtype):
    x = np.array([-800, -50, -1, 0, 1, 50, 800], dtype=dtype)
    value = log1pexp(x)
    assert value.dtype == dtype
    assert_allclose(value, np.logaddexp(0.0, x.astype(float)), rtol=4 * np.finfo(dtype).eps, atol=1e-30)


def bessel_by_quadrature(nu: float, x: float) -> float:
    """Log of the integral of exp(-x cosh t) cosh(nu t); the trapezoidal rule converges geometrically."""
    top = np.arcsinh(nu / x)  # the integrand's mode for large nu

    def exponent(t):
        return nu * t - x * np.cosh(t)

    width = 1.0 / (nu * nu + x * x) ** 0.25
    start, stop = max(0.0, top - 45 * width - 1.0), top + 45 * width + 2.0
    t = np.linspace(start, stop, 20001)
    terms = exponent(t) + np.log1p(np.exp(-2 * nu * t)) - np.log(2.0)
    if start == 0.0:
        terms[0] -= np.log(2.0)
    return float(np.logaddexp.reduce(terms) + np.log(t[1] - t[0]))


@pytest.mark.parametrize("nu", [0.0, 0.5, 3.5, 14.9, 15.0, 15.5, 20.0, 100.0, 1000.0, 1e4])
@pytest.mark.parametrize("x", [1e-2, 1.0, 30.0, 1e3])
def test_log_bessel_k_equals_its_integral(nu, x):
    assert_allclose(log_bessel_k(nu, x), bessel_by_quadrature(nu, x), rtol=1e-12, atol=5e-12)


def test_log_bessel_k_half_integer_closed_form():
    x = np.geomspace(1e-300, 1e300, 121)
    with np.errstate(over="ignore"):
        expected = 0.5 * np.log(np.pi / 2) - 0.5 * np.log(x) - x
    assert_allclose(log_bessel_k(0.5, x), expected, rtol=1e-14)


@pytest.mark.parametrize("nu", [1.0, 5.3, 14.0, 14.5, 15.2, 300.0])
def test_log_bessel_k_recurrence(nu):
    """K_{nu+1} = K_{nu-1} + (2 nu / x) K_nu, across the border of the two methods too."""
    x = np.concatenate([np.geomspace(1e-8, 1e8, 81), [9.9e5, 1.1e6]])
    right = np.logaddexp(log_bessel_k(nu - 1, x), np.log(2 * nu / x) + log_bessel_k(nu, x))
    assert_allclose(log_bessel_k(nu + 1, x), right, rtol=1e-13, atol=5e-12)


def test_log_bessel_k_overflow_of_k_itself():
    x = np.array([1e-300, 1e-100, 1e-60])
    ratio = log_bessel_k(14.0, x) - log_bessel_k(13.0, x)
    assert_allclose(ratio, np.log(2 * 13.0) - np.log(x), rtol=1e-13)


def test_log_bessel_k_edges():
    assert_array_equal(log_bessel_k(2.0, [0.0, np.inf, -1.0]), [np.inf, -np.inf, np.nan])
    assert log_bessel_k(-3.5, 2.0) == log_bessel_k(3.5, 2.0)
    assert log_bessel_k(np.ones((3, 1)), np.ones(4)).shape == (3, 4)


def moments_by_quadrature(a: float, b: float) -> tuple[float, float, float]:
    """Adaptive quadrature in u = x - edge, relative to the density at the edge nearer to the mode."""
    if b < -a:
        mass, mean, variance = moments_by_quadrature(-b, -a)
        return mass, -mean, variance
    edge = max(a, 0.0) if a > 0 else 0.0
    start, stop = a - edge, min(b - edge, 80.0 / (edge + np.sqrt(edge * edge + 80.0)) if edge else 12.0)
    start = max(start, -12.0)

    def moment(power, centre=0.0):
        def integrand(u):
            return (u - centre) ** power * np.exp(-u * (edge + 0.5 * u))

        return quad(integrand, start, stop, epsabs=0.0, epsrel=1e-12, limit=400)[0]

    total = moment(0)
    mean = moment(1) / total
    variance = moment(2, mean) / total
    return float(np.log(total) - 0.5 * edge**2 - 0.5 * np.log(2 * np.pi)), edge + mean, variance


INTERVALS = [
    (-np.inf, 0.3),
    (-1.0, 2.0),
    (-0.2, 0.1),
    (0.0, 1e-6),
    (2.0, 2.001),
    (3.9, 5.0),
    (4.1, 9.0),
    (6.0, np.inf),
    (8.0, 9.0),
    (-40.0, -38.5),
    (300.0, 301.0),
    (-np.inf, -1e4),
]


@pytest.mark.parametrize(("a", "b"), INTERVALS, ids=str)
def test_truncated_normal_equals_quadrature(a, b):
    expected = moments_by_quadrature(a, b)
    for value, truth in zip(truncated_normal(a, b), expected, strict=True):
        assert_allclose(value, truth, rtol=1e-10, atol=0)


def test_truncated_normal_mirror_and_shape():
    a, b = np.array([[-3.0], [1.0]]), np.array([1.0, 5.0, np.inf])
    left, right = truncated_normal(a, b), truncated_normal(-b, -a)
    assert left.mean.shape == (2, 3)
    assert_allclose(left.log_interval_probability, right.log_interval_probability, rtol=1e-14)
    assert_allclose(left.mean, -right.mean, rtol=1e-14)
    assert_allclose(left.variance, right.variance, rtol=1e-14)


def test_truncated_normal_empty_interval_and_array():
    log_interval_probability, mean, variance = truncated_normal(2.0, 2.0)
    assert (log_interval_probability, mean, variance) == (-np.inf, 2.0, 0.0)
    assert truncated_normal(np.zeros(0), np.ones(0)).mean.shape == (0,)


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (np.nan, 1.0)])
def test_truncated_normal_rejects_reversed_ends(a, b):
    with pytest.raises(ValueError, match="a <= b"):
        truncated_normal(a, b)


def test_log_ndtr_difference_masses_add_up():
    cuts = np.array([-np.inf, -9.0, -3.0, -2.9, 0.0, 0.2, 4.5, 8.0, np.inf])
    pieces = log_ndtr_difference(cuts[:-1], cuts[1:])
    assert_allclose(np.logaddexp.accumulate(pieces), log_ndtr(cuts[1:]), rtol=1e-13, atol=1e-15)
