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
_CHECKPOINT = "tests/solvers/test_checkpoint.py tests/models/test_checkpoints.py"
_SELECTION = "tests/selection"
_RANKS = "tests/selection/test_rank_methods.py"
_DIAGNOSTICS = "tests/selection/test_diagnostics.py"

_CALIBRATION = "tests/models/test_calibration.py"
_ENTRY_WEIGHT = "tests/models/test_entry_weight.py"
_LABELS = "tests/models/test_labels.py"
_LAYOUT = "tests/engine/test_layout.py tests/models/test_layouts.py tests/conformance/test_forms.py"

LAYOUT = [
    Mutation(
        "nominal: later questions are asked of all",
        "families/nominal.py",
        "np.where(numbers >= places, chosen, np.asarray(np.nan, x.dtype))",
        "np.where(np.isnan(numbers), np.asarray(np.nan, x.dtype), chosen)",
        _LABELS,
    ),
    Mutation(
        "labels: new ones are the first",
        "engine/labels.py",
        "return np.where(found == -1, np.nan, found)",
        "return np.where(found == -1, 0.0, found)",
        _LABELS,
    ),
    Mutation(
        "labels: names of persons are kept",
        "engine/layout.py",
        "replace(labels, levels=()) if isinstance(absent.get(column), Excluded) else labels",
        "labels",
        _LABELS,
    ),
    Mutation(
        "labels: words have no order",
        "families/labels.py",
        "if set(words.values()) <= set(scale):",
        "if set(words.values()) > set(scale):",
        _LABELS,
    ),
    Mutation(
        "copies come back without their intercept",
        "families/forms.py",
        "self.intercept + self.slope * means[:, 0]",
        "self.slope * means[:, 0]",
        _LAYOUT,
    ),
    Mutation(
        "left out columns are padded in the wrong place",
        "engine/layout.py",
        "[..., self.sources] = np.moveaxis(values, axis, -1)",
        "[..., : self.n_columns] = np.moveaxis(values, axis, -1)",
        _LAYOUT,
    ),
    Mutation(
        "zeros are not missing among the amounts",
        "families/two_part.py",
        "np.where(x == 0, np.nan, x)",
        "np.where(x == 0, 1.0, x)",
        _LAYOUT,
    ),
    Mutation(
        "offsets stay with the columns of the table",
        "engine/_laid_sources.py",
        "offset = PickedSource(offset, layout.sources)",
        "pass",
        _LAYOUT,
    ),
    Mutation(
        "observed entries are replaced by means",
        "engine/layout.py",
        "np.where(np.isnan(table), self.join(filled), table)",
        "self.join(filled)",
        _LAYOUT,
    ),
    Mutation(
        "the truncated information forgets the odds",
        "families/truncated_negative_binomial.py",
        "rate * (1.0 - rate * np.exp(-power))",
        "rate * (1.0 - np.exp(-power))",
        _FAMILIES,
    ),
]

FAMILIES = [
    Mutation(
        "lattices of blocks forget where they lie",
        "engine/_lattice.py",
        "gcd = np.gcd(np.gcd(first.gcd, second.gcd), gap)",
        "gcd = np.gcd(first.gcd, second.gcd)",
        "tests/engine/test_lattice.py",
    ),
    Mutation(
        "densities stand for coarse intervals",
        "families/gaussian.py",
        "_COARSE = 0.5",
        "_COARSE = 0.0",
        "tests/families/test_mass.py",
    ),
    Mutation(
        "a reproduced column may be known without bound",
        "models/_bilinear/dispersion.py",
        "found[columns] = np.maximum(found[columns], finest)",
        "pass",
        "tests/models/test_resolution.py",
    ),
    Mutation(
        "intercepts have the units of their columns",
        "models/_bilinear/start.py",
        "log_density -= 0.5 * float(np.log(varying).sum())",
        "pass",
        "tests/models/test_resolution.py",
    ),
    Mutation(
        "parameters of families cost nothing",
        "families/_candidates.py",
        "return self.zeta * mass - n_parameters * self.price + prior",
        "return self.zeta * mass + prior",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "columns are taken to be recorded in whole numbers",
        "families/rounded_gaussian.py",
        "replace(self, step=tuple(steps.tolist()))",
        "self",
        "tests/families/test_rounded.py",
    ),
    Mutation(
        "noise before rounding may vanish",
        "families/rounded_gaussian.py",
        "filled((_LEAST * self._steps()) ** 2, mean)",
        "np.zeros_like(mean)",
        "tests/families/test_rounded.py",
    ),
    Mutation(
        "rounding adds nothing to the variance",
        "families/rounded_gaussian.py",
        "like(dispersion, mu) + self._steps() ** 2 / 12.0",
        "like(dispersion, mu) + 0.0 * self._steps()",
        _FAMILIES,
    ),
    Mutation(
        "degrees of freedom are judged at one scale",
        "families/student_t.py",
        "_SCALES = np.exp(np.linspace(-4.0, 4.0, 81))",
        "_SCALES = np.ones(1)",
        "tests/families/test_profiled.py",
    ),
    Mutation(
        "powers are judged at one dispersion",
        "families/tweedie.py",
        "phi = np.maximum(found[:, :-1] / count[:, None], _SMALL)",
        "phi = np.ones_like(found[:, :-1])",
        "tests/families/test_profiled.py",
    ),
    Mutation(
        "columns are not drawn to the others",
        "families/_profile.py",
        "drawn = values + _SHRINKAGE * values.sum(axis=0) / max(float(count.sum()), 1.0)",
        "drawn = values",
        "tests/families/test_profiled.py",
    ),
    Mutation(
        "cut points of a mode stay those of the margin",
        "models/sepca/_mode.py",
        "family, dispersion = better, new",
        "dispersion = new",
        "tests/families/test_profiled.py",
    ),
    Mutation(
        "hidden entries have families of other columns",
        "selection/entry_cv.py",
        "layout.settled(layout.family(chosen.choice.family))",
        "layout.settled(chosen.choice.family)",
        "tests/selection/test_labels.py",
    ),
    Mutation(
        "nodes lie where nothing is known of the value",
        "models/_row_model.py",
        "eta = eta + np.clip(step, -longest, longest)",
        "pass",
        "tests/models/test_predictive.py",
    ),
    Mutation(
        "unseen entries have the noise alone",
        "models/_row_model.py",
        "eta = centre + np.multiply.outer(_NODES, width)",
        "eta = mean + 0.0 * np.multiply.outer(_NODES, width)",
        "tests/models/test_predictive.py",
    ),
    Mutation(
        "nearly normal measurements are amounts",
        "families/_candidates.py",
        "prior = min(_odds_of_amount(column), 0.0) + (",
        "prior = (",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "a variance equal to the mean says nothing",
        "families/_candidates.py",
        "scores.of(margins.poisson(values, weights), 1, prior + _POISSON),",
        "-np.inf,",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "extra zeros have to be earned against ratings too",
        "families/_candidates.py",
        "scores.add(EXTRA_ZEROS, margins.hurdle(column), 3, prior + _HAS_ZEROS)",
        "scores.add(EXTRA_ZEROS, margins.hurdle(column), 3, prior - 6.0)",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "columns say nothing of the extra zeros of others",
        "families/_whole_table.py",
        "        odds = np.log(share) - np.log1p(-share)",
        "        pass",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "what stands for a missing cell must be a level",
        "models/_opened.py",
        "bad &= rows.observed",
        "pass",
        "tests/families/test_ordinal.py",
    ),
    Mutation(
        "labels in disorder enter the model",
        "families/_guards.py",
        "is_range = column.is_whole and column.step == 1 and n >= LEAST_RANGE",
        "is_range = False",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "tables of one kind break up",
        "families/_whole_table.py",
        "if not columns or not all(c.is_whole and c.low >= 0 for c in columns):",
        "if True:",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "blocks are counted over one another",
        "engine/values.py",
        "            self.counts + other.counts,",
        "            other.counts,",
        "tests/families/test_auto.py",
    ),
    Mutation(
        "the factorial is off by one",
        "families/poisson.py",
        "-gammaln(x[is_many] + 1.0)",
        "-gammaln(x[is_many] + 2.0)",
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
        "special.py",
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
        "the mean of log-normal amounts is their median",
        "families/log_normal.py",
        "eta + 0.5 * like(dispersion, eta)",
        "eta + 0.0 * like(dispersion, eta)",
        _FAMILIES,
    ),
    Mutation(
        "outliers keep their weight",
        "families/student_t.py",
        "(df * scale * (1.0 + square))",
        "(df * scale)",
        _FAMILIES,
    ),
    Mutation(
        "trials are independent",
        "families/beta_binomial.py",
        "(1.0 + (self.trials - 1) * a / (1.0 + a))",
        "(1.0 + 0.0 * a)",
        _FAMILIES,
    ),
    Mutation(
        "the series of compound amounts is cut short",
        "families/tweedie.py",
        "_WIDTH = 8.0",
        "_WIDTH = 1.0",
        _FAMILIES,
    ),
    Mutation(
        "expectations by quadrature have no curvature from the spread",
        "families/_base.py",
        "(low.value + high.value) / 6.0",
        "middle.value / 3.0",
        _FAMILIES,
    ),
    Mutation(
        "cut points of the margin are kept",
        "families/ordinal.py",
        "if change <= SETTLED:",
        "if change >= 0:",
        "tests/families/test_ordinal.py",
    ),
    Mutation(
        "cut points cost no evidence",
        "models/sepca/_candidate.py",
        " - self.parameter_cost",
        "",
        "tests/families/test_ordinal.py",
    ),
    Mutation(
        "members of a mixture are not cut to their columns",
        "families/mixed.py",
        "[self.members[number].take(place) for",
        "[self.members[number] for",
        "tests/families/test_ordinal.py",
    ),
    Mutation(
        "extra zeros tell as much as counts",
        "families/_zero_inflated.py",
        "weight = np.where(is_zero, expit(log_zero + counted - np.log(pi)), 1.0)",
        "weight = np.where(is_zero, 1.0, 1.0)",
        "tests/conformance/test_families.py",
    ),
    Mutation(
        "shares of extra zeros stay where they started",
        "families/_zero_inflated.py",
        "return new if change > _SETTLED else self",
        "return self",
        "tests/families/test_zero_inflated.py",
    ),
    Mutation(
        "dispersions go to the wrong columns",
        "families/mixed.py",
        "np.asarray(array)[..., pick]",
        "np.asarray(array)[..., : np.asarray(array)[..., pick].shape[-1]]",
        _FAMILIES,
    ),
    Mutation(
        "a slice of columns starts at the first",
        "families/mixed.py",
        "self.take(np.arange(*key))",
        "self.take(np.arange(len(range(*key))))",
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
        "mean = _weighted_sum(weights, x) / np.where(weight > 0, weight, 1.0)",
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
        "engine/_interface.py",
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
    Mutation(
        "the end of a rough start is rough",
        "solvers/_loop.py",
        "        self._working = self.problem\n        exact = self._visit(proposal, point.local)",
        "        exact = self._visit(proposal, point.local)",
        _SOLVERS,
    ),
    Mutation(
        "a rough start that fails is kept",
        "solvers/_loop.py",
        "if rough is None or not np.isfinite(point.objective):",
        "if rough is None:",
        _SOLVERS,
    ),
    Mutation(
        "any table has rough sweeps",
        "models/epca/_fit.py",
        "starts_rough=is_first and self._suits_single",
        "starts_rough=is_first",
        "tests/models/test_epca_invariance.py",
    ),
    Mutation(
        "a checkpoint with a torn record is read",
        "solvers/checkpoint.py",
        "if len(record) < length or zlib.crc32(record) != checksum:",
        "if zlib.crc32(record) is None:",
        _CHECKPOINT,
    ),
    Mutation(
        "a checkpoint of another table is taken",
        "solvers/checkpoint.py",
        "if not _is_same(old, new):",
        "if old is None:",
        _CHECKPOINT,
    ),
    Mutation(
        "rows after a checkpoint start at the origin",
        "solvers/_loop.py",
        "if not point.objective - last.objective > self._working.resolution(shared, point.stats):",
        "if point.objective is not None:",
        _CHECKPOINT,
    ),
    Mutation(
        "a checkpoint forgets the generator",
        "models/_checkpoint.py",
        '        session.rng.bit_generator.state = dict(journal.origin["rng"])\n',
        "",
        _CHECKPOINT,
    ),
    Mutation(
        "an interrupt leaves nothing in the checkpoint",
        "solvers/checkpoint.py",
        "        else:\n            self.flush()\n",
        "",
        _CHECKPOINT,
    ),
]

_STREAM = "tests/models/test_partial_fit.py"
STREAM = [
    Mutation(
        "early blocks of a stream count as much as late ones",
        "models/_stream.py",
        "rate = 2.0 / (number + 1.0)",
        "rate = 1.0 / number",
        _STREAM,
    ),
    Mutation(
        "averages stay in the old coordinates",
        "models/_stream.py",
        "target=self.target @ change,",
        "target=self.target,",
        _STREAM,
    ),
    Mutation(
        "the mean score is not moved into the intercept",
        "models/_stream.py",
        "change[k:, :k] = -shift @ matrix",
        "change[k:, :k] = 0.0 * shift @ matrix",
        _STREAM,
    ),
    Mutation(
        "a block's target forgets where it was found",
        "models/_bilinear/stream.py",
        "target=found.times(coefficients.joint) + sums.gradient",
        "target=sums.gradient",
        _STREAM,
    ),
    Mutation(
        "a stream of gaussian rows forgets the squares of its fit",
        "models/_gaussian/stream.py",
        "squares = sums.squares + 2.0 *",
        "squares = sums.squares + 1.0 *",
        _STREAM,
    ),
    Mutation(
        "variances of counts' posteriors stay in the old coordinates",
        "models/_stream.py",
        "spread=self.spread @ change[:k, :k] ** 2,",
        "spread=self.spread,",
        _STREAM,
    ),
    Mutation(
        "a posterior's stream turns its averages the wrong way",
        "models/sepca/_stream.py",
        "design_change(shift, found.change.matrix.T)",
        "design_change(shift, found.change.matrix)",
        _STREAM,
    ),
    Mutation(
        "a warm start of SePCA is not used",
        "models/sepca/_fit.py",
        "warm = None if start is None else warm_state(candidate, start, seed)",
        "warm = None",
        "tests/models/test_warm_start.py",
    ),
    Mutation(
        "a warm start is not used",
        "models/_warm.py",
        "        return Entry(0, key, start, np.empty(0))",
        "        return None",
        "tests/models/test_warm_start.py",
    ),
]

SELECTION = [
    Mutation(
        "rotations of PPCA count as parameters",
        "selection/facts.py",
        "count = p * k - k * (k - 1) // 2 + p + 1",
        "count = p * k + p + 1",
        _SELECTION,
    ),
    Mutation(
        "plugged-in scores are free of charge",
        "selection/facts.py",
        "            by_column + by_row,\n",
        "            by_column,\n",
        _SELECTION,
    ),
    Mutation(
        "BIC doubles the price of a parameter",
        "models/_criteria.py",
        "self.n_parameters * float(np.log(self.n_observations))",
        "2.0 * self.n_parameters * float(np.log(self.n_observations))",
        _SELECTION,
    ),
    Mutation(
        "the entropy has the wrong sign",
        "models/_criteria.py",
        "facts.marginal.bic + 2.0 * facts.entropy",
        "facts.marginal.bic - 2.0 * facts.entropy",
        _SELECTION,
    ),
    Mutation(
        "AIC is BIC with two rows",
        "models/_criteria.py",
        "return -2.0 * self.value + 2.0 * self.n_parameters",
        "return -2.0 * self.value + float(np.log(2.0)) * self.n_parameters",
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
    Mutation(
        "columns are permuted together",
        "selection/spectra.py",
        "return rng.permuted(values, axis=0)",
        "return rng.permutation(values)",
        _RANKS,
    ),
    Mutation(
        "a corner is predicted without the singular values",
        "selection/spectra.py",
        "np.outer(along[:, k], across[k]) / sizes[k]",
        "np.outer(along[:, k], across[k])",
        _RANKS,
    ),
    Mutation(
        "ScreeNOT's transform has one side only",
        "selection/spectra.py",
        "second = beta * first + (1.0 - beta) / y",
        "second = 1.0 / y",
        _RANKS,
    ),
    Mutation(
        "noise variances are biased",
        "selection/biwhitening.py",
        "member.variance(x[:, index], known) / (1.0 + bend)",
        "member.variance(x[:, index], known)",
        _RANKS,
    ),
    Mutation(
        "over-dispersed counts are divided like Poisson counts",
        "selection/thinning.py",
        "odds = rng.beta(share * size, (1.0 - share) * size, size=x.shape)",
        "odds = np.full(x.shape, share)",
        _RANKS,
    ),
    Mutation(
        "normal parts share their noise",
        "selection/thinning.py",
        "np.sqrt(share * (1.0 - share) * dispersion)",
        "np.sqrt(share * dispersion)",
        _RANKS,
    ),
    Mutation(
        "quantiles of counts are not randomised",
        "selection/_residuals.py",
        "upper - rng.random(x.shape) * step",
        "upper",
        _RANKS,
    ),
    Mutation(
        "evidence without components has half of the noise",
        "_compat.py",
        "-0.5 * n_samples * len(values) * np.log(values.mean())",
        "-0.25 * n_samples * len(values) * np.log(values.mean())",
        _RANKS,
    ),
    Mutation(
        "neighbours are compared without what scores make of them",
        "selection/diagnostics.py",
        "sum(axis=1).mean() + share.mean())",
        "sum(axis=1).mean() - share.mean())",
        _DIAGNOSTICS,
    ),
    Mutation(
        "correlation of columns counts the rows with themselves",
        "selection/diagnostics.py",
        "- float((u**2).sum())\n",
        "\n",
        _DIAGNOSTICS,
    ),
    Mutation(
        "rows that are a component of their own are not outlying",
        "selection/diagnostics.py",
        "np.flatnonzero(far | self._dominating())",
        "np.flatnonzero(far)",
        _DIAGNOSTICS,
    ),
    Mutation(
        "directions of the loadings stay in the noise",
        "selection/diagnostics.py",
        "return basis, values - (values @ basis) @ basis.T",
        "return basis, values",
        _DIAGNOSTICS,
    ),
    Mutation(
        "heavy tails of entries make rows uneven",
        "selection/diagnostics.py",
        "squares.sum(axis=1).var() - own.sum()",
        "squares.sum(axis=1).var() - 2.0 * p",
        _DIAGNOSTICS,
    ),
]

_PPCA = "tests/models/test_ppca.py tests/models/test_ppca_missing.py"
_GSPPCA = "tests/models/test_gsppca.py tests/models/test_gsppca_em.py tests/models/test_gsppca_rows.py"
_SPCA = "tests/models/test_spca.py tests/models/test_spca_regression.py"
_EIGEN = "tests/models/test_spca_eigen.py"
_SSPCA = "tests/models/test_sspca.py tests/models/test_sspca_steps.py"
_KERNEL = "tests/models/test_kernel_pca.py"
_ROWS = "tests/models/test_row_methods.py tests/models/test_entry_likelihood.py"

ROW_SIDE = [
    Mutation(
        "entries are predicted with the noise of other columns",
        "models/_row_model.py",
        "values, eta, self.dispersion[columns], steps[columns])",
        "values, eta, self.dispersion[: len(columns)].mean(), steps[columns])",
        _ROWS,
    ),
    Mutation(
        "constraints of a base outlive those of a class",
        "models/_manners.py",
        "for base in cls.__mro__)",
        "for base in reversed(cls.__mro__))",
        "tests/models/test_base.py",
    ),
    Mutation(
        "settings keep numbers of numpy",
        "models/_arguments.py",
        "value.item() if isinstance(value, np.generic) else value",
        "value",
        "tests/models/test_base.py",
    ),
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
        "models/_row_model.py",
        "np.where(rows.observed, rows.x, expected)",
        "np.where(rows.observed, expected, expected)",
        _ROWS,
    ),
]

GAUSSIAN = [
    Mutation(
        "the covariance of the model has no noise",
        "models/ppca/_estimator.py",
        "@ U + noise * np.eye(U.shape[1]))",
        "@ U)",
        _PPCA,
    ),
    Mutation(
        "the precision of the model is in units of the noise",
        "models/ppca/_estimator.py",
        "(signal / (signal + noise))) @ U) / noise)",
        "(signal / (signal + noise))) @ U))",
        _PPCA,
    ),
    Mutation(
        "complete rows are as uncertain as the prior",
        "models/ppca/_estimator.py",
        "np.diag(principal.noise * principal.signal / (principal.signal + principal.noise))",
        "np.diag(principal.signal)",
        _PPCA,
    ),
    Mutation(
        "explained shares are variances",
        "models/ppca/_estimator.py",
        "self.explained_variance_ratio_ = principal.shares",
        "self.explained_variance_ratio_ = principal.variances",
        _PPCA,
    ),
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
        "return np.asarray(active + self.inactive_value(q, n))",
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

NOISY = [
    Mutation(
        "active columns have no noise",
        "models/gsppca/_noisy.py",
        "variance = noise + signal",
        "variance = 0.0 * noise + signal",
        "tests/models/test_gsppca_evidence.py",
    ),
    Mutation(
        "what is below the nodes is lost",
        "models/gsppca/_noisy.py",
        "np.append(weight, rest)",
        "np.append(weight, rest - 50.0)",
        "tests/models/test_gsppca_evidence.py",
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
        "columns join with the wrong sign",
        "models/spca/_path.py",
        "sign = 1.0 if place < len(target) else -1.0",
        "sign = 1.0",
        _SPCA,
    ),
    Mutation(
        "entries never leave the path",
        "models/spca/_path.py",
        "low, high = max(low_join, low_sign, 0.0)",
        "low, high = max(low_join, 0.0)",
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
        "the ridge is left out",
        "models/spca/_fit.py",
        "start.gram.matrix + settings.ridge * np.eye",
        "start.gram.matrix + 0.0 * np.eye",
        _SPCA,
    ),
    Mutation(
        "variances of correlated scores are not adjusted",
        "models/_gaussian/regression.py",
        "return np.asarray(np.diag(triangle) ** 2)",
        "return np.asarray(np.diag(inner))",
        _SPCA,
    ),
]

EIGEN = [
    Mutation(
        "a trace bounds indefinite matrices",
        "models/spca/_eigen.py",
        "        if self.is_semidefinite:\n",
        "        if True:\n",
        _EIGEN,
    ),
    Mutation(
        "a free row has one column too few",
        "models/spca/_eigen.py",
        "np.where(is_forced, k - n_forced, k - n_forced - 1)",
        "np.where(is_forced, k - n_forced, k - n_forced - 2)",
        _EIGEN,
    ),
    Mutation(
        "what is left open is not told",
        "models/spca/_eigen.py",
        "return *best, max(best[1], -queue[0][0]) if queue else best[1]",
        "return *best, best[1]",
        _EIGEN,
    ),
    Mutation(
        "a projection takes out half",
        "models/spca/_deflation.py",
        "S.without(a, a, image - 0.5 * value * a)",
        "S.without(a, a, image - value * a)",
        _EIGEN,
    ),
    Mutation(
        "regression on the score is done twice",
        "models/spca/_deflation.py",
        "image / (2.0 * value)",
        "image / value",
        _EIGEN,
    ),
]

SSPCA = [
    Mutation(
        "rows are shrunk as if scores were orthonormal",
        "priors/group.py",
        "c * length / (values * length + self.strength)",
        "c * length / (length + self.strength)",
        _SSPCA,
    ),
    Mutation(
        "scores are never bounded",
        "models/sspca/_descent.py",
        "<= bound else _multiplier(squares, values, bound)",
        "<= np.inf else _multiplier(squares, values, bound)",
        _SSPCA,
    ),
    Mutation(
        "what other groups explain is explained again",
        "models/sspca/_descent.py",
        "state.image[:, group] - V[:, others] @ gram[np.ix_(others, group)]",
        "state.image[:, group]",
        _SSPCA,
    ),
    Mutation(
        "small rows are dropped at any cost",
        "models/sspca/_descent.py",
        "found[used[is_small & (worth >= 0.0)]] = 0.0",
        "found[used[is_small]] = 0.0",
        _SSPCA,
    ),
    Mutation(
        "a cell helps to predict itself",
        "models/sspca/_cross_validation.py",
        "(test[:, support] @ precision) / np.diag(precision)",
        "test[:, support] @ precision",
        _SSPCA,
    ),
    Mutation(
        "copies of a row are in any fold",
        "models/sspca/_cross_validation.py",
        "np.unique(rows, axis=0, return_inverse=True)",
        "(rows, np.arange(len(rows)))",
        _SSPCA,
    ),
    Mutation(
        "the count of variables is met from below",
        "models/sspca/_fit.py",
        "if np.count_nonzero(trial.support) >= wanted:",
        "if np.count_nonzero(trial.support) > 0:",
        _SSPCA,
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
        "models/kernel/_embedding.py",
        "angles *= np.sqrt(2.0 / angles.shape[1])",
        "angles *= np.sqrt(1.0 / angles.shape[1])",
        _KERNEL,
    ),
    Mutation(
        "landmarks see every row whole",
        "models/kernel/_embedding.py",
        "np.maximum(self.kernel.diagonal(rows) - squares, 0.0)",
        "np.zeros(len(rows))",
        _KERNEL,
    ),
]

_AUTOENCODER = "tests/models/test_autoencoder.py tests/models/test_networks.py"
_VAE = "tests/models/test_vae.py tests/models/test_networks.py"

NETS = [
    Mutation(
        "the read-out does not bend the latents back",
        "models/autoencoder/_problem.py",
        "        in_latents += below\n",
        "        in_latents += below * (share == 1.0)\n",
        _AUTOENCODER,
    ),
    Mutation(
        "pairs of units lose the scale of the signal",
        "models/autoencoder/_start.py",
        "np.eye(k) / (up - down)",
        "np.eye(k)",
        _AUTOENCODER,
    ),
    Mutation(
        "the decoder does not follow the latents' new centre",
        "models/autoencoder/_canonical.py",
        "bias = first.bias + part.mean @ first.weights",
        "bias = first.bias",
        _AUTOENCODER,
    ),
    Mutation(
        "the ridge forgets its half",
        "models/autoencoder/_problem.py",
        "squares + 0.5 * self.alpha",
        "squares + self.alpha",
        _AUTOENCODER,
    ),
    Mutation(
        "tangents forget the slopes of units",
        "models/_network.py",
        " * ACTIVATIONS[layer.activation].slope(z, a)[:, None, :]",
        "",
        _VAE,
    ),
    Mutation(
        "the prior has no say in the encoder's mean",
        "models/vae/_model.py",
        "in_mean = in_latents - w * found.mean",
        "in_mean = in_latents",
        _VAE,
    ),
    Mutation(
        "missing entries are believed",
        "models/vae/_model.py",
        "slope = rows.only_observed(score) * rows.weights[:, None]",
        "slope = score * rows.weights[:, None]",
        _VAE,
    ),
    Mutation(
        "draws are weighed without the proposal's width",
        "models/vae/_posterior.py",
        "0.5 * (np.linalg.slogdet(self.precision)[1] - k * _LOG_2PI)",
        "0.5 * (-k * _LOG_2PI)",
        _VAE,
    ),
    Mutation(
        "draws spread by the factor, not by its inverse",
        "models/vae/_posterior.py",
        "inverse[which, chosen], noise",
        "factors[which, chosen], noise",
        _VAE,
    ),
    Mutation(
        "dispersion steps downhill",
        "models/vae/_training.py",
        "np.where(second < 0, -first /",
        "np.where(second < 0, first /",
        _VAE,
    ),
    Mutation(
        "the last epoch is kept, not the best",
        "models/vae/_training.py",
        "(model, found) if is_better else (best, value)",
        "(model, found)",
        _VAE,
    ),
]

_BILINEAR = (
    "tests/models/test_bilinear_problem.py tests/models/test_bilinear_rows.py tests/models/test_epca.py"
)
_CONJUGATE = "tests/solvers/test_conjugate.py tests/models/test_bilinear_conjugate.py"
_DISPERSION = "tests/models/test_bilinear_dispersion.py tests/models/test_sepca_dispersion.py"
_PLN = "tests/models/test_plnpca_bound.py tests/models/test_plnpca.py"
_PIECE_FAMILIES = "tests/models/test_piecewise_families.py"
_PIECES = "tests/models/test_piecewise.py tests/models/test_parameter_counts.py"

BILINEAR = [
    Mutation(
        "standard deviations without the prior's precision",
        "models/_bilinear/row_model.py",
        "precision = found.curvature + prior.curvature(found.points)\n    return",
        "precision = found.curvature\n    return",
        _BILINEAR,
    ),
    Mutation(
        "the determinant of the posterior is forgotten",
        "models/_bilinear/row_model.py",
        "return joint - 0.5 * determinant, entropy",
        "return joint, entropy",
        _BILINEAR + " tests/models/test_bilinear_report.py",
    ),
    Mutation(
        "worse columns are not halved",
        "models/_bilinear/alternating.py",
        "joint = np.where(worse[:, None], np.where(is_tiny, old, halved), new)",
        "joint = np.where(worse[:, None], np.where(is_tiny, old, new), new)",
        _BILINEAR,
    ),
    Mutation(
        "a worse row keeps its step",
        "models/_bilinear/alternating.py",
        "new[worse] = self._halve(evaluator.take(worse), points[worse], step[worse], value[worse], first=0.5)",
        "new[worse] = new[worse]",
        _BILINEAR + " tests/conformance/test_monotone.py",
    ),
    Mutation(
        "the objective forgets the penalty of the loadings",
        "models/_bilinear/alternating.py",
        "return likelihood - stats.score_penalty - penalty",
        "return likelihood - stats.score_penalty",
        _BILINEAR,
    ),
    Mutation(
        "conjugate directions forget the last one",
        "solvers/conjugate.py",
        "direction = scaled + _quotient(size, last)[:, None] * direction",
        "direction = scaled",
        _CONJUGATE,
    ),
    Mutation(
        "products of columns without the weights of the rows",
        "models/_bilinear/conjugate.py",
        "weighted = design * low.rows.weights.astype(design.dtype)[:, None]",
        "weighted = design",
        _CONJUGATE,
    ),
    Mutation(
        "scores are preconditioned as if fixed features explained nothing of them",
        "models/_bilinear/conjugate.py",
        "found[:, k:] -= loadings @ regression.T",
        "found[:, k:] -= 0.0",
        _CONJUGATE,
    ),
    Mutation(
        "products of rows without the curvature",
        "models/_bilinear/conjugate.py",
        "            image *= terms\n            found +=",
        "            found +=",
        _CONJUGATE,
    ),
    Mutation(
        "the slope of the columns forgets the ridge",
        "models/_bilinear/conjugate.py",
        "slope[:, :k] -= ridge * loadings",
        "slope[:, :k] -= 0.0",
        _CONJUGATE,
    ),
    Mutation(
        "zeros have no residual",
        "models/_bilinear/start.py",
        "image = rest @ basis - np.outer(by_row, by_column @ basis)",
        "image = rest @ basis",
        "tests/models/test_bilinear_start.py",
    ),
    Mutation(
        "squared residuals of zeros count twice",
        "models/_bilinear/start.py",
        "(residual**2 - root**2)",
        "residual**2",
        "tests/models/test_bilinear_start.py",
    ),
    Mutation(
        "zeros are taken as small where they are not",
        "models/_bilinear/start.py",
        "by_row.max() * by_column.max() > _CLIP",
        "by_row.max() * by_column.max() > 1e9",
        "tests/models/test_bilinear_start.py",
    ),
    Mutation(
        "the linear part of a component stays when it is left out",
        "models/_bilinear/evaluator.py",
        "total[1:] -= linear[:k]",
        "total[1:] -= 0.0",
        "tests/models/test_bilinear_start.py",
    ),
    Mutation(
        "variances of predictors are differences of squares of intercepts",
        "models/sepca/_posterior.py",
        "around[:, self.n_components :] = 0.0",
        "around[:, self.n_components :] *= 1.0",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "leaps go back",
        "models/sepca/_leaps.py",
        "step = last.way - sum(",
        "step = last.way + sum(",
        "tests/models/test_sepca_leaps.py",
    ),
    Mutation(
        "earlier sweeps stay in their own coordinates",
        "models/sepca/_leaps.py",
        "Step(self.start @ mapping.T, self.way @ mapping.T)",
        "Step(self.start, self.way)",
        "tests/models/test_sepca_leaps.py",
    ),
    Mutation(
        "columns that overshot go on as fast",
        "models/sepca/_problem.py",
        "np.where(lost > 0.0, 0.5, 1.0) * proposal.pace",
        "np.ones_like(lost) * proposal.pace",
        "tests/models/test_sepca_leaps.py",
    ),
    Mutation(
        "losses of columns are tolerated whatever the others gain",
        "models/sepca/_problem.py",
        "if not lost.sum() <= gain:",
        "if not gain <= np.inf:",
        "tests/models/test_sepca_leaps.py",
    ),
    Mutation(
        "loadings start as uncertain whatever an entry tells",
        "models/sepca/_start.py",
        "np.minimum(units, directions.noise)",
        "np.minimum(units, np.inf)",
        "tests/models/test_sepca_hard_tables.py",
    ),
    Mutation(
        "scales are looked for from a fixed number on",
        "models/sepca/_candidate.py",
        'if member.dispersion_kind == "scale":',
        'if member.dispersion_kind == "none":',
        "tests/models/test_sepca_hard_tables.py",
    ),
    Mutation(
        "own dispersions are not shrunk",
        "models/_bilinear/dispersion.py",
        "_SHRINKAGE = 10.0",
        "_SHRINKAGE = 0.0",
        _DISPERSION,
    ),
    Mutation(
        "leverages are doubled",
        "models/_bilinear/dispersion.py",
        "double = np.where(upper[0] == upper[1], 1.0, 2.0)",
        "double = np.where(upper[0] == upper[1], 2.0, 4.0)",
        _DISPERSION,
    ),
    Mutation(
        "rotations count as free parameters of the residuals",
        "models/_bilinear/dispersion.py",
        "used = k * (weight + n_features - k) + coefficients.fixed.size",
        "used = k * (weight + n_features) + coefficients.fixed.size",
        _DISPERSION + " tests/models/test_epca.py",
    ),
]

PLNPCA = [
    Mutation(
        "rotated posteriors keep their variances",
        "models/plnpca/_rotation.py",
        "Posterior.of(points).mean @ rotation, 1.0 / (1.0 + information)",
        "Posterior.of(points).mean @ rotation, 1.0 + 0.0 * information",
        _PLN,
    ),
    Mutation(
        "log factorials enter twice",
        "models/plnpca/_fit.py",
        "constant=self.visit.log_base(self.family, null.dispersion)",
        "constant=2.0 * self.visit.log_base(self.family, null.dispersion)",
        _PLN,
    ),
    Mutation(
        "second moments ignore the variances",
        "models/plnpca/_problem.py",
        "second = np.diag(stats.score_gram) - explained + stats.variance_sum",
        "second = np.diag(stats.score_gram) - explained",
        _PLN,
    ),
    Mutation(
        "entries vary with the size of loadings, not its square",
        "models/plnpca/_row_model.py",
        "posterior.variance, known.loadings[columns] ** 2)",
        "posterior.variance, np.abs(known.loadings[columns]))",
        "tests/models/test_entry_likelihood.py",
    ),
    Mutation(
        "draws are independent where the reported covariance is not",
        "models/plnpca/_row_model.py",
        "np.linalg.cholesky(self.fit.second_moment)",
        "np.eye(len(self.fit.second_moment))",
        _PLN,
    ),
]

PIECEWISE = [
    Mutation(
        "one rotation too many",
        "models/piecewise/_settings.py",
        "turned = q if n == 1 else q - 1",
        "turned = q",
        _PIECES,
    ),
    Mutation(
        "fitted breakpoints are free of charge",
        "models/piecewise/_settings.py",
        "return n_features * size - rotations + (n - 1 if settings.fit_breakpoints else 0)",
        "return n_features * size - rotations",
        _PIECES,
    ),
    Mutation(
        "truncation does not move the mean",
        "models/piecewise/_gaussian_posterior.py",
        "shift = scale * moments.mean",
        "shift = 0.0 * scale * moments.mean",
        _PIECES,
    ),
    Mutation(
        "slabs have no mass",
        "models/piecewise/_gaussian_posterior.py",
        "log_joint[:, k] = whole.log_likelihood + log_mass",
        "log_joint[:, k] = whole.log_likelihood",
        _PIECES,
    ),
    Mutation(
        "a moving hinge does not move the maps",
        "models/piecewise/_problem.py",
        "return Gradient(matrix, log_noise, stats.edge + through_maps)",
        "return Gradient(matrix, log_noise, stats.edge)",
        _PIECES,
    ),
    Mutation(
        "nodes that move keep their weights",
        "models/piecewise/_slabs.py",
        "by_mean = weight * (grows_by_mean + u * (1.0 - t_by_mean) / std)",
        "by_mean = weight * (u * (1.0 - t_by_mean) / std)",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "an end of the slab moves with the mean",
        "models/piecewise/_slabs.py",
        "free_left, free_right = left > ends[0], right < ends[1]",
        "free_left, free_right = left >= ends[0], right < ends[1]",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "the spread across is left out",
        "models/piecewise/_slabs.py",
        "if nodes.z.any():",
        "if False:",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "slopes across are those at the centre",
        "models/piecewise/_slabs.py",
        "found[5] = np.divide(found[5], on.spread",
        "found[5] = np.divide(0.0 * found[5], on.spread",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "rates keep their values at the ends of a slab",
        "models/piecewise/_slabs.py",
        "by_mean = b * slope + ends[0] - ends[1]",
        "by_mean = b * slope",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "covariates do not reach the entries",
        "models/piecewise/_terms.py",
        "added = rows.features @ pieces.coef.T",
        "added = 0.0 * rows.features @ pieces.coef.T",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "missing entries count as observed",
        "models/piecewise/_terms.py",
        "return term if self.observed is None else np.where(self.observed, term, 0.0)",
        "return term",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "dispersions go to the wrong end",
        "models/piecewise/_dispersion.py",
        "better = found > reached",
        "better = found < reached",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "scales of a mixed table are one",
        "models/piecewise/_dispersion.py",
        'is_shared = member.dispersion_kind == "shape" or len(members) == 1',
        "is_shared = True",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "pieces that hardly gain do not start from one",
        "models/piecewise/_fit.py",
        "straight.sums.log_likelihood + n_bends",
        "straight.sums.log_likelihood",
        _PIECE_FAMILIES,
    ),
    Mutation(
        "coordinates of the bound are rotated",
        "models/piecewise/_fit.py",
        "may_rotate=isinstance(self.sums, GaussianSums)",
        "may_rotate=True",
        _PIECE_FAMILIES,
    ),
]

_SEPCA = "tests/models/test_sepca.py tests/models/test_sepca_coupling.py"
_NOISE = "tests/models/test_sepca_noise.py"
_UNSEEN = "tests/models/test_sepca_unseen.py"
_WIDTHS = "tests/models/test_sepca_widths.py"
_GPCA = "tests/models/test_gpca.py"
_EPCA = "tests/models/test_epca.py tests/models/test_epca_invariance.py"
_PRIORS = "tests/priors"

SEPCA = [
    Mutation(
        "dispersions of columns cost nothing",
        "models/sepca/_noise.py",
        "0.5 * float(np.log(max(residuals.weight, 1.0)))",
        "0.0",
        _DISPERSION,
    ),
    Mutation(
        "noise of the columns' own has no prior",
        "models/sepca/_noise.py",
        "_PSEUDO_OBSERVATIONS = 6.0",
        "_PSEUDO_OBSERVATIONS = 0.0",
        _NOISE,
    ),
    Mutation(
        "what is unknown of the predictor is no noise",
        "models/sepca/_noise.py",
        "gradient * gradient / curvature + curvature * cells.variance",
        "gradient * gradient / curvature",
        _DISPERSION + " " + _NOISE,
    ),
    Mutation(
        "own sizes are not drawn to each other",
        "models/sepca/_noise.py",
        "posterior = fine + priors[best][:, None]",
        "posterior = fine + 0.0 * priors[best][:, None]",
        _NOISE,
    ),
    Mutation(
        "the flat intercept has no unit",
        "models/sepca/_candidate.py",
        "self.visit.log_base(self.family, dispersion) + self.log_fixed_prior",
        "self.visit.log_base(self.family, dispersion)",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "the prior keeps the units of the first dispersion",
        "models/sepca/_sweeps.py",
        "units = noise_units(candidate.family, dispersion)",
        "units = state.loadings.units",
        "tests/models/test_sepca_laws.py " + _DISPERSION,
    ),
    Mutation(
        "discrete columns that coincide are left out",
        "models/sepca/_redundant.py",
        "if _is_continuous(member):",
        "if True:",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "repeated rows are evidence of relations",
        "models/sepca/_combinations.py",
        "or not _has_rows(_count_distinct(session, columns), columns)",
        "",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "the column with the smallest share in a relation is left out",
        "models/sepca/_combinations.py",
        "share >= share.max() * (1.0 - _TIE)",
        "share > 0.0",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "near relations count as exact ones",
        "models/sepca/_combinations.py",
        "_NO_VARIANCE = 1e-11",
        "_NO_VARIANCE = 1e-6",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "copies forget their sign",
        "models/sepca/_redundant.py",
        "slope = sign * float(",
        "slope = float(",
        "tests/models/test_sepca_laws.py",
    ),
    Mutation(
        "the edge of noise is that of the mean",
        "models/sepca/_spectrum.py",
        "_TRACY_WIDOM = 2.024",
        "_TRACY_WIDOM = -1.2",
        _NOISE,
    ),
    Mutation(
        "the divergence of the loadings forgets their relevance",
        "models/sepca/_posterior.py",
        "@ self.alpha - np.log(self.alpha).sum() + k * np.log(unit[:, 0])",
        "@ self.alpha + k * np.log(unit[:, 0])",
        _SEPCA,
    ),
    Mutation(
        "scores have no divergence in their spread",
        "models/sepca/_posterior.py",
        "+ self.trace + self.factor.log_determinant() - mean.shape[1]",
        "+ self.trace - mean.shape[1]",
        _SEPCA,
    ),
    Mutation(
        "coupling of scores and loadings has the wrong sign",
        "models/sepca/_coupling.py",
        "0.5 * float(np.linalg.slogdet(N + Y)[1] - logs)",
        "0.5 * float(logs - np.linalg.slogdet(N + Y)[1])",
        _SEPCA,
    ),
    Mutation(
        "rotations of equal components are held by the priors",
        "models/sepca/_coupling.py",
        "K[first * m + second, second * m + first] = slope[first]",
        "K[first * m + second, first * m + second] = slope[first]",
        _SEPCA,
    ),
    Mutation(
        "directions of residuals are tried only where nobody can miss them",
        "models/sepca/_start.py",
        "_NOISE = 1.75",
        "_NOISE = 2.9",
        "tests/models/test_sepca_hard_tables.py",
    ),
    Mutation(
        "scores of a weak component are not integrated out",
        "models/sepca/_unseen.py",
        "0.5 * rows * np.log1p(-2.0 * theta * noise) + directions",
        "directions",
        _UNSEEN,
    ),
    Mutation(
        "weak components beside a fit are looked for in its own directions",
        "models/sepca/_spectrum.py",
        "left = cross - taken - taken.T + basis @ (basis.T @ taken.T)",
        "left = cross",
        _UNSEEN,
    ),
    Mutation(
        "weak components beside a fit may win",
        "models/sepca/_unseen.py",
        "found.append(min(gain, 0.0))",
        "found.append(gain)",
        _UNSEEN,
    ),
    Mutation(
        "components of near sizes are as sure as others",
        "models/sepca/_widths.py",
        "(size / (size - size[:, None])) ** 2",
        "np.full((k, k), 0.25)",
        _NOISE,
    ),
    Mutation(
        "what is unknown of the scores tells of the loadings",
        "models/sepca/_widths.py",
        "found[:, :, :k] -= curvature",
        "found[:, :, :k] -= 0.0 * curvature",
        _WIDTHS,
    ),
    Mutation(
        "terms that are left out of Tweedie's series count for nothing",
        "families/tweedie.py",
        "np.log(stride * total)",
        "np.log(total)",
        "tests/families/test_profiled.py",
    ),
    Mutation(
        "nothing is said of the dimension above those that were compared",
        "models/sepca/_fit.py",
        "min(max(evidence_by_rank, default=-2) + 1, most) + 1",
        "max(evidence_by_rank, default=-2) + 1",
        _NOISE,
    ),
    Mutation(
        "relevances cost nothing",
        "models/sepca/_sweeps.py",
        "coupling=gain - cost",
        "coupling=gain",
        "tests/models/test_sepca_laws.py " + _SEPCA,
    ),
    Mutation(
        "loadings of predicted entries are taken as known",
        "models/sepca/_row_model.py",
        'np.einsum("ea,eab,eb->e", z, C, z)\n',
        "0.0\n",
        "tests/models/test_entry_likelihood.py",
    ),
    Mutation(
        "the path of weights ends at the scaled one",
        "models/sepca/_weight.py",
        "np.geomspace(least, 1.0, _PATH_LENGTH)",
        "np.geomspace(least, 2.0 * least, _PATH_LENGTH)",
        "tests/models/test_sepca_weight.py",
    ),
    Mutation(
        "evidence mixes two weights of the data",
        "models/sepca/_mode.py",
        "self._column_precision(state, 1.0).log_determinant()",
        "self._column_precision(state, self.nu).log_determinant()",
        "tests/models/test_sepca_weight.py",
    ),
    Mutation(
        "the scale of a component forgets the penalty",
        "models/sepca/_loading_prior.py",
        "return held + self.nu * self.penalty(trial)",
        "return held",
        "tests/models/test_sepca_penalty.py",
    ),
    Mutation(
        "the penalty is not in units of the scores",
        "models/sepca/_loading_prior.py",
        "settings.strength, 1.0 / self.unit, ridge=ridge)",
        "settings.strength, 1.0, ridge=ridge)",
        "tests/models/test_sepca_penalty.py",
    ),
    Mutation(
        "a survival curve keeps the component it asks about",
        "selection/survival.py",
        "rows, eta - own + size * direction)",
        "rows, eta + size * direction)",
        "tests/selection/test_survival.py",
    ),
]

_BEPCA = "tests/models/test_bepca.py"

BEPCA = [
    Mutation(
        "the Jacobian of the scores' variances is forgotten",
        "models/bepca/_density.py",
        "0.5 * (squares - len(scores)) - a + b / variance",
        "0.5 * (squares - len(scores)) - a - 1.0 + b / variance",
        _BEPCA,
    ),
    Mutation(
        "pseudo-observations are counted once",
        "models/bepca/_fit.py",
        "own.times(prior.weight)",
        "own",
        _BEPCA,
    ),
    Mutation(
        "scores are drawn about zero",
        "models/bepca/_gibbs.py",
        " + (mean / variance)[..., None, :]",
        "",
        _BEPCA,
    ),
    Mutation(
        "the variance of scores forgets half of the rows",
        "models/bepca/_gibbs.py",
        "rng.standard_gamma(prior.shape + 0.5 * n, squares.shape)",
        "rng.standard_gamma(prior.shape + 0.25 * n, squares.shape)",
        _BEPCA,
    ),
    Mutation(
        "the BIC does not count scores",
        "models/bepca/_report.py",
        "0.5 * q * (n + d - q) * np.log(n)",
        "0.5 * q * (d - q) * np.log(n)",
        _BEPCA,
    ),
    Mutation(
        "negative binomial counts are augmented without their size",
        "models/_bayes/augment.py",
        "0.5 * (x - size), np.log(dispersion)",
        "0.5 * (x - size), np.zeros(())",
        _BEPCA,
    ),
    Mutation(
        "points of a row are not weighted to its posterior",
        "models/_bayes/normal_rows.py",
        "log_weight -= np.log(np.einsum",
        "log_weight += np.log(np.einsum",
        _BEPCA,
    ),
    Mutation(
        "answers are those of a single draw",
        "models/_bayes/rows.py",
        "N_AVERAGED = 64",
        "N_AVERAGED = 1",
        _BEPCA,
    ),
    Mutation(
        "entries are averaged over points as if all were as likely",
        "models/_bayes/rows.py",
        "b=cloud.weight[:, index]",
        "b=1.0 / len(cloud.weight)",
        _BEPCA,
    ),
]

_ISFA = "tests/models/test_isfa.py"

ISFA = [
    Mutation(
        "the odds of a mask forget the width of the value",
        "models/isfa/_sampler.py",
        "0.5 * slope**2 / precision - 0.5 * np.log(precision * variance)",
        "0.5 * slope**2 / precision",
        _ISFA,
    ),
    Mutation(
        "new factors are proposed more often than told",
        "models/isfa/_sampler.py",
        "proposed = (1.0 - _BOOST) * np.exp(log_prior) + _BOOST * (number == 1)",
        "proposed = np.exp(log_prior)",
        _ISFA,
    ),
    Mutation(
        "a row counts itself among the others",
        "models/isfa/_sampler.py",
        "rest = count - new[row]",
        "rest = min(count, n - 1)",
        _ISFA,
    ),
    Mutation(
        "proposals of loadings are accepted by the target alone",
        "models/isfa/_sampler.py",
        'found += 0.5 * np.einsum("da,dab,db->d", moved, precision, moved)',
        "found += 0.0 * moved.sum(axis=1)",
        _ISFA,
    ),
    Mutation(
        "points of a row do not pay for their masks",
        "models/isfa/_row_model.py",
        "log_weight += _log_mask(used, odds) - _log_mask(used, near_odds)",
        "log_weight += 0.0",
        _ISFA,
    ),
]

EPCA = [
    Mutation(
        "white scores are scored under the prior of plain ones",
        "models/_bilinear/canonical.py",
        "gauge.inverse * sizes[:, None])",
        "gauge.inverse)",
        "tests/models/test_epca_share.py",
    ),
    Mutation(
        "a share takes one component too many",
        "models/epca/_share.py",
        "while high - low > 1:",
        "while high - low > 2:",
        "tests/models/test_epca_share.py",
    ),
    Mutation(
        "cos2 counts what is not explained",
        "interpretation.py",
        "lost = np.maximum(without - full, 0.0)",
        "lost = np.maximum(without, 0.0)",
        "tests/test_interpretation.py",
    ),
    Mutation(
        "cos2 is compared with the model's own intercept",
        "interpretation.py",
        "entries.deviance(entries.base + shift)",
        "entries.deviance(entries.base)",
        "tests/test_interpretation.py",
    ),
    Mutation(
        "the loadings have no ridge",
        "models/epca/_fit.py",
        "precision = np.repeat([weight, 0.0], [self.settings.n_components, n_fixed])",
        "precision = np.repeat([0.0, 0.0], [self.settings.n_components, n_fixed])",
        _EPCA,
    ),
    Mutation(
        "weights of entries do not reach the normal equations of projections",
        "models/gpca/_projection.py",
        "rows.weigh(np.ones_like(deviation))",
        "rows.only_observed(np.ones_like(deviation))",
        _ENTRY_WEIGHT,
    ),
    Mutation(
        "weights of entries do not reach the residuals of PPCA",
        "models/_gaussian/posterior.py",
        "residual if entry is None else residual * entry",
        "residual",
        _ENTRY_WEIGHT,
    ),
    Mutation(
        "fit_transform forgets weights of entries",
        "models/_base.py",
        'names = ("offset", "covariates", "entry_weight")',
        'names = ("offset", "covariates")',
        _ENTRY_WEIGHT,
    ),
    Mutation(
        "slopes of predictions are not cautious",
        "models/_calibration.py",
        "products / squares - _CAUTION * error",
        "products / squares",
        _CALIBRATION,
    ),
    Mutation(
        "columns have no slopes of their own",
        "models/_calibration.py",
        "products, squares = products + products.mean(), squares + squares.mean()",
        "products, squares = products * 0 + products.mean(), squares * 0 + squares.mean()",
        _CALIBRATION,
    ),
    Mutation(
        "hidden entries depend on the order of columns",
        "models/_calibration.py",
        "mix(np.add.outer(of_rows, of_columns))",
        "mix(np.add.outer(of_rows, np.arange(len(of_columns), dtype=np.uint64)))",
        _CALIBRATION,
    ),
    Mutation(
        "imputed entries are not drawn to the mean",
        "models/_row_model.py",
        "self.mean + self.slope * (inside - self.mean)",
        "inside",
        _CALIBRATION,
    ),
    Mutation(
        "what is beyond the bulk of a column has no slope of its own",
        "models/_row_model.py",
        "self.far * (cut - inside)",
        "self.slope * (cut - inside)",
        _CALIBRATION,
    ),
    Mutation(
        "a fold hides all of a row",
        "models/_calibration.py",
        "    hidden[~(seen & ~hidden).any(axis=1)] = False\n",
        "",
        _CALIBRATION,
    ),
    Mutation(
        "the ridge of noise ignores missing entries",
        "models/epca/_ridge.py",
        "np.sqrt(weight.mean()) + np.sqrt(in_rows)",
        "np.sqrt(weight.max()) + np.sqrt(len(weight))",
        "tests/models/test_epca_ridge.py",
    ),
    Mutation(
        "the ridge of noise ignores the information",
        "models/epca/_ridge.py",
        "most * np.sqrt(_mean_information(fitter, null))",
        "most",
        "tests/models/test_epca_ridge.py",
    ),
    Mutation(
        "components that the ridge takes away stay away",
        "models/epca/_fit.py",
        "if ridge <= LEAST_RIDGE or not found.has_lost or",
        "if ridge >= LEAST_RIDGE or not found.has_lost or",
        "tests/models/test_epca_ridge.py",
    ),
    Mutation(
        "a firm ridge meets dispersions of the model without components",
        "models/epca/_fit.py",
        "        stand = self._settled(stand, null.dispersion)\n        stand = stand._replace(",
        "        stand = stand._replace(",
        "tests/models/test_epca_ridge.py",
    ),
    Mutation(
        "the ridge of rare counts is not held",
        "models/epca/_ridge.py",
        "_mean_information(fitter, null)), least, LEAST_RIDGE)",
        "_mean_information(fitter, null)), LEAST_RIDGE)",
        "tests/models/test_epca_ridge.py",
    ),
    Mutation(
        "units of the columns do not reach the penalty",
        "models/epca/_fit.py",
        "units = noise_units(self.family, dispersion)",
        "units = noise_units(self.family, np.ones_like(dispersion))",
        _EPCA + " tests/models/test_mixed_tables.py",
    ),
    Mutation(
        "the objective lacks its constants",
        "models/epca/_fit.py",
        "constant=self.visit.log_base(self.family, dispersion),",
        "constant=0.0,",
        _EPCA,
    ),
    Mutation(
        "dispersions are estimated once",
        "models/epca/_fit.py",
        "for _ in range(_MAX_ROUNDS if self.open_columns()",
        "for _ in range(1 if self.open_columns()",
        _EPCA + " tests/models/test_bilinear_dispersion.py",
    ),
]

_HIDDEN = "tests/conformance/test_hidden_cells.py"

_ENTRY = "tests/models/test_entry_weight.py"
_SEPCA_ENTRY = "tests/models/test_sepca_entry_weight.py"

IMPUTED = [
    Mutation(
        "weights of entries do not reach the terms",
        "models/_bilinear/evaluator.py",
        "return found if rows.entry is None else scaled_by(found, rows.entry[:, columns])",
        "return found",
        _ENTRY,
    ),
    Mutation(
        "expectations have no weights of entries",
        "models/sepca/_expectation.py",
        "value, gradient, curvature = weighted_terms(rows, tile, found)",
        "value, gradient, curvature = found",
        _SEPCA_ENTRY,
    ),
    Mutation(
        "bases of the grid have no weights of entries",
        "models/sepca/_candidate.py",
        "rows.weights @ weigh(rows, slice(None), term)",
        "rows.weights @ term",
        _SEPCA_ENTRY,
    ),
    Mutation(
        "the noise is judged without weights of entries",
        "models/sepca/_noise.py",
        "rows.weights @ weigh(rows, cells.columns, term)",
        "rows.weights @ observed_only(rows, cells.columns, term)",
        _SEPCA_ENTRY,
    ),
    Mutation(
        "draws have no weights of entries",
        "models/_bayes/points.py",
        "entry=_stack(entries) if entries else None",
        "entry=None",
        _SEPCA_ENTRY,
    ),
    Mutation(
        "weights of entries do not reach the products",
        "models/_opened.py",
        "product = (table.x if entry is None else table.x * entry) if is_linear else None",
        "product = table.x if is_linear else None",
        _ENTRY,
    ),
    Mutation(
        "entries of weight zero are observed",
        "engine/_interface.py",
        "x[entry == 0] = np.nan",
        "pass",
        _ENTRY,
    ),
    Mutation(
        "imputed entries have no limits",
        "models/_row_model.py",
        "cut = np.clip(expected, self.low, self.high)",
        "cut = expected",
        _HIDDEN,
    ),
    Mutation(
        "shares have limits besides their own",
        "models/_row_model.py",
        "reach = np.where(is_bounded, np.inf, ",
        "reach = np.where(is_bounded, 1.0, ",
        _HIDDEN,
    ),
    Mutation(
        "imputed entries have limits where rows have offsets",
        "models/_row_methods.py",
        'not hasattr(self, "_moments") or self._uses_offset or',
        'not hasattr(self, "_moments") or',
        _HIDDEN,
    ),
]

GPCA = [
    Mutation(
        "missing entries count as observed",
        "models/gpca/_projection.py",
        "trust = np.where(rows.observed, trust, PULL)",
        "trust = np.where(rows.observed, trust, 1.0)",
        _GPCA,
    ),
    Mutation(
        "the penalty does not enter the objective",
        "models/gpca/_problem.py",
        "return stats.value - self.saturated - self._penalty(shared.loadings)",
        "return stats.value - self.saturated",
        _GPCA,
    ),
    Mutation(
        "residuals do not turn the loadings",
        "models/gpca/_projection.py",
        "residual = found.trusted(found.deviation - linear)",
        "residual = 0.0 * found.trusted(found.deviation - linear)",
        _GPCA,
    ),
    Mutation(
        "scores of missing rows ignore the weights of entries",
        "models/gpca/_projection.py",
        "normal.solve((deviation * trust) @ U)",
        "normal.solve(deviation @ U)",
        _GPCA,
    ),
]

PRIORS = [
    Mutation(
        "scad never flattens",
        "priors/scad.py",
        "np.clip((self.flat - size) / (self.flat - knee), 0.0, 1.0)",
        "np.ones_like(size)",
        _PRIORS,
    ),
    Mutation(
        "a group is penalised by its squares",
        "priors/group.py",
        "self.strength * np.linalg.norm(u, axis=1)",
        "self.strength * np.linalg.norm(u, axis=1) ** 2",
        _PRIORS,
    ),
]

_SPPCA = "tests/models/test_sppca.py"

SPPCA = [
    Mutation(
        "the published algorithm has an intercept",
        "models/sppca/_estimator.py",
        "return not self._follows_paper",
        "return True",
        _SPPCA,
    ),
    Mutation(
        "the published algorithm weighs the data by half",
        "models/sppca/_estimator.py",
        'return 1.0 if self._follows_paper else "auto"',
        'return 0.5 if self._follows_paper else "auto"',
        _SPPCA,
    ),
    Mutation(
        "the published algorithm has negative binomial counts",
        "models/sppca/_estimator.py",
        'if self._follows_paper or self.dispersion == "poisson"',
        'if self.dispersion == "poisson"',
        _SPPCA,
    ),
    Mutation(
        "the published threshold cannot be changed",
        "models/sppca/_estimator.py",
        "if self._follows_paper and self.threshold is None else self.threshold",
        "if self._follows_paper else self.threshold",
        _SPPCA,
    ),
    Mutation(
        "a price moves the relevance of the sparse fit",
        "models/sepca/_fit.py",
        "state.candidate.each(state.local, change.apply)), is_held=True)",
        "state.candidate.each(state.local, change.apply)))",
        _SPPCA,
    ),
    Mutation(
        "a price of sparse loadings may leave nothing",
        "models/sepca/_sparsity.py",
        "if priced.n_components_ or not model.n_components_:",
        "if True:",
        _SPPCA,
    ),
    Mutation(
        "delta of sparse loadings is fixed",
        "models/sepca/_fit.py",
        "sparsity=settings.sparsity, delta=settings.delta)",
        "sparsity=settings.sparsity)",
        _SPPCA,
    ),
]

_READING = "tests/io/test_messy.py tests/io/test_guards.py tests/io/test_hostile_files.py"

_MODEL_FILES = "tests/io/test_equal_files.py"
READING = [
    Mutation(
        "addresses stay in model files",
        "io/_archive.py",
        'node["__id__"] = places.setdefault(_identity(node), len(places))',
        "pass",
        _MODEL_FILES,
    ),
    Mutation(
        "an open quotation mark swallows a row",
        "io/_text.py",
        "if len(taken) > 1 and not _is_closed(taken, delimiter):",
        "if False:",
        _READING,
    ),
    Mutation(
        "streams: all rows at once",
        "engine/streams.py",
        "batches(max(1, _BATCH_ENTRIES // max(n_columns, 1)))",
        "batches(10**6)",
        "tests/engine/test_streams.py",
    ),
    Mutation(
        "dates: one is a category",
        "engine/labels.py",
        "return DATES if all(map(is_date, counts)) else label_text(counts)",
        "return label_text(counts)",
        _LABELS,
    ),
    Mutation(
        "chains are not halved",
        "models/_bayes/agreement.py",
        "r_hat[some], size[some] = _judge(_halves(flat[..., some]))",
        "r_hat[some], size[some] = _judge(flat[..., some])",
        "tests/models/test_agreement.py",
    ),
    Mutation(
        "sums of neighbouring correlations may rise",
        "models/_bayes/agreement.py",
        "np.minimum.accumulate(pairs, axis=0)",
        "pairs",
        "tests/models/test_agreement.py",
    ),
    Mutation("groups of draws keep their time", "_arviz.py", "found.attrs.clear()", "pass", _MODEL_FILES),
    Mutation(
        "the last zero does not tell thousands",
        "io/_numbers.py",
        "return _OTHER[signs.pop()]",
        "return signs.pop()",
        _READING,
    ),
    Mutation(
        "doubtful numbers follow one sign",
        "io/_numbers.py",
        "return said.pop() if len(said) == 1 else None",
        "return said.pop()",
        _READING,
    ),
    Mutation("per cents stay", "io/_numbers.py", '"%": -2', '"%": 0', _READING),
    Mutation("codes need not be far", "io/_guards.py", "is_far and is_certain", "is_certain", _READING),
    Mutation(
        "places beyond the matrix are taken",
        "io/_native.py",
        "(places < 1) | (places > head.shape) |",
        "(places < 1) |",
        _READING,
    ),
    Mutation(
        "links to other files are followed",
        "io/_native.py",
        "if isinstance(link, h5py.ExternalLink):",
        "if link is None:",
        _READING,
    ),
]

MUTATIONS = [
    *FAMILIES,
    *LINALG,
    *ENGINE,
    *SOLVERS,
    *STREAM,
    *SELECTION,
    *ROW_SIDE,
    *GAUSSIAN,
    *GSPPCA,
    *NOISY,
    *SPCA,
    *EIGEN,
    *SSPCA,
    *KERNEL,
    *NETS,
    *BILINEAR,
    *PLNPCA,
    *PIECEWISE,
    *SEPCA,
    *BEPCA,
    *ISFA,
    *SPPCA,
    *EPCA,
    *GPCA,
    *IMPUTED,
    *PRIORS,
    *LAYOUT,
    *READING,
]
