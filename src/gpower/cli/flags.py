"""Flags made of the signatures and numpydoc docstrings of the library, whose text is also the help of the commands.

The source files are parsed, not imported, so that ``gpower fit --help`` need not wait for scikit-learn.
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

from gpower.cli.flag_parsers import OptionSpec, find_option_spec

_PACKAGE_FOLDER = Path(__file__).parents[1]
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
#: Panels of the help and the parameters that each lists; all others are listed under "The method".
HELP_PANELS = {
    "The table": "metadata metadata_by_order categorical covariates batch balance gmt index_col header transpose key "
    "drop virtual drop_rows sep decimal skip platform covariance center scale missing",
    "The components": "n_components cardinality cardinalities cv criterion rule plot_choice constraint groups include "
    "exclude penalty_weights budget gamma gammas l1_bound penalty positive variance",
    "The method": "",
    "The answer": "output title plot path stability test scores anonymise safe_csv as_json certify top show verbose "
    "debug",
}
#: Fields of a `Flag`, by name.
FlagFields = dict[str, Any]
#: Fields that replace those made of signature and docstring, by parameter.
FLAG_OVERRIDES: dict[str, FlagFields] = {
    "n_components": {"short": "-m"},
    "cardinality": {"short": "-k"},
    "cardinalities": {"short": "-k"},
    "output": {"short": "-o"},
    "verbose": {"short": "-v", "kind": "count"},
    "memory_limit": {"long": "--memory", "metavar": "SIZE"},
    "cv": {"long": "--folds", "min_value": 2},
    "top": {"min_value": 1},
    "show": {"min_value": 1},
    "draws": {"min_value": 0},
    "scale": {"long": "--scale/--no-scale"},
    "covariance": {"long": "--covariance"},
    "mu": {"kind": "float or sequence of float"},
    "index_col": {"metavar": "COLUMN"},
    "drop": {"metavar": "COLUMN,...", "default": None},
    "drop_rows": {"metavar": "ROW,...", "default": None},
    "sep": {"metavar": "CHARACTER"},
    "platform": {"kind": "path", "metavar": "TABLE"},
    "checkpoint": {"kind": "new file"},
    "penalty_weights": {"long": "--weights"},
}
#: Help that replaces the sentence of the library, by parameter: about flags and files instead of Python.
FLAG_HELP = {
    "cv": "With -k auto: number of folds that the samples are split into.",
    "rule": "With -k auto: take the best score, or the fewest variables within a standard error of it.",
    "criterion": "With -k auto: explained variance of held-out samples times the share of unused variables, or the "
    "explained variance alone.",
    "cardinalities": "Numbers of variables, or of groups with --groups; by default from one to all.",
    "gamma": "Penalty, instead of -k: a fraction, from 0 to below 1, of the largest useful one; such as 0.01 with "
    "--penalty l0, or 0.1 with --penalty l1, which is then the default.",
    "gammas": "Penalties, instead of -k: fractions, from 0 to below 1, of the largest useful one.",
    "positive": "Allow no negative loading; a component may then have fewer variables than -k.",
    "budget": "Largest sum of the weights of a component's variables, instead of -k.",
    "l1_bound": "Bound s of at least 1, instead of -k: the absolute loadings of a component sum to at most √s.",
    "variance": "l2: maximise the variance of the scores; l1: the sum of their absolute values, which outlying samples "
    "influence less.",
    "scale": "Divide by the standard deviations, which variables of different units need.",
    "center": "Subtract the means.",
    "covariance": "DATA is a covariance or correlation matrix.",
    "missing": "error: refuse missing values; impute: estimate them by means and ordinary components of the others.",
    "balance": "Weight the samples so that the batches of --batch count equally.",
    "init": "largest_norm: start at the column of largest norm, as the paper does.",
    "solver": "paper: search exactly as the paper does, without the search options of gpower.",
    "refit": "What the loadings of a block's variables maximise: the sum of norms, or of squared norms (variance); "
    "none: keep those that chose the variables.",
    "local_search": "Improve the components by exchanging single variables.",
    "certify": "Also prove how far each component is from the best possible with as many variables, and how far all "
    "are together; up to ten seconds per component.",
    "verbose": "Also log the fit: a line for all components, one for each, and what casts doubt on them.",
    "key": "Array to read from an .npz archive or a store, such as layers/counts, or sheet of a workbook.",
    "platform": "Table of the platform of a GEO series, which maps probes to genes.",
    "methods": "Methods to compare, as gpower-l0,spca,greedy; by default all, on a large table without slow ones.",
    "groups": "Groups of variables that are used as a whole or not at all: a FILE with a variable and its group on "
    "each line, a .gmt of gene sets, a COLUMN of DATA whose rows are variables (with --transpose), or of an .h5ad.",
    "include": "Variables that must be used: names or column numbers, for all components or, as in a,b;c, for each.",
    "exclude": "Variables that must not be used, in the form of --include.",
    "penalty_weights": "FILE with a variable and its weight on each line: its cost for --budget, or its factor for "
    "--gamma.",
    "data": "Table, samples × variables: .csv .tsv .txt .gct .mtx (also .gz, .bz2, .xz), .xlsx, .parquet, .npy, .npz, "
    ".zarr, .h5, .h5ad; - for standard input.",
}


@dataclass(frozen=True)
class Flag:
    """A parameter of the library or of a command as an option or argument of the command line."""

    name: str
    kind: str  # its type as the docstring writes it
    default: object = None  # Ellipsis if it is required
    help: str = ""
    long: str = ""  # the long option, if it is not made of the name
    short: str = ""
    metavar: str = ""  # placeholder of its value in the help, if it is not made of the kind
    min_value: int | None = None
    is_positional: bool = False

    @property
    def panel(self) -> str:
        """Return the panel of the help that lists the flag."""
        return next((panel for panel, names in HELP_PANELS.items() if self.name in names.split()), "The method")

    @property
    def option_spec(self) -> OptionSpec | None:
        """Return the type of the flag and its typer options; None if its value cannot be typed."""
        return find_option_spec(self.kind, self.default)

    @property
    def display_name(self) -> str:
        """Return the shortest way to type the flag, for use in messages."""
        return self.short or self._format_long_option(str).partition("/")[0]

    def to_parameter(self) -> inspect.Parameter:
        """Return the function parameter from which Typer makes this flag."""
        if self.option_spec is None:
            hint = "use a type of gpower.cli.flag_parsers in its docstring"
            raise TypeError(f"{self.name}: a value of type {self.kind!r} cannot be typed; {hint}.")
        option_type, options = self.option_spec
        fields: FlagFields = {"help": self.help, "min": self.min_value, "show_default": self.default not in (None, ...)}
        if self.is_positional:
            parameter = typer.Argument(self.default, metavar=self.name.upper(), **fields)
        else:
            fields |= options | {"rich_help_panel": self.panel} | ({"metavar": self.metavar} if self.metavar else {})
            names = filter(None, (self._format_long_option(option_type), self.short))
            parameter = typer.Option(self.default, *names, **fields)
        return inspect.Parameter(self.name, _KEYWORD_ONLY, default=parameter, annotation=option_type)

    def _format_long_option(self, option_type: type) -> str:
        """Return the long option; a switch that is on or undecided by default also gets a --no- form."""
        dashed = self.name.replace("_", "-")
        has_negative = option_type is bool and self.default is not False
        return self.long or (f"--{dashed}/--no-{dashed}" if has_negative else f"--{dashed}")


Flags = dict[str, Flag]


def read_library_flags(module: str, name: str, *selected: str) -> Flags:
    """Return the flags of a class or function of the library: those of its parameters with a default that can be typed.

    `module` defines `name` or imports it. `selected` limits the parameters. The docstring of `GPower` describes those
    that the docstring itself does not.
    """
    definition = _find_definition(module, name)
    fallback_flags = {} if name == "GPower" else read_library_flags("gpower", "GPower")
    flags = _make_flags(ast.get_docstring(definition) or "", _read_defaults(definition), fallback_flags)
    names = selected or flags
    return {name: flag for name, flag in flags.items() if name in names and flag.option_spec is not None}


def read_command_flags(command: Callable[..., None]) -> Flags:
    """Return the flags of a command's own parameters; those before the star are positional arguments."""
    _, *own = inspect.signature(command).parameters.items()  # the first is the sink
    parameters = {name: each for name, each in own if name != "flags"}
    defaults = {name: ... if each.default is each.empty else each.default for name, each in parameters.items()}
    docstring = inspect.getdoc(command) or ""
    own_help = {name: text for name, (_, text) in _parse_parameter_docs(docstring).items() if text}
    positional = {name for name, parameter in parameters.items() if parameter.kind is not _KEYWORD_ONLY}
    return {
        name: replace(flag, help=own_help.get(name, flag.help), is_positional=name in positional)
        for name, flag in _make_flags(docstring, defaults, {}).items()
    }


def group_flags(*flags: Flag) -> Flags:
    """Return the flags by name."""
    return {flag.name: flag for flag in flags}


def override_flags(flags: Flags, **changes: FlagFields) -> Flags:
    """Return the flags with some fields of some flags replaced."""
    return flags | {name: replace(flags[name], **change) for name, change in changes.items()}


def _make_flags(docstring: str, defaults: Mapping[str, object], fallback_flags: Mapping[str, Flag]) -> Flags:
    """Return a flag for each default, described by the docstring, else by `fallback_flags`, and by the overrides."""
    docs, flags = _parse_parameter_docs(docstring), {}
    for name, default in defaults.items():
        kind, text = docs.get(name, ("", ""))
        fallback = fallback_flags.get(name, Flag(name, kind))
        help_text = text if kind and text else fallback.help
        flag = replace(fallback, kind=kind or fallback.kind, help=help_text, default=default)
        flags[name] = replace(flag, help=FLAG_HELP.get(name, help_text), **FLAG_OVERRIDES.get(name, {}))
    return flags


def _parse_parameter_docs(docstring: str) -> dict[str, tuple[str, str]]:
    """Return the type and the first sentence of each parameter of a numpydoc docstring."""
    pattern = r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^[^\n]+\n-+$|\Z)"
    section = re.search(pattern, docstring, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\S.*?)(?: : (.*))?\n((?:[ ]+.*\n?)*)", section[1] + "\n" if section else "", re.MULTILINE)
    return {
        name: (re.sub(r",? *(optional|default\b.*)$", "", kind), _extract_first_sentence(text))
        for names, kind, text in entries
        for name in names.split(", ")
    }


def _extract_first_sentence(text: str) -> str:
    """Return the first sentence, on one line and without backquotes."""
    return re.split(r"(?<=\.)\s", " ".join(text.replace("`", "").split()), maxsplit=1)[0]


def _read_defaults(definition: ast.ClassDef | ast.FunctionDef) -> dict[str, object]:
    """Return the defaults of a function's parameters, Ellipsis if required by keyword, or of a dataclass's fields."""
    if isinstance(definition, ast.ClassDef):
        fields = [(node.target, node.value) for node in definition.body if isinstance(node, ast.AnnAssign)]
        return {ast.unparse(name): _evaluate_default(value) for name, value in fields if value is not None}
    arguments = definition.args
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = zip([*positional, *arguments.kwonlyargs], [*arguments.defaults, *arguments.kw_defaults], strict=True)
    return {argument.arg: ... if value is None else _evaluate_default(value) for argument, value in pairs}


def _evaluate_default(value: ast.expr) -> object:
    """Return the value of a default; look up the default of another class, such as ``GPower.tol``, there."""
    if isinstance(value, ast.Attribute):
        return _read_defaults(_find_definition("gpower.estimators.gpower", ast.unparse(value.value)))[value.attr]
    return ast.literal_eval(value)


def _find_definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """Return the syntax tree of a class or function; follow the imports of `module` to its definition."""
    for node in ast.walk(_parse_module(module)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() if node.name == name:
                return node
            case ast.ImportFrom(module=str(home)) if name in [alias.name for alias in node.names]:
                return _find_definition(home, name)
    raise LookupError(f"{module} neither defines nor imports {name}.")


@cache
def _parse_module(module: str) -> ast.Module:
    """Return the syntax tree of a module of this package, by its dotted name."""
    path = _PACKAGE_FOLDER.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
