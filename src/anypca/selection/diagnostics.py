"""Causes of false components: outlying rows, dependent rows, correlated noise, uneven rows, equal columns.

A fitted model leaves residuals that, apart from the loadings' directions, should be noise: independent from row to row
and from column to column, with one spread for all rows. All thresholds come from what such noise does: a finding must
be rarer than one table in a hundred, and so large that the spectrum of the noise, hence its number of large
eigenvalues, changes by a tenth. Columns are compared with columns of tables drawn from the model, to which scores and
loadings were fitted as well: that makes correlations of its own. They are looked at twice, all together and the two
that correlate most, so that they are found wrongly in up to two tables of a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta, norm

from anypca._typing import Bools, Floats, Ints
from anypca._words import counted, listed, numbered
from anypca.columns.reading import count_rows, read_table, take_rows
from anypca.families import Gaussian
from anypca.models._covariates import covariates_for
from anypca.models._description import describe, numbers_for, project_rows
from anypca.models._row_methods import GenerativeModel, linear_predictor
from anypca.selection._equal_columns import equal_columns
from anypca.selection._residuals import deviance
from anypca.selection._simulated import FittedTable, is_beyond_chance
from anypca.selection.facts import Companions

#: False alarms of each test: one in a hundred tables.
_LEVEL = 0.01
#: Relative change of the variance of the noise's eigenvalues that matters: their edge then moves by some 5 %.
_CHANGE = 0.1
#: Relevant correlation of neighbouring rows: 0.22 changes the noise's eigenvalues by a tenth, and fitted components
#: absorb about half of it.
_NEIGHBOURS = 0.1
#: Largest share of a component that the most extreme hundredth of the rows can have without a finding: three times
#: the share under normal scores, 2 (z f(z) + Q(z)) = 0.085 at z = 2.58.
_DOMINATED = 0.25
#: Tests of columns skip pairs of rows closer than this lag, which removes most of the dependence between rows.
_NEAR = 10
#: Smallest number of rows, and of residual dimensions, for a test.
_LEAST_ROWS, _LEAST_DIRECTIONS = 20, 3
#: A column has too little noise to test if components explain all of it except this share.
_LEAST_NOISE = 0.1
#: Rows, columns and entries that are looked at: they take a second, and tell a correlation of 0.1 from 0 with ease.
_MOST_ROWS, _MOST_COLUMNS, _MOST_ENTRIES = 5000, 500, 4_000_000
#: Entries up to which tables are drawn from the model, in a second; what is fitted hides little in larger ones.
_MOST_DRAWN = 300_000


class Diagnostic(NamedTuple):
    """Result of one test of a model assumption.

    See Also
    --------
    diagnose : finds it.
    """

    name: str
    """``"outlying rows"``, ``"neighbouring rows"``, ``"correlated noise"``, ``"uneven rows"``, ``"equal columns"``."""
    is_found: bool
    effect: float
    """How large: a number of rows or columns, a correlation, a relative change of eigenvalues, or a squared spread."""
    z: float
    """In standard errors, of the noise that the model assumes."""
    text: str
    """Description of the finding and remedies."""
    is_warning: bool = False
    """Whether ``anypca fit`` warns of it. Other findings, which most tables have, are notes in the report."""

    @classmethod
    def of(
        cls, name: str, is_found: bool, effect: float, z: float, text: str, *, is_warning: bool = False
    ) -> Diagnostic:
        """The outcome of a test; its text is empty without a finding."""
        return cls(name, is_found, float(effect), float(z), text if is_found else "", is_found and is_warning)


def diagnose(
    model: Any,
    X: Any,
    *,
    offset: Any = None,
    covariates: Any = None,
    row_names: Sequence[Any] | None = None,
    feature_names: Sequence[Any] | None = None,
) -> tuple[Diagnostic, ...]:
    """Test the residuals of a fit for causes of false components.

    Parameters
    ----------
    model : fitted estimator
        With loadings and a distribution of the entries.
    X : table of shape (n_samples, n_features)
        The training table, with rows in their original order. The tests use the first rows and some columns of a
        large table.
    offset, covariates : as in ``fit``
        As in the fit, if it had them.
    row_names : sequence of length n_samples, optional
        For the texts; rows are numbered from 1 otherwise.
    feature_names : sequence of length n_features, optional
        For the texts; by default the names seen in ``fit``, or x1, x2, ...

    Returns
    -------
    tuple of Diagnostic
        All five tests; empty for models without loadings or distribution, and for tables that are too small.

    See Also
    --------
    compare_ranks : whether other methods find as many components.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA
    >>> from anypca.selection import diagnose
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> X[[3, 50]] *= 8.0
    >>> [found.name for found in diagnose(PPCA(2).fit(X), X) if found.is_found]
    ['outlying rows']
    """
    X = numbers_for(model, X)
    left = _open(model, X, Companions(offset, covariates_for(model, covariates)))
    noise = None if left is None else left.noise(np.zeros(0, dtype=int))
    if left is None or noise is None:
        return ()
    rows = range(1, count_rows(X) + 1) if row_names is None else row_names
    names = feature_names or describe(model).feature_names or numbered("x", int(model.n_features_in_))
    names = model.layout_.names_for(tuple(names))
    outliers = noise.outliers()
    # Exclude outlying rows from the tests of columns and neighbours.
    rest = left.noise(outliers) or noise
    heavy_tails = ", or use family='student_t' for real-valued columns" if left.has_gaussian else ""
    return (
        _about_outliers(outliers, rows, noise, heavy_tails),
        rest.neighbours(),
        rest.correlated(names, left.drawn(outliers)),
        rest.uneven(heavy_tails),
        _about_copies(left.copies, names),
    )


@dataclass(frozen=True, eq=False)
class _Noise:
    """Residuals in units of their noise, without the directions of the loadings."""

    values: Floats
    """(n_rows, n_columns), 0 where missing."""
    columns: Ints
    """Numbers of the columns in the model."""
    basis: Floats
    """Orthonormal directions of the loadings in units of noise, (n_columns, k)."""
    scores: Floats
    """(n_rows, n_components), centred."""
    hat: Floats
    """Leverages of rows on their next neighbours, after those on themselves, (2, n_rows)."""

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @property
    def n_directions(self) -> int:
        """Columns less components: the dimension of the residuals."""
        return int(self.values.shape[1] - self.basis.shape[1])

    @cached_property
    def expected(self) -> Floats:
        """Correlations of columns due to the projection off the loadings, (n_columns, n_columns)."""
        left = np.eye(len(self.basis)) - self.basis @ self.basis.T
        scale = np.sqrt(np.diag(left))
        return np.asarray(left / np.outer(scale, scale))

    @cached_property
    def correlation(self) -> Floats:
        """Correlations of the columns, (n_columns, n_columns)."""
        # Normalised rows: a few rows with large residuals would increase chance correlations.
        return np.asarray(np.corrcoef(self.directions.T))

    @cached_property
    def directions(self) -> Floats:
        """Residual rows, normalised to unit length."""
        size = np.linalg.norm(self.values, axis=1, keepdims=True)
        return self.values / np.where(size > 0, size, 1.0)

    @cached_property
    def squared_cosine(self) -> float:
        """Mean squared cosine between rows that are no neighbours; 1 over the number of directions in white noise."""
        u, n = self.directions, self.n_rows
        total = float(((u.T @ u) ** 2).sum()) - float((u**2).sum())
        pairs = n * (n - 1.0)
        for lag in range(1, _NEAR + 1) if n > 4 * _NEAR else ():
            total -= 2.0 * float(((u[lag:] * u[:-lag]).sum(axis=1) ** 2).sum())
            pairs -= 2.0 * (n - lag)
        return total / pairs

    @cached_property
    def neighbour_correlation(self) -> float:
        """Mean cosine of neighbouring rows, corrected for the fitted scores and intercepts."""
        own, following = self.hat
        share = following[:-1] / np.sqrt((1.0 - own[:-1]) * (1.0 - own[1:]))
        return float((self.directions[1:] * self.directions[:-1]).sum(axis=1).mean() + share.mean())

    def outliers(self) -> Ints:
        """Find rows with much larger residuals than others, and rows that dominate a component."""
        seen = np.maximum((self.values != 0).sum(axis=1), 1)
        # Cube roots of sums of squares are nearly normal (Wilson and Hilferty 1931).
        size = np.cbrt((self.values**2).sum(axis=1) / seen)
        middle = np.median(size)
        spread = np.median(np.abs(size - middle)) / norm.ppf(0.75)
        far = size > middle + norm.isf(_LEVEL / self.n_rows) * spread
        return np.flatnonzero(far | self.dominating)

    @cached_property
    def dominating(self) -> Bools:
        """Return rows of the most extreme hundredth if they dominate a component."""
        n, found = self.n_rows, np.zeros(self.n_rows, dtype=bool)
        total = (self.scores**2).sum(axis=0)
        for share in (self.scores**2 / np.where(total > 0, total, 1.0)).T:
            top = np.argsort(-share)[: int(np.ceil(n / 100))]
            chance = n * self.scores.shape[1] * beta.sf(share[top[0]], 0.5, 0.5 * (n - 2))
            if chance < _LEVEL and share[top].sum() > _DOMINATED:
                # Only rows that are extreme by themselves.
                found[top[share[top] > _DOMINATED / len(top)]] = True
        return found

    def neighbours(self) -> Diagnostic:
        """Test whether rows depend on the previous row."""
        found = self.neighbour_correlation
        z = found / np.sqrt(self.squared_cosine / (self.n_rows - 1))
        is_found = bool(abs(z) > norm.isf(_LEVEL / 2) and abs(found) > _NEIGHBOURS)
        text = (
            f"consecutive rows are correlated (lag-1 residual autocorrelation {found:.2f}), as in a time series or in "
            "rows sorted by a group: some components may reflect this order. Pass time or group as covariates."
        )
        return Diagnostic.of("neighbouring rows", is_found, found, z, text)

    def correlated(self, names: Sequence[Any], drawn: Sequence[_Noise]) -> Diagnostic:
        """Whether columns correlate beyond the components, and more than in tables drawn from the model, if any are."""
        n, q, (excess, z) = self.n_rows, self.n_directions, self.excess
        pair, pair_z, is_far = self._strongest_pair()
        first, second = (names[self.columns[j]] for j in pair)
        is_wide, usual = bool(z > norm.isf(_LEVEL)), 0.0
        if len(drawn) > 1:
            chance = [noise.excess[0] for noise in drawn]
            is_wide, usual = is_beyond_chance(excess, chance, _LEVEL), float(np.mean(chance))
            is_far = is_far and is_beyond_chance(
                pair_z, [each._strongest_pair()[1] for each in drawn], _LEVEL
            )
        text = (
            f"columns correlate beyond the components, most of all {first} and {second} "
            f"({self.correlation[pair]:+.2f}): more components may describe the table better. Leave out columns that "
            "measure the same, or pass shared causes as covariates."
        )
        is_found = is_far or (is_wide and excess - usual > _CHANGE * q / n)
        return Diagnostic.of("correlated noise", is_found, excess, max(z, pair_z), text)

    @cached_property
    def excess(self) -> tuple[float, float]:
        """Relative excess of the mean squared cosine over its value in white noise, also in standard errors."""
        n, q = self.n_rows, self.n_directions
        own, _ = self.hat
        # Rows share what was fitted to all of them: the squared entries of the hat matrix off its diagonal.
        shared = float(own.sum() - (own**2).sum()) / (n * (n - 1.0))
        found = q * self.squared_cosine - 1.0 - (q + 1.0) * shared
        return found, found / np.sqrt(4.0 * (q - 1.0) / ((q + 2.0) * n * (n - 1.0)))

    def _strongest_pair(self) -> tuple[tuple[int, int], float, bool]:
        """The two columns with the least expected correlation, and whether it is significant."""
        p, rho = len(self.columns), self.neighbour_correlation**2
        # Fisher's transformation, with fewer effective rows if neighbours correlate.
        free = (self.n_rows - self.hat[0].sum()) * (1.0 - rho) / (1.0 + rho) - 3.0
        edge = 1.0 - np.finfo(float).eps
        gap = np.arctanh(np.clip(self.correlation, -edge, edge)) - np.arctanh(
            np.clip(self.expected, -edge, edge)
        )
        z = np.triu(np.abs(gap), 1) * np.sqrt(max(free, 1.0))
        place = np.unravel_index(int(np.argmax(z)), z.shape)
        is_far = bool(z[place] > norm.isf(_LEVEL / (p * (p - 1))))
        return (int(place[0]), int(place[1])), float(z[place]), is_far

    def uneven(self, heavy_tails: str) -> Diagnostic:
        """Test whether residual variances differ between rows; ``heavy_tails``: suggest Student's t as a remedy."""
        squares = self.values**2 / np.maximum((self.values**2).mean(axis=0), np.finfo(float).tiny)
        n, p = squares.shape
        own = squares.var(axis=0)
        # Squares of correlated normal numbers covary by twice the squared correlation; chance alone gives 1 / n.
        from_correlation = 2.0 * float((self.correlation**2 - 1.0 / n).sum() - p * (1.0 - 1.0 / n))
        excess = float(squares.sum(axis=1).var() - own.sum()) - max(from_correlation, 0.0)
        # Without any variance of the squares, as in designs of -1 and 1, no row scatters more than another.
        error = np.sqrt(2.0 * max(float(own.sum() ** 2 - (own**2).sum()), 0.0) / n)
        z = excess / error if error > 0 else 0.0
        variation = excess / (p * (p - 1.0))
        is_found = bool(z > norm.isf(_LEVEL) and variation > _CHANGE)
        text = (
            "residual variances differ between rows (standard deviation "
            f"{100.0 * np.sqrt(max(variation, 0.0)):.0f} % of the mean): some components may describe only the rows "
            f"with much noise. Give these rows less sample_weight{heavy_tails}."
        )
        return Diagnostic.of("uneven rows", is_found, variation, z, text)


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Residuals of a fit."""

    values: Floats
    """(n_rows, n_columns), 0 where missing."""
    seen: Bools
    columns: Ints
    """Numbers of the columns in the model."""
    has_gaussian: bool
    loadings: Floats
    """In units of the family's noise, (n_columns, k)."""
    scores: Floats
    fixed: Floats
    """Intercept and covariates, (n_rows, n_fixed)."""
    copies: tuple[tuple[int, int], ...]
    """Columns, and others before them that have the same counts or answers in every row."""
    table: FittedTable

    def drawn(self, outliers: Ints) -> list[_Noise]:
        """Residuals of tables drawn from the model and fitted in the same way; none for large tables."""
        if self.values.size > _MOST_DRAWN:
            return []
        tables = (replace(self, values=values).noise(outliers) for values in self.table.drawn())
        return [noise for noise in tables if noise is not None]

    def noise(self, outliers: Ints) -> _Noise | None:
        """The noise of all rows except outliers; None if too few rows or dimensions remain."""
        rows = np.delete(np.arange(len(self.values)), outliers)
        values, seen, scores, fixed = self.values[rows], self.seen[rows], self.scores[rows], self.fixed[rows]
        columns, loadings = self.columns, self.loadings
        k = int(np.linalg.matrix_rank(loadings)) if loadings.size else 0
        for _ in range(2):
            # The second round has the columns in units of their noise.
            basis, rest = _take_out(values, loadings, k)
            free = np.maximum(1.0 - (basis**2).sum(axis=1), 0.0)
            count = np.maximum(seen.sum(axis=0), 1)
            noise = np.sqrt((rest**2).sum(axis=0) / count / np.maximum(free, _LEAST_NOISE))
            kept = (free > _LEAST_NOISE) & (noise > np.sqrt(np.finfo(float).eps))
            values, seen, columns = values[:, kept] / noise[kept], seen[:, kept], columns[kept]
            loadings = loadings[kept] / noise[kept, None]
        if len(values) < _LEAST_ROWS or values.shape[1] - k < _LEAST_DIRECTIONS:
            return None
        basis, rest = _take_out(values, loadings, k)
        centred = scores - scores.mean(axis=0)
        return _Noise(
            np.where(seen, rest, 0.0),
            columns,
            basis,
            centred,
            leverages(fixed, scores, 1.0 - _LEAST_NOISE),
        )


def leverages(fixed: Floats, scores: Floats, most: float) -> Floats:
    """Leverages of rows on themselves, ``most`` at most, and on the next one (0 for the last); shape (2, n_rows)."""
    features = np.hstack([fixed, scores])
    # Orthonormal columns of the same span; directions that repeat others are left out.
    left, size, _ = np.linalg.svd(features, full_matrices=False)
    left = left[:, size > np.sqrt(np.finfo(float).eps) * size[0]]
    following = np.append((left[:-1] * left[1:]).sum(axis=1), 0.0)
    return np.stack([np.minimum((left**2).sum(axis=1), most), following])


def _take_out(values: Floats, loadings: Floats, k: int) -> tuple[Floats, Floats]:
    """Orthonormal directions of the loadings, and values without them."""
    basis = np.linalg.svd(loadings, full_matrices=False)[0][:, :k]
    return basis, values - (values @ basis) @ basis.T


def _about_outliers(outliers: Ints, names: Sequence[Any], noise: _Noise, heavy_tails: str) -> Diagnostic:
    listed_rows = listed([names[i] for i in outliers])
    text = (
        f"{counted(len(outliers), 'row')} of {noise.n_rows} far from the others ({listed_rows}): some components may "
        f"describe only these rows. Check these rows, give them sample_weight 0{heavy_tails}."
    )
    is_warning = bool(noise.dominating.any())
    return Diagnostic.of(
        "outlying rows", len(outliers) > 0, len(outliers), len(outliers), text, is_warning=is_warning
    )


def _about_copies(copies: Sequence[tuple[int, int]], names: Sequence[Any]) -> Diagnostic:
    pairs = listed([f"{names[second]} and {names[first]}" for first, second in copies])
    text = (
        f"{counted(len(copies), 'column')} equal to another ({pairs}): some components may describe only these. "
        "Exclude one of them (family 'excluded') unless they measure different things."
    )
    return Diagnostic.of("equal columns", len(copies) > 0, len(copies), len(copies), text, is_warning=True)


def _open(model: Any, X: Any, companions: Companions) -> _Residuals | None:
    """Residuals of the first rows and of evenly chosen columns; None where the model has none, or too few."""
    if not isinstance(model, GenerativeModel):
        return None
    found, n, layout = describe(model), count_rows(X), model.layout_
    if found.loadings is None or found.dispersion is None:
        return None
    directions = layout.pick(found.loadings, 1)
    # Parts of one column depend on each other by definition: only the first one is used.
    parts = layout.starts[layout.widths > 0]
    p = len(parts)
    index = np.arange(min(n, _MOST_ROWS, max(_LEAST_ROWS, _MOST_ENTRIES // p)))
    some = {name: take_rows(value, index) for name, value in companions.for_rows().items()}
    table = take_rows(X, index)
    scores = project_rows(model, table, **some)[0].astype(float)
    eta = linear_predictor(model, scores, **some)
    columns = parts[np.unique(np.linspace(0, p - 1, min(p, _MOST_COLUMNS)).astype(int))]
    assert found.family is not None
    family, dispersion = found.family.take(columns), found.dispersion[columns]
    x = layout.split(read_table(table))[:, columns].astype(float)
    seen, x = ~np.isnan(x), np.where(np.isnan(x), 1.0, x)
    curvature = family.evaluate(x, eta[:, columns], dispersion, order=2).curvature
    # Deviances have the tails of normal noise; Pearson's residuals of skewed amounts make outlying rows.
    residuals = np.where(seen, deviance(family, x, eta[:, columns], dispersion), 0.0)
    loadings = directions[:, columns].T * np.sqrt(curvature.mean(axis=0))[:, None]
    fixed = np.hstack(
        [np.ones((len(x), 1)), np.asarray(some.get("covariates", np.empty((len(x), 0))), float)]
    )
    copies = tuple(equal_columns(family, x, seen, columns, _LEVEL))
    plain = directions[:, columns].T
    table = FittedTable(family, eta[:, columns], dispersion, seen, plain, scores, fixed)
    # Not its subclasses, such as the log-normal family.
    has_gaussian = any(type(member) is Gaussian for member, _ in family.member_columns(len(columns)))
    return _Residuals(residuals, seen, columns, has_gaussian, loadings, scores, fixed, copies, table)
