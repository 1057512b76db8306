"""Change the mathematical core in small ways and count how many changes make a test fail: ``make mutants``.

A mutant is one changed operator, comparison, constant, condition or function name (`min` for `max`) of the operators,
feasible sets, penalties, solvers or certificates. The tests of `make test` are run once with coverage.py, which records
the tests that execute each line. Then a seeded sample of mutants is tried, several at a time, each in a forked process
that loads the changed module from memory; the files stay as they are. A mutant meets the tests that execute its line,
first those of the test modules that execute most of the file, quick ones first, until one fails. A test that takes
much longer than allowed counts as failed. Survivors are printed: each is either a change that makes no difference to
any result or a gap in the tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import CoverageData

# Mutants run side by side: one thread for each. These must be set before NumPy and SciPy are imported.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SCIPY_ARRAY_API": "1"}
for _name in ("dask.array", "hypothesis", "pandas", "polars", "scipy.sparse.linalg", "sklearn.utils.estimator_checks"):
    with suppress(ImportError):
        import_module(_name)  # once, before the forks

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gpower"
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
MAX_WAIT = 1200.0  # seconds by the clock after which a process has stopped for good
MAX_FIRST_MODULES = 4


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


def load_mutant(mutant: Mutant) -> None:
    """Make this process import a changed module in place of the original one."""
    tree = Changer(mutant.number).visit(ast.parse(mutant.path.read_text(encoding="utf-8")))
    code = compile(ast.fix_missing_locations(tree), str(mutant.path), "exec")
    original = SourceFileLoader.get_code
    SourceFileLoader.get_code = lambda self, name: (  # type: ignore[method-assign]
        code if Path(self.path) == mutant.path else original(self, name)
    )


class Limits(NamedTuple):
    """Seconds of the processor that one test may take, and recorded seconds of all tests that a mutant meets."""

    one_test: float
    all_tests: float


class TestWatch:
    """A plugin of pytest that runs selected tests in their order and ends the process if one takes too long.

    The time is that of the processor, which other work on the machine does not change.
    """

    def __init__(self, selected: list[str], limit: float) -> None:
        self.ranks, self.limit = {each: rank for rank, each in enumerate(selected)}, limit

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the selected tests, in their order."""
        chosen = [item for item in items if item.nodeid in self.ranks]
        items[:] = sorted(chosen, key=lambda item: self.ranks[item.nodeid])

    def pytest_runtest_logstart(self) -> None:
        """Begin to count the time of a test."""
        signal.setitimer(signal.ITIMER_PROF, self.limit)


def run_tests(mutant: Mutant, tests: list[str], test_limit: float) -> str:
    """Run tests in a forked process with a mutant until one fails; return what became of the mutant.

    One test may take `test_limit` seconds of the processor; a process that waits for MAX_WAIT seconds is ended.
    """
    modules = list(dict.fromkeys(each.partition("::")[0] for each in tests))
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.setsid()
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
            signal.setitimer(signal.ITIMER_PROF, test_limit)  # the imports may take as long as a test
            load_mutant(mutant)
            status = pytest.main([*PYTEST_OPTIONS, "-x", *modules], plugins=[TestWatch(tests, test_limit)])
        finally:
            os._exit(status)
    done, end = 0, time.monotonic() + MAX_WAIT
    while not done and time.monotonic() < end:
        time.sleep(0.02)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timed out"
    code = os.waitstatus_to_exitcode(status)
    names = {0: "survived", -signal.SIGPROF: "timed out", pytest.ExitCode.NO_TESTS_COLLECTED: "untested"}
    return names.get(code, "killed")


class CoveringTests:
    """The tests that execute each line of the package, with their seconds, from one run of the fast tests."""

    def __init__(self, data: CoverageData, seconds: dict[str, float], failed: set[str]) -> None:
        self.data, self.seconds, self.failed = data, seconds, failed

    @classmethod
    def record(cls, folder: Path, jobs: int) -> CoveringTests:
        """Run the fast tests with coverage.py; the data remain in a folder."""
        data_file, log = folder / ".coverage", folder / "pytest.log"
        if not data_file.exists():
            command = [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, "-vv", f"-n{jobs}", "--dist=loadfile"]
            coverage = ["--cov=gpower", "--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
            with log.open("w") as stream:
                environment = {**os.environ, "COVERAGE_FILE": str(data_file)}
                subprocess.run(
                    [*command, *coverage, "--durations=0", "-rfE"], stdout=stream, env=environment, check=False
                )
        text = log.read_text(encoding="utf-8")
        seconds = {test: float(time) for time, test in re.findall(r"^([\d.]+)s call +(.*)$", text, re.MULTILINE)}
        failed = set(re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", text, re.MULTILINE))
        data = CoverageData(str(data_file))
        data.read()  # into memory
        return cls(data, seconds, failed)

    def select(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the line of a mutant, those that are most likely to fail first."""
        of_lines = {
            line: {each.rpartition("|")[0] for each in contexts if each.endswith("|run")} - self.failed
            for line, contexts in self.data.contexts_by_lineno(str(mutant.path)).items()
        }
        n_lines = Counter(each.partition("::")[0] for tests in of_lines.values() for each in tests)
        tests = of_lines.get(mutant.line) or set().union(*of_lines.values())

        def rank(test: str) -> tuple[float, float]:
            return -n_lines[test.partition("::")[0]], self.seconds.get(test, 0.0)

        return sorted(tests, key=rank)


def try_mutant(task: tuple[Mutant, list[str]], seconds: Mapping[str, float], limits: Limits, end: float) -> str | None:
    """Return what became of a mutant, None if `time.monotonic` is beyond `end`.

    The tests of the first MAX_FIRST_MODULES modules are run first, since most mutants need no others.
    """
    mutant, tests = task
    if time.monotonic() > end:
        return None
    if not tests:
        return "untested"
    used, affordable = 0.0, []
    for test in tests:
        if (used := used + seconds.get(test, 0.0)) <= limits.all_tests or not affordable:
            affordable.append(test)
    first = set(list(dict.fromkeys(each.partition("::")[0] for each in affordable))[:MAX_FIRST_MODULES])
    near = [each for each in affordable if each.partition("::")[0] in first]
    outcome = run_tests(mutant, near, limits.one_test)
    if outcome == "survived" and len(near) < len(affordable):
        outcome = run_tests(mutant, [each for each in affordable if each not in set(near)], limits.one_test)
    return outcome


def main() -> int:
    """Try a sample of mutants and print the share that was killed, with the survivors; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=FOLDERS, help="files or folders; default: %(default)s")
    parser.add_argument("--count", type=int, default=400, help="number of mutants")
    parser.add_argument("--minutes", type=float, default=240.0, help="no mutant is begun later")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="mutants tried at a time")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of the processor for one test")
    parser.add_argument("--limit-all", type=float, default=60.0, help="seconds of all tests of a mutant, when recorded")
    parser.add_argument("--folder", type=Path, help="where coverage is kept; default: a temporary folder")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(PACKAGE.parent)]
    everything = list_mutants(arguments.paths)
    sample = random.Random(arguments.seed).sample(everything, min(arguments.count, len(everything)))
    with tempfile.TemporaryDirectory() as temporary:
        covering = CoveringTests.record(arguments.folder or Path(temporary), arguments.jobs)
    for each in sorted(covering.failed):
        print(f"Left out, because it fails without any change: {each}")
    tasks = [(mutant, covering.select(mutant)) for mutant in sample]
    with get_context("fork").Pool(arguments.jobs) as pool:
        end = time.monotonic() + 60 * arguments.minutes
        limits = Limits(arguments.limit, arguments.limit_all)
        results = pool.imap(partial(try_mutant, seconds=covering.seconds, limits=limits, end=end), tasks)
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
