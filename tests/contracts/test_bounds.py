"""Every upper bound holds: brute force over all supports of small matrices, including degenerate ones."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.enumeration import compute_variance

from gpower.certificates.api import certify_components, penalized_bound
from gpower.certificates.bounds import (
    bound_with_floor,
    bound_with_penalty,
    gershgorin_profile,
    largest_eigenvalue,
    largest_sparse_eigenvalue,
    perron_bound,
    semidefinite_shift,
    soft_threshold_bound,
    trace_profile,
)
from gpower.certificates.branch_and_bound import Node, SupportSearch
from gpower.certificates.cascade import BoundState, add_cheap_bounds, compute_sample_space
from gpower.certificates.certificate import Clock
from gpower.certificates.row_bound import (
    DualRows,
    RowDual,
    RowProblem,
    initialize_rows,
    minimize_row_bound,
    screen_variables,
)
from gpower.certificates.subset_search import search_subset
from gpower.certificates.wide_data_bounds import (
    RHO_GRID_SHARES,
    CandidateCovariance,
    covering_eigenvalue,
    full_soft_threshold_bound,
    sample_space_bound,
    select_candidates,
)
from gpower.operators import as_operator

ROUNDING = 1e-12


def brute_force(S, k):
    """Return the largest value over all supports of k variables, and all supports with their values."""
    supports = list(combinations(range(len(S)), k))
    values = np.array([compute_variance(S, support) for support in supports])
    return values.max(), supports, values


def example(seed, shape=(9, 6)):
    """Return a matrix of noise and its Gram matrix."""
    A = np.random.default_rng(seed).standard_normal(shape)
    return A, A.T @ A


def make_operators(A):
    """Yield the operators of a matrix and of its Gram matrix."""
    yield as_operator(A, center=False, reduce_tall=False)[0]
    yield as_operator(A.T @ A, covariance=True)[0]


def minimize(problem, smoothings=(0.01,), steps=15, seconds=60):
    """Minimise the row bound of a problem."""
    rows = initialize_rows(problem)
    return minimize_row_bound(problem, rows, target=0, clock=Clock(seconds), smoothings=smoothings, steps=steps)


def run_from_root(search, bound, clock=None):
    """Run a search from a root with some bound."""
    n = len(search.S)
    search.push(Node(bound / search.scale, np.arange(n), np.zeros(n, bool), np.ones(n)))
    search.run(Clock(60) if clock is None else clock)
    return search


@st.composite
def data(draw, most=12):
    """Columns with duplicates, near-duplicates, zeros, of full or low rank, as covariance or correlation."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p, n = draw(st.integers(1, 14)), draw(st.integers(2, most))
    kind = draw(st.sampled_from(["noise", "integers", "factor", "spread"]))
    A = rng.integers(-2, 3, (p, n)).astype(float) if kind == "integers" else rng.standard_normal((p, n))
    if kind == "factor":
        A += 3 * rng.standard_normal((p, 1)) * (rng.random(n) < 0.5)
    if kind == "spread":
        A *= np.exp(2 * rng.standard_normal(n))
    for _ in range(draw(st.integers(0, 3))):  # duplicated, opposite and nearly equal columns
        i, j = rng.integers(n, size=2)
        A[:, i] = A[:, j] * rng.choice([-1, 1]) + rng.choice([0, 1e-7]) * rng.standard_normal(p)
    A[:, rng.random(n) < draw(st.sampled_from([0, 0, 0.3]))] = 0
    if draw(st.booleans()):
        norms = np.linalg.norm(A, axis=0)
        A = A / np.where(norms > 0, norms, 1)
    A[0, 0] += not A.any()
    return A


@st.composite
def problems(draw, most=12):
    """Draw (A, k) with at least one non-zero column."""
    A = draw(data(most))
    return A, draw(st.integers(1, A.shape[1]))


def row_bound(problem, rows):
    """Compute the row bound at some rows without minimising it."""
    return problem.compute_bound(np.linalg.eigvalsh(problem.build_matrix(rows)), rows.prices)


def search_of(kind, S, k, tol, start, shift=0.0, **options):
    """Return a search over all variables that enumerates single supports only."""
    view = CandidateCovariance(np.arange(len(S)), S + shift * np.eye(len(S)), 0.0, shift, np.inf)
    scale, start = compute_variance(view.S, start), np.array(start)
    return kind(candidates=view, k=k, incumbent=start, scale=scale, tol=tol, max_leaf_supports=1, **options)


def component(S, support):
    z = np.zeros(len(S))
    z[list(support)] = np.linalg.eigh(S[np.ix_(support, support)])[1][:, -1]
    return z


@given(problem=problems(), seed=st.integers(0, 1000))
def test_every_bound_is_at_least_the_best_support(problem, seed):
    A, k = problem
    S = A.T @ A
    n = len(S)
    best, supports, _ = brute_force(S, k)
    rng = np.random.default_rng(seed)
    least = best * (1 - ROUNDING)
    assert trace_profile(np.diagonal(S), k)[-1] >= least
    assert gershgorin_profile(S, k)[-1] >= least
    assert soft_threshold_bound(S, k) >= least
    operator = as_operator(A, center=False, reduce_tall=False)[0]
    assert full_soft_threshold_bound(operator, k, trace_profile(np.diagonal(S), k)[-1], Clock(60)) >= least
    x = A @ component(S, supports[rng.integers(len(supports))])
    if np.linalg.norm(x) > 1e-6:
        assert sample_space_bound(A, x / np.linalg.norm(x), k) >= least
    problem = RowProblem(S / best, k, np.zeros(n, bool))
    start = DualRows(rng.standard_normal((n, n)), np.full(n, rng.exponential(1 / k)))
    assert row_bound(problem, start) >= 1 - ROUNDING
    found = minimize(problem)
    assert found.bound >= 1 - ROUNDING
    assert found.bound == pytest.approx(row_bound(problem, found.rows), rel=1e-9)


@given(A=data(), seed=st.integers(0, 1000), share=st.floats(0.01, 0.99))
def test_the_penalized_objective_is_bounded(A, seed, share):
    S = A.T @ A
    n = len(S)
    gamma = share * np.diagonal(S).max()
    profile = [0.0, *(brute_force(S, k)[0] for k in range(1, n + 1))]
    best = max(value - gamma * k for k, value in enumerate(profile))
    least = best - ROUNDING * profile[-1]
    assert bound_with_penalty(np.array(profile), gamma) == best
    assert bound_with_penalty(np.minimum(trace_profile(np.diagonal(S), n), gershgorin_profile(S, n)), gamma) >= least
    x = np.random.default_rng(seed).standard_normal(len(A))
    assert covering_eigenvalue(A, x / np.linalg.norm(x), gamma) >= least
    z = component(S, (int(np.argmax(np.diagonal(S))),))
    for operator in make_operators(A):
        assert penalized_bound(BoundState.from_loadings(operator, z, 1, 0.0), gamma, Clock(60)) >= least


@given(problem=problems(), left_out=st.integers(1, 11), tol=st.sampled_from([1e-6, 0.1]))
def test_bounds_hold_when_variables_of_small_variance_are_left_out(problem, left_out, tol):
    A, k = problem
    S = A.T @ A
    best = brute_force(S, k)[0]
    most = max(1, len(S) - left_out)
    for operator in make_operators(A):
        view = select_candidates(operator, np.array([0]), most)
        size = min(k, view.variables.size)
        for profile in (trace_profile(np.diagonal(view.S), size), gershgorin_profile(view.S, size)):
            assert bound_with_floor(profile, k, view.floor) >= best * (1 - ROUNDING)
        assert soft_threshold_bound(view.S, k, view.floor) >= best * (1 - ROUNDING)
        x = A[:, view.variables] @ component(view.S, range(size))
        if np.linalg.norm(x) > 1e-6:
            x /= np.linalg.norm(x)
            assert sample_space_bound(A[:, view.variables], x, k, view.floor) >= best * (1 - ROUNDING)
        start = np.searchsorted(view.variables, view.variables[:size])
        scale = compute_variance(view.S, start)
        if scale <= 0:
            continue
        search = SupportSearch(candidates=view, k=k, incumbent=start, scale=scale, tol=tol)
        search.start(trace_profile(np.diagonal(S), k)[-1] * (1 + 1e-9), Clock(60))
        assert search.variance_bound >= best * (1 - ROUNDING)
        inside = set(view.variables.tolist())
        outside = [v for v in combinations(range(len(S)), k) if not inside.issuperset(v)]
        worst = max((compute_variance(S, support) for support in outside), default=0.0)
        assert search.omitted_bound * scale >= worst - ROUNDING * best


def test_candidates_of_a_wide_table_need_no_matrix_of_all_variables(monkeypatch):
    operator, _ = as_operator(np.random.default_rng(0).standard_normal((20, 50)))
    read = []
    for name in ("columns", "gram"):
        plain = getattr(type(operator), name)
        monkeypatch.setattr(
            type(operator), name, lambda self, idx, plain=plain: read.append(len(idx)) or plain(self, idx)
        )
    view = select_candidates(operator, np.array([3]), 5)
    assert 3 in view.variables
    assert max(read) == view.variables.size <= 5


@given(problem=problems(), seed=st.integers(0, 1000), slack=st.sampled_from([0.0, 1e-6, 0.01, -0.05, -0.2]))
def test_screening_never_contradicts_a_better_support(problem, seed, slack):
    A, k = problem
    S = A.T @ A
    n = len(S)
    best, supports, values = brute_force(S, k)
    level = 1 + slack
    better = [set(s) for s, value in zip(supports, values / best, strict=True) if value > level]
    rng = np.random.default_rng(seed)
    fixed = np.zeros(n, bool)
    if better and k > 1 and seed % 2:  # a node: one variable of a better support is fixed
        fixed[rng.choice(sorted(better[0]))] = True
    better = [support for support in better if support.issuperset(np.flatnonzero(fixed))]
    node = RowProblem(S / best, k, fixed)
    found = minimize(node, (0.03, 0.003), 20)
    assert found.bound >= max((compute_variance(S, sorted(s)) / best for s in better), default=0) - ROUNDING
    keep, must = screen_variables(node, found.rows, level)
    for support in better:
        assert support.issubset(np.flatnonzero(keep))
        assert support.issuperset(np.flatnonzero(must))
    paid, b = found.rows.prices[fixed].sum(), found.rows.prices[~fixed].max(initial=0)
    largest = np.linalg.eigvalsh(node.build_matrix(found.rows))[-1] + paid + node.n_open_slots * b
    for i in np.flatnonzero(~fixed):  # the definitions, one eigenproblem each
        uncharged = replace(found.rows, R=np.where(np.arange(n)[:, None] == i, 0.0, found.rows.R))
        value_with = np.linalg.eigvalsh(node.build_matrix(uncharged))[-1] + paid + (node.n_open_slots - 1) * b
        rest = np.delete(np.arange(n), i)
        M = node.build_matrix(found.rows)[np.ix_(rest, rest)]
        value_without = np.max(np.linalg.eigvalsh(M), initial=-np.inf) + paid + node.n_open_slots * b
        assert keep[i] or value_with <= level
        assert not must[i] or value_without <= level
        if node.n_open_slots > 0:  # what is clearly out or in is found
            assert not keep[i] or max(value_with, largest - b) > level - 1e-4
            assert must[i] or value_without > level - 1e-4 or largest <= level + 1e-4


@given(problem=problems(), seed=st.integers(0, 1000), tol=st.sampled_from([1e-6, 0.02, 0.2]))
def test_the_search_ends_at_the_best_support(problem, seed, tol):
    A, k = problem
    S = A.T @ A
    best = brute_force(S, k)[0]
    start = np.sort(np.random.default_rng(seed).permutation(len(S))[:k])
    if compute_variance(S, start) <= 0:
        start = np.sort(np.argsort(-np.diagonal(S))[:k])
    search = run_from_root(search_of(SupportSearch, S, k, tol, start), np.inf)
    assert not search.open_nodes
    assert search.incumbent_variance >= best / (1 + 1.001 * tol)
    assert best * (1 - ROUNDING) <= search.variance_bound <= search.incumbent_variance * (1 + 1.001 * tol)


@dataclass(eq=False, kw_only=True)
class Stubborn(SupportSearch):
    """A search that finds no support as good as the cap, so that its bound cannot rest on a good incumbent."""

    cap: float = 0.0

    def update_incumbent(self, units):
        value = self.compute_value(units)
        if self.incumbent_value < value < self.cap:
            self.incumbent, self.incumbent_value = units, value


@pytest.mark.parametrize("seed", range(30))
def test_a_search_that_ends_within_its_tolerance_has_a_valid_bound(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 10))
    k = int(rng.integers(2, n))
    A = rng.standard_normal((8, n)) + 3 * rng.standard_normal((8, 1)) * (rng.random(n) < 0.5)
    S = A.T @ A
    best, supports, values = brute_force(S, k)
    for tol in (0.02, 0.1):
        near = np.flatnonzero(values >= best / (1 + tol))  # starts anywhere, and within the tolerance
        for start in (supports[seed % len(supports)], supports[near[seed % near.size]]):
            search = search_of(Stubborn, S, k, tol, start, cap=best / compute_variance(S, start) * (1 - 1e-9))
            assert run_from_root(search, np.inf).variance_bound >= best * (1 - ROUNDING)


def few_candidates(A, z, k, most, tol):
    """Return the upper bounds of a certificate and of a search that leave out all but a few variables."""
    few = select_candidates.__defaults__
    select_candidates.__defaults__ = (most,)
    try:
        for operator in make_operators(A):
            yield certify_components(operator, z[:, None], cardinality=k, tol=tol)[0].upper_bound
            yield search_subset(operator, k, tol, max_time=60.0).certificate.upper_bound
    finally:
        select_candidates.__defaults__ = few


@given(problem=problems(9), most=st.integers(1, 6), seed=st.integers(0, 1000), tol=st.sampled_from([1e-6, 0.1]))
def test_certificates_of_a_few_candidates_hold_for_all_variables(problem, most, seed, tol):
    A, k = problem
    S = A.T @ A
    z = component(S, np.random.default_rng(seed).permutation(len(S))[:k])
    for upper in few_candidates(A, z, k, most, tol):
        assert upper >= brute_force(S, k)[0] * (1 - ROUNDING)


@pytest.mark.parametrize(
    ("A", "support", "k", "most"),
    [
        (np.hstack([1.1 * np.eye(7)[:, :4], np.tile(np.eye(7)[:, 4:5], (1, 5))]), [0], 4, 4),  # duplicates left out
        (np.array([[2.0, 1, 0, -1, -1, -2, -2]]), [0, 3, 4, 5, 6], 6, 1),  # fewer candidates than variables wanted
    ],
)
def test_a_better_support_among_the_variables_left_out_is_not_overlooked(A, support, k, most):
    S = A.T @ A
    best = brute_force(S, k)[0]
    for upper in few_candidates(A, component(S, support), k, most, 1e-6):
        assert upper >= best * (1 - ROUNDING)


def test_stopped_searches_and_minimisations_are_still_bounds():
    _, S = example(0, (8, 11))
    best = brute_force(S, 4)[0]
    for nodes in range(1, 12):
        search = search_of(SupportSearch, S, 4, 1e-6, np.arange(4))
        run_from_root(search, largest_eigenvalue(S), Clock(60, lambda s=search, most=nodes: s.n_nodes >= most))
        assert search.variance_bound >= best * (1 - ROUNDING)
    assert minimize(RowProblem(S / best, 4, np.zeros(11, bool)), steps=9, seconds=0).bound >= 1 - ROUNDING


def test_rows_are_as_strong_as_the_relaxations_that_they_contain():
    rng = np.random.default_rng(1)
    for k in (1, 3, 6):
        A = rng.standard_normal((7, 9))
        S, n = A.T @ A / 9, 9
        t, b = rng.exponential(0.3, n), rng.exponential(0.5)
        W = t[:, None] * rng.uniform(-1, 1, (n, n))
        rows = row_bound(RowProblem(S, k, np.zeros(n, bool)), DualRows(W, np.full(n, b)))
        l1 = np.linalg.eigvalsh(S + W + W.T + np.diag(k * t**2 / b))[-1] + k * b
        cone = np.linalg.eigvalsh(S + W + W.T + np.diag(np.sum(W**2, axis=1) / b))[-1] + k * b
        assert rows <= l1 + 1e-9
        assert rows <= cone + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_sparse_eigenvalues_are_bounded_block_by_block(seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((60, 60)) * (rng.random((60, 60)) < 0.03)
    M = M + M.T
    largest = np.linalg.eigvalsh(M)[-1]
    assert largest <= largest_sparse_eigenvalue(sp.csr_array(M)) <= largest + 1e-9
    assert np.linalg.eigvalsh(np.abs(M))[-1] <= perron_bound(sp.csr_array(M)) + 1e-12


@pytest.mark.parametrize("share", [0.0, 1e-12, 1e-8, 1.9e-4])
def test_the_shift_of_a_covariance_is_the_least_that_the_eigenvalues_prove(share):
    S, eps = np.diag([1.0, 1.0, -3 * share]), np.finfo(float).eps
    w = np.diagonal(S)[::-1]
    assert semidefinite_shift(S, w) == pytest.approx(3 * share + 8 * 3 * eps, rel=1e-9)
    A = np.random.default_rng(2).standard_normal((3, 8))
    assert semidefinite_shift(A.T @ A, np.linalg.eigvalsh(A.T @ A)) <= 1e-11 * np.sum(A * A)


def test_an_indefinite_matrix_has_no_shift_unless_it_is_noise():
    for indefinite in (np.diag([1.0, -0.1]), np.array([[1.0, 3.0], [3.0, 1.0]]), np.diag([1.0, -2 * 2.1e-4])):
        w = np.linalg.eigvalsh(indefinite)
        with pytest.raises(ValueError, match="of 2 variables is not positive semidefinite, so it is not a covariance"):
            semidefinite_shift(indefinite, w)
        assert semidefinite_shift(indefinite, w, entry_noise=1.0) == pytest.approx(-w[0])


def slope_of(function, x, step=1e-5):
    """Return the derivatives of a scalar function by central differences."""
    return np.array([(function(x + d) - function(x - d)) / (2 * step) for d in step * np.eye(x.size)])


@pytest.mark.parametrize(("least", "fixed", "m"), [(0.0, [], 1), (0.15, [], 1), (0.0, [1, 4], 1), (0.0, [], 2)])
def test_the_gradient_of_the_row_bound_is_its_slope(least, fixed, m):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((9, 6))
    total = 5 if m > 1 else None
    problem = RowProblem(A.T @ A / 9, 3, np.isin(np.arange(6), fixed), least, n_components=m, total_cardinality=total)
    dual = RowDual(problem, initialize_rows(problem))
    point = dual.pack(initialize_rows(problem)) + 0.1 * rng.standard_normal(37 + len(fixed))
    value, gradient = dual.evaluate(point, 0.1)
    assert value >= problem.compute_support_cost(dual.unpack(point).prices)
    np.testing.assert_allclose(gradient, slope_of(lambda x: dual.evaluate(x, 0.1)[0], point), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("least", "fixed"), [(0.0, []), (0.2, []), (0.0, [1, 4])])
def test_a_point_of_the_dual_is_the_same_after_it_was_packed(least, fixed):
    rng = np.random.default_rng(4)
    problem = RowProblem(np.eye(6), 3, np.isin(np.arange(6), fixed), least)
    rows = DualRows(rng.standard_normal((6, 6)), np.where(problem.fixed, rng.exponential(size=6), 0.27))
    dual = RowDual(problem, rows)
    again = dual.unpack(dual.pack(rows))
    np.testing.assert_allclose(again.R, rows.R)
    np.testing.assert_allclose(again.prices, rows.prices)


@pytest.mark.parametrize("support", [[], [7], [2, 5, 7], [0, 2, 5, 7, 9, 11]])
@pytest.mark.parametrize("as_covariance", [False, True])
def test_candidates_are_the_support_and_the_variables_of_largest_variance(support, as_covariance):
    A = 1e-3 * np.random.default_rng(5).standard_normal((8, 12)) * np.linspace(1, 2, 12)
    operator = as_operator(A.T @ A, covariance=True)[0] if as_covariance else as_operator(A, center=False)[0]
    most = 4
    view = select_candidates(operator, np.array(support, int), most)
    variances = np.sum(A * A, axis=0)
    largest = np.argsort(-variances)[: max(most - len(support), 0)]
    np.testing.assert_array_equal(view.variables, np.union1d(largest, support))
    left_out = np.delete(variances, view.variables)
    assert view.floor - view.shift == pytest.approx(left_out.max(), rel=1e-9)
    np.testing.assert_allclose(view.S - view.shift * np.eye(len(view.S)), (A.T @ A)[np.ix_(*[view.variables] * 2)])


def test_the_shift_of_the_candidates_is_in_no_bound():
    (A, S), shift = example(6, (7, 9)), 0.5
    operator, _ = as_operator(A, center=False)
    state = BoundState.from_loadings(operator, component(S, (0, 3)), 2, 0.0)
    view = state.candidates
    shifted = CandidateCovariance(
        view.variables, view.S + shift * np.eye(9), 0.0, view.shift + shift, view.largest_eigenvalue + shift
    )
    other = replace(state, candidates=shifted, bounds=[])
    for each in (state, other):
        add_cheap_bounds(each, Clock(60))
    by_name = {bound.method: bound.value for bound in state.bounds}
    assert by_name["trace"] == pytest.approx(np.sort(np.sum(A * A, axis=0))[-2:].sum())
    for bound in other.bounds:  # k variances contain the shift k times; an eigenvalue contains it once
        extra = {"trace": shift}.get(bound.method, 0.0)
        assert bound.value >= by_name[bound.method] - 1e-9
        if bound.method in ("trace", "eigenvalue"):
            assert bound.value == pytest.approx(by_name[bound.method] + extra)


@pytest.mark.parametrize("p", [5, 20])
def test_the_sample_space_has_the_candidates_and_the_scores(p):
    A = np.random.default_rng(7).standard_normal((p, 12)) * np.linspace(0.2, 2, 12)
    operator, _ = as_operator(A, center=False, reduce_tall=False)
    z = component(A.T @ A, (8, 11))
    columns, scores = compute_sample_space(BoundState.from_loadings(operator, z, 2, 0.0))
    np.testing.assert_allclose(columns.T @ columns, A.T @ A, atol=1e-9)
    np.testing.assert_allclose(columns.T @ scores, A.T @ A @ z / np.linalg.norm(A @ z))
    assert columns.shape == (min(p, 12), 12)


def test_the_root_of_a_search_has_the_proven_bound_on_the_variance():
    _, S = example(8)
    search = search_of(SupportSearch, S, 2, 0.0, [0, 1], shift=0.25)
    best = brute_force(S, 2)[0]
    search.start(best, Clock(0.0))
    assert search.variance_bound == pytest.approx(best)
    assert search.incumbent_variance >= compute_variance(S, [0, 1]) * (1 - ROUNDING)


def test_variables_that_vary_little_do_not_loosen_the_bound_on_the_others():
    A = np.random.default_rng(15).standard_normal((9, 8)) * np.where(np.arange(8) < 5, 1.0, 1e-3)
    S = A.T @ A
    view = select_candidates(as_operator(A, center=False, reduce_tall=False)[0], np.arange(0), 5)
    search = SupportSearch(
        candidates=view, k=2, incumbent=np.array([0, 1]), scale=compute_variance(S, [0, 1]), tol=1e-6
    )
    search.start(10 * np.trace(S), Clock(60))
    search.run(Clock(60))
    assert search.variance_bound <= brute_force(S, 2)[0] * (1 + 1e-5)


def test_a_node_within_the_tolerance_is_not_expanded(monkeypatch):
    _, S = example(9)
    best, supports, values = brute_force(S, 2)
    search = search_of(SupportSearch, S, 2, 0.5, supports[int(np.argmax(values))])

    def refuse(self, node, clock):
        raise AssertionError("a node whose bound is within the tolerance was expanded")

    monkeypatch.setattr(SupportSearch, "assess", refuse)
    assert run_from_root(search, 1.4 * best).variance_bound == pytest.approx(1.4 * best)


def test_the_penalized_objective_of_a_poor_component_is_bounded_by_that_of_the_best():
    (A, S), gamma = example(10), 2.0
    best = max(brute_force(S, k)[0] - gamma * k for k in range(1, 7))
    poorest = component(S, brute_force(S, 2)[1][int(np.argmin(brute_force(S, 2)[2]))])
    operator, _ = as_operator(A, center=False)
    (certificate,) = certify_components(operator, poorest[:, None], gamma=gamma)
    assert certificate.objective == pytest.approx(poorest @ S @ poorest - 2 * gamma)
    assert certificate.objective < best <= certificate.objective_bound * (1 + ROUNDING)


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_progress_has_the_smaller_bound_of_the_search_and_of_the_steps_before(factor):
    A, S = example(11)
    best, supports, values = brute_force(S, 2)
    z = component(S, supports[int(np.argmax(values))])
    state = BoundState.from_loadings(as_operator(A, center=False)[0], z, 2, 0.0)
    add_cheap_bounds(state, Clock(0.0))
    state.search = run_from_root(search_of(SupportSearch, S, 2, 0.0, [0, 1]), factor * best, Clock(0.0))
    progress = state.make_progress(0.0)
    assert progress.bound == pytest.approx(min(factor * best, state.upper_bound))
    assert progress.incumbent == pytest.approx(best)


def soften(S, t):
    """Return the largest eigenvalue of soft_t(S) over the variables of variance above t."""
    used = np.flatnonzero(np.diagonal(S) > t)
    M = S[np.ix_(used, used)]
    return np.linalg.eigvalsh(np.sign(M) * np.maximum(np.abs(M) - t, 0))[-1] if used.size else 0.0


def cover(A, x, rho):
    """Return the largest eigenvalue of the sum of the matrices Y of the columns, from their definition."""
    total = np.zeros((len(x), len(x)))
    for a in A.T:
        c, v = a @ x, a @ x * a - rho * x
        p = (a - c * x) / np.linalg.norm(a - c * x)
        if c * c > rho:
            total += np.outer(v, v) / (c * c - rho)
        elif a @ a > rho:
            total += rho * (a @ a - rho) / (rho - c * c) * np.outer(p, p)
    return np.linalg.eigvalsh(total)[-1]


@pytest.mark.parametrize("k", [1, 3, 6])
def test_bounds_exceed_their_formulas_by_rounding_alone(k):
    A = np.random.default_rng(12).integers(-3, 4, (9, 6)) / 8  # all sums are exact
    S, x, operator = A.T @ A, np.full(9, 1 / 3), as_operator(A, center=False, reduce_tall=False)[0]
    off, variances, largest = np.abs(S - np.diag(np.diagonal(S))), np.diagonal(S), np.linalg.eigvalsh(S)[-1]
    discs = [np.max(variances + np.sort(off)[:, 7 - j :].sum(axis=1)) for j in range(1, k + 1)]
    for found, exact in (
        (trace_profile(variances, k), np.sort(variances)[::-1].cumsum()[:k]),
        (gershgorin_profile(S, k), discs),
        (np.append(0.0, perron_bound(sp.csr_array(off))), np.linalg.eigvalsh(off)[-1:]),
    ):
        np.testing.assert_allclose(found, [0.0, *exact], rtol=1e-9)
        assert np.all(found[1:] > exact)
    for floor, upper in ((0.0, np.inf), (0.1 * largest, np.inf), (0.0, 0.5 * largest)):
        grid = np.linspace(0, min(variances.max(), upper / k), 12)
        found = soft_threshold_bound(S, k, floor, upper)
        fine = [soften(S, t) + k * max(t, floor) for t in np.linspace(0, grid[-1], 401)]
        assert min(fine) * (1 - 1e-2) <= found <= min(soften(S, t) + k * max(t, floor) for t in grid) * (1 + 1e-9)
    squares = np.sort((A.T @ x) ** 2)[::-1]
    low = squares[k] if k < 6 else 0.0
    grid = low + (squares[k - 1] - low) * RHO_GRID_SHARES
    for rho in grid:
        assert covering_eigenvalue(A, x, rho) == pytest.approx(cover(A, x, rho), rel=1e-9)
    assert sample_space_bound(A, x, k) <= min(cover(A, x, rho) + k * rho for rho in grid) * (1 + 1e-9)
    for known in (largest, 3 * largest):
        grid = np.linspace(known / k, max(off.min(), 0.4 * known / k), 6)
        fine = [soften(S, t) + k * t for t in np.linspace(grid[-1], grid[0], 401)]
        found = full_soft_threshold_bound(operator, k, known, Clock(60))
        assert min(fine) * (1 - 1e-2) <= found <= min(soften(S, t) + k * t for t in grid) * (1 + 1e-9)


@pytest.mark.parametrize("fixed", [[], [1, 4]])
def test_charges_and_costs_of_rows_are_those_of_their_definitions(fixed):
    _, S = example(13)
    rng, mask = np.random.default_rng(14), np.isin(np.arange(6), fixed)
    problem = RowProblem(S, 3, mask)
    start = initialize_rows(problem)
    np.testing.assert_allclose(start.R, -0.2 * np.tanh(S / 0.4))
    np.testing.assert_allclose(start.prices, 0.2)
    rows = DualRows(rng.standard_normal((6, 6)), np.where(mask, rng.random(6), 0.2))
    charges = []
    for i, squares in enumerate(rows.R**2):
        others = sorted(((mask[j], squares[j]) for j in range(6) if j != i), reverse=True)
        charges.append((squares[i] + others[0][1] + others[1][1]) / rows.prices[i])
    M = S + rows.R + rows.R.T + np.diag(charges)
    np.testing.assert_allclose(problem.build_matrix(rows), M)
    bound = np.linalg.eigvalsh(M)[-1] + rows.prices[mask].sum() + (3 - len(fixed)) * 0.2
    assert row_bound(problem, rows) == pytest.approx(bound)
