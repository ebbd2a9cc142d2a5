"""A report in one HTML file, with nothing to fetch."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from anypca.cli._outcome import Outcome
from anypca.cli._show import component_rows, ending, family_rows, missing

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
th, td {{ text-align: left; vertical-align: top; }}
th, td {{ padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #ddd; }}
img {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def write_report(outcome: Outcome, path: Path, *, pictures: Path) -> None:
    """Write a self-contained HTML report.

    Parameters
    ----------
    outcome : Outcome
    path : Path
        Where to write.
    pictures : Path
        The folder that holds scree.png and biplot.png.
    """
    title = f"{type(outcome.model).__name__} of {outcome.source}"
    frame = outcome.frame
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(f'{frame.n_rows} rows, {frame.n_columns} columns, {missing(outcome)}.')}</p>",
        _listing([*frame.notes, *outcome.warnings]),
        "<h2>What the columns are taken for</h2>",
        _table(("family", "columns", "why"), family_rows(outcome)),
        "<h2>Components</h2>",
        f"<p>The fit {escape(ending(outcome))}.</p>",
        _table(("component", "explained", "in sum", "strongest loadings"), component_rows(outcome)),
        _picture(pictures / "scree.png", "Share of deviance that each component explains"),
        _picture(pictures / "biplot.png", "Rows as points, the strongest columns as arrows"),
    ]
    path.write_text(_PAGE.format(title=escape(title), body="\n".join(parts)), encoding="utf-8")


def _listing(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _picture(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    text = escape(caption)
    image = f'<img src="data:image/png;base64,{data}" alt="{text}">'
    return f"<figure>{image}<figcaption>{text}</figcaption></figure>"
