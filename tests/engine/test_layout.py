"""The columns of a table as the columns of a model, there and back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from anypca.engine import Layout, check_data, executor_for, summarise
from anypca.families import Bernoulli, Gaussian, Mixed, Ordinal, Poisson, ZeroInflatedGamma, resolve_columns
from anypca.families.forms import Combination, Constant, Copy, Excluded, Form, Recoded

NAMES = ("id", "a", "sex", "b", "one", "twice")


def make_layout():
    layout = Layout(6, table_names=NAMES).with_forms({2: Recoded((1.0, 2.0))})
    layout = layout.with_forms({0: Excluded(reason="numbers"), 4: Constant(1.0), 5: Copy(3, 1.0, 2.0)})
    table = make_table()
    data = check_data(table)
    return layout.adapted(summarise(data, executor_for(data, 1)))


def make_table():
    table = np.random.default_rng(0).poisson(3.0, size=(8, 6)).astype(float)
    table[:, 0] = np.arange(8)
    table[:, 2] = 1 + np.arange(8) % 2
    table[:, 4] = 1.0
    table[:, 5] = 1.0 + 2.0 * table[:, 3]
    return table


def test_an_identity_is_free():
    data = check_data(make_table())
    layout = Layout(6)
    assert layout.is_identity
    assert layout.lay_out(data) is data
    assert layout.pad(data.blocks[0].values()) is not None
    assert layout.names == tuple(f"x{j}" for j in range(6))


def test_names_and_places():
    layout = make_layout()
    assert layout.names == ("a", "sex", "b")
    assert layout.sources.tolist() == [1, 2, 3]
    assert layout.n_columns == 3
    assert list(layout.left_out) == [0, 4, 5]
    assert layout.reported_names(NAMES) == NAMES


def test_there_and_back():
    layout, table = make_layout(), make_table()
    rows = layout.split(table)
    assert rows.flags.c_contiguous
    assert_array_equal(rows[:, 1], table[:, 2] - 1.0)
    back = layout.join(rows)
    assert_array_equal(back[:, 1:], table[:, 1:])
    assert_array_equal(back[:, 0], np.full(8, table[:, 0].mean()))


def test_deviations_come_back_in_the_units_of_the_table():
    layout, table = make_layout(), make_table()
    found = layout.join_deviations(layout.split(table), np.full((8, 3), 0.5))
    assert_array_equal(found[0], [table[:, 0].std(), 0.5, 0.5, 0.5, 0.0, 1.0])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_matrix], ids=lambda f: f.__name__)
def test_blocks_are_laid_out_lazily(make):
    layout, table = make_layout(), make_table()
    data = layout.lay_out(check_data(make(table), block_rows=3))
    assert (data.n_samples, data.n_features) == (8, 3)
    assert_array_equal(np.concatenate([block.values() for block in data.blocks]), layout.split(table))
    assert_array_equal(np.concatenate([layout.table_rows(block) for block in data.blocks]), table)
    assert data.blocks[0].source is data.blocks[1].source


def test_leaving_out_keeps_blocks_sparse():
    table = make_table()
    data = check_data(sparse.csr_array(table.astype(int)))
    laid = Layout(6).with_forms({0: Excluded(), 4: Constant(1.0)}).lay_out(data)
    product = laid.blocks[0].matrix()
    assert sparse.issparse(product)
    assert_array_equal(product.toarray(), table[:, [1, 2, 3, 5]])


def test_memory_maps_are_not_loaded(tmp_path):
    table = make_table()
    np.save(tmp_path / "x.npy", table)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = make_layout().lay_out(check_data(mapped))
    assert np.shares_memory(data.blocks[0].source.source.array, mapped)
    assert_array_equal(data.blocks[0].values(), make_layout().split(table))


def test_dask_blocks_are_laid_out_where_they_are():
    dask_array = pytest.importorskip("dask.array")
    layout, table = make_layout(), make_table()
    data = layout.lay_out(check_data(dask_array.from_array(table, chunks=(4, 3))))
    with executor_for(data, 1) as executor:
        found = np.concatenate(executor.collect(lambda block: block.values(), data))
    assert_array_equal(found, layout.split(table))


@pytest.mark.parametrize("shape", [(8,), (8, 1), (8, 6)])
def test_offsets_follow_their_columns(shape):
    offset = np.random.default_rng(1).normal(size=shape)
    block = make_layout().lay_out(check_data(make_table(), offset=offset)).blocks[0]
    assert_array_equal(block.offset(), offset[:, [1, 2, 3]] if shape == (8, 6) else offset.reshape(8, 1))


def test_families_of_the_model_and_of_the_report():
    layout = make_layout()
    table_family, _ = resolve_columns(["gaussian", "poisson", "ordinal", "poisson", "gamma", "gaussian"], 6)
    family = layout.family(table_family)
    assert family == Mixed((Poisson(), Bernoulli()), (0, 1, 0))
    padded = layout.pad_family(family, table_family)
    assert padded.take(layout.sources) == family
    assert padded.columns(slice(4, 5)) == table_family.columns(slice(4, 5))
    assert layout.pad_family(Poisson(), Poisson()) == Poisson()


def test_a_settled_family_lays_out_in_the_same_way():
    layout = make_layout()
    table_family, _ = resolve_columns("poisson", 6)
    family = layout.family(table_family)
    for given in (family, layout.pad_family(family, table_family)):
        again, forms = resolve_columns(layout.settled(given), 6)
        assert Layout(6, tuple(forms.items()), table_names=NAMES) == layout
        assert layout.family(again) == family


def test_numbers_of_columns_are_padded_and_picked():
    layout = make_layout()
    loadings = np.arange(1.0, 7.0).reshape(2, 3)
    padded = layout.pad(loadings, 1)
    assert_array_equal(padded, [[0, 1, 2, 3, 0, 0], [0, 4, 5, 6, 0, 0]])
    assert_array_equal(layout.pick(padded, 1), loadings)
    assert_array_equal(layout.pad(loadings.T, 0), padded.T)


def test_entries_are_spread_over_the_model():
    layout = make_layout()
    owner, columns, values = layout.spread(np.array([0, 2, 3, 4]), np.array([5.0, 2.0, 7.0, 1.0]))
    assert (owner.tolist(), columns.tolist(), values.tolist()) == ([1, 2], [1, 2], [1.0, 7.0])


def test_predictors_of_columns():
    layout = make_layout()
    assert layout.predictors(np.array([1, 3, 5])).tolist() == [0, 2, 2]
    with pytest.raises(ValueError, match="column 'one' is left out of the model"):
        layout.predictors(np.array([1, 4]))


def test_strange_values_of_new_rows_are_named():
    table = make_table()
    table[2, 2] = 3.0
    with pytest.raises(ValueError, match="column 'sex' has the value 3, which it did not have in fit"):
        make_layout().split(table)


def test_levels_between_which_a_mean_lies():
    form = Recoded((1.0, 2.0, 5.0))
    assert form.parts == (Ordinal(),)
    assert form.mean(np.array([[0.0], [1.5], [2.0]])).tolist() == [1.0, 3.5, 5.0]


@pytest.mark.parametrize(
    ("forms", "message"),
    [
        ({0: Constant(), 1: Constant()}, "every column of X is left out"),
        ({2: Constant()}, "columns from 0 to 1"),
        ({0: Constant(), 1: Copy(0)}, "every column|cannot be the source"),
    ],
)
def test_impossible_layouts(forms, message):
    with pytest.raises(ValueError, match=message):
        Layout(2).with_forms(forms)


def test_copies_need_a_source_that_stays():
    with pytest.raises(ValueError, match="column 0 is left out and cannot be the source of a copy"):
        Layout(3).with_forms({0: Excluded(), 1: Copy(0)})


def test_combinations_come_back_from_their_columns():
    layout = Layout(4).with_forms({1: Combination((0, 3), 1.0, (2.0, -1.0)), 2: Copy(3, 0.0, 3.0)})
    rows = np.array([[1.0, 5.0], [2.0, 0.0]])
    assert_array_equal(layout.join(rows), [[1.0, -2.0, 15.0, 5.0], [2.0, 5.0, 0.0, 0.0]])
    # Of independent columns: the root of 4 * 9 + 16.
    assert layout.join_deviations(rows, np.array([[3.0, 4.0]] * 2))[:, 1] == pytest.approx(np.sqrt(52.0))


@pytest.mark.parametrize("levels", [(1.0,), (2.0, 1.0), (1.0, 1.0)])
def test_levels_increase(levels):
    with pytest.raises(ValueError, match="two or more increasing numbers"):
        Recoded(levels)


def test_forms_are_values():
    assert Copy(1, 0.0, 2.0) == eval(repr(Copy(1, 0.0, 2.0)))
    assert isinstance(Excluded(), Form)
    assert hash(Recoded((0, 2))) == hash(Recoded((0.0, 2.0)))
    assert Gaussian() != Excluded()


def test_zeros_are_missing_among_the_amounts() -> None:
    """They tell of a row by being zeros alone, whatever amount would stand in their place."""
    parts = ZeroInflatedGamma().split(np.array([0.0, 2.5, np.nan]), "rain")
    assert_array_equal(parts, [[0.0, np.nan], [1.0, 2.5], [np.nan, np.nan]])
