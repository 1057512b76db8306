"""The groups of flags that several commands have: how a file is read, and what the estimator is asked for."""

from dataclasses import replace
from typing import Any

from gpower.cli.flags import Flag, flags_of

__all__ = ["COUNTED", "GPOWER", "READING", "Values", "count_components"]

#: The values of a group of flags, by parameter.
Values = dict[str, Any]

GPOWER = flags_of("gpower", "GPower")
#: Where it is not given, the number of components is that of the other options' lists.
COUNTED = {
    "n_components": replace(
        GPOWER["n_components"],
        default=None,
        help="Number of components; by default as many as a list such as -k 20,10,5 has, or 2.",
    )
}
READING = flags_of("gpower.datasets", "read_table") | {
    "platform": Flag(
        "platform",
        "path",
        help="Table of the platform that a GEO series was measured on: it turns probes into genes.",
        metavar="TABLE",
    )
}
del READING["complete"]  # decided by --missing


def count_components(options: Values) -> None:
    """Fill in the number of components that the options with one entry per component imply."""
    if options["n_components"] is None:
        listed = (options.get(name) for name in ("cardinality", "gamma", "l1_bound", "mu"))
        options["n_components"] = next((len(value) for value in listed if isinstance(value, list)), 2)
