"""Simple Poisson PCA: SePCA for tables of counts, with the published algorithm as an option."""

from __future__ import annotations

from typing import Any, ClassVar

from anypca._compat import StrOptions
from anypca.models._context import FitContext
from anypca.models._validation import POSITIVE
from anypca.models.sepca import ModeOptions, SePCA
from anypca.priors import AdaptiveL0

#: Published threshold on alpha (M); it is five times that in the first ten rounds.
_PUBLISHED_THRESHOLD = 100.0


class SPPCA(SePCA):
    """Simple Poisson PCA: components of a table of counts, with automatic choice of their number.

    A configuration of `SePCA`. By default it has an intercept, scores of unit variance, a posterior of scores and
    loadings, and an estimated dispersion. Counts may vary more than Poisson counts (negative binomial) or less
    (`ScaledPoisson`); a Poisson model would find too many or too few components. Pass sampling efforts that differ
    between rows as an offset, ``fit(X, offset=anypca.offsets.total_counts(X))``. Totals are no default offset, because
    they may measure a factor that increases all columns.

    Parameters
    ----------
    max_components : int or None, default=None
        Initial and largest number of components; None is 20, or the maximum for the table if smaller; one less than the
        number of columns with ``method="paper"``.
    method : {"default", "paper"}, default="default"
        ``"paper"`` is the published algorithm: Poisson counts, no intercept, start from an ordinary PCA, joint modes
        of scores and loadings, and ``alpha = D / ||w||^2``. It prunes one component at a time when alpha reaches
        ``threshold``, until the objective and the number of components converge. It keeps noise components if there are
        many more rows than columns.
    threshold : float or None, default=None
        With ``method="paper"``, the published M: a component is pruned when its alpha reaches M (5 M in the first ten
        rounds, to avoid early pruning). None is 100, as in the published simulations; the published letters use 40. It
        depends on units, see `SePCA`. The default method compares dimensions by evidence and has no threshold.
    dispersion : {"auto", "feature", "poisson"}, default="auto"
        As in `SePCA`; ``"poisson"`` sets the variance equal to the mean, as ``method="paper"`` always does.
    coef_scale, max_iter, tol, n_jobs, verbose, random_state, warm_start, init
        As in `SePCA`.

    Attributes
    ----------
    n_components_, components_, components_std_, alpha_, intercept_, dispersion_, evidence_, pruning_path_ : various
        As in `SePCA`, with all others.

    See Also
    --------
    SePCA : the same for every kind of column.
    SSPPCA : with sparse loadings.

    References
    ----------
    L. Smallman, W. Underwood, A. Artemiou (2020). Simple Poisson PCA: an algorithm for (sparse) feature extraction
    with simultaneous dimension determination. Computational Statistics.

    Examples
    --------
    >>> from anypca import SPPCA
    >>> from anypca.datasets import make_low_rank_counts
    >>> SPPCA(max_components=4).fit(make_low_rank_counts(100, 10, 1, typical_mean=20, random_state=0).X).n_components_
    1
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "method": [StrOptions({"default", "paper"})],
        "threshold": [None, POSITIVE],
        "dispersion": [StrOptions({"auto", "feature", "poisson"})],
    }

    def __init__(
        self,
        max_components: int | None = None,
        *,
        method: str = "default",
        threshold: float | None = None,
        dispersion: str = "auto",
        coef_scale: float | None = 2.0,
        max_iter: int = 500,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = 0,
        warm_start: bool = False,
        init: Any = None,
    ) -> None:
        self.max_components = max_components
        self.method = method
        self.threshold = threshold
        self.dispersion = dispersion
        self.coef_scale = coef_scale
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.warm_start = warm_start
        self.init = init

    _gives_family: ClassVar[bool] = False

    # What a configuration does not offer is fixed below under the names by which SePCA asks for it, or as SePCA has it.

    @property
    def _follows_paper(self) -> bool:
        return self.method == "paper"

    @property
    def family(self) -> str:
        """Poisson, or the negative binomial whose limit it is."""
        return "poisson" if self._follows_paper or self.dispersion == "poisson" else "negative_binomial"

    @property
    def inference(self) -> str | ModeOptions:  # type: ignore[override]
        """Modes as published, with weight 1 of the data, or the variational posterior."""
        if not self._follows_paper:
            return "vb"
        threshold = _PUBLISHED_THRESHOLD if self.threshold is None else self.threshold
        return ModeOptions(nu=1.0, threshold=threshold, delta=self._zero_scale())

    @property
    def fit_intercept(self) -> bool:  # type: ignore[override]
        """Whether the model has an intercept: not as published."""
        return not self._follows_paper

    def _check_options(self) -> None:
        super()._check_options()
        if self.threshold is not None and not self._follows_paper:
            raise ValueError(
                f"threshold={self.threshold!r} has no meaning with method={self.method!r}, which compares "
                "dimensions by evidence; use method='paper', or leave it out."
            )

    def _zero_scale(self) -> float:
        return float(AdaptiveL0.delta)

    def _fixed_dispersion(self) -> float | None:
        return 1.0 if self.dispersion == "poisson" else None

    def _rank(self, session: FitContext) -> int:
        if self._follows_paper and self.max_components is None:
            return session.data.n_features - 1
        return super()._rank(session)


class SSPPCA(SPPCA):
    """Sparse simple Poisson PCA: as `SPPCA`, with loadings that are exactly zero where nothing speaks for them.

    Parameters
    ----------
    max_components : int or None, default=None
        As in `SPPCA`.
    sparsity : {"auto"} or float, default="auto"
        Penalty of a non-zero loading (the published k). ``"auto"`` uses the largest of a few penalties, including 0,
        whose fit has components left and predicts hidden entries within one standard error of the best.
    delta : float, default=1e-8
        Smooths the count of non-zeros, as published: a loading w counts as ``w^2 / (w^2 + delta)``. Use a value that is
        small compared with the squared loadings. Loadings below ``10 sqrt(delta)`` are set to 0.
    method, threshold, dispersion, coef_scale, max_iter, tol, n_jobs, verbose, random_state, warm_start, init
        As in `SPPCA`.

    Attributes
    ----------
    sparsity_ : float
        The price that was used.
    n_components_, components_, components_std_, alpha_, intercept_, dispersion_, evidence_, pruning_path_ : various
        As in `SePCA`, with all others.

    See Also
    --------
    SPPCA : without zeros in the loadings.
    SePCA : the model behind both.

    Examples
    --------
    >>> from anypca import SSPPCA
    >>> from anypca.datasets import make_sparse_counts
    >>> table = make_sparse_counts(150, 30, 1, n_nonzero=6, random_state=0).X
    >>> model = SSPPCA(max_components=3, sparsity=2.0).fit(table)
    >>> (model.components_ != 0).sum(axis=1).tolist()
    [6]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"delta": [POSITIVE]}

    def __init__(
        self,
        max_components: int | None = None,
        *,
        sparsity: str | float = "auto",
        delta: float = 1e-8,
        method: str = "default",
        threshold: float | None = None,
        dispersion: str = "auto",
        coef_scale: float | None = 2.0,
        max_iter: int = 500,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = 0,
        warm_start: bool = False,
        init: Any = None,
    ) -> None:
        self.max_components = max_components
        self.sparsity = sparsity
        self.delta = delta
        self.method = method
        self.threshold = threshold
        self.dispersion = dispersion
        self.coef_scale = coef_scale
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.warm_start = warm_start
        self.init = init

    def _zero_scale(self) -> float:
        return float(self.delta)
