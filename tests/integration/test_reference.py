"""Every name of the reference has an example, which runs with the doctests of its module."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import gpower

CONF = ast.parse((Path(__file__).parents[2] / "docs" / "conf.py").read_text(encoding="utf-8"))


def from_conf(*names):
    """Constants and functions of docs/conf.py, without what only the builder of the site has installed."""
    wanted = [
        node
        for node in CONF.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and node.targets[0].id in names)
    ]
    space = {"inspect": inspect, "import_module": import_module, "gpower": gpower}
    exec(compile(ast.Module(wanted, []), "conf.py", "exec"), space)
    return [space[name] for name in names]


MODULES, INNER, public_names = from_conf("MODULES", "INNER", "public_names")
NAMES = [(module, name) for module in MODULES for name in public_names(module)]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda word: word)
def test_there_is_an_example(module, name):
    thing = getattr(import_module(module), name)
    assert re.search(r"(?m)^ *Examples\n *-{8}\n(.|\n)*>>> ", inspect.getdoc(thing)), f"{module}.{name} has no example"


def test_what_is_left_out_exists():
    for module, names in INNER.items():
        assert names <= set(vars(import_module(module)))
        assert not names & set(public_names(module))
