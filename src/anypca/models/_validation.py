"""Parameter validation and convergence reporting."""

from __future__ import annotations

import logging
import sys
import warnings
from collections import ChainMap
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from anypca._compat import Interval, InvalidParameterError, StrOptions
from anypca._words import suggest
from anypca.exceptions import ConvergenceWarning
from anypca.solvers import Callback, Progress, Result, Status

logger = logging.getLogger("anypca")

#: What parameters may be, for ``_parameter_constraints``.
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


@dataclass(eq=False, repr=False)
class Estimator:
    """Parameters of every estimator, their validation, and reports on a fit.

    The ``_parameter_constraints`` of a class extend the constraints of its bases. The constraints here apply to names
    with the same meaning in every class.
    """

    _: KW_ONLY
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE],
        "family": "no_validation",
        "resolution": "no_validation",
        "hidden_layer_sizes": "no_validation",
        "fit_intercept": ["boolean"],
        "coef_scale": [None, Interval(Real, 0, None, closed="both")],
        "n_init": [AT_LEAST_ONE],
        "max_iter": [AT_LEAST_ONE],
        "tol": [POSITIVE],
        **{name: [AT_LEAST_ONE] for name in ("n_draws", "n_tune", "n_chains")},
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "init": "no_validation",
    }
    #: Other names of options, for the suggestion in the error message; they are not accepted.
    _synonyms: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # The class itself comes first in this order, and what comes first counts.
        own = (vars(base).get("_parameter_constraints", {}) for base in cls.__mro__)
        cls._parameter_constraints = dict(ChainMap(*own))

    def _check_parameters(self) -> None:
        """Raise on the first constructor parameter that breaks its constraint."""
        self._refuse_booleans()
        try:
            self._validate_params()  # type: ignore[attr-defined]
        except InvalidParameterError as error:
            hint = self._suggest()
            if not hint:
                raise
            raise InvalidParameterError(f"{error} {hint}") from None

    def _refuse_booleans(self) -> None:
        """True is an integer to Python, hence to the constraints; as a number of anything it is a slip."""
        for name in ("n_components", "max_iter", "n_jobs"):
            value = getattr(self, name, None)
            if isinstance(value, bool):
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be a number. Got {value} instead."
                )

    def _suggest(self) -> str:
        """The nearest allowed string for a parameter that is an unknown one, as a sentence."""
        for name, value in vars(self).items():
            constraints = self._parameter_constraints.get(name, [])
            options = [o for c in constraints if isinstance(c, StrOptions) for o in sorted(c.options)]
            if not isinstance(value, str) or not options or value in options:
                continue
            known = self._synonyms.get(value.lower())
            hint = f"Did you mean {known!r}?" if known in options else suggest(value.lower(), options)
            if hint:
                return hint
        return ""

    def _progress(self, notify: Callable[[], None]) -> Callback:
        """A callback that reports progress if ``verbose``, and calls the callbacks of scikit-learn.

        Messages go to the logger ``anypca`` if it has handlers, else to stderr.
        """

        def report(progress: Progress) -> None:
            if self.verbose:
                # The numbers are attributes of the record too, for progress bars.
                message = "%s iteration %d: objective %.8g, scaled gradient %.2g"
                values = (type(self).__name__, progress.iteration, progress.objective, progress.criterion)
                if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
                    logger.info(message, *values, extra=progress._asdict())
                else:
                    sys.stderr.write(f"{message % values}\n")
            notify()

        return report

    def _store_result(self, result: Result[Any]) -> None:
        """Set the attributes on the end of a fit."""
        self.objective_trace_ = result.trace
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.status_ = result.status.value

    def _warn_unless_converged(self, result: Result[Any]) -> None:
        """Warn with the reason if a fit ended without reaching a stationary point."""
        if not result.converged:
            by_gradient = f", scaled gradient: {result.criterion:.2g}, tol: {vars(self).get('tol', 0.0):.2g}"
            details = "" if result.status is Status.RISING else by_gradient
            warnings.warn(
                f"{type(self).__name__}: {result.status.value} (iterations: {result.n_iter}{details}).",
                ConvergenceWarning,
                stacklevel=3,
            )
