"""Data sets: the class `Dataset`, and readers of the files in the package and in the folder ``ANYPCA_DATA``."""

from __future__ import annotations

import gzip
import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from anypca._optional import optional
from anypca._typing import Floats, Ints
from anypca._words import distinct, numbered

#: The environment variable that names the folder of the data files.
FOLDER_VARIABLE = "ANYPCA_DATA"
#: The environment variable that names the address of such a folder, ``https://...``.
ADDRESS_VARIABLE = "ANYPCA_DATA_URL"


class File(NamedTuple):
    """A data file."""

    sha256: str
    source: str
    """What it was made from."""


#: The data sets and their files.
_TABLE = tomllib.loads(resources.files("anypca.datasets").joinpath("sets.toml").read_text(encoding="utf-8"))
FILES = {
    name: File(checksum, group["source"])
    for group in _TABLE["files"]
    for name, checksum in group["sums"].items()
}


def find_file(name: str) -> Path:
    """Where a data file is: in the folder of ``ANYPCA_DATA``, or downloaded from the address of ``ANYPCA_DATA_URL``.

    Parameters
    ----------
    name : str
        A key of `FILES`.

    Returns
    -------
    path : Path
        A downloaded file is kept in the user's cache; its checksum is verified.

    Raises
    ------
    FileNotFoundError
        If no variable is set, the folder or the file is missing, or the download fails.
    ValueError
        If a downloaded file has another checksum.
    """
    if os.environ.get(FOLDER_VARIABLE):
        return _in_folder(Path(os.environ[FOLDER_VARIABLE]), name)
    if os.environ.get(ADDRESS_VARIABLE):
        return _download(f"{os.environ[ADDRESS_VARIABLE].rstrip('/')}/{name}", name)
    raise FileNotFoundError(
        f"the data file {name} is too large for the package and has no public archive: set the environment variable "
        f"{FOLDER_VARIABLE} to the folder that holds it, or {ADDRESS_VARIABLE} to the address of such a folder. Its "
        f"source is {FILES[name].source}."
    )


def _in_folder(folder: Path, name: str) -> Path:
    if (folder / name).is_file():
        return folder / name
    what = f"no file {name}" if folder.is_dir() else "no folder"
    raise FileNotFoundError(
        f"{FOLDER_VARIABLE} is set to {folder}, and there is {what}. Set it to the folder that holds {name}; its "
        f"source is {FILES[name].source}."
    )


def _download(address: str, name: str) -> Path:
    with optional("downloading", "pooch", "datasets"):
        import pooch
    try:
        found = pooch.retrieve(
            address,
            f"sha256:{FILES[name].sha256}",
            fname=name,
            path=pooch.os_cache("anypca"),
            progressbar=False,
        )
    except OSError as error:
        raise FileNotFoundError(
            f"{address} could not be downloaded: {error}. Check {ADDRESS_VARIABLE}, or put the file into a folder "
            f"and set {FOLDER_VARIABLE} to it."
        ) from error
    return Path(found)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with the names of its columns, the classes of its rows, offset and covariates.

    See Also
    --------
    load_penguins : a table of numbers and labels.
    """

    X: Floats | Any
    """Values (n_samples, n_features), NaN if missing: float64 (dense or CSR), or objects if columns hold labels."""
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
    """Content, source and licence."""

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame; it has a column for each feature."""
        with optional("Dataset.to_frame", "pandas", "cli"):
            import pandas as pd
        if sparse.issparse(self.X):
            return pd.DataFrame.sparse.from_spmatrix(self.X, columns=list(self.feature_names))
        return pd.DataFrame(self.X, columns=list(self.feature_names)).infer_objects()


@dataclass(frozen=True)
class Spec:
    """Places of the parts of a data set.

    A place is ``"file"`` or ``"file:key"``: an array of an npz file; without key a sparse matrix or the lines of a
    text file.
    """

    description: str
    X: str | None = None
    """Place of the values; ``None``: the set is in the package."""
    features: str | None = None
    """Place of the column names; ``None``: numbers."""
    target: str | None = None
    target_names: str | Sequence[str] = ()
    """Place of the class names or the names; empty: classes are the sorted distinct values of the target."""
    divisor: float = 1.0
    """The stored integers are divided by it."""
    pixels: int | None = None
    """Width of an image, for the names of pixels."""
    covariates: Mapping[str, str] = field(default_factory=dict)
    """Places of variables of the rows."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Spec:
        """Read the entry of one data set from the table of data sets."""
        return cls(**{**entry, "description": entry["description"].format(**_TABLE["texts"])})


SPECS = {name: Spec.of(entry) for name, entry in _TABLE["sets"].items()}


def load(name: str) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    name : str
        A key of `SPECS`.

    Returns
    -------
    dataset : Dataset

    Raises
    ------
    FileNotFoundError
        If a file is not found, see `find_file`.
    """
    spec = SPECS[name]
    if spec.X is None:
        return _from_package(name, spec)
    X = _read(spec.X).astype(float)
    target, target_names = _read_target(spec)
    return Dataset(
        X=X if spec.divisor == 1.0 else X / spec.divisor,
        feature_names=_feature_names(spec, X.shape[1]),
        target=target,
        target_names=target_names,
        offset=None,
        covariates=MappingProxyType({label: _read(place) for label, place in spec.covariates.items()}),
        description=spec.description,
    )


def read_packaged(name: str) -> dict[str, Any]:
    """Read all arrays of a data set in the package.

    Parameters
    ----------
    name : str

    Returns
    -------
    dict
    """
    with resources.files("anypca.datasets").joinpath("data", f"{name}.npz").open("rb") as stream:
        return dict(np.load(stream, allow_pickle=False))


def _from_package(name: str, spec: Spec) -> Dataset:
    """Read a data set whose arrays have the names that ``tools/package_data.py`` writes."""
    arrays = read_packaged(name)
    target, exposure, X = arrays.get("target"), arrays.get("exposure"), arrays["X"]
    prefix = "covariate_"
    covariates = {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}
    return Dataset(
        X=_parse_cells(X) if X.dtype.kind == "U" else X.astype(float),
        feature_names=distinct(arrays["feature_names"]),
        target=None if target is None else target.astype(np.int64),
        target_names=tuple(arrays.get("target_names", np.array([], str)).tolist()),
        offset=None if exposure is None else np.log(exposure.astype(float)),
        covariates=MappingProxyType(covariates),
        description=spec.description,
    )


def _parse_cells(cells: Any) -> Any:
    """Convert text to objects: numbers in all-numeric columns, labels in other columns, NaN for empty cells."""
    X = np.where(cells == "", np.nan, cells.astype(object))
    for j, column in enumerate(X.T):
        with suppress(ValueError):
            X[:, j] = column.astype(float)
    return X


def read_arrays(name: str) -> dict[str, Any]:
    """Read all arrays of an npz file in the folder ``ANYPCA_DATA``.

    Parameters
    ----------
    name : str

    Returns
    -------
    dict
    """
    with np.load(find_file(name), allow_pickle=False) as archive:
        return dict(archive)


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


def _read(place: str) -> Any:
    """Read the array or text at a place."""
    name, _, key = place.partition(":")
    path = find_file(name)
    if name.endswith(".txt.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            return np.array(stream.read().splitlines())
    if not key:
        return sparse.csr_array(sparse.load_npz(path), dtype=float)
    with np.load(path, allow_pickle=False) as archive:
        return archive[key]


def _feature_names(spec: Spec, count: int) -> tuple[str, ...]:
    if spec.pixels is not None:
        return pixel_names(spec.pixels, count)
    # Gene symbols may repeat; models and data frames need distinct names.
    return numbered("x", count) if spec.features is None else distinct(_read(spec.features))


def _read_target(spec: Spec) -> tuple[Ints | None, tuple[str, ...]]:
    if spec.target is None:
        return None, ()
    labels = _read(spec.target)
    if not spec.target_names:
        kinds, codes = np.unique(labels, return_inverse=True)
        return codes, tuple(str(kind) for kind in kinds)
    names = _read(spec.target_names) if isinstance(spec.target_names, str) else spec.target_names
    return labels.astype(np.int64), tuple(map(str, names))
