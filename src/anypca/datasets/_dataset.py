"""What a loader returns, where the files of stored data sets are found, and how a set is put together from them."""

from __future__ import annotations

import gzip
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from anypca._optional import optional
from anypca._typing import Floats, Ints
from anypca._words import distinct, numbered

#: The environment variable that names the folder of the data files.
FOLDER_VARIABLE = "ANYPCA_DATA"
#: The environment variable that names the address of such a folder, ``https://...``.
ADDRESS_VARIABLE = "ANYPCA_DATA_URL"


@dataclass(frozen=True)
class File:
    """What is known of a data file."""

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
        A downloaded file is kept in the user's cache, and is the right one by its checksum.

    Raises
    ------
    FileNotFoundError
        If no variable is set, the folder or the file is missing, or the download fails.
    ValueError
        If a downloaded file is not the right one.
    """
    if os.environ.get(FOLDER_VARIABLE):
        return _in_folder(Path(os.environ[FOLDER_VARIABLE]), name)
    if os.environ.get(ADDRESS_VARIABLE):
        return _download(f"{os.environ[ADDRESS_VARIABLE].rstrip('/')}/{name}", name)
    raise FileNotFoundError(
        f"the data file {name} is not part of the package, and no public archive has it: set the environment variable "
        f"{FOLDER_VARIABLE} to the folder that holds it, or {ADDRESS_VARIABLE} to the address of such a folder. It was "
        f"made from {FILES[name].source}."
    )


def _in_folder(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{FOLDER_VARIABLE} is set to {folder}, which is no folder. Set it to the folder of the data files."
        )
    if not (folder / name).is_file():
        raise FileNotFoundError(
            f"there is no file {name} in {folder}, the folder named by {FOLDER_VARIABLE}. Put it there or set the "
            f"variable to the folder that holds it. It was made from {FILES[name].source}."
        )
    return folder / name


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
    """A data set with everything known about its rows and columns.

    See Also
    --------
    load_digits_counts : one that needs no files.
    """

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

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Spec:
        """What the table of data sets says of one."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        values["description"] = values["description"].format(**_TABLE["texts"])
        return cls(**values)


SPECS = {name: Spec.of(entry) for name, entry in _TABLE["sets"].items()}


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
        If a file is not found, see `find_file`.
    """
    X, header = _read_values(spec)
    target, target_names = _read_target(spec)
    exposure = None if spec.offset is None else _read(spec.offset)
    return Dataset(
        X=X,
        feature_names=_feature_names(spec, header, X.shape[1]),
        target=target,
        target_names=target_names,
        offset=None if exposure is None else np.log(exposure.astype(float)),
        covariates=MappingProxyType(_read_covariates(spec)),
        description=spec.description,
    )


def read_arrays(name: str) -> dict[str, Any]:
    """All arrays of an npz file.

    Parameters
    ----------
    name : str

    Returns
    -------
    dict
    """
    with np.load(find_file(name), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


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
    """What is stored at a place."""
    name, _, key = place.partition(":")
    path = find_file(name)
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


def _read_values(spec: Spec) -> tuple[Any, list[str] | None]:
    """The table, and its header where the file has one."""
    names = None
    if spec.X.endswith(".csv.gz"):
        header, values = _read_csv(find_file(spec.X))
        kept = [j for j, name in enumerate(header) if name not in spec.drop]
        values, names = values[:, kept], [header[j] for j in kept]
    else:
        values = _read(spec.X).astype(float)
    if spec.missing is not None:
        values[values == spec.missing] = np.nan
    return (values if spec.divisor == 1.0 else values / spec.divisor), names


def _feature_names(spec: Spec, header: list[str] | None, count: int) -> tuple[str, ...]:
    if spec.pixels is not None:
        return pixel_names(spec.pixels, count)
    names = header if spec.features is None else _read(spec.features)
    # Gene symbols may repeat; models and data frames want names that do not.
    return numbered("x", count) if names is None else distinct(names)


def _read_target(spec: Spec) -> tuple[Ints | None, tuple[str, ...]]:
    if spec.target is None:
        return None, ()
    labels = _read(spec.target)
    if not spec.target_names:
        kinds, codes = np.unique(labels, return_inverse=True)
        return codes, tuple(str(kind) for kind in kinds)
    names = spec.target_names
    if isinstance(names, str):
        names = tuple(str(name) for name in _read(names))
    return labels.astype(np.int64), names


def _read_covariates(spec: Spec) -> dict[str, Any]:
    name, _, key = spec.X.partition(":")
    found = {label: _read(place) for label, place in spec.covariates.items()}
    if key:
        with np.load(find_file(name), allow_pickle=False) as archive:
            stored = [array for array in archive.files if array.startswith("cov_")]
            found |= {array.removeprefix("cov_"): archive[array] for array in stored}
    return found
