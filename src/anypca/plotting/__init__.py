"""Pictures of fitted models; each function draws into given Axes, or new ones, and returns them."""

from __future__ import annotations

from anypca.plotting._common import save_figure
from anypca.plotting.biplot import plot_biplot, plot_correlation_circle
from anypca.plotting.loadings import plot_evidence_path, plot_loadings, plot_support
from anypca.plotting.observed import plot_fitted
from anypca.plotting.piecewise import plot_hinge, plot_latent_pieces, plot_predicted
from anypca.plotting.ranks import plot_rank_comparison, plot_survival
from anypca.plotting.scores import plot_scores
from anypca.plotting.scree import plot_scree
from anypca.plotting.trace import plot_pruning_path, plot_rank_selection, plot_trace

__all__ = [
    "plot_biplot",
    "plot_correlation_circle",
    "plot_evidence_path",
    "plot_fitted",
    "plot_hinge",
    "plot_latent_pieces",
    "plot_loadings",
    "plot_predicted",
    "plot_pruning_path",
    "plot_rank_comparison",
    "plot_rank_selection",
    "plot_scores",
    "plot_scree",
    "plot_support",
    "plot_survival",
    "plot_trace",
    "save_figure",
]
