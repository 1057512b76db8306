"""The table of times for five components."""

from __future__ import annotations

from experiments.journee2010 import published
from experiments.journee2010.study import Study
from experiments.journee2010.timing import show, times


def run(study: Study) -> None:
    """Print the table for deflation and for blocks."""
    rows = times(study, "times_five", published.FIVE_SIZES, m=5)
    show(study, "table_five", "Five components", rows, published.FIVE_TIMES, published.FIVE_SIZES)
