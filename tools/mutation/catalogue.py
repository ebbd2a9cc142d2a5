"""Places where the code is broken on purpose, and the tests that must notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One change of one place."""

    name: str
    file: str
    """Below ``src/anypca``."""
    old: str
    """The text that is there, once."""
    new: str
    tests: str
    """Arguments of pytest, separated by blanks."""


_FAMILIES = "tests/conformance/test_families.py tests/families"
_ENGINE = "tests/engine"
_SOLVERS = "tests/solvers tests/test_linalg.py"
_SELECTION = "tests/selection"

FAMILIES = [
    Mutation(
        "the factorial is off by one",
        "families/poisson.py",
        "-gammaln(x + 1.0)",
        "-gammaln(x + 2.0)",
        _FAMILIES,
    ),
    Mutation(
        "a normal predictor does not raise the rate",
        "families/poisson.py",
        "rate = 0.5 * variance",
        "rate = 0.0 * variance",
        _FAMILIES,
    ),
    Mutation(
        "no start for a column of zeros",
        "families/_log_link.py",
        "np.maximum(total, 0.5) / count",
        "np.maximum(total, 0.0) / count",
        _FAMILIES,
    ),
    Mutation(
        "information without over-dispersion",
        "families/negative_binomial.py",
        "        mu /= growth\n",
        "",
        _FAMILIES,
    ),
    Mutation(
        "moments ignore the Poisson part",
        "families/negative_binomial.py",
        "excess = (variance - mean) / square",
        "excess = variance / square",
        _FAMILIES,
    ),
    Mutation(
        "far tail of a large mean",
        "families/negative_binomial.py",
        "information = expit(shifted) / a\n    gradient",
        "information = expit(shifted)\n    gradient",
        _FAMILIES,
    ),
    Mutation(
        "Stirling's series has a wrong sign",
        "families/negative_binomial.py",
        "inverse * (1.0 / 12.0 - square",
        "inverse * (1.0 / 12.0 + square",
        _FAMILIES,
    ),
    Mutation(
        "shape and dispersion are confused",
        "families/gamma.py",
        "shape = 1.0 / like(dispersion, x)",
        "shape = like(dispersion, x)",
        _FAMILIES,
    ),
    Mutation(
        "observed curvature is the expected one",
        "families/_log_link.py",
        "return found.gradient + found.curvature",
        "return found.curvature",
        _FAMILIES,
    ),
    Mutation(
        "dispersions go to the wrong columns",
        "families/mixed.py",
        "return values[..., pick] if values.ndim else array",
        "return values[..., : values[..., pick].shape[-1]] if values.ndim else array",
        _FAMILIES,
    ),
    Mutation(
        "a slice of columns starts at the first",
        "families/mixed.py",
        "for number in self.assignment[index]])",
        "for number in self.assignment[: len(self.assignment[index])]])",
        _FAMILIES,
    ),
]

LINALG = [
    Mutation(
        "a pivot at rounding level is used",
        "linalg.py",
        "usable = column[0] > smallest",
        "usable = column[0] > 0.0",
        "tests/test_linalg.py",
    ),
    Mutation(
        "log-determinant is that of the root",
        "linalg.py",
        "-2.0 * np.log(pivots).sum(axis=0)",
        "-1.0 * np.log(pivots).sum(axis=0)",
        "tests/test_linalg.py",
    ),
    Mutation(
        "signs by the first entry, not the largest",
        "linalg.py",
        "np.argmax(np.abs(components), axis=1)]",
        "0]",
        "tests/test_linalg.py",
    ),
    Mutation(
        "the balance is not symmetric",
        "linalg.py",
        "return symmetric_power(square, 0.5), symmetric_power(square, -0.5)",
        "return symmetric_power(square, 0.25), symmetric_power(square, -0.25)",
        "tests/test_linalg.py",
    ),
]

ENGINE = [
    Mutation(
        "skewness without the cross term",
        "engine/summary.py",
        "(self.weight - other.weight) + 3.0 * cross",
        "(self.weight - other.weight)",
        _ENGINE,
    ),
    Mutation(
        "weights do not reach the means",
        "engine/summary.py",
        "mean = row_weight @ x / np.where(weight > 0, weight, 1.0)",
        "mean = x.sum(axis=0) / np.where(weight > 0, weight, 1.0)",
        _ENGINE,
    ),
    Mutation(
        "missing entries hold zero",
        "engine/_interface.py",
        "x[missing] = 1.0",
        "x[missing] = 0.0",
        _ENGINE,
    ),
    Mutation(
        "a column index out of range passes",
        "engine/sources.py",
        "(indices[:stored] >= csr.shape[1])",
        "(indices[:stored] > csr.shape[1])",
        _ENGINE,
    ),
    Mutation(
        "workers are not told of an error",
        "engine/executors.py",
        "            if stop.is_set():\n                break\n",
        "",
        _ENGINE,
    ),
    Mutation(
        "the last block loses a row",
        "engine/data.py",
        "edges = [i * n_samples // n_blocks for i in range(n_blocks + 1)]",
        "edges = [i * (n_samples - 1) // n_blocks for i in range(n_blocks + 1)]",
        _ENGINE,
    ),
    Mutation(
        "a field does not add",
        "engine/_interface.py",
        "getattr(self, name) + getattr(other, name)",
        "getattr(self, name)",
        "tests/engine tests/models/test_ppca_missing.py",
    ),
]

SOLVERS = [
    Mutation(
        "a worse extrapolation is taken",
        "solvers/_loop.py",
        "np.isfinite(trial.objective) and trial.objective > point.objective",
        "np.isfinite(trial.objective)",
        _SOLVERS,
    ),
    Mutation(
        "a worse plain step is taken",
        "solvers/_loop.py",
        "return None if is_worse and np.isfinite(trial.objective) else trial",
        "return trial",
        _SOLVERS,
    ),
    Mutation(
        "running out of sweeps is convergence",
        "solvers/_loop.py",
        "status, criterion, patience = Status.MAX_ITER",
        "status, criterion, patience = Status.CONVERGED",
        _SOLVERS,
    ),
    Mutation(
        "non-finite objectives pass",
        "solvers/_loop.py",
        "        if not np.isfinite(value):\n            raise NonFiniteError(",
        "        if value is None:\n            raise NonFiniteError(",
        _SOLVERS,
    ),
]

SELECTION = [
    Mutation(
        "BIC counts a parameter once",
        "models/_criteria.py",
        "found = facts.likelihood\n        if found is None:\n            return None\n        return -2.0 *",
        "found = facts.likelihood\n        if found is None:\n            return None\n        return -1.0 *",
        _SELECTION,
    ),
    Mutation(
        "the entropy has the wrong sign",
        "models/_criteria.py",
        "value + 2.0 * facts.entropy",
        "value - 2.0 * facts.entropy",
        _SELECTION,
    ),
    Mutation(
        "AIC is BIC with two rows",
        "models/_criteria.py",
        "-2.0 * found.value + 2.0 * found.n_parameters",
        "-2.0 * found.value + np.log(2.0) * found.n_parameters",
        _SELECTION,
    ),
    Mutation(
        "a column may lose all of its entries",
        "selection/splits.py",
        "np.where(by_label.max(axis=0) == count, first, -1)",
        "np.full_like(first, -1)",
        _SELECTION,
    ),
    Mutation(
        "all blocks draw the same labels",
        "selection/splits.py",
        "np.random.default_rng((*self.seed, number))",
        "np.random.default_rng(self.seed)",
        _SELECTION,
    ),
]

_PPCA = "tests/models/test_ppca.py tests/models/test_ppca_missing.py"
_GSPPCA = "tests/models/test_gsppca.py tests/models/test_gsppca_em.py tests/models/test_gsppca_rows.py"
_SPCA = "tests/models/test_spca.py tests/models/test_spca_regression.py"
_KERNEL = "tests/models/test_kernel_pca.py"
_ROWS = "tests/models/test_row_methods.py tests/models/test_entry_likelihood.py"

ROW_SIDE = [
    Mutation(
        "predicted entries have no noise",
        "models/_row_model.py",
        "np.sqrt(noise + spread)",
        "np.sqrt(spread)",
        _ROWS,
    ),
    Mutation(
        "predicted entries have a known mean",
        "models/_row_model.py",
        "np.sqrt(noise + spread)",
        "np.sqrt(noise)",
        _ROWS,
    ),
    Mutation(
        "offsets of entries are lost",
        "models/_row_model.py",
        "    if rows.offset is None:\n        return mean, variance\n",
        "    return mean, variance\n",
        _ROWS,
    ),
    Mutation(
        "a failed fit leaves its traces",
        "models/_base.py",
        "            self.__dict__.update(before)\n",
        "",
        _ROWS,
    ),
    Mutation(
        "observed entries are filled in too",
        "models/_row_methods.py",
        "np.where(rows.observed, rows.x, expected)",
        "np.where(rows.observed, expected, expected)",
        _ROWS,
    ),
]

GAUSSIAN = [
    Mutation(
        "posterior spread does not reach the noise",
        "models/_gaussian/problem.py",
        "squares=float(weight @ (rows.squares + spread))",
        "squares=float(weight @ rows.squares)",
        _PPCA,
    ),
    Mutation(
        "second moments without covariance",
        "models/_gaussian/problem.py",
        "second[:, inner] += covariance[:, rows[inner], cols[inner]] * weights",
        "second[:, inner] += 0.0 * weights",
        _PPCA,
    ),
    Mutation(
        "variances with the divisor n",
        "models/_gaussian/principal.py",
        "factor = weight / (weight - 1.0)",
        "factor = 1.0",
        _PPCA,
    ),
    Mutation(
        "noise divided by all eigenvalues",
        "models/_gaussian/principal.py",
        "noise = max(factor * rest / (rank - k), floor)",
        "noise = max(factor * rest / rank, floor)",
        _PPCA,
    ),
    Mutation(
        "likelihood without the determinant",
        "models/_gaussian/principal.py",
        "(p * np.log(2.0 * np.pi) + log_determinant + k",
        "(p * np.log(2.0 * np.pi) + k",
        _PPCA,
    ),
]

GSPPCA = [
    Mutation(
        "bias-corrected noise is maximum likelihood",
        "models/gsppca/_noise.py",
        '"bc": bias_corrected',
        '"bc": maximum_likelihood',
        "tests/models/test_gsppca_rows.py tests/models/test_gsppca.py",
    ),
    Mutation(
        "the noise of inactive columns is not counted",
        "models/gsppca/_evidence.py",
        "return np.asarray(active - inactive)",
        "return np.asarray(active)",
        "tests/models/test_gsppca_evidence.py tests/models/test_gsppca.py",
    ),
    Mutation(
        "curvature of the Bessel term",
        "models/gsppca/_evidence.py",
        "curvature = slope**2 + 2.0 * order * slope - z * z",
        "curvature = slope**2 + order * slope - z * z",
        "tests/models/test_gsppca_evidence.py",
    ),
    Mutation(
        "a sparse prior is the uniform one",
        "models/gsppca/_evidence.py",
        "return min(0.5, float(betaincinv(n + 1, n_features - n, _LEVEL)))",
        "return 0.5",
        "tests/models/test_gsppca_evidence.py tests/models/test_gsppca.py",
    ),
]

SPCA = [
    Mutation(
        "the penalty counts twice",
        "models/spca/_regression.py",
        "soft_threshold(target, 0.5 * penalty), penalty)",
        "soft_threshold(target, penalty), penalty)",
        _SPCA,
    ),
    Mutation(
        "optimality is not checked",
        "models/spca/_regression.py",
        "return b if keeps_signs and kkt_distance",
        "return b if True or kkt_distance",
        _SPCA,
    ),
    Mutation(
        "one loading too many",
        "models/spca/_regression.py",
        "np.partition(sizes, -count - 1)[-count - 1]) if count < len(sizes)",
        "np.partition(sizes, -count - 2)[-count - 2]) if count + 1 < len(sizes)",
        _SPCA,
    ),
    Mutation(
        "variances of correlated scores are not adjusted",
        "models/spca/_fit.py",
        "return np.asarray(np.diag(triangle) ** 2)",
        "return np.asarray(np.diag(inner))",
        _SPCA,
    ),
]

KERNEL = [
    Mutation(
        "distances lack the centre",
        "models/kernel/_embedding.py",
        "- 2.0 * np.concatenate(cross) + self.centerer.K_fit_all_",
        "- 2.0 * np.concatenate(cross)",
        _KERNEL,
    ),
    Mutation(
        "features are not centred",
        "models/kernel/_embedding.py",
        "shift = self.mean @ self.axes",
        "shift = 0.0 * self.mean @ self.axes",
        _KERNEL,
    ),
    Mutation(
        "Fourier features have the wrong length",
        "models/kernel/_features.py",
        "angles *= np.sqrt(2.0 / angles.shape[1])",
        "angles *= np.sqrt(1.0 / angles.shape[1])",
        _KERNEL,
    ),
    Mutation(
        "landmarks see every row whole",
        "models/kernel/_features.py",
        "np.maximum(self.kernel.diagonal(rows) - squares, 0.0)",
        "np.zeros(len(rows))",
        _KERNEL,
    ),
]

MUTATIONS = [
    *FAMILIES,
    *LINALG,
    *ENGINE,
    *SOLVERS,
    *SELECTION,
    *ROW_SIDE,
    *GAUSSIAN,
    *GSPPCA,
    *SPCA,
    *KERNEL,
]
