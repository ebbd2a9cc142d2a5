"""Likelihood of Poisson EPCA on sorted blood cells (pbmc_facs), the larger data set."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from anypca import EPCA
from anypca.datasets import load_pbmc_facs

pytestmark = pytest.mark.data


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_rank_2_reaches_the_published_likelihood():
    """Without ridge the objective is the log-likelihood with all constants; its maximum lies above the published one.

    The fit of the authors of fastglmpca, rank 2 on 3000 genes, in about twice the sweeps that are needed.
    """
    with np.load(Path(os.environ["ANYPCA_DATA"]) / "pbmc_facs_fastglmpca_fit.npz") as stored:
        genes, published = stored["gene_idx"], float(stored["loglik"])
    counts = load_pbmc_facs().X[:, genes]
    totals = np.asarray(counts.sum(axis=1)).ravel()
    model = EPCA(2, family="poisson", ridge=0.0, max_iter=24).fit(counts, offset=np.log(totals))
    assert np.all(np.diff(model.objective_trace_) > 0)
    assert model.objective_trace_[-1] >= published
