"""Starts of an ascent.

`starts` has the strategies that choose starts, `start_points` constructs and races them, and `column_screening` finds
the columns at which a start pays.
"""

from gpower.solvers.initialization.start_points import (
    N_FINALISTS,
    choose_auto_n_starts,
    make_block_start,
    make_largest_norm_start,
    make_module_starts,
    make_unit_starts,
)
from gpower.solvers.initialization.starts import (
    CandidateStarts,
    ColumnStarts,
    LargestNormStart,
    SketchStarts,
    Start,
    StartContext,
    UserStart,
    WarmStart,
)

__all__ = [
    "N_FINALISTS",
    "CandidateStarts",
    "ColumnStarts",
    "LargestNormStart",
    "SketchStarts",
    "Start",
    "StartContext",
    "UserStart",
    "WarmStart",
    "choose_auto_n_starts",
    "make_block_start",
    "make_largest_norm_start",
    "make_module_starts",
    "make_unit_starts",
]
