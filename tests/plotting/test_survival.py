"""Survival curves drawn: one line a component, one for the candidate, one for what is needed."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.plotting import plot_survival
from anypca.selection import SurvivalCurve


def curve(k=2):
    sizes = np.geomspace(0.1, 100.0, 40)
    tops = np.array([12.0, 8.0, 3.0])[-(k + 1) :]
    pulls = tops[:, None] - 0.2 * sizes
    found = np.full(k, 30.0)
    return SurvivalCurve(
        sizes, pulls, found, tops[:-1] - 6.0, np.linspace(0.1, 0.5, k + 1), np.full(k + 1, 16.0), 0.3
    )


@pytest.mark.parametrize("k", [0, 2], ids=["no component", "two"])
def test_lines_and_words(k):
    ax = plot_survival(curve(k))
    labelled = [line for line in ax.lines if not line.get_label().startswith("_")]
    assert len(labelled) == k + 2
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words[-2:] == [r"one more: $\nu_c$ = 0.5" if k else r"one more: $\nu_c$ = 0.1", words[-1]]
    assert words[-1] == r"needed at $\nu$ = 0.3"
    need = labelled[-1]
    np.testing.assert_allclose(need.get_xdata() * need.get_ydata(), 16.0 / 0.3)
    # Negative pulls have no place on a logarithmic axis.
    assert np.nanmin(labelled[0].get_ydata()) > 0
    assert ax.get_xlabel() == "size of the component, g"


def test_dots_are_the_fitted_components():
    ax = plot_survival(curve())
    dots = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots, [(30.0, 6.0), (30.0, 2.0)])
