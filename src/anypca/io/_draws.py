"""Posterior draws of ArviZ as plain values."""

from __future__ import annotations

from typing import Any

from anypca._optional import optional


def is_inference_data(value: Any) -> bool:
    """Whether a value is ArviZ InferenceData, without importing it."""
    cls = type(value)
    return cls.__module__.partition(".")[0] == "arviz" and cls.__qualname__ == "InferenceData"


def groups_of(inference_data: Any) -> dict[str, Any]:
    """The groups of draws as dictionaries of dimensions, arrays and attributes.

    Parameters
    ----------
    inference_data : arviz.InferenceData

    Returns
    -------
    dict
        By group: ``variables`` and ``coords`` as name to (dimensions, array), and ``attrs``.
    """
    groups = {}
    for name in inference_data.groups():
        data = inference_data[name]
        groups[name] = {
            "variables": {key: (tuple(data[key].dims), data[key].values) for key in data.data_vars},
            "coords": {key: (tuple(data[key].dims), data[key].values) for key in data.coords},
            "attrs": dict(data.attrs),
        }
    return groups


def join_groups(groups: dict[str, Any]) -> Any:
    """InferenceData of what `groups_of` returned.

    Raises
    ------
    ImportError
        If ArviZ is not installed.
    """
    with optional("a model with draws of a sampler", "arviz", "mcmc"):
        import arviz
        import xarray
    sets = {
        name: xarray.Dataset(group["variables"], coords=group["coords"], attrs=group["attrs"])
        for name, group in groups.items()
    }
    return arviz.InferenceData(**sets)
