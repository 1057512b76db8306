"""The local search tests every swap of a support with one eigendecomposition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpower.feasible_sets import Stiefel
from gpower.operators import as_operator
from gpower.penalties.elementary import Cardinality
from gpower.problem.formulation import Problem
from gpower.solvers import local_search
from gpower.solvers.local_search import lower_bound_variance, swap_search, swap_test
from gpower.solvers.starts import make_unit_starts
from gpower.solvers.working_set import AscentSettings, ascend


def largest_eigenvalue(S, idx):
    return np.linalg.eigvalsh(S[np.ix_(idx, idx)])[-1]


def swap_variable(support, i, j):
    return np.append(np.delete(support, i), j)


@given(
    A=hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(3, 8)), elements=st.integers(-4, 4).map(float)),
    data=st.data(),
)
def test_the_swap_test_is_negative_exactly_where_a_swap_helps(A, data):
    S = A.T @ A
    n = len(S)
    k = data.draw(st.integers(1, n - 1))
    support = np.array(data.draw(st.permutations(range(n)))[:k])
    outside = np.setdiff1d(np.arange(n), support)
    value, _, slack = swap_test(S, support, outside)
    assert value == pytest.approx(largest_eigenvalue(S, support), abs=1e-12)
    for i in range(k):
        for column, j in enumerate(outside):
            gain = largest_eigenvalue(S, swap_variable(support, i, j)) - value
            if abs(gain) > 1e-6 * max(value, 1):
                assert (gain > 0) == (slack[i, column] < 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 3, 8])
def test_no_swap_improves_a_locally_optimal_support(seed, k):
    A = np.random.default_rng(seed).standard_normal((15, 20))
    S = A.T @ A
    start = np.arange(k)
    improved = swap_search(S, start)
    assert improved.size == np.unique(improved).size == k
    assert largest_eigenvalue(S, improved) >= largest_eigenvalue(S, start)
    for i in range(k):
        for j in np.setdiff1d(np.arange(20), improved):
            assert largest_eigenvalue(S, swap_variable(improved, i, j)) <= largest_eigenvalue(S, improved) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_lower_bound_of_a_swap_never_exceeds_its_variance(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((30, 60)) + 0.5 * rng.standard_normal((30, 1))
    S, support = A.T @ A, rng.permutation(60)[:20]
    value, u, _ = swap_test(S, support, np.setdiff1d(np.arange(60), support))
    assert value == pytest.approx(u @ S[np.ix_(support, support)] @ u)
    assert lower_bound_variance(S, support, u) == pytest.approx(value)
    for i, j in zip(range(20), np.setdiff1d(np.arange(60), support), strict=False):
        new = support.copy()
        new[i] = j
        exact = largest_eigenvalue(S, new)
        assert 0.9 * exact < lower_bound_variance(S, new, u) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_negative_definite_matrix_has_no_swaps(seed):
    A = np.random.default_rng(seed).standard_normal((9, 6))
    start = np.array([0, 1])
    np.testing.assert_array_equal(swap_search(-A.T @ A, start), start)


def test_a_support_without_variance_has_a_zero_bound_and_is_improved():
    S = np.diag([0.0, 0.0, 2.0])
    assert lower_bound_variance(S, np.array([0, 1]), np.array([1.0, 0.0])) == 0
    assert swap_search(S, np.array([0, 1])).tolist()[1] == 2


def test_a_support_of_all_variables_has_no_swaps():
    S = np.diag([3.0, 2.0, 1.0])
    assert swap_search(S, np.array([2, 0, 1])).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(6))
def test_searches_that_meet_at_a_support_continue_once_and_miss_nothing(seed, monkeypatch):
    A = np.random.default_rng(seed).standard_normal((30, 12)) + np.random.default_rng(seed).standard_normal((30, 1))
    operator = as_operator(A, center=False)[0]
    norms = operator.column_norms
    problem = Problem(operator, Cardinality(np.array([4])), np.ones(1), Stiefel())
    starts = make_unit_starts(problem, norms, 12, np.random.RandomState(0))
    results = [ascend(problem, starts.select_unit(j), AscentSettings()) for j in range(12)]
    alone = [local_search.refit_and_swap(problem, [result], AscentSettings(), True) for result in results]

    searched = []
    original = local_search._swap_support_variables
    monkeypatch.setattr(
        local_search,
        "_swap_support_variables",
        lambda problem, point, z: searched.append(tuple(np.flatnonzero(z))) or original(problem, point, z),
    )
    together = local_search.refit_and_swap(problem, results, AscentSettings(), True)
    assert together.value == pytest.approx(max(end.value for end in alone))
    assert len(searched) == len(set(searched)) < len(results)
