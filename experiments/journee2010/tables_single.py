"""The two tables of times for one component: a fixed aspect ratio, and 500 samples."""

from __future__ import annotations

from experiments.journee2010 import published
from experiments.journee2010.study import Study
from experiments.journee2010.timing import show, times


def run(study: Study) -> None:
    """Print both tables."""
    rows = times(study, "times_ratio", published.RATIO_SIZES)
    title = "One component, aspect ratio 10"
    show(study, "table_ratio", title, rows, published.RATIO_TIMES, published.RATIO_SIZES)
    rows = times(study, "times_width", published.WIDTH_SIZES)
    show(study, "table_width", "One component, 500 samples", rows, published.WIDTH_TIMES, published.WIDTH_SIZES)
