"""Draws of samplers as ArviZ containers: InferenceData before version 1 of ArviZ, xarray trees since."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from anypca._optional import optional


def import_arviz() -> Any:
    """The module arviz, of any version.

    Raises
    ------
    ImportError
        If it is not installed; the message has the command to install it.
    """
    with optional("a model with draws of a sampler", "arviz", "mcmc"), warnings.catch_warnings():
        # Versions before 1 announce it on import.
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def make_group(
    variables: Mapping[str, Any], coords: Mapping[str, Any], dims: Mapping[str, Sequence[str]]
) -> Any:
    """One group of draws.

    Parameters
    ----------
    variables : mapping of str to ndarray of shape (chains, draws, ...)
    coords : mapping of str to array
        Labels of the dimensions.
    dims : mapping of str to sequence of str
        Names of the dimensions after chains and draws; unnamed dimensions are numbered.

    Returns
    -------
    xarray.Dataset
        Without attributes: a time stamp would make equal fits differ.
    """
    found = import_arviz().dict_to_dataset(
        dict(variables), coords=dict(coords), dims={name: list(names) for name, names in dims.items()}
    )
    found.attrs.clear()
    return found


def join_groups(groups: Mapping[str, Any]) -> Any:
    """Combine groups of draws, each an xarray.Dataset, in an ArviZ container.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The latter with ArviZ 1 and later.
    """
    arviz = import_arviz()
    if "InferenceData" in vars(arviz):  # asked otherwise, version 1 warns
        return arviz.InferenceData(**groups)
    import xarray  # comes with arviz

    return xarray.DataTree.from_dict(dict(groups))


def is_joined(value: Any) -> bool:
    """Whether a value is a result of `join_groups`, checked without imports."""
    package, name = type(value).__module__.partition(".")[0], type(value).__qualname__
    return (package, name) in (("arviz", "InferenceData"), ("xarray", "DataTree"))


def split_groups(joined: Any) -> dict[str, Any]:
    """The groups of draws, by name.

    Parameters
    ----------
    joined : arviz.InferenceData or xarray.DataTree

    Returns
    -------
    dict of str to xarray.Dataset
    """
    if hasattr(joined, "children"):
        return {name: child.to_dataset() for name, child in joined.children.items()}
    return {name: joined[name] for name in joined.groups()}
