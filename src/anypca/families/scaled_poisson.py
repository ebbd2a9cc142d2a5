"""Counts with a variance proportional to the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from anypca._typing import Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, families, like
from anypca.families._dispersed import Dispersed
from anypca.families._log_link import Counts

#: Smallest initial ratio of variance to mean. A constant column has ratio zero, the boundary of the parameter space.
_SMALL = 1e-4


@families.register
@dataclass(frozen=True)
class ScaledPoisson(Dispersed, Counts):
    r"""Multiples of the dispersion phi: ``x / phi`` is a Poisson count with mean ``mu / phi``, ``mu = exp(eta)``.

    ``log p(x) = (x eta - exp(eta)) / phi - (x / phi) log phi - log (x / phi)! - log phi``, as a density per unit of
    x. The domain is the multiples of phi; other values >= 0 are accepted and evaluated by the same formula. The link is
    the logarithm. ``evaluate`` drops all terms after the first, which do not depend on eta.

    The variance is ``phi mu``. Derivatives in eta equal the quasi-Poisson derivatives, for counts that vary less
    (phi < 1) or more (phi > 1) than Poisson counts. phi = 1 is the Poisson family.

    ``family="auto"`` does not choose it from the values. `anypca.SePCA` uses it if counts vary less than Poisson
    counts around the fit, and reports this in ``dispersion_report_``.

    Parameters
    ----------
    phi : float, optional
        Ratio of variance to mean; estimated when left out.

    See Also
    --------
    NegativeBinomial : a likelihood for counts that vary more.

    Examples
    --------
    >>> import numpy as np
    >>> ScaledPoisson(phi=0.2).variance(np.array([10.0]), 0.2).tolist()
    [2.0]
    """

    name = "scaled_poisson"
    dispersion_kind = "scale"
    given_by = "phi"

    phi: float | None = None

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        scale = 1.0 / like(dispersion, eta)
        # A trial step may overflow: the value is then -inf, which the solver refuses.
        with np.errstate(over="ignore"):
            mu = np.exp(eta)
            value = (x * eta - mu) * scale
            gradient = (x - mu) * scale if order >= 1 else NOT_ASKED
            return Evaluation(value, gradient, mu * scale if order >= 2 else NOT_ASKED)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """Exact: ``(x mean - exp(mean + variance / 2)) / phi``."""
        scale = 1.0 / like(dispersion, mean)
        rate = np.exp(mean + 0.5 * variance)
        return Evaluation((x * mean - rate) * scale, (x - rate) * scale, rate * scale)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        phi = like(dispersion, x)
        ratio = x / phi
        return np.asarray(-ratio * np.log(phi) - gammaln(ratio + 1.0) - np.log(phi))

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.asarray((xlogy(x, x) - x) / like(dispersion, x))

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return mu * like(dispersion, mu)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        phi = np.broadcast_to(np.asarray(dispersion, float), np.shape(eta))
        return np.asarray(rng.poisson(np.exp(eta) / phi) * phi)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        ratio = np.divide(variance, mean, out=np.ones_like(mean), where=mean > 0)
        return np.maximum(ratio, _SMALL).astype(mean.dtype)
