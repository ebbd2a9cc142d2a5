"""The variational bound of each row, its derivatives and its maximum, and sums over rows for the maps.

The posterior of the latent point w of a row is N(m, diag s^2), and t is the last coordinate of w. Given t, the
predictor of an entry in piece k is normal with mean ``offset + mu + b_-' m_- + b_t t`` and variance
``sum b_l^2 s_l^2`` over the coordinates before t. A Gauss rule along t therefore turns a row into weighted rows with a
known t, and the bound into a sum of expectations of the log-likelihood under normal predictors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import packed_products, unpack_symmetric
from anypca.models._block_view import BlockView, observed_only, open_block
from anypca.models.piecewise._ascent import PieceProblem, PieceSums
from anypca.models.piecewise._gaussian import PieceRowModel
from anypca.models.piecewise._pieces import Pieces
from anypca.special import truncated_normal

# Nodes along t on each slab: a Gauss rule of the truncated normal density, exact for polynomials of degree 15. It is
# found from Gauss-Legendre nodes up to some standard deviations: the mass beyond is below the error of the rules.
_ALONG, _DENSE, _REACH = 8, 32, 6.5
# Gauss-Hermite nodes in the predictor given t, for families without a closed form.
_ACROSS = 6
# Step of central differences that balances their own error and rounding.
_DIFFERENCE = float(np.cbrt(np.finfo(np.float64).eps))
# Predictors that are evaluated at once, 2 MB for each array.
_MOST_ELEMENTS = 2**18
# Longest step of a row, in prior standard deviations of m and in log s: predictors enter exponentially.
_LONGEST = 1.0
# A step that failed is tried at a quarter of its length; at the shortest its gain drowns in rounding.
_SHORTER, _SHORTEST = 0.25, 1e-7
# Posterior standard deviations at the start, in units of the prior: most of the start lies in its slab.
_START_S = 0.3
# Smallest curvature of a Newton step, which is 1 in m and 2 in log s at the maximum of a normal posterior.
_LEAST_CURVATURE = 0.1
# Relative error of the rules: values that differ by less do not refuse a step.
_RULE_ERROR = 1e-10
# Newton steps of each start, after which the starts of a row are compared, and of rows until they converge.
_STEPS_PER_START, _MOST_STEPS = 5, 100
# Scaled gradient at which the posterior of a new row is final.
_ROW_TOL = 1e-6


@lru_cache
def _hermite(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights (n,) for the standard normal distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


@lru_cache
def _legendre() -> tuple[Floats, Floats, Floats]:
    """Nodes and weights (n,) on (-1, 1), and Legendre polynomials there (n, nodes of a rule)."""
    nodes, weights = np.polynomial.legendre.leggauss(_DENSE)
    return nodes, weights, np.polynomial.legendre.legvander(nodes, _ALONG - 1)


def slab_rule(mean: Floats, std: Floats, low: float, high: float) -> tuple[Ints, Floats, Floats]:
    """Gauss rules for the parts of N(mean, std^2) between two ends.

    Parameters
    ----------
    mean, std : ndarray of shape (n,)
    low, high : float

    Returns
    -------
    index : ndarray of shape (r,)
        The distributions with mass on the slab.
    u : ndarray of shape (r, nodes)
        Nodes in standard deviations from the mean.
    weight : ndarray of shape (r, nodes)
        They sum to the probability of the slab.
    """
    a, b = np.maximum((low - mean) / std, -_REACH), np.minimum((high - mean) / std, _REACH)
    u, weight = (np.tile(part, (len(mean), 1)) for part in _hermite(_ALONG))
    is_cut, is_kept = (a > -_REACH) | (b < _REACH), a < b
    cut = np.flatnonzero(is_cut & is_kept)
    u[cut], weight[cut] = _truncated_rule(a[cut], b[cut])
    is_kept &= weight.sum(axis=1) > np.finfo(np.float64).eps
    return np.flatnonzero(is_kept), u[is_kept], weight[is_kept]


def _truncated_rule(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Gauss rules of the standard normal density between a and b (n,), each (n, nodes).

    Golub and Welsch (1969): nodes are the eigenvalues of multiplication by x in an orthonormal basis of polynomials.
    """
    nodes, weights, polynomials = _legendre()
    half = 0.5 * (b - a)[:, None]
    centre = 0.5 * (a + b)[:, None]
    density = half * weights * np.exp(-0.5 * (centre + half * nodes) ** 2) / np.sqrt(2.0 * np.pi)
    mass = density.sum(axis=1, keepdims=True)
    root = np.sqrt(density / np.where(mass > 0, mass, 1.0))
    basis = np.linalg.qr(root[:, :, None] * polynomials)[0]
    u, vectors = np.linalg.eigh(basis.swapaxes(1, 2) @ (nodes[:, None] * basis))
    return centre + half * u, mass * vectors[:, 0] ** 2


class Scores(NamedTuple):
    """The variational posterior N(m, diag s^2) of the latent points of a block's rows."""

    theta: Floats
    """m and log s (rows, 2 q)."""

    @property
    def m(self) -> Floats:
        """Means (rows, q)."""
        return self.theta[:, : self.theta.shape[1] // 2]

    @property
    def s(self) -> Floats:
        """Standard deviations (rows, q)."""
        return np.asarray(np.exp(self.theta[:, self.theta.shape[1] // 2 :]))


class Nodes(NamedTuple):
    """Some rows of a block on one slab, at the nodes of their rules along t."""

    piece: int
    rows: Ints
    """(r,)"""
    u: Floats
    """t in posterior standard deviations from its mean (r, nodes)."""
    weight: Floats
    """(r, nodes)"""


class Terms(NamedTuple):
    """Expectations over the coordinates before t at each node (r, nodes, n_features); 0 where entries are missing."""

    value: Floats
    """Of the log-likelihood without its terms that do not depend on the predictor."""
    slope: Floats
    """Of its first derivative in the predictor."""
    bend: Floats
    """Of its second derivative."""


@dataclass(frozen=True)
class Entries:
    """Rows with the precomputed terms of the bound."""

    x: Floats
    """Entries, a value of the support where missing (rows, n_features)."""
    observed: Bools | None
    """``None`` for complete rows."""
    offset: Floats
    """With what covariates add; (rows, n_features) or (rows, 1)."""
    base: Floats
    """Terms of the log-likelihood without the predictor, summed over the columns (rows,)."""
    members: tuple[tuple[Family, Any], ...]
    """Families with their columns, or a slice, which saves copies."""
    dispersion: Floats
    """(n_features,)"""

    def take(self, rows: Ints) -> Entries:
        """Some of the rows."""
        observed = None if self.observed is None else self.observed[rows]
        return replace(
            self, x=self.x[rows], observed=observed, offset=self.offset[rows], base=self.base[rows]
        )

    def nodes(self, pieces: Pieces, at: Scores) -> Iterator[Nodes]:
        """Nodes on all slabs with mass, some rows at a time."""
        size = max(_MOST_ELEMENTS // (8 * _ACROSS * self.x.shape[1]), 1)
        for k, (_, low, high) in enumerate(pieces.slabs):
            rows, u, weight = slab_rule(at.m[:, -1], at.s[:, -1], low, high)
            for start in range(0, len(rows), size):
                part = slice(start, start + size)
                yield Nodes(k, rows[part], u[part], weight[part])

    def predictors(self, pieces: Pieces, at: Scores, nodes: Nodes) -> tuple[Floats, Floats]:
        """Means (r, nodes, n_features) and variances (r, 1, n_features) of the predictors given t."""
        matrix, m, s = pieces.maps[nodes.piece], at.m[nodes.rows], at.s[nodes.rows]
        B = matrix[:, :-2]
        level = m[:, :-1] @ B.T + matrix[:, -1] + self.offset[nodes.rows]
        t = m[:, -1:] + s[:, -1:] * nodes.u
        return level[:, None] + t[:, :, None] * matrix[:, -2], (s[:, None, :-1] ** 2) @ (B * B).T

    def terms(self, pieces: Pieces, at: Scores, nodes: Nodes) -> Terms:
        """What the entries of some rows add at each node."""
        eta, variance = self.predictors(pieces, at, nodes)
        found = np.zeros((3, *eta.shape))
        for member, columns in self.members:
            x = self.x[nodes.rows][:, None, columns]
            parts = eta[:, :, columns], variance[:, :, columns], self.dispersion[columns]
            found[..., columns] = _expected_terms(member, x, *parts)
        if self.observed is not None:
            found = np.where(self.observed[nodes.rows][:, None], found, 0.0)
        return Terms(*found)

    def values(self, pieces: Pieces, at: Scores, everywhere: Sequence[Nodes]) -> Floats:
        """Expected log-likelihoods, all constants included (rows, n_features)."""
        total = np.zeros_like(self.x)
        for member, columns in self.members:
            total[:, columns] = member.log_base_measure(self.x[:, columns], self.dispersion[columns])
        if self.observed is not None:
            total[~self.observed] = 0.0
        for nodes in everywhere:
            total[nodes.rows] += (nodes.weight[:, None] @ self.terms(pieces, at, nodes).value)[:, 0]
        return total

    def expect(self, function: Callable[[Floats], Floats], pieces: Pieces, at: Scores) -> Floats:
        """Expectations of a function of the predictors, also of missing entries (rows, n_features)."""
        z, weights = _hermite(_ACROSS)
        total = np.zeros_like(self.x)
        for nodes in self.nodes(pieces, at):
            eta, variance = self.predictors(pieces, at, nodes)
            spread = np.sqrt(variance)
            found = sum(w * function(eta + step * spread) for step, w in zip(z, weights, strict=True))
            total[nodes.rows] += (nodes.weight[:, None] @ np.asarray(found))[:, 0]
        return total


def _expected_terms(
    family: Family, x: Floats, mean: Floats, variance: Floats, dispersion: Floats
) -> tuple[Floats, Floats, Floats]:
    """Value and two derivatives under a normal predictor: in closed form, or by a Gauss-Hermite rule."""
    x = np.broadcast_to(x, mean.shape)
    is_known = not variance.any()
    if is_known or family.expectation == "exact":
        found = (
            family.evaluate(x, mean, dispersion)
            if is_known
            else family.expected_log_likelihood(x, mean, np.broadcast_to(variance, mean.shape), dispersion)
        )
        return found.value, found.gradient, -found.curvature
    z, weights = _hermite(_ACROSS)
    spread = np.maximum(np.sqrt(variance), _DIFFERENCE)
    eta = mean + z[:, None, None, None] * spread
    found = family.evaluate(np.broadcast_to(x, eta.shape), eta, dispersion, order=1)
    value, slope = np.tensordot(weights, found.value, 1), np.tensordot(weights, found.gradient, 1)
    # E[l''] = E[z l'] / spread, by parts.
    return value, slope, np.tensordot(weights * z, found.gradient, 1) / spread


def read_entries(rows: BlockView, family: Family, pieces: Pieces) -> Entries:
    """The entries of opened rows in float64, with what the covariates of pieces add to their offsets."""
    x = rows.x.astype(np.float64, copy=False)
    base = observed_only(rows, slice(None), family.log_base_measure(x, pieces.dispersion)).sum(axis=1)
    offset = np.zeros((len(x), 1)) if rows.offset is None else rows.offset.astype(np.float64, copy=False)
    if pieces.coef.size:
        offset = offset + rows.features @ pieces.coef.T
    found = family.member_columns(x.shape[1])
    members = tuple(found) if len(found) > 1 else ((found[0][0], slice(None)),)
    return Entries(x, rows.observed, offset, base, members, pieces.dispersion)


class Evaluation(NamedTuple):
    """The bound of each row, with derivatives in m, in units of s, and in log s."""

    value: Floats
    """(rows,)"""
    slope: Floats
    """(rows, 2 q)"""
    curvature: Floats
    """Minus the second derivatives (rows, 2 q, 2 q); derivatives of the log-likelihood of order above two in the
    coordinates before t are left out."""


def evaluate(rows: Entries, pieces: Pieces, at: Scores) -> Evaluation:
    """The bound of each row; NaN or infinite where predictors overflow.

    Derivatives in the mean and the standard deviation of t need no derivatives of the log-likelihood: derivatives of
    the normal density are Hermite polynomials in u, which multiply its values.
    """
    m, s = at.m, at.s
    n, q = m.shape
    r, v = q - 1, s[:, :-1] ** 2
    value = rows.base - 0.5 * (m * m + s * s - 2.0 * np.log(s) - 1.0).sum(axis=1)
    slope = np.hstack([-m * s, 1.0 - s * s])
    curvature = np.zeros((n, 2 * q, 2 * q))
    diagonal = np.arange(2 * q)
    curvature[:, diagonal, diagonal] = np.hstack([s * s, 2.0 * s * s])
    before, t, log_v, log_t = diagonal[:r], r, diagonal[q : q + r], q + r
    for nodes in rows.nodes(pieces, at):
        i, u, B = nodes.rows, nodes.u, pieces.maps[nodes.piece][:, :-2]
        terms = rows.terms(pieces, at, nodes)
        along = nodes.weight[:, None] * np.stack(
            [np.ones_like(u), u, u**2 - 1.0, u**3 - 3.0 * u, u**4 - 4.0 * u**2 + 1.0], axis=1
        )
        g = (along @ terms.value.sum(axis=2)[:, :, None])[:, :, 0]
        g1 = (along[:, :3] @ (terms.slope @ B)) * s[i, None, :-1]
        g2 = unpack_symmetric((along[:, 0, None] @ (terms.bend @ packed_products(B)))[:, 0], r)
        g2 *= s[i, :-1, None] * s[i, None, :-1]
        g3 = (along[:, :3] @ (terms.bend @ (B * B))) * v[i, None]
        value[i] += g[:, 0]
        slope[i] += np.hstack([g1[:, 0], g[:, 1:2], g3[:, 0], g[:, 2:3]])
        bend = np.zeros((len(i), 2 * q, 2 * q))
        bend[:, :r, :r] = g2
        for a, b, part in (
            (before, t, g1[:, 1]),
            (before, log_t, g1[:, 2]),
            (log_v, t, g3[:, 1]),
            (log_v, log_t, g3[:, 2]),
            (t, log_t, g[:, 3]),
        ):
            bend[:, a, b] = bend[:, b, a] = part
        bend[:, log_v, log_v] = 2.0 * g3[:, 0]
        bend[:, t, t], bend[:, log_t, log_t] = g[:, 2], g[:, 4]
        curvature[i] -= bend
    return Evaluation(value, slope, curvature)


def start_scores(rows: Entries, pieces: Pieces, known: Scores | None = None) -> Scores:
    """The best of one start per piece after a few steps: the bound may have a maximum in each of them.

    Parameters
    ----------
    rows : Entries
    pieces : Pieces
    known : Scores or None
        Posteriors that are kept where they are better than all starts.

    Returns
    -------
    Scores
    """
    n, q = len(rows.x), pieces.n_components
    best = Scores(np.zeros((n, 2 * q))) if known is None else known
    reached = np.full(n, -np.inf) if known is None else evaluate(rows, pieces, known).value
    for centre in truncated_normal(pieces.edges[:-1], pieces.edges[1:]).mean:
        theta = np.hstack([np.zeros((n, q)), np.full((n, q), np.log(_START_S))])
        theta[:, q - 1] = centre
        found, at = climb_rows(rows, pieces, Scores(theta), max_steps=_STEPS_PER_START, tol=0.0)
        better = at.value > reached
        reached = np.where(better, at.value, reached)
        best = Scores(np.where(better[:, None], found.theta, best.theta))
    return best


def solve_scores(rows: Entries, pieces: Pieces) -> tuple[Scores, Evaluation]:
    """Each row to its own convergence."""
    return climb_rows(rows, pieces, start_scores(rows, pieces), max_steps=_MOST_STEPS, tol=_ROW_TOL)


def climb_rows(
    rows: Entries, pieces: Pieces, start: Scores, *, max_steps: int, tol: float
) -> tuple[Scores, Evaluation]:
    """Damped Newton steps on all rows at once; a row's bound never decreases by more than the error of the rules.

    Parameters
    ----------
    rows : Entries
    pieces : Pieces
    start : Scores
    max_steps : int
    tol : float
        A row is left alone when its scaled gradient is at most this.

    Returns
    -------
    scores : Scores
    evaluation : Evaluation
        At ``scores``.
    """
    theta = start.theta.copy()
    with np.errstate(over="ignore", invalid="ignore"):  # overflowing trials are refused
        at = evaluate(rows, pieces, start)
        length, active = np.ones(len(theta)), np.arange(len(theta))
        for _ in range(max_steps):
            now = Scores(theta[active])
            step, gain = _newton_step(Evaluation(*(part[active] for part in at)), now.s)
            is_open = (gain > tol**2) & (length[active] > _SHORTEST)
            active, step = active[is_open], step[is_open] * length[active[is_open], None]
            if not len(active):
                break
            trial = Scores(theta[active] + step)
            part = rows if len(active) == len(theta) else rows.take(active)
            new = evaluate(part, pieces, trial)
            slack = _RULE_ERROR * (1.0 + np.abs(at.value[active]))
            better = np.isfinite(new.value) & ~(new.value < at.value[active] - slack)
            length[active] = np.minimum(length[active] * np.where(better, 2.0, _SHORTER), 1.0)
            moved = active[better]
            theta[moved] = trial.theta[better]
            for old, found in zip(at, new, strict=True):
                old[moved] = found[better]
    return Scores(theta), at


def _newton_step(at: Evaluation, s: Floats) -> tuple[Floats, Floats]:
    """Steps in m and log s (rows, 2 q), and the squared scaled gradient (rows,).

    The bound of a row near a hinge is not concave: directions of negative curvature are taken by its size.
    """
    usable: Bools = np.isfinite(at.slope.sum(axis=1) + at.curvature.sum(axis=(1, 2)))
    slope = np.where(usable[:, None], at.slope, 0.0)
    curvature = np.where(usable[:, None, None], at.curvature, np.eye(slope.shape[1]))
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(np.abs(values), _LEAST_CURVATURE)
    step = np.einsum("iab,ib->ia", vectors, np.einsum("iba,ib->ia", vectors, slope) / values)
    gain = np.einsum("ia,ia->i", step, slope)
    q = s.shape[1]
    step[:, :q] *= s
    return np.clip(step, -_LONGEST, _LONGEST), gain


def sum_columns(
    rows: Entries,
    pieces: Pieces,
    at: Scores,
    everywhere: Sequence[Nodes],
    weight: Floats,
    covariates: Floats,
) -> dict[str, Floats]:
    """Sums over rows at fixed posteriors, by their names in `PieceSums`; covariates have no variance."""
    n_pieces, p, size = pieces.maps.shape
    d, q = covariates.shape[1], size - 1
    slope = np.zeros((n_pieces, p, d + size))
    packed = np.zeros((n_pieces, p, (d + size) * (d + size + 1) // 2))
    spread, occupancy = np.zeros((n_pieces, p, q - 1)), np.zeros(n_pieces)
    for nodes in everywhere:
        k, i = nodes.piece, nodes.rows
        terms = rows.terms(pieces, at, nodes)
        share = (weight[i, None] * nodes.weight)[:, :, None]
        t = (at.m[i, -1:] + at.s[i, -1:] * nodes.u)[:, :, None]
        known = np.hstack([covariates[i], at.m[i, :-1]])[:, None] * np.ones_like(t)
        design = np.concatenate([known, t, np.ones_like(t)], axis=2).reshape(-1, d + size)
        share, bend = share.reshape(-1, 1), terms.bend.reshape(-1, p)
        slope[k] += terms.slope.reshape(-1, p).T @ (design * share)
        packed[k] -= bend.T @ (packed_products(design) * share)
        variances = np.repeat(at.s[i, :-1] ** 2, t.shape[1], axis=0)
        spread[k] -= bend.T @ (variances * share)
        occupancy[k] += share.sum()
    # E[l' w] = m E[l'] + b s^2 E[l''] of the coordinates before t.
    before = np.arange(d, d + q - 1)
    slope[:, :, before] -= pieces.maps[:, :, : q - 1] * spread
    curvature = unpack_symmetric(packed.reshape(n_pieces * p, -1), d + size)
    curvature = curvature.reshape(n_pieces, p, d + size, d + size)
    curvature[:, :, before, before] += spread
    return {"slope": slope, "curvature": curvature, "occupancy": occupancy}


@dataclass(frozen=True)
class BoundProblem(PieceProblem):
    """The bound at the best posteriors of the rows, of any family."""

    family: Family

    def solved(
        self, block: Block, pieces: Pieces, local: Scores | None, row_tol: float
    ) -> tuple[Scores, PieceSums]:
        """Solve a block's rows from where they were, and sum."""
        # A trial of the maps may overflow; its bound is then not finite, and refused.
        with np.errstate(over="ignore", invalid="ignore"):
            rows = open_block(block)
            entries, weight = read_entries(rows, self.family, pieces), rows.weights.astype(np.float64)
            start = start_scores(entries, pieces) if local is None else local
            scores, at = climb_rows(entries, pieces, start, max_steps=_MOST_STEPS, tol=row_tol)
            nodes = list(entries.nodes(pieces, scores))
            return scores, PieceSums(
                log_likelihood=float(weight @ at.value),
                weight=float(weight.sum()),
                n_entries=rows.count(),
                log_dispersion=self._dispersion_slopes(entries, pieces, scores, nodes, weight),
                edge=np.zeros(len(pieces.breakpoints)),
                **sum_columns(entries, pieces, scores, nodes, weight, rows.features),
            )

    def refresh(self, block: Block, pieces: Pieces, local: Scores) -> Scores:
        return start_scores(read_entries(open_block(block), self.family, pieces), pieces, local)

    def _dispersion_slopes(
        self, entries: Entries, pieces: Pieces, at: Scores, nodes: Sequence[Nodes], weight: Floats
    ) -> Floats:
        members = tuple(one for one in entries.members if one[0].fixed_dispersion is None)
        if not members:
            return np.zeros(len(self.floors))
        below, above = (
            replace(entries, members=members, dispersion=entries.dispersion * np.exp(step))
            for step in (-_DIFFERENCE, _DIFFERENCE)
        )
        change = above.values(pieces, at, nodes) - below.values(pieces, at, nodes)
        return np.asarray(weight @ change / (2.0 * _DIFFERENCE))


class BoundRowModel(PieceRowModel[Scores]):
    """Entries of any family: the posterior of the latent points is the normal that maximises the bound."""

    likelihood = "bound"

    def _read(self, rows: BlockView) -> Entries:
        return read_entries(rows, self.family, self.pieces)

    def solve(self, rows: BlockView) -> Scores:
        return solve_scores(self._read(rows), self.pieces)[0]

    def scores(self, solved: Scores) -> Floats:
        return solved.m

    def deviations(self, solved: Scores) -> Floats:
        return solved.s

    def log_likelihood(self, rows: BlockView) -> Floats:
        return solve_scores(self._read(rows), self.pieces)[1].value

    def expected(self, block: Block, rows: BlockView, solved: Scores) -> Floats:
        """Expected entries under the variational posterior."""
        return self._read(rows).expect(self.family.mean, self.pieces, solved)

    def entry_moments(
        self, rows: BlockView, solved: Scores, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        used, place = np.unique(index, return_inverse=True)
        some, at = rows.take(used), Scores(solved.theta[used])
        offset = some.features @ self.pieces.coef.T if self.pieces.coef.size else np.zeros((len(used), 1))
        entries = replace(self._read(some), offset=offset)
        mean = entries.expect(lambda eta: eta, self.pieces, at)
        around = replace(entries, offset=offset - mean)
        variance = around.expect(np.square, self.pieces, at)
        return mean[place, columns], variance[place, columns]

    def probabilities(self, solved: Scores) -> Floats:
        found = np.zeros((len(solved.m), len(self.pieces.maps)))
        for k, (_, low, high) in enumerate(self.pieces.slabs):
            rows, _, weight = slab_rule(solved.m[:, -1], solved.s[:, -1], low, high)
            found[rows, k] = weight.sum(axis=1)
        return found

    def draw_latent(self, solved: Scores, n_draws: int, rng: np.random.Generator) -> Floats:
        return solved.m + solved.s * rng.standard_normal((n_draws, *solved.m.shape))
