"""Settings of a fit from the parameters of an estimator, what is chosen by hidden entries among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sklearn.base import clone

from anypca.engine import encode
from anypca.families import Family
from anypca.models._session import Session
from anypca.models.sepca._noise import Settings
from anypca.models.sepca._options import loading_penalty
from anypca.models.sepca._settings import ModeSettings
from anypca.models.sepca._sparsity import choose_sparsity
from anypca.models.sepca._weight import choose_weight, weights_to_try


def choose_settings(
    model: Any, session: Session, family: Family, X: Any, companions: Mapping[str, Any]
) -> tuple[Settings | ModeSettings, dict[float, tuple[float, int]]]:
    """Settings of the fit of an estimator, and how the weight of the data was chosen by hidden entries, if it was."""
    weights = weights_to_try(model.nu, model.nu_path, session)
    path: dict[float, tuple[float, int]] = {}
    rows = {name: companions[name] for name in ("offset", "covariates")}
    sample_weight = companions["sample_weight"]
    trial, layout = model, session.layout
    by_hidden = model.nu_path is not None and model.nu_criterion == "held_out"
    if session.data.has_entry_weights and (by_hidden or isinstance(model.sparsity, str)):
        raise ValueError(
            "nu_criterion='held_out' and sparsity='auto' choose by hidden entries, which have no weights of their own. "
            "Leave out entry_weight=, or give numbers for nu and sparsity."
        )
    if layout.labels:  # trials see numbers, which do not tell that they stand for labels
        X, trial = encode(X, dict(layout.labels)), clone(model).set_params(family=layout.settled(family))
    if by_hidden:
        nu, path = choose_weight(trial, X, weights, sample_weight=sample_weight, companions=rows)
        weights = (nu,)
    sparsity = model.sparsity
    if isinstance(sparsity, str):
        at_weight = clone(trial).set_params(nu=weights[0], nu_path=None) if path else trial
        sparsity = choose_sparsity(at_weight, X, sample_weight=sample_weight, **rows)
    settings = Settings(
        max_components=model._rank(session),
        fit_intercept=bool(model.fit_intercept),
        dispersion=model._fixed_dispersion(),
        sparsity=float(sparsity),
        delta=float(model.delta),
        sharing=model.dispersion if isinstance(model.dispersion, str) else "auto",
    )
    return _mode_settings(model, settings, weights) if model.inference == "map" else settings, path


def _mode_settings(model: Any, settings: Settings, weights: tuple[float, ...]) -> ModeSettings:
    criterion = "joint" if model.nu_criterion == "joint" else "evidence"
    return ModeSettings(
        **asdict(settings),
        weights=weights,
        criterion=criterion,
        threshold=model._largest_alpha(),
        penalty=loading_penalty(model),
        strength=float(model.loading_strength),
    )
