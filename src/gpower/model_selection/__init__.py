"""Choose the number of variables and components: paths, cross-validation, stability selection, permutation tests."""

from gpower.model_selection.component_tests import ComponentTest, component_test
from gpower.model_selection.criteria import score_sparseness
from gpower.model_selection.cross_validation import GPowerCV
from gpower.model_selection.grids import cardinality_grid
from gpower.model_selection.path import sparsity_path
from gpower.model_selection.path_result import SparsityPath
from gpower.model_selection.stability_runs import Stability, stability_selection

__all__ = [
    "ComponentTest",
    "GPowerCV",
    "SparsityPath",
    "Stability",
    "cardinality_grid",
    "component_test",
    "score_sparseness",
    "sparsity_path",
    "stability_selection",
]
