"""Sparse principal component analysis by the generalized power method (GPower).

Principal components that each use a few named variables: ``GPower(n_components=3, cardinality=10).fit(X)``.
"""

from gpower.ascent import AscentResult, maximize
from gpower.estimators import GPower

__all__ = ["AscentResult", "GPower", "maximize"]
__version__ = "0.1.0"
