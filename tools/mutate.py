"""Change the mathematical core in small ways and count how many changes make a test fail: ``make mutants``.

A mutant is one changed operator, comparison, constant, condition or function name (`min` for `max`) of the operators,
penalties, solvers or certificates. A seeded sample is tried, each mutant in a forked process that loads the changed
module from memory; the files stay as they are. The tests are those of `TESTS`, without the slow ones, until one fails.
A mutant that runs longer than its time limit counts as killed. Survivors are printed with their line: each is either a
change that makes no difference to any result or a gap in the tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NamedTuple

import pytest

for _name in ("hypothesis", "pandas", "polars", "scipy.sparse.linalg", "sklearn.utils.estimator_checks"):
    import_module(_name)  # once, before the forks

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gpower"
#: Test modules of the files below a path, those that fail first at the beginning; the first path that fits is taken.
TESTS = {
    "operators/storage/dask": "integration/test_dask",
    "operators/storage": """contracts/test_containers contracts/test_operators unit/test_out_of_core
        contracts/test_threads unit/test_stores unit/test_covariates""",
    "operators/running_moments": "unit/test_partial_fit",
    "operators/explained_variance": "unit/test_reported_numbers unit/test_estimator unit/test_paths",
    "operators": """contracts/test_operators contracts/test_containers contracts/test_leading_pca unit/test_estimator
        unit/test_reported_numbers contracts/test_devices unit/test_equivalences""",
    "penalties": "contracts/test_knapsack contracts/test_penalties unit/test_variable_rules unit/test_degenerate",
    "solvers/joint": "contracts/test_constraints unit/test_component_constraints",
    "solvers/warm_path": "unit/test_paths unit/test_warm_start",
    "solvers/min_cardinality": "unit/test_min_cardinality",
    "solvers/starts": "contracts/test_starts contracts/test_tie_breaking contracts/test_sequential unit/test_estimator",
    "solvers/column_screening": "contracts/test_starts contracts/test_tie_breaking contracts/test_sequential",
    "solvers": """contracts/test_ascent contracts/test_sequential contracts/test_working_set unit/test_local_search
        unit/test_estimator contracts/test_tie_breaking unit/test_degenerate golden/test_authors_program
        contracts/test_rounding unit/test_variable_rules""",
    "certificates": """contracts/test_bounds unit/test_best_subset unit/test_best_subset_with_rules
        unit/test_certificates unit/test_component_constraints""",
}
FOLDERS = ["operators", "penalties", "solvers", "certificates"]
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin",
    "any": "all", "all": "any", "zeros": "ones", "ones": "zeros", "zeros_like": "ones_like", "sqrt": "abs",
    "abs": "asarray",
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module: its file, the line, what is there and what is put there, and the number of the change."""

    path: Path
    line: int
    before: str
    after: str
    number: int


def change_node(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the changed versions of a node, none if it has none."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            other.ops = [COMPARISONS[type(operator)]()]
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in ARITHMETIC:
            other.op = ARITHMETIC[type(operator)]()
        case ast.BoolOp(op=operator):
            other.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            other = other.operand
        case ast.Constant(value=bool(value)):
            other.value = not value
        case ast.Constant(value=int(value) | float(value)):
            other.value = value + 1
        case ast.Attribute(attr=name) if name in NAMES:
            other.attr = NAMES[name]
        case ast.Name(id="min" | "max" | "any" | "all" | "abs" as name):
            other.id = NAMES[name] if name != "abs" else "float"
        case ast.If() | ast.IfExp() | ast.While():
            other.test = ast.UnaryOp(op=ast.Not(), operand=other.test)
        case _:
            return
    yield ast.copy_location(other, node)


class Changer(ast.NodeTransformer):
    """Number the possible changes of a module, and make the one that is asked for."""

    def __init__(self, wanted: int | None = None) -> None:
        self.wanted, self.found = wanted, list[tuple[int, str, str]]()

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the node, changed if it is the wanted one."""
        match node:
            case (
                ast.Raise()
                | ast.Assert()
                | ast.JoinedStr()
                | ast.Import()
                | ast.ImportFrom()
                | ast.Constant(value=str())
            ):
                return node
            case ast.Assign() if all(each.isupper() for each in map(ast.unparse, node.targets)):
                return node  # tuning constants: another value is no error
            case ast.FunctionDef() | ast.ClassDef():
                node.body = [self.visit(each) for each in node.body]
                return node  # annotations, defaults and decorators stay
            case ast.AnnAssign():
                return node  # the default of a field, most often
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return node
        for other in change_node(node):
            number = len(self.found)
            whole = [each.test if isinstance(each, ast.If | ast.While) else each for each in (node, other)]
            self.found.append((node.lineno, *(ast.unparse(ast.fix_missing_locations(each)) for each in whole)))
            if number == self.wanted:
                return other
        return self.generic_visit(node)


def list_mutants(folders: list[str]) -> list[Mutant]:
    """Return all mutants of the modules of some folders."""
    mutants = []
    for path in sorted(path for folder in folders for path in (PACKAGE / folder).rglob("*.py")):
        changer = Changer()
        changer.visit(ast.parse(path.read_text(encoding="utf-8")))
        mutants += [Mutant(path, *change, number) for number, change in enumerate(changer.found)]
    return mutants


def find_tests(path: Path) -> str:
    """Return the key of `TESTS` for a module."""
    within = path.relative_to(PACKAGE).as_posix()
    return next(prefix for prefix in TESTS if within.startswith(prefix))


def run_tests(mutant: Mutant | None, prefix: str) -> int:
    """Return the exit status of some tests with a mutant in place of its module."""
    if mutant is not None:
        tree = Changer(mutant.number).visit(ast.parse(mutant.path.read_text(encoding="utf-8")))
        code = compile(ast.fix_missing_locations(tree), str(mutant.path), "exec")
        original = SourceFileLoader.get_code
        SourceFileLoader.get_code = lambda self, name: (  # type: ignore[method-assign]
            code if Path(self.path) == mutant.path else original(self, name)
        )
    modules = [str(ROOT / "tests" / f"{name}.py") for name in TESTS[prefix].split()]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "-m", "not slow", *modules]))


def try_mutant(mutant: Mutant | None, prefix: str, limit: float) -> str:
    """Return "killed", "survived" or "timed out" for a mutant in a forked process."""
    if (child := os.fork()) == 0:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        status = 1
        try:
            status = run_tests(mutant, prefix)
        finally:
            os._exit(status)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timed out"


def main() -> int:
    """Try a sample of mutants and print the share that was killed, with the survivors; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="default: %(default)s")
    parser.add_argument("--count", type=int, default=400, help="number of mutants")
    parser.add_argument("--minutes", type=float, default=240.0, help="no mutant is begun later")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one mutant")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    everything = list_mutants(arguments.folders)
    sample = random.Random(arguments.seed).sample(everything, min(arguments.count, len(everything)))
    for prefix in sorted({find_tests(mutant.path) for mutant in sample}):
        if try_mutant(None, prefix, arguments.limit) != "survived":
            print(f"The tests of {prefix} fail or take more than {arguments.limit:g} s without any change.")
            return 1
    end = time.monotonic() + 60 * arguments.minutes
    outcomes: list[tuple[str, Mutant]] = []
    for mutant in sample:
        if time.monotonic() > end:
            break
        outcome = try_mutant(mutant, find_tests(mutant.path), arguments.limit)
        outcomes.append((outcome, mutant))
        place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
        print(f"{len(outcomes):4d} {outcome:9s} {place}: {mutant.before}  ->  {mutant.after}", flush=True)
    n_killed = sum(outcome != "survived" for outcome, _ in outcomes)
    print(f"{n_killed} of {len(outcomes)} mutants killed ({len(everything)} are possible, seed {arguments.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
