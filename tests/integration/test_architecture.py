"""The layers of the package and the modules that a fit enters are those of docs/architecture.md."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from tools.metrics import trace_fit

from gpower.feasible_sets import FeasibleSet
from gpower.operators.base import Operator
from gpower.solvers.ascent import Objective

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
#: Height of each layer; higher layers have larger numbers.
LAYERS_BY_FOLDER = {folder.strip(): -i for i, layer in enumerate(CONTRACT["layers"]) for folder in layer.split("|")}
#: Methods of the contracts: an object may be called by modules below the one that made it.
CONTRACTS = {name for contract in (Operator, FeasibleSet, Objective) for name in vars(contract)} | {"__sklearn_tags__"}
IO = ROOT / "src" / "gpower" / "io"
#: Modules that compare strings that are not options: kinds of files and of their columns.
KINDS_OF_FILES = {IO / "model_file.py", *IO.joinpath("tables").glob("*.py")}


def layer_of(module):
    """Return the height of the layer that a module belongs to."""
    return LAYERS_BY_FOLDER[".".join(module.split(".")[:2])]


@pytest.fixture(scope="module")
def calls():
    """Return the calls from one module of the package to another during a dense fit, in order."""
    return trace_fit()


def test_a_fit_calls_upwards_only_through_a_contract(calls):
    for origin, name, function in calls:
        if origin and layer_of(name) > layer_of(origin):
            callback = origin == "gpower.solvers.ascent" and "." not in function
            callback = callback or origin == "gpower._utils.threads"  # calls the function that it is given
            assert function.rpartition(".")[2] in CONTRACTS or callback, f"{origin} calls {name}.{function}"


def test_the_page_lists_the_modules_that_a_fit_enters(calls):
    entered = dict.fromkeys(
        name.removeprefix("gpower.") for origin, name, function in calls if "__sklearn_tags__" not in function
    )
    listed = re.search(r"<!-- walk -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL)[1]
    assert re.findall(r"`([\w.]+)`", listed) == list(entered)


def test_the_package_has_only_folders_and_its_init_and_main_modules():
    inside = {path.name for path in (ROOT / "src" / "gpower").iterdir()} - {"__pycache__"}
    folders = {name.removeprefix("gpower.") for name in LAYERS_BY_FOLDER} - {"__main__"}
    assert inside == folders | {"__init__.py", "__main__.py", "py.typed"}


def test_every_folder_is_on_the_page():
    for folder in LAYERS_BY_FOLDER:
        assert f"`{folder.removeprefix('gpower.')}`" in PAGE, folder


def functions():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def test_no_function_has_many_parameters():
    for path, node in functions():
        count = len(node.args.args) + len(node.args.kwonlyargs)
        assert count <= 12, f"{path.name}: {node.name} has {count} parameters"


def test_string_options_end_at_validation():
    below = [name for name, layer in LAYERS_BY_FOLDER.items() if layer <= LAYERS_BY_FOLDER["gpower.solvers"]]
    for folder in below:
        for path in set(ROOT.joinpath("src", *folder.split(".")).rglob("*.py")) - KINDS_OF_FILES:
            assert not re.search(r"\bkind\b ==", path.read_text(encoding="utf-8")), path


def test_no_module_of_the_package_is_imported_by_a_string():
    allowed = {"__init__.py", "__main__.py"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        if path.name not in allowed:
            assert not re.search(r"import_module\(.gpower", path.read_text(encoding="utf-8")), path
