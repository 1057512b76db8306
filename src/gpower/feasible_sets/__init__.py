"""Compact sets Q, each known by its linear maximiser: the y in Q with the largest ⟨g, y⟩.

That maximiser is the only thing the gradient scheme needs [JNRS10, Algorithm 1]; `retract`, the point of the
set nearest to y, serves acceleration. `CorrelationSet` is the data's own set {μ∘AᵀX : X in a set of samples}:
the objective holds no data, this set holds all of it.

[JNRS10] is Journée et al. (2010), Journal of Machine Learning Research 11, 517–553.
"""

from gpower.feasible_sets.base import Ball, FeasibleSet, Sphere
from gpower.feasible_sets.correlation_set import CorrelationSet, CorrelationStart, Point, RegularizedSet
from gpower.feasible_sets.sample_sets import (
    Cube,
    SampleSet,
    Spheres,
    Stiefel,
    correlate_if_needed,
    find_residual_directions,
)

__all__ = [
    "Ball",
    "CorrelationSet",
    "CorrelationStart",
    "Cube",
    "FeasibleSet",
    "Point",
    "RegularizedSet",
    "SampleSet",
    "Sphere",
    "Spheres",
    "Stiefel",
    "correlate_if_needed",
    "find_residual_directions",
]
