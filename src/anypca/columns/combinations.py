"""Columns that are exact linear combinations of others: sums, differences, the last of shares of a whole."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from anypca._typing import Floats, Ints
from anypca._words import listed
from anypca.columns.forms import Combination
from anypca.columns.table import Table
from anypca.engine import Block

# Columns up to which relations are looked for: all products of columns are a matrix of 8 MB then.
_MOST_COLUMNS = 1000
# Rows beyond the columns from which on a relation is no chance; fewer rows than columns always have some.
_SPARE_ROWS = 8
# Eigenvalue of a correlation matrix up to which a direction has no variance. Rounding leaves 1e-13 in a thousand
# columns; noise of more than a 3e-6th of a column's deviation is kept.
_NO_VARIANCE = 1e-11
# Weight of a column in a relation up to which it takes no part; rounding leaves 1e-9.
_NO_PART = 1e-6
# Columns whose shares in the relations differ by less are tied; the later one is dropped.
_TIE = 1e-6
# Maximum number of columns named in a reason.
_NAMED = 5
# Seed of the random weights that distinguish rows; its value is arbitrary.
_SEED = 41


def find_combinations(table: Table, columns: Ints) -> dict[int, Combination]:
    """Find columns that are exact combinations of others.

    Of the columns in a relation that one is left out without which the others correlate least (their correlation matrix
    has the largest determinant), whatever their order and their units: usually a sum and not what is added.

    Parameters
    ----------
    table : Table
        Open on the table.
    columns : ndarray of int
        Those with continuous noise that vary; of these the complete ones are looked at.
    """
    columns = columns[table.summary.n_observed[columns] == table.data.n_samples]
    if len(columns) < 2 or len(columns) > _MOST_COLUMNS or not _has_rows(table.data.n_samples, columns):
        return {}
    values, vectors = np.linalg.eigh(_correlations(table, columns))
    relations = vectors[:, values <= _NO_VARIANCE].T
    if not len(relations) or not _has_rows(_count_distinct(table, columns), columns):
        return {}
    return _combinations(table, columns, relations)


def _has_rows(n_rows: int, columns: Ints) -> bool:
    """Whether there are more rows than would have relations by chance."""
    return n_rows >= len(columns) + _SPARE_ROWS


def _standard(table: Table, block: Block, columns: Ints) -> Floats:
    """Standardised rows of some columns, (rows, n_columns)."""
    mean, deviation = table.summary.mean[columns], np.sqrt(table.summary.variance[columns])
    return np.asarray((block.read().x[:, columns].astype(float) - mean) / deviation)


def _correlations(table: Table, columns: Ints) -> Floats:
    """Correlations of the columns, from sums over rows; (n_columns, n_columns)."""

    def visit(block: Block, _: object) -> Floats:
        rows = _standard(table, block, columns)
        return np.asarray((rows * block.weights[:, None]).T @ rows)

    total: Floats = table.sum(visit)
    return np.asarray(total / table.summary.weight[columns[0]])


def _count_distinct(table: Table, columns: Ints) -> int:
    """Number of different rows of positive weight."""
    weights = np.random.default_rng(_SEED).standard_normal(len(columns))

    def visit(block: Block) -> Floats:
        return _standard(table, block, columns)[block.weights > 0] @ weights

    # Rows that are equal differ by rounding at most, if blocks are multiplied in another order.
    return len(np.unique(np.round(np.concatenate(table.gather(visit)), 9)))


def _combinations(table: Table, columns: Ints, relations: Floats) -> dict[int, Combination]:
    """Dropped columns as combinations of the others, given orthonormal relations (n_relations, n_columns)."""
    out = _chosen(relations)
    kept = np.setdiff1d(np.arange(len(columns)), out)
    standard = -scipy.linalg.solve(relations[:, out], relations[:, kept])
    mean, deviation = table.summary.mean[columns], np.sqrt(table.summary.variance[columns])
    names = table.data.feature_names or [f"x{j}" for j in range(table.data.n_features)]
    found: dict[int, Combination] = {}
    for column, weights in zip(out, standard, strict=True):
        of = kept[np.abs(weights) > _NO_PART]
        slopes = weights[np.abs(weights) > _NO_PART] * deviation[column] / deviation[of]
        reason = f"a linear combination of {listed([names[j] for j in columns[of]], _NAMED)}"
        intercept = float(mean[column] - slopes @ mean[of])
        sources = tuple(columns[of].tolist())
        found[int(columns[column])] = Combination(sources, intercept, tuple(slopes.tolist()), reason=reason)
    return found


def _chosen(relations: Floats) -> Ints:
    """As many columns as there are relations, each with the largest share in what those before it have left."""
    left, out = relations.copy(), []
    for _ in range(len(relations)):
        share = (left**2).sum(axis=0)
        out.append(int(np.flatnonzero(share >= share.max() * (1.0 - _TIE))[-1]))
        direction = left[:, out[-1]] / np.sqrt(share[out[-1]])
        left -= np.outer(direction, direction @ left)
    return np.array(out)
