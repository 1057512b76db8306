"""Runs of the authors' own MATLAB program, replayed: same start, same thresholds, same iterates.

The program records f before each update, makes one update more when it stops, and reads the pattern off that
last point. Its block branch was repaired in one line before these runs were made (docs/mathematics.md, errata).
"""

import json
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from gpower import GPower, Solver, maximize
from gpower._utils.polar_factor_and_signs import orient
from gpower.operators import as_operator
from gpower.penalties.elementary import L0, L1
from gpower.problem.deflation import DEFLATION_RULES
from gpower.problem.formulation import Problem
from gpower.solvers.refit import RefitSpec, refit_loadings

RUNS = np.load(Path(__file__).with_name("authors_gpower.npz"))
CASES = json.loads(str(RUNS["cases"]))


def each(case, name):
    """Return an array of one case."""
    return RUNS[f"{case['key']}/{name}"]


def ascents(case):
    """Yield (problem, start, steps, columns) for each ascent of the program."""
    A = RUNS[f"A/{case['data']}"]
    operator, _ = as_operator(A, center=False, reduce_tall=False)
    gamma, start, steps, Z = each(case, "gamma_abs"), each(case, "x0"), each(case, "iters"), each(case, "Z")
    penalty = {"l1": L1, "l0": L0}[case["penalty"]]
    if case["block"]:
        mu = np.broadcast_to(np.asarray(case["mu"], float), (case["m"],))
        yield Problem(operator, penalty(gamma), mu), start, int(steps[0]), slice(None)
        return
    for j in range(case["m"]):
        columns = slice(j, j + 1)
        yield Problem(operator, penalty(gamma[columns])), start[:, columns], int(steps[j]), columns
        if case["penalty"] == "l1":
            operator = DEFLATION_RULES["projection"].remove(operator, Z[:, j])
        else:
            operator = program_deflation(case, operator, j)


def program_deflation(case, operator, j):
    """For ℓ0 the program removes x(xᵀAz)zᵀ with its last x, the paper's (Az)zᵀ only in the limit."""
    A, x, z = operator.X.A, each(case, "x")[:, j], each(case, "Z")[:, j]
    return as_operator(A - np.outer(x, (x @ A @ z) * z), center=False, reduce_tall=False)[0]


def replay(problem, start, steps):
    feasible_set = problem.feasible_set
    return maximize(problem.objective, feasible_set, feasible_set.make_point(start), tol=0.0, max_iter=steps)


@pytest.mark.parametrize("case", CASES, ids=itemgetter("key"))
def test_objective_traces_agree(case):
    if f"{case['key']}/f" not in RUNS:
        pytest.skip("the program's trace of this run was not recorded")
    traces = each(case, "f")
    for problem, start, steps, _ in ascents(case):
        trace, traces = traces[:steps], traces[steps:]
        ours = replay(problem, start, steps).history
        ours = np.append(ours, np.full(max(steps - ours.size, 0), ours[-1]))[:steps]  # converged to rounding
        np.testing.assert_allclose(ours, trace, rtol=1e-9)
    assert traces.size == 0


@pytest.mark.parametrize("case", CASES, ids=itemgetter("key"))
def test_loadings_agree(case):
    for problem, start, steps, columns in ascents(case):
        point = replay(problem, start, steps).point
        read_off = problem.compute_loadings(point)
        if case["penalty"] == "l1":
            np.testing.assert_allclose(read_off, each(case, "Zraw")[:, columns], atol=1e-6)
            filled = refit_loadings(problem, point, RefitSpec((1,)))
        else:
            filled = read_off
        expected = each(case, "Z")[:, columns]
        np.testing.assert_array_equal(filled != 0, expected != 0)
        if case["variant"] != "asis":  # converged
            np.testing.assert_allclose(orient(filled), orient(expected), atol=1e-6)


@pytest.mark.parametrize("case", [c for c in CASES if c["variant"] != "asis"], ids=itemgetter("key"))
def test_the_estimator_run_literally_gives_the_same_loadings(case):
    refit = "norms" if case["penalty"] == "l1" else None
    model = GPower(
        case["m"],
        penalty=case["penalty"],
        gamma=case["rho"] if len(case["rho"]) > 1 else case["rho"][0],
        method="block" if case["block"] else "deflation",
        mu=np.broadcast_to(case["mu"], (case["m"],)) if case["block"] else None,
        center=False,
        deflation="projection",
        solver=Solver(algorithm="full", init=each(case, "x0"), refit=refit, acceleration=False),
        n_init=1,
        tol=1e-15,
        max_iter=5000,
    ).fit(RUNS[f"A/{case['data']}"])
    np.testing.assert_allclose(model.components_, orient(each(case, "Z")).T, atol=1e-6)
    np.testing.assert_allclose(model.gamma_, each(case, "gamma_abs"), rtol=1e-6)
