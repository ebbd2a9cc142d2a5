"""What all estimators inherit, shown on PPCA and on a small model with an offset and covariates."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
import pytest

from anypca import PPCA
from anypca._compat import HAS_CALLBACKS, Interval, StrOptions
from anypca.exceptions import ConvergenceWarning, NotFittedError
from anypca.models._arguments import make_generator, read_settings
from anypca.models._base import LatentModel
from anypca.solvers import Progress, Result, Status


class RowSums(LatentModel):
    """One score per row: the sum of its entries."""

    _parameter_constraints: ClassVar = {
        "mode": [StrOptions({"sum", "mean"})],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, mode="sum", tol=1e-3, max_iter=5, n_jobs=1, verbose=0):
        self.mode = mode
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X, y=None, *, sample_weight=None, offset=None, covariates=None):
        with self._open_fit(X, sample_weight=sample_weight, offset=offset, covariates=covariates) as session:
            for i in range(3):
                session.callback(Progress(i + 1, self.max_iter, float(i), 1.0 / (i + 1)))
            self.column_means_ = session.summary.mean
        self.n_components_ = 1
        return self

    def transform(self, X, *, offset=None, covariates=None):
        def visit(block):
            return block.read().x.sum(axis=1, keepdims=True)

        return np.concatenate(self._map_rows(visit, X, offset=offset, covariates=covariates))

    def score_samples(self, X, *, offset=None, covariates=None):
        return self.transform(X, offset=offset, covariates=covariates)[:, 0]


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((30, 5))


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output_gives_frames(X, container):
    frames = pytest.importorskip(container)
    model = PPCA(2).set_output(transform=container)
    scores = model.fit_transform(X)
    assert isinstance(scores, frames.DataFrame)
    assert list(scores.columns) == ["ppca0", "ppca1"]
    np.testing.assert_allclose(scores.to_numpy(), PPCA(2).fit(X).transform(X))
    first, std = model.transform(X, return_std=True)
    assert isinstance(first, frames.DataFrame)
    assert std.shape == (30, 2)


def test_fit_transform_is_fit_then_transform(X):
    np.testing.assert_array_equal(PPCA(2).fit_transform(X), PPCA(2).fit(X).transform(X))
    weight = np.arange(30)
    expected = PPCA(2).fit(X, sample_weight=weight).transform(X)
    np.testing.assert_array_equal(PPCA(2).fit_transform(X, sample_weight=weight), expected)
    offset = np.ones(30)
    assert RowSums().fit_transform(X, offset=offset).shape == (30, 1)


def test_names_are_kept_and_compared(X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = PPCA(2).fit(frame)
    assert list(model.feature_names_in_) == list("abcde")
    assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.transform(frame[list("bacde")])
    with pytest.warns(UserWarning, match="X does not have valid feature names, but PPCA was fitted with"):
        model.transform(X)
    assert not hasattr(model.fit(X), "feature_names_in_")


def test_wrong_width_is_refused_in_scikit_learns_words(X):
    model = PPCA(2).fit(X)
    for method in (model.transform, model.score_samples, model.score, model.impute):
        with pytest.raises(ValueError, match="X has 3 features, but PPCA is expecting 5 features as input"):
            method(X[:, :3])


@pytest.mark.parametrize(
    "method",
    [
        "transform",
        "inverse_transform",
        "score",
        "score_samples",
        "impute",
        "get_covariance",
        "get_precision",
        "sample",
    ],
)
def test_methods_need_a_fit(X, method):
    arguments = () if method.startswith(("get", "sample")) else (X,)
    with pytest.raises(NotFittedError, match="PPCA instance is not fitted yet"):
        getattr(PPCA(), method)(*arguments)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_entries_are_named(X, value):
    model = PPCA(2).fit(X)
    X[7, 3] = value
    with pytest.raises(ValueError, match=r"X\[7, 3\] is -?inf"):
        PPCA(2).fit(X)
    with pytest.raises(ValueError, match=r"X\[7, 3\] is -?inf"):
        model.transform(X)


def test_offset_is_needed_exactly_when_it_was_fitted(X):
    offset = np.ones(30)
    with pytest.raises(ValueError, match=r"RowSums was fitted with an offset\. Pass offset="):
        RowSums().fit(X, offset=offset).transform(X)
    with pytest.raises(ValueError, match=r"RowSums was fitted without an offset\. Leave out offset="):
        RowSums().fit(X).transform(X, offset=offset)
    assert RowSums().fit(X, offset=offset).transform(X, offset=offset).shape == (30, 1)


def test_covariates_are_needed_exactly_when_they_were_fitted(X):
    with pytest.raises(ValueError, match="fitted with 2 covariates; these rows have 0"):
        RowSums().fit(X, covariates=X[:, :2]).transform(X)
    with pytest.raises(ValueError, match="fitted with 0 covariates; these rows have 1"):
        RowSums().fit(X).transform(X, covariates=X[:, :1])


def test_score_is_the_mean_over_rows(X):
    assert RowSums().fit(X).score(X) == pytest.approx(X.sum(axis=1).mean())


def test_unknown_strings_get_a_suggestion(X):
    with pytest.raises(ValueError, match=r"'mode' parameter of RowSums must be.*Did you mean 'mean'\?"):
        RowSums(mode="means").fit(X)
    with pytest.raises(ValueError, match=r"'tol' parameter of RowSums must be"):
        RowSums(tol=-1.0).fit(X)


def test_constraints_of_a_class_are_added_to_those_of_its_bases(X):
    class Patient(RowSums):
        _parameter_constraints: ClassVar = {"mode": [StrOptions({"sum"})]}

    with pytest.raises(ValueError, match="'mode'"):
        Patient(mode="mean").fit(X)
    with pytest.raises(ValueError, match="'tol'"):
        Patient(tol=-1.0).fit(X)
    with pytest.raises(ValueError, match="'max_iter'"):
        Patient(max_iter=0).fit(X)
    assert RowSums(mode="mean").fit(X).n_components_ == 1


@dataclass(frozen=True)
class SumSettings:
    mode: str
    tol: float
    n_rows: int


def test_settings_are_plain_values_of_the_parameters():
    settings = read_settings(SumSettings, RowSums(mode="mean", tol=np.float32(0.5)), n_rows=3)
    assert settings == SumSettings("mean", 0.5, 3)
    assert type(settings.tol) is float


def test_tags_say_what_is_accepted():
    tags = PPCA().__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]


def test_verbose_fits_log_their_iterations(X, caplog):
    with caplog.at_level(logging.INFO, logger="anypca"):
        RowSums(verbose=0).fit(X)
        assert not caplog.records
        RowSums(verbose=1).fit(X)
    assert [record.iteration for record in caplog.records] == [1, 2, 3]
    record = caplog.records[-1]
    assert (record.max_iter, record.objective, record.criterion) == (5, 2.0, pytest.approx(1 / 3))
    assert record.getMessage().startswith("RowSums iteration 3")


class Counter:
    """A callback that counts what it is told."""

    def __init__(self):
        self.calls = []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.calls.append(f"end {context.task_name}")


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn < 1.9 has no callbacks")
def test_scikit_learns_callbacks_are_called(X):
    counter = Counter()
    RowSums().set_callbacks(counter).fit(X)
    iteration = ["begin iteration", "end iteration"]
    assert counter.calls == ["setup", "begin fit", *iteration * 3, "end fit", "teardown"]


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn < 1.9 has no callbacks")
def test_callbacks_are_torn_down_after_an_error(X):
    counter = Counter()
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="inf"):
        RowSums().set_callbacks(counter).fit(X)
    assert counter.calls[-1] == "teardown"


@pytest.mark.parametrize("status", [Status.STALLED, Status.MAX_ITER])
def test_fits_that_did_not_converge_warn(status):
    with pytest.warns(ConvergenceWarning, match=r"RowSums: st.*iterations: 2.*gradient: 0\.5, tol: 0\.001"):
        RowSums()._warn_unless_converged(Result(None, np.zeros(2), status, 0.5, 2))


def test_converged_fits_do_not_warn():
    RowSums()._warn_unless_converged(Result(None, np.zeros(2), Status.CONVERGED, 0.0, 2))


def test_generators_come_from_all_kinds_of_random_state():
    generator = np.random.default_rng(0)
    assert make_generator(generator) is generator
    assert make_generator(3).integers(100) == make_generator(np.random.RandomState(3)).integers(100)


def test_verbose_needs_no_configured_logging():
    code = (
        "import numpy as np, anypca, warnings; warnings.simplefilter('ignore')\n"
        "X = np.random.default_rng(0).poisson(3, size=(30, 4)).astype(float)\n"
        "anypca.EPCA(1, family='poisson', max_iter=3, verbose=1).fit(X)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("EPCA iteration 1: objective ")
