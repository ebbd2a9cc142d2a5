"""Programs of the league table, each a function from a table to what it expects of every entry.

This file runs in a process of its own, with the interpreter of the peers' environment, which need not have anypca:
``python -P programs.py PROGRAM TABLE.npz BUDGET RESULT.npz``. A table has ``x`` (NaN where hidden), ``k`` and, for
counts, log size factors ``offset``. A budget is a number of iterations.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def anypca_epca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from anypca import EPCA

    # Size factors are an offset; without penalty the deviance is the objective, as for the peers.
    model = EPCA(k, family="poisson", ridge=0.0, max_iter=budget, n_jobs=1)
    return model.inverse_transform(model.fit_transform(x, offset=offset), offset=offset)


def anypca_epca_ridge(x: Any, k: int, offset: Any, budget: int) -> Any:
    from anypca import EPCA

    model = EPCA(k, family="poisson", ridge=1.0, max_iter=budget, n_jobs=1)
    return model.inverse_transform(model.fit_transform(x, offset=offset), offset=offset)


def anypca_pln(x: Any, k: int, offset: Any, budget: int) -> Any:
    from anypca import PLNPCA

    model = PLNPCA(k, max_iter=budget, n_jobs=1).fit(x, offset=offset)
    return model.inverse_transform(model.transform(x, offset=offset), offset=offset)


def anypca_ppca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from anypca import PPCA

    model = PPCA(k, max_iter=budget, n_jobs=1).fit(x)
    return model.inverse_transform(model.transform(x))


def glmpca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from glmpca.glmpca import glmpca as fit

    np.random.seed(0)  # noqa: NPY002  (the package draws from the global generator)
    found = fit(x.T, k, fam="poi", ctl={"maxIter": budget, "eps": 1e-12}, penalty=0, sz=np.exp(offset))
    eta = found["coefX"] @ np.ones((1, len(x))) + found["loadings"] @ found["factors"].T
    return np.exp(eta.T + offset[:, None])


def fastglmpca(x: Any, k: int, offset: Any, budget: int) -> Any:
    import torch
    from fastglmpca import poisson

    torch.set_num_threads(1)
    options = {"max_iter": budget, "tol": 0.0, "progress_bar": False, "device": "cpu", "return_model": True}
    return poisson(x, n_pcs=k, **options).reconstruct_counts(clip=None)


def pyplnmodels(x: Any, k: int, offset: Any, budget: int) -> Any:
    import torch
    from pyPLNmodels import PlnPCA

    torch.set_num_threads(1)
    wide = np.repeat(offset[:, None], x.shape[1], axis=1)
    model = PlnPCA(x, offsets=wide, rank=k)
    model.fit(maxiter=budget, tol=0.0)
    latent = model.latent_positions if hasattr(model, "latent_positions") else model.latent_variables
    eta = latent.detach().numpy() + (
        model.marginal_mean.detach().numpy() if hasattr(model, "marginal_mean") else 0
    )
    return np.exp(eta + wide)


def mofa(x: Any, k: int, offset: Any, budget: int) -> Any:
    from mofapy2.run.entry_point import entry_point

    likelihood = "gaussian" if offset is None else "poisson"
    run = entry_point()
    run.set_data_options(scale_views=False, center_groups=offset is None)
    run.set_data_matrix([[x]], likelihoods=[likelihood])
    run.set_model_options(factors=k, spikeslab_weights=False, ard_weights=True)
    run.set_train_options(iter=budget, convergence_mode="slow", seed=0, gpu_mode=False)
    run.build()
    run.run()
    nodes = run.model.nodes
    product = nodes["Z"].getExpectation() @ nodes["W"].getExpectation()[0].T
    # Centred values get their means back; Poisson rates are softplus of the predictor (Seeger's bound).
    return product + np.nanmean(x, axis=0) if offset is None else np.logaddexp(0.0, product)


def nmf(x: Any, k: int, offset: Any, budget: int) -> Any:
    from sklearn.decomposition import NMF

    model = NMF(k, beta_loss="kullback-leibler", solver="mu", init="nndsvda", max_iter=budget, tol=0.0)
    return model.fit_transform(x) @ model.components_


def _of_logs(model: Any, x: Any, offset: Any) -> Any:
    """Rates from a model of log(1 + x / size), with the factor that gives every column its mean back."""
    size = np.exp(offset)[:, None]
    logs = np.log1p(x / size)
    found = np.maximum(np.expm1(model(logs)), 1e-3 * x.mean()) * size
    return found * (x.mean(axis=0) / found.mean(axis=0))


def pca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from sklearn.decomposition import PCA

    def fit(logs: Any) -> Any:
        model = PCA(k, random_state=0)
        return model.inverse_transform(model.fit_transform(logs))

    return (
        fit(np.where(np.isnan(x), np.nanmean(x, axis=0), x)) if offset is None else _of_logs(fit, x, offset)
    )


def sparse_pca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from sklearn.decomposition import SparsePCA

    def fit(logs: Any) -> Any:
        model = SparsePCA(k, method="cd", max_iter=budget, random_state=0)
        return model.inverse_transform(model.fit_transform(logs))

    return _of_logs(fit, x, offset)


def kernel_pca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from sklearn.decomposition import KernelPCA

    def fit(logs: Any) -> Any:
        model = KernelPCA(k, kernel="rbf", fit_inverse_transform=True, random_state=0)
        return model.inverse_transform(model.fit_transform(logs))

    return _of_logs(fit, x, offset)


def prince_ca(x: Any, k: int, offset: Any, budget: int) -> Any:
    import pandas as pd
    import prince

    table = pd.DataFrame(
        x, index=[f"r{i}" for i in range(len(x))], columns=[f"c{j}" for j in range(x.shape[1])]
    )
    model = prince.CA(n_components=k, random_state=0).fit(table)
    rows, columns = np.asarray(model.row_coordinates(table)), np.asarray(model.column_coordinates(table))
    inverse = np.where(model.eigenvalues_ > 0, 1.0 / np.sqrt(model.eigenvalues_), 0.0)
    expected = np.outer(x.sum(axis=1), x.sum(axis=0)) / x.sum()
    return np.maximum(expected * (1.0 + (rows * inverse) @ columns.T), 1e-3 * expected)


def prince_pca(x: Any, k: int, offset: Any, budget: int) -> Any:
    import pandas as pd
    import prince

    table = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
    model = prince.PCA(n_components=k, random_state=0).fit(table)
    return np.asarray(model.inverse_transform(model.transform(table)))


def imputed_pca(x: Any, k: int, offset: Any, budget: int) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    filled = IterativeImputer(max_iter=budget, random_state=0).fit_transform(x)
    model = PCA(k, random_state=0)
    return model.inverse_transform(model.fit_transform(filled))


PROGRAMS = {
    "anypca EPCA": anypca_epca,
    "anypca EPCA, ridge 1": anypca_epca_ridge,
    "anypca PLNPCA": anypca_pln,
    "anypca PPCA": anypca_ppca,
    "glmpca": glmpca,
    "fastglmpca": fastglmpca,
    "pyPLNmodels": pyplnmodels,
    "mofapy2": mofa,
    "scikit-learn NMF": nmf,
    "scikit-learn PCA": pca,
    "scikit-learn SparsePCA": sparse_pca,
    "scikit-learn KernelPCA": kernel_pca,
    "scikit-learn IterativeImputer + PCA": imputed_pca,
    "prince CA": prince_ca,
    "prince PCA": prince_pca,
}


def peak_megabytes() -> float:
    """Largest resident size; ``getrusage`` would count that of the process that this one was started from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024.0


def main(program: str, path: str, budget: str, result: str) -> int:
    """Fit one program to a stored table; write what it expects, its processor time and its memory."""
    with np.load(path) as stored:
        table = dict(stored)
    offset = table.get("offset")
    warnings.simplefilter("ignore")
    # Imports, and what a program compiles, are not part of its time.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        PROGRAMS[program](table["x"][:40, :20], 1, None if offset is None else offset[:40], 2)
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        mean = PROGRAMS[program](table["x"], int(table["k"]), offset, int(budget))
    seconds = time.process_time() - start
    np.savez(result, mean=np.asarray(mean, dtype=np.float64), seconds=seconds, megabytes=peak_megabytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
