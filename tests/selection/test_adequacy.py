"""KMO and Bartlett's test."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.selection import adequacy


def test_known_answers_of_three_columns_with_equal_correlations():
    """Partial correlations of three columns with correlation r are r / (1 + r)."""
    r, n = 0.5, 100
    root = np.linalg.cholesky(np.full((3, 3), r) + (1 - r) * np.eye(3))
    basis = np.linalg.qr(np.hstack([np.ones((n, 1)), np.vander(np.arange(n) / n, 4)[:, :3]]))[0][:, 1:]
    found = adequacy(basis @ root.T)
    assert found.kmo == pytest.approx(r**2 / (r**2 + (r / (1 + r)) ** 2))
    np.testing.assert_allclose(found.kmo_by_column, found.kmo)
    determinant = (1 - r) ** 2 * (1 + 2 * r)
    assert found.statistic == pytest.approx(-(n - 1 - 11 / 6) * np.log(determinant))
    assert found.degrees_of_freedom == 3


def test_independent_columns_have_uniform_p_values(rng):
    values = [adequacy(rng.normal(size=(100, 6))).p_value for _ in range(200)]
    # Kolmogorov's distance of 200 uniform numbers exceeds 0.16 with probability 1e-4.
    assert np.abs(np.sort(values) - (np.arange(200) + 0.5) / 200).max() < 0.16


def test_units_gaps_and_constant_columns(rng):
    table = rng.normal(size=(300, 1)) + rng.normal(size=(300, 5))
    plain = adequacy(table)
    scaled = adequacy(np.insert(table * [1, 10, 100, 1e3, 1e-3] + 7, 2, 4.0, axis=1))
    assert scaled.kmo == pytest.approx(plain.kmo)
    assert np.isnan(scaled.kmo_by_column[2])
    holed = np.where(rng.random(table.shape) < 0.1, np.nan, table)
    assert adequacy(holed).kmo == pytest.approx(plain.kmo, abs=0.1)
    with pytest.raises(ValueError, match="two columns that vary"):
        adequacy(np.ones((5, 3)))
