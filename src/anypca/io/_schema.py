"""What a model in a file must look like, and how files of earlier versions become so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np

from anypca.columns import Layout
from anypca.columns.labels import Labels
from anypca.exceptions import ModelFileError
from anypca.models._base import LatentModel

_BILINEAR = "anypca.models._bilinear"
_KERNEL = "anypca.models.kernel"
_COUNTS = "anypca.models.plnpca"
#: Classes that have moved, by the name that earlier versions wrote.
MOVED: dict[str, str] = {
    f"{_BILINEAR}.coefficients:Coefficients": f"{_BILINEAR}.evaluator:Coefficients",
    f"{_BILINEAR}.fitter:BilinearSettings": f"{_BILINEAR}.start:BilinearSettings",
    f"{_KERNEL}._features:FourierMap": f"{_KERNEL}._embedding:FourierMap",
    f"{_KERNEL}._features:KernelValues": f"{_KERNEL}._embedding:KernelValues",
    f"{_KERNEL}._features:LandmarkMap": f"{_KERNEL}._embedding:LandmarkMap",
    f"{_KERNEL}._preimage:Preimage": f"{_KERNEL}._row_model:Preimage",
    f"{_COUNTS}._evaluator:Posterior": f"{_COUNTS}._problem:Posterior",
    f"{_COUNTS}._path:RankPath": f"{_COUNTS}._fit:RankPath",
    "anypca.models.autoencoder._table:Scaling": "anypca.models.autoencoder._problem:Scaling",
    "anypca.models.vae._rows:Inputs": "anypca.models.vae._model:Inputs",
    "anypca.solvers._acceleration:QuasiNewton": "anypca.solvers.bfgs:QuasiNewton",
    "anypca.solvers._result:Result": "anypca.solvers._loop:Result",
    "anypca.solvers._result:Status": "anypca.solvers._loop:Status",
}
State = dict[str, Any]

#: For a class, by its present name, what makes the state of an earlier version the present one. A field that was added
#: with a default needs none.
MIGRATIONS: dict[str, Callable[[State], State]] = {}

_LATER = "It was made by another version of anypca or by another program. Fit the model again."
#: Arrays by their shape: k components, p columns; what else a fitted model holds has a shape of its own.
_SHAPES = {
    "components_": "kp",
    "components_std_": "kp",
    "intercept_": "p",
    "mean_": "p",
    "scale_": "p",
    "dispersion_": "p",
    "explained_variance_": "k",
    "explained_variance_ratio_": "k",
    "explained_deviance_ratio_": "k",
    "alpha_": "k",
}


def complete_state(cls: type[Any], name: str, state: State) -> State:
    """The attributes of an object of a file, of the present version and complete.

    Parameters
    ----------
    cls : type
    name : str
        Its name in the file.
    state : dict

    Returns
    -------
    state : dict

    Raises
    ------
    ModelFileError
        If attributes are lacking that have no default, or there are some that the class does not have.
    """
    state = MIGRATIONS.get(name, dict)(state)
    if not is_dataclass(cls):
        return state
    known = {part.name: part for part in fields(cls)}
    needed = [key for key, part in known.items() if part.default is part.default_factory is MISSING]
    lacking = [key for key in needed if key not in state]
    strange = [key for key in state if key not in known and not _is_learned(cls, key)]
    if lacking or strange:
        what = f"lacks {', '.join(lacking)}" if lacking else f"has {', '.join(strange)} besides"
        raise ModelFileError(f"{cls.__name__} in the model file {what}. {_LATER}")
    # An estimator that is a configuration of another has its own parameters only.
    own = cls._get_param_names() if issubclass(cls, LatentModel) else known
    defaults = {key: _default(known[key]) for key in own if key in known and key not in state}
    return {**defaults, **state}


def check_model(model: Any) -> None:
    """Refuse a model whose parameters or fitted arrays are not what they must be.

    Parameters
    ----------
    model : LatentModel
        As read from a file.

    Raises
    ------
    ModelFileError
        If a parameter is not allowed, an array has another type or shape or is not finite, or an attribute is lacking.
    """
    if "n_features_in_" not in vars(model):
        return  # parameters are checked by fit
    try:
        model._validate_params()
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"a parameter in the model file is not allowed: {error}") from error
    sizes = {"p": _n_reported(model), "k": _size(model, "n_components_", 0)}
    for name, letters in _SHAPES.items():
        if vars(model).get(name) is not None:
            _check_array(name, vars(model)[name], tuple(sizes[letter] for letter in letters))
    try:
        model._row_model()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{type(model).__name__} in the model file is not complete: {error}. {_LATER}"
        ) from error


def _n_reported(model: Any) -> int:
    """The number of columns that arrays are reported for; a model of an earlier version took columns as they are."""
    n_features = _size(model, "n_features_in_", 1)
    layout = vars(model).setdefault("layout_", Layout(n_features))
    if not isinstance(layout, Layout) or layout.n_features != n_features:
        raise ModelFileError(f"layout_ in the model file is not that of {n_features} columns. {_LATER}")
    for column, labels in layout.labels:
        _check_labels(column, labels, n_features)
    return n_features if layout.is_one_to_one else layout.n_columns


def _check_labels(column: Any, labels: Any, n_features: int) -> None:
    """Refuse what are no labels of a column."""
    is_column = isinstance(column, int) and 0 <= column < n_features
    if not is_column or not isinstance(labels, Labels) or not isinstance(labels.levels, tuple):
        raise ModelFileError(f"the labels of column {column!r} in the model file are none. {_LATER}")
    if not all(isinstance(level, str | bool | int | float) for level in labels.levels):
        raise ModelFileError(
            f"the labels of column {column} in the model file must be words or numbers. {_LATER}"
        )


def _check_array(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if isinstance(value, float):
        value = np.asarray(value)  # one for all columns
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        raise ModelFileError(
            f"{name} in the model file is no array of real numbers but {type(value).__name__}."
        )
    if value.shape != shape and not (value.ndim == 0 and len(shape) == 1):
        raise ModelFileError(f"{name} in the model file has the shape {value.shape}; expected {shape}.")
    if not np.isfinite(value).all():
        raise ModelFileError(f"{name} in the model file has values that are not finite.")


def _size(model: Any, name: str, least: int) -> int:
    value = vars(model).get(name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ModelFileError(
            f"{name} in the model file must be a whole number of {least} or more; it is {value!r}."
        )
    return int(value)


def _is_learned(cls: type[Any], key: str) -> bool:
    """Whether an estimator may have such an attribute besides its parameters."""
    if not issubclass(cls, LatentModel):
        return False
    return key in cls._get_param_names() or (
        key.isidentifier() and (key.endswith("_") or key.startswith("_"))
    )


def _default(part: Field[Any]) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def present_name(name: str, types: Mapping[str, type[Any]]) -> str:
    """Where a class of a file is today.

    Parameters
    ----------
    name : str
        ``"module:name"`` as written.
    types : mapping of str to type
        The classes of today.

    Returns
    -------
    name : str
    """
    return name if name in types else MOVED.get(name, name)
