"""Whether the columns of a table have enough in common for components: KMO and Bartlett's test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from anypca._typing import Floats
from anypca.columns.encoding import encode, find_labels
from anypca.columns.reading import read_table


@dataclass(frozen=True, eq=False)
class Adequacy:
    """Result of `adequacy`.

    See Also
    --------
    adequacy : computes it.
    """

    kmo: float
    """Kaiser-Meyer-Olkin measure, 0 to 1; below 0.5 the columns have little in common (Kaiser 1974)."""
    kmo_by_column: Floats
    """The same for each column (n_features,); NaN in constant columns."""
    statistic: float
    """Chi-squared statistic of Bartlett's test of sphericity."""
    degrees_of_freedom: int
    p_value: float
    """Probability of such a statistic if the columns are uncorrelated."""


def adequacy(X: Any) -> Adequacy:
    """Compute the Kaiser-Meyer-Olkin measure and Bartlett's test of sphericity.

    Both use Pearson correlations of pairwise complete rows. Labels enter by their codes, so nominal columns with more
    than two categories should be left out.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)

    Returns
    -------
    Adequacy

    Raises
    ------
    ValueError
        If fewer than two columns vary, or a pair of columns has no common rows.

    References
    ----------
    H. F. Kaiser (1974). An index of factorial simplicity. Psychometrika 39.
    M. S. Bartlett (1951). The effect of standardization on a chi-square approximation in factor analysis.
    Biometrika 38.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.selection import adequacy
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) + rng.normal(size=(200, 5))
    >>> found = adequacy(X)
    >>> bool(found.kmo > 0.7 and found.p_value < 0.001)
    True
    """
    table = read_table(encode(X, find_labels(X)))
    varies = np.nanmax(table, axis=0) > np.nanmin(table, axis=0)
    if varies.sum() < 2:
        raise ValueError(f"adequacy needs two columns that vary; X has {int(varies.sum())}.")
    correlation, n_rows = _pairwise_correlations(table[:, varies])
    inverse = np.linalg.pinv(correlation, hermitian=True)
    scale = np.sqrt(np.abs(np.diag(inverse)))
    partial = inverse / np.outer(scale, scale)
    np.fill_diagonal(correlation, 0.0)
    np.fill_diagonal(partial, 0.0)
    shared, own = (correlation**2).sum(axis=0), (partial**2).sum(axis=0)
    by_column = np.full(table.shape[1], np.nan)
    by_column[varies] = shared / (shared + own)
    np.fill_diagonal(correlation, 1.0)
    p = len(correlation)
    statistic = -(n_rows - 1 - (2 * p + 5) / 6) * np.linalg.slogdet(correlation)[1]
    freedom = p * (p - 1) // 2
    return Adequacy(
        float(shared.sum() / (shared + own).sum()),
        by_column,
        float(statistic),
        freedom,
        float(chi2.sf(statistic, freedom)),
    )


def _pairwise_correlations(table: Floats) -> tuple[Floats, float]:
    """Return correlations over the rows that both columns of a pair have, and the mean number of these rows."""
    seen = np.isfinite(table)
    values, marks = np.where(seen, table - np.nanmean(table, axis=0), 0.0), seen.astype(float)
    counts = marks.T @ marks
    if counts.min() < 2:
        raise ValueError("two columns of X have fewer than two rows in common; leave one of them out.")
    sums, squares = values.T @ marks, (values**2).T @ marks
    covariance = values.T @ values - sums * sums.T / counts
    variance = squares - sums**2 / counts
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = covariance / np.sqrt(variance * variance.T)
    return np.nan_to_num(correlation), float(counts.mean())
