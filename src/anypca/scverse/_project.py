"""New cells in the space of a reference."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca.models._description import describe
from anypca.scverse._pca import find_offset, score_cells, write_scores
from anypca.scverse._tables import Genes, choose_matrix, open_table


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

    The intercepts, loadings and scales are those of the reference: a cell's scores do not depend on the other new
    cells. Genes are found by name, in any order; genes that the model does not know are ignored, and genes that the
    new cells lack are missing entries of the likelihood, not zeros.

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
    if not adata.var_names.is_unique:
        raise ValueError("gene names must be unique. Call adata.var_names_make_unique() first.")
    columns = adata.var_names.get_indexer(names)
    found = np.flatnonzero(columns >= 0)
    lacking = [str(names[j]) for j in np.flatnonzero(columns < 0)]
    if not len(found):
        raise ValueError(
            f"none of the model's {len(names)} genes (such as {names[0]!r}) is in adata.var_names (such as "
            f"{adata.var_names[0]!r}). Use the same kind of gene names in both."
        )
    if lacking:
        _tell_missing(model, lacking, len(names))
    return Genes(columns[found], found, len(names))


def _tell_missing(model: Any, lacking: list[str], count: int) -> None:
    some = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
    what = f"{len(lacking)} of the model's {count} genes are not in adata: {some}"
    if not describe(model).handles_missing:
        raise ValueError(
            f"{what}. {type(model).__name__} cannot work with missing entries: fit it to the common genes."
        )
    warnings.warn(f"{what}. They are treated as missing entries.", stacklevel=4)
