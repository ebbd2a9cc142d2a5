"""Fit a small mixed table and write its report, for the page "How to read the report"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from anypca import SePCA


def make_survey() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A survey of 400 people with two hidden traits, and what is known of the people.

    Returns
    -------
    table : data frame of shape (400, 12)
        Counts, yes/no answers, amounts and measurements, with gaps.
    people : data frame of shape (400, 1)
    """
    rng = np.random.default_rng(7)
    group = rng.integers(0, 3, size=400)
    centres = np.array([[-1.2, 0.3], [0.2, -1.0], [1.0, 0.9]])
    sport, thrift = (centres[group] + 0.7 * rng.normal(size=(400, 2))).T

    def yes(predictor: np.ndarray) -> np.ndarray:
        return (rng.random(400) < 1 / (1 + np.exp(-predictor))).astype(float)

    table = pd.DataFrame(
        {
            "runs per month": rng.poisson(np.exp(1.0 + 0.7 * sport)).astype(float),
            "gym visits": rng.poisson(np.exp(0.6 + 0.6 * sport)).astype(float),
            "hours of television": rng.poisson(np.exp(1.8 - 0.3 * sport)).astype(float),
            "restaurant visits": rng.poisson(np.exp(0.9 - 0.6 * thrift)).astype(float),
            "owns a bicycle": yes(1.3 * sport),
            "member of a club": yes(-0.5 + 1.2 * sport),
            "has a budget": yes(1.4 * thrift),
            "buys second hand": yes(-0.4 + 1.1 * thrift),
            "money spent on clothes": rng.gamma(2.5, 30 * np.exp(-0.5 * thrift)),
            "savings": rng.gamma(1.5, 900 * np.exp(0.6 * thrift)),
            "resting pulse": 68 - 4.0 * sport + 5 * rng.normal(size=400),
            "height": 171 + 9 * rng.normal(size=400),
        }
    )
    table = table.mask(rng.random(table.shape) < 0.04)
    table.index = [f"person {number:03d}" for number in range(1, 401)]
    return table, pd.DataFrame({"town": np.array(["Aville", "Beburg", "Cestad"])[group]}, index=table.index)


def write(path: Path) -> None:
    """Write the report unless it is there."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    table, people = make_survey()
    SePCA(max_components=6).fit(table).report(path, table, metadata=people, title="A survey of 400 people")
