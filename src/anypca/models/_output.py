"""Tables that models give back, in the form in which users gave theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anypca._compat import output_kind
from anypca._typing import Floats
from anypca.columns import decode
from anypca.columns.encoding import holds_labels
from anypca.columns.forms import Excluded

if TYPE_CHECKING:
    from anypca.models._base import LatentModel


def to_output_frame(model: LatentModel, table: Floats, X: Any = None) -> Any:
    """A table of the columns of ``fit``, with labels where they have labels.

    Parameters
    ----------
    model : fitted estimator
    table : ndarray of shape (n_rows, n_features)
    X : table of the same shape, optional
        The rows that it comes from.

    Returns
    -------
    table
        A data frame if ``set_output`` asks for it, or if X is one and some column holds labels; an array of objects if
        X is one with labels; otherwise the table itself.
    """
    layout = model.layout_
    labels = dict(layout.labels)
    like = output_kind(model)
    if like is None:
        if not labels or not holds_labels(X):
            return table
        like = X
    names = getattr(model, "feature_names_in_", None)
    names = [f"x{j}" for j in range(table.shape[1])] if names is None else list(map(str, names))
    outside = [j for j, form in layout.forms if isinstance(form, Excluded) and j in labels]
    return decode(table, labels, like, names, outside, X)


def to_named_output(model: LatentModel, table: Floats, names: Sequence[Any]) -> Any:
    """A table whose columns have names of their own, as a data frame if ``set_output`` asks for it."""
    like = output_kind(model)
    return table if like is None else decode(table, {}, like, list(map(str, names)))
