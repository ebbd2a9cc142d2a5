"""PCA of the counts of an AnnData object, and new cells in the space of a reference."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Bools, Floats
from anypca._words import listed
from anypca.families import NegativeBinomial, Poisson, ScaledPoisson
from anypca.models import EPCA, SePCA
from anypca.models._description import describe, find_attribute, project_rows
from anypca.scverse._axes import Axes
from anypca.scverse._tables import CellTable, Genes, choose_matrix, open_table

logger = logging.getLogger("anypca")

#: Families whose predictor is the logarithm of a rate: by name, with what ``"auto"`` makes of counts, and as objects.
_COUNTS = ("poisson", "negative_binomial", "scaled_poisson", "auto")
_RATES = Poisson | NegativeBinomial | ScaledPoisson
_DEFAULT_MASK = "highly_variable"


def pca(
    adata: Any,
    *,
    layer: str | None = "counts",
    family: Any = "poisson",
    size_factors: Any = None,
    n_comps: int | None = None,
    mask_var: Any = _DEFAULT_MASK,
    key_added: str | None = None,
    copy: bool = False,
    model: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    **parameters: Any,
) -> Any:
    """PCA of counts without normalising or taking logarithms, written where scanpy's is.

    Parameters
    ----------
    adata : AnnData of shape (n_obs, n_vars)
        In memory or backed. A backed X is read once, a thousand cells at a time; only the chosen genes are copied, to a
        temporary file.
    layer : str or None, default="counts"
        Where the counts are; None for X.
    family : str or Family, default="poisson"
        As in `SePCA`; ``"negative_binomial"`` for over-dispersed counts.
    size_factors : None, str, array-like of shape (n_obs,) or False, default=None
        Expected counts are proportional to them: None takes the totals of the cells over all genes (for families of
        counts), a str a column of obs, False nothing.
    n_comps : int or None, default=None
        Number of components (`EPCA`); None lets `SePCA` choose it.
    mask_var : str, array-like of bool of shape (n_vars,) or None, default="highly_variable"
        Genes to use: a column of var, or a mask. Without a column ``"highly_variable"``, and for None, all genes.
    key_added : str or None, default=None
        Where the results go, see below.
    copy : bool, default=False
        Write to a copy and return it.
    model : estimator or None, default=None
        Fit this one, in place, instead of `SePCA` or `EPCA`; it has its own family and number of components. Keep it
        for `project` and for `anypca.save`.
    random_state : int, RandomState instance or None, default=0
        Seed, or generator, of the draws.
    n_jobs : int or None, default=None
        Threads; as in the estimator.
    **parameters : dict
        Further parameters of `SePCA` or `EPCA`.

    Returns
    -------
    adata : AnnData or None
        With ``copy=True`` the copy.

    Raises
    ------
    ValueError
        If the layer or a named column is missing, or sizes do not fit; the message says what there is.

    See Also
    --------
    project : new cells.

    Notes
    -----
    Written, with PCs and X_pca both replaced by ``key_added`` when it is given, as scanpy does:

    - ``obsm["X_pca"]``: scores. Scores of `SePCA`, `EPCA` and `PLNPCA` are rotated and scaled: squared distances
      approximate (to second order) deviances between cells of average size, so that genes with many counts weigh more.
      Scores of other models, and scores of sparse loadings, are returned unchanged.
    - ``obsm["X_pca_std"]``: their posterior standard deviations, if the model has them.
    - ``varm["PCs"]``: loadings, zero for genes that were not used: ``X_pca @ PCs.T`` are log rates around the
      intercepts; ``varm["PCs_std"]``: their standard deviations.
    - ``uns["pca"]``: ``variance`` of the scores, ``variance_ratio`` (share of the deviance that each component
      explains), and ``params``.

    Examples
    --------
    >>> import anndata
    >>> from anypca.datasets import make_low_rank_counts
    >>> from anypca.scverse import pca
    >>> counts = make_low_rank_counts(100, 30, 2, typical_mean=5, random_state=0).X
    >>> adata = anndata.AnnData(counts, layers={"counts": counts})
    >>> pca(adata, size_factors=False)
    >>> adata.obsm["X_pca"].shape
    (100, 2)
    """
    if copy and adata.isbacked:
        raise ValueError("copy=True needs the object in memory: use copy=False, or adata.to_memory() first.")
    adata = adata.copy() if copy else adata
    mask, mask_name = _find_mask(adata, mask_var)
    common = {"family": family, "random_state": random_state, "n_jobs": n_jobs} | parameters
    chosen = SePCA(**common) if n_comps is None else EPCA(n_comps, **common)
    estimator = chosen if model is None else model
    if model is not None and (n_comps is not None or parameters):
        raise ValueError(
            "n_comps and parameters of the model belong to the model: give them to it, not to pca."
        )
    names = _gene_names(adata)[mask]
    with open_table(choose_matrix(adata, layer), Genes.chosen(np.flatnonzero(mask))) as table:
        offset = find_offset(adata, table, size_factors, wanted=_takes_offset(estimator))
        estimator.fit(table.X, **({} if offset is None else {"offset": offset}))
        # The model is fitted without gene names: store them in a separate attribute.
        estimator.var_names_ = names
        estimator.mean_offset_ = 0.0 if offset is None else float(offset.mean())
        scores, std = score_cells(estimator, table, offset)
    params = {"layer": layer, "mask_var": mask_name, "model": type(estimator).__name__}
    _write(adata, key_added, mask, scores, std, estimator, params | {"n_comps": scores.shape[1]})
    return adata if copy else None


def score_cells(model: Any, table: CellTable, offset: Floats | None) -> tuple[Floats, Floats | None]:
    """Scores on the axes of the Fisher information, and their standard deviations where known, (n_obs, k) each."""
    axes = Axes.of(model)
    scores, std = project_rows(model, table.X, offset=offset)
    return axes.turn_scores(scores), None if std is None else axes.turn_deviations(std)


def find_offset(adata: Any, table: CellTable, size_factors: Any, *, wanted: bool) -> Floats | None:
    """Logarithms of the size factors (n_obs,); None where the model takes no offset."""
    if size_factors is False or (size_factors is None and not wanted):
        return None
    if size_factors is None:
        factors, what = table.totals, "cell {} has no counts. Remove empty cells: adata[adata.X.sum(1) > 0]"
    elif isinstance(size_factors, str):
        if size_factors not in adata.obs:
            raise ValueError(f"adata.obs has no column {size_factors!r}; it has {list(adata.obs)}.")
        factors, what = adata.obs[size_factors], f"adata.obs[{size_factors!r}] of cell {{}} is not above 0"
    else:
        factors, what = size_factors, "size_factors[{}] is not above 0"
    values = np.asarray(factors, dtype=float)
    if values.shape != (adata.n_obs,):
        raise ValueError(
            f"size_factors must have shape ({adata.n_obs},), one for each cell; got {values.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        raise ValueError(what.format(bad[0]) + ".")
    return np.asarray(np.log(values))


def write_scores(adata: Any, key: str, scores: Floats, std: Floats | None) -> None:
    """Put the scores of all cells where scanpy looks for them."""
    adata.obsm[key] = scores
    if std is not None:
        adata.obsm[f"{key}_std"] = std


def _gene_names(adata: Any) -> Any:
    if not adata.var_names.is_unique:
        twice = adata.var_names[adata.var_names.duplicated()][0]
        raise ValueError(
            f"gene names must be unique to be found again; {twice!r} occurs twice. Call adata.var_names_make_unique()."
        )
    return adata.var_names.to_numpy(dtype=object)


def _find_mask(adata: Any, mask_var: Any) -> tuple[Bools, str | None]:
    """Which genes are used, and the name of the column that says so."""
    if isinstance(mask_var, str) and mask_var not in adata.var:
        if mask_var != _DEFAULT_MASK:
            raise ValueError(f"adata.var has no column {mask_var!r}; it has {list(adata.var)}.")
        logger.warning("adata.var has no column %r: all %d genes are used.", mask_var, adata.n_vars)
        mask_var = None
    if mask_var is None:
        return np.ones(adata.n_vars, dtype=bool), None
    mask = np.asarray(adata.var[mask_var] if isinstance(mask_var, str) else mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise ValueError(
            f"mask_var must be True or False for each of the {adata.n_vars} genes; got {mask.dtype} of shape "
            f"{mask.shape}."
        )
    if not mask.any():
        raise ValueError("mask_var leaves no gene.")
    return mask, mask_var if isinstance(mask_var, str) else None


def _takes_offset(model: Any) -> bool:
    """Whether the model's predictor is the logarithm of a rate."""
    family = find_attribute(model, "family")
    is_counts = family in _COUNTS if isinstance(family, str) else isinstance(family, _RATES)
    return describe(model).takes_offset and (is_counts or family is None)


def _write(
    adata: Any,
    key_added: str | None,
    mask: Bools,
    scores: Floats,
    std: Floats | None,
    model: Any,
    params: Any,
) -> None:
    obsm, varm, uns = ("X_pca", "PCs", "pca") if key_added is None else (key_added,) * 3
    write_scores(adata, obsm, scores, std)
    axes, found = Axes.of(model), describe(model)
    for key, values, turn in (
        (varm, found.loadings, axes.turn_loadings),
        (f"{varm}_std", found.loading_deviations, axes.turn_loading_deviations),
    ):
        if values is not None:
            loadings = np.zeros((adata.n_vars, scores.shape[1]))
            loadings[mask] = turn(values).T
            adata.varm[key] = loadings
    # h5ad files have no None.
    kept = {name: value for name, value in params.items() if value is not None}
    adata.uns[uns] = {"params": kept, "variance": scores.var(axis=0, ddof=1)}
    if len(axes.shares) == scores.shape[1]:
        adata.uns[uns]["variance_ratio"] = axes.shares


def project(
    adata: Any,
    model: Any,
    *,
    layer: str | None = "counts",
    size_factors: Any = None,
    key_added: str | None = None,
    copy: bool = False,
) -> Any:
    """Scores of new cells under a model that `pca` fitted to a reference.

    The intercepts, loadings and scales of the reference are used: a cell's scores do not depend on the other new
    cells. Genes are matched by name, in any order. Genes that are not in the model are ignored. Genes that the new
    cells lack are missing entries of the likelihood, not zeros.

    Parameters
    ----------
    adata : AnnData of shape (n_obs, n_vars)
        In memory or backed.
    model : estimator
        As given to `pca` with ``model=``, or read by `anypca.load`.
    layer : str or None, default="counts"
        Where the counts are; None for X.
    size_factors : None, str or array-like of shape (n_obs,), default=None
        As in `pca`. None takes the totals of the new cells over all of their genes; when these are not the
        reference's genes, pass comparable size factors.
    key_added : str or None, default=None
        Key of the scores in obsm; None is "X_pca".
    copy : bool, default=False
        Write to a copy and return it.

    Returns
    -------
    adata : AnnData or None
        With ``copy=True`` the copy.

    Raises
    ------
    ValueError
        If no gene of the model is there, the model cannot take missing entries that there would be, or the layer is
        missing.

    Warns
    -----
    UserWarning
        If some genes of the model are missing.

    See Also
    --------
    pca : the fit.
    """
    check_is_fitted(model)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    genes = _align(adata, model)
    with open_table(choose_matrix(adata, layer), genes) as table:
        offset = find_offset(adata, table, size_factors, wanted=describe(model).uses_offset)
        scores, std = score_cells(model, table, offset)
    write_scores(adata, "X_pca" if key_added is None else key_added, scores, std)
    return adata if copy else None


def _align(adata: Any, model: Any) -> Genes:
    """Where the model's genes are among the new ones."""
    names = vars(model).get("var_names_")
    if names is None:
        raise ValueError(
            f"this {type(model).__name__} knows no genes. Fit it with anypca.scverse.pca(adata, model=...)."
        )
    _gene_names(adata)  # raises unless they are unique
    columns = adata.var_names.get_indexer(names)
    found = np.flatnonzero(columns >= 0)
    lacking = [str(names[j]) for j in np.flatnonzero(columns < 0)]
    if not len(found):
        raise ValueError(
            f"none of the model's {len(names)} genes (such as {names[0]!r}) is in adata.var_names (such as "
            f"{adata.var_names[0]!r}). Use the same kind of gene names in both."
        )
    if lacking:
        what = f"{len(lacking)} of the model's {len(names)} genes are not in adata: {listed(lacking)}"
        if not describe(model).handles_missing:
            raise ValueError(
                f"{what}. {type(model).__name__} cannot work with missing entries: fit it to the common genes."
            )
        warnings.warn(f"{what}. They are treated as missing entries.", stacklevel=3)
    return Genes(columns[found], found, len(names))
