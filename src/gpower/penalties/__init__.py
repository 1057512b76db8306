"""Penalties and constraints on the loadings: what makes a component sparse."""

from gpower.penalties.elementary import L0, L1, Cardinality, FixedSupport, L1Ball, NonNegative, Penalty
from gpower.penalties.grouped import Chosen, Restricted, Weighed, WeighedL0, WeighedL1

__all__ = [
    "L0",
    "L1",
    "Cardinality",
    "Chosen",
    "FixedSupport",
    "L1Ball",
    "NonNegative",
    "Penalty",
    "Restricted",
    "Weighed",
    "WeighedL0",
    "WeighedL1",
]
