"""The models by their names on the command line, and what each of them can honour."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import anypca
from anypca._words import quoted, suggest
from anypca.cli._requests import ModelRequest

#: Components of models that cannot choose their number, unless ``-k`` says otherwise: the axes of a picture.
DEFAULT_COMPONENTS = 2
#: Share of the columns that a component of sparse PCA keeps, unless ``--set n_nonzero=N`` says otherwise. The model
#: cannot know what a reader finds sparse; a quarter is few enough to be read and rarely too few to explain.
_KEPT = 0.25


@dataclass(frozen=True)
class Shape:
    """What defaults may depend on."""

    n_columns: int
    is_counts: bool
    """Whether all cells are whole numbers of 0 or more."""
    names: tuple[str, ...] = ()
    """Names of the columns."""
    has_names: bool = False
    """Whether the model sees the names."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Families that the names of columns suggest."""


def _no_settings(_: Shape) -> dict[str, Any]:
    return {}


def _fast_family(shape: Shape) -> dict[str, Any]:
    """The families with closed forms; others are integrated numerically, which takes long."""
    return {"family": "poisson" if shape.is_counts else "gaussian"}


def _few_columns(shape: Shape) -> dict[str, Any]:
    return {"n_nonzero": max(1, round(_KEPT * shape.n_columns))}


@dataclass(frozen=True)
class Entry:
    """A model as the command line knows it; the model itself describes what it can do."""

    class_name: str
    summary: str
    """What it is for, in a few words."""
    families: tuple[str, ...] = ()
    """Families it can be asked for; empty: any."""
    rank: str = "n_components"
    """The parameter that ``-k`` sets."""
    chooses_rank: bool = False
    """Whether the number of components may be left to the model."""
    defaults: Callable[[Shape], dict[str, Any]] = _no_settings
    """Parameters that the class leaves open."""

    @property
    def estimator(self) -> Any:
        """The class of the estimator."""
        return getattr(anypca, self.class_name)

    @property
    def abilities(self) -> Any:
        """What the model can do, as a `Description`."""
        from anypca.models._description import describe  # the help needs no models

        return describe(self.estimator())

    @property
    def parameters(self) -> frozenset[str]:
        """Parameters of the constructor."""
        return frozenset(inspect.signature(self.estimator).parameters)


_GAUSSIAN, _POISSON = ("gaussian",), ("poisson",)

#: In the order in which they are offered. A new model is one line.
MODELS: dict[str, Entry] = {
    "auto": Entry("SePCA", "families and dimension found", rank="max_components", chooses_rank=True),
    "ppca": Entry("PPCA", "real values", _GAUSSIAN),
    "epca": Entry("EPCA", "any family"),
    "sepca": Entry("SePCA", "any family, dimension chosen", rank="max_components", chooses_rank=True),
    "bepca": Entry("BEPCA", "any family, by draws from the posterior"),
    "isfa": Entry("ISFA", "factors used or not, number drawn", rank="max_factors", chooses_rank=True),
    "sppca": Entry("SPPCA", "counts, dimension chosen", _POISSON, rank="max_components", chooses_rank=True),
    "ssppca": Entry("SSPPCA", "counts, few columns", _POISSON, rank="max_components", chooses_rank=True),
    "gpca": Entry("GPCA", "projection of natural parameters"),
    "gsppca": Entry("GSPPCA", "real values, few columns", _GAUSSIAN, chooses_rank=True),
    "spca": Entry("SPCA", "real values, few columns per component", _GAUSSIAN, defaults=_few_columns),
    "sspca": Entry("SSPCA", "real values, few columns, cross-validated", _GAUSSIAN),
    "kernel": Entry("KernelPCA", "curved structure", _GAUSSIAN),
    "plnpca": Entry("PLNPCA", "counts with offsets and covariates", _POISSON),
    "piecewise": Entry("PiecewisePCA", "bent sheets", defaults=_fast_family),
    "autoencoder": Entry("Autoencoder", "bent sheets, by least squares", _GAUSSIAN),
    "vae": Entry("VAE", "bent sheets, any family"),
}


def find_model(name: str) -> Entry:
    """The entry of a name.

    Parameters
    ----------
    name : str

    Returns
    -------
    entry : Entry

    Raises
    ------
    ValueError
        If there is no such model; the message lists them.
    """
    if name not in MODELS:
        raise ValueError(f"{name!r} is not one of {', '.join(MODELS)}. {suggest(name, MODELS)}".rstrip())
    return MODELS[name]


def build(request: ModelRequest, shape: Shape, *, verbose: bool = False) -> Any:
    """The estimator that a user asked for, not yet fitted.

    Parameters
    ----------
    request : ModelRequest
    shape : Shape
        Of the table.
    verbose : bool
        Whether it logs its iterations, for a progress bar.

    Returns
    -------
    model : estimator

    Raises
    ------
    ValueError
        If the model cannot honour a wish; the message says which and what to do.
    """
    entry = find_model(request.name)
    wishes = {**entry.defaults(shape), "n_jobs": request.threads, "verbose": int(verbose)}
    wishes |= {"random_state": request.seed} | _family(entry, request, shape) | _rank(entry, request)
    unknown = [name for name in request.settings if name not in entry.parameters]
    if unknown:
        hint = suggest(unknown[0], entry.parameters, f"It has {', '.join(sorted(entry.parameters))}.")
        raise ValueError(f"--set {unknown[0]}: {entry.class_name} has no such parameter. {hint}")
    if "penalty" in request.settings:
        wishes.pop("n_nonzero", None)
    known = {name: value for name, value in wishes.items() if name in entry.parameters}
    return entry.estimator(**{**known, **request.settings})


def _family(entry: Entry, request: ModelRequest, shape: Shape) -> dict[str, Any]:
    """The parameter ``family``, if the model has one and it is settled."""
    if request.by_column:
        return {"family": _families(entry, request, shape)}
    if request.family == "auto":
        is_set = entry.families or "family" in entry.defaults(shape)
        return {} if is_set else {"family": _hinted(request, shape) or "auto"}
    if entry.families and request.family not in entry.families:
        raise _wrong_family(entry, request, request.family)
    return {"family": request.family}


def _wrong_family(entry: Entry, request: ModelRequest, family: str) -> ValueError:
    what = "real values (gaussian)" if "gaussian" in entry.families else "counts (poisson)"
    return ValueError(
        f"--model {request.name} is for {what} and cannot use --family {family}. Use --model epca or sepca."
    )


def _families(entry: Entry, request: ModelRequest, shape: Shape) -> dict[Any, str] | str:
    """The families of single columns, by name or, where the model sees no names, by number."""
    if entry.families:
        raise _wrong_family(entry, request, "=".join(request.by_column[0]))
    chosen = _hinted(request, shape) if request.family == "auto" else {"default": request.family}
    for pattern, family in request.by_column:
        found = [j for j, name in enumerate(shape.names) if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            hint = suggest(pattern, shape.names, f"There are {quoted(shape.names, most=8)}.")
            raise ValueError(f"--family {pattern}={family}: the table has no such column. {hint}")
        name = "ordinal" if "<" in family else family  # labels in their order
        chosen |= {_key(j, shape): name for j in found}
    chosen = {key: name for key, name in chosen.items() if name != "auto"}
    return chosen or "auto"


def _hinted(request: ModelRequest, shape: Shape) -> dict[Any, str]:
    """Families that the names of columns suggest, for models whose columns may have different ones."""
    if not takes_labels(request):
        return {}
    return {_key(j, shape): shape.hints[name] for j, name in enumerate(shape.names) if name in shape.hints}


def _key(column: int, shape: Shape) -> str | int:
    """How a column is called where families are given."""
    return shape.names[column] if shape.has_names else column


def takes_labels(request: ModelRequest) -> bool:
    """Whether the model that a user asked for can have columns of labels: its families are looked for by column."""
    entry = find_model(request.name)
    is_open = "family" in entry.parameters and not entry.families and entry.defaults is _no_settings
    can_choose = is_open and entry.class_name != "GPCA"  # which has one family for all columns
    return can_choose and request.family == "auto" and "family" not in request.settings


def _rank(entry: Entry, request: ModelRequest) -> dict[str, Any]:
    if request.n_components is None and entry.chooses_rank:
        return {}
    return {entry.rank: DEFAULT_COMPONENTS if request.n_components is None else request.n_components}


def check_companions(
    name: str, *, offset: bool, covariates: bool, missing: bool, checkpoint: bool = False
) -> None:
    """Refuse what a model cannot use.

    Parameters
    ----------
    name : str
        Of the model.
    offset, covariates, missing, checkpoint : bool
        Whether the user gave them, and whether cells are missing.

    Raises
    ------
    ValueError
        With models that can.
    """
    entry = find_model(name)
    needs = (
        (offset, attrgetter("takes_offset"), "takes no offset. Leave --offset out"),
        (covariates, attrgetter("takes_covariates"), "takes no covariates. Leave --covariates out"),
        (checkpoint, attrgetter("takes_checkpoint"), "has no checkpoints. Leave --checkpoint out"),
        (
            missing,
            attrgetter("handles_missing"),
            "needs a complete table and some cells are missing. Fill them in, leave out the columns that have them",
        ),
    )
    for is_given, can_use, complaint in needs:
        if is_given and not can_use(entry.abilities):
            others = [other for other, model in MODELS.items() if can_use(model.abilities)]
            raise ValueError(f"--model {name} {complaint}, or use --model {' or '.join(others)}.")


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["n_pieces=3", "kernel=linear"]`` as parameters: numbers, lists, True, False and None are read as such.

    Parameters
    ----------
    pairs : list of str

    Returns
    -------
    settings : dict

    Raises
    ------
    ValueError
        If there is no ``=``.
    """
    settings = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"--set needs NAME=VALUE, as in --set n_pieces=3; got {pair!r}.")
        try:
            settings[name.strip()] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            settings[name.strip()] = text.strip()
    return settings
