"""Lazy frames and scans of parquet files are read block by block, and give what the same table in memory gives."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA, PPCA
from anypca.engine import check_data

polars = pytest.importorskip("polars")

X = np.random.default_rng(0).poisson(2.0, size=(50, 4)).astype(float)
NAMES = list("abcd")


@pytest.fixture(params=["frame", "parquet"])
def lazy(request, tmp_path):
    frame = polars.DataFrame(X, schema=NAMES)
    if request.param == "frame":
        return frame.lazy()
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=7)
    return polars.scan_parquet(tmp_path / "t.parquet")


def test_blocks(lazy):
    data = check_data(lazy, block_rows=8)
    assert (data.n_samples, data.n_features, data.feature_names) == (50, 4, tuple(NAMES))
    np.testing.assert_array_equal(np.vstack([block.read().x for block in data.blocks]), X)
    block = data.blocks[3]
    np.testing.assert_array_equal(block.source.rows(5, 9).read(1, 3), X[6:8])


@pytest.mark.parametrize("model", [PPCA(2), EPCA(2, family="poisson", max_iter=5)], ids=["ppca", "epca"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_are_those_of_the_table_in_memory(lazy, model):
    scores = model.fit(lazy).transform(lazy)
    expected = model.fit(polars.DataFrame(X, schema=NAMES)).transform(polars.DataFrame(X, schema=NAMES))
    # The same blocks and the same sums: nothing but the way to the rows differs.
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


def test_nulls_are_missing_and_text_is_refused():
    frame = polars.DataFrame({"a": [1.0, None, 3.0], "b": [1, 2, 3]}).lazy()
    np.testing.assert_array_equal(check_data(frame).blocks[0].read().observed[:, 0], [True, False, True])
    with pytest.raises(ValueError, match="column 'k' of X is of type String"):
        check_data(frame.with_columns(k=polars.lit("u")))


def test_single_precision_stays():
    frame = polars.DataFrame({"a": [1.0, 2.0]}, schema={"a": polars.Float32}).lazy()
    assert check_data(frame).dtype == np.float32
