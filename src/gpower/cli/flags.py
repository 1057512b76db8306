"""Flags made of signatures and numpydoc docstrings: what the library says of a parameter is what the command says.

The sources are read, not imported, so that ``gpower fit --help`` answers before scikit-learn would be there.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import typer

from gpower.cli.kinds import OptionSpec, find_option_spec

_PACKAGE_FOLDER = Path(__file__).parents[1]
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
#: Where the help lists a parameter; those that are not named here are of the method.
HELP_PANELS = {
    "The table": "metadata gmt index_col header transpose key drop drop_rows sep decimal skip platform "
    "covariance psd center scale missing",
    "The components": "n_components cardinality cardinalities cv criterion rule constraint groups include exclude "
    "penalty_weights budget gamma gammas l1_bound penalty positive variance",
    "The method": "",
    "The answer": "output title plot path stability test scores anonymise safe_csv as_json certify top show verbose",
}
#: Fields of a flag that differ from what signature and docstring say.
FlagFields = dict[str, Any]
FLAG_OVERRIDES: dict[str, FlagFields] = {
    "n_components": {"short": "-m"},
    "cardinality": {"short": "-k"},
    "cardinalities": {"short": "-k"},
    "output": {"short": "-o"},
    "verbose": {"short": "-v", "kind": "count"},
    "as_json": {"long": "--json"},
    "memory_limit": {"long": "--memory", "metavar": "SIZE"},
    "cv": {"long": "--folds", "min_value": 2, "help": "With -k auto: parts that the samples are split into."},
    "rule": {"help": "With -k auto: the best, or the fewest variables within a standard error of the best."},
    "criterion": {
        "help": "With -k auto: what decides; auto is prediction where sparse components predict as well as ordinary "
        "ones, else reliability."
    },
    "n_jobs": {"help": "Parts of the work done at the same time."},
    "top": {"min_value": 1},
    "show": {"min_value": 1},
    "draws": {"min_value": 0},
    "scale": {"long": "--scale/--no-scale", "help": "Divide by the standard deviations."},
    "center": {"help": "Subtract the means."},
    "covariance": {"long": "--covariance", "help": "DATA is a covariance or correlation matrix."},
    "mu": {"kind": "float or sequence of float"},
    "init": {"help": "paper: start exactly where the paper does."},
    "random_state": {"help": "Seed of what is random."},
    "index_col": {"metavar": "COLUMN"},
    "key": {"help": "Which array of an .npz archive or of a store, as layers/counts, or sheet of a workbook, to read."},
    "drop": {"metavar": "COLUMN,...", "default": None},
    "drop_rows": {"metavar": "ROW,...", "default": None},
    "sep": {"metavar": "CHARACTER"},
    "platform": {
        "kind": "path",
        "metavar": "TABLE",
        "help": "Table of the platform that a GEO series was measured on: it turns probes into genes.",
    },
    "methods": {"help": "Methods to compare, as gpower-l0,spca,greedy; by default all."},
    "checkpoint": {"kind": "path"},
    "groups": {
        "help": "Groups that are in or out as a whole: a FILE with a variable and its group to a line, or .gmt of gene "
        "sets, or a COLUMN of DATA where variables are rows, with --transpose, or of .var in an .h5ad."
    },
    "include": {
        "help": "Variables that are always used: names or column numbers, for all components or, as a,b;c, for each."
    },
    "exclude": {"help": "Variables that are never used, as --include."},
    "penalty_weights": {
        "long": "--weights",
        "help": "FILE with a variable and its weight to a line: what it costs of a budget, or times gamma.",
    },
    "data": {
        "help": "Table, samples × variables: .csv .tsv .txt .gct .mtx (also .gz, .bz2, .xz), .xlsx, .parquet, .npy, "
        ".npz, .zarr, .h5, .h5ad; - for standard input."
    },
}


@dataclass(frozen=True)
class Flag:
    """A parameter as the command line offers it."""

    name: str
    kind: str  # what it may be, in the words of the docstring
    default: object = None  # ... where it has to be given
    help: str = ""
    long: str = ""  # how it is typed, where its name does not tell
    short: str = ""
    metavar: str = ""  # what stands for its value, where its kind does not tell
    min_value: int | None = None
    is_positional: bool = False

    @property
    def panel(self) -> str:
        """Where the help lists it."""
        return next((panel for panel, names in HELP_PANELS.items() if self.name in names.split()), "The method")

    @property
    def option_spec(self) -> OptionSpec | None:
        """How its text becomes a value; None for what nobody can type."""
        return find_option_spec(self.kind, self.default)

    @property
    def display_name(self) -> str:
        """How it is typed in short, in a sentence about it."""
        return self.short or self._format_long_option(str).partition("/")[0]

    def to_parameter(self) -> inspect.Parameter:
        """The parameter of a function that Typer makes this flag of."""
        if self.option_spec is None:
            hint = "its docstring tells a kind of gpower.cli.kinds"
            raise TypeError(f"{self.name}: nobody can type {self.kind!r}; {hint}.")
        kind, options = self.option_spec
        given: FlagFields = {"help": self.help, "min": self.min_value, "show_default": self.default not in (None, ...)}
        if self.is_positional:
            offered = typer.Argument(self.default, metavar=self.name.upper(), **given)
        else:
            given |= options | {"rich_help_panel": self.panel} | ({"metavar": self.metavar} if self.metavar else {})
            offered = typer.Option(self.default, *filter(None, (self._format_long_option(kind), self.short)), **given)
        return inspect.Parameter(self.name, _KEYWORD_ONLY, default=offered, annotation=kind)

    def _format_long_option(self, option_type: type) -> str:
        """A switch that is off has no opposite; one that is on, or decided by the data, has."""
        dashed = self.name.replace("_", "-")
        paired = option_type is bool and self.default is not False
        return self.long or (f"--{dashed}/--no-{dashed}" if paired else f"--{dashed}")


Flags = dict[str, Flag]


def read_library_flags(
    module: str, name: str, *selected: str, fallback_flags: Mapping[str, Flag] | None = None
) -> Flags:
    """The flags of what the library defines: of all parameters with a default that one can type, or of some `only`.

    The module is one that defines it, or imports it from where it is defined; `like` tells what parameters are that
    are described "as in" another docstring.
    """
    definition = _find_definition(module, name)
    flags = _make_flags(ast.get_docstring(definition) or "", _read_defaults(definition), fallback_flags or {})
    wanted = selected or flags
    return {name: flag for name, flag in flags.items() if name in wanted and flag.option_spec is not None}


def read_command_flags(command: Callable[..., None], flag_groups: Mapping[str, Flags]) -> Flags:
    """The flags of a command's own parameters; those in front of the star have no dashes."""
    own = {name: found for name, found in inspect.signature(command).parameters.items() if name not in flag_groups}
    defaults = {name: ... if found.default is found.empty else found.default for name, found in own.items()}
    flags = _make_flags(inspect.getdoc(command) or "", defaults, {})
    return {name: replace(flag, is_positional=own[name].kind is not _KEYWORD_ONLY) for name, flag in flags.items()}


def override_flags(flags: Flags, **changes: FlagFields) -> Flags:
    """The flags, some of them with other fields."""
    return flags | {name: replace(flags[name], **change) for name, change in changes.items()}


def _make_flags(docstring: str, defaults: Mapping[str, object], fallback_flags: Mapping[str, Flag]) -> Flags:
    described, flags = _parse_parameter_docs(docstring), {}
    for name, default in defaults.items():
        kind, text = described.get(name, ("", ""))
        known = fallback_flags.get(name, Flag(name, kind))
        told = replace(known, kind=kind or known.kind, help=text if kind and text else known.help, default=default)
        flags[name] = replace(told, **FLAG_OVERRIDES.get(name, {}))
    return flags


def _parse_parameter_docs(docstring: str) -> dict[str, tuple[str, str]]:
    """Kind and first sentence of each parameter of a numpydoc docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^[^\n]+\n-+$|\Z)", docstring, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\S.*?)(?: : (.*))?\n((?:[ ]+.*\n?)*)", section[1] + "\n" if section else "", re.MULTILINE)
    return {
        name: (re.sub(r",? *(optional|default\b.*)$", "", kind), _extract_first_sentence(text))
        for names, kind, text in entries
        for name in names.split(", ")
    }


def _extract_first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.replace("`", "").split()), maxsplit=1)[0]


def _read_defaults(definition: ast.ClassDef | ast.FunctionDef) -> dict[str, object]:
    """The parameters with a default, and what has to be given by name; of a data class its fields."""
    if isinstance(definition, ast.ClassDef):
        fields = [(node.target, node.value) for node in definition.body if isinstance(node, ast.AnnAssign)]
        return {ast.unparse(name): _evaluate_default(value) for name, value in fields if value is not None}
    arguments = definition.args
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = zip([*positional, *arguments.kwonlyargs], [*arguments.defaults, *arguments.kw_defaults], strict=True)
    return {argument.arg: ... if value is None else _evaluate_default(value) for argument, value in pairs}


def _evaluate_default(value: ast.expr) -> object:
    """A default; that of another class is looked up there."""
    if isinstance(value, ast.Attribute):
        return _read_defaults(_find_definition("gpower.estimators.gpower", ast.unparse(value.value)))[value.attr]
    return ast.literal_eval(value)


def _find_definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The source of a class or function, wherever the imports of a module lead."""
    for node in ast.walk(_parse_module(module)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() if node.name == name:
                return node
            case ast.ImportFrom(module=str(home)) if name in [alias.name for alias in node.names]:
                return _find_definition(home, name)
    raise LookupError(f"{module} neither defines nor imports {name}.")


@cache
def _parse_module(module: str) -> ast.Module:
    place = _PACKAGE_FOLDER.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
