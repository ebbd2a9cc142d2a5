"""Map the columns of a table to the columns of a model and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Floats, Ints
from anypca._words import listed, quoted
from anypca.columns.forms import Copy, Excluded, Form, Moments, number_text
from anypca.columns.labels import Labels
from anypca.engine import Block, Data, Executor
from anypca.engine._interface import Source
from anypca.families import Family, Mixed


@dataclass(frozen=True)
class EncodedSource:
    """Rows of another source, read on demand: some of its columns, or the columns that a layout makes of them."""

    source: Source
    columns: Ints
    layout: Layout | None = None

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns), NaN where missing."""
        rows = self.source.read(start, stop)
        return np.take(rows, self.columns, axis=1) if self.layout is None else self.layout.split(rows)

    def matrix(self, start: int, stop: int) -> Any:
        """The same for products; sparse if the source is and columns are only dropped."""
        rows = self.source.matrix(start, stop) if self.layout is None else None
        if rows is None or not sparse.issparse(rows):
            return self.read(start, stop)
        return rows[:, self.columns]

    def rows(self, start: int, stop: int) -> EncodedSource:
        """The same rows as a source of their own."""
        return replace(self, source=self.source.rows(start, stop))


@dataclass(frozen=True)
class Layout:
    """Map from the columns of a table to the columns of a model: unchanged, dropped, recoded, or split.

    Parameters
    ----------
    n_features : int
        Number of columns of the table.
    forms : tuple of (int, Form)
        The columns that do not enter as they are, each with its form; all others do.
    table_names : tuple of str, optional
        Names of the table's columns; ``x0``, ``x1``, ... when not given.
    labels : tuple of (int, Labels)
        Labels of columns of text, answers and categories, by number of the column.

    Notes
    -----
    The columns of the model are in the order of the table. Where no column enters as several (`is_one_to_one`),
    loadings and other numbers of the columns are reported for the table's columns, with zeros for dropped
    columns; otherwise for the columns of the model, whose names are `names`.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.columns.forms import Constant, Recoded
    >>> layout = Layout(3, table_names=("site", "sex", "age")).with_forms({0: Constant(7.0)})
    >>> layout = layout.with_forms({1: Recoded((1.0, 2.0))})
    >>> layout.names
    ('sex', 'age')
    >>> layout.split(np.array([[7.0, 2.0, 31.0]])).tolist()
    [[1.0, 31.0]]
    >>> layout.join(np.array([[0.25, 31.0]])).tolist()
    [[7.0, 1.25, 31.0]]
    """

    n_features: int
    forms: tuple[tuple[int, Form], ...] = ()
    table_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    labels: tuple[tuple[int, Labels], ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", tuple(sorted(self.forms, key=lambda pair: pair[0])))
        columns = [column for column, _ in self.forms]
        if any(not 0 <= column < self.n_features for column in columns) or len(set(columns)) < len(columns):
            raise ValueError(
                f"forms are given to columns from 0 to {self.n_features - 1}, each once; got {columns}."
            )
        absent = {column for column, form in self.forms if form.is_dropped}
        if len(absent) == self.n_features:
            why = listed(list(dict.fromkeys(form.reason or form.name for _, form in self.forms)))
            raise ValueError(
                f"every column of X is left out ({quoted(self._table_labels)}: {why}), which leaves nothing to fit. "
                "Give a table with a column that varies, or name families for the columns that matter."
            )
        bad = [source for _, form in self.forms for source in form.reconstructed_from if source in absent]
        if bad:
            raise ValueError(
                f"column {bad[0]} is dropped and cannot be the source of a copy or a combination."
            )

    @property
    def is_identity(self) -> bool:
        """Whether every column enters as it is."""
        return not self.forms

    @cached_property
    def is_one_to_one(self) -> bool:
        """Whether no column enters as several."""
        return all(len(form.parts) <= 1 for _, form in self.forms)

    @cached_property
    def widths(self) -> Ints:
        """For each column of the table, how many columns it has in the model; shape (n_features,)."""
        widths = np.ones(self.n_features, dtype=np.intp)
        for column, form in self.forms:
            widths[column] = len(form.parts)
        return widths

    @cached_property
    def starts(self) -> Ints:
        """For each column of the table, its first column in the model; shape (n_features,)."""
        return np.cumsum(self.widths) - self.widths

    @cached_property
    def sources(self) -> Ints:
        """For each column of the model, the column of the table that it comes from; shape (n_columns,)."""
        return np.repeat(np.arange(self.n_features), self.widths)

    @property
    def n_columns(self) -> int:
        """Number of columns of the model."""
        return int(self.widths.sum())

    @property
    def dropped(self) -> dict[int, Form]:
        """The columns that are not in the model, with their forms."""
        return {column: form for column, form in self.forms if form.is_dropped}

    @cached_property
    def _table_labels(self) -> tuple[str, ...]:
        return self.table_names or tuple(f"x{j}" for j in range(self.n_features))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the model."""
        return self.names_for(self._table_labels)

    def number(self, column: int | str) -> int:
        """The number of a column of the table that is given by its name or its number."""
        names = self.table_names or ()
        return names.index(column) if column in names else int(column)

    def categories(self, column: int | str) -> tuple[Any, ...]:
        """The categories of a column of labels, or of a nominal one, given by its name or its number.

        They are in the order of their numbers; columns of other kinds have none.
        """
        number = self.number(column)
        labels, form = dict(self.labels).get(number), dict(self.forms).get(number)
        return getattr(form, "levels", ()) if labels is None else labels.levels

    def names_for(self, table_names: tuple[str, ...]) -> tuple[str, ...]:
        """The same when the columns of the table have these names."""
        if self.is_identity:
            return table_names
        forms, known = dict(self.forms), dict(self.labels)
        parts = [
            forms[j].labels(name, known[j].text if j in known else number_text) if j in forms else (name,)
            for j, name in enumerate(table_names)
        ]
        return tuple(part for group in parts for part in group)

    def reported_names(self, table_names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the columns that loadings are reported for: the table's, or the model's where these are more."""
        return table_names if self.is_one_to_one else self.names_for(table_names)

    # ------------------------------------------------------------------------------------- making it

    def with_forms(self, forms: Mapping[int, Form]) -> Layout:
        """The same with other forms for some columns; a new one replaces an old one."""
        return replace(self, forms=tuple({**dict(self.forms), **forms}.items()))

    def with_levels(self, data: Data, executor: Executor) -> Layout:
        """The same with forms that know the values of their columns, from a pass over the table if any needs it."""
        columns = [column for column, form in self.forms if form.needs_levels]
        if not columns:
            return self

        def look(block: Block) -> list[Floats]:
            values = block.values()
            return [np.unique(values[:, column][~np.isnan(values[:, column])]) for column in columns]

        found = zip(*executor.collect(look, data), strict=True)
        levels = [tuple(np.unique(np.concatenate(parts)).tolist()) for parts in found]
        forms = dict(self.forms)
        for column, values in zip(columns, levels, strict=True):
            forms[column] = forms[column].with_levels(values, self._table_labels[column])
        return self.with_forms(forms)

    def without_names(self) -> Layout:
        """Return the layout without the labels of excluded columns, which may be names of persons."""
        absent = self.dropped
        labels = [
            (column, replace(labels, levels=()) if isinstance(absent.get(column), Excluded) else labels)
            for column, labels in self.labels
        ]
        return replace(self, labels=tuple(labels))

    def adapted(self, facts: Moments) -> Layout:
        """Return the layout with the facts of the table that forms need."""
        return replace(
            self, forms=tuple((column, form.adapted(facts, column)) for column, form in self.forms)
        )

    # ------------------------------------------------------------------------------------ there

    def lay_out(self, data: Data) -> Data:
        """Encode a table, lazily.

        Parameters
        ----------
        data : Data
            With ``n_features`` columns.

        Returns
        -------
        Data
            The same object for an identity. A sparse table stays sparse if columns are only dropped.
        """
        if self.is_identity:
            return data
        may_miss = data.may_miss or any(form.makes_missing for _, form in self.forms)
        return replace(
            data,
            blocks=self._lay_out_blocks(data, may_miss),
            n_features=self.n_columns,
            feature_names=None if data.feature_names is None else self.names,
            may_miss=may_miss,
            labels={},
        )

    def _lay_out_blocks(self, data: Data, may_miss: bool) -> Any:
        if data.is_distributed:
            from anypca.engine.dask import change_blocks  # dask is optional

            return change_blocks(data.blocks, _encode_block, self, may_miss)
        known: dict[int, Any] = {}
        return tuple(_encode_block(block, self, may_miss, known) for block in data.blocks)

    def table_rows(self, block: Block) -> Floats:
        """The rows of the table (rows, n_features) that a block which was laid out came from, NaN where missing."""
        if self.is_identity:
            return block.values()
        assert isinstance(block.source, EncodedSource)
        return block.source.source.read(block.first, block.first + block.n_rows)

    def split(self, table: Floats) -> Floats:
        """Rows of the table (rows, n_features) as rows of the model (rows, n_columns), a new array."""
        rows = np.take(table, self.sources, axis=1)
        for column, form in self.forms:
            if not form.is_dropped:
                rows[:, self.part(column)] = form.split(table[:, column], self._table_labels[column])
        return rows

    def part(self, column: int) -> slice:
        """The columns of the model that a column of the table has."""
        start = int(self.starts[column])
        return slice(start, start + int(self.widths[column]))

    def family(self, table_family: Family) -> Family:
        """The family of the model's columns, given the family of the unchanged columns of the table.

        Parameters
        ----------
        table_family : Family
            Of all columns of the table; a stand-in for columns with forms.
        """
        if self.is_identity:
            return table_family
        plain = np.setdiff1d(np.arange(self.n_features), [column for column, _ in self.forms])
        groups = table_family.take(plain).member_columns(plain.size) if plain.size else []
        members = [member for member, _ in groups]
        assignment = np.empty(self.n_columns, dtype=np.intp)
        for number, (_, index) in enumerate(groups):
            assignment[self.starts[plain[index]]] = number
        for column, form in self.forms:
            for place, part in enumerate(form.parts, start=int(self.starts[column])):
                if part not in members:
                    members.append(part)
                assignment[place] = members.index(part)
        return members[0] if len(members) == 1 else Mixed(tuple(members), tuple(assignment.tolist()))

    def settled(self, family: Family) -> Any:
        """A family as a user can give it, with which the table is laid out in the same way again.

        Parameters
        ----------
        family : Family
            Of the columns of the model, or as reported for the table's columns.
        """
        if self.is_identity:
            return family
        forms = dict(self.forms)
        is_table = (
            isinstance(family, Mixed) and self.is_one_to_one and len(family.assignment) == self.n_features
        )
        places = np.arange(self.n_features) if is_table else self.starts
        return [forms.get(j) or family.take(slice(int(i), int(i) + 1)) for j, i in enumerate(places)]

    # ------------------------------------------------------------------------------------ and back

    def join(self, means: Floats) -> Floats:
        """Means of the model's columns (rows, n_columns) as means of the table's (rows, n_features)."""
        return self._back(means, lambda form, part: form.mean(means[:, part]))

    def join_deviations(self, means: Floats, deviations: Floats) -> Floats:
        """Standard deviations of the table's entries (rows, n_features) from means and deviations of the model's."""

        def find(form: Form, part: slice) -> Floats:
            return form.deviation(means[:, part], deviations[:, part])

        return self._back(deviations, find, lambda form, source: form.deviation(source, source))

    def join_draws(self, draws: Floats, means: Floats, rng: np.random.Generator) -> Floats:
        """Rows of the table (rows, n_features) from rows that were drawn from the model, and their means."""
        return self._back(draws, lambda form, part: form.draw(draws[:, part], means[:, part], rng))

    def _back(
        self,
        model: Floats,
        find: Callable[[Form, slice], Floats],
        reconstruct: Callable[[Form, Floats], Floats] = lambda form, sources: form.mean(sources),
    ) -> Floats:
        """Join columns of the model: ``find`` gives columns with forms, ``reconstruct`` those computed from others."""
        if self.is_identity:
            return model
        table = np.empty((len(model), self.n_features), dtype=model.dtype)
        alone = self.widths == 1
        table[:, alone] = model[:, self.starts[alone]]
        for column, form in self.forms:
            if not form.reconstructed_from:
                table[:, column] = find(form, self.part(column))
        for column, form in self.forms:
            if form.reconstructed_from:
                table[:, column] = reconstruct(form, table[:, form.reconstructed_from])
        return table

    def fill(self, block: Block, filled: Floats) -> Floats:
        """Rows of the table: its own entries, and what comes back from ``filled`` (rows, n_columns) where missing."""
        if self.is_identity:
            return filled
        table = self.table_rows(block)
        return np.where(np.isnan(table), self.join(filled), table).astype(filled.dtype, copy=False)

    def fill_with_deviations(self, block: Block, filled: Floats, deviations: Floats) -> tuple[Floats, Floats]:
        """The same, and the standard deviations of imputed entries, 0 elsewhere."""
        if self.is_identity:
            return filled, deviations
        found = self.join_deviations(filled, deviations)
        found[~np.isnan(self.table_rows(block))] = 0.0
        return self.fill(block, filled), found

    # ------------------------------------------------------------------------------------ single entries

    def spread(self, columns: Ints, values: Floats) -> tuple[Ints, Ints, Floats]:
        """Entries of the table as entries of the model.

        Parameters
        ----------
        columns : ndarray of int of shape (n_entries,)
            In the table.
        values : ndarray of shape (n_entries,)

        Returns
        -------
        owner : ndarray of int of shape (n_parts,)
            The number of the entry that a part belongs to; entries of columns that are left out have no part.
        columns : ndarray of int of shape (n_parts,)
            In the model.
        values : ndarray of shape (n_parts,)
        """
        if self.is_identity:
            return np.arange(len(columns)), columns, values
        owner = np.repeat(np.arange(len(columns)), self.widths[columns])
        first = np.cumsum(self.widths[columns]) - self.widths[columns]
        places = self.starts[columns][owner] + np.arange(len(owner)) - first[owner]
        parts = values[owner].astype(float)
        for column, form in self.forms:
            of = columns == column
            if not form.is_dropped and of.any():
                split = form.split(values[of].astype(float), self._table_labels[column])
                parts[np.isin(owner, np.flatnonzero(of))] = split.ravel()
        is_there = ~np.isnan(parts)
        return owner[is_there], places[is_there], parts[is_there]

    def predictors(self, columns: Ints) -> Ints:
        """The columns of the model whose predictors decide columns of the table.

        A copy has its source's predictor, a column with several parts its last part's.

        Raises
        ------
        ValueError
            If a column has no predictor.
        """
        if self.is_identity:
            return columns
        last = self.starts + self.widths - 1
        for column, form in self.forms:
            if isinstance(form, Copy):
                last[column] = last[form.source]
            elif form.is_dropped and (columns == column).any():
                raise ValueError(
                    f"column {self._table_labels[column]!r} is left out of the model ({form.name}) and has no "
                    "predictor. Ask for other columns."
                )
        return last[columns]

    # ------------------------------------------------------------------------ numbers of the columns

    def pad(self, values: npt.NDArray[Any], axis: int = -1, fill: float = 0.0) -> npt.NDArray[Any]:
        """Numbers of the model's columns as reported: for the table's columns, ``fill`` where left out.

        The same array where columns enter as several, or none is left out.
        """
        if not self.is_one_to_one or not self.dropped:
            return values
        shape = list(values.shape)
        shape[axis] = self.n_features
        padded = np.full(shape, fill, dtype=values.dtype)
        np.moveaxis(padded, axis, -1)[..., self.sources] = np.moveaxis(values, axis, -1)
        return padded

    def pick(self, values: npt.NDArray[Any], axis: int = -1) -> npt.NDArray[Any]:
        """The inverse of `pad`."""
        if not self.is_one_to_one or not self.dropped:
            return values
        return np.take(values, self.sources, axis=axis)

    def pad_family(self, family: Family, table_family: Family) -> Family:
        """The family as reported, for all columns; dropped columns have their family in ``table_family``."""
        if not self.is_one_to_one or not self.dropped or family.take(np.zeros(1, dtype=int)) is family:
            return family
        groups = [(member, self.sources[index]) for member, index in family.member_columns(self.n_columns)]
        absent = np.asarray(list(self.dropped))
        others = table_family.take(absent).member_columns(absent.size)
        groups += [(member, absent[index]) for member, index in others]
        assignment = np.empty(self.n_features, dtype=np.intp)
        for number, (_, columns) in enumerate(groups):
            assignment[columns] = number
        return Mixed(tuple(member for member, _ in groups), tuple(assignment.tolist()))


def _encode_block(block: Block, layout: Layout, may_miss: bool, known: dict[int, Any] | None = None) -> Block:
    """Encode a block; ``known`` are encoded sources by the identity of the source, so that blocks share them."""
    known = {} if known is None else known
    is_picked = all(form.is_dropped for _, form in layout.forms)
    own = EncodedSource(block.source, layout.sources, None if is_picked else layout)
    offset, entry = block.offset_source, block.entry_source
    # An offset with a single column belongs to rows, and to all columns alike.
    if offset is not None and offset.read(0, 0).shape[1] > 1:
        offset = EncodedSource(offset, layout.sources)
    return replace(
        block,
        source=known.setdefault(id(block.source), own),
        offset_source=offset,
        may_miss=may_miss,
        columns=layout.sources,
        entry_source=None if entry is None else EncodedSource(entry, layout.sources),
    )
