"""The scikit-learn estimators, and what belongs to a fitted model."""

from gpower.estimators.gpower import GPower

__all__ = ["GPower"]
