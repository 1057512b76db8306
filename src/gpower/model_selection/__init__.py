"""How many variables? Paths of solutions, cross-validation, stability under subsampling."""

from gpower.model_selection.cross_validation import GPowerCV
from gpower.model_selection.grids import cardinality_grid
from gpower.model_selection.paths import sparsity_path
from gpower.model_selection.solutions import SparsityPath
from gpower.model_selection.subsampling import Stability, stability

__all__ = ["GPowerCV", "SparsityPath", "Stability", "cardinality_grid", "sparsity_path", "stability"]
