"""Options of the joint mode, and which of them have no meaning together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anypca.models.sepca._noise import Settings
from anypca.priors import AdaptiveL0, Prior, Ridge, find_prior

# Weights of a path: with seven rows to a column each is a third larger than the last.
_PATH_LENGTH = 7


@dataclass(frozen=True)
class ModeOptions:
    r"""Options of ``SePCA(inference="map")``, the published algorithm.

    Parameters
    ----------
    nu : {"auto", "scaled"} or float, default="auto"
        Weight of the data: the mode keeps noise as the number of rows n grows beyond the number of columns D.
        ``"scaled"``, which ``"auto"`` means too, is :math:`\nu^* = 4 D / (\sqrt n + \sqrt D)^2`.
    nu_path : sequence of float, "auto" or None, default=None
        Weights to try; ``nu_criterion`` selects one. ``"auto"`` tries seven from :math:`\nu^*/2` to 1; above 1 an entry
        would count more than once.
    nu_criterion : {"held_out", "evidence", "joint"}, default="held_out"
        ``"held_out"`` takes the weight whose fits predict hidden entries best (four times a tenth of them),
        ``"evidence"`` the one with the largest Laplace evidence. ``"joint"``, the published criterion, takes the
        one with the largest joint log-likelihood, which is nearly always the largest or 1, with too many components.
    threshold : float or None, default=None
        Components are removed when their ``alpha`` exceeds it (five times it in the first ten rounds); None is 100 D
        times the largest mean curvature of a column, which does not depend on units.
    loading_penalty : str or Prior, default="ridge"
        ``"ridge"`` is the normal prior alone. ``"l1"``, ``"scad"`` and ``"group"`` are added to it and apply to
        loadings of scores of about unit size: with the first two components have few columns, with the last columns
        leave all components at once. Also a `anypca.priors.Prior`.
    loading_strength : float, default=1.0
        Weight of that penalty against the log-likelihood. A loading is zero if the likelihood gains less per unit;
        noise alone gains about ``sqrt(n_samples)`` times the root of an entry's information.
    delta : float, default=1e-8
        Squared loadings well below it count as zeros if ``sparsity`` is above 0.

    See Also
    --------
    SePCA : takes them as ``inference``.
    """

    nu: str | float = "auto"
    nu_path: Sequence[float] | str | None = None
    nu_criterion: str = "held_out"
    threshold: float | None = None
    loading_penalty: str | Prior = "ridge"
    loading_strength: float = 1.0
    delta: float = AdaptiveL0.delta

    def __post_init__(self) -> None:
        for name in ("nu", "threshold", "loading_strength", "delta"):
            value = getattr(self, name)
            if value is None or (name == "nu" and value in ("auto", "scaled")):
                continue
            if isinstance(value, str | bool) or not value > 0:
                raise ValueError(
                    f"The {name!r} parameter of ModeOptions must be a number above 0; got {value!r}."
                )
        if self.nu_criterion not in ("held_out", "evidence", "joint"):
            raise ValueError(
                "The 'nu_criterion' parameter of ModeOptions must be 'held_out', 'evidence' or 'joint'; "
                f"got {self.nu_criterion!r}."
            )

    def penalty(self, n_components: int) -> Prior | None:
        """The penalty of the loadings that is added to their normal prior."""
        prior = find_prior(self.loading_penalty, "loading_penalty", max(n_components, 1))
        given = f"loading_penalty={self.loading_penalty!r}"
        if isinstance(prior, AdaptiveL0):
            raise ValueError(f"{given} is what sparsity= means; use sparsity=1.0.")
        if isinstance(prior, Ridge):
            return None
        if self.nu_path is not None and self.nu_criterion == "evidence":
            raise ValueError(f"{given} has no evidence to choose nu by; use nu_criterion='held_out'.")
        return prior

    @property
    def chooses_by_hidden_entries(self) -> bool:
        """Whether the weight is chosen by hidden entries."""
        return self.nu_path is not None and self.nu_criterion == "held_out"


@dataclass(frozen=True)
class ModeSettings(Settings):
    """Settings of a fit of the joint mode."""

    weights: tuple[float, ...] = (1.0,)
    """Candidate values of nu; the best is used."""
    criterion: str = "evidence"
    """The ``"joint"`` log-likelihood or the ``"evidence"``, which is largest at the best weight."""
    threshold: float | None = None
    penalty: Prior | None = None
    strength: float = 1.0


def scaled_nu(n_samples: float, n_features: int) -> float:
    """The weight at which pure noise of unit information just fails to keep a component."""
    return float(4.0 * n_features / (np.sqrt(n_samples) + np.sqrt(n_features)) ** 2)


def weights_to_try(options: ModeOptions, n_rows: float, n_features: int) -> tuple[float, ...]:
    """Weights of the data to try, from ``nu`` and ``nu_path``."""
    scaled = scaled_nu(n_rows, n_features)
    if options.nu_path is None:
        return (scaled if isinstance(options.nu, str) else float(options.nu),)
    if isinstance(options.nu_path, str):
        return tuple(sorted({float(nu) for nu in np.geomspace(min(0.5 * scaled, 1.0), 1.0, _PATH_LENGTH)}))
    weights = tuple(sorted({float(nu) for nu in options.nu_path}))
    if not weights or not weights[0] > 0:
        raise ValueError(
            f"nu_path must hold weights above 0; got {options.nu_path!r}. Use nu_path='auto' for the usual ones."
        )
    return weights
