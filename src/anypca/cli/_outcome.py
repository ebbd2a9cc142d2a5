"""Results of a fit as files and as terminal output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anypca._typing import Floats
from anypca._words import counted, is_number, listed, numbered, percent, shorten
from anypca.cli._folder import MODEL_FILE, REPORT_FILE, SUMMARY_FILE, write_folder_report
from anypca.cli._input_table import InputTable, place_seen_from
from anypca.cli._printing import dump, make_table, print_input, print_warnings
from anypca.cli._requests import ModelRequest, Runtime, TableRequest
from anypca.columns import FamilyReport
from anypca.interpretation import Parts, contributions, cos2
from anypca.io import Frame
from anypca.io.model_files import save
from anypca.linalg import largest
from anypca.models._description import Description, describe
from anypca.plotting import plot_biplot, plot_scores, plot_scree, save_figure
from anypca.selection import Diagnostic, diagnose

#: Loadings named for each component: as many as a line of the terminal holds.
_TOP = 6
# Fields of the family of a column.
_TOLD = ("column", "kind", "family", "reason", "lead", "runner_up")
#: Column names spelled out in a group: with four short names a line of 80 characters is full.
_NAMED = 4
#: Largest number of rows that are labelled by mere numbers in plots.
_NUMBERED = 40
#: First characters of formulas in Excel, LibreOffice and Google Sheets; the last two allow white space before them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: Files that a fit writes.
FILES = (
    "scores.csv",
    "loadings.csv",
    "contributions_rows.csv",
    "contributions_columns.csv",
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
    folder: Path
    """Where the files go."""
    runtime: Runtime

    @cached_property
    def description(self) -> Description:
        """Result of `describe` for the model."""
        return describe(self.model)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Findings in the residuals that can cause false components, with remedies."""
        frame, model = self.frame, self.model
        found = diagnose(
            model,
            self.table.as_input(model),
            **self.table.companions(model),
            row_names=frame.row_names,
            feature_names=frame.column_names,
        )
        return tuple(each for each in found if each.is_found)

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
        """Names and values of a component's loadings that are largest in units of their columns' noise, and not 0."""
        strengths = self.description.strengths
        if self.description.loadings is None or strengths is None:
            return []
        loadings, names = self.description.loadings[component], self.loading_names
        return [(names[j], float(loadings[j])) for j in largest(strengths[component], _TOP)]

    @property
    def loading_names(self) -> tuple[str, ...]:
        """Names of the columns that have loadings."""
        return self.description.loading_names(self.frame.column_names)

    def summary(self) -> dict[str, Any]:
        """The content of summary.json and of ``fit --json``."""
        model, table, found = self.model, self.table, self.description
        return {
            **table.content(),
            "path": place_seen_from(self.folder, table, self.wanted_table),
            "model": found.name,
            "parameters": model.get_params(deep=False),
            "seed": self.wanted_model.seed,
            "column_names": list(self.frame.column_names),
            "reading": dict(self.wanted_table.reading),
            "offset": self.wanted_table.offset,
            "covariates": list(self.wanted_table.covariates),
            "covariate_levels": {name: list(levels) for name, levels in table.levels.items()},
            "missing_codes": {name: list(codes) for name, codes in self.frame.codes.items()},
            "warnings": list(self.warnings),
            "findings": [found.text for found in self.diagnostics],
            "families": [
                {"family": group.family, "reason": group.rule, "columns": list(group.columns)}
                for group in self.families.groups()
            ],
            "column_families": [
                {**{name: getattr(record, name) for name in _TOLD}, "unsure": record.is_unsure}
                for record in self.families
            ],
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "objective": float(found.trace[-1]) if len(found.trace) else None,
            "n_components": self.n_components,
            "zero_loadings_fraction": found.zero_share,
            "components": [
                self._component(k, name) for k, name in enumerate(numbered("component_", self.n_components))
            ],
            "files": list(self.writers()),
        }

    def _component(self, k: int, name: str) -> dict[str, Any]:
        share = float(self.description.explained[k])
        return {"name": name, "explained_deviance_ratio": share, "top_loadings": dict(self.top_loadings(k))}

    def writers(self) -> dict[str, Callable[[Path], None]]:
        """For each file of the folder the function that writes it."""
        found: dict[str, Callable[[Path], None]] = {
            "scores.csv": self.write_scores,
            "loadings.csv": self.write_loadings,
            "contributions_rows.csv": self.write_row_parts,
            "contributions_columns.csv": self.write_column_parts,
            SUMMARY_FILE: self.write_summary,
            "scree.png": self.write_scree,
            "biplot.png": self.write_biplot,
            MODEL_FILE: lambda path: save(self.model, path),
            REPORT_FILE: self.write_report,
        }
        if not self.has_parts:
            del found["contributions_rows.csv"], found["contributions_columns.csv"]
        if self.description.loadings is None:
            del found["loadings.csv"]
            found["scores.png"] = found.pop("biplot.png")
        return found

    @property
    def has_parts(self) -> bool:
        """Whether components are directions of the columns, from which rows come back."""
        found = self.description
        return (
            self.n_components > 0
            and found.loadings is not None
            and found.has_way_back
            and not found.has_pieces
        )

    @cached_property
    def parts(self) -> tuple[Parts, Parts]:
        """Contributions and squared cosines of rows and columns."""
        X, companions = self.table.as_input(self.model), self.table.companions(self.model)
        explained = cos2(self.model, X, scores=self.scores, **companions)
        return contributions(self.model, self.scores), explained

    def _cells(self, names: Sequence[str]) -> list[str]:
        return safe_cells(names, raw=self.runtime.raw)

    def write_scores(self, path: Path) -> None:
        """Scores, and their standard deviations where known, with row names."""
        write_components(path, self.scores, self.deviations, {"row": self._cells(self.frame.row_names)})

    def write_loadings(self, path: Path) -> None:
        """Loadings, and their standard deviations where known, with column names, families and intercepts."""
        assert self.description.loadings is not None
        deviations = self.description.loading_deviations
        deviations = None if deviations is None else deviations.T
        names = {
            "column": self._cells(self.loading_names),
            "family": self.description.loading_families(self.frame.column_names),
        }
        intercept = {"intercept": self.model.intercept_}
        write_components(path, self.description.loadings.T, deviations, names, intercept)

    def write_row_parts(self, path: Path) -> None:
        """Contributions of rows to components, and how much of each row these explain."""
        own, explained = self.parts
        write_parts(path, own.rows, explained.rows, {"row": self._cells(self.frame.row_names)})

    def write_column_parts(self, path: Path) -> None:
        """Contributions and squared cosines of the columns."""
        own, explained = self.parts
        assert own.columns is not None
        assert explained.columns is not None
        write_parts(path, own.columns, explained.columns, {"column": self._cells(self.loading_names)})

    def write_summary(self, path: Path) -> None:
        """The summary as JSON."""
        path.write_text(dump("fit", self.summary()), encoding="utf-8")

    def write_scree(self, path: Path) -> None:
        """The scree plot as PNG."""
        save_figure(plot_scree(self.model) if self.n_components else _nothing(), path)

    def write_biplot(self, path: Path) -> None:
        """The biplot as PNG; the scores alone where there are no loadings."""
        names: Sequence[str] | None = self.frame.row_names
        if self.frame.n_rows > _NUMBERED and names == numbered("", self.frame.n_rows):
            names = None
        look: dict[str, Any] = {"row_names": names, "color": self.table.groups}
        if not self.n_components:
            ax = _nothing()
        elif self.description.loadings is not None:
            ax = plot_biplot(self.model, self.scores, feature_names=self.loading_names, **look)
        else:
            ax = plot_scores(self.model, self.scores, **look)
        save_figure(ax, path)

    def write_report(self, path: Path) -> None:
        """The report as one HTML file."""
        write_folder_report(
            self.model,
            self.table,
            path,
            warnings=self.warnings,
            code=self.runtime.command,
            findings=self.diagnostics,
        )


def safe_cells(names: Sequence[str], *, raw: bool = False) -> list[str]:
    """Escape names for spreadsheets: names that look like formulas get an apostrophe before them.

    Parameters
    ----------
    names : sequence of str
    raw : bool
        Whether they are left as they are.

    Returns
    -------
    cells : list of str
    """
    if raw:
        return list(names)
    return [f"'{name}" if name.startswith(_FORMULA) and not is_number(name) else name for name in names]


def check_is_scores(path: Path) -> None:
    """Raise an error instead of replacing a file that holds no scores.

    Parameters
    ----------
    path : Path

    Raises
    ------
    FileExistsError
        If there is another one.
    """
    head = b"row,component_1"
    if not path.is_file():
        return
    with path.open("rb") as stream:
        start = stream.readline(len(head)).rstrip()
    if not head.startswith(start or b"x"):
        raise FileExistsError(
            f"{path} holds no scores of anypca. Choose another file with --out, or replace it with --force."
        )


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


def write_parts(path: Path, own: Floats, explained: Floats, first: Mapping[str, Sequence[str]]) -> None:
    """Write contributions and squared cosines (m, n_components), and the sums of the latter, as CSV."""
    names = numbered("component_", own.shape[1])
    cosines = {f"{name}_cos2": cells for name, cells in zip(names, explained.T, strict=True)}
    write_components(path, own, None, first, {**cosines, "cos2": explained.sum(axis=1)})


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print the table, the choices and the results of a fit.

    Parameters
    ----------
    outcome : Outcome
    console : rich.console.Console
    """
    print_input(outcome.table, console, outcome.description.name)
    if outcome.families:
        console.print(make_table(("kind", "family", "columns", "why"), _family_rows(outcome)))
        for line in _doubts(outcome.families):
            console.print(Text(line), soft_wrap=True)
    if outcome.n_components:
        heads = ("component", "explained", "in sum", "strongest loadings")
        width = 3 if outcome.description.loadings is None else 4
        console.print(make_table(heads[:width], [row[:width] for row in _component_rows(outcome)]))
    else:
        console.print(Text("no component: nothing in the table stands out from noise", style="bold"))
    if outcome.description.rank_probabilities:
        account = f"number of components: {outcome.description.rank_account}"
        console.print(Text(account))
    converged = "converged" if outcome.model.converged_ else "NOT converged"
    ending = f"{converged} after {counted(int(outcome.model.n_iter_), 'iteration')}"
    console.print(Text(ending, style="green" if outcome.model.converged_ else "bold red"))
    shown = [found.text for found in outcome.diagnostics if found.is_warning]
    print_warnings([*outcome.warnings, *shown], console)


def _doubts(families: FamilyReport) -> list[str]:
    """A line on the columns whose family is unsure, if there are any."""
    doubts = [f"{shorten(each.column)} ({each.family}, {each.doubt})" for each in families if each.is_unsure]
    return [f"unsure: {listed(doubts, most=_NAMED)}; --family COL=FAMILY decides"] if doubts else []


def _family_rows(outcome: Outcome) -> list[tuple[str, str, str, str]]:
    """Kind of the values, family, columns and reason, one row for each group of columns."""
    rows, kinds = [], {each.column: each.kind for each in outcome.families}
    for group in outcome.families.groups():
        names = ", ".join(shorten(name) for name in group.columns[:_NAMED])
        more = len(group.columns) - _NAMED
        shown = f"{names}, ... ({more} more)" if more > 0 else names
        rows.append((kinds[group.columns[0]], group.family, shown, group.rule))
    return rows


def _component_rows(outcome: Outcome) -> list[tuple[str, str, str, str]]:
    """Number, explained share, running sum and strongest loadings, one row for each component."""
    explained = outcome.description.explained
    total = explained.cumsum()
    return [
        (
            str(k + 1),
            percent(share),
            percent(total[k]),
            ", ".join(f"{shorten(name)} {value:+.2f}" for name, value in outcome.top_loadings(k)),
        )
        for k, share in enumerate(explained)
    ]


def _nothing() -> Any:
    """A plot with the text that no component was found."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(5.0, 2.0)).subplots()
    ax.text(0.5, 0.5, "no component was found", ha="center", va="center")
    ax.set_axis_off()
    return ax
