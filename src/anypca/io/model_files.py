"""Fitted models in files: no pickle, nothing is run on reading, damage is noticed.

A model file is one line of text, ``anypca-model FORMAT sha256=CHECKSUM``, and ``hmac=SIGNATURE`` after it if signed;
then a skops archive that holds plain values and arrays only: the package's version, the structure of the model as JSON
(see `anypca.io._plain`), and its arrays. Equal models have equal files, bit for bit.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import warnings
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from anypca._optional import optional
from anypca.exceptions import ModelFileError
from anypca.io._archive import settle
from anypca.io._plain import decode, encode
from anypca.io._schema import check_model
from anypca.io.atomic import write_atomically
from anypca.models._base import LatentModel
from anypca.models._rotation import Rotation

#: Version of the layout; a reader refuses a later one.
FORMAT = 1
_HEAD = re.compile(rb"anypca-model ([0-9]{1,4}) sha256=([0-9a-f]{64})(?: hmac=([0-9a-f]{64}))?\n")
#: Longer than any first line.
_HEAD_LENGTH = 200
#: Arrays of numbers shrink by less than this when they are compressed; zeros, and bombs, by a thousand.
_MOST_SHRUNK = 200
#: What skops and zipfile raise on archives that are not theirs.
_UNREADABLE = (
    BadZipFile,
    zlib.error,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    RecursionError,
)
#: Archives up to this many bytes are unpacked whatever their ratio: a quarter of a gibibyte fits everywhere.
_SMALL = 1 << 28


def save(model: Any, path: str | os.PathLike[str], *, key: str | bytes | None = None) -> None:
    """Write a model to a file, whole or not at all.

    Parameters
    ----------
    model : estimator of this package
        The model, fitted or not.
    path : path-like
        The file; one of the same name is replaced. The ending is yours to choose.
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
    structure, leaves = encode(model)
    payload = settle(
        _skops().dumps({"version": _package_version(), "structure": structure, "leaves": leaves})
    )
    signature = "" if key is None else f" hmac={_sign(payload, key)}"
    head = f"anypca-model {FORMAT} sha256={hashlib.sha256(payload).hexdigest()}{signature}\n".encode()
    target = Path(os.path.abspath(path))
    write_atomically(target.parent, {target.name: lambda place: _write(place, head + payload)})


def load(path: str | os.PathLike[str], *, key: str | bytes | None = None) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is run, whoever made it: instances of this package's classes are made without calling them, and
    of other types only those that skops trusts by itself (of Python, numpy, scipy, scikit-learn) are read. Parameters
    and arrays are checked: types, shapes, finite values. Those of earlier versions are read if their classes exist.

    Parameters
    ----------
    path : path-like
        The file that `save` wrote.
    key : str or bytes, optional
        The secret that the file was signed with. Without it a signature is not looked at.

    Returns
    -------
    model : estimator
        Its ``transform`` gives the same bits as that of the saved one, on the same machine and with the same versions.

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
    values = _read_payload(Path(path), key)
    model = decode(values["structure"], values["leaves"])
    if not isinstance(model, LatentModel | Rotation):
        raise ModelFileError(f"{path} holds {type(model).__name__}, not a model.")
    check_model(model.model if isinstance(model, Rotation) else model)
    if values["version"] != _package_version():
        warnings.warn(
            f"{path} was written by anypca {values['version']}, and this is {_package_version()}: check that the model "
            "still does what it did, or fit it again.",
            stacklevel=2,
        )
    return model


def _read_payload(path: Path, key: str | bytes | None) -> dict[str, Any]:
    """The values in a file, its first line and types checked."""
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
    return _read_skops(payload, path)


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


def _read_skops(payload: bytes, path: Path) -> dict[str, Any]:
    """The values of an archive that names no type but those skops trusts by itself."""
    skops = _skops()
    try:
        _check_size(payload, path)
        unknown = skops.get_untrusted_types(data=payload)
        values = None if unknown else skops.loads(payload, trusted=[])
    except ModelFileError:
        raise
    except _UNREADABLE as error:
        raise ModelFileError(f"{path} is no model file of anypca: {error!r}.") from error
    if unknown:
        raise ModelFileError(
            f"{path} holds types that no model file of anypca has: {', '.join(unknown)}. Nothing of it was run. "
            "Do not open it with other tools unless you know who made it."
        )
    expected = {"version": str, "structure": str, "leaves": list}
    if not isinstance(values, dict) or {key: type(value) for key, value in values.items()} != expected:
        raise ModelFileError(f"{path} is no model file of anypca: its parts are not {', '.join(expected)}.")
    return values


def _check_size(payload: bytes, path: Path) -> None:
    """Refuse an archive that would fill the memory: what it says of its size is what zipfile lets it unpack."""
    with ZipFile(BytesIO(payload)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > max(_SMALL, _MOST_SHRUNK * len(payload)):
        raise ModelFileError(
            f"{path} would unpack to {size / 1e9:.1f} GB from {len(payload) / 1e6:.1f} MB, which no model does. It was "
            "not opened."
        )


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


def _skops() -> Any:
    with optional("a model file", "skops", "io"):
        import skops.io
    return skops.io
