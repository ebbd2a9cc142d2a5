"""Errors and warnings of the package."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

__all__ = [
    "ConvergenceWarning",
    "DataConversionWarning",
    "ModelFileError",
    "NonFiniteError",
    "NotFittedError",
]


class NonFiniteError(FloatingPointError):
    """The objective or a parameter became NaN or infinite during a fit."""


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, of a later format, or holds an unknown type."""
