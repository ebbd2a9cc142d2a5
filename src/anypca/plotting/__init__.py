"""Pictures of fitted models.

Each function draws on the given Axes, or on new ones, and returns them. A model that is not fitted raises
NotFittedError.
"""

from anypca._lazy import public as _public
from anypca.plotting._common import save_figure as save_figure
from anypca.plotting.biplot import plot_biplot as plot_biplot
from anypca.plotting.biplot import plot_correlation_circle as plot_correlation_circle
from anypca.plotting.loadings import plot_evidence_path as plot_evidence_path
from anypca.plotting.loadings import plot_loadings as plot_loadings
from anypca.plotting.loadings import plot_support as plot_support
from anypca.plotting.observed import plot_fitted as plot_fitted
from anypca.plotting.piecewise import plot_hinge as plot_hinge
from anypca.plotting.piecewise import plot_latent_pieces as plot_latent_pieces
from anypca.plotting.piecewise import plot_predicted as plot_predicted
from anypca.plotting.ranks import plot_rank_comparison as plot_rank_comparison
from anypca.plotting.ranks import plot_survival as plot_survival
from anypca.plotting.scores import plot_scores as plot_scores
from anypca.plotting.scree import plot_scree as plot_scree
from anypca.plotting.trace import plot_pruning_path as plot_pruning_path
from anypca.plotting.trace import plot_rank_selection as plot_rank_selection
from anypca.plotting.trace import plot_trace as plot_trace

__all__ = _public(globals())
