"""Flags that several commands share: those of `read_table`, `GPower` and `Solver`."""

import shlex
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gpower
from gpower.cli.flags import FLAG_OVERRIDES, Flag, FlagFields, read_library_flags

#: Values of a group of flags, by parameter name.
OptionValues = dict[str, Any]


class FlagGroups(SimpleNamespace):
    """Values of the groups of flags of a command, by the name of the group and then of the parameter."""

    reading: OptionValues
    metadata: OptionValues
    options: OptionValues


#: Names of the parameters that the user of the running command typed, also if with their default value.
typed_params: ContextVar[frozenset[str]] = ContextVar("typed_params", default=frozenset())

READ_TABLE_FLAGS = read_library_flags("gpower.datasets", "read_table")
del READ_TABLE_FLAGS["complete"]  # decided by --missing
READ_TABLE_FLAGS |= read_library_flags("gpower.io.stores.open", "open_source", "virtual")
SOLVER_FLAGS = read_library_flags("gpower", "Solver")
GPOWER_FLAGS = read_library_flags("gpower", "GPower") | SOLVER_FLAGS
del GPOWER_FLAGS["warm_start"]  # a command fits once
#: Without -m, `infer_n_components` takes the number from the lists given to other flags.
N_COMPONENTS_OVERRIDE: FlagFields = {
    "default": None,
    "help": "Number of components; by default the length of a list such as -k 20,10,5, or 2. auto: as many as explain "
    "more than chance, at most 20.",
}
#: Help of -k that mentions percentages.
CARDINALITY_OVERRIDE: FlagFields = {
    "help": "Variables in each component: one number, one each, as 20,10,5, or a share of the variance, as 90%."
}


def format_flag(name: str, *value: object) -> str:
    """Format a parameter of the library, or a parameter and its value, as it is typed on the command line.

    Examples
    --------
    >>> from gpower.cli.shared_flags import format_flag
    >>> format_flag("cardinality", [20, 10]), format_flag("memory_limit"), format_flag("covariance", "precomputed")
    ('-k 20,10', '--memory', '--covariance')
    >>> format_flag("index_col", "gene id"), format_flag("drop", ["a", "b"]), format_flag("header", False)
    ("--index-col 'gene id'", '--drop a,b', '--no-header')
    """
    flag = GPOWER_FLAGS.get(name) or replace(Flag(name, ""), **FLAG_OVERRIDES.get(name, {}))
    is_switch = flag.option_spec is not None and flag.option_spec[0] is bool
    if not value or value[0] is True or (is_switch and value[0]):
        return flag.display_name
    if value[0] is False:
        return f"--no-{name.replace('_', '-')}"
    text = ",".join(map(str, value[0])) if isinstance(value[0], list | tuple) else str(value[0])
    return f"{flag.display_name} {shlex.quote(text)}"


def infer_n_components(options: OptionValues) -> None:
    """Set an option `n_components` of None to the length of an option with one entry per component, or to 2."""
    if options.get("n_components", 0) is None:
        numbers = (options.get(name) for name in ("cardinality", "gamma", "l1_bound", "budget", "mu"))
        variable_lists = (options.get(name) for name in ("include", "exclude"))
        lengths = [len(value) for value in numbers if isinstance(value, list)]
        lengths += [len(value) for value in variable_lists if value is not None and len(value) > 1]
        options["n_components"] = next(iter(lengths), 2)


def format_typed_flags(options: OptionValues, allowed: Iterable[str] = ()) -> str:
    """Format the options that were typed, whatever their value is, except those in `allowed`."""
    return ", ".join(format_flag(name, options[name]) for name in options if name in typed_params.get() - set(allowed))


def merge_solver_options(options: OptionValues) -> OptionValues:
    """Return the parameters of `GPower`, with the options of the solver that were typed as a `Solver`."""
    typed = {name: value for name, value in options.items() if name in SOLVER_FLAGS and name in typed_params.get()}
    params = {name: value for name, value in options.items() if name not in SOLVER_FLAGS}
    if not typed:
        return params
    if params["solver"] != "auto":
        flags = format_typed_flags(typed)
        raise ValueError(f"--solver {params['solver']} does not go together with {flags}; leave one of them out.")
    return params | {"solver": gpower.Solver(**typed)}
