"""What a loader returns, and how one is put together from files."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from anypca._typing import Floats, Ints

#: The environment variable that names the folder of the data files.
FOLDER_VARIABLE = "ANYPCA_DATA"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with everything known about its rows and columns."""

    X: Floats | Any
    """Values (n_samples, n_features), dense or CSR, float64; NaN where missing."""
    feature_names: tuple[str, ...]
    """Unique names of the columns."""
    target: Ints | None
    """Class of each row (n_samples,), counted from 0; ``None`` where there are no classes."""
    target_names: tuple[str, ...]
    """Names of the classes."""
    offset: Floats | None
    """Known part of the linear predictor (n_samples, n_features), on the log scale."""
    covariates: Mapping[str, Any]
    """Known variables of the rows by name, each of shape (n_samples,)."""
    description: str
    """What the data are, where they come from, and their licence."""


@dataclass(frozen=True)
class Spec:
    """Where the parts of a data set are.

    A place is ``"file"`` or ``"file:key"``: an array of an npz file, a column of a csv file; without key a
    sparse matrix, a whole csv table or the lines of a text file.
    """

    X: str
    description: str
    features: str | None = None
    """Place of the column names; ``None``: the header of a csv file, or numbers."""
    target: str | None = None
    target_names: str | tuple[str, ...] = ()
    """Place of the class names or the names; empty: classes are the sorted distinct values of the target."""
    offset: str | None = None
    """Place of the exposures, whose logarithm is the offset."""
    drop: tuple[str, ...] = ()
    """Columns of a csv table that are not data."""
    missing: float | None = None
    """The value that marks a missing cell."""
    divisor: float = 1.0
    """What the stored integers are divided by."""
    pixels: int | None = None
    """Width of an image, for the names of pixels."""
    covariates: Mapping[str, str] = field(default_factory=dict)
    """Places of variables of the rows, besides all ``cov_`` arrays beside X."""


def data_folder() -> Path:
    """The folder of the data files.

    Returns
    -------
    folder : Path

    Raises
    ------
    FileNotFoundError
        If the environment variable is not set or names no folder.
    """
    name = os.environ.get(FOLDER_VARIABLE, "")
    if not name:
        raise FileNotFoundError(
            f"the data files are not part of the package: set the environment variable {FOLDER_VARIABLE} to "
            "the folder that holds them."
        )
    if not Path(name).is_dir():
        raise FileNotFoundError(
            f"{FOLDER_VARIABLE} is set to {name}, which is no folder. Set it to the folder of the data files."
        )
    return Path(name)


def load(spec: Spec) -> Dataset:
    """Put a data set together.

    Parameters
    ----------
    spec : Spec

    Returns
    -------
    dataset : Dataset

    Raises
    ------
    FileNotFoundError
        If the folder or a file is missing.
    """
    folder = data_folder()
    X, header = _read_values(folder, spec)
    target, target_names = _read_target(folder, spec)
    exposure = None if spec.offset is None else _read(folder, spec.offset)
    return Dataset(
        X=X,
        feature_names=_feature_names(folder, spec, header, X.shape[1]),
        target=target,
        target_names=target_names,
        offset=None if exposure is None else np.log(exposure.astype(float)),
        covariates=MappingProxyType(_read_covariates(folder, spec)),
        description=spec.description,
    )


def pixel_names(width: int, count: int) -> tuple[str, ...]:
    """Names ``r<row>c<column>`` of an image's pixels, row by row, counted from 0 as arrays are.

    Parameters
    ----------
    width : int
        Pixels in a row.
    count : int
        Pixels in all.

    Returns
    -------
    names : tuple of str, length ``count``
    """
    return tuple(f"r{i // width}c{i % width}" for i in range(count))


def _path(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file {name} in {folder}, the folder named by {FOLDER_VARIABLE}. "
            "Put it there or set the variable to the folder that holds it."
        )
    return path


def _read(folder: Path, place: str) -> Any:
    """What is stored at a place."""
    name, _, key = place.partition(":")
    path = _path(folder, name)
    if name.endswith(".txt.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            return np.array(stream.read().splitlines())
    if name.endswith(".csv.gz"):
        header, table = _read_csv(path)
        return table[:, header.index(key)]
    if not key:
        return sparse.csr_array(sparse.load_npz(path), dtype=float)
    with np.load(path, allow_pickle=False) as archive:
        return archive[key]


def _read_csv(path: Path) -> tuple[list[str], Floats]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        header = stream.readline().strip().split(",")
        return header, np.loadtxt(stream, delimiter=",", ndmin=2)


def _read_values(folder: Path, spec: Spec) -> tuple[Any, list[str] | None]:
    """The table, and its header where the file has one."""
    names = None
    if spec.X.endswith(".csv.gz"):
        header, values = _read_csv(_path(folder, spec.X))
        kept = [j for j, name in enumerate(header) if name not in spec.drop]
        values, names = values[:, kept], [header[j] for j in kept]
    else:
        values = _read(folder, spec.X).astype(float)
    if spec.missing is not None:
        values[values == spec.missing] = np.nan
    return (values if spec.divisor == 1.0 else values / spec.divisor), names


def _feature_names(folder: Path, spec: Spec, header: list[str] | None, count: int) -> tuple[str, ...]:
    if spec.pixels is not None:
        return pixel_names(spec.pixels, count)
    if spec.features is not None:
        header = [str(name) for name in _read(folder, spec.features)]
    names = header if header is not None else [f"x{j}" for j in range(1, count + 1)]
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        # Gene symbols can repeat; models and data frames want names that do not.
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(unique)


def _read_target(folder: Path, spec: Spec) -> tuple[Ints | None, tuple[str, ...]]:
    if spec.target is None:
        return None, ()
    labels = _read(folder, spec.target)
    if not spec.target_names:
        kinds, codes = np.unique(labels, return_inverse=True)
        return codes, tuple(str(kind) for kind in kinds)
    names = spec.target_names
    if isinstance(names, str):
        names = tuple(str(name) for name in _read(folder, names))
    return labels.astype(np.int64), names


def _read_covariates(folder: Path, spec: Spec) -> dict[str, Any]:
    name, _, key = spec.X.partition(":")
    found = {label: _read(folder, place) for label, place in spec.covariates.items()}
    if key:
        with np.load(_path(folder, name), allow_pickle=False) as archive:
            stored = [array for array in archive.files if array.startswith("cov_")]
            found |= {array.removeprefix("cov_"): archive[array] for array in stored}
    return found
