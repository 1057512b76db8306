"""Measure the shape of the package and write the figures into docs/architecture.md: ``make metrics``.

Printed and kept on the page: how many folders, layers and modules there are, how names and docstrings are formed, and
which modules one fit enters. With ``--check`` nothing is written, and the exit status is 1 if a figure misses its goal.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np

from gpower import GPower

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gpower"
PAGE = ROOT / "docs" / "architecture.md"
MARKERS = re.compile(r"(?<=<!-- metrics -->\n).*?(?=\n<!-- end metrics -->)", re.DOTALL)
#: First words that are not a verb in the imperative. Everything else that is not capitalised oddly counts as a verb.
NOT_VERB_TEXT = """
A All An Another Any Around As At Because Before Below Beside Between Both But By Columns Components
Correlations Each Either Entries Every Everything Few Figures For From Half Here How If In Index Indices Inner
Inside Into It Its Just Later Least Less Loadings Lower Many Mask Mean Means More Most Much Name Names Neither
No None Nor Norms Not Nothing Number Objective Of On Once One Only Other Others Outside Over Own Pairs
Parameters Patterns Points Position Positions Positive Products Row Rows Same Scores Sentences Several Share
Shares Since Some Squared Starts Such Sum Sums Texts That The Their Them Then There These They This Those Though
Through To Two Under Unit Units Until Up Upper Value Values Variables Variance Variances Weighted Weights What
When Where Whether Which While Who Whose With Within Without
"""
NOT_VERBS = frozenset(re.findall(r"\w+", NOT_VERB_TEXT))
#: Beginnings that lean on a neighbour.
LEANING = ("The same", "As ", "Whether it does", "That ")


def parse_modules(folder: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield path, text and syntax tree of every module below a folder."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path, text, ast.parse(text)


def count_code_lines(text: str, tree: ast.Module) -> int:
    """Return the number of lines that are neither blank, nor comments, nor docstrings."""
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and i not in documented for i, line in lines)


def begins_with_verb(docstring: str) -> bool:
    """Return whether the first word can be a verb in the imperative."""
    word = docstring.split()[0].rstrip(".,;:")
    return bool(re.fullmatch(r"[A-Z][a-z]+", word)) and word not in NOT_VERBS


def list_docstrings() -> list[str]:
    """Return the docstrings of all functions and methods of the package, properties aside."""
    found = []
    for _, _, tree in parse_modules(PACKAGE):
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            docstring = ast.get_docstring(node)
            if docstring and not decorators & {"property", "cached_property"}:
                found.append(docstring)
    return found


def find_homonyms() -> tuple[dict[str, int], list[str]]:
    """Return names that more than two modules define, with their number, and class names defined twice."""
    modules: dict[str, set[Path]] = defaultdict(set)
    classes: Counter[str] = Counter()
    for path, _, tree in parse_modules(PACKAGE):
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                modules[node.name.lstrip("_")].add(path)
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
    often = {name: len(paths) for name, paths in modules.items() if len(paths) > 2}
    return often, [name for name, count in classes.items() if count > 1]


class ModuleCall(NamedTuple):
    """A call from one module of the package to another; `origin` is empty for a call from outside."""

    origin: str
    module: str
    function: str


def trace_fit() -> list[ModuleCall]:
    """Return the calls from one module of the package to another during ``GPower(3, cardinality=20).fit(X)``."""
    X = np.random.default_rng(0).standard_normal((300, 2000))
    model = GPower(3, cardinality=20)
    calls = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("gpower."):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_globals.get("__name__", "").startswith("gpower."):
            caller = caller.f_back
        origin = "" if caller is None else caller.f_globals["__name__"]
        if origin != module:
            calls.append(ModuleCall(origin, module, frame.f_code.co_qualname))

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        model.fit(X)
    finally:
        sys.setprofile(previous)
    return calls


def read_layers() -> list[list[str]]:
    """Return the folders of each layer of the import contract, the highest first."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    return [[folder.strip() for folder in layer.split("|")] for layer in contract["layers"]]


def measure() -> list[tuple[str, float, str, bool]]:
    """Return name, figure, goal and whether the goal is reached, one row for each metric."""
    layers = read_layers()
    height = {folder: -i for i, layer in enumerate(layers) for folder in layer}
    calls = trace_fit()
    level = lambda module: height[".".join(module.split(".")[:2])]  # noqa: E731
    upward = sum(bool(call.origin) and level(call.module) > level(call.origin) for call in calls)
    docstrings = list_docstrings()
    often, twice = find_homonyms()
    folders = [path for path in [PACKAGE, *PACKAGE.rglob("*")] if path.is_dir() and path.name != "__pycache__"]
    modules = {path: sum(each.name != "__init__.py" for each in path.glob("*.py")) for path in folders}
    verbs = 100 * float(np.mean([begins_with_verb(each) for each in docstrings]))
    leaning = sum(each.startswith(LEANING) for each in docstrings)
    parameters = len(inspect.signature(GPower).parameters)
    lines = sum(count_code_lines(text, tree) for _, text, tree in parse_modules(PACKAGE))
    tests = sum(count_code_lines(text, tree) for _, text, tree in parse_modules(ROOT / "tests"))

    def at_most(name: str, figure: float, limit: float) -> tuple[str, float, str, bool]:
        return name, figure, f"at most {limit:g}", figure <= limit

    top = len(list(PACKAGE.glob("*.py")))
    return [
        at_most("modules beside the folders", top, 2),
        at_most("folders at the top level", sum(path.parent == PACKAGE for path in folders), 17),
        at_most("import layers", len(layers), 18),
        at_most("modules in the largest folder", max(modules.values()), 14),
        ("docstrings of functions that begin with a verb, %", round(verbs, 1), "at least 80", verbs >= 80),
        at_most("docstrings that lean on a neighbour", leaning, 0),
        at_most("top-level names defined in more than two modules", len(often), 0),
        at_most("class names defined twice", len(twice), 0),
        at_most("upward calls of one fit", upward, 99),
        at_most("modules that one fit enters", len({call.module for call in calls}), 32),
        at_most("parameters of GPower", parameters, 32),
        at_most("code lines of the package", lines, 14_500),
        at_most("code lines of the tests", tests, 16_000),
    ]


def main() -> None:
    """Print the table; write it into the page, or with ``--check`` only judge it."""
    rows = measure()
    often, twice = find_homonyms()
    table = "\n".join(f"| {name} | {figure:g} | {goal} |" for name, figure, goal, _ in rows)
    for name, figure, goal, reached in rows:
        print(f"{name:52} {figure:>9g}  {goal}{'' if reached else '  (missed)'}")
    if often or twice:
        print("defined too often:", ", ".join([*often, *twice]))
    if "--check" in sys.argv:
        sys.exit(not all(reached for *_, reached in rows))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKERS.sub("| metric | now | goal |\n|---|---|---|\n" + table, page), encoding="utf-8")


if __name__ == "__main__":
    main()
