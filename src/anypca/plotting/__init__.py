"""Pictures of fitted models; each function draws into given Axes, or new ones, and returns them."""

from __future__ import annotations

from anypca.plotting._style import save_figure
from anypca.plotting.biplot import plot_biplot
from anypca.plotting.gsppca import plot_evidence_path, plot_support
from anypca.plotting.piecewise import plot_hinge, plot_latent_pieces, plot_predicted
from anypca.plotting.pln import plot_correlation_circle, plot_individuals
from anypca.plotting.scree import plot_scree
from anypca.plotting.trace import plot_trace

__all__ = [
    "plot_biplot",
    "plot_correlation_circle",
    "plot_evidence_path",
    "plot_hinge",
    "plot_individuals",
    "plot_latent_pieces",
    "plot_predicted",
    "plot_scree",
    "plot_support",
    "plot_trace",
    "save_figure",
]
