"""A transformer that fills the gaps of a table."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from anypca._compat import Interval
from anypca._typing import Bools, Floats
from anypca.columns.encoding import as_frame, named_columns, read_cells
from anypca.engine._convert import is_from
from anypca.models import SePCA
from anypca.models._description import describe


class Imputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the gaps of a table with columns of any kind.

    Fits a model to the observed cells and replaces missing cells by their expectations given the observed cells of the
    row. Text, categories and yes/no answers get the most probable label. Observed cells, the container and the types
    of columns stay as they are.

    Parameters
    ----------
    model : estimator or None, default=None
        Model of this package with ``impute``, for example ``EPCA(3)``. None is `SePCA`, which chooses the number of
        components.
    n_draws : int, default=0
        0 fills with expectations. A positive number fills with the mean of so many draws from the posterior
        predictive distribution (labels with the first draw); 1 is a random draw, as
        ``IterativeImputer(sample_posterior=True)`` makes.
    add_indicator : bool, default=False
        Append a column of zeros and ones for each column that had gaps in ``fit``.
    keep_empty_features : bool, default=False
        Keep columns without any observed cell in ``fit``, filled with 0. They are dropped otherwise.
    random_state : int, RandomState instance, Generator or None, default=0
        Seed of the draws.

    Attributes
    ----------
    model_ : estimator
        The fitted model.
    indicator_features_ : ndarray of int
        Numbers of the columns that had gaps in ``fit``.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As in scikit-learn.

    See Also
    --------
    SePCA : the default model, with scores and loadings.

    Notes
    -----
    ``draws`` and ``intervals`` account for the noise of the column and for the uncertainty of the row's scores; with
    `SePCA` also for the uncertainty of the loadings.

    Examples
    --------
    >>> from anypca import Imputer
    >>> from anypca.datasets import load_penguins
    >>> penguins = load_penguins().to_frame()
    >>> int(penguins.isna().sum().sum())
    19
    >>> filled = Imputer().fit_transform(penguins)
    >>> int(filled.isna().sum().sum())
    0
    >>> sorted(filled["sex"].unique())
    ['female', 'male']
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "model": "no_validation",
        "n_draws": [Interval(Integral, 0, None, closed="left")],
        "add_indicator": ["boolean"],
        "keep_empty_features": ["boolean"],
        "random_state": "no_validation",
    }

    def __init__(
        self,
        model: Any = None,
        n_draws: int = 0,
        *,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.n_draws = n_draws
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Fit the model to the observed cells.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, sparse matrix or data frame; NaN, None and empty text are missing.
        y : None
            Ignored.
        **fit_params
            Passed to ``fit`` of the model, for example ``sample_weight``.

        Returns
        -------
        self
        """
        self._validate_params()
        model = SePCA() if self.model is None else clone(self.model)
        if not hasattr(model, "impute"):
            raise TypeError(
                f"model must have the method impute; got {type(model).__name__}. Use SePCA, EPCA or PPCA."
            )
        X = as_frame(X)
        missing = _missing_cells(X)
        self._kept = np.flatnonzero(~missing.all(axis=0))
        self.indicator_features_ = np.flatnonzero(missing.any(axis=0))
        self.n_features_in_ = missing.shape[1]
        self.model_ = model.fit(self._observed_columns(X), **fit_params)
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.model_, "feature_names_in_"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        return self

    def transform(self, X: Any, *, return_std: bool = False, **row_params: Any) -> Any:
        """Fill the gaps of a table.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviations of the cells that were filled.
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        filled : table of shape (n_samples, n_features_out)
            A data frame with the types of X if X is one, else an array.
        std : ndarray of shape (n_samples, n_features)
            Only with ``return_std=True``; 0 for observed cells.
        """
        if return_std:
            filled, std = self._ask("impute", X, return_std=True, **row_params)
            return self._complete(X, [filled]), self._spread(std, 0.0)
        if self.n_draws:
            return self._complete(X, self._ask("draw_missing", X, n_draws=self.n_draws, **row_params))
        return self._complete(X, [self._ask("impute", X, **row_params)])

    def draws(self, X: Any, n: int, **row_params: Any) -> list[Any]:
        """Draw completed tables from the posterior predictive distribution (multiple imputation).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        n : int
            Number of tables.
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        list of n tables
            Each of the form of ``transform``. Analyse each, then pool the results by Rubin's rules.
        """
        return [self._complete(X, [table]) for table in self._ask("draw_missing", X, n_draws=n, **row_params)]

    def intervals(self, X: Any, level: float = 0.9, **row_params: Any) -> tuple[Floats, Floats]:
        """Return the ends of central prediction intervals of missing cells.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        level : float, default=0.9
            Probability that a missing cell lies inside its interval.
        **row_params
            ``offset`` and ``covariates`` of these rows, if ``fit`` had them.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples, n_features)
            Both equal the cell if it is observed. NaN in columns of labels and in columns that were empty in ``fit``.
        """
        lower, upper = self._ask("impute_interval", X, level=level, **row_params)
        return self._spread(lower, np.nan), self._spread(upper, np.nan)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return the names of the columns of the result: columns of the input, then indicators."""
        names = np.asarray(super().get_feature_names_out(input_features), dtype=object)
        marks = [f"missingindicator_{name}" for name in names[self.indicator_features_]]
        return np.concatenate(
            [names[self._columns_out], np.array(marks if self.add_indicator else [], object)]
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    @property
    def _columns_out(self) -> npt.NDArray[np.intp]:
        """Numbers of the input columns that the result has."""
        return np.arange(self.n_features_in_) if self.keep_empty_features else self._kept

    def _observed_columns(self, X: Any) -> Any:
        """Return the columns that had an observed cell in ``fit``."""
        if len(self._kept) == self.n_features_in_:
            return X
        return X.iloc[:, self._kept] if hasattr(X, "iloc") else X[:, self._kept.tolist()]

    def _ask(self, method: str, X: Any, **options: Any) -> Any:
        """Call a method of the model with the columns that it knows."""
        check_is_fitted(self)
        if (method != "impute" or "return_std" in options) and not describe(self.model_).has_posterior:
            raise TypeError(
                f"{type(self.model_).__name__} has no posterior of its scores, which intervals and draws need. Use "
                "SePCA, EPCA or PPCA."
            )
        if method == "draw_missing":
            options["random_state"] = self.random_state
        return getattr(self.model_, method)(self._observed_columns(as_frame(X)), **options)

    def _spread(self, values: Floats, fill: float) -> Floats:
        """Return an array with all columns of the input from the columns of the model."""
        found = np.full((len(values), self.n_features_in_), fill, dtype=values.dtype)
        found[:, self._kept] = values
        return found

    def _complete(self, X: Any, tables: Sequence[Any]) -> Any:
        """Return the result from completed tables of the model: their mean, and labels of the first."""
        X = as_frame(X)
        columns = named_columns(X)
        position = {int(j): number for number, j in enumerate(self._kept)}
        filled = []
        for j in self._columns_out:
            values = _mean_column(tables, position[j]) if j in position else np.zeros(len(tables[0]))
            filled.append(values if columns is None else _refill(columns[j][1], values))
        marks = _missing_cells(X)[:, self.indicator_features_].astype(float) if self.add_indicator else None
        if marks is not None:
            filled.extend(marks.T)
        if columns is None:
            is_number = all(np.asarray(values).dtype.kind == "f" for values in filled)
            kind = np.result_type(*filled) if is_number and filled else object
            return np.array(filled, dtype=kind).T.reshape(len(tables[0]), len(filled))
        return _frame_like(X, dict(zip(self.get_feature_names_out().tolist(), filled, strict=True)))


def _missing_cells(X: Any) -> Bools:
    """Return which cells are missing, shape (n_samples, n_features)."""
    columns = named_columns(X)
    if columns is not None:
        return np.array([[cell is None for cell in read_cells(X, j)] for j in range(len(columns))]).T
    if issparse(X):
        return np.asarray(np.isnan(X.toarray()))
    table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(
            f"X must have rows and columns; got {table.ndim} dimension(s). Use X.reshape(-1, 1) for one column."
        )
    if table.dtype.kind == "O":
        return np.array([[cell is None for cell in read_cells(table, j)] for j in range(table.shape[1])]).T
    return np.isnan(table) if table.dtype.kind == "f" else np.zeros(table.shape, dtype=bool)


def _mean_column(tables: Sequence[Any], j: int) -> Any:
    """Return the mean of a column over tables, or the first table's labels."""
    if isinstance(tables[0], np.ndarray) and tables[0].dtype.kind == "f":
        return np.mean([table[:, j] for table in tables], axis=0, dtype=tables[0].dtype)
    first = read_cells(tables[0], j)
    if len(tables) == 1 or not all(isinstance(cell, float) for cell in first):
        return np.array(first, dtype=object)
    return np.mean([read_cells(table, j) for table in tables], axis=0)


def _refill(column: Any, values: Any) -> Any:
    """Return a column of a frame with values in place of its empty cells, in its own type."""
    cells = column.to_list()
    is_integer = "int" in str(column.dtype).lower()
    is_boolean = str(column.dtype).lower() in ("bool", "boolean")
    empty = [cell is None for cell in read_cells(column.to_frame(), 0)]
    for row in np.flatnonzero(empty):
        value = values[row]
        cells[row] = bool(value) if is_boolean else round(value) if is_integer else value
    if is_from(column, "polars"):
        return type(column)(column.name, cells, dtype=column.dtype)
    return type(column)(cells, index=column.index, dtype=column.dtype)


def _frame_like(X: Any, columns: dict[str, Any]) -> Any:
    """Return a data frame of the library of X."""
    if is_from(X, "polars"):
        return type(X)(columns)
    return type(X)(columns, index=X.index)
