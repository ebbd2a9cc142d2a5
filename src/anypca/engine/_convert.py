"""Convert arrays, frames, lists and sparse matrices to a 2-D numeric matrix with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Floats

_NUMERIC_KINDS = frozenset("biuf")
_TEXT_KINDS = frozenset("US")
_PASS_A_TABLE = "Pass a two-dimensional array, data frame or sparse matrix of numbers."
_PASS_NUMBERS = "Pass an array of numbers."


class Matrix(NamedTuple):
    """A two-dimensional numeric table and the names of its columns."""

    values: Any
    """ndarray (real dtype) or scipy sparse matrix, (n_rows, n_columns)."""
    names: tuple[str, ...] | None
    """Column names when all are strings."""


def is_from(value: Any, package: str) -> bool:
    """Whether a value's type is defined in ``package``, without importing it."""
    return type(value).__module__.partition(".")[0] == package


def describe_entry(name: str, row: int, column: int | None, names: Sequence[str] | None = None) -> str:
    """``X[3, 4] (column 'age')``: how error messages point at an entry."""
    if column is None:
        return f"{name}[{row}]"
    label = f" (column {names[column]!r})" if names is not None else ""
    return f"{name}[{row}, {column}]{label}"


def as_matrix(value: Any, name: str = "X") -> Matrix:
    """Make a numeric matrix, copying only where the type forces it.

    Parameters
    ----------
    value : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
    name : str
        What to call it in error messages.

    Returns
    -------
    Matrix
        Its ``values`` are the caller's own memory for numeric arrays, memory maps and CSR matrices.

    Raises
    ------
    TypeError
        For types that hold no table of numbers.
    ValueError
        For strings, complex numbers and anything that is not two-dimensional.
    """
    if sparse.issparse(value):  # first: a DOK matrix is a dict, too
        return Matrix(check_numeric(check_two_dimensional(value, name), name), None)
    _refuse_unusable(value, name)
    if is_from(value, "pyarrow") and hasattr(value, "to_pandas"):
        value = value.to_pandas()
    if _is_frame(value):
        return _from_frame(value, name)
    return Matrix(check_two_dimensional(as_numbers(value, name), name), None)


def as_numbers(value: Any, name: str) -> npt.NDArray[Any]:
    """An ndarray of a real dtype and any number of dimensions; ``None`` and masked entries become NaN."""
    if not sparse.issparse(value):
        _refuse_unusable(value, name)
    if sparse.issparse(value) or _is_frame(value):
        table = as_matrix(value, name).values
        return np.asarray(table.toarray() if sparse.issparse(table) else table)
    if isinstance(value, np.ma.MaskedArray):
        return np.ma.filled(value.astype(np.float64), np.nan)
    if is_from(value, "pandas"):
        return _pandas_column(value, lambda index: describe_entry(name, index[0], None))
    array = _as_array(value, name)
    if array.dtype.kind == "O" or array.dtype.kind in _TEXT_KINDS:
        return _objects_to_floats(array, lambda index: f"{name}{list(index)}")
    return np.asarray(check_numeric(array, name))


def _refuse_unusable(value: Any, name: str) -> None:
    """Types with a better remedy than what numpy would say of them."""
    remedy = None
    if value is None or isinstance(value, (str, bytes, dict, set)):
        remedy = _PASS_A_TABLE if name == "X" else _PASS_NUMBERS
    elif is_from(value, "polars") and hasattr(value, "collect"):
        remedy = "Call .collect() on it first."
    elif is_from(value, "anndata"):
        remedy = "Pass its matrix, for example adata.X or adata.layers['counts']."
    elif (is_from(value, "dask") or is_from(value, "dask_expr")) and hasattr(value, "to_dask_array"):
        remedy = "Convert it with .to_dask_array(lengths=True)."
    if remedy is not None:
        what = "a table of numbers" if name == "X" else "an array of numbers"
        raise TypeError(f"{name} is a {type(value).__name__}, which is not {what}. {remedy}")


def _as_array(value: Any, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} is not a rectangular table: {error} Give every row the same number of entries; "
            "use NaN for missing ones."
        ) from error
    if array.ndim == 0 and array.dtype.kind == "O":
        raise TypeError(
            f"{name} is a {type(value).__name__}, which is not a table of numbers. {_PASS_A_TABLE}"
        )
    if array.dtype.kind in _TEXT_KINDS and not hasattr(value, "dtype"):
        # numpy turned the numbers of a list into strings as well; objects show which entry is one
        array = np.asarray(value, dtype=object)
    return array


def check_numeric(value: Any, name: str) -> Any:
    """Return a matrix of any kind, unless its dtype holds no real numbers."""
    kind = value.dtype.kind
    if kind in _NUMERIC_KINDS:
        return value
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {value.dtype}. Pass its real and imaginary parts "
            "as separate columns."
        )
    if kind in _TEXT_KINDS:
        raise ValueError(_text_message(f"{name} has dtype {value.dtype}: its entries are strings"))
    raise TypeError(
        f"{name} has dtype {value.dtype}, which holds no real numbers. Convert it to float first."
    )


def check_two_dimensional(value: Any, name: str) -> Any:
    """Return a matrix of any kind, unless it is not two-dimensional; the wording is scikit-learn's."""
    if value.ndim == 2:
        return value
    if value.ndim > 2:
        raise ValueError(
            f"Found array with dim {value.ndim} for {name}, while dim <= 2 is required. Reshape your data to "
            "(n_samples, n_features)."
        )
    kind = "scalar" if value.ndim == 0 else "1D"
    raise ValueError(
        f"Expected 2D array, got {kind} array instead: {name} has shape {value.shape}. Reshape your data "
        "either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it "
        "contains a single sample."
    )


def _is_frame(value: Any) -> bool:
    packages = ("pandas", "polars")
    return any(is_from(value, package) for package in packages) and hasattr(value, "columns")


def _from_frame(frame: Any, name: str) -> Matrix:
    """pandas or polars: kept where all columns share a numeric numpy dtype, converted once otherwise."""
    names = _column_names(frame, name)
    if is_from(frame, "polars"):
        return Matrix(_stack(frame.get_columns(), _polars_column, name, names), names)
    dtypes = list(frame.dtypes)
    # Frames of sparse columns whose gaps are zeros stay sparse.
    if dtypes and all(getattr(dtype, "fill_value", None) == 0 for dtype in dtypes):
        return Matrix(frame.sparse.to_coo(), names)
    if all(isinstance(dtype, np.dtype) and dtype.kind in _NUMERIC_KINDS for dtype in dtypes):
        values = frame.to_numpy()
        if values.dtype.kind in _NUMERIC_KINDS:  # a mix of booleans and numbers gives objects
            return Matrix(values, names)
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    return Matrix(_stack(columns, _pandas_column, name, names), names)


def _column_names(frame: Any, name: str) -> tuple[str, ...] | None:
    """The names when all are strings, ``None`` when none is."""
    columns = list(frame.columns)
    most_common = Counter(columns).most_common(1)
    if most_common and most_common[0][1] > 1:
        raise ValueError(
            f"{name} has {most_common[0][1]} columns called {most_common[0][0]!r}; names must be unique. "
            "Rename or drop the duplicates."
        )
    # Names of several kinds are refused in scikit-learn's words.
    kinds = sorted({type(column).__qualname__ for column in columns})
    if len(kinds) > 1 and any(isinstance(column, str) for column in columns):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{kinds} as feature name / column name types. Convert them all, for example with "
            f"{name}.columns = {name}.columns.astype(str)."
        )
    return tuple(columns) if columns and all(isinstance(column, str) for column in columns) else None


Locate = Callable[[tuple[int, ...]], str]


def _stack(
    columns: Sequence[Any],
    convert: Callable[[Any, Locate], npt.NDArray[Any]],
    name: str,
    names: Sequence[str] | None,
) -> Floats:
    """Columns of any kind as one float array (n_rows, n_columns), float32 if all of them are."""
    if not columns:
        return np.empty((0, 0))
    parts = [
        convert(column, lambda index, j=j: describe_entry(name, index[0], j, names))  # type: ignore[misc]
        for j, column in enumerate(columns)
    ]
    # Work is in single precision only if every column is.
    single = all(part.dtype == np.float32 for part in parts)
    table = np.empty((len(parts[0]), len(parts)), dtype=np.float32 if single else np.float64)
    for j in range(len(parts)):
        table[:, j] = parts[j]
    return table


def _polars_column(column: Any, locate: Locate) -> npt.NDArray[Any]:
    return _column_to_numbers(column.to_numpy(), locate)


def _pandas_column(column: Any, locate: Locate) -> npt.NDArray[Any]:
    dtype = column.dtype
    if not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "O") in _NUMERIC_KINDS:
        single = str(dtype).lower().startswith("float32")  # nullable and Arrow types: NA becomes NaN
        return np.asarray(column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan))
    return _column_to_numbers(np.asarray(column), locate)


def _column_to_numbers(array: npt.NDArray[Any], locate: Locate) -> npt.NDArray[Any]:
    kind = array.dtype.kind
    if kind in _NUMERIC_KINDS:
        return array
    if kind == "O" or kind in _TEXT_KINDS:
        return _objects_to_floats(array, locate)
    entry = locate((0,))
    if kind == "c":
        raise ValueError(f"Complex data not supported: the column of {entry} has dtype {array.dtype}.")
    raise TypeError(
        f"the column of {entry} has dtype {array.dtype}, which holds no real numbers. Drop it or convert it, "
        "for example dates to days since the first."
    )


def _objects_to_floats(array: npt.NDArray[Any], locate: Locate) -> Floats:
    """Python objects one by one, so that the first unusable one can be named."""
    result = np.empty(array.shape, dtype=np.float64)
    for index, value in np.ndenumerate(array):
        result[index] = value if type(value) is float else _number(value, index, locate)
    return result


def _number(value: Any, index: tuple[int, ...], locate: Locate) -> float:
    # pandas' NA and NaT are recognised by type name, which spares importing pandas
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    if isinstance(value, (str, bytes)):
        raise ValueError(_text_message(f"{locate(index)} is the string {str(value)!r}"))
    if isinstance(value, (complex, np.complexfloating)):
        raise ValueError(f"Complex data not supported: {locate(index)} is {value!r}.")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{locate(index)} is too large for a float. Rescale its column.") from error
    except TypeError as error:
        raise TypeError(
            f"{locate(index)} is a {type(value).__name__}: {error}. Replace it by a number, or by NaN where "
            "it is missing."
        ) from error


def _text_message(finding: str) -> str:
    return (
        f"{finding}; numbers are needed. Convert numeric text (pandas.to_numeric), encode categories as 0/1 "
        "columns, drop names and labels, and use NaN for missing entries."
    )
