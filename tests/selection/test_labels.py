"""Choosing dimensions of tables with text and categories, and of queries of polars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from anypca import EPCA, SePCA
from anypca.exceptions import DataConversionWarning
from anypca.selection import compare_ranks, entry_cross_validate, select_rank


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    z = rng.normal(size=120)
    frame = pd.DataFrame({f"x{j}": 1.5 * z + rng.normal(size=120) for j in range(4)})
    colours = np.clip(np.round(z + 0.5 * rng.normal(size=120)), -1, 1).astype(int) + 1
    frame["colour"] = np.array(["red", "green", "blue"])[colours]
    frame["smokes"] = np.where(z + rng.normal(size=120) > 0, "yes", "no")
    frame["rain"] = np.where(rng.random(120) < 0.4, 0.0, np.round(np.exp(rng.normal(size=120)), 2))
    return frame


@pytest.mark.parametrize("criterion", ["marginal_bic", "held_out"])
def test_select_rank_takes_text(table, criterion):
    chosen = select_rank(EPCA(), table, ranks=[1, 2], criterion=criterion, cv=3)
    assert chosen.best_rank == 1
    # The model is that of the user's table: it knows the labels.
    assert chosen.best_estimator_.transform(table).shape == (120, 1)
    assert set(chosen.best_estimator_.impute(table)["colour"]) == {"red", "green", "blue"}


def test_hidden_entries_of_columns_in_parts_have_their_own_families(table):
    """Columns behind one that enters as several had the families of their neighbours."""
    numbers = table[["rain", "x0", "x1"]].assign(bit=(table["smokes"] == "yes").astype(float))
    numbers = numbers[["rain", "bit", "x0", "x1"]]
    given = {"rain": "zero_inflated_log_normal", "bit": "bernoulli", "default": "gaussian"}
    auto, insisted = (
        entry_cross_validate(EPCA(1, family=family), numbers, cv=3).l_miss for family in ("auto", given)
    )
    assert auto == pytest.approx(insisted, abs=0.05)


def test_compare_ranks_takes_text(table):
    assert compare_ranks(table, ["parallel", "bic"]).ranks == {"parallel": 1, "bic": 1}


@pytest.mark.parametrize("model", [EPCA(1), SePCA(2)], ids=lambda model: type(model).__name__)
def test_queries_of_polars_with_text(table, model):
    frame = pl.from_pandas(table.assign(member=table["x0"] > 0))
    eager, lazy = (model.fit(X).transform(frame) for X in (frame, frame.lazy()))
    np.testing.assert_allclose(np.abs(lazy), np.abs(eager), atol=1e-6)
    np.testing.assert_allclose(model.transform(frame.lazy()), lazy, atol=1e-8)


def test_unknown_labels_of_a_query_are_missing(table):
    model = EPCA(1).fit(pl.from_pandas(table).lazy())
    other = pl.from_pandas(table.head(20)).with_columns(
        pl.when(pl.int_range(20) == 3).then(pl.lit("violet")).otherwise("colour").alias("colour")
    )
    with pytest.warns(DataConversionWarning, match="violet"):
        found = model.transform(other.lazy())
    assert np.isfinite(found).all()
