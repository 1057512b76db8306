"""Sparse principal component analysis by the generalized power method (GPower).

Principal components that each use a few named variables: ``GPower(n_components=3, cardinality=10).fit(X)``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpower.ascent import AscentResult, maximize
    from gpower.estimators import GPower

__all__ = ["AscentResult", "GPower", "maximize"]
__version__ = "0.1.0"

# Names load with their first use, so that the command line answers --help without scikit-learn.
_HOMES = {"AscentResult": "gpower.ascent", "GPower": "gpower.estimators", "maximize": "gpower.ascent"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpower' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
