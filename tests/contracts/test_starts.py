"""Starts find modules that principal components do not show, for every penalty and container."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.enumeration import compute_scatter, find_best_variance
from tests.memory import measure_peak_memory
from tests.optional_packages import OptionalPackage

from gpower import GPower
from gpower.feasible_sets import Spheres
from gpower.operators import as_operator
from gpower.penalties import elementary
from gpower.penalties.elementary import L0, L1, Cardinality
from gpower.problem.formulation import Problem
from gpower.solvers import column_screening
from gpower.solvers.column_screening import screen_columns, subsample_operator
from gpower.solvers.component import _choose_calibration_start
from gpower.solvers.fit_specification import CalibratedPenalty, FitSpec
from gpower.solvers.local_search import improve_penalized
from gpower.solvers.starts import (
    ColumnStarts,
    StartContext,
    UserStart,
    _find_best_pairs,
    make_block_start,
    make_unit_starts,
    rank_columns,
    select_distinct_points,
)
from gpower.solvers.working_set import AscentSettings, ascend

da = OptionalPackage("dask.array")
zarr = OptionalPackage("zarr")


def hidden(seed, shape, modules, scaled=True):
    """Return noise with modules (size, strength) below the noise edge, and the columns of each module."""
    rng = np.random.default_rng(seed)
    X, order, begin, columns = rng.standard_normal(shape), rng.permutation(shape[1]), 0, []
    for size, strength in modules:
        columns.append(np.sort(order[begin : begin + size]))
        X[:, columns[-1]] += strength * rng.standard_normal((shape[0], 1))
        begin += size
    X -= X.mean(axis=0)
    return (X / X.std(axis=0) if scaled else X), columns


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_module_that_no_principal_component_shows_is_found(seed, scaled):
    X, (module,) = hidden(seed, (300, 3000), [(8, 0.9)], scaled)
    leading = np.linalg.svd(X, full_matrices=False)[2][:40]
    assert np.sum(leading[:, module] ** 2) < 0.5 * module.size  # forty components explain less than half of it
    model = GPower(1, cardinality=8).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), module)


def test_a_module_is_found_on_a_part_of_the_samples_whose_columns_have_the_norms_of_all():
    X, (module,) = hidden(0, (500, 12000), [(8, 0.9)])
    part = subsample_operator(as_operator(X * np.linspace(0.1, 3, 12000))[0])
    norms = np.linspace(0.1, 3, 12000) * np.linalg.norm(X, axis=0)
    assert part.shape[0] < 500
    np.testing.assert_allclose(part.column_norms, norms, rtol=1e-5)
    columns = part.columns(np.arange(0, 12000, 100))
    np.testing.assert_allclose(np.linalg.norm(columns, axis=0), norms[::100], rtol=1e-4)
    np.testing.assert_array_equal(np.flatnonzero(GPower(1, cardinality=8).fit(X).components_[0]), module)


def test_several_hidden_modules_are_found_in_the_order_of_their_variance():
    X, modules = hidden(1, (300, 3000), [(8, 1.1), (8, 0.95), (8, 0.8)])
    model = GPower(3, cardinality=8).fit(X)
    for z, module in zip(model.components_, modules, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(z), module)


@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_a_penalty_finds_a_hidden_module_too(penalty):
    X, (module,) = hidden(2, (300, 3000), [(12, 1.0)])
    gamma = 0.15 if penalty == "l0" else 0.15**0.5
    model = GPower(1, gamma=gamma, penalty=penalty).fit(X)
    assert np.isin(np.flatnonzero(model.components_[0]), module).mean() > 0.9
    assert model.cardinality_[0] >= 8


@pytest.mark.parametrize(
    ("convert", "options"),
    [
        (sp.csr_array, {}),
        (np.float32, {}),
        (lambda X: X.T @ X, {"covariance": "precomputed"}),
        (np.asarray, {"exclude": [0]}),
    ],
    ids=["sparse", "float32", "covariance", "rules"],
)
def test_hidden_modules_in_other_kinds_of_data(convert, options, recwarn):
    X, (module,) = hidden(3, (300, 900 if "covariance" in options else 3000), [(8, 1.0)], scaled=False)
    assert 0 not in module
    model = GPower(1, cardinality=8, **options).fit(convert(X))
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), module)


@pytest.mark.parametrize("kind", ["data", "covariance"])
@pytest.mark.parametrize("scaled", [False, True])
def test_columns_are_scored_by_their_correlations_above_a_threshold(kind, scaled):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 90)) * (1.0 if scaled else rng.uniform(0.1, 3, 90))
    A = A / np.linalg.norm(A, axis=0) if scaled else A
    operator, _ = as_operator(A if kind == "data" else A.T @ A, center=False, covariance=kind == "covariance")
    C = A.T @ A / np.linalg.norm(A, axis=0)
    threshold = float(np.quantile(C**2, 0.9))
    scores = np.sum(np.maximum(C**2 - threshold, 0), axis=0)
    columns = screen_columns(operator, threshold, np.arange(90) != 7, 20)
    ranked = np.argsort(-np.where(np.arange(90) == 7, -1, scores), kind="stable")
    assert len(set(columns)) == 20
    assert 7 not in columns
    np.testing.assert_array_equal(columns[:10], ranked[:10])  # half of them have the highest scores


def test_a_small_module_is_screened_next_to_a_large_one():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((100, 400))
    large, small = np.arange(60), np.arange(60, 66)
    A[:, large] += 1.5 * rng.standard_normal((100, 1))
    A[:, small] += 1.5 * rng.standard_normal((100, 1))
    operator, _ = as_operator(A)
    threshold = 0.1 * float(np.median(operator.column_norms**2))
    columns = screen_columns(operator, threshold, np.ones(400, bool), 20)
    assert np.isin(columns[:10], large).all(), "nothing to see: the large module does not fill the highest scores"
    assert np.isin(small, columns).any()


def test_a_penalty_reaches_the_enumerated_optimum_of_tiny_tables():
    below = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((int(rng.integers(5, 40)), int(rng.integers(3, 8))))
        A += rng.standard_normal((len(A), 1)) * rng.random(A.shape[1]) * (seed % 2)
        S, share = compute_scatter(A), float(rng.choice([0.02, 0.1, 0.2, 0.35, 0.5]))
        gamma = share * np.max(np.diagonal(S))
        best = max(find_best_variance(S, k) - gamma * k for k in range(1, len(S) + 1))
        below.append(GPower(1, gamma=share).fit(A).objective_[0] < 0.999 * best)
    assert np.mean(below) <= 0.02


@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_a_block_is_no_worse_than_many_restarts(penalty):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((40, 2)) @ rng.uniform(0, 1.2, (2, 14)) + rng.standard_normal((40, 14))
        A -= A.mean(axis=0)
        operator, _ = as_operator(A, center=False, reduce_tall=False)
        longest = np.max(operator.column_norms)
        share, kind, largest = (0.2, L0, longest**2) if penalty == "l0" else (0.4, L1, longest)
        problem = Problem(operator, kind(np.full(2, share * largest)), np.ones(2))
        starts = [problem.feasible_set.make_point(A @ rng.standard_normal((14, 2))) for _ in range(30)]
        ends = [ascend(problem, start, AscentSettings()) for start in [make_block_start(problem), *starts]]
        found = GPower(2, gamma=share, penalty=penalty, method="block").fit(A).objective_.sum()
        assert found >= 0.99 * max(end.value for end in ends)


@pytest.mark.parametrize("penalty", [L0(np.array([2.0])), L1(np.array([1.0]))])
@pytest.mark.parametrize("seed", range(10))
def test_a_local_search_never_lowers_the_objective(penalty, seed):
    A = np.random.default_rng(seed).standard_normal((15, 20))
    problem = Problem(as_operator(A, reduce_tall=False)[0], penalty)
    start = make_unit_starts(problem, problem.operator.column_norms, 1, np.random.RandomState(0))
    end = ascend(problem, start, AscentSettings())
    assert improve_penalized(problem, end, AscentSettings()).value >= end.value


def test_a_number_of_starts_takes_none_away():
    for seed in range(10):
        X = np.random.default_rng(seed).standard_normal((60, 40)) + np.random.default_rng(99).standard_normal((60, 1))
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        for options in ({"gamma": 0.35}, {"cardinality": 5}):
            values = [GPower(1, n_init=n_init, **options).fit(X).objective_[0] for n_init in ("auto", 1, 10)]
            assert min(values[1:]) >= values[0] * (1 - 1e-9)


@pytest.mark.parametrize("tables", [range(21), pytest.param(range(21, 200), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("container", ["npy", "zarr", "dask"])
def test_a_table_has_the_same_variables_wherever_it_is_stored(container, tables, tmp_path):
    for seed in tables:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((int(rng.integers(6, 60)), int(rng.integers(4, 60))))
        X[:, : X.shape[1] // 2] += rng.standard_normal((len(X), 1))
        options = [{"cardinality": 3}, {"gamma": 0.1}, {"gamma": 0.3, "penalty": "l1"}][seed % 3]
        model = GPower(min(2, len(X) - 1), **options)
        expected = model.fit(X).components_ != 0
        stored = tmp_path / f"{seed}.{container}"
        if container == "npy":
            np.save(stored, X)
        elif container == "zarr":
            zarr.save_array(str(stored), X)
        else:
            stored = da.from_array(X, chunks=(max(2, len(X) // 3), X.shape[1]))
        np.testing.assert_array_equal(model.fit(stored).components_ != 0, expected, err_msg=f"table {seed}")


@pytest.mark.parametrize(
    "options",
    [{"cardinality": 3}, {"gamma": 0.1}, {"gamma": 0.3, "penalty": "l1"}, {"cardinality": 3, "method": "block"}],
)
def test_a_warm_start_on_the_same_data_never_lowers_the_objective(options):
    name = "explained_variance_" if "cardinality" in options else "objective_"
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 15)) + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 15))
        model = GPower(1 + seed % 3, warm_start=True, **options)
        first, second = (getattr(model.fit(X), name).sum() for _ in range(2))
        assert second >= first * (1 - 1e-9)


def test_a_long_table_has_the_same_threshold_in_little_memory(monkeypatch):
    X = np.random.default_rng(0).standard_normal((10, 40_000)).astype(np.float32)
    operator, _ = as_operator(X)
    problem = Problem(operator, Cardinality(np.array([10])), np.ones(1), Spheres())
    args = (problem, operator.column_norms, np.ones(X.shape[1], bool))
    at_once = 64 * X.shape[1]  # correlations of all columns whose threshold is looked for
    peak = measure_peak_memory(lambda: column_screening._choose_correlation_threshold(*args))
    assert peak < 16 * at_once  # the correlations, gradients and indices of all of them took 28
    batched = column_screening._choose_correlation_threshold(*args)
    monkeypatch.setattr(column_screening, "MAX_THRESHOLD_ENTRIES", at_once)
    assert batched == pytest.approx(column_screening._choose_correlation_threshold(*args), rel=1e-6)


def test_the_largest_rows_of_many_units_need_no_indices_of_all_values(monkeypatch):
    values = np.asfortranarray(np.random.default_rng(0).random((80_000, 32)))
    penalty = Cardinality(np.array([10]))
    peak = measure_peak_memory(lambda: penalty.evaluate(values))
    assert peak < 1.25 * values.nbytes  # the gradient, and little else
    found = penalty.evaluate(values)
    monkeypatch.setattr(elementary, "MAX_JOINTLY_ORDERED", values.size)
    at_once = penalty.evaluate(values)
    np.testing.assert_allclose(found[0], at_once[0], rtol=1e-12)
    np.testing.assert_array_equal(found[1], at_once[1])


def test_columns_are_ranked_by_norm_and_ties_by_what_they_share():
    def rank(A, norms, count):
        operator, _ = as_operator(A, center=False, reduce_tall=False)
        norms = operator.column_norms if norms is None else norms
        return rank_columns(operator, norms, count, np.random.RandomState(0))

    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 8)) + rng.standard_normal((12, 1)) * rng.uniform(0, 2, 8)
    tied = np.array([3.0, 2.0, 2.0, 1.0, 0.8, 0.8, 0.8, 0.5])
    for norms in (tied, np.linspace(1, 2, 8)[::-1] ** 2, np.ones(8)):
        A = A / np.linalg.norm(A, axis=0) * norms
        order = np.lexsort((-np.sum((A.T @ A) ** 2, axis=0), -norms))
        for count in range(1, 9):
            np.testing.assert_array_equal(rank(A, None, count), order[:count])
    alone = np.diag([1.0, 0.0, 0.0, 0.0]) + 0.9 * np.outer([0, 0.6, 0.8, 0], [0, 1, 1, 1])  # the longest shares least
    assert rank(alone, None, 2)[0] == 0
    assert set(rank(A, np.where(np.arange(8) < 3, norms, 0), 5)) == {0, 1, 2}


def test_the_best_pairs_are_those_of_all_pairs():
    A = np.random.default_rng(1).standard_normal((9, 6)) * np.linspace(0.3, 2, 6)
    S = A.T @ A
    pairs = list(combinations(range(6), 2))
    values = np.array([np.linalg.eigvalsh(S[np.ix_(pair, pair)])[-1] for pair in pairs])
    T = _find_best_pairs(S, 7)
    np.testing.assert_allclose(np.sum(T**2, axis=0), 1)
    np.testing.assert_allclose(np.sum(T * (S @ T), axis=0), np.sort(values)[::-1][:7])
    assert [tuple(np.flatnonzero(t)) for t in T.T] == [pairs[j] for j in np.argsort(-values)[:7]]
    assert _find_best_pairs(S, 99).shape == (6, 15)


@pytest.mark.parametrize("count", [3, 6, 10])
def test_there_are_as_many_starts_as_asked_for(count):
    A = np.random.default_rng(2).standard_normal((9, 5))
    operator, _ = as_operator(A, reduce_tall=False)
    problem = Problem(operator, Cardinality(np.array([2])), np.ones(1), Spheres())
    points = make_unit_starts(problem, operator.column_norms, count, np.random.RandomState(0))
    assert points.X.shape == (9, count)
    np.testing.assert_allclose(np.sum(points.X**2, axis=0), 1)


def test_of_starts_with_one_support_the_best_is_kept():
    A = np.random.default_rng(3).standard_normal((9, 6))
    operator, _ = as_operator(A, center=False, reduce_tall=False)
    penalty = Cardinality(np.array([2]))
    problem = Problem(operator, penalty, np.ones(1), Spheres())
    points = problem.as_batch(30).feasible_set.make_point(np.random.default_rng(4).standard_normal((9, 30)))
    values, gradient = penalty.evaluate(points.C)
    best = {}
    for value, support in zip(values, map(bytes, (gradient != 0).T), strict=True):
        best[support] = max(value, best.get(support, 0.0))
    expected = sorted(best.values(), reverse=True)
    for count in (1, 3, len(expected), 30):
        chosen = select_distinct_points(penalty, points, count)
        np.testing.assert_allclose(penalty.evaluate(chosen.C)[0], expected[:count])


@pytest.mark.parametrize("n_sorted", [0, 600])
def test_scores_of_columns_are_sums_over_all_pairs(n_sorted, monkeypatch):
    monkeypatch.setattr(column_screening, "TILE_SHAPE", (4, 7))
    monkeypatch.setattr(column_screening, "MAX_SORTED_ENTRIES", n_sorted)
    A = np.random.default_rng(5).standard_normal((20, 30)) * np.linspace(3, 0.05, 30)
    A = A[:, np.random.default_rng(6).permutation(30)]
    order = np.argsort(-np.sum(A * A, axis=0))
    norms_sq = np.sum(A * A, axis=0)[order]
    squares = (A[:, order].T @ A[:, order] / np.sqrt(norms_sq)) ** 2
    for threshold in (0.01, 1.0, 10.0):
        operator = as_operator(A, center=False, reduce_tall=False)[0]
        found = column_screening._sum_excess_correlations(operator, order, threshold, norms_sq, 12)
        np.testing.assert_allclose(found, np.maximum(squares - threshold, 0).sum(axis=0)[:12], atol=1e-12)


@pytest.mark.parametrize("place", [0, 150, 392])
def test_a_module_anywhere_in_a_standardised_table_is_found_from_the_scores_of_a_quarter(monkeypatch, place):
    monkeypatch.setattr(column_screening, "MAX_CORRELATIONS", 400 * 100)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 400))
    A[:, place : place + 8] += 2 * rng.standard_normal((80, 1))
    operator, _ = as_operator(A / A.std(axis=0))
    first = screen_columns(operator, 20.0, np.ones(400, bool), 10)[0]
    assert place <= first < place + 8


def test_no_variable_added_dropped_or_swapped_improves_the_end_of_a_local_search():
    improved, gamma = 0, 6.0
    for seed in range(12):
        A = np.random.default_rng(seed).standard_normal((12, 9))
        S = A.T @ A
        problem = Problem(as_operator(A, center=False, reduce_tall=False)[0], L0(np.array([gamma])))
        start = problem.feasible_set.make_point(A[:, [seed % 9]])
        end = ascend(problem, start, AscentSettings())
        found = improve_penalized(problem, end, AscentSettings())
        improved += found.value > end.value * (1 + 1e-3)
        support = set(np.flatnonzero(problem.penalty.evaluate(found.point.C)[1][:, 0]).tolist())
        if not support:
            continue
        outside = set(range(9)) - support
        near = [support - {i} for i in support if len(support) > 1] + [support | {j} for j in outside]
        near += [support - {i} | {j} for i in support for j in outside]
        values = [np.linalg.eigvalsh(S[np.ix_(*[sorted(P)] * 2)])[-1] - gamma * len(P) for P in near]
        assert max(values) <= found.value * (1 + 1e-3)
    assert improved >= 3


@pytest.mark.parametrize("shape", [(300, 1500), (150, 3000), (60, 20)])
def test_the_l1_penalty_with_a_cardinality_finds_the_modules_that_the_cardinality_finds(shape):
    """Without a level the penalty cannot tell a module from a long column or the first principal component."""
    ratios = []
    for seed in range(6):
        X, _ = hidden(seed, shape, [(7, 0.9)])
        l0, l1 = (GPower(1, cardinality=7, penalty=penalty, scale=True).fit(X) for penalty in ("l0", "l1"))
        ratios.append(l1.explained_variance_[0] / l0.explained_variance_[0])
    assert min(ratios) > 0.9
    assert np.mean(ratios) > 0.98


def test_the_search_for_gamma_starts_at_the_best_support_or_where_the_user_wants():
    X = np.random.default_rng(2).standard_normal((40, 25))
    operator, moments = as_operator(X)
    spec = FitSpec(sparsity=CalibratedPenalty(penalty_family=L1(np.zeros(1)), levels=(4,)))
    problem = spec.sparsity.make_problem(operator, moments.column_norms, np.ones(1))
    context = StartContext(problem, moments.column_norms, np.random.RandomState(0))
    penalty = Cardinality(np.array([4]))
    found = penalty.evaluate(_choose_calibration_start(context, spec).C)[0]
    exact = replace(problem, penalty=penalty)
    starts = ColumnStarts(25).choose_points(replace(context, problem=exact))
    assert found >= max(ascend(exact, start, spec.settings).value for start in starts) * (1 - 1e-12)
    assert found > max(penalty.evaluate(start.C)[0] for start in starts)
    given = replace(spec, start=UserStart(X[:, :1]))
    start = _choose_calibration_start(context, given)
    np.testing.assert_allclose(start.C, problem.feasible_set.make_point(X[:, :1]).C)
