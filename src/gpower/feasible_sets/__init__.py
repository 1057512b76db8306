"""Compact sets Q, each defined by its linear maximiser: the y in Q with the largest ⟨g, y⟩.

The gradient scheme needs only that maximiser [JNRS10, Algorithm 1]. Acceleration also needs `retract`, which returns a
point of the set near y. `CorrelationSet` is the set {μ∘AᵀX : X in a sample set} of the data: it contains all of the
data, and the objective contains none.

[JNRS10] is Journée et al. (2010), Journal of Machine Learning Research 11, 517–553.
"""

from gpower.feasible_sets.base import Ball, FeasibleSet, Sphere
from gpower.feasible_sets.cube import Cube
from gpower.feasible_sets.sample_sets import (
    CorrelationSet,
    CorrelationStart,
    Point,
    RegularizedSet,
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
