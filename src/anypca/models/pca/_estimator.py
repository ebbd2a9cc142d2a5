"""PCA for tables of any columns, with the parameters that a beginner needs."""

from __future__ import annotations

from typing import Any

from anypca.models.sepca import SePCA


class PCA(SePCA):
    """PCA for tables of any columns: numbers, counts, ratings, yes/no answers, text, gaps.

    `SePCA` with its defaults. Each column gets a likelihood that fits its values, missing cells are part of the model,
    and the number of components is chosen by evidence.

    Parameters
    ----------
    n_components : {"auto"}, int or float, default="auto"
        ``"auto"``: chosen by evidence. An int: exactly so many. A number between 0 and 1: the fewest components that
        explain this share of the deviance that the components chosen by evidence explain.
    family : str, Family, list or dict, default="auto"
        Likelihood of the columns, as in `EPCA`; for example ``family={"age": "poisson"}``.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    random_state : int, RandomState instance or None, default=0
        Seed of the start.
    verbose : int, default=0
        Log each iteration to the logger ``anypca``.

    Attributes
    ----------
    n_components_, components_, components_std_, intercept_, dispersion_, evidence_ : various
        As in `SePCA`, with all others.

    See Also
    --------
    SePCA : all parameters of the model, with references.
    Imputer : a transformer that fills gaps.

    Examples
    --------
    >>> from anypca import PCA
    >>> from anypca.datasets import load_penguins
    >>> penguins = load_penguins().to_frame()
    >>> model = PCA(n_components=2).fit(penguins)
    >>> model.transform(penguins).shape
    (344, 2)
    """

    def __init__(
        self,
        n_components: str | float = "auto",
        *,
        family: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
