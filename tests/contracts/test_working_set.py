"""Ascents on a working set are monotone in the whole objective and end first-order optimal for all columns."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpower.feasible_sets import CorrelationStart, Cube, Point, Spheres, Stiefel, find_residual_directions
from gpower.operators import Covariance, DataMatrix, as_operator
from gpower.operators.storage.dense import DenseMatrix
from gpower.penalties.elementary import L0, L1, Cardinality, FixedSupport, L1Ball, NonNegative
from gpower.problem.deflation import DEFLATION_RULES
from gpower.problem.formulation import Problem
from gpower.solvers import working_set
from gpower.solvers.working_set import (
    AscentSettings,
    ConvergedPoint,
    WorkingSetStep,
    ascend,
    select_working_set,
    should_use_working_set,
)

P, N = 20, 100
TIGHT = AscentSettings(use_working_set=True, tol=1e-14, max_iter=5000)


def table(seed=0, duplicates=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((P, N)) * rng.uniform(0.5, 1.5, N)
    X[:, :8] += 1.5 * rng.standard_normal((P, 1))  # a group worth finding
    if duplicates:
        X[:, 30:38], X[:, 38:42] = X[:, :8], X[:, :4]
    return X


def sparse_table(seed=0):
    return np.where(np.random.default_rng(seed + 100).random((P, N)) < 0.3, table(seed), 0)


def wide(kind, seed=0):
    """Return an operator, the matrix that it represents, and the frame of its sample-space representations."""
    if kind == "CSR":
        X = sparse_table(seed)
        return as_operator(sp.csr_array(X))[0], X - X.mean(axis=0), np.eye(P)
    X = table(seed, duplicates=kind == "duplicated columns")
    A = X - X.mean(axis=0)
    if kind == "covariance":
        return Covariance(A.T @ A), A, A
    operator = as_operator(X)[0]
    if kind == "deflated":
        z = np.zeros(N)
        z[[2, 9, 40]] = [0.6, 0.48, 0.64]
        return DEFLATION_RULES["projection"].remove(operator, z), A - np.outer(A @ z, z), np.eye(P)
    return operator, A, np.eye(P)


KINDS = ["dense", "CSR", "covariance", "duplicated columns", "deflated"]
MU = {1: np.ones(1), 3: np.array([1.3, 1.0, 0.8])}


def make_penalty(name, A, m, mu):
    """Return a penalty under which about a tenth of the variables are active."""
    longest = mu * np.sqrt(np.median(np.sort(np.sum(A**2, axis=0))[-30:]))
    spread = np.linspace(1.0, 1.1, m)
    return {
        "l1": L1(0.5 * spread * longest),
        "l0": L0(0.25 * spread * longest**2),
        "cardinality": Cardinality(np.arange(4, 4 + m)),
        "l1 ball": L1Ball(3.0),
        "non-negative l1": NonNegative(L1(0.5 * spread * longest)),
        "non-negative l0": NonNegative(L0(0.25 * spread * longest**2)),
        "non-negative cardinality": NonNegative(Cardinality(np.arange(4, 4 + m))),
        "pattern": FixedSupport(np.arange(A.shape[1])[:, None] % 25 == np.arange(m), power=1),
    }[name]


NAMES = ["l1", "l0", "cardinality", "l1 ball", "non-negative l1", "non-negative l0", "non-negative cardinality"]
CASES = [(name, m) for name in NAMES for m in (1, 3) if not (name == "l1 ball" and m > 1)]
EACH = pytest.mark.parametrize(("name", "m"), CASES)
SOME = pytest.mark.parametrize(("name", "m"), [(name, m) for name in ("l1", "l0", "cardinality") for m in (1, 3)])


def problem_and_start(kind, name, m, seed=0):
    operator, A, frame = wide(kind, seed)
    problem = Problem(operator, make_penalty(name, A, m, MU[m]), MU[m])
    T = np.abs(np.random.default_rng(seed + 50).standard_normal((N, m))) * (np.arange(N) < 12)[:, None]
    return problem, problem.feasible_set.make_point(operator.combine(T)), A, frame


def make_start(problem):
    """Return a start of units along columns that the earlier ones do not explain."""
    X, C = find_residual_directions(problem.operator, problem.mu.size)
    return Point(X, problem.mu * C)


def solve(problem, start, options=TIGHT, least=4, growth=1.5, dense_share=0.4):
    """Return the result, the value after every round, and the sizes of the working sets."""
    values, sizes = [problem.objective.value_and_gradient(start)[0]], []

    def record_size(penalty, C, T):
        W = select_working_set(penalty, C, T)
        sizes.append(W.size)
        assert np.isin(np.flatnonzero(np.any(T != 0, axis=1)), W).all()
        return W

    watching = replace(options, callback=lambda state: values.append(state.value))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(working_set, "MIN_WORKING_SET", least)
        patch.setattr(working_set, "COLUMNS_PER_ACTIVE", growth)
        patch.setattr(working_set, "MAX_WORKING_SET_SHARE", dense_share)
        patch.setattr(working_set, "select_working_set", record_size)
        result = ascend(problem, start, watching)
    return result, np.array([*values, result.value]), sizes


def relative_gap(problem, point, A, frame):
    """Compute Δ/f of the whole problem at a point from the explicit matrix."""
    X = frame @ point.X
    value, T = problem.penalty.value_and_gradient(problem.mu * (A.T @ X))
    return (np.linalg.norm(A @ (problem.mu * T), "nuc") - np.sum(T * (problem.mu * (A.T @ X)))) / value


@EACH
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_rounds_end_at_a_stationary_point_of_the_whole_problem(kind, name, m, seed):
    problem, start, A, frame = problem_and_start(kind, name, m, seed)
    result, values, sizes = solve(problem, start)
    assert result.converged
    assert min(sizes) < 0.4 * N, "the working set was never a part of the matrix"
    assert np.all(np.diff(values) >= -1e-13 * result.value)
    assert np.all(np.diff(result.history) >= 0)
    assert result.value > values[0]
    X = frame @ result.point.X
    np.testing.assert_allclose(X.T @ X, np.eye(m), atol=1e-8)
    assert problem.penalty.value_and_gradient(problem.mu * (A.T @ X))[0] == pytest.approx(result.value, rel=1e-9)
    assert relative_gap(problem, result.point, A, frame) <= 1e-9
    assert result.gap <= 1e-9 * result.value


@EACH
@pytest.mark.parametrize("acceleration", [False, True])
def test_each_round_gains_at_least_the_gap_of_the_whole_problem(name, m, acceleration, monkeypatch):
    """So the gap before the last round, which gains no more than the tolerance, is no larger than that."""
    monkeypatch.setattr(working_set, "MIN_WORKING_SET", 4)
    problem, start, A, frame = problem_and_start("dense", name, m, seed=3)
    points = [start]
    options = AscentSettings(True, 1e-10, acceleration=acceleration, callback=lambda state: points.append(state.point))
    result = ascend(problem, start, options)
    assert result.converged
    points.append(result.point)
    values = [problem.penalty.value_and_gradient(x.C)[0] for x in points]
    for x, value, following in zip(points, values, values[1:], strict=False):
        assert following - value >= value * (relative_gap(problem, x, A, frame) - 1e-9)


@SOME
@pytest.mark.parametrize(
    ("dense_share", "least"), [(0.0, 4), (1.0, 4), (0.9, 40)], ids=["gathered", "whole matrix", "more than samples"]
)
def test_rounds_on_gathered_and_on_all_columns_end_at_a_stationary_point(name, m, dense_share, least):
    """Rounds run on gathered columns, on the whole matrix, or on more columns than samples without a Gram matrix."""
    problem, start, A, frame = problem_and_start("dense", name, m)
    result, values, sizes = solve(problem, start, least=least, dense_share=dense_share)
    assert least == 4 or set(sizes) == {least}
    assert np.all(np.diff(values) >= -1e-13 * result.value)
    assert relative_gap(problem, result.point, A, frame) <= 1e-9


@pytest.mark.parametrize("power", [1, 2])
def test_a_pattern_is_filled_by_rounds_as_by_the_direct_ascent(power):
    operator, A, frame = wide("dense")
    pattern = np.arange(N)[:, None] % 25 == np.arange(3)
    problem = Problem(operator, FixedSupport(pattern, power), MU[3])
    start = make_start(problem)
    by_rounds, values, _ = solve(problem, start)
    direct = ascend(problem, start, AscentSettings(False, 1e-14, 5000, acceleration=False))
    assert np.all(np.diff(values) >= -1e-13 * by_rounds.value)
    assert by_rounds.value == pytest.approx(direct.value, rel=1e-6)
    assert relative_gap(problem, by_rounds.point, A, frame) <= 1e-9


@pytest.mark.parametrize("m", [1, 3])
def test_starts_without_active_variables_or_without_samples_serve(m):
    operator, A, frame = wide("dense")
    problem = Problem(operator, make_penalty("l1", A, m, MU[m]), MU[m])
    inactive = problem.feasible_set.make_point(np.linalg.svd(A)[0][:, -m:])  # the directions of least variance
    assert problem.objective.value_and_gradient(inactive)[0] == 0
    starts = [inactive, CorrelationStart(make_start(problem).C)] if m == 1 else [inactive]
    for start in starts:
        result, _, _ = solve(problem, start)
        assert result.value > 0
        assert relative_gap(problem, result.point, A, frame) <= 1e-9


@SOME
def test_single_precision_stays_single_and_monotone(name, m):
    _, A, frame = wide("dense")
    penalty = make_penalty(name, A, m, MU[m])
    if name != "cardinality":
        penalty = type(penalty)(penalty.gamma.astype(np.float32))
    problem = Problem(as_operator(table().astype(np.float32))[0], penalty, MU[m].astype(np.float32))
    result, values, _ = solve(problem, make_start(problem), AscentSettings(True, 1e-6))
    assert (result.point.X.dtype, result.point.C.dtype) == (np.float32, np.float32)
    assert np.all(np.diff(values) >= -1e-5 * result.value)
    assert relative_gap(problem, result.point, A, frame) <= 1e-3


@pytest.mark.parametrize("m", [1, 3])
def test_rounds_read_the_matrix_less_often_than_the_direct_ascent(m):
    def count_passes(use_working_set):
        operator = as_operator(np.random.default_rng(5).standard_normal((60, 1500)))[0]
        mu = np.linspace(1.1, 1.0, m)
        problem = Problem(operator, L1(0.25 * mu * operator.column_norms.max()), mu)
        start, before = make_start(problem), operator.passes
        assert ascend(problem, start, AscentSettings(use_working_set, 1e-8, acceleration=False)).converged
        return operator.passes - before

    assert count_passes(True) < count_passes(False) / 2


@SOME
def test_a_round_that_would_not_move_is_skipped(name, m):
    problem, start, _, _ = problem_and_start("dense", name, m)
    result, _, sizes = solve(problem, start)
    step = WorkingSetStep(problem, TIGHT)
    assert isinstance(result.point, ConvergedPoint)
    assert result.n_iter == len(sizes) + 1, "the last step is the one that was not made"
    _, gradient = problem.objective.value_and_gradient(result.point)
    before = problem.operator.passes
    assert step(gradient, result.point) is result.point
    assert problem.operator.passes == before
    active = np.flatnonzero(gradient.any(axis=1))
    at = (result.point.X, result.point.C)
    unsettled = ConvergedPoint(*at, active[1:], problem)  # something is active outside these columns
    of_another = ConvergedPoint(*at, np.arange(N), Problem(problem.operator, problem.penalty, problem.mu))
    for point in (unsettled, of_another):
        before = problem.operator.passes
        _, gradient = problem.objective.value_and_gradient(point)
        assert step(gradient, point) is not point
        assert problem.operator.passes > before


def test_the_optimum_of_one_level_is_only_a_start_for_another():
    operator, A, frame = wide("dense")
    longest = operator.column_norms.max(keepdims=True)
    first, second = (Problem(operator, L1(level * longest)) for level in (0.6, 0.5))
    end = ascend(first, first.feasible_set.make_point(operator.columns(np.array([2]))), TIGHT)
    assert isinstance(end.point, ConvergedPoint)
    result = ascend(second, end.point, TIGHT)
    assert relative_gap(second, end.point, A, frame) > 1e-3, "nothing to see: the levels have the same end"
    assert relative_gap(second, result.point, A, frame) <= 1e-9


@pytest.mark.parametrize("rise", [1.1, np.inf])
def test_an_inner_ascent_that_has_moved_far_is_cut_short(rise, monkeypatch):
    operator = as_operator(np.random.default_rng(5).standard_normal((60, 1500)))[0]
    problem = Problem(operator, L1(0.2 * operator.column_norms.max(keepdims=True)))
    ends, inner = [], WorkingSetStep._ascend_inner
    monkeypatch.setattr(working_set, "MAX_INNER_RISE_FACTOR", rise)
    monkeypatch.setattr(WorkingSetStep, "_ascend_inner", lambda *args: ends.append(inner(*args)) or ends[-1])
    result = ascend(problem, make_start(problem), AscentSettings(True, 1e-6))
    assert result.converged
    assert ends[-1].converged
    assert ends[0].value > 1.1 * ends[0].history[0]
    steps = working_set.MIN_INNER_STEPS
    assert ends[0].n_iter == steps if rise < np.inf else ends[0].n_iter > steps


def test_a_callback_stops_the_rounds():
    problem, start, _, _ = problem_and_start("dense", "l0", 1)
    result = ascend(problem, start, AscentSettings(True, 0.0, callback=lambda state: True))
    assert (result.n_iter, len(result.history), result.converged) == (1, 2, False)


# --- which columns, and when ----------------------------------------------------------------------------------------


@given(C=arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-3, 3)))
def test_the_working_set_contains_every_active_column_and_then_the_highest_ratios(C):
    n, m = C.shape
    penalty = L1(np.linspace(0.8, 1.2, m))
    T = penalty.evaluate(C)[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(working_set, "MIN_WORKING_SET", 3)
        W = select_working_set(penalty, C, T)
    active = np.flatnonzero(np.any(T != 0, axis=1))
    assert np.isin(active, W).all()
    assert W.size == min(n, max(3, int(1.5 * active.size)))
    assert np.all(np.diff(W) > 0)
    outside, relevance = np.setdiff1d(np.arange(n), W), penalty.activity_ratio(C).max(axis=1)
    if outside.size:
        assert relevance[outside].max() <= relevance[W].min()


@pytest.mark.parametrize("m", [1, 2])
def test_of_tied_columns_the_working_set_takes_the_active_ones(m):
    C = np.ones((100, m))
    penalty = Cardinality(np.full(m, 30))
    T = penalty.evaluate(C)[1]
    W = select_working_set(penalty, C, T)
    assert W.size == 45
    assert np.isin(np.flatnonzero(T[:, 0]), W).all()


@pytest.mark.parametrize(
    ("n_features", "asked", "options", "expected"),
    [
        (500, None, {}, False),
        (501, None, {}, True),
        (501, None, {"sample_set": Stiefel()}, True),
        (501, None, {"sample_set": Spheres()}, True),
        *((n, asked, {}, asked) for n in (5, 501) for asked in (True, False)),  # as the user chooses
        *((501, asked, {"sample_set": Cube()}, False) for asked in (None, True, False)),  # there is no working set
        *((501, asked, {"regularization": 0.5}, False) for asked in (None, True, False)),
    ],
)
def test_large_matrices_are_ascended_by_rounds_if_the_problem_has_a_working_set(n_features, asked, options, expected):
    problem = Problem(DataMatrix(DenseMatrix(np.zeros((500, n_features)))), L1(np.ones(1)), **options)
    assert should_use_working_set(problem, AscentSettings(asked)) == expected


@pytest.mark.parametrize("options", [{"sample_set": Cube()}, {"regularization": 0.5}], ids=["cube", "regularised"])
def test_a_problem_ascended_directly_is_solved(options):
    operator, A, _ = wide("dense")
    problem = Problem(operator, L1(np.full(1, 0.4)), **options)
    result = ascend(problem, problem.feasible_set.make_point(A[:, :1]), AscentSettings(True, 1e-13))
    value, gradient = problem.objective.value_and_gradient(result.point)
    gap = problem.feasible_set.support_value(gradient) - problem.feasible_set.pairing(gradient, result.point)
    assert result.converged
    assert value == pytest.approx(result.value)
    assert gap <= 1e-6 * value
