"""Row groups of parquet files, datasets of Arrow and relations of DuckDB give what the same table in memory gives."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA, PPCA
from anypca.engine import check_data, streams

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
dataset = pytest.importorskip("pyarrow.dataset")

X = np.random.default_rng(0).poisson(2.0, size=(50, 4)).astype(float)
NAMES = list("abcd")
TABLE = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})


def open_stream(kind, table, folder):
    path = folder / "t.parquet"
    parquet.write_table(table, path, row_group_size=7)
    if kind == "parquet":
        return parquet.ParquetFile(path)
    if kind == "dataset":
        return dataset.dataset(path)
    return pytest.importorskip("duckdb").connect().read_parquet(str(path))


@pytest.fixture(params=["parquet", "dataset", "duckdb"])
def stream(request, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_BATCH_ENTRIES", 40)  # ten rows at once
    return open_stream(request.param, TABLE, tmp_path)


def test_blocks_are_read_from_a_map(stream):
    data = check_data(stream, block_rows=8)
    assert (data.n_samples, data.n_features, data.feature_names) == (50, 4, tuple(NAMES))
    np.testing.assert_array_equal(np.vstack([block.read().x for block in data.blocks]), X)
    assert isinstance(streams.spool(stream).values, np.memmap)


def test_no_more_than_a_batch_is_in_memory(stream, monkeypatch):
    sizes = []
    read = streams._read
    monkeypatch.setattr(
        streams, "_read", lambda batch, dtype: sizes.append(batch.num_rows) or read(batch, dtype)
    )
    check_data(stream)
    assert sum(sizes) == 50
    assert max(sizes) <= 10


@pytest.mark.parametrize("model", [PPCA(2), EPCA(2, family="poisson", tol=1e-9)], ids=["ppca", "epca"])
def test_fits_are_those_of_the_table_in_memory(stream, model):
    scores = model.fit(stream).transform(stream)
    assert list(model.feature_names_in_) == NAMES
    frame = TABLE.to_pandas()
    # Blocks of other sizes round otherwise, which first sweeps in single precision show most.
    np.testing.assert_allclose(scores, model.fit(frame).transform(frame), atol=1e-6)


@pytest.mark.parametrize("kind", ["parquet", "dataset", "duckdb"])
def test_types_of_columns(kind, tmp_path):
    columns = {"a": [1, None, 3], "b": [True, False, None], "c": [0.5, 1.5, 2.5]}
    data = check_data(open_stream(kind, pa.table(columns), tmp_path)).blocks[0].read()
    np.testing.assert_array_equal(
        data.observed, [[True, True, True], [False, True, True], [True, False, True]]
    )
    np.testing.assert_array_equal(data.x[data.observed], [1.0, 1.0, 0.5, 0.0, 1.5, 3.0, 2.5])
    with pytest.raises(ValueError, match="column 'k' of X is of type string; numbers are needed"):
        check_data(open_stream(kind, pa.table({"a": [1.0], "k": ["u"]}), tmp_path))
    single = pa.table({"a": pa.array([1.0, 2.0], pa.float32())})
    assert check_data(open_stream(kind, single, tmp_path)).dtype == np.float32
    with pytest.raises(ValueError, match="0 sample"):
        check_data(open_stream(kind, single.slice(0, 0), tmp_path))


def test_an_expression_of_duckdb_is_run_once(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql("select random() as a, random() as b from range(2000)")
    data = check_data(relation, block_rows=100)
    first, second = (np.vstack([block.read().x for block in data.blocks]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
