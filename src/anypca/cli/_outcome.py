"""What a fit found, in the forms that are written and shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.cli._command import command_line
from anypca.cli._folder import MODEL_FILE, REPORT_FILE, SUMMARY_FILE, write_folder_report
from anypca.cli._json import document, dump
from anypca.cli._models import ModelRequest
from anypca.cli._pictures import draw_biplot, draw_scree
from anypca.cli._table import Table, TableRequest
from anypca.io import Frame
from anypca.io.model_files import save

#: Loadings named for each component.
_TOP = 6
#: What a fit may write.
FILES = (
    "scores.csv",
    "loadings.csv",
    SUMMARY_FILE,
    "scree.png",
    "biplot.png",
    "scores.png",
    MODEL_FILE,
    REPORT_FILE,
)


class FamilyGroup(NamedTuple):
    """Columns that were given the same family for the same reason."""

    family: str
    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted model with the table it was fitted to."""

    model: Any
    table: Table
    scores: Floats
    """(n_rows, n_components)."""
    deviations: Floats | None
    """Posterior standard deviations of the scores, same shape; ``None`` where there is no posterior."""
    warnings: tuple[str, ...]
    wanted_model: ModelRequest
    wanted_table: TableRequest

    @property
    def frame(self) -> Frame:
        """The numbers with their names."""
        return self.table.frame

    @property
    def component_names(self) -> list[str]:
        """``component_1``, ``component_2``, ..."""
        return [f"component_{k}" for k in range(1, self.scores.shape[1] + 1)]

    @property
    def explained(self) -> Floats:
        """Share of deviance of each component, shape (n_components,)."""
        return np.asarray(self.model.explained_deviance_ratio_, dtype=float)

    @property
    def loadings(self) -> Floats | None:
        """(n_components, n_columns); ``None`` for models whose components are no directions of the columns."""
        found = getattr(self.model, "components_", None)
        return None if found is None else np.asarray(found, dtype=float)

    @property
    def zero_share(self) -> float | None:
        """Share of loadings that are exactly 0."""
        loadings = self.loadings
        return None if loadings is None or loadings.size == 0 else float(np.mean(loadings == 0))

    def family_groups(self) -> list[FamilyGroup]:
        """The columns by family and reason, in order of appearance."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name, family, reason in self._families():
            groups.setdefault((family, reason), []).append(name)
        return [FamilyGroup(family, tuple(names), reason) for (family, reason), names in groups.items()]

    def _families(self) -> list[tuple[str, str, str]]:
        """Column, family and the rule that chose it; empty for models without a distribution."""
        names = self.frame.column_names
        report = getattr(self.model, "family_report_", None)
        if report is not None:
            return [
                (name, record.family, getattr(record, "rule", record.reason))
                for name, record in zip(names, report, strict=True)
            ]
        if self.loadings is None:
            return []
        family = getattr(self.model, "family_", None) or getattr(self.model, "family", None)
        if family is not None:
            is_given = self.wanted_model.family != "auto"
            chosen = family if isinstance(family, str) else family.name
            why = "given" if is_given else "the whole table allows it"
            return [(name, chosen, why) for name in names]
        chosen = "poisson" if "PLN" in type(self.model).__name__ else "gaussian"
        return [(name, chosen, "the model's only family") for name in names]

    def top_loadings(self, component: int) -> list[tuple[str, float]]:
        """Names and values of a component's largest loadings that are not 0, by decreasing magnitude."""
        if self.loadings is None:
            return []
        loadings = self.loadings[component]
        order = np.argsort(-np.abs(loadings), kind="stable")[:_TOP]
        return [(self.frame.column_names[j], float(loadings[j])) for j in order if loadings[j] != 0]

    def summary(self) -> dict[str, Any]:
        """The content of summary.json and of ``fit --json``."""
        model, frame, table = self.model, self.frame, self.table
        trace: Any = getattr(model, "objective_trace_", ())
        return {
            "source": table.source,
            "path": table.place,
            "model": type(model).__name__,
            "parameters": model.get_params(deep=False),
            "seed": self.wanted_model.seed,
            "rows": frame.n_rows,
            "columns": frame.n_columns,
            "column_names": list(frame.column_names),
            "missing_fraction": frame.missing_fraction,
            "reading": dict(self.wanted_table.reading),
            "offset": self.wanted_table.offset,
            "covariates": list(self.wanted_table.covariates),
            "covariate_levels": {name: list(levels) for name, levels in table.levels.items()},
            "notes": list(frame.notes),
            "warnings": list(self.warnings),
            "families": [
                {"family": group.family, "reason": group.reason, "columns": list(group.columns)}
                for group in self.family_groups()
            ],
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "objective": float(trace[-1]) if len(trace) else None,
            "n_components": self.scores.shape[1],
            "zero_loadings_fraction": self.zero_share,
            "components": [
                {
                    "name": name,
                    "explained_deviance_ratio": float(self.explained[k]),
                    "top_loadings": dict(self.top_loadings(k)),
                }
                for k, name in enumerate(self.component_names)
            ],
            "files": list(self.writers()),
        }

    def writers(self) -> dict[str, Callable[[Path], None]]:
        """For each file of the folder the function that writes it."""
        found: dict[str, Callable[[Path], None]] = {
            "scores.csv": self.write_scores,
            "loadings.csv": self.write_loadings,
            SUMMARY_FILE: self.write_summary,
            "scree.png": self.write_scree,
            "biplot.png": self.write_biplot,
            MODEL_FILE: lambda path: save(self.model, path),
            REPORT_FILE: self.write_report,
        }
        if self.loadings is None:
            del found["loadings.csv"]
            found["scores.png"] = found.pop("biplot.png")
        return found

    def write_scores(self, path: Path) -> None:
        """Scores, and their standard deviations where known, with row names."""
        scores_frame(self.scores, self.deviations, self.frame.row_names).to_csv(
            path, index=False, float_format="%.10g"
        )

    def write_loadings(self, path: Path) -> None:
        """Loadings, and their standard deviations where known, with column names, families and intercepts."""
        import pandas

        table = pandas.DataFrame(np.asarray(self.loadings).T, columns=self.component_names)
        deviations = getattr(self.model, "components_std_", None)
        if deviations is not None:
            table[[f"{name}_sd" for name in self.component_names]] = np.asarray(deviations).T
        table.insert(0, "column", list(self.frame.column_names))
        table.insert(1, "family", [family for _, family, _ in self._families()])
        table["intercept"] = np.asarray(self.model.intercept_)
        table.to_csv(path, index=False, float_format="%.10g")

    def write_summary(self, path: Path) -> None:
        """The summary as JSON."""
        path.write_text(dump(document("fit", self.summary())), encoding="utf-8")

    def write_scree(self, path: Path) -> None:
        """The scree plot as PNG."""
        draw_scree(self.model, path)

    def write_biplot(self, path: Path) -> None:
        """The biplot as PNG; the scores alone where there are no loadings."""
        draw_biplot(self.model, self.scores, self.frame, self.table.groups, path)

    def write_report(self, path: Path) -> None:
        """The report as one HTML file."""
        code = command_line(self.wanted_model, self.wanted_table)
        write_folder_report(self.model, self.table, path, warnings=self.warnings, code=code)


def scores_frame(scores: Floats, deviations: Floats | None, row_names: Sequence[str]) -> Any:
    """Scores with names, as they are written.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_components)
    deviations : ndarray of the same shape or None
    row_names : sequence of str of length n_rows

    Returns
    -------
    table : pandas.DataFrame
    """
    import pandas

    names = [f"component_{k}" for k in range(1, scores.shape[1] + 1)]
    table = pandas.DataFrame(scores, columns=names)
    if deviations is not None:
        table[[f"{name}_sd" for name in names]] = deviations
    table.insert(0, "row", list(row_names))
    return table
