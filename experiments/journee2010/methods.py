"""The methods that the paper compares, with the times of initialisation, pattern and fill (refit of the loadings).

A power method consists of a start, a penalty and a fill, all parts of the library. The estimators do not report the
time of each part, so the parts are combined here. `tests/integration/test_paper_claims.py` checks that the results are
those of the estimators.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from benchmarks.rulers import quiet

from experiments.journee2010 import published
from gpower import GPower
from gpower.baselines import SPCA, Greedy
from gpower.feasible_sets import Point
from gpower.operators import Operator, as_operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import FixedSupport
from gpower.problem.deflation import DEFLATION_RULES
from gpower.problem.formulation import Problem
from gpower.solvers.fit_specification import PenaltyLevel
from gpower.solvers.refit import refit_unit
from gpower.solvers.starts import make_largest_norm_start
from gpower.solvers.working_set import AscentSettings, ascend
from gpower.validation.params import PENALTIES_BY_NAME

#: The paper's iteration: on the whole matrix, stopped at a relative growth of 1e-4.
PAPER = AscentSettings(use_working_set=False, tol=1e-4, max_iter=1000, acceleration=False)
PHASES = ("initialisation", "pattern", "fill")


@dataclass
class Clock:
    """Processor seconds by phase."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Add the time inside the context to a phase."""
        begin = time.process_time()
        yield
        self.seconds[phase] += time.process_time() - begin


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its processor time, which varies less with other work than wall-clock time."""
    begin = time.process_time()
    result = call()
    return result, time.process_time() - begin


@dataclass(frozen=True, eq=False)
class Outcome:
    """Loadings, (n, m), the loadings of the ascent without fill, and the cost.

    `seconds` are those of each phase, or of the "whole" where it has none.
    """

    Z: np.ndarray
    unfilled: np.ndarray
    seconds: dict[str, float]
    steps: int
    passes: float

    @property
    def total(self) -> float:
        """Return the seconds of all phases."""
        return sum(self.seconds.values())

    def cost(self) -> dict[str, float]:
        """Return seconds by phase and in total, cardinality, steps and reads of the matrix, as a row of a table."""
        counts = {"cardinality": int(np.count_nonzero(self.Z)), "steps": self.steps, "passes": self.passes}
        phases = {phase: self.seconds[phase] for phase in PHASES if phase in self.seconds}
        return counts | {"seconds": self.total} | phases


class Method(Protocol):
    """A method of the paper."""

    @property
    def name(self) -> str:
        """Return the name of the method in `published`."""
        ...

    @property
    def by(self) -> str:
        """Return the kind of a level: a "share" of the largest useful penalty, or the "cardinality" of components."""
        ...

    def solve(self, A: np.ndarray, level: float, m: int = 1) -> Outcome:
        """Return m components of A, which is used without preprocessing."""
        ...


@dataclass(frozen=True)
class PowerMethod:
    """GPower or sPCA-rSVD: an ascent on thresholded correlations.

    Attributes
    ----------
    name : str
    penalty : {"l1", "l0"}
    begin : {"column", "pca"}
        The column of largest norm (GPower), or the first principal component (rSVD).
    filled : bool
        Choose the loadings of the pattern anew.
    block : bool
        All components at once.
    reach : {"start", "norms"}
        What a level is a share of: the largest |aᵢᵀx| at the start, or the largest ‖aᵢ‖. For GPower both are
        the same. Above the first, nothing is active where rSVD begins.
    """

    name: str
    penalty: str
    begin: str = "column"
    filled: bool = False
    block: bool = False
    reach: str = "start"
    by: str = "share"

    def solve(self, A: np.ndarray, level: float, m: int = 1) -> Outcome:
        """Return loadings at γ = level·max (ℓ1) or (level·max)² (ℓ0), so that a level has the same effect on both."""
        clock, steps = Clock(), 0
        Z: list[np.ndarray] = []
        unfilled: list[np.ndarray] = []
        with clock("initialisation"):
            operator, _ = as_operator(A, center=False, reduce_tall=False)
        for _ in range(1 if self.block else m):
            with clock("initialisation"):
                operator = DEFLATION_RULES["projection"].remove(operator, Z[-1][:, 0]) if Z else operator
                problem, start = self._problem(operator, level, m if self.block else 1)
            with clock("pattern"):
                result = ascend(problem, start, PAPER)
            with clock("fill"):
                unfilled.append(problem.compute_loadings(result.point))
                Z.append(self._fill(operator, unfilled[-1], result.point))
            steps += result.n_iter
        return Outcome(np.hstack(Z), np.hstack(unfilled), clock.seconds, steps, operator.passes)

    def _problem(self, operator: Operator, level: float, width: int) -> tuple[Problem, Point]:
        norms, power = operator.column_norms, 1 if self.penalty == "l1" else 2

        def at(share: float) -> Problem:
            levels = (share**power,) * width
            return PenaltyLevel(penalty_family=PENALTIES_BY_NAME[self.penalty], levels=levels).make_problem(
                operator, norms, np.ones(width)
            )

        problem = at(level)
        if self.begin == "column":
            return problem, make_largest_norm_start(problem, norms, np.random.RandomState(0))
        first, _ = compute_leading_components(operator, width)
        start = problem.feasible_set.make_point(operator.combine(first))
        if self.reach == "start":
            problem = at(level * float(np.max(np.abs(start.C)) / norms.max()))
        return problem, start

    def _fill(self, operator: Operator, Z: np.ndarray, point: Point) -> np.ndarray:
        return fill(operator, Z, point.X) if self.filled else Z


def fill(operator: Operator, Z: np.ndarray, X: np.ndarray | None = None, power: int = 1) -> np.ndarray:
    """Return loadings on the pattern of Z: the rank-one SVD for one unit, Algorithm 6 from X for a block.

    `power=1` is the paper's sum of norms, `power=2` the sum of squares, the variance.
    """
    if Z.shape[1] == 1:
        return refit_unit(operator, np.flatnonzero(Z[:, 0]))[0][:, None]
    W = np.flatnonzero(Z.any(axis=1))
    if W.size == 0:
        return Z
    inner = Problem(operator.take(W), FixedSupport(Z[W] != 0, power), np.ones(Z.shape[1]))
    start = inner.feasible_set.make_point(operator.combine(Z) if X is None else X)
    filled = np.zeros_like(Z)
    filled[W] = inner.compute_loadings(ascend(inner, start, PAPER).point)
    return filled


@dataclass(frozen=True)
class RegressionMethod:
    """SPCA with an infinite ridge, which its authors recommend for more variables than samples.

    The regressions keep the wanted number of variables, so that no trial and error is in the time. Initialisation
    is the time of the same principal components that SPCA begins with, taken on their own.
    """

    name: str = published.SPCA
    by: str = "cardinality"

    def solve(self, A: np.ndarray, level: float, m: int = 1) -> Outcome:
        """Return components of `level` variables each."""
        model = SPCA(m, cardinality=int(level), ridge=np.inf, center=False)
        with quiet():
            seconds = timed(lambda: model.fit(A))[1]
        operator, _ = as_operator(A, center=False, reduce_tall=False)
        first = min(timed(lambda: compute_leading_components(operator, m))[1], seconds)
        phases = dict(zip(PHASES, (first, seconds - first, 0.0), strict=True))
        return _outcome(model, phases)


@dataclass(frozen=True)
class GreedyMethod:
    """Forward selection by the largest eigenvalue (d'Aspremont et al. 2008)."""

    name: str = published.GREEDY
    by: str = "cardinality"

    def solve(self, A: np.ndarray, level: float, m: int = 1) -> Outcome:
        """Return components of `level` variables each."""
        model = Greedy(m, cardinality=int(level), center=False)
        with quiet():
            seconds = timed(lambda: model.fit(A))[1]
        return _outcome(model, {"whole": seconds})


@dataclass(frozen=True)
class LibraryMethod:
    """`GPower` with a γ at the paper's tolerance, with working sets if the matrix is not small."""

    name: str
    penalty: str
    method: str = "deflation"
    by: str = "share"

    def solve(self, A: np.ndarray, level: float, m: int = 1) -> Outcome:
        """Return loadings at the same γ as a `PowerMethod`."""
        gamma = level if self.penalty == "l1" else level**2
        papers = {"deflation": "projection", "tol": PAPER.tol, "center": False}
        model = GPower(m, penalty=self.penalty, gamma=gamma, method=self.method, **papers)
        with quiet():
            seconds = timed(lambda: model.fit(A))[1]
        return _outcome(model, {"whole": seconds})


def _outcome(model: Any, seconds: dict[str, float]) -> Outcome:
    Z = np.asarray(model.components_.T, float)
    return Outcome(Z, Z, seconds, int(np.sum(model.n_iter_)), float(model.n_passes_))


GPOWER_L1 = PowerMethod(published.GPOWER_L1, "l1", filled=True)
GPOWER_L0 = PowerMethod(published.GPOWER_L0, "l0")
BLOCK_L1 = PowerMethod(published.BLOCK_L1, "l1", filled=True, block=True)
BLOCK_L0 = PowerMethod(published.BLOCK_L0, "l0", block=True)
RSVD_L1 = PowerMethod(published.RSVD_L1, "l1", begin="pca")
RSVD_L0 = PowerMethod(published.RSVD_L0, "l0", begin="pca")
REGRESSION, GREEDY = RegressionMethod(), GreedyMethod()

SINGLE: tuple[Method, ...] = (GPOWER_L1, GPOWER_L0, REGRESSION, RSVD_L1, RSVD_L0)
SEVERAL: tuple[Method, ...] = (GPOWER_L1, GPOWER_L0, BLOCK_L1, BLOCK_L0, REGRESSION, RSVD_L1, RSVD_L0)
