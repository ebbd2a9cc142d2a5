"""Fitted models as plain values: JSON for their structure, and a list of the arrays that it refers to.

Reading back calls no constructor and no method of the classes named in the text: an instance is made bare and its
attributes are set. Only classes of this package are looked up, in a table, so that a text can name nothing else.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from anypca import models
from anypca._arviz import import_arviz, is_joined, join_groups, split_groups
from anypca.exceptions import ModelFileError
from anypca.io._schema import complete_state, present_name


def describe_groups(draws: Any) -> dict[str, Any]:
    """The groups of draws as dictionaries of dimensions, arrays and attributes.

    Parameters
    ----------
    draws : arviz.InferenceData or xarray.DataTree

    Returns
    -------
    dict
        By group: ``variables`` and ``coords`` as name to (dimensions, array), and ``attrs``.
    """
    return {
        name: {
            "variables": {key: (tuple(data[key].dims), data[key].values) for key in data.data_vars},
            "coords": {key: (tuple(data[key].dims), data[key].values) for key in data.coords},
            "attrs": dict(data.attrs),
        }
        for name, data in split_groups(draws).items()
    }


def restore_groups(groups: dict[str, Any]) -> Any:
    """Draws of what `describe_groups` returned, as the installed ArviZ has them.

    Raises
    ------
    ImportError
        If ArviZ is not installed.
    """
    import_arviz()
    import xarray  # comes with arviz

    sets = {
        name: xarray.Dataset(group["variables"], coords=group["coords"], attrs=group["attrs"])
        for name, group in groups.items()
    }
    return join_groups(sets)


#: Where the classes that a model is made of are defined.
_HOMES = (
    "anypca.families",
    "anypca.columns",
    "anypca.priors",
    "anypca.linalg",
    "anypca.offsets",
    "anypca.solvers",
    "anypca.models",
    "anypca.selection",
)
#: Plain values that JSON keeps as they are.
_SCALARS = (str, bool, int, float, type(None))
_SEQUENCES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def own_types() -> dict[str, type[Any]]:
    """The classes that may stand in a model file, by ``"module:name"``.

    Returns
    -------
    dict
        Every class that is defined in an imported module of the layers that models are made of. All models are
        imported here, and with them whatever a fitted one can hold.
    """
    for name in models.__all__:
        getattr(models, name)
    modules = [module for name, module in list(sys.modules.items()) if _is_at_home(name)]
    found = (value for module in modules for value in vars(module).values() if isinstance(value, type))
    return {_type_name(cls): cls for cls in found if _is_at_home(cls.__module__)}


def encode(value: Any) -> tuple[str, list[Any]]:
    """A value as JSON, and the arrays and foreign objects that the JSON refers to.

    Parameters
    ----------
    value : object
        Made of plain values, arrays, sparse matrices, random generators, draws of ArviZ, scikit-learn estimators, and
        instances of this package's classes.

    Returns
    -------
    structure : str
    leaves : list

    Raises
    ------
    TypeError
        If it holds anything else; the message says where.
    """
    writer = _Writer()
    structure = json.dumps(writer.encode(value, type(value).__name__), ensure_ascii=False)
    return structure, writer.leaves


def decode(structure: str, leaves: list[Any]) -> Any:
    """The value behind what `encode` returned.

    Parameters
    ----------
    structure : str
    leaves : list

    Returns
    -------
    object

    Raises
    ------
    ModelFileError
        If the text is not such a structure or names a class that is not of this package.
    """
    try:
        return _Reader(leaves).decode(json.loads(structure))
    except ModelFileError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the model file has no valid structure: {error!r}.") from error


def _is_at_home(module: str) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in _HOMES)


def _type_name(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


class _Writer:
    """Turns values into JSON and collects the leaves."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []
        self._types = own_types()
        self._numbers: dict[int, int] = {}
        # An address says which array it is only as long as the array lives.
        self._alive: list[Any] = []

    def encode(self, value: Any, path: str) -> Any:
        cls = type(value)
        if cls in _SCALARS:
            return value
        if self._types.get(_type_name(cls)) is cls:
            return self._encode_own(value, path)
        if isinstance(value, np.ndarray):
            return self._encode_array(value, path)
        if isinstance(value, np.dtype):
            return {"kind": "dtype", "name": value.str}
        if cls is dict:
            pairs = [
                [self.encode(key, f"{path} key"), self.encode(item, f"{path}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"kind": "dict", "items": pairs}
        if cls in _SEQUENCES.values():
            # Sets of text stand in another order in every process.
            items = sorted(value, key=repr) if cls in (set, frozenset) else value
            return {"kind": cls.__name__, "items": self._encode_all(items, path)}
        if is_joined(value):
            return {"kind": "inference data", "groups": self.encode(describe_groups(value), path)}
        if _is_leaf(value):
            return {"kind": "leaf", "number": self._number(value)}
        raise TypeError(
            f"{path} is of type {cls.__module__}.{cls.__qualname__}, which a model file cannot hold. Model files "
            "hold numbers, text, arrays, scikit-learn estimators and objects of anypca's own classes."
        )

    def _encode_own(self, value: Any, path: str) -> dict[str, Any]:
        name = _type_name(type(value))
        if isinstance(value, Enum):
            return {"kind": "enum", "type": name, "name": value.name}
        if isinstance(value, tuple):
            return {"kind": "record", "type": name, "items": self._encode_all(value, path)}
        # What is computed from other attributes on demand is computed again.
        state = {
            key: self.encode(item, f"{path}.{key}")
            for key, item in vars(value).items()
            if not isinstance(inspect.getattr_static(type(value), key, None), cached_property)
        }
        return {"kind": "object", "type": name, "state": state}

    def _encode_all(self, values: Any, path: str) -> list[Any]:
        return [self.encode(item, f"{path}[{i}]") for i, item in enumerate(values)]

    def _encode_array(self, array: Any, path: str) -> dict[str, Any]:
        if array.dtype.hasobject:
            items = self._encode_all(array.ravel().tolist(), path)
            return {"kind": "objects", "shape": list(array.shape), "items": items}
        # The order of the axes in memory is kept: products of matrices round differently in another order.
        axes = [int(axis) for axis in np.argsort([-abs(step) for step in array.strides], kind="stable")]
        return {"kind": "array", "number": self._number(array, axes), "axes": axes}

    def _number(self, value: Any, axes: list[int] | None = None) -> int:
        """Place of a leaf in the list; what is shared is stored once."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.leaves)
            self._alive.append(value)
            self.leaves.append(value if axes is None else np.array(value.transpose(axes), order="C"))
        return self._numbers[id(value)]


class _Reader:
    """Turns JSON and leaves back into values."""

    def __init__(self, leaves: list[Any]) -> None:
        self.leaves = leaves
        self._types = own_types()
        self._arrays: dict[int, Any] = {}
        self._kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "array": self._array,
            "dict": lambda node: {self.decode(key): self.decode(value) for key, value in node["items"]},
            "dtype": lambda node: np.dtype(node["name"]),
            "enum": self._enum,
            "inference data": lambda node: restore_groups(self.decode(node["groups"])),
            "leaf": lambda node: self.leaves[node["number"]],
            "object": self._object,
            "objects": self._objects,
            "record": self._record,
        }

    def decode(self, node: Any) -> Any:
        if type(node) in _SCALARS:
            return node
        kind = node["kind"]
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self._all(node))
        return self._kinds[kind](node)

    def _all(self, node: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in node["items"]]

    def _array(self, node: dict[str, Any]) -> Any:
        # What was shared is shared again.
        number = node["number"]
        if number not in self._arrays:
            self._arrays[number] = self.leaves[number].transpose(np.argsort(node["axes"]))
        return self._arrays[number]

    def _objects(self, node: dict[str, Any]) -> Any:
        items = self._all(node)
        if len(items) != math.prod(node["shape"]):
            raise ModelFileError(f"{len(items)} items do not fill an array of shape {node['shape']}.")
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(node["shape"])

    def _type(self, name: str) -> type[Any]:
        name = present_name(name, self._types)
        if name not in self._types:
            raise ModelFileError(
                f"the model file asks for {name!r}, which is no class of this version of anypca. It was made by "
                "another version or by another program; nothing of it was run."
            )
        return self._types[name]

    def _enum(self, node: dict[str, Any]) -> Any:
        cls = self._type(node["type"])
        if not issubclass(cls, Enum):
            raise ModelFileError(f"{node['type']!r} in the model file is no enumeration.")
        return cls[node["name"]]

    def _record(self, node: dict[str, Any]) -> Any:
        cls, items = self._type(node["type"]), self._all(node)
        # Fields that were added since have their defaults, which stand last.
        added = getattr(cls, "_fields", ())[len(items) :]
        defaults = getattr(cls, "_field_defaults", {})
        items += [defaults[name] for name in added if name in defaults]
        if not issubclass(cls, tuple) or len(getattr(cls, "_fields", items)) != len(items):
            raise ModelFileError(f"{node['type']!r} in the model file does not have {len(items)} items.")
        return tuple.__new__(cls, items)

    def _object(self, node: dict[str, Any]) -> Any:
        cls = self._type(node["type"])
        if issubclass(cls, tuple | Enum):
            raise ModelFileError(f"{node['type']!r} in the model file has no attributes.")
        instance = object.__new__(cls)
        state = {key: self.decode(value) for key, value in node["state"].items()}
        vars(instance).update(complete_state(cls, _type_name(cls), state))
        return instance


def _is_leaf(value: Any) -> bool:
    """What skops stores and reads safely by itself."""
    if isinstance(value, np.generic | np.random.Generator | np.random.RandomState):
        return True
    if isinstance(value, BaseEstimator):
        return type(value).__module__.startswith("sklearn.")
    return isinstance(value, sparse.sparray | sparse.spmatrix)
