"""What a fit found, in the forms that are written and shown."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import anypca
from anypca._typing import Floats
from anypca.io import Frame
from anypca.plotting import plot_biplot, plot_scree, save_figure

#: Loadings named for each component.
_TOP = 6


class FamilyGroup(NamedTuple):
    """Columns that were given the same family for the same reason."""

    family: str
    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted model with the table it was fitted to."""

    source: str
    """Name of the file or data set."""
    model: Any
    frame: Frame
    scores: Floats
    """(n_rows, n_components)."""
    deviations: Floats | None
    """Posterior standard deviations of the scores, same shape; ``None`` where there is no posterior."""
    warnings: tuple[str, ...]
    seed: int
    groups: Sequence[Any] | None = None
    """A known group of each row, for the colours of the biplot."""

    @property
    def component_names(self) -> list[str]:
        """``component_1``, ``component_2``, ..."""
        return [f"component_{k}" for k in range(1, self.scores.shape[1] + 1)]

    @property
    def explained(self) -> Floats:
        """Share of deviance of each component, shape (n_components,)."""
        return np.asarray(self.model.explained_deviance_ratio_, dtype=float)

    def family_groups(self) -> list[FamilyGroup]:
        """The columns by family and reason, in order of appearance."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name, family, reason in self._families():
            groups.setdefault((family, reason), []).append(name)
        return [FamilyGroup(family, tuple(names), reason) for (family, reason), names in groups.items()]

    def _families(self) -> list[tuple[str, str, str]]:
        """Column, family and the rule that chose it."""
        report = getattr(self.model, "family_report_", None)
        if report is not None:
            names = self.frame.column_names
            return [
                (name, record.family, getattr(record, "rule", record.reason))
                for name, record in zip(names, report, strict=True)
            ]
        family = getattr(self.model, "family_", None)
        chosen, why = ("gaussian", "the model's only family") if family is None else (family.name, "given")
        return [(name, chosen, why) for name in self.frame.column_names]

    def top_loadings(self, component: int) -> list[tuple[str, float]]:
        """Names and values of a component's largest loadings, by decreasing magnitude."""
        loadings = self.model.components_[component]
        order = np.argsort(-np.abs(loadings), kind="stable")[:_TOP]
        return [(self.frame.column_names[j], float(loadings[j])) for j in order]

    def summary(self) -> dict[str, Any]:
        """The content of summary.json."""
        model, frame = self.model, self.frame
        objective = float(model.objective_trace_[-1]) if len(model.objective_trace_) else None
        return {
            "anypca": anypca.__version__,
            "source": self.source,
            "model": type(model).__name__,
            "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
            "rows": frame.n_rows,
            "columns": frame.n_columns,
            "missing_fraction": frame.missing_fraction,
            "notes": list(frame.notes),
            "warnings": list(self.warnings),
            "families": [
                {"family": group.family, "reason": group.reason, "columns": list(group.columns)}
                for group in self.family_groups()
            ],
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "objective": _plain(objective),
            "components": [
                {
                    "name": name,
                    "explained_deviance_ratio": _plain(float(self.explained[k])),
                    "top_loadings": dict(self.top_loadings(k)),
                }
                for k, name in enumerate(self.component_names)
            ],
        }

    def write_scores(self, path: Path) -> None:
        """Scores, and their standard deviations where known, with row names."""
        import pandas

        table = pandas.DataFrame(self.scores, columns=self.component_names)
        if self.deviations is not None:
            table[[f"{name}_sd" for name in self.component_names]] = self.deviations
        table.insert(0, "row", list(self.frame.row_names))
        table.to_csv(path, index=False, float_format="%.10g")

    def write_loadings(self, path: Path) -> None:
        """Loadings with column names, families and intercepts."""
        import pandas

        table = pandas.DataFrame(np.asarray(self.model.components_).T, columns=self.component_names)
        table.insert(0, "column", list(self.frame.column_names))
        table.insert(1, "family", [family for _, family, _ in self._families()])
        table["intercept"] = np.asarray(self.model.intercept_)
        table.to_csv(path, index=False, float_format="%.10g")

    def write_summary(self, path: Path) -> None:
        """The summary as JSON."""
        text = json.dumps(self.summary(), indent=2, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")

    def write_scree(self, path: Path) -> None:
        """The scree plot as PNG."""
        save_figure(plot_scree(self.model), path)

    def write_biplot(self, path: Path) -> None:
        """The biplot as PNG."""
        names, rows = self.frame.column_names, self.frame.row_names
        ax = plot_biplot(self.model, self.scores, feature_names=names, row_names=rows, color=self.groups)
        save_figure(ax, path)


def _plain(value: Any) -> Any:
    """A value that JSON knows; non-finite numbers, which it does not, become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else repr(value)
