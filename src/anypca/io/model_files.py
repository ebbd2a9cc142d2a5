"""Model files without pickle: reading runs no code and detects damage.

A model file is one line of text, ``anypca-model FORMAT sha256=CHECKSUM``, and ``hmac=SIGNATURE`` after it if signed;
then a numpy archive (npz, not compressed) of plain arrays. One of them is the structure of the model as JSON, see
`anypca.io._contents`. Equal models have equal files, bit for bit.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from anypca.columns import Layout
from anypca.columns.labels import Labels
from anypca.exceptions import ModelFileError
from anypca.io._contents import decode, encode
from anypca.io._native import check_text
from anypca.io.atomic import write_atomically
from anypca.models._base import LatentModel
from anypca.models._description import describe
from anypca.models._rotation import Rotation

#: Version of the format; a reader refuses a later one.
FORMAT = 1
_HEAD = re.compile(rb"anypca-model ([0-9]{1,4}) sha256=([0-9a-f]{64})(?: hmac=([0-9a-f]{64}))?\n")
#: Longer than any first line.
_HEAD_LENGTH = 200
#: Exceptions of numpy and zipfile on invalid archives.
_UNREADABLE = (
    *(BadZipFile, LookupError, ValueError, TypeError, AttributeError),
    *(EOFError, OSError, MemoryError, RuntimeError),
)
_REMEDY = "It was made by another version of anypca or by another program. Fit the model again."
#: Shapes of fitted arrays: k components, p columns.
_SHAPES = {
    **dict.fromkeys(("components_", "components_std_"), "kp"),
    **dict.fromkeys(("intercept_", "mean_", "scale_", "dispersion_"), "p"),
    **dict.fromkeys(("explained_variance_", "explained_variance_ratio_"), "k"),
    **dict.fromkeys(("explained_deviance_ratio_", "alpha_"), "k"),
}


def save(model: Any, path: str | os.PathLike[str], *, key: str | bytes | None = None) -> None:
    """Write a model to a file atomically.

    Parameters
    ----------
    model : estimator of this package
        The model, fitted or not.
    path : path-like
        The file; an existing file is replaced. Any extension is allowed.
    key : str or bytes, optional
        A secret with which the file is signed: `load` with the same key refuses a file that anyone else has made or
        changed.

    Raises
    ------
    TypeError
        If it is not an estimator of this package, or holds something that cannot be stored, such as a function.

    See Also
    --------
    load : reads the file.

    Examples
    --------
    >>> import anypca, numpy as np, tempfile
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> model = anypca.PPCA(2).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     anypca.save(model, f"{folder}/model.anypca")
    ...     again = anypca.load(f"{folder}/model.anypca")
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    if not isinstance(model, LatentModel | Rotation):
        raise TypeError(
            f"save writes estimators of anypca; got {type(model).__name__}. For pipelines use skops or joblib."
        )
    structure, arrays = encode(model)
    head = json.dumps({"version": _package_version(), "model": structure}).encode()
    packed = BytesIO()
    np.savez(packed, structure=np.frombuffer(head, np.uint8), **_numbered(arrays))
    payload = packed.getvalue()
    signature = "" if key is None else f" hmac={_sign(payload, key)}"
    line = f"anypca-model {FORMAT} sha256={hashlib.sha256(payload).hexdigest()}{signature}\n".encode()
    target = Path(os.path.abspath(path))
    write_atomically(target.parent, {target.name: lambda place: _write(place, line + payload)})


def load(path: str | os.PathLike[str], *, key: str | bytes | None = None) -> Any:
    """Read a model that `save` wrote.

    No code in the file is run: instances of this package's classes and of scikit-learn's estimators are created
    without calling them, and other types are rejected. Parameters and arrays are checked (types, shapes,
    finite values), and one row is projected.

    Parameters
    ----------
    path : path-like
        The file that `save` wrote.
    key : str or bytes, optional
        The secret that the file was signed with. Without it a signature is not verified.

    Returns
    -------
    model : estimator
        Its ``transform`` gives the same bits as before saving, on the same machine and with the same versions.

    Raises
    ------
    ModelFileError
        If the file is damaged, of another kind, of a later format, not signed with the key, or holds an unknown type or
        values that no model has.

    Warns
    -----
    UserWarning
        If another version of the package wrote the file.

    See Also
    --------
    save : writes the file.
    """
    arrays = _read_arrays(_read_payload(Path(path), key), Path(path))
    try:
        head = json.loads(arrays.pop("structure").tobytes())
        version, structure = str(head["version"]), head["model"]
        stored = [arrays[name] for name in _numbered([None] * len(arrays))]
    except (LookupError, ValueError, TypeError) as error:
        raise ModelFileError(f"{path} is no model file of anypca: {error!r}.") from error
    model = decode(structure, stored)
    if not isinstance(model, LatentModel | Rotation):
        raise ModelFileError(f"{path} holds {type(model).__name__}, not a model.")
    check_model(model.model if isinstance(model, Rotation) else model)
    if version != _package_version():
        warnings.warn(
            f"{path} was written by anypca {version}, and this is {_package_version()}: check that the model "
            "still does what it did, or fit it again.",
            stacklevel=2,
        )
    return model


def _numbered(arrays: list[Any]) -> dict[str, Any]:
    return {f"array{number}": array for number, array in enumerate(arrays)}


def _read_payload(path: Path, key: str | bytes | None) -> bytes:
    """What follows the first line of a file, with its checksum and signature verified."""
    with path.open("rb") as stream:
        match = _HEAD.match(stream.read(_HEAD_LENGTH))
        if match is None:
            raise ModelFileError(_explain_foreign(path))
        if int(match[1]) != FORMAT:
            raise ModelFileError(
                f"{path} is in format {int(match[1])} of anypca's model files; this version reads format {FORMAT}. "
                "Install a later version of anypca, or copy the file again if it should be readable."
            )
        stream.seek(match.end())
        payload = stream.read()
    if hashlib.sha256(payload).hexdigest().encode() != match[2]:
        raise ModelFileError(
            f"{path} is damaged: its checksum does not fit. Copy it again or save the model again."
        )
    if key is not None:
        _check_signature(payload, key, match[3], path)
    return payload


def _sign(payload: bytes, key: str | bytes) -> str:
    secret = key.encode() if isinstance(key, str) else key
    if not secret:
        raise ValueError("an empty key signs nothing. Give a secret of some length, or leave key out.")
    return hmac.new(secret, payload, hashlib.sha256).hexdigest()


def _check_signature(payload: bytes, key: str | bytes, signature: bytes | None, path: Path) -> None:
    if signature is None:
        raise ModelFileError(
            f"{path} is not signed. Save it with the key, or load it without one if you trust it."
        )
    if not hmac.compare_digest(_sign(payload, key).encode(), signature):
        raise ModelFileError(
            f"{path} was signed with another key, or changed by someone without it. Do not use it unless you know why."
        )


def _read_arrays(payload: bytes, path: Path) -> dict[str, Any]:
    """The arrays of an archive that is not compressed, so that its parts are no larger than the file."""
    try:
        with ZipFile(BytesIO(payload)) as archive:
            if any(part.compress_type != ZIP_STORED for part in archive.infolist()):
                raise ValueError("its parts are compressed")
        with np.load(BytesIO(payload), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        check_text(arrays)
    except _UNREADABLE as error:
        raise ModelFileError(f"{path} is no model file of anypca: {error!r}.") from error
    return arrays


def _explain_foreign(path: Path) -> str:
    with path.open("rb") as stream:
        start = stream.read(4)
    kinds = {
        b"\x80": "a pickle, which could run anything and is not opened",
        b"PK": "a zip or plain skops archive",
    }
    kind = next((text for head, text in kinds.items() if start.startswith(head)), "something else")
    return f"{path} is no model file of anypca, or its first line is damaged; it looks like {kind}. Use anypca.save."


def _write(place: Path, content: bytes) -> None:
    place.write_bytes(content)


def _package_version() -> str:
    from anypca import __version__

    return str(__version__)


def check_model(model: Any) -> None:
    """Refuse a model with invalid parameters or fitted arrays.

    Parameters
    ----------
    model : LatentModel
        As read from a file.

    Raises
    ------
    ModelFileError
        If a parameter is not allowed, an array has another type or shape or is not finite, an attribute is missing, or
        a row cannot be projected.
    """
    if "n_features_in_" not in vars(model):
        return  # parameters are checked by fit
    try:
        model._validate_params()
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"a parameter in the model file is not allowed: {error}") from error
    sizes = {"p": _n_reported(model), "k": _size(model, "n_components_", 0)}
    for name, letters in _SHAPES.items():
        if vars(model).get(name) is not None:
            _check_array(name, vars(model)[name], tuple(sizes[letter] for letter in letters))
    _project_a_row(model)


def _project_a_row(model: Any) -> None:
    """Draw and project a row, which detects damage that checks of shapes miss."""
    found, k = describe(model), model.n_components_
    companions: dict[str, Any] = {"offset": np.zeros(1)} if found.uses_offset else {}
    if n_covariates := vars(model).get("_n_covariates", 0):
        companions["covariates"] = np.zeros((1, n_covariates))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has no column names
            model._row_model()
            row = model.sample(1, random_state=0, **companions) if hasattr(model, "sample") else None
            if row is not None and all(cell is None or cell != cell for cell in np.ravel(row)):
                raise ValueError("a drawn row has missing values only")
            scores = np.zeros((1, k)) if row is None else model.transform(row, **companions)
    except Exception as error:  # whatever a damaged field leads to
        raise ModelFileError(
            f"{type(model).__name__} in the model file cannot project a row: {error}. {_REMEDY}"
        ) from error
    if np.shape(scores) != (1, k) or not np.isfinite(np.asarray(scores, dtype=float)).all():
        raise ModelFileError(
            f"{type(model).__name__} in the model file projects a row to {scores}. {_REMEDY}"
        )


def _n_reported(model: Any) -> int:
    """The number of columns that fitted arrays are reported for."""
    n_features = _size(model, "n_features_in_", 1)
    layout = vars(model).get("layout_")
    if layout is None:
        return n_features
    if not isinstance(layout, Layout) or layout.n_features != n_features:
        raise ModelFileError(f"layout_ in the model file is not for {n_features} columns. {_REMEDY}")
    for column, labels in layout.labels:
        is_sound = isinstance(labels, Labels) and isinstance(labels.levels, tuple)
        if not is_sound or not all(isinstance(level, str | bool | int | float) for level in labels.levels):
            raise ModelFileError(f"the labels of column {column!r} in the model file are invalid. {_REMEDY}")
    return n_features if layout.is_one_to_one else layout.n_columns


def _check_array(name: str, value: Any, shape: tuple[int, ...]) -> None:
    value = np.asarray(value) if isinstance(value, float) else value  # one for all columns
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
