"""The groups of flags that several commands have: how a file is read, and what the estimator is asked for."""

from typing import Any

from gpower.cli.flags import FlagFields, read_library_flags

#: The values of a group of flags, by parameter.
OptionValues = dict[str, Any]

READ_TABLE_FLAGS = read_library_flags("gpower.datasets", "read_table")
del READ_TABLE_FLAGS["complete"]  # decided by --missing
GPOWER_FLAGS = read_library_flags("gpower", "GPower")
del GPOWER_FLAGS["warm_start"]  # a command fits once
#: The number of components is that of the other options' lists where it is not given.
N_COMPONENTS_OVERRIDE: FlagFields = {
    "default": None,
    "help": "Number of components; by default as many as a list such as -k 20,10,5 has, or 2. auto: as many as explain "
    "more than chance, at most 20.",
}
#: A number of variables as one types it.
CARDINALITY_OVERRIDE: FlagFields = {
    "help": "Variables in each component: one number, one each, as 20,10,5, or a share of the variance, as 90%."
}


def infer_n_components(options: OptionValues) -> None:
    """Fill in the number of components that the options with one entry per component imply."""
    if options["n_components"] is None:
        listed = (options.get(name) for name in ("cardinality", "gamma", "l1_bound", "budget", "mu"))
        lists = (options.get(name) for name in ("include", "exclude"))
        counts = [len(value) for value in listed if isinstance(value, list)]
        counts += [len(value) for value in lists if value is not None and len(value) > 1]
        options["n_components"] = next(iter(counts), 2)
