"""What the report says, for every model and kind of table."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from anypca import (
    BEPCA,
    EPCA,
    GSPPCA,
    ISFA,
    PLNPCA,
    PPCA,
    SPCA,
    SSPCA,
    VAE,
    Autoencoder,
    KernelPCA,
    PiecewisePCA,
    SePCA,
)
from anypca._words import percent
from anypca.datasets import make_low_rank
from anypca.exceptions import NotFittedError
from anypca.report import write_report

# Chains that are short enough for a test are too short to agree.
pytestmark = pytest.mark.filterwarnings("ignore:ISFA. the chains disagree")

SECTIONS = ["table", "number", "components", "rows", "quality", "convergence", "reproduction"]

MODELS = [
    pytest.param(PPCA(2), "real", {"scree", "loadings1", "shares", "ranks"}, id="PPCA"),
    pytest.param(EPCA(2, family="poisson"), "counts", {"scree", "loadings2", "ranks", "trace"}, id="EPCA"),
    pytest.param(
        # So close that the last fit takes several sweeps.
        SePCA(3, family="poisson", tol=1e-9),
        "counts",
        {"loadings1", "trace", "ranks"},
        id="SePCA",
    ),
    pytest.param(
        BEPCA(2, family="gaussian", n_draws=60, n_tune=60),
        "real",
        {"scree", "loadings1", "trace"},
        id="BEPCA",
    ),
    pytest.param(
        ISFA(family="gaussian", n_draws=20, n_tune=20, n_chains=1), "real", {"loadings1", "trace"}, id="ISFA"
    ),
    pytest.param(GSPPCA(1), "real", {"scree", "path", "shares", "trace"}, id="GSPPCA"),
    pytest.param(SPCA(2, n_nonzero=3), "real", {"scree", "loadings2", "shares"}, id="SPCA"),
    pytest.param(SSPCA(2), "real", {"scree", "loadings2", "shares", "trace"}, id="SSPCA"),
    pytest.param(Autoencoder(2, tol=0.1), "real", {"scree", "loadings1"}, id="Autoencoder"),
    pytest.param(
        VAE(2, family="poisson", n_iter_no_change=2),
        "counts",
        {"scree", "loadings2", "ranks", "trace"},
        id="VAE",
    ),
    pytest.param(KernelPCA(2), "real", {"scree", "loadings1"}, id="KernelPCA"),
    pytest.param(PLNPCA(2), "counts", {"scree", "loadings1", "ranks"}, id="PLNPCA"),
    pytest.param(
        PiecewisePCA(2, n_pieces=2, n_init=2), "real", {"scree", "loadings1", "ranks"}, id="PiecewisePCA"
    ),
]


@pytest.fixture
def tables(gaussian_table, count_table):
    return {"real": gaussian_table, "counts": count_table}


@pytest.mark.parametrize(("model", "kind", "figures"), MODELS)
def test_every_model(model, kind, figures, tables, read, tmp_path):
    X = tables[kind]
    model.fit(X)
    assert model.report(tmp_path / "report.html", X) is model
    _, data, html = read(tmp_path / "report.html")
    assert re.findall(r'<section id="(\w+)">', html) == SECTIONS
    assert figures <= set(data["figures"])
    # Every picture has a place, and every place a picture.
    assert set(re.findall(r'data-figure="(\w+)"', html)) == set(data["figures"])
    assert len(data["rows"]["scores"]) == model.n_components_
    assert f"from anypca import {type(model).__name__}" in html


def test_sections_without_attributes_are_left_out(gaussian_table, read, tmp_path):
    KernelPCA(2).fit(gaussian_table).report(tmp_path / "r.html", gaussian_table)
    _, data, html = read(tmp_path / "r.html")
    assert not {"shares", "ranks", "trace"} & set(data["figures"])
    assert "there are no residuals" in html
    assert "correlations of the columns with the scores" in html


def test_no_component(read, tmp_path):
    X = np.random.default_rng(3).poisson(4.0, size=(80, 5)).astype(float)
    model = SePCA(2, family="poisson").fit(X)
    assert model.n_components_ == 0
    model.report(tmp_path / "r.html", X)
    _, data, html = read(tmp_path / "r.html")
    assert data["rows"] is None
    assert "components" not in re.findall(r'<section id="(\w+)">', html)
    assert "chose 0 components" in html
    assert "EPCA(2) or -k 2 shows the two strongest directions" in html


def test_what_was_in_the_table(read, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, size=(40, 4)).astype(float)
    X[7] = 0.0
    X[:, 2] = 5.0
    X[0:4, 0] = np.nan
    frame = pd.DataFrame(X, columns=["age", "visits", "same", "beds"])
    model = EPCA(1).fit(frame)
    model.report(tmp_path / "r.html", frame)
    _, _, html = read(tmp_path / "r.html")
    assert "4 cells missing (2.5 %), most in age (10.0 %)." in html
    assert "no row is all zeros" in html  # 5.0 in the constant column
    assert "1 column is constant and tells nothing of the rows: same." in html
    assert "negative binomial" in html
    assert "over-dispersion is estimated" in html
    assert model.family_report_[1].reason.split(":")[0] in html


def test_rows_of_zeros_are_named(read, tmp_path, count_table):
    X = count_table.copy()
    X[[4, 9]] = 0.0
    EPCA(1, family="poisson").fit(X).report(tmp_path / "r.html", X)
    assert "2 rows are all zeros (number 5, 10)." in read(tmp_path / "r.html")[2]


def test_loadings_have_error_bars(count_table, read, tmp_path):
    model = SePCA(2, family="poisson").fit(count_table)
    model.report(tmp_path / "r.html", count_table)
    bars = read(tmp_path / "r.html")[1]["figures"]["loadings1"]["data"][0]
    order = np.argsort(model.components_[0])
    np.testing.assert_allclose(bars["x"], model.components_[0][order], rtol=1e-4)
    np.testing.assert_allclose(bars["error_x"]["array"], 2 * model.components_std_[0][order], rtol=1e-4)


def test_effects_are_told_in_the_units_of_the_family(count_table, gaussian_table, read, tmp_path):
    counts = EPCA(1, family="poisson").fit(count_table)
    counts.report(tmp_path / "r.html", count_table)
    j = int(np.argmax(np.abs(counts.components_[0])))
    factor = np.exp(counts.components_[0, j] * counts.transform(count_table).std())
    assert f"One standard deviation up: x{j + 1} × {factor:.3g}" in read(tmp_path / "r.html")[2]
    real = PPCA(1).fit(gaussian_table)
    real.report(tmp_path / "r.html", gaussian_table)
    j = int(np.argmax(np.abs(real.components_[0])))
    shift = real.components_[0, j] * real.transform(gaussian_table).std()
    assert f"One standard deviation up: x{j + 1} {shift:+.3g}" in read(tmp_path / "r.html")[2]


def test_a_fit_that_did_not_converge_says_so(count_table, read, tmp_path):
    with pytest.warns(UserWarning, match="max_iter"):
        model = EPCA(2, family="poisson", max_iter=1).fit(count_table)
    model.report(tmp_path / "r.html", count_table)
    html = read(tmp_path / "r.html")[2]
    assert "<strong>No.</strong>" in html
    assert "Raise max_iter" in html


def test_reproduction(ppca, gaussian_table, read, tmp_path):
    assert write_report(ppca, tmp_path / "a.html", gaussian_table) == tmp_path / "a.html"
    html = read(tmp_path / "a.html")[2]
    assert "model = PPCA(n_components=2)\nmodel.fit(X)" in html
    assert "random_state is None: what a fit draws at random differs between runs." in html
    assert f"<td>{np.__version__}</td>" in html
    write_report(
        ppca, tmp_path / "b.html", gaussian_table, code="anypca fit t.csv", notes=["3 rows repaired"]
    )
    html = read(tmp_path / "b.html")[2]
    assert "<code>anypca fit t.csv</code>" in html
    assert "<li>3 rows repaired</li>" in html


def test_the_seed_is_told(count_table, read, tmp_path):
    EPCA(1, family="poisson", random_state=7).fit(count_table).report(tmp_path / "r.html", count_table)
    html = read(tmp_path / "r.html")[2]
    assert "The seed is 7" in html
    assert "random_state=7" in html


def test_the_same_model_gives_the_same_bytes(ppca, gaussian_table, tmp_path):
    for name in ("a.html", "b.html"):
        ppca.report(tmp_path / name, gaussian_table)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_offset_and_covariates_are_used(count_table, read, tmp_path):
    offset = np.linspace(-0.5, 0.5, len(count_table))
    covariates = np.cos(np.arange(len(count_table)))[:, None]
    companions = {"offset": offset, "covariates": covariates}
    model = PLNPCA(1).fit(count_table, **companions)
    model.report(tmp_path / "r.html", count_table, **companions)
    html = read(tmp_path / "r.html")[2]
    assert "An offset" in html
    assert "1 covariate adjusted for" in html
    assert "model.fit(X, offset=offset, covariates=covariates)" in html
    assert "deviance" in html


FORMS = [
    pytest.param(lambda X: X.tolist(), id="lists"),
    pytest.param(lambda X: X.astype(np.float32), id="float32"),
    pytest.param(pd.DataFrame, id="pandas"),
    pytest.param(sparse.csc_array, id="csc"),
    pytest.param(sparse.coo_matrix, id="coo"),
]


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_table(form, count_table, read, tmp_path):
    model = EPCA(1, family="poisson").fit(count_table)
    model.report(tmp_path / "r.html", form(count_table))
    assert read(tmp_path / "r.html")[1]["rows"]["names"][:2] == ["row1", "row2"]


def test_dask(count_table, read, tmp_path):
    array = pytest.importorskip("dask.array")
    model = EPCA(1, family="poisson").fit(count_table)
    model.report(tmp_path / "r.html", array.from_array(count_table, chunks=(20, 6)))
    assert len(read(tmp_path / "r.html")[1]["rows"]["names"]) == 60


def test_polars(count_table, read, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(count_table, schema=[f"c{j}" for j in range(6)])
    meta = polars.DataFrame({"site": ["a", "b"] * 30})
    EPCA(1, family="poisson").fit(frame).report(tmp_path / "r.html", frame, metadata=meta)
    columns = read(tmp_path / "r.html")[1]["rows"]["columns"]
    assert [column["name"] for column in columns if column["group"] != "fit"] == [
        "site",
        *[f"c{j}" for j in range(6)],
    ]


def test_names_of_a_frame(gaussian_table, read, tmp_path):
    frame = pd.DataFrame(gaussian_table, index=[f"r{i}" for i in range(60)], columns=list("abcdef"))
    PPCA(1).fit(frame).report(tmp_path / "r.html", frame, title="Six letters")
    _, data, html = read(tmp_path / "r.html")
    assert data["rows"]["names"][:2] == ["r0", "r1"]
    assert "<h1>Six letters</h1>" in html


SAMPLED = [
    pytest.param(lambda X: X, id="numpy"),
    pytest.param(pd.DataFrame, id="pandas"),
    pytest.param(sparse.csr_array, id="csr"),
]


@pytest.mark.parametrize("form", SAMPLED)
def test_many_rows_are_sampled_and_the_report_says_so(form, read, tmp_path):
    X = np.random.default_rng(0).normal(size=(6000, 3)) @ np.diag([3.0, 2.0, 1.0])
    model = PPCA(1).fit(X)
    model.report(tmp_path / "r.html", form(X), metadata={"n": np.arange(6000)})
    _, data, html = read(tmp_path / "r.html")
    assert len(data["rows"]["names"]) == 5000
    assert data["rows"]["names"][-1] == f"row{data['rows']['numbers'][-1]}"
    assert "Shown are 5\u202f000 of 6\u202f000 rows, drawn at random." in html


def test_a_large_table_stays_below_8_megabytes(read, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5)) @ rng.normal(size=(5, 200)) + rng.normal(size=(5000, 200))
    model = PPCA(20).fit(X)
    names = [f"sample_{i:05d}_with_a_name" for i in range(5000)]
    model.report(tmp_path / "r.html", X, row_names=names, metadata={"kind": rng.integers(0, 30, 5000)})
    assert (tmp_path / "r.html").stat().st_size < 8_000_000
    columns = read(tmp_path / "r.html")[1]["rows"]["columns"]
    assert len([column for column in columns if column["group"] == "columns"]) == 200


def test_wide_tables_offer_the_columns_with_the_largest_loadings(read, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 800))
    X[:, 700] += 30.0 * rng.normal(size=50)
    PPCA(1).fit(X).report(tmp_path / "r.html", X)
    _, data, html = read(tmp_path / "r.html")
    names = [column["name"] for column in data["rows"]["columns"] if column["group"] == "columns"]
    assert len(names) == 500
    assert "x701" in names
    assert "Colours can be taken from the 500 columns" in html


def test_nothing_is_fetched(ppca, gaussian_table, read, tmp_path):
    ppca.report(tmp_path / "r.html", gaussian_table)
    page, _, html = read(tmp_path / "r.html")
    assert "http" not in html.replace('http-equiv="', "")
    assert not re.search(r"<(link|script|img|iframe)[^>]* (src|href)=", page.partition("<body>")[0] + html)
    assert "default-src 'none'" in page


def test_without_javascript_the_essentials_are_text(ppca, gaussian_table, read, tmp_path):
    ppca.report(tmp_path / "r.html", gaussian_table)
    (text,) = re.findall(r"<noscript>(.*?)</noscript>", read(tmp_path / "r.html")[2])
    assert "PPCA found 2 components" in text
    assert "The fit converged." in text


def test_hostile_names_are_escaped(hostile, gaussian_table, read, tmp_path):
    frame = pd.DataFrame(gaussian_table, columns=list(hostile))
    model = PPCA(2).fit(frame)
    cells = list(hostile) * 10
    write_report(
        model,
        tmp_path / "r.html",
        frame,
        row_names=cells,
        metadata={hostile[0]: cells},
        title=hostile[1],
        notes=hostile,
        code=hostile[1],
    )
    page, data, html = read(tmp_path / "r.html")
    assert data["rows"]["names"][:6] == list(hostile)
    # Only plotly and the page's own script can run: two script elements beside the data.
    assert page.count("window.hacked=1</script>") == 0
    assert not re.search(r"<(img|svg|script|a href=.javascript)", html)


def test_bad_arguments(ppca, gaussian_table, tmp_path):
    X = gaussian_table
    path = tmp_path / "r.html"
    with pytest.raises(NotFittedError):
        PPCA(2).report(path, X)
    with pytest.raises(TypeError, match="PPCA has no offset"):
        ppca.report(path, X, offset=np.zeros(60))
    with pytest.raises(ValueError, match="3 row names for 60 rows"):
        ppca.report(path, X, row_names=list("abc"))
    with pytest.raises(ValueError, match=r"'site' has shape \(3,\); the table has 60 rows"):
        ppca.report(path, X, metadata={"site": [1, 2, 3]})
    with pytest.raises(TypeError, match="data frame or a dict"):
        ppca.report(path, X, metadata=[1, 2, 3])
    with pytest.raises(ValueError, match="2 column names"):
        write_report(ppca, path, X, feature_names=["a", "b"])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_report_leaves_the_earlier_one(ppca, gaussian_table, tmp_path):
    path = tmp_path / "r.html"
    path.write_text("earlier")
    with pytest.raises(ValueError, match="columns"):
        ppca.report(path, gaussian_table[:, :3])
    assert path.read_text() == "earlier"
    ppca.report(path, gaussian_table)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]


def test_what_makes_false_components_is_told(read, tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 10))
    X[[5, 60]] *= 8.0
    PPCA(2).fit(X).report(tmp_path / "report.html", X, row_names=[f"<b>{i}</b>" for i in range(100)])
    _, _, html = read(tmp_path / "report.html")
    assert "What may have made false components" in html
    assert "2 rows of 100 far from the others (&lt;b&gt;5&lt;/b&gt;, &lt;b&gt;60&lt;/b&gt;)" in html
    PPCA(2).fit(X[10:50]).report(tmp_path / "clean.html", X[10:50])
    assert "What may have made false components" not in read(tmp_path / "clean.html")[2]


def test_probabilities_of_the_compared_dimensions_are_told(tmp_path):
    X = make_low_rank(80, 8, 1, family="gaussian", signal=0.4, random_state=0).X
    model = SePCA(2, family="gaussian").fit(X)
    model.report(tmp_path / "report.html", X)
    likely = {rank: share for rank, share in model.rank_probabilities_.items() if share >= 0.01}
    assert set(likely) > {model.n_components_}
    told = model.describe().compared_ranks
    assert all(f"{rank}: {percent(share)}" in told for rank, share in likely.items())
    assert (
        f"How likely each number is: {model.n_components_} ({told})" in (tmp_path / "report.html").read_text()
    )


def test_a_component_of_one_column_and_cells_far_out_are_told(read, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 6))
    X[:, 5] *= 1000
    EPCA(2, family="gaussian").fit(X).report(tmp_path / "one.html", X)
    assert "component 1 is carried by one column: x6 contributes 100.0 %" in read(tmp_path / "one.html")[2]
    counts = np.random.default_rng(0).poisson(0.02, size=(300, 8)).astype(float)
    counts[3, 4] = 3.0
    EPCA(1, family="poisson", ridge=10.0).fit(counts).report(tmp_path / "far.html", counts)
    (far,) = re.findall(r"single cells are up to (\d+) standard deviations", read(tmp_path / "far.html")[2])
    assert int(far) > 15


def test_arrows_are_the_loadings_in_units_of_noise(ppca, gaussian_table, read, tmp_path):
    ppca.report(tmp_path / "r.html", gaussian_table)
    arrows = read(tmp_path / "r.html")[1]["rows"]["arrows"]
    expected = ppca.components_ / np.sqrt(ppca.noise_variance_)
    np.testing.assert_allclose(arrows["values"], expected, rtol=1e-4)
    assert arrows["names"] == [f"x{j}" for j in range(1, 7)]
