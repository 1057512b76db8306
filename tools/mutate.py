"""Change the mathematical core in small ways and count how many changes make a test fail: ``make mutants``.

A mutant is one changed operator, comparison, constant, condition or function name (`min` for `max`) of the operators,
feasible sets, penalties, solvers or certificates. A seeded sample is tried, several mutants at a time, each in a forked
process that loads the changed module from memory; the files stay as they are. The tests are those of `TESTS`, without
the slow ones, until one fails. A mutant that runs longer than its time limits counts as killed. Tests that fail without
any change, for instance because an optional package is missing, are named and left out. Survivors are printed: each
is either a change that makes no difference to any result or a gap in the tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

# Mutants run side by side: one thread for each. These must be set before NumPy and SciPy are imported.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SCIPY_ARRAY_API": "1"}
for _name in ("dask.array", "hypothesis", "pandas", "polars", "scipy.sparse.linalg", "sklearn.utils.estimator_checks"):
    with suppress(ImportError):
        import_module(_name)  # once, before the forks

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gpower"
#: Test modules of the files below a path, those that fail first at the beginning; the first path that fits is taken.
TESTS = {
    "operators/storage/dask": "contracts/test_containers contracts/test_operators integration/test_dask",
    "operators/storage/device": "contracts/test_containers contracts/test_devices",
    "operators/storage": """contracts/test_containers contracts/test_operators contracts/test_folds
        unit/test_covariates unit/test_out_of_core contracts/test_threads unit/test_stores""",
    "operators/running_moments": "unit/test_partial_fit",
    "operators/explained_variance": "unit/test_reported_numbers unit/test_estimator unit/test_paths",
    "operators/leading_pca": "contracts/test_leading_pca unit/test_degenerate unit/test_estimator",
    "operators": """contracts/test_operators contracts/test_containers contracts/test_devices unit/test_estimator
        unit/test_reported_numbers unit/test_equivalences""",
    "penalties/knapsack": "contracts/test_knapsack contracts/test_penalties",
    "penalties": "contracts/test_penalties unit/test_variable_rules unit/test_degenerate unit/test_estimator",
    "feasible_sets": "contracts/test_feasible_sets contracts/test_ascent contracts/test_working_set",
    "problem": "contracts/test_operators contracts/test_sequential contracts/test_ascent contracts/test_rounding",
    "solvers/joint": "contracts/test_constraints unit/test_component_constraints",
    "solvers/min_cardinality": "unit/test_min_cardinality",
    "solvers/covariance_stack": "unit/test_covariance_stack unit/test_cross_validation",
    "solvers/starts": "contracts/test_starts contracts/test_sequential contracts/test_tie_breaking unit/test_estimator",
    "solvers/column_screening": """contracts/test_starts contracts/test_sequential contracts/test_tie_breaking
        unit/test_estimator""",
    "solvers/group_swaps": "unit/test_local_search unit/test_variable_rules",
    "solvers/local_search": """unit/test_local_search contracts/test_starts contracts/test_tie_breaking
        unit/test_variable_rules contracts/test_sequential unit/test_estimator""",
    "solvers/ascent": "contracts/test_ascent contracts/test_working_set unit/test_estimator unit/test_degenerate",
    "solvers/working_set": "contracts/test_working_set contracts/test_sequential unit/test_equivalences",
    "solvers": """contracts/test_sequential unit/test_estimator unit/test_degenerate contracts/test_tie_breaking
        unit/test_variable_rules golden/test_authors_program unit/test_warm_start unit/test_checkpoints
        contracts/test_rounding""",
    "certificates/group_search": "unit/test_best_subset_with_rules",
    "certificates/disjoint_supports": "unit/test_certificates unit/test_component_constraints",
    "certificates/joint": "unit/test_component_constraints contracts/test_constraints unit/test_certificates",
    "certificates/row_bound": "contracts/test_bounds contracts/test_constraints unit/test_best_subset",
    "certificates": """contracts/test_bounds unit/test_best_subset unit/test_certificates
        unit/test_best_subset_with_rules unit/test_component_constraints""",
}
FOLDERS = ["operators", "feasible_sets", "penalties", "problem", "solvers", "certificates"]
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
BOUNDARIES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
KEYWORDS_WITHOUT_EFFECT = {"check_finite", "copy", "overwrite_a", "overwrite_b", "stacklevel", "strict"}
PYTEST_OPTIONS = ["-q", "-p", "no:cacheprovider", "--assert=plain", "-m", "not slow"]
MAX_MEMORY = 8 << 30  # address space of one process, in bytes


class Mutant(NamedTuple):
    """A changed module: its file, the line, what is there and what is put there, and the number of the change."""

    path: Path
    line: int
    before: str
    after: str
    number: int


def is_constant_name(node: ast.AST) -> bool:
    """Return whether an expression is the name of a constant, such as `MAX_ROWS` or `grids.MAX_ROWS`."""
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).rpartition(".")[2].isupper()


def change_node(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the changed version of a node, nothing if it has none."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[operator]) if isinstance(operator, BOUNDARIES) and any(
            map(is_constant_name, ast.walk(node))
        ):
            return  # at its very boundary, the choice of a method is free
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
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            match test:
                case ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot()]):
                    return  # the change of the test itself is the same mutant
            other.test = ast.UnaryOp(op=ast.Not(), operand=test)
        case _:
            return
    yield ast.copy_location(other, node)


def is_without_effect(node: ast.AST) -> bool:
    """Return whether changes inside a node cannot change a result, or only a constant that was chosen for speed."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Constant(value=str()):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=targets)]) | ast.Assign(targets=targets):
            return all(map(is_constant_name, targets))
        case ast.AnnAssign():
            return True  # the default of a field, most often
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.FunctionDef(returns=ast.Name(id="str")):
            return True  # text for people
        case ast.Expr(value=ast.Call(func=ast.Name(id="warn" | "warn_all"))):
            return True
        case ast.keyword(arg=name):
            return name in KEYWORDS_WITHOUT_EFFECT
    return False


class Changer(ast.NodeTransformer):
    """Number the possible changes of a module, and make the one that is asked for."""

    def __init__(self, wanted: int | None = None) -> None:
        self.wanted, self.found = wanted, list[tuple[int, str, str]]()

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the node, changed if it is the wanted one."""
        if is_without_effect(node):
            return node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.body = [self.visit(each) for each in node.body]
            return node  # annotations, defaults and decorators stay
        for other in change_node(node):
            number = len(self.found)
            whole = [each.test if isinstance(each, ast.If | ast.While) else each for each in (node, other)]
            self.found.append((node.lineno, *(ast.unparse(ast.fix_missing_locations(each)) for each in whole)))
            if number == self.wanted:
                return other
        return self.generic_visit(node)


def list_mutants(names: list[str]) -> list[Mutant]:
    """Return all mutants of some modules, which are named by paths of files or folders in the package."""
    mutants = []
    places = [PACKAGE / name for name in names]
    for path in sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))):
        changer = Changer()
        changer.visit(ast.parse(path.read_text(encoding="utf-8")))
        mutants += [Mutant(path, *change, number) for number, change in enumerate(changer.found)]
    return mutants


def find_prefix(path: Path) -> str:
    """Return the key of `TESTS` for a module."""
    within = path.relative_to(PACKAGE).as_posix()
    return next(prefix for prefix in TESTS if within.startswith(prefix))


def load_mutant(mutant: Mutant) -> None:
    """Make this process import a changed module in place of the original one."""
    tree = Changer(mutant.number).visit(ast.parse(mutant.path.read_text(encoding="utf-8")))
    code = compile(ast.fix_missing_locations(tree), str(mutant.path), "exec")
    original = SourceFileLoader.get_code
    SourceFileLoader.get_code = lambda self, name: (  # type: ignore[method-assign]
        code if Path(self.path) == mutant.path else original(self, name)
    )


class TestWatch:
    """A plugin of pytest that records the tests that fail and ends the process if one takes too long.

    The time is that of the processor, which other work on the machine does not change.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self.failed = limit, list[str]()

    def pytest_runtest_logstart(self) -> None:
        """Begin to count the time of a test."""
        signal.setitimer(signal.ITIMER_PROF, self.limit)

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Record a test, or a module, that fails."""
        if report.failed:
            self.failed.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport


class TestRun(NamedTuple):
    """The end of some tests: pytest's exit status, None if time ran out, what failed, and seconds by the clock."""

    status: int | None
    failed: list[str]
    seconds: float


def run_tests(options: list[str], mutant: Mutant | None, test_limit: float, limit: float) -> TestRun:
    """Run tests in a forked process, with a mutant if there is one.

    One test may take `test_limit` seconds of the processor, and all together `limit` seconds by the clock.
    """
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as failed:
        if (child := os.fork()) == 0:
            status = 1
            try:
                os.setsid()
                silence = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silence, 1)
                os.dup2(silence, 2)
                resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
                watch = TestWatch(test_limit)
                signal.setitimer(signal.ITIMER_PROF, test_limit)  # the imports may take as long as a test
                if mutant is not None:
                    load_mutant(mutant)
                status = pytest.main([*PYTEST_OPTIONS, *options], plugins=[watch])
                failed.write("\n".join(watch.failed))
                failed.flush()
            finally:
                os._exit(status)
        done = 0
        while not done and time.monotonic() < begin + limit:
            time.sleep(0.02)
            done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        failed.seek(0)
        code = os.waitstatus_to_exitcode(status) if done else -signal.SIGPROF
        seconds = time.monotonic() - begin
        return TestRun(None if code == -signal.SIGPROF else code, failed.read().splitlines(), seconds)


class TestSelection(NamedTuple):
    """The tests for the files below a path: modules and tests left out, and seconds that one run may take."""

    modules: list[str]
    left_out: list[str]
    limit: float


def select_tests(prefix: str, test_limit: float) -> TestSelection:
    """Return the tests of `TESTS` that pass without any change; they are run to know."""
    modules = [f"tests/{name}.py" for name in TESTS[prefix].split()]
    run = run_tests(["--continue-on-collection-errors", *modules], None, test_limit, limit=3600)
    left_out = run.failed or ([] if run.status == 0 else modules)  # pytest itself may have failed
    return TestSelection([each for each in modules if each not in left_out], left_out, max(30, 5 * run.seconds))


def try_mutant(task: tuple[Mutant, TestSelection], test_limit: float, end: float) -> str | None:
    """Return what became of a mutant, None if `time.monotonic` is beyond `end`."""
    mutant, selection = task
    if time.monotonic() > end:
        return None
    if not selection.modules:
        return "untested"
    options = ["-x", *selection.modules, *(f"--deselect={each}" for each in selection.left_out)]
    status = run_tests(options, mutant, test_limit, selection.limit).status
    return {None: "timed out", 0: "survived", pytest.ExitCode.NO_TESTS_COLLECTED: "untested"}.get(status, "killed")


def main() -> int:
    """Try a sample of mutants and print the share that was killed, with the survivors; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=FOLDERS, help="files or folders; default: %(default)s")
    parser.add_argument("--count", type=int, default=400, help="number of mutants")
    parser.add_argument("--minutes", type=float, default=240.0, help="no mutant is begun later")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="mutants tried at a time")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of the processor for one test")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(PACKAGE.parent)]
    everything = list_mutants(arguments.paths)
    sample = random.Random(arguments.seed).sample(everything, min(arguments.count, len(everything)))
    with get_context("fork").Pool(arguments.jobs) as pool:
        prefixes = [prefix for prefix in TESTS if any(find_prefix(mutant.path) == prefix for mutant in sample)]
        select = partial(select_tests, test_limit=arguments.limit)
        selections = dict(zip(prefixes, pool.imap(select, prefixes), strict=True))
        for prefix, selection in selections.items():
            for each in selection.left_out:
                print(f"Left out for {prefix}, because it fails without any change: {each}")
        end = time.monotonic() + 60 * arguments.minutes
        tasks = ((mutant, selections[find_prefix(mutant.path)]) for mutant in sample)
        results = pool.imap(partial(try_mutant, test_limit=arguments.limit, end=end), tasks)
        outcomes: Counter[str] = Counter()
        for mutant, outcome in zip(sample, results, strict=True):
            if outcome is None:
                break
            outcomes[outcome] += 1
            place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
            print(f"{outcomes.total():4d} {outcome:9s} {place}: {mutant.before}  ->  {mutant.after}", flush=True)
    n_killed = outcomes["killed"] + outcomes["timed out"]
    n_tested = n_killed + outcomes["survived"]
    print(f"{n_killed} of {n_tested} mutants killed ({len(everything)} are possible, seed {arguments.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
