"""Pictures of models, paths and choices. Needs matplotlib, the ``plot`` extra, which loads with the first picture."""

from gpower.plotting.comparisons import plot_comparison
from gpower.plotting.convergence import plot_convergence
from gpower.plotting.enrichments import plot_enrichment
from gpower.plotting.files import prepare_picture, save_picture, write_picture
from gpower.plotting.geometry import plot_geometry
from gpower.plotting.loadings import plot_loadings
from gpower.plotting.models import plot_scores, plot_support
from gpower.plotting.paths import plot_cardinality, plot_path_loadings, plot_tradeoff
from gpower.plotting.selection import plot_cv, plot_stability

__all__ = [
    "plot_cardinality",
    "plot_comparison",
    "plot_convergence",
    "plot_cv",
    "plot_enrichment",
    "plot_geometry",
    "plot_loadings",
    "plot_path_loadings",
    "plot_scores",
    "plot_stability",
    "plot_support",
    "plot_tradeoff",
    "prepare_picture",
    "save_picture",
    "write_picture",
]
