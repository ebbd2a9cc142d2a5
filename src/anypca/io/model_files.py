"""Fitted models in files: no pickle, nothing is run on reading, damage is noticed.

A model file is one line of text, ``anypca-model FORMAT sha256=CHECKSUM``, and a skops archive that holds plain values
and arrays only: the package's version, the structure of the model as JSON (see `anypca.io._plain`), and its arrays.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from anypca._optional import optional
from anypca.exceptions import ModelFileError
from anypca.io._plain import decode, encode
from anypca.io.atomic import write_atomically
from anypca.models._base import LatentModel

#: Version of the layout; a reader refuses a later one.
FORMAT = 1
_HEAD = re.compile(rb"anypca-model ([0-9]{1,4}) sha256=([0-9a-f]{64})\n")
#: Longer than any first line.
_HEAD_LENGTH = 100


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, whole or not at all.

    Parameters
    ----------
    model : estimator of this package
    path : path-like
        The file; one of the same name is replaced. The ending is yours to choose.

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
    if not isinstance(model, LatentModel):
        raise TypeError(
            f"save writes estimators of anypca; got {type(model).__name__}. For pipelines use skops or joblib."
        )
    structure, leaves = encode(model)
    payload = _skops().dumps({"version": _package_version(), "structure": structure, "leaves": leaves})
    head = f"anypca-model {FORMAT} sha256={hashlib.sha256(payload).hexdigest()}\n".encode()
    target = Path(os.path.abspath(path))
    write_atomically(target.parent, {target.name: lambda place: _write(place, head + payload)})


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is run, whoever made it: instances of this package's classes are made without calling them, and
    of other types only those that skops trusts by itself (of Python, numpy, scipy, scikit-learn) are read.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    model : estimator
        Its ``transform`` gives the same bits as that of the saved one, on the same machine and with the same versions.

    Raises
    ------
    ModelFileError
        If the file is damaged, of another kind, of a later format, or holds an unknown type.

    Warns
    -----
    UserWarning
        If another version of the package wrote the file.

    See Also
    --------
    save : writes the file.
    """
    values = _read_payload(Path(path))
    model = decode(values["structure"], values["leaves"])
    if not isinstance(model, LatentModel):
        raise ModelFileError(f"{path} holds {type(model).__name__}, not a model.")
    if values["version"] != _package_version():
        warnings.warn(
            f"{path} was written by anypca {values['version']}, and this is {_package_version()}: check that the model "
            "still does what it did, or fit it again.",
            stacklevel=2,
        )
    return model


def _read_payload(path: Path) -> dict[str, Any]:
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
    return _read_skops(payload, path)


def _read_skops(payload: bytes, path: Path) -> dict[str, Any]:
    """The values of an archive that names no type but those skops trusts by itself."""
    skops = _skops()
    try:
        unknown = skops.get_untrusted_types(data=payload)
        values = None if unknown else skops.loads(payload, trusted=[])
    except (BadZipFile, LookupError, ValueError, TypeError, AttributeError, ImportError) as error:
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
