"""Sparse principal component analysis by the generalized power method (GPower).

Principal components that each use a few named variables: ``GPower(n_components=3, cardinality=10).fit(X)``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpower.ascent import AscentResult, maximize
    from gpower.certificates import Certificate, best_subset, certify
    from gpower.comparison import Comparison, compare
    from gpower.estimators import GPower
    from gpower.model_selection import GPowerCV, SparsityPath, Stability, sparsity_path, stability

__all__ = [
    "AscentResult",
    "Certificate",
    "Comparison",
    "GPower",
    "GPowerCV",
    "SparsityPath",
    "Stability",
    "best_subset",
    "certify",
    "compare",
    "maximize",
    "sparsity_path",
    "stability",
]
__version__ = "0.1.0"

# Names load with their first use, so that the command line answers --help without scikit-learn.
_HOMES = {
    "AscentResult": "gpower.ascent",
    "Certificate": "gpower.certificates",
    "Comparison": "gpower.comparison",
    "GPower": "gpower.estimators",
    "GPowerCV": "gpower.model_selection",
    "SparsityPath": "gpower.model_selection",
    "Stability": "gpower.model_selection",
    "best_subset": "gpower.certificates",
    "certify": "gpower.certificates",
    "compare": "gpower.comparison",
    "maximize": "gpower.ascent",
    "sparsity_path": "gpower.model_selection",
    "stability": "gpower.model_selection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpower' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
