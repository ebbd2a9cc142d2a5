"""Pictures of every model have what they show, and clear words for those that have not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.draws import generator

from anypca import (
    EPCA,
    GSPPCA,
    PLNPCA,
    PPCA,
    SPCA,
    SSPCA,
    VAE,
    Autoencoder,
    KernelPCA,
    PiecewisePCA,
    SePCA,
)
from anypca.exceptions import NotFittedError
from anypca.plotting import (
    plot_biplot,
    plot_correlation_circle,
    plot_evidence_path,
    plot_fitted,
    plot_hinge,
    plot_latent_pieces,
    plot_loadings,
    plot_predicted,
    plot_pruning_path,
    plot_scores,
    plot_scree,
    plot_support,
    plot_trace,
    save_figure,
)

RNG = generator("every model")
COUNTS = RNG.poisson(np.exp(0.7 * RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 6)) + 1.5)).astype(float)
MODELS = {
    "Autoencoder": Autoencoder(2, tol=0.1),
    "EPCA": EPCA(2, family="poisson"),
    "GSPPCA": GSPPCA(2, n_features_to_select=4),
    "KernelPCA": KernelPCA(2, fit_inverse_transform=True),
    "PLNPCA": PLNPCA(2, n_jobs=1),
    "PPCA": PPCA(2),
    "PiecewisePCA": PiecewisePCA(2, n_init=1),
    "SPCA": SPCA(2, n_nonzero=3),
    "SSPCA": SSPCA(2, n_features_to_select=3),
    "SePCA": SePCA(max_components=3, family="poisson"),
    "VAE": VAE(2, family="poisson", n_iter_no_change=2),
}
DRAW = {
    "biplot": lambda model: plot_biplot(model, model.transform(COUNTS)),
    "circle": lambda model: plot_correlation_circle(model),
    "circle of predictors": lambda model: plot_correlation_circle(model, model.transform(COUNTS)),
    "circle of columns": lambda model: plot_correlation_circle(model, model.transform(COUNTS), COUNTS),
    "evidence path": lambda model: plot_evidence_path(model),
    "fitted": lambda model: plot_fitted(model, COUNTS),
    "hinge": lambda model: plot_hinge(model, COUNTS),
    "latent pieces": lambda model: plot_latent_pieces(model, COUNTS),
    "loadings": lambda model: plot_loadings(model),
    "predicted": lambda model: plot_predicted(model, COUNTS),
    "pruning": lambda model: plot_pruning_path(model),
    "scores": lambda model: plot_scores(model, model.transform(COUNTS)),
    "scree": lambda model: plot_scree(model),
    "support": lambda model: plot_support(model),
    "trace": lambda model: plot_trace(model),
}
#: What a model has not, by picture.
LACKING = {
    "biplot": {"KernelPCA": "components_"},
    "circle": {
        "KernelPCA": "components_",
        **dict.fromkeys(["Autoencoder", "PiecewisePCA", "VAE"], "explained_variance_"),
    },
    "circle of predictors": {"KernelPCA": "components_"},
    "evidence path": dict.fromkeys(MODELS.keys() - {"GSPPCA"}, "evidence_path_"),
    "hinge": dict.fromkeys(MODELS.keys() - {"PiecewisePCA"}, "breakpoints_"),
    "latent pieces": dict.fromkeys(MODELS.keys() - {"PiecewisePCA"}, "breakpoints_"),
    "loadings": {"KernelPCA": "components_"},
    "predicted": dict.fromkeys(["Autoencoder", "KernelPCA", "SPCA", "SSPCA"], "sample"),
    "pruning": dict.fromkeys(MODELS.keys() - {"SePCA"}, "pruning_path_"),
    "support": dict.fromkeys(MODELS.keys() - {"GSPPCA", "SSPCA"}, "support_"),
    "trace": {"KernelPCA": "objective_trace_"},
}


@pytest.fixture(scope="module")
def fits():
    return {name: model.fit(COUNTS) for name, model in MODELS.items()}


@pytest.mark.parametrize("picture", DRAW)
def test_every_model_is_drawn_or_the_error_names_what_it_lacks(fits, picture):
    for name, model in fits.items():
        missing = LACKING.get(picture, {}).get(name)
        if missing is not None:
            with pytest.raises(AttributeError, match=rf"{missing}.*{name}"):
                DRAW[picture](model)
            continue
        if model.n_components_ < 2 and picture.startswith("circle"):
            continue  # `SePCA` chose the number
        ax = DRAW[picture](model)
        assert ax.lines or ax.collections or ax.patches or ax.images
        assert ax.get_xlabel() or picture == "support"


@pytest.mark.parametrize(
    "picture", ["circle", "evidence path", "hinge", "loadings", "pruning", "scree", "support", "trace"]
)
def test_the_error_for_an_unfitted_model_names_fit(picture):
    with pytest.raises(NotFittedError, match=r"SePCA.*call fit"):
        DRAW[picture](SePCA())


def test_a_model_without_components_has_nothing_to_show():
    model = SimpleNamespace(components_=np.zeros((0, 5)), n_components_=0)
    for draw in (plot_loadings, plot_correlation_circle):
        with pytest.raises(ValueError, match=r"0 components.*Fit"):
            draw(model)


def test_pictures_go_to_given_axes_and_files_are_the_same_bytes_each_time(fits, tmp_path):
    axes = Figure(figsize=(15, 4)).subplots(1, 4)
    model = fits["PPCA"]
    assert plot_scree(model, ax=axes[0]) is axes[0]
    assert plot_trace(model, axes[1]) is axes[1]
    assert plot_biplot(model, model.transform(COUNTS), ax=axes[2]) is axes[2]
    assert plot_loadings(model, ax=axes[3]) is axes[3]
    for name in ("a.png", "b.png"):
        save_figure(DRAW["biplot"](model), tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert first == second
    assert first.startswith(b"\x89PNG")
