"""Noisy bits without missing cells: how often the dimension is right, by the variational posterior and by modes.

The bits of `sepca_nu` (3 prototypes of 16 bits; 120 and 240 copies; 5 and 10 % flipped), complete: the variational
posterior (vb) without and with an intercept (then 2: three points span a plane), and the published algorithm (map) at
the weights that Li and Tao (2013) find good, 30 to 40 over the number of rows. ``--runs N`` asks the variational
posterior alone, on N tables of each kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from anypca import ModeOptions, SePCA
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, run_module
from experiments.sepca_nu import GOOD_WEIGHTS, MAX_COMPONENTS, TRUTH, draw_bits

#: Sizes and flips at which shares are asked for.
JUDGED = tuple(itertools.product((120, 240), (0.05, 0.1)))
_FEW = 50


def run(options: Options) -> Outcome:
    """Shares of right dimensions."""
    cells = Cells("sepca_nu", options)
    judged = [(120, 0.1)] if options.quick else list(JUDGED)
    good = (35,) if options.quick else GOOD_WEIGHTS
    n_complete, n_complete_map = (
        (2, 2) if options.quick else (options.n_runs or 200, 0 if options.n_runs else 50)
    )
    complete = {
        (n, flip, has): [
            int(q) for q in cells.get(fit_complete, (f"complete, intercept {has}", n, flip, has), n_complete)
        ]
        for n, flip in judged
        for has in (False, True)
    }
    complete_map = {
        (n, flip): [
            int(q)
            for weight in good
            for q in cells.get(fit_complete_map, ("complete, map", n, flip, weight), n_complete_map)
        ]
        for n, flip in judged
    }
    first = [
        f"n = {n}, flip {flip:g}: {np.mean(np.equal(ranks[:_FEW], TRUTH - has)):.0%}"
        for (n, flip, has), ranks in complete.items()
    ]
    note = f"Shares of vb in the first {_FEW} tables, without and with intercept. {'; '.join(first)}."
    targets = [
        *_map_targets(complete_map, good, quick=options.quick),
        *_vb_targets(complete, quick=options.quick),
    ]
    return Outcome([_complete_table(judged, complete, complete_map, good)], targets, [note])


def fit_complete(kind: str, n: int, flip: float, has_intercept: bool, seed: int) -> int:
    """Dimension of the variational posterior on a complete table."""
    model = SePCA(MAX_COMPONENTS, family="bernoulli", fit_intercept=has_intercept, n_jobs=1)
    return int(model.fit(draw_bits(n, flip, seed)).n_components_)


def fit_complete_map(kind: str, n: int, flip: float, weight: float, seed: int) -> int:
    """Dimension of the published algorithm on a complete table."""
    model = SePCA(
        MAX_COMPONENTS,
        family="bernoulli",
        inference=ModeOptions(nu=weight / n),
        fit_intercept=False,
        n_jobs=1,
    )
    return int(model.fit(draw_bits(n, flip, seed)).n_components_)


def _complete_table(
    judged: Sequence[tuple[int, float]],
    complete: Mapping[tuple[int, float, bool], list[int]],
    complete_map: Mapping[tuple[int, float], list[int]],
    good: Sequence[float],
) -> Table:
    rows = [
        (
            n,
            flip,
            *(tally(complete[n, flip, has_intercept]) for has_intercept in (False, True)),
            tally(complete_map[n, flip]),
        )
        for n, flip in judged
    ]
    at = ", ".join(f"{weight:g}" for weight in good)
    return Table(
        "Complete tables: dimension x tables",
        ("n", "flip", "vb without intercept (3)", "vb with (2)", f"map, nu n = {at} (3)"),
        rows,
    )


def _map_targets(
    complete_map: Mapping[tuple[int, float], list[int]], good: Sequence[float], *, quick: bool
) -> list[Target]:
    least = 0.5 if quick else 0.8
    return [
        Target(
            f"map finds 3, nu n in [{min(good):g}, {max(good):g}], n = {n}, flip {flip:g}, share",
            float(np.mean(np.equal(ranks, TRUTH))),
            ">=",
            least,
        )
        for (n, flip), ranks in complete_map.items()
        if ranks
    ]


def _vb_targets(complete: Mapping[tuple[int, float, bool], list[int]], *, quick: bool) -> list[Target]:
    # A few tables cannot show 95 %.
    least = 0.5 if quick else 0.95
    targets = []
    for (n, flip, has_intercept), ranks in complete.items():
        wanted = TRUTH - int(has_intercept)
        name = f"vb finds {wanted} {'with' if has_intercept else 'without'} intercept, n = {n}, flip {flip:g}, share"
        targets.append(Target(name, float(np.mean(np.equal(ranks, wanted))), ">=", least))
    return targets


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
