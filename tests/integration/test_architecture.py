"""The house as docs/architecture.md describes it: its floors, the walk of a fit, and its proportions."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gpower import GPower
from gpower.ascent import Objective
from gpower.feasible_sets import FeasibleSet
from gpower.operators.base import Operator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
FLOORS = {
    module.strip().strip("()"): -i for i, layer in enumerate(LAYERS["layers"]) for module in layer.split("|")
}  # the higher the floor, the larger the number
#: What a room may be handed and call without knowing where it lives: the contracts, and callbacks of the loop.
CONTRACTS = {name for contract in (Operator, FeasibleSet, Objective) for name in vars(contract)} | {"__sklearn_tags__"}


def floor(module):
    while module not in FLOORS:
        module = module.rpartition(".")[0]
    return FLOORS[module]


@pytest.fixture(scope="module")
def calls():
    """Calls from one module of the package to another during a dense fit, in their order."""
    X = np.random.default_rng(0).standard_normal((300, 2000))
    model, found = GPower(3, cardinality=20, deflation="schur"), []

    def watch(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        if event != "call" or not name.startswith("gpower."):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_globals.get("__name__", "").startswith("gpower."):
            caller = caller.f_back
        origin = "" if caller is None else caller.f_globals["__name__"]
        if origin != name:
            found.append((origin, name, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        model.fit(X)
    finally:
        sys.setprofile(before)
    return found


def test_a_fit_goes_down_and_up_only_through_a_contract(calls):
    for origin, name, function in calls:
        if origin and floor(name) > floor(origin):
            callback = origin == "gpower.ascent" and "." not in function
            assert function.rpartition(".")[2] in CONTRACTS or callback, f"{origin} calls {name}.{function}"


def test_the_walk_is_the_one_on_the_page(calls):
    walk = dict.fromkeys(
        name.split(".")[1] for origin, name, function in calls if "__sklearn_tags__" not in function
    )  # rooms in the order in which they are entered first
    told = re.search(r"<!-- walk -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL)[1]
    assert re.findall(r"`(\w+)`", told) == list(walk)


def test_every_room_is_on_the_page():
    inside = (ROOT / "src" / "gpower").iterdir()
    rooms = {path.stem for path in inside if path.suffix in (".py", "") and not path.name.startswith("__")}
    told = set(re.findall(r"`(\w+)`", PAGE))
    assert rooms <= told, f"not on the page: {sorted(rooms - told)}"


def functions():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def test_no_function_asks_for_much():
    for path, node in functions():
        count = len(node.args.args) + len(node.args.kwonlyargs)
        assert count <= 12, f"{path.name}: {node.name} has {count} parameters"


def test_words_end_at_the_door():
    """Below the line of the page nothing is steered by a kind."""
    below = {module for module, level in FLOORS.items() if level <= FLOORS["gpower.continuation"]}
    for module in below:
        place = ROOT.joinpath("src", *module.split("."))
        for path in place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]:
            assert not re.search(r"\bkind\b ==", path.read_text(encoding="utf-8")), path


def test_no_module_of_ours_is_imported_by_a_string():
    doors = {"__init__.py", "__main__.py"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        if path.name not in doors:
            assert not re.search(r"import_module\(.gpower", path.read_text(encoding="utf-8")), path
