"""What every estimator promises: what it describes, rows that do not depend on others, traces, interrupts, logs."""

from __future__ import annotations

import inspect
import logging
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.models.estimators import COUNTS, GAPS, NAMES, NETS, SAMPLED, Interrupted, interrupted, make
from tests.models.tables import is_monotone

from anypca import EPCA
from anypca.exceptions import ConvergenceWarning
from anypca.families import Family

# Short training and short chains are enough for these laws.
pytestmark = [
    pytest.mark.filterwarnings("ignore:(VAE|Autoencoder)"),
    pytest.mark.filterwarnings("ignore:.*the chains disagree"),
]
each_model = pytest.mark.parametrize("name", NAMES)
ITERATES = [name for name in NAMES if name not in ("PPCA", "SPCA", "KernelPCA")]
HANDLES_MISSING = [name for name in NAMES if make(name).__sklearn_tags__().input_tags.allow_nan]


@cache
def fitted(name: str) -> Any:
    return make(name).fit(COUNTS)


@each_model
def test_description_is_true(name: str) -> None:
    model = fitted(name)
    found, before = model.describe(), make(name).describe()
    takes = inspect.signature(model.fit).parameters
    assert found.takes_offset == ("offset" in takes)
    assert found.takes_covariates == ("covariates" in takes)
    assert found.takes_checkpoint == ("checkpoint" in takes)
    assert found.has_posterior == ("return_std" in inspect.signature(model.transform).parameters)
    assert found.has_entries == hasattr(model, "entry_log_likelihood")
    assert found.has_path == hasattr(model, "path")
    assert found.handles_missing == (name in HANDLES_MISSING)
    assert found.likelihood in {"marginal", "bound", "Laplace", "plug-in", "distance"}
    for ability in ("takes_offset", "takes_covariates", "has_posterior", "has_entries", "handles_missing"):
        assert getattr(before, ability) == getattr(found, ability)
    assert before.loadings is None
    assert found.n_components == model.n_components_
    assert found.has_pieces == (name == "PiecewisePCA")
    assert (found.support is not None) == (name in ("GSPPCA", "SSPCA"))
    assert found.has_sparse_loadings == (name in ("GSPPCA", "SPCA", "SSPCA", "SSPPCA"))


@each_model
def test_a_fit_fits_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No estimator fits another one, or itself again, unless a parameter asks for it."""
    calls = []

    def counted(fit: Any) -> Any:
        def count(self: Any, *args: Any, **given: Any) -> Any:
            calls.append(type(self).__name__)
            return fit(self, *args, **given)

        return count

    kinds = {kind for each in NAMES for kind in type(make(each)).__mro__ if "fit" in vars(kind)}
    for kind in kinds:
        monkeypatch.setattr(kind, "fit", counted(kind.fit))
    make(name).fit(GAPS if name in HANDLES_MISSING else COUNTS)
    assert calls == [name]


@each_model
def test_family_and_dispersion_are_given_for_each_column(name: str) -> None:
    model, found = fitted(name), fitted(name).describe()
    records = found.column_families("abcdefgh")
    if name == "KernelPCA":
        assert (found.family, len(records)) == (None, 0)
        return
    assert isinstance(model.family_, Family)
    assert [record.column for record in records] == list("abcdefgh")
    assert all(record.family and record.reason for record in records)
    # A globally sparse model estimates the noise of the columns it leaves out only.
    assert (found.dispersion is not None) == (found.has_entries and name != "GSPPCA")
    if found.dispersion is not None:
        assert found.dispersion.shape == (8,)


@each_model
def test_components_are_ordered_and_have_signs(name: str) -> None:
    found = fitted(name).describe()
    if name not in ("GSPPCA", "SSPCA"):
        assert np.all(np.diff(found.explained) <= 1e-12)
    if found.loadings is not None and name != "PiecewisePCA":
        k = np.arange(len(found.loadings))
        assert np.all(found.loadings[k, np.abs(found.loadings).argmax(axis=1)] > 0)


@each_model
def test_rows_do_not_depend_on_others(name: str) -> None:
    model = fitted(name)
    scores, some = model.transform(COUNTS), model.transform(COUNTS[5:12])
    np.testing.assert_allclose(some, scores[5:12], rtol=0, atol=1e-5 * np.abs(scores).max())
    if model.describe().has_posterior:
        again, std = model.transform(COUNTS, return_std=True)
        np.testing.assert_array_equal(again, scores)
        assert std.shape == scores.shape
        assert np.all(std > 0)
    if hasattr(model, "score_samples") and name != "VAE":  # its values are averages of draws
        values = model.score_samples(COUNTS)
        np.testing.assert_allclose(model.score_samples(COUNTS[5:12]), values[5:12], rtol=1e-5, atol=1e-5)
        assert model.score(COUNTS) == pytest.approx(values.mean())


@each_model
def test_the_same_seed_gives_the_same_fit_on_any_number_of_threads(name: str) -> None:
    scores = fitted(name).transform(COUNTS)
    again = clone(fitted(name)).fit(COUNTS)
    np.testing.assert_array_equal(again.transform(COUNTS), scores)
    threads = make(name, n_jobs=2).fit(COUNTS).transform(COUNTS)
    np.testing.assert_allclose(threads, scores, rtol=0, atol=1e-6 * np.abs(scores).max())


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(make(name), "sample")])
def test_samples_are_in_the_support_and_follow_the_seed(name: str) -> None:
    model = fitted(name)
    drawn = model.sample(30, random_state=1)
    np.testing.assert_array_equal(model.sample(30, random_state=1), drawn)
    generator = np.random.default_rng(1)
    assert not np.array_equal(
        model.sample(30, random_state=generator), model.sample(30, random_state=generator)
    )
    assert drawn.shape == (30, 8)
    assert model.family_.in_support(drawn).all()


@pytest.mark.parametrize("name", HANDLES_MISSING)
def test_missing_entries_are_filled_and_others_kept(name: str) -> None:
    model = make(name).fit(GAPS)
    filled, seen = model.impute(GAPS), np.isfinite(GAPS)
    np.testing.assert_array_equal(filled[seen], GAPS[seen])
    assert np.isfinite(filled).all()
    if "return_std" in inspect.signature(model.impute).parameters:
        again, std = model.impute(GAPS, return_std=True)
        np.testing.assert_array_equal(again, filled)
        assert np.all(std[~seen] > 0)
        assert np.all(std[seen] == 0)


@pytest.mark.parametrize("name", [name for name in ITERATES if name not in SAMPLED])
def test_traces_are_monotone_and_short_fits_warn(name: str) -> None:
    if name not in NETS:
        assert fitted(name).converged_
        assert is_monotone(fitted(name).objective_trace_, 1e-9)
    if name == "SSPCA":  # may converge in one iteration
        return
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = make(name, max_iter=1, **({} if name in NETS else {"tol": 1e-12})).fit(COUNTS)
    assert not model.converged_
    assert "max_iter" in model.status_
    assert len(model.objective_trace_) == model.n_iter_


@pytest.mark.parametrize("name", ITERATES)
def test_an_interrupted_fit_leaves_the_model_as_it_was(name: str) -> None:
    model = make(name, verbose=1).fit(COUNTS)
    before, names = model.transform(COUNTS), set(vars(model))
    with interrupted(1), pytest.raises(Interrupted):
        model.fit(COUNTS[:, :7])
    assert set(vars(model)) == names
    np.testing.assert_array_equal(model.transform(COUNTS), before)


@pytest.mark.parametrize("name", ITERATES)
def test_verbose_fits_log_iterations(name: str, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, logger="anypca"):
        make(name).fit(COUNTS)
        assert not caplog.records
        make(name, verbose=1).fit(COUNTS)
    assert {record.getMessage().split()[0] for record in caplog.records} == {name}
    assert all(record.iteration >= 1 and not np.isinf(record.objective) for record in caplog.records)


class Recorder:
    """A callback of scikit-learn that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.calls.append("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self.calls.append(f"end {context.task_name}")


@pytest.mark.skipif(not hasattr(EPCA, "set_callbacks"), reason="scikit-learn < 1.9 has no callbacks")
def test_scikit_learns_callbacks_are_called_and_torn_down() -> None:
    recorder, model = Recorder(), make("EPCA")
    model.set_callbacks(recorder).fit(COUNTS)
    iteration = ["begin iteration", "end iteration"]
    assert recorder.calls[:4] == ["setup", "begin fit", *iteration]
    assert recorder.calls[-2:] == ["end fit", "teardown"]
    assert recorder.calls[2:-2] == iteration * (len(recorder.calls[2:-2]) // 2)
    with pytest.raises(ValueError, match="inf"):
        model.fit(np.where(COUNTS.max() == COUNTS, np.inf, COUNTS))
    assert recorder.calls[-1] == "teardown"


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_do_not_matter(name: str) -> None:
    """Names suggest identifiers, years, codes and measurements; a fit is the same bit by bit with any others."""
    auto = {"family": "auto"} if "family" in make(name).get_params() and name not in SAMPLED else {}
    suggestive = ["id", "age", "year", "n_cases", "region", "month", "log_income", "pct_total"]
    fits = []
    for names in (list("abcdefgh"), suggestive):
        model = make(name, **auto)
        fits.append(
            (model.fit_transform(pd.DataFrame(COUNTS, columns=names)), getattr(model, "components_", 0))
        )
    for plain, named in zip(*fits, strict=True):
        np.testing.assert_array_equal(plain, named)
