"""Piecewise PCA on bent sheets: the hinge of the thesis, a broken sheet, and a hinge of 3 dimensions in 8.

Adams (2022), section 3.11.1: 500 points (x, y, |x|) with noise. The noise is of standard deviation 0.1 on all three
coordinates here. Every seed is one table; held-out tables have 2000 rows.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import special_ortho_group

from anypca import PPCA, PiecewisePCA
from anypca.datasets import make_hinge
from anypca.plotting import plot_hinge, plot_latent_pieces, plot_predicted, save_figure
from experiments._common import Options, Outcome, Table, Target, repeat, run_module
from experiments._designs import make_wide_hinge
from experiments._piecewise import (
    latent_correlation,
    ml_ppca_log_likelihood,
    rms,
    true_log_density,
)

COLUMNS = (
    "log-lik",
    "true",
    "PPCA",
    "noise var",
    "new rows",
    "new, true",
    "new, PPCA",
    "gaps in z",
    "gaps, rotated",
    "K",
    "q",
    "breakpoint",
)


def one_seed(seed: int, n_init: int, pieces: tuple[int, ...] = (1, 2, 3)) -> tuple[float, ...]:
    """All figures of one table."""
    X, new = make_hinge(500, random_state=seed).X, make_hinge(2000, random_state=10_000 + seed).X
    ppca = PPCA(2).fit(X)
    selection = PiecewisePCA(n_init=n_init, n_jobs=1).select(X, n_pieces=pieces, n_components=(1, 2))
    model = PiecewisePCA(n_init=n_init, n_jobs=1).fit(X)
    moved = make_hinge(500, corner=0.4, random_state=seed).X
    return (
        model.log_likelihood_,
        float(true_log_density(X).sum()),
        float(ppca.objective_trace_[-1]),
        model.noise_variance_,
        float(model.score_samples(new).sum()),
        float(true_log_density(new).sum()),
        ml_ppca_log_likelihood(ppca, new, len(X)),
        gap_ratio(X, third_missing(X, seed), n_init),
        gap_ratio(*rotated(X, seed), n_init),
        selection.n_pieces,
        selection.n_components,
        float(PiecewisePCA(breakpoints="fit", n_init=n_init, n_jobs=1).fit(moved).breakpoints_[0]),
    )


def third_missing(X: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of the third coordinate missing."""
    missing = np.zeros(X.shape, dtype=bool)
    missing[:, 2] = np.random.default_rng([seed, 1]).random(len(X)) < 0.2
    return np.where(missing, np.nan, X)


def rotated(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The cloud rotated at random, complete and with 15 % of all entries missing (no row wholly)."""
    rng = np.random.default_rng([seed, 2])
    turned = X @ special_ortho_group.rvs(3, random_state=int(rng.integers(2**31))).T
    missing = rng.random(X.shape) < 0.15
    missing[missing.all(axis=1), 0] = False
    return turned, np.where(missing, np.nan, turned)


def gap_ratio(truth: np.ndarray, gappy: np.ndarray, n_init: int) -> float:
    """Error of the filled entries over that of PPCA."""
    missing = np.isnan(gappy)
    ours = PiecewisePCA(n_init=n_init, n_jobs=1).fit(gappy).impute(gappy)
    theirs = PPCA(2).fit(gappy).impute(gappy)
    return rms((ours - truth)[missing]) / rms((theirs - truth)[missing])


def one_broken(seed: int, n_init: int) -> tuple[float, ...]:
    """BIC of the three couplings on a sheet that jumps."""
    X = make_hinge(500, jump=1.0, random_state=seed).X
    return tuple(
        PiecewisePCA(coupling=c, n_init=n_init, n_jobs=1).fit(X).bic_
        for c in ("continuous", "shared", "free")
    )


def one_wide(seed: int, n_init: int) -> tuple[float, ...]:
    """Correlation of the scores with the truth, q = 3 and p = 8: PCA, continuous, free."""
    drawn = make_wide_hinge(500, 8, 3, random_state=seed)
    fits = [PPCA(3).fit(drawn.X)]
    fits += [
        PiecewisePCA(3, coupling=c, n_init=n_init, n_jobs=1).fit(drawn.X) for c in ("continuous", "free")
    ]
    return tuple(latent_correlation(fit.transform(drawn.X), drawn.latent) for fit in fits)


def one_percent(seed: int, n_init: int) -> tuple[float, ...]:
    """Per cents: variance of two principal components, of the means of two pieces given the rows, pseudo-R2."""
    X = make_hinge(500, random_state=seed).X
    variances = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    model = PiecewisePCA(n_init=n_init, n_jobs=1).fit(X)
    left = float(((X - model.reconstruct(X)) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum())
    shares = 100.0 * model.explained_deviance_ratio_
    return 100.0 * float(variances[:2].sum() / variances.sum()), 100.0 * (1.0 - left), *shares.tolist()


def run(options: Options) -> Outcome:
    """All seeds; the targets hold in every one unless they say otherwise."""
    n_seeds, n_init, n_other = (1, 3, 1) if options.quick else (20, 20, 5)
    tasks = [(options.seed + i, n_init) for i in range(n_seeds)]
    grids = [(*task, (1, 2)) for task in tasks] if options.quick else tasks
    found = np.array(repeat(one_seed, grids, options))
    broken = np.array(repeat(one_broken, tasks[:n_other], options)) if not options.quick else np.empty((0, 3))
    wide = np.array(repeat(one_wide, tasks[:n_other], options)) if not options.quick else np.empty((0, 3))
    percent = np.array(repeat(one_percent, tasks[:n_other], options))
    tables = [_hinge_table(found), _percent_table(percent)]
    if len(broken):
        tables.append(
            Table("Broken sheet, BIC (lower is better)", ("continuous", "shared", "free"), broken.tolist())
        )
        tables.append(
            Table("3 of 8 dimensions, correlation of scores", ("PCA", "continuous", "free"), wide.tolist())
        )
    notes = (
        "The thesis reports 88.0 % for the hinge (46.5 and 41.5), a ratio that its program also prints for fits far "
        "below PPCA in likelihood, and 83.9 % for PCA; no figure of it is a target.",
        "log-lik and the rest are sums over rows; 'gaps' are errors of filled entries over those of PPCA.",
        f"Worst single seeds: new rows lose {100 * _losses(found).max():.2f} %, gaps in z {found[:, 7].max():.3f}, "
        f"in the rotated cloud {found[:, 8].max():.3f}; the targets on these three are on means over seeds.",
    )
    return Outcome(tables, [*_targets(found), *_other_targets(broken, wide)], notes, _draw(options))


def _hinge_table(found: np.ndarray) -> Table:
    rows = [(i, *values[:9], int(values[9]), int(values[10]), values[11]) for i, values in enumerate(found)]
    return Table("Hinge, 500 rows, one line per seed", ("seed", *COLUMNS), rows)


def _percent_table(percent: np.ndarray) -> Table:
    head = (
        "",
        "PCA, variance",
        "two pieces, variance of fitted rows",
        "pseudo-R2, first axis",
        "second axis",
    )
    rows: list[tuple[object, ...]] = [(f"seed {i}", *values) for i, values in enumerate(percent.tolist())]
    return Table(
        "Per cent explained", head, [*rows, ("thesis", 83.9, "88.0 (of what is not said)", 46.5, 41.5)]
    )


def _targets(found: np.ndarray) -> list[Target]:
    fit, true, _, noise, _, new_true, new_ppca, third, turned, pieces, dims, edge = found.T
    loss = _losses(found)
    loss_ppca = (new_true - new_ppca) / np.abs(new_true)
    right = float(np.mean((pieces == 2) & (dims == 2)))
    return [
        Target("log-likelihood less that of the truth, least", float((fit - true).min()), ">=", 0.0),
        Target("noise variance, largest relative error", float(np.abs(noise / 0.01 - 1).max()), "<=", 0.15),
        Target("new rows, relative loss, mean", float(loss.mean()), "<=", 0.01),
        Target("new rows, relative loss of PPCA, least", float(loss_ppca.min()), ">", 0.5),
        Target("gaps in z, error over PPCA's, mean", float(third.mean()), "<=", 1 / 3),
        Target("gaps in the rotated cloud, error over PPCA's, mean", float(turned.mean()), "<=", 0.85),
        Target("share of seeds with K = 2, q = 2 by BIC", right, ">=", 0.9),
        Target("breakpoint, largest error", float(np.abs(edge - 0.4).max()), "<=", 0.15),
    ]


def _losses(found: np.ndarray) -> np.ndarray:
    """Log-likelihood of new rows lost to the truth, as a share of it, by seed."""
    return np.asarray((found[:, 5] - found[:, 4]) / np.abs(found[:, 5]))


def _other_targets(broken: np.ndarray, wide: np.ndarray) -> list[Target]:
    if not len(broken):
        return []
    return [
        Target(
            "broken sheet: BIC of continuous less shared, least",
            float((broken[:, 0] - broken[:, 1]).min()),
            ">",
            0.0,
        ),
        Target(
            "3 of 8: correlation, continuous less PCA, least",
            float((wide[:, 1] - wide[:, 0]).min()),
            ">",
            0.0,
        ),
    ]


def _draw(options: Options) -> list[str]:
    """The hinge in data space, its latent space, and rows generated by PPCA and by the model."""
    path = options.picture("pwpca_hinge.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    X = make_hinge(500, random_state=options.seed).X
    model = PiecewisePCA(n_jobs=1).fit(X)
    axes = Figure(figsize=(10, 8), layout="constrained").subplots(2, 2)
    plot_hinge(model, X, (0, 2), ax=axes[0, 0])
    plot_latent_pieces(model, X, ax=axes[0, 1])
    plot_predicted(PPCA(2).fit(X), X, (0, 2), ax=axes[1, 0])
    plot_predicted(model, X, (0, 2), ax=axes[1, 1])
    save_figure(axes[0, 0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
