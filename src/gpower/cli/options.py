"""The groups of flags that several commands have: how a file is read, and what the estimator is asked for."""

from typing import Any

from gpower.cli.flags import Change, flags_of

#: The values of a group of flags, by parameter.
Values = dict[str, Any]

READING = flags_of("gpower.datasets", "read_table")
del READING["complete"]  # decided by --missing
GPOWER = flags_of("gpower", "GPower")
del GPOWER["warm_start"]  # a command fits once
#: The number of components is that of the other options' lists where it is not given.
COUNTED: Change = {
    "default": None,
    "help": "Number of components; by default as many as a list such as -k 20,10,5 has, or 2. auto: as many as explain "
    "more than chance, at most 20.",
}
#: A number of variables as one types it.
TYPED: Change = {
    "help": "Variables in each component: one number, one each, as 20,10,5, or a share of the variance, as 90%."
}


def count_components(options: Values) -> None:
    """Fill in the number of components that the options with one entry per component imply."""
    if options["n_components"] is None:
        listed = (options.get(name) for name in ("cardinality", "gamma", "l1_bound", "budget", "mu"))
        lists = (options.get(name) for name in ("include", "exclude"))
        counts = [len(value) for value in listed if isinstance(value, list)]
        counts += [len(value) for value in lists if value is not None and len(value) > 1]
        options["n_components"] = next(iter(counts), 2)
