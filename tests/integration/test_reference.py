"""The pages of the reference list every public name once, with its members described."""

import ast
import inspect
import re
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest
import typer

import gpower
from gpower.cli import app

CONF = ast.parse((Path(__file__).parents[2] / "docs" / "conf.py").read_text(encoding="utf-8"))


def from_conf(*names):
    """Return constants and functions of docs/conf.py without its Sphinx imports."""
    expected = [
        node
        for node in CONF.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and node.targets[0].id in names)
    ]
    space = {"inspect": inspect, "re": re, "import_module": import_module, "gpower": gpower}
    space |= {"cached_property": cached_property, "typer": typer, "app": app}
    exec(compile(ast.Module(expected, []), "conf.py", "exec"), space)
    return [space[name] for name in names]


MODULES, INNER, SOME, public_names, members_of = from_conf("MODULES", "INNER", "SOME", "public_names", "members_of")
NAMES = [(module, name) for module in MODULES for name in public_names(module)]
CLASSES = [pair for pair in NAMES if inspect.isclass(getattr(import_module(pair[0]), pair[1]))]


def test_names_left_out_exist():
    for module, names in INNER.items():
        assert names <= set(vars(import_module(module)))
        assert not names & set(public_names(module))


@pytest.mark.parametrize(("module", "name"), CLASSES, ids=lambda word: word)
def test_members_on_the_page_of_a_class_are_described(module, name):
    home = getattr(import_module(module), name)
    own, borrowed = members_of(module, name)
    assert not [member for member in own if not inspect.getdoc(inspect.getattr_static(home, member))]
    assert not set(own) & set(borrowed)


@pytest.mark.parametrize(
    ("module", "name", "there", "absent"),
    [
        ("gpower", "GPower", {"fit", "fit_transform", "load", "report"}, {"set_fit_request", "tol"}),
        ("gpower", "ComponentTest", {"p_values", "null_quantile", "plot"}, {"level", "horn"}),
        ("gpower", "SparsityPath", {"cardinality", "at", "save"}, {"count", "index", "complete"}),
        ("gpower", "AscentResult", {"converged", "gap"}, set()),
        ("gpower.solvers.ascent", "Trace", set(), {"values", "seconds"}),
        ("gpower.baselines", "Greedy", {"fit", "transform"}, {"n_components_"}),
    ],
)
def test_methods_and_properties_are_on_the_page_of_their_class(module, name, there, absent):
    own, _ = members_of(module, name)
    assert there <= set(own)
    assert not absent & set(own)


def test_inherited_members_are_described_by_scikit_learn():
    assert "set_output" in members_of("gpower", "GPower")[1]


def test_some_names_are_of_modules_with_a_page():
    assert set(SOME) <= set(MODULES)


def test_the_page_of_the_commands_shows_values_and_defaults():
    _, commands_page = from_conf("option_row", "commands_page")
    fit = commands_page().partition("## gpower fit")[2].partition("## gpower")[0]
    rows = {row.split("`")[1]: row for row in fit.splitlines() if row.startswith("| `")}
    assert next(iter(rows)) == "DATA"
    assert "`N \\| auto`" in rows["--n-components"]
    assert "`l0 \\| l1`" in rows["--penalty"]
    assert rows["--penalty"].endswith(" Default: `l0`. |")
    assert rows["--center"].endswith(" Default: `--center`. |")
    assert not [row for row in (rows["--gamma"], rows["--transpose"], rows["--verbose"]) if "Default:" in row]
