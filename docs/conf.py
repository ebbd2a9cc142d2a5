"""How the documents are built: ``make docs``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_scripts"))

import decision_diagram  # noqa: E402
import families_page  # noqa: E402
import sample_report  # noqa: E402
from sphinx_gallery.sorting import ExplicitOrder  # noqa: E402

import anypca  # noqa: E402

#: The gallery, from first contact to special wishes.
EXAMPLES = (
    "counts",
    "binary",
    "mixed_table",
    "text_categories",
    "questionnaire",
    "percent_cover",
    "rainfall",
    "missing_cells",
    "number_of_components",
    "survival",
    "uncertainty",
    "posterior_draws",
    "sparse_factors",
    "new_rows",
    "scores_by_product",
    "tour",
    "report",
    "sparse_loadings",
    "sparse_eigenvectors",
    "select_variables",
    "shared_patterns",
    "offsets_covariates",
    "piecewise",
    "piecewise_marks",
    "kernel",
    "neural",
    "pipeline",
    "model_files",
    "larger_than_memory",
)

project = "anypca"
author = "The anypca authors"
copyright = author
version = release = anypca.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx_gallery.gen_gallery",
]
# The list of families is written by ``setup`` and is a part of the API's page.
exclude_patterns = ["_build", "_scripts", "_generated", "api/families.rst", "peers_measured.md"]
# Words in single backticks in docstrings are names of the package where they can be.
default_role = "py:obj"
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autosummary_generate = ["api/index.rst", "api/families.rst"]
autosummary_context = {"openings": families_page.draw_openings()}
autodoc_typehints = "none"  # types and shapes are in the docstrings
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "doc_module": ("anypca",),
    "backreferences_dir": "api/generated/examples",
    "reference_url": {"anypca": None},
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 5,
    "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in EXAMPLES]),
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "anypca"
html_static_path = ["_static"]
html_css_files = ["anypca.css"]
html_extra_path = ["_generated/extra"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "anypca"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "install": [], "which_model": []}


def skip_foreign(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn gives to every estimator: its own documents describe it, and are not here."""
    module = getattr(member, "__module__", None) or ""
    is_request = name.startswith("set_") and name.endswith("_request")
    return True if module.startswith("sklearn") or is_request else None


def escape_shapes(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Make ``shape (n_components_, 3)`` text: a word that ends in an underscore is a link in reStructuredText."""
    for number, line in enumerate(lines):
        if "of shape (" in line:
            lines[number] = re.sub(r"(?<=\w)_(?=[,)])", r"\\_", line)


def setup(app: Any) -> None:
    """Draw and fit what the pages show."""
    decision_diagram.write(HERE / "_generated" / "which_model.svg")
    families_page.write(HERE / "api" / "families.rst")
    sample_report.write(HERE / "_generated" / "extra" / "sample_report.html")
    # Before numpydoc, which turns the lines into fields.
    app.connect("autodoc-process-docstring", escape_shapes, priority=100)
    app.connect("autodoc-skip-member", skip_foreign)
