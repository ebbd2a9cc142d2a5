"""Draw the picture of the page "Which model for my data?": a tree from kinds of cells to models, with links."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

_ROW, _GAP, _PAD = 40, 22, 6
_WIDTH = 960
#: Left edge and width of the columns: root, kinds, wishes, models.
_ROOT, _KIND, _WISH, _MODEL = (0, 130), (165, 195), (390, 335), (755, 205)


@dataclass(frozen=True)
class Leaf:
    """A wish, and the model that meets it."""

    wish: str
    model: str
    page: str


@dataclass(frozen=True)
class Kind:
    """What the cells hold, in lines of text, and the wishes that may come with it."""

    lines: tuple[str, ...]
    leaves: tuple[Leaf, ...]


KINDS = (
    Kind(
        ("real numbers", "with normal noise"),
        (
            Leaf("a flat cloud; cells may be missing", "PPCA", "ppca"),
            Leaf("each component should use few columns", "SPCA", "spca"),
            Leaf("most columns are noise: which are not?", "GSPPCA", "gsppca"),
            Leaf("components should share few columns", "SSPCA", "sspca"),
            Leaf("the cloud is bent", "PiecewisePCA", "piecewise"),
            Leaf("groups that no direction separates", "KernelPCA", "kernel"),
            Leaf("... bent everywhere, rows only rebuilt", "Autoencoder", "neural"),
        ),
    ),
    Kind(
        ("counts",),
        (
            Leaf("number of components unknown", "SPPCA", "sppca"),
            Leaf("... and few columns in each", "SSPPCA", "sppca"),
            Leaf("efforts and covariates; a path of ranks", "PLNPCA", "plnpca"),
            Leaf("the log rates are bent", "PiecewisePCA, poisson", "piecewise"),
        ),
    ),
    Kind(
        ("yes/no, k of n,", "ratings, categories,", "shares, amounts,", "or several kinds"),
        (
            Leaf("number of components unknown", "SePCA", "sepca"),
            Leaf("number known, or searched by you", "EPCA", "epca"),
            Leaf("a small table; draws from the posterior", "BEPCA", "bepca"),
            Leaf("causes that rows have or have not", "ISFA", "isfa"),
            Leaf("scores by a matrix product; one kind", "GPCA", "gpca"),
            Leaf("the predictor is bent everywhere", "VAE", "neural"),
        ),
    ),
)

_STYLE = """
.decision { width: 100%; height: auto; font-family: inherit; margin: 0.5rem 0 1.5rem; }
.decision text { fill: var(--pst-color-text-base, #222); font-size: 14.5px; dominant-baseline: central; }
.decision .box { fill: var(--pst-color-surface, #f3f4f5); stroke: var(--pst-color-border, #c9c9c9); }
.decision .wish { fill: none; stroke: var(--pst-color-border, #c9c9c9); }
.decision .model { fill: var(--pst-color-primary, #0a7d91); }
.decision a, .decision a:hover { text-decoration: none; }
.decision a text { fill: #fff; }
html[data-theme="dark"] .decision a text { fill: #10181a; }
.decision a:hover .model { opacity: 0.85; }
.decision path { fill: none; stroke: var(--pst-color-text-muted, #777); stroke-width: 1.5; }
.decision .strong { font-weight: 600; }
"""


def write(path: Path) -> None:
    """Write the picture; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(), encoding="utf-8")


def draw() -> str:
    """The picture as SVG, to be put into a page of HTML."""
    parts, top, middles = [], 0.0, []
    for kind in KINDS:
        height = _ROW * len(kind.leaves)
        middle = top + height / 2
        middles.append(middle)
        parts += _draw_kind(kind, top, middle)
        top += height + _GAP
    height = top - _GAP
    root = height / 2
    joins = [_join(sum(_ROOT), root, _KIND[0], middle) for middle in middles]
    box = _box(_ROOT, root, ("What do", "the cells hold?"), kind="box", strong=True)
    head = (
        f'<svg class="decision" viewBox="-2 -2 {_WIDTH + 4} {height + 4:g}" role="img" '
        'xmlns="http://www.w3.org/2000/svg"><title>From what the cells hold to a model</title>'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", *joins, *parts, box, "</svg>"])


def _draw_kind(kind: Kind, top: float, middle: float) -> list[str]:
    parts = []
    for position, leaf in enumerate(kind.leaves):
        y = top + _ROW * (position + 0.5)
        model = _box(_MODEL, y, (leaf.model,), kind="model", strong=True)
        parts += [
            _join(sum(_KIND), middle, _WISH[0], y),
            _join(sum(_WISH), y, _MODEL[0], y),
            _box(_WISH, y, (leaf.wish,), kind="wish"),
            f'<a href="models/{leaf.page}.html">{model}</a>',
        ]
    return [*parts, _box(_KIND, middle, kind.lines, kind="box", strong=True)]


def _box(
    column: tuple[int, int], y: float, lines: tuple[str, ...], *, kind: str, strong: bool = False
) -> str:
    """A rounded box centred at height y, with lines of text in its middle."""
    left, width = column
    height = max(_ROW - 2 * _PAD, 20 * len(lines) + 2 * _PAD)
    weight = ' class="strong"' if strong else ""
    texts = "".join(
        f'<text x="{left + width / 2:g}" y="{y + 20 * (number - (len(lines) - 1) / 2):g}" text-anchor="middle"'
        f"{weight}>{escape(line)}</text>"
        for number, line in enumerate(lines)
    )
    return f'<rect class="{kind}" x="{left}" y="{y - height / 2:g}" width="{width}" height="{height:g}" rx="7"/>{texts}'


def _join(x: float, y: float, end_x: float, end_y: float) -> str:
    """A curve between two boxes."""
    bend = (x + end_x) / 2
    return f'<path d="M {x:g} {y:g} C {bend:g} {y:g} {bend:g} {end_y:g} {end_x:g} {end_y:g}"/>'
