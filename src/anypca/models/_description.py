"""Description of any model's capabilities and results in one object, for plots and reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.columns import FamilyRecord, FamilyReport, Layout, encode
from anypca.families import Family, Gaussian

#: Numbers that tell fits apart, as fitted attributes with an underscore behind.
_CRITERIA = ("bic", "icl", "aic", "log_likelihood", "n_parameters", "entropy", "evidence")
#: Difference of log evidences from which on it is very strong (Kass and Raftery 1995).
_VERY_STRONG = 5.0
#: Components that explain less are named as small.
_VISIBLE_SHARE = 0.02


@dataclass(frozen=True, eq=False)
class Description:
    """Summary of a model; None, False or empty if the model does not have it or is not fitted."""

    name: str
    """Of its class."""
    rotation: str = ""
    """How its components were rotated, if they were."""
    likelihood: str | None = None
    """What ``score_samples`` returns for a row: with the scores integrated out its log-likelihood (``"marginal"``),
    a lower ``"bound"`` of it or its ``"Laplace"`` approximation; the log-likelihood at the row's own scores
    (``"plug-in"``); minus the squared ``"distance"`` from the reconstruction."""
    takes_offset: bool = False
    """Whether ``fit``, and then all methods for rows, take ``offset``."""
    takes_covariates: bool = False
    """Whether they take ``covariates``."""
    takes_checkpoint: bool = False
    """Whether ``fit`` takes ``checkpoint``."""
    handles_missing: bool = False
    """Whether entries may be missing."""
    has_posterior: bool = False
    """Whether ``transform`` takes ``return_std``."""
    has_entries: bool = False
    """Whether single entries have a probability: ``entry_log_likelihood``."""
    has_way_back: bool = False
    """Whether ``inverse_transform`` turns scores into rows."""
    has_path: bool = False
    """Whether ``path`` fits several numbers of components in one go."""
    uses_offset: bool = False
    """Whether the fit had an offset."""
    family: Family | None = None
    """Of the columns of the model; None also for models that assume no distribution."""
    layout: Layout | None = None
    """How they come from the columns of the table; None is for models that take them as they are."""
    family_report: FamilyReport | None = None
    """The choice of ``family="auto"`` for each column."""
    family_reason: str = ""
    """Why the family is this one where there is no report."""
    feature_names: tuple[str, ...] | None = None
    """Names of the columns that ``fit`` saw."""
    n_components: int = 0
    max_components: int | None = None
    """Largest number of components that the parameters allow."""
    loadings: Floats | None = None
    """(n_components, n_features), or one column for each column of the model where some column enters as several, see
    `loading_names`; None also where components are no directions of the columns."""
    loading_deviations: Floats | None = None
    """Posterior standard deviations of the loadings, same shape."""
    has_sparse_loadings: bool = False
    """Whether loadings are 0 on purpose."""
    dispersion: Floats | None = None
    """Of each column of the model given its predictor."""
    explained: Floats = field(default_factory=lambda: np.zeros(0))
    """Share of ``explained_quantity`` of each component, (n_components,); empty where it is not known."""
    explained_quantity: str = "deviance"
    """``"deviance"``, or ``"variance"`` of models that know only this."""
    trace: Floats = field(default_factory=lambda: np.zeros(0))
    """The objective after each iteration, (n_iter,)."""
    status: str = ""
    """How the fit ended, in the words of the solver."""
    criteria: Mapping[str, float] = field(default_factory=dict)
    """The available ones among ``bic``, ``icl``, ``aic``, ``log_likelihood``, ``n_parameters``, ``entropy`` and
    ``evidence``."""
    evidence_by_rank: Mapping[int, float] = field(default_factory=dict)
    """Log evidence of the numbers of components that the fit compared."""
    rank_probabilities: Mapping[int, float] = field(default_factory=dict)
    """Posterior probabilities of the numbers of components, if the model has them."""
    chosen_rank: int | None = None
    """The chosen number of components; with sparse loadings ``n_components`` may be smaller."""
    support: Bools | None = None
    """Whether each column has loadings, if the model selects columns, (n_features,)."""
    evidence_path: Floats | None = None
    """Log evidence of the sets of the 1, 2, ... most relevant columns."""
    removals: tuple[Any, ...] = ()
    """Components that left during the fit, with ``iteration``, ``n_components``, ``alpha`` and ``reason``."""
    breakpoints: Floats | None = None
    """Where pieces meet on the last component, (n_pieces - 1,)."""
    piece_shares: Floats | None = None
    """Share of the rows in each piece, (n_pieces,)."""

    @property
    def has_pieces(self) -> bool:
        """Whether the map from scores to rows bends: loadings and shares of components are then averages."""
        return self.breakpoints is not None

    @property
    def zero_share(self) -> float | None:
        """Share of loadings that are exactly 0."""
        return None if self.loadings is None or not self.loadings.size else float(np.mean(self.loadings == 0))

    def column_families(self, names: Sequence[str]) -> FamilyReport:
        """The family of each column, under these names, and why; empty for models that assume no distribution."""
        if self.family_report is not None:
            return FamilyReport(
                record._replace(column=name) for record, name in zip(self.family_report, names, strict=True)
            )
        if self.family is None:
            return FamilyReport()
        layout, reason = self._layout_of(len(names)), self.family_reason
        found = self.model_families(layout.n_columns)
        forms = dict(layout.forms)
        records = []
        for j, name in enumerate(names):
            form = forms.get(j)
            kind = found[int(layout.starts[j])] if form is None else form.name
            why = reason if form is None or not form.reason else form.reason
            records.append(FamilyRecord(name, kind, why, why))
        return FamilyReport(records)

    def model_families(self, n_columns: int) -> list[str]:
        """Names of the families of the model's columns; empty for models that assume no distribution."""
        members = [] if self.family is None else self.family.member_columns(n_columns)
        found = {int(j): member.name for member, columns in members for j in columns}
        return [found[j] for j in sorted(found)]

    def loading_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of the columns of ``loadings`` when the columns of the table have these names."""
        return self._layout_of(len(names)).reported_names(tuple(names))

    def loading_families(self, names: Sequence[str]) -> list[str]:
        """Names of the families of the columns of ``loadings``."""
        layout = self._layout_of(len(names))
        if layout.is_one_to_one:
            return [record.family for record in self.column_families(names)]
        return self.model_families(layout.n_columns)

    @property
    def strengths(self) -> Floats | None:
        """The loadings in units of their columns' noise, by which columns are compared whatever their units."""
        return None if self.loadings is None else self.loadings / self.loading_units

    @property
    def loading_units(self) -> Floats:
        """What `strengths` are in, (n_features,): the noise of columns with units, else 1."""
        assert self.loadings is not None
        if self.family is None or self.dispersion is None:
            return np.ones(self.loadings.shape[1])
        columns = self.model_columns(
            self.loadings.shape[1] if self.layout is None else self.layout.n_features
        )
        # Loadings of columns with units are divided by the standard deviation of the noise; others have no units.
        unit = np.ones(len(self.dispersion))
        for member, places in self.family.member_columns(len(unit)):
            if member.has_units:
                unit[places] = np.sqrt(self.dispersion[places])
        return np.where(columns >= 0, unit[columns], 1.0)

    @property
    def drawn_units(self) -> Floats | None:
        """What loadings are divided by to stand side by side; ``None`` where columns do not differ in it."""
        if self.loadings is None:
            return None
        units = self.loading_units
        return None if np.allclose(units, units[:1], rtol=1e-9) or not np.all(units > 0) else units

    @property
    def rank_account(self) -> str:
        """The chosen number of components with the evidence for its neighbours, in words.

        For example ``"9 (8 is ruled out by 14 nats; nothing speaks for more than 9); 7 explain more than 2 % each"``.
        """
        evidence, chosen = self.evidence_by_rank, self.chosen_rank
        if chosen is None or chosen not in evidence:
            return str(self.n_components)
        neighbours = (
            max((r for r in evidence if r < chosen), default=None),
            min((r for r in evidence if r > chosen), default=None),
        )
        parts = [
            _compare_ranks(rank, evidence[chosen] - evidence[rank]) for rank in neighbours if rank is not None
        ]
        if chosen == self.max_components:
            parts.append("the most that max_components allows; more may be better")
        elif neighbours[1] is None or evidence[chosen] - evidence[neighbours[1]] > _VERY_STRONG:
            parts = [*parts[: neighbours[0] is not None], f"nothing speaks for more than {chosen}"]
        visible = int((self.explained > _VISIBLE_SHARE).sum())
        shown = f"; {visible} explain more than 2 % each" if visible < len(self.explained) else ""
        return f"{chosen} ({'; '.join(parts)}){shown}"

    def model_columns(self, n_features: int) -> Ints:
        """For each column of ``loadings`` its column of the model, -1 where it is left out."""
        layout = self._layout_of(n_features)
        columns = np.arange(layout.n_columns)
        # Columns that are left out are padded with 0, which the shift by one makes -1.
        return layout.pad(columns + 1) - 1

    def _layout_of(self, n_features: int) -> Layout:
        return Layout(n_features) if self.layout is None else self.layout


def _compare_ranks(rank: int, lead: float) -> str:
    """How far the evidence of another number of components is behind."""
    if lead > _VERY_STRONG:
        return f"{rank} is ruled out by {lead:.0f} nats"
    return f"{rank} is only {lead:.1f} nats behind"


def describe(model: Any) -> Description:
    """A description of a model: its abilities from the signatures of its methods, the rest from fitted attributes.

    Parameters
    ----------
    model : estimator
        Of this package, or any that names its attributes as scikit-learn and this package do.

    Returns
    -------
    Description
    """
    fit, transform = (_parameters(find_attribute(model, name)) for name in ("fit", "transform"))
    found = replace(
        read_attributes(model),
        takes_offset="offset" in fit,
        takes_covariates="covariates" in fit,
        has_posterior="return_std" in transform,
        has_entries=find_attribute(model, "entry_log_likelihood") is not None,
        has_way_back=find_attribute(model, "inverse_transform") is not None,
        has_path=find_attribute(model, "path") is not None,
    )
    # What attributes do not show, as a mapping of fields.
    return replace(found, **getattr(model, "_description", {}))


def project_rows(model: Any, X: Any, **companions: Any) -> tuple[Floats, Floats | None]:
    """Scores of rows and, where the model has a posterior, their standard deviations.

    Parameters
    ----------
    model : fitted estimator
    X : table of shape (n_samples, n_features)
    **companions : dict
        ``offset`` and ``covariates`` of the rows, as in ``fit``, or None.

    Returns
    -------
    scores : ndarray of shape (n_samples, n_components)
    deviations : ndarray of the same shape or None
    """
    # Models from elsewhere need not know what was not given.
    given = {name: values for name, values in companions.items() if values is not None}
    if not describe(model).has_posterior:
        return np.asarray(model.transform(X, **given)), None
    scores, deviations = model.transform(X, return_std=True, **given)
    return np.asarray(scores), np.asarray(deviations)


def numbers_for(model: Any, X: Any) -> Any:
    """A table with numbers in place of the labels that a fitted model knows, for what reads it besides the model."""
    layout = describe(model).layout
    return X if layout is None else encode(X, dict(layout.labels))


def find_attribute(model: Any, *names: str) -> Any:
    """The first of some attributes that a model has, None if it has none of them."""
    found = (getattr(model, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def is_fitted(model: Any) -> bool:
    """Whether a model of this package, of scikit-learn or of neither has been fitted."""
    asked = find_attribute(model, "__sklearn_is_fitted__")
    if asked is not None:
        return bool(asked())
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


def read_attributes(model: Any) -> Description:
    """What the tags and the fitted attributes of a model show; what else it can do is left open."""
    tags = find_attribute(model, "__sklearn_tags__")
    found = {key: (find_attribute(model, *names), form) for key, (names, form) in _FIELDS.items()}
    criteria = {name: find_attribute(model, f"{name}_") for name in _CRITERIA}
    description = Description(
        type(model).__name__,
        takes_checkpoint="checkpoint" in _parameters(find_attribute(model, "fit")),
        handles_missing=tags is not None and bool(tags().input_tags.allow_nan),
        uses_offset=bool(find_attribute(model, "_uses_offset")),
        family_reason=_family_reason(model),
        criteria={name: float(value) for name, value in criteria.items() if value is not None},
        evidence_by_rank=_evidence_by_rank(model),
        explained_quantity="deviance" if hasattr(model, "explained_deviance_ratio_") else "variance",
        **{key: form(value) for key, (value, form) in found.items() if value is not None},
    )
    # A model that has loadings and names no family reconstructs rows by least squares.
    is_nameless = description.family is None and description.loadings is not None
    return replace(description, family=Gaussian()) if is_nameless else description


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=float)


def _names(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values))


def _as_it_is(value: Any) -> Any:
    return value


#: Of each field the attributes that hold it, the first that there is, and the form that it is given.
_FIELDS: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "family": (("family_",), _as_it_is),
    "layout": (("layout_",), _as_it_is),
    "family_report": (("family_report_",), _as_it_is),
    "feature_names": (("feature_names_in_",), _names),
    "n_components": (("n_components_",), int),
    "max_components": (("max_components",), int),
    "loadings": (("components_",), _floats),
    "loading_deviations": (("components_std_",), _floats),
    "explained": (("explained_deviance_ratio_", "explained_variance_ratio_"), _floats),
    "trace": (("objective_trace_",), _floats),
    "status": (("status_",), str),
    "rank_probabilities": (("rank_probabilities_",), dict),
    "chosen_rank": (("latent_dimension_", "n_components_"), int),
    "support": (("support_",), np.asarray),
    "evidence_path": (("evidence_path_",), _floats),
    "removals": (("pruning_path_",), tuple),
    "breakpoints": (("breakpoints_",), _floats),
    "piece_shares": (("piece_shares_",), _floats),
}


def _family_reason(model: Any) -> str:
    """Why a model has its family: it was a parameter, or there was no choice."""
    given = getattr(model, "__dict__", {}).get("family")
    if given is None:
        return f"the distribution that {type(model).__name__} assumes"
    return "the whole table allows it" if isinstance(given, str) and given == "auto" else "given"


def _evidence_by_rank(model: Any) -> dict[int, float]:
    """The log evidence that a model keeps by number of components, as a dict or as two arrays."""
    grid = find_attribute(model, "n_components_grid_")
    if grid is None:
        found = find_attribute(model, "evidence_by_rank_") or {}
    else:
        found = dict(zip(grid, model.evidence_grid_, strict=True))
    return {int(rank): float(value) for rank, value in found.items()}


def _parameters(method: Any) -> Mapping[str, inspect.Parameter]:
    """Names of the parameters of a method; none where there is no method."""
    return {} if method is None else inspect.signature(method).parameters
