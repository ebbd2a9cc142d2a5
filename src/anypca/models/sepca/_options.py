"""Options of SePCA that have no meaning together, and the penalty that they name."""

from __future__ import annotations

from typing import Any

from anypca.priors import AdaptiveL0, Prior, Ridge, find_prior


def check_options(model: Any) -> None:
    """Raise on options that have no meaning together."""
    is_sparse = isinstance(model.sparsity, str) or model.sparsity > 0
    if model.inference == "hmc" and is_sparse:
        raise ValueError(
            f"sparsity={model.sparsity!r} has no meaning for draws from a posterior, which are never zero; "
            "use inference='vb' or 'map', or sparsity=0."
        )
    if model.inference != "map" and (model.nu != "auto" or model.nu_path is not None):
        raise ValueError(
            f"nu={model.nu!r}, nu_path={model.nu_path!r}: inference={model.inference!r} needs no weight of the data; "
            "leave both out, or use inference='map'."
        )
    if model.inference != "vb" and (model.warm_start or model.init is not None):
        raise ValueError(
            f"warm_start and init are for inference='vb'; {model.inference!r} starts from more components than it "
            "ends with. Leave both out."
        )
    if loading_penalty(model) is not None:
        _check_penalty(model, is_sparse=is_sparse)


def _check_penalty(model: Any, *, is_sparse: bool) -> None:
    """Raise where a loading penalty has no meaning."""
    given = f"loading_penalty={model.loading_penalty!r}"
    if model.inference != "map":
        raise ValueError(
            f"{given} is a penalty of modes; inference={model.inference!r} has posteriors. "
            "Use inference='map', or sparsity= with inference='vb'."
        )
    if is_sparse:
        raise ValueError(
            f"{given} and sparsity={model.sparsity!r} are two penalties of the same loadings; leave one out."
        )
    if model.nu_path is not None and model.nu_criterion == "evidence":
        raise ValueError(f"{given} has no evidence to choose nu by; use nu_criterion='held_out'.")


def loading_penalty(model: Any) -> Prior | None:
    """The penalty of the loadings beside their normal prior."""
    prior = find_prior(model.loading_penalty, "loading_penalty", max(model.max_components or 0, 1))
    if isinstance(prior, AdaptiveL0):
        raise ValueError(
            f"loading_penalty={model.loading_penalty!r} is what sparsity= stands for; use sparsity=1.0."
        )
    return None if isinstance(prior, Ridge) else prior
