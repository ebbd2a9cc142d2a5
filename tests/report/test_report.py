"""What the report says, for every model and kind of table."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.draws import generator

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
from anypca.exceptions import NotFittedError
from anypca.report import write_report

# Chains that are short enough for a test are too short to agree.
pytestmark = pytest.mark.filterwarnings("ignore:(ISFA|BEPCA). the chains disagree")

SECTIONS = ["table", "number", "components", "rows", "quality", "convergence", "reproduction"]

MODELS = [
    (PPCA(2), "real"),
    (EPCA(2, family="poisson"), "counts"),
    # So close that the last fit takes several sweeps.
    (SePCA(3, family="poisson", tol=1e-9), "counts"),
    (BEPCA(2, family="gaussian", n_draws=60, n_tune=60), "real"),
    (ISFA(family="gaussian", n_draws=20, n_tune=20, n_chains=1), "real"),
    (GSPPCA(1, n_features_to_select=4), "real"),
    (SPCA(2, n_nonzero=3), "real"),
    (SSPCA(2), "real"),
    (Autoencoder(2, tol=0.1), "real"),
    (VAE(2, family="poisson", n_iter_no_change=2), "counts"),
    (KernelPCA(2), "real"),
    (PLNPCA(2), "counts"),
    (PiecewisePCA(2, n_pieces=2, n_init=2), "real"),
]


@pytest.mark.parametrize(("model", "kind"), MODELS, ids=[type(case[0]).__name__ for case in MODELS])
def test_every_model(model, kind, gaussian_table, count_table, read, tmp_path):
    X = gaussian_table if kind == "real" else count_table
    model.fit(X)
    assert model.report(tmp_path / "report.html", X) is model
    page = read(tmp_path / "report.html")
    assert re.findall(r'<section id="(\w+)">', page.html) == SECTIONS
    # Every picture has a place, and every place a picture; what a model does not have is left out.
    assert set(re.findall(r'data-figure="(\w+)"', page.html)) == set(page.data["figures"])
    assert {"scree", "loadings1"} & set(page.data["figures"])
    assert not (isinstance(model, KernelPCA) and {"shares", "ranks", "trace"} & set(page.data["figures"]))
    scores = model.transform(X)
    assert page.scores.shape == scores.shape
    np.testing.assert_allclose(page.scores, scores, atol=1e-4 * np.ptp(scores))


def test_no_component(read, tmp_path):
    # Counts of a grid: all columns are independent of each other, and equally spread.
    X = np.stack([np.ravel(each) for each in np.meshgrid(*[[3.0, 4.0, 5.0]] * 4)], axis=1)
    model = SePCA(2, family="gaussian").fit(X)
    assert model.n_components_ == 0
    model.report(tmp_path / "r.html", X)
    page = read(tmp_path / "r.html")
    assert page.rows is None
    assert "components" not in re.findall(r'<section id="(\w+)">', page.html)
    assert "0 components" in page.html
    assert "EPCA(2)" in page.html


def test_what_was_in_the_table(read, tmp_path):
    X = generator("described").poisson(3.0, size=(40, 4)) + 0.0
    X[7] = 0.0
    X[:, 2] = 5.0
    X[0:4, 0] = np.nan
    frame = pd.DataFrame(X, columns=["age", "visits", "same", "beds"])
    model = EPCA(1).fit(frame)
    model.report(tmp_path / "r.html", frame)
    html = read(tmp_path / "r.html").html
    for words in ("4 cells missing (2.5 %)", "age (10.0 %)", "1 column is constant", "same"):
        assert words in html
    for record in model.family_report_:
        assert record.reason.split(":")[0] in html
    X[:, 2] = 0.0
    write_report(EPCA(1, family="poisson").fit(X), tmp_path / "zeros.html", X)
    rows = np.flatnonzero(np.nan_to_num(X).sum(axis=1) == 0) + 1
    assert f"number {', '.join(map(str, rows))})" in read(tmp_path / "zeros.html").html


def test_loadings_and_arrows_are_the_model_s(ppca, gaussian_table, count_table, read, tmp_path):
    model = SePCA(2, family="poisson").fit(count_table)
    model.report(tmp_path / "r.html", count_table)
    page = read(tmp_path / "r.html")
    bars = page.bars("loadings1")
    np.testing.assert_allclose([bars[f"x{j}"] for j in range(1, 7)], model.components_[0], rtol=1e-4)
    (drawn,) = page.data["figures"]["loadings1"]["marks"]
    expected = 2 * model.components_std_[0][np.argsort(model.components_[0])]
    np.testing.assert_allclose(drawn["error"], expected, rtol=1e-4)
    ppca.report(tmp_path / "r.html", gaussian_table)
    arrows = read(tmp_path / "r.html").rows["arrows"]
    expected = ppca.components_ / np.sqrt(ppca.noise_variance_)
    np.testing.assert_allclose(arrows["values"], expected, rtol=1e-4)
    assert arrows["names"] == [f"x{j}" for j in range(1, 7)]


def test_a_fit_that_did_not_converge_says_so(count_table, read, tmp_path):
    with pytest.warns(UserWarning, match="max_iter"):
        model = EPCA(2, family="poisson", max_iter=1).fit(count_table)
    model.report(tmp_path / "r.html", count_table)
    assert "Raise max_iter" in read(tmp_path / "r.html").html


def test_reproduction(ppca, gaussian_table, count_table, read, tmp_path):
    assert write_report(ppca, tmp_path / "a.html", gaussian_table) == tmp_path / "a.html"
    html = read(tmp_path / "a.html").html
    assert "model = PPCA(n_components=2)\nmodel.fit(X)" in html
    assert "random_state is None" in html
    assert f"<td>{np.__version__}</td>" in html
    write_report(
        ppca, tmp_path / "b.html", gaussian_table, code="anypca fit t.csv", notes=["3 rows repaired"]
    )
    html = read(tmp_path / "b.html").html
    assert "anypca fit t.csv" in html
    assert "3 rows repaired" in html
    EPCA(1, family="poisson", random_state=7).fit(count_table).report(tmp_path / "c.html", count_table)
    html = read(tmp_path / "c.html").html
    assert "seed is 7" in html
    assert "random_state=7" in html
    write_report(ppca, tmp_path / "again.html", gaussian_table)
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "a.html").read_bytes()


def test_offset_and_covariates_are_used(count_table, read, tmp_path):
    offset = np.linspace(-0.5, 0.5, len(count_table))
    companions = {"offset": offset, "covariates": np.cos(np.arange(len(count_table)))[:, None]}
    model = PLNPCA(1).fit(count_table, **companions)
    model.report(tmp_path / "r.html", count_table, **companions)
    page = read(tmp_path / "r.html")
    for words in ("An offset", "1 covariate", "model.fit(X, offset=offset, covariates=covariates)"):
        assert words in page.html
    scores = model.transform(count_table, **companions)
    np.testing.assert_allclose(page.scores, scores, atol=1e-4 * np.ptp(scores))


def as_polars(X):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(X, schema=[f"x{j}" for j in range(1, X.shape[1] + 1)])


FORMS = {
    "lists": lambda X: X.tolist(),
    "float32": lambda X: X.astype(np.float32),
    "pandas": pd.DataFrame,
    "polars": as_polars,
    "csc": sparse.csc_array,
    "coo": sparse.coo_matrix,
    "dask": lambda X: pytest.importorskip("dask.array").from_array(X, chunks=(20, 6)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_any_form_of_table(form, count_table, read, tmp_path):
    model = EPCA(1, family="poisson").fit(form(count_table))
    model.report(tmp_path / "r.html", form(count_table), metadata={"site": ["a", "b"] * 30})
    page = read(tmp_path / "r.html")
    assert page.rows["names"][:2] == ["row1", "row2"]
    scores = EPCA(1, family="poisson").fit_transform(count_table)
    np.testing.assert_allclose(page.scores, scores, atol=1e-3)
    assert page.colours("metadata") == {"site": ["a", "b"] * 30}
    np.testing.assert_array_equal(
        np.column_stack(list(page.colours("columns").values())).astype(float), count_table
    )


COLOURS = {
    "text": (["b", "a", "b"], ["b", "a", "b"]),
    "missing": (np.array(["b", None, np.nan], dtype=object), ["b", None, None]),
    "labels": (np.array([10, 9, 10]), ["10", "9", "10"]),
    "bool": (np.array([True, False, True]), ["True", "False", "True"]),
    "pandas-NA": (pd.array(["u", pd.NA, "v"], dtype="string"), ["u", None, "v"]),
    "numbers": (np.array([1.5, np.nan, -2.0]), [1.5, None, -2.0]),
    "unsafe": (["</script>", "<!--", "&amp;"], ["</script>", "<!--", "&amp;"]),
}


def test_rows_are_coloured_by_metadata_of_any_kind(ppca, gaussian_table, read, tmp_path):
    metadata = {name: np.tile(np.asarray(cells, dtype=object), 20) for name, (cells, _) in COLOURS.items()}
    many = [f"k{i % 50}" for i in range(60)]
    ppca.report(tmp_path / "r.html", gaussian_table, metadata={**metadata, "many": many})
    page = read(tmp_path / "r.html")
    found = page.colours("metadata")
    for name, (_, shown) in COLOURS.items():
        assert found[name] == shown * 20, name
    # Rare ones share a name: a legend of more cannot be read.
    assert all(
        told == given or told.endswith("others") for told, given in zip(found["many"], many, strict=True)
    )
    assert len(set(found["many"])) < 30
    assert not set("<>&") & set(page.text.partition('id="report-data">')[2].partition("</script>")[0])


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, sparse.csr_array], ids=["numpy", "pandas", "csr"])
def test_many_rows_are_sampled_and_the_report_says_so(form, read, tmp_path):
    X = generator("many").normal(size=(6000, 3)) @ np.diag([3.0, 2.0, 1.0])
    model = PPCA(1).fit(X)
    model.report(tmp_path / "r.html", form(X), metadata={"n": np.arange(6000)})
    page = read(tmp_path / "r.html")
    numbers = np.array(page.rows["numbers"]) - 1
    assert len(page.rows["names"]) == len(set(numbers)) == 5000
    scores = model.transform(X)
    np.testing.assert_allclose(page.scores, scores[numbers], atol=1e-4 * np.ptp(scores))
    # Many different numbers are shown nearly: a step holds a 255th of the rows.
    shown = np.array(page.colours("metadata")["n"], dtype=float)
    assert np.abs(shown - numbers).max() < 2 * 6000 / 255
    assert "5\u202f000 of 6\u202f000 rows" in page.html


def test_nothing_is_fetched_and_the_essentials_are_text(ppca, gaussian_table, read, tmp_path):
    ppca.report(tmp_path / "r.html", gaussian_table)
    page = read(tmp_path / "r.html")
    assert "http" not in page.html.replace('http-equiv="', "")
    head = page.text.partition("<body>")[0]
    assert not re.search(r"<(link|script|img|iframe)[^>]* (src|href)=", head + page.html)
    assert "default-src 'none'" in page.text
    (text,) = re.findall(r"<noscript>(.*?)</noscript>", page.html)
    assert "2 components" in text
    assert "converged" in text


def test_hostile_names_are_escaped(hostile, gaussian_table, read, tmp_path):
    frame = pd.DataFrame(gaussian_table, columns=list(hostile))
    cells = list(hostile) * 10
    write_report(
        PPCA(2).fit(frame),
        tmp_path / "r.html",
        frame,
        row_names=cells,
        metadata={hostile[0]: cells},
        title=hostile[1],
        notes=hostile,
        code=hostile[1],
    )
    page = read(tmp_path / "r.html")
    assert page.rows["names"] == cells
    assert page.colours("metadata")[hostile[0]] == cells
    assert "window.hacked=1</script>" not in page.text
    assert not re.search(r"<(img|svg|script|a href=.javascript)", page.html)


def test_bad_arguments(ppca, gaussian_table, tmp_path):
    X, path = gaussian_table, tmp_path / "r.html"
    with pytest.raises(NotFittedError):
        PPCA(2).report(path, X)
    with pytest.raises(TypeError, match="offset"):
        ppca.report(path, X, offset=np.zeros(60))
    with pytest.raises(ValueError, match=r"3 row names.*60"):
        ppca.report(path, X, row_names=list("abc"))
    with pytest.raises(ValueError, match=r"'site'.*\(3,\).*60"):
        ppca.report(path, X, metadata={"site": [1, 2, 3]})
    with pytest.raises(TypeError, match="data frame or a dict"):
        ppca.report(path, X, metadata=[1, 2, 3])
    with pytest.raises(ValueError, match="2 column names"):
        write_report(ppca, path, X, feature_names=["a", "b"])
    assert list(tmp_path.iterdir()) == []


def test_what_may_make_false_components_is_told(read, tmp_path):
    X = generator("rows").normal(size=(100, 10))
    X[[5, 60]] *= 15.0
    PPCA(2).fit(X).report(tmp_path / "r.html", X, row_names=[f"<b>{i}</b>" for i in range(100)])
    assert "(&lt;b&gt;5&lt;/b&gt;, &lt;b&gt;60&lt;/b&gt;)" in read(tmp_path / "r.html").html


def low_rank(rng, n, p):
    return rng.normal(size=(n, 1)) @ np.linspace(0.5, 1.5, p)[None]


@pytest.mark.parametrize("model", [PPCA(1), SPCA(1, penalty=0.0)], ids=["PPCA", "SPCA"])
def test_shares_of_gaussian_columns_are_r_squared(model, read, tmp_path):
    rng = generator("shares")
    X = 2.0 * low_rank(rng, 200, 5) + rng.normal(size=(200, 5)) + 1000.0
    model.fit(X).report(tmp_path / "r.html", X)
    residual = X - model.inverse_transform(model.transform(X))
    expected = 1 - (residual**2).sum(0) / (200 * X.var(0))
    shares = read(tmp_path / "r.html").bars("shares")
    np.testing.assert_allclose([shares[f"x{j}"] for j in range(1, 6)], 100 * expected, rtol=1e-4)


def test_the_worst_cell_is_named(read, tmp_path):
    rng = generator("worst")
    X = rng.poisson(np.exp(0.3 * low_rank(rng, 200, 20) + 1.0)).astype(float)
    X[17, 3] = 99.0
    frame = pd.DataFrame(X, index=[f"r{i}" for i in range(200)], columns=[f"c{j}" for j in range(20)])
    EPCA(1, family="poisson").fit(frame).report(tmp_path / "r.html", frame)
    html = read(tmp_path / "r.html").html
    first = re.search(r"<tr>\s*<td>r17</td>\s*<td>c3</td>.*?</tr>", html, re.DOTALL)
    assert first
    assert "99" in first[0]
