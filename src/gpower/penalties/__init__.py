"""Penalties and constraints on the loadings, which make components sparse."""

from gpower.penalties.elementary import L0, L1, Cardinality, FixedSupport, L1Ball, NonNegative, Penalty
from gpower.penalties.grouped import GroupCardinality, GroupedPenalty, GroupL0, GroupL1, WeightedPenalty

__all__ = [
    "L0",
    "L1",
    "Cardinality",
    "FixedSupport",
    "GroupCardinality",
    "GroupL0",
    "GroupL1",
    "GroupedPenalty",
    "L1Ball",
    "NonNegative",
    "Penalty",
    "WeightedPenalty",
]
