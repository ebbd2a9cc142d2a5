"""What a fit found, in the forms that are written and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from anypca._typing import Floats
from anypca._words import numbered
from anypca.cli._command_line import command_line
from anypca.cli._folder import MODEL_FILE, REPORT_FILE, SUMMARY_FILE, write_folder_report
from anypca.cli._input_table import InputTable, TableRequest
from anypca.cli._json import document, dump
from anypca.cli._models import ModelRequest
from anypca.cli._pictures import draw_biplot, draw_scree
from anypca.families.auto import FamilyReport
from anypca.io import Frame
from anypca.io.model_files import save
from anypca.linalg import largest
from anypca.models._description import Description, describe

#: Loadings named for each component: as many as a line of the terminal holds.
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


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted model with the table it was fitted to."""

    model: Any
    table: InputTable
    scores: Floats
    """(n_rows, n_components)."""
    deviations: Floats | None
    """Posterior standard deviations of the scores, same shape; ``None`` where there is no posterior."""
    warnings: tuple[str, ...]
    wanted_model: ModelRequest
    wanted_table: TableRequest

    @cached_property
    def description(self) -> Description:
        """What the model says of itself."""
        return describe(self.model)

    @property
    def frame(self) -> Frame:
        """The numbers with their names."""
        return self.table.frame

    @property
    def n_components(self) -> int:
        """Number of components."""
        return int(self.scores.shape[1])

    @cached_property
    def families(self) -> FamilyReport:
        """The family of each column and why; empty for models without a distribution."""
        return self.description.column_families(self.frame.column_names)

    def top_loadings(self, component: int) -> list[tuple[str, float]]:
        """Names and values of a component's largest loadings that are not 0, by decreasing magnitude."""
        if self.description.loadings is None:
            return []
        loadings = self.description.loadings[component]
        return [(self.frame.column_names[j], float(loadings[j])) for j in largest(loadings, _TOP)]

    def summary(self) -> dict[str, Any]:
        """The content of summary.json and of ``fit --json``."""
        model, table, found = self.model, self.table, self.description
        return {
            **table.content(),
            "path": table.place,
            "model": found.name,
            "parameters": model.get_params(deep=False),
            "seed": self.wanted_model.seed,
            "column_names": list(self.frame.column_names),
            "reading": dict(self.wanted_table.reading),
            "offset": self.wanted_table.offset,
            "covariates": list(self.wanted_table.covariates),
            "covariate_levels": {name: list(levels) for name, levels in table.levels.items()},
            "warnings": list(self.warnings),
            "families": [
                {"family": group.family, "reason": group.rule, "columns": list(group.columns)}
                for group in self.families.groups()
            ],
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "objective": float(found.trace[-1]) if len(found.trace) else None,
            "n_components": self.n_components,
            "zero_loadings_fraction": found.zero_share,
            "components": [
                {
                    "name": name,
                    "explained_deviance_ratio": float(found.explained[k]),
                    "top_loadings": dict(self.top_loadings(k)),
                }
                for k, name in enumerate(numbered("component_", self.n_components))
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
        if self.description.loadings is None:
            del found["loadings.csv"]
            found["scores.png"] = found.pop("biplot.png")
        return found

    def write_scores(self, path: Path) -> None:
        """Scores, and their standard deviations where known, with row names."""
        write_components(path, self.scores, self.deviations, {"row": self.frame.row_names})

    def write_loadings(self, path: Path) -> None:
        """Loadings, and their standard deviations where known, with column names, families and intercepts."""
        assert self.description.loadings is not None
        deviations = self.description.loading_deviations
        names = {
            "column": self.frame.column_names,
            "family": [record.family for record in self.families],
        }
        write_components(
            path,
            self.description.loadings.T,
            None if deviations is None else deviations.T,
            names,
            {"intercept": self.model.intercept_},
        )

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


def write_components(
    path: Path,
    values: Floats,
    deviations: Floats | None,
    first: Mapping[str, Sequence[str]],
    last: Mapping[str, Any] | None = None,
) -> None:
    """Write numbers with a column for each component as CSV.

    Parameters
    ----------
    path : Path
    values : ndarray of shape (n_rows, n_components)
    deviations : ndarray of the same shape or None
        Standard deviations, in columns that end in ``_sd``.
    first, last : dict of str to sequences of length n_rows
        Further columns before and after.
    """
    import pandas

    names = numbered("component_", values.shape[1])
    columns: dict[str, Any] = {name: list(cells) for name, cells in first.items()}
    columns |= dict(zip(names, values.T, strict=True))
    if deviations is not None:
        columns |= {f"{name}_sd": cells for name, cells in zip(names, deviations.T, strict=True)}
    table = pandas.DataFrame({**columns, **(last or {})})
    table.to_csv(path, index=False, float_format="%.10g")
