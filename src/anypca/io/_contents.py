"""Objects as JSON with a list of plain arrays, and back.

Decoding calls no constructor and no method of the classes named in the text: an instance is created bare and its
attributes are set. Only classes of the layers that models are made of, and estimators of scikit-learn, can be named.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from anypca._arviz import import_arviz, is_joined, join_groups, split_groups
from anypca.exceptions import ModelFileError

#: Classes of these modules can be named in a model file.
_OWN = re.compile(r"anypca\.(families|columns|priors|linalg|offsets|solvers|models|selection)(\.\w+)*")
_SKLEARN = re.compile(r"sklearn(\.\w+)+")
_SCALARS = (str, bool, int, float, type(None))
_SEQUENCES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


class Encoder:
    """Turns values into JSON nodes and collects their arrays in ``arrays``."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._places: dict[int, tuple[int, Any]] = {}

    def encode(self, value: Any, path: str) -> Any:
        """A JSON node for a value; ``path`` names it in error messages."""
        cls = type(value)
        if cls in _SCALARS:
            return value
        if cls in _SEQUENCES.values():
            # The order of sets of text differs between processes.
            items = sorted(value, key=repr) if cls in (set, frozenset) else value
            return {"kind": cls.__name__, "items": self._all(items, path)}
        if cls is dict:
            return {"kind": "dict", "items": self._all(list(value.items()), path)}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, np.generic):
            return {"kind": "scalar", "array": self._array(np.asarray(value), path)}
        if isinstance(value, np.dtype):
            return {"kind": "dtype", "name": value.str}
        if isinstance(value, np.random.Generator | np.random.RandomState):
            return self._random(value, path)
        if is_joined(value):
            return {"kind": "draws", "groups": self.encode(_groups(value), path)}
        return self._object(value, path)

    def _all(self, values: Any, path: str) -> list[Any]:
        return [self.encode(item, f"{path}[{i}]") for i, item in enumerate(values)]

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        cls = type(value)
        name = f"{cls.__module__}:{cls.__qualname__}"
        if not _can_be_stored(cls):
            raise TypeError(
                f"{path} is of type {cls.__module__}.{cls.__qualname__}, which a model file cannot hold. Model files "
                "hold numbers, text, arrays, scikit-learn estimators and objects of anypca's own classes."
            )
        if isinstance(value, Enum):
            return {"kind": "enum", "type": name, "name": value.name}
        if isinstance(value, tuple):
            return {"kind": "record", "type": name, "items": self._all(value, path)}
        # Cached properties are computed again on demand.
        state = {
            key: self.encode(item, f"{path}.{key}")
            for key, item in vars(value).items()
            if not isinstance(inspect.getattr_static(cls, key, None), cached_property)
        }
        return {"kind": "object", "type": name, "state": state}

    def _array(self, array: Any, path: str) -> dict[str, Any]:
        if array.dtype.hasobject:
            return {
                "kind": "objects",
                "shape": list(array.shape),
                "items": self._all(array.ravel().tolist(), path),
            }
        # The order of the axes in memory is kept: products of matrices round differently in another order.
        axes = [int(axis) for axis in np.argsort([-abs(step) for step in array.strides], kind="stable")]
        if id(array) not in self._places:
            # The reference keeps the array alive, so that no other one gets its address.
            self._places[id(array)] = len(self.arrays), array
            self.arrays.append(np.array(array.transpose(axes), order="C"))
        return {"kind": "array", "number": self._places[id(array)][0], "axes": axes}

    def _random(self, value: Any, path: str) -> dict[str, Any]:
        is_generator = isinstance(value, np.random.Generator)
        bits = value.bit_generator if is_generator else value._bit_generator
        # A RandomState can store a second normal number outside its bit generator.
        state = bits.state if is_generator else value.get_state(legacy=False)
        kind = "generator" if is_generator else "random state"
        return {"kind": kind, "bits": type(bits).__name__, "state": self.encode(state, path)}


class Decoder:
    """Turns JSON nodes and arrays back into values."""

    def __init__(self, arrays: list[Any]) -> None:
        self._arrays = arrays
        self._turned: dict[int, Any] = {}

    def decode(self, node: Any) -> Any:
        """The value of a node."""
        if type(node) in _SCALARS:
            return node
        kind = node["kind"]
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self._all(node))
        return getattr(self, f"_{kind.replace(' ', '_')}")(node)

    def _all(self, node: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in node["items"]]

    def _dict(self, node: dict[str, Any]) -> Any:
        return dict(self._all(node))

    def _scalar(self, node: dict[str, Any]) -> Any:
        return self.decode(node["array"])[()]

    def _dtype(self, node: dict[str, Any]) -> Any:
        return np.dtype(node["name"])

    def _array(self, node: dict[str, Any]) -> Any:
        number = node["number"]
        if number not in self._turned:  # what was shared is shared again
            self._turned[number] = self._arrays[number].transpose(np.argsort(node["axes"]))
        return self._turned[number]

    def _objects(self, node: dict[str, Any]) -> Any:
        items = self._all(node)
        if len(items) != math.prod(node["shape"]):
            raise ModelFileError(f"{len(items)} items do not fill an array of shape {node['shape']}.")
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(node["shape"])

    def _generator(self, node: dict[str, Any]) -> Any:
        bits = _new_bits(node["bits"])
        bits.state = self.decode(node["state"])
        return np.random.Generator(bits)

    def _random_state(self, node: dict[str, Any]) -> Any:
        state = np.random.RandomState(_new_bits(node["bits"]))
        state.set_state(self.decode(node["state"]))
        return state

    def _draws(self, node: dict[str, Any]) -> Any:
        import_arviz()
        import xarray  # comes with arviz

        groups = self.decode(node["groups"]).items()
        return join_groups({name: xarray.Dataset(*parts) for name, parts in groups})

    def _enum(self, node: dict[str, Any]) -> Any:
        cls = _find_class(node["type"])
        if not issubclass(cls, Enum):
            raise ModelFileError(f"{node['type']!r} in the model file is no enumeration.")
        return cls[node["name"]]

    def _record(self, node: dict[str, Any]) -> Any:
        cls, items = _find_class(node["type"]), self._all(node)
        if not issubclass(cls, tuple) or len(getattr(cls, "_fields", items)) != len(items):
            raise ModelFileError(f"{node['type']!r} in the model file does not have {len(items)} items.")
        return tuple.__new__(cls, items)

    def _object(self, node: dict[str, Any]) -> Any:
        cls = _find_class(node["type"])
        if issubclass(cls, tuple | Enum):
            raise ModelFileError(f"{node['type']!r} in the model file has no attributes.")
        instance = object.__new__(cls)
        vars(instance).update({key: self.decode(value) for key, value in node["state"].items()})
        return instance


def _new_bits(name: str) -> Any:
    if name not in _BIT_GENERATORS:
        raise ModelFileError(f"{name!r} in the model file is no generator of random bits.")
    return getattr(np.random, name)()


def _can_be_stored(cls: type[Any]) -> bool:
    is_sklearn = issubclass(cls, BaseEstimator) and _SKLEARN.fullmatch(cls.__module__)
    return bool(is_sklearn or _OWN.fullmatch(cls.__module__)) and "<locals>" not in cls.__qualname__


def _find_class(name: str) -> type[Any]:
    """The class with a name such as ``"anypca.priors.l1:L1"``, if a model file may name it."""
    module, _, attribute = name.partition(":")
    found = None
    if _OWN.fullmatch(module) or _SKLEARN.fullmatch(module):
        found = getattr(import_module(module), attribute, None)
    if not isinstance(found, type) or not _can_be_stored(found) or found.__module__ != module:
        raise ModelFileError(
            f"the model file asks for {name!r}, which is no class of this version of anypca. It was made by "
            "another version or by another program; nothing of it was run."
        )
    return found


def _groups(draws: Any) -> dict[str, Any]:
    """Variables, coordinates and attributes of each group of draws."""
    return {
        name: (
            {key: (tuple(data[key].dims), data[key].values) for key in data.data_vars},
            {key: (tuple(data[key].dims), data[key].values) for key in data.coords},
            dict(data.attrs),
        )
        for name, data in split_groups(draws).items()
    }


def encode(value: Any) -> tuple[str, list[Any]]:
    """A value as JSON, and the arrays that it refers to.

    Parameters
    ----------
    value : object

    Returns
    -------
    structure : str
    arrays : list of ndarray

    Raises
    ------
    TypeError
        If a part of the value cannot be stored; the message names it.
    """
    encoder = Encoder()
    return json.dumps(encoder.encode(value, type(value).__name__), ensure_ascii=False), encoder.arrays


def decode(structure: str, arrays: list[Any]) -> Any:
    """The value that `encode` turned into JSON and arrays.

    Parameters
    ----------
    structure : str
    arrays : list of ndarray

    Returns
    -------
    object

    Raises
    ------
    ModelFileError
        If the JSON is damaged or names a class that is not allowed.
    """
    try:
        return Decoder(arrays).decode(json.loads(structure))
    except ModelFileError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError, ImportError) as error:
        raise ModelFileError(f"the model file has no valid structure: {error!r}.") from error
