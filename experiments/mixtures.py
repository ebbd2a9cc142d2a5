"""MixtureOf on planted groups, and on penguins without species and island.

Two groups in 400 rows and 15 columns, each group with a mean and two components: real numbers (`PPCA`), counts
(`PLNPCA`), and real, count and yes/no columns with a tenth of the cells hidden (`EPCA`). The Bayes classifier knows the
parameters and integrates the scores by quadrature. Plain tables have one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln, log_expit, logsumexp
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from anypca import EPCA, PLNPCA, PPCA, MixtureOf
from anypca._typing import Floats, Ints
from anypca.datasets import load_penguins
from experiments._cells import Cells
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module

N, P, K = 400, 15, 2
KINDS = ("gaussian", "counts", "mixed")
#: Size of means and loadings: groups overlap, and the Bayes classifier is right in 95 to 99 % of the rows.
SIZES = {"gaussian": 0.6, "counts": 0.5, "mixed": 0.5}
HIDDEN = 0.1


def families(kind: str) -> list[str]:
    """The families of the columns."""
    cycle = {"gaussian": ["gaussian"], "counts": ["poisson"], "mixed": ["gaussian", "poisson", "bernoulli"]}[
        kind
    ]
    return [cycle[j % len(cycle)] for j in range(P)]


def group_model(kind: str) -> Any:
    """The model of a group."""
    if kind == "gaussian":
        return PPCA(K, n_jobs=1)
    return PLNPCA(K, n_jobs=1) if kind == "counts" else EPCA(K, family=families(kind), n_jobs=1)


def draw(kind: str, seed: int, n_groups: int) -> tuple[Floats, Ints, Ints]:
    """A table, the groups of its rows, and the groups by the Bayes classifier."""
    rng, size = np.random.default_rng([20261120, KINDS.index(kind), seed]), SIZES[kind]
    parameters = [
        (rng.normal(size=P) * size, rng.normal(size=(K, P)) * (1.0 if kind == "gaussian" else size))
        for _ in range(2)
    ]
    groups = rng.integers(n_groups, size=N)
    scores = rng.normal(size=(N, K))
    means, loadings = (np.array(part)[groups] for part in zip(*parameters, strict=True))
    eta = means + np.einsum("ik,ikj->ij", scores, loadings)
    X = np.empty((N, P))
    for j, family in enumerate(families(kind)):
        if family == "gaussian":
            X[:, j] = eta[:, j] + rng.normal(size=N)
        elif family == "poisson":
            X[:, j] = rng.poisson(np.exp(1.0 + eta[:, j]))
        else:
            X[:, j] = rng.random(N) < 1.0 / (1.0 + np.exp(-2.0 * eta[:, j]))
    if kind == "mixed":
        X[rng.random(X.shape) < HIDDEN] = np.nan
    joint = np.column_stack([log_density(kind, X, *part) for part in parameters])
    return X, groups, joint.argmax(axis=1)


def log_density(kind: str, X: Floats, mean: Floats, loadings: Floats) -> Floats:
    """Log density of rows under a group, scores integrated by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    points = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, K)
    eta = mean + points @ loadings
    total = np.log(np.outer(weights, weights).ravel() / weights.sum() ** 2) * np.ones((len(X), 1))
    for j, family in enumerate(families(kind)):
        x, at = X[:, [j]], eta[:, j]
        if family == "gaussian":
            terms = -0.5 * (x - at) ** 2
        elif family == "poisson":
            terms = x * (1.0 + at) - np.exp(1.0 + at) - gammaln(np.nan_to_num(x) + 1.0)
        else:
            terms = np.where(x == 1, log_expit(2.0 * at), log_expit(-2.0 * at))
        total += np.where(np.isnan(x), 0.0, terms)
    return np.asarray(logsumexp(total, axis=1))


def one_table(kind: str, seed: int) -> tuple[float, float, int, int]:
    """Adjusted Rand index of the mixture and of the Bayes classifier, and numbers of groups by BIC: planted, plain."""
    X, groups, best = draw(kind, seed, 2)
    model = fit_quietly(MixtureOf(group_model(kind), 2), X)
    chosen = fit_quietly(MixtureOf(group_model(kind), "auto", max_groups=3), X)
    plain = fit_quietly(MixtureOf(group_model(kind), "auto", max_groups=3), draw(kind, seed, 1)[0])
    found = adjusted_rand_score(groups, model.predict(X)), adjusted_rand_score(groups, best)
    return float(found[0]), float(found[1]), chosen.n_groups_, plain.n_groups_


def penguins() -> list[list[Any]]:
    """Adjusted Rand indices with the species, which no method has seen."""
    frame = load_penguins().to_frame()
    species = frame["species"].to_numpy()
    frame = frame.drop(columns=["species", "island"])
    numbers = frame.select_dtypes("number")
    one_hot = np.hstack(
        [
            numbers,
            *(
                np.asarray(frame[[c]] == v)
                for c in frame.columns.difference(numbers.columns)
                for v in frame[c].dropna().unique()
            ),
        ]
    )
    filled = StandardScaler().fit_transform(SimpleImputer().fit_transform(one_hot.astype(float)))
    rows = []
    for n_groups in (2, 3, 4):
        mixture = fit_quietly(MixtureOf(EPCA(2, family="auto", n_jobs=1), n_groups), frame)
        rival = GaussianMixture(n_groups, n_init=5, random_state=0).fit(filled)
        indices = (
            adjusted_rand_score(species, labels) for labels in (mixture.predict(frame), rival.predict(filled))
        )
        rows.append([n_groups, *indices])
    return rows


def run(options: Options) -> Outcome:
    """Planted groups of three kinds, and penguins."""
    cells, n_runs = Cells("mixtures", options), 1 if options.quick else 10
    kinds = KINDS[:1] if options.quick else KINDS
    rows, targets = [], []
    for kind in kinds:
        found = np.array(cells.get(one_table, (kind,), n_runs))
        near = int((found[:, 0] >= found[:, 1] - 0.05).sum())
        two, one = int((found[:, 2] == 2).sum()), int((found[:, 3] == 1).sum())
        rows.append([kind, found[:, 0].mean(), found[:, 1].mean(), near, two, one])
        least = n_runs - (n_runs > 1)
        targets += [
            Target(f"{kind}: tables within .05 of the Bayes classifier", near, ">=", least),
            Target(f"{kind}: tables with two groups by BIC", two, ">=", least),
            Target(f"{kind}: plain tables with one group by BIC", one, ">=", n_runs),
        ]
    head = ["columns", "ARI", "ARI of Bayes", f"near, of {n_runs}", "2 by BIC", "plain: 1 by BIC"]
    tables = [Table("Planted groups", head, rows)]
    if not options.quick:
        tables.append(
            Table("Penguins: ARI with the species", ["groups", "MixtureOf", "GaussianMixture"], penguins())
        )
    return Outcome(tables, targets, [], [])


def main(argv: Sequence[str] | None = None) -> int:
    return run_module(__name__, argv)


if __name__ == "__main__":
    raise SystemExit(main())
