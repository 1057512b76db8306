"""The local search tests every swap of a support with one eigendecomposition."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpower.feasible_sets import Stiefel
from gpower.operators import as_operator
from gpower.penalties.elementary import Cardinality
from gpower.penalties.support_rules import SupportRules
from gpower.problem.formulation import Problem
from gpower.solvers import group_swaps, local_search
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


def test_negative_definite_matrices_and_supports_of_all_variables_have_no_swaps():
    A = np.random.default_rng(0).standard_normal((9, 6))
    assert swap_search(-A.T @ A, np.array([0, 1])).tolist() == [0, 1]
    assert swap_search(np.diag([3.0, 2.0, 1.0]), np.array([2, 0, 1])).tolist() == [0, 1, 2]


def test_a_support_without_variance_has_a_zero_bound_and_is_improved():
    S = np.diag([0.0, 0.0, 2.0])
    assert lower_bound_variance(S, np.array([0, 1]), np.array([1.0, 0.0])) == 0
    assert swap_search(S, np.array([0, 1])).tolist()[1] == 2


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


def test_a_swap_that_power_steps_do_not_show_is_found_by_its_eigenvalue():
    S = np.eye(4) * [1.0, 1.0, 1.0, 1.0005]
    S[0, 1] = S[1, 0] = 1.0  # variance 2 on {0, 1}
    S[2, 3] = S[3, 2] = 1.0  # a little more on {2, 3}
    support = np.array([0, 1, 2])
    value, u, _ = swap_test(S, support, np.array([3]))
    assert all(lower_bound_variance(S, swap_variable(support, i, 3), u) < value for i in range(2))
    improved = local_search.find_better_swap(S, support)
    assert {2, 3} < set(improved.tolist())


LABELS, COSTS = np.array([0, 1, 1, 2, 3, 3, 3]), np.array([[1.0], [2.5], [0.5], [1.5]])
RULES = {
    "variables": SupportRules.from_groups(np.arange(7)),
    "groups": SupportRules.from_groups(LABELS),
    "costs": SupportRules.from_groups(LABELS, COSTS),
    "required and excluded": SupportRules.from_groups(
        LABELS,
        COSTS,
        required=np.array([[False], [False], [True], [False]]),
        excluded=np.arange(7)[:, None] == 1,
    ),
}
EACH_RULES = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def selections_of(rules):
    """Yield every selection of groups that contains the required ones, with its total cost."""
    for bits in product([False, True], repeat=rules.n_groups):
        chosen = np.array(bits)
        if np.all(chosen >= rules.required[:, 0]):
            yield chosen, float(rules.group_costs[chosen, 0].sum())


def labels_of(rules):
    return np.arange(7) if rules.group_labels is None else rules.group_labels


def variables_of(rules, chosen):
    return np.flatnonzero(chosen[labels_of(rules)] & ~rules.excluded[:, 0])


@EACH_RULES
@pytest.mark.parametrize("limit", [2.0, 3.0, 4.5])
def test_group_swaps_are_all_pairs_within_the_costs(rules, limit):
    for chosen, cost in selections_of(rules):
        if cost > limit:
            continue
        expected = set()
        for out in [-1, *np.flatnonzero(chosen & ~rules.required[:, 0]).tolist()]:
            for into in np.flatnonzero(~chosen).tolist():
                price = cost + rules.group_costs[into, 0] - (rules.group_costs[out, 0] if out >= 0 else 0)
                if price <= limit:
                    expected.add((out, into))
        found = group_swaps._list_group_swaps(chosen, rules, limit)
        assert set(map(tuple, found.tolist())) == expected
        assert len(found) == len(expected)


@EACH_RULES
def test_the_bound_of_a_group_swap_is_the_best_of_two_directions_and_below_the_variance(rules):
    A = np.random.default_rng(0).standard_normal((10, 7))
    S, labels = A.T @ A, labels_of(rules)
    for chosen, _ in selections_of(rules):
        value, u = group_swaps._compute_leading_loadings(S, chosen, rules)
        support = variables_of(rules, chosen)
        assert value == pytest.approx(largest_eigenvalue(S, support) if support.size else 0.0)
        assert set(np.flatnonzero(u)) <= set(support.tolist())
        assert u @ S @ u == pytest.approx(value)
        swaps = group_swaps._list_group_swaps(chosen, rules, 100.0)
        if not support.size or not len(swaps):
            continue
        bounds = group_swaps._bound_swap_variances(S, u, swaps, rules)
        for (out, into), bound in zip(swaps.tolist(), bounds, strict=True):
            left = u * (labels != out)
            if not left.any():
                continue
            left = left / np.linalg.norm(left)
            pull = (S @ left) * (labels == into) * ~rules.excluded[:, 0]
            Q = np.stack([left, pull / np.linalg.norm(pull)])
            assert bound == pytest.approx(np.linalg.eigvalsh(Q @ S @ Q.T)[-1])
            after = group_swaps._apply_group_swap(chosen, np.array([out, into]))
            assert bound <= largest_eigenvalue(S, variables_of(rules, after)) * (1 + 1e-9)


def test_no_swap_improves_the_component_after_a_local_search():
    improved = 0
    for seed in range(10):
        A = np.random.default_rng(seed).standard_normal((15, 12))
        S, operator = A.T @ A, as_operator(A, center=False, reduce_tall=False)[0]
        problem = Problem(operator, Cardinality(np.array([3])), np.ones(1), Stiefel())
        result = ascend(problem, problem.feasible_set.make_point(A[:, [seed]]), AscentSettings())
        support = np.flatnonzero(problem.penalty.evaluate(result.point.C)[1][:, 0])
        found = np.flatnonzero(local_search.refit_and_swap(problem, [result], AscentSettings(), True).Z[:, 0])
        assert set(swap_search(S, found)) == set(found)
        improved += largest_eigenvalue(S, found) > largest_eigenvalue(S, support) * (1 + 1e-6)
    assert improved >= 3


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_slack_of_a_swap_is_the_bordered_secular_function_in_any_unit(scale):
    for seed, k in product(range(4), (1, 2, 4)):
        rng = np.random.default_rng(seed)
        A, order = rng.standard_normal((9, 8)), rng.permutation(8) if seed else np.array([0, 4, 5, 1, 2, 3, 6, 7])
        if seed == 0:  # two blocks: loadings of zero
            A[:5, 4:] = A[5:, :4] = 0
        S, support, outside = scale * A.T @ A, order[:k], order[k:]
        value, _, slack = swap_test(S, support, outside)
        for (i, j), found in np.ndenumerate(slack):
            rest, into = np.delete(support, i), outside[j]
            b, M = S[rest, into], value * (1 + 1e-10) * np.eye(k - 1) - S[np.ix_(rest, rest)]
            expected = value - S[into, into] - b @ np.linalg.solve(M, b)
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-6 * value)


@pytest.mark.parametrize("k", [3, 16, 40])
def test_proposed_swaps_are_the_best_ones_alone_and_of_a_large_support_parts_of_the_disjoint_ones(k):
    slack = np.random.default_rng(k).standard_normal((k, 50)) + 1.5
    order = [divmod(t, 50) for t in np.argsort(slack, axis=None) if slack.flat[t] < 0][: 8 * k]
    tried, distinct = [[pair] for pair in order[:4]], []
    for out, into in order:
        distinct += [(out, into)] * all(out != o and into != i for o, i in distinct)
    size = len(distinct)
    tried += [distinct[:part] for part in (size // 8, size // 4, size // 2, size) if k > 16 and part > 1]
    found = local_search._propose_swaps(slack, np.arange(k), np.arange(50) + k)
    assert len(found) == len(tried)
    for support, pairs in zip(found, tried, strict=True):
        assert {i: j for i, j in enumerate(support) if i != j} == {out: into + k for out, into in pairs}
    assert not local_search._propose_swaps(np.abs(slack), np.arange(k), np.arange(50) + k)


@EACH_RULES
def test_groups_are_better_within_the_limit_or_no_single_swap_is(rules):
    A = np.random.default_rng(0).standard_normal((10, 7))
    S = A.T @ A
    for chosen, cost in selections_of(rules):
        limit = max(cost, 3.0)
        value = group_swaps._compute_leading_loadings(S, chosen, rules)[0]
        found = group_swaps.find_better_groups(S, chosen, rules, limit)
        if found is None:
            swaps = group_swaps._list_group_swaps(chosen, rules, limit)
            swapped = [group_swaps._apply_group_swap(chosen, swap) for swap in swaps]
            values = [group_swaps._compute_leading_loadings(S, each, rules)[0] for each in swapped]
            assert max(values, default=0.0) <= value * (1 + 1e-9)
        else:
            assert group_swaps._compute_leading_loadings(S, found, rules)[0] > value
            assert rules.group_costs[found, 0].sum() <= limit * (1 + 1e-9)
            assert np.all(found >= rules.required[:, 0])


def fill(norms_sq, costs, chosen, room):
    """Return the groups chosen with those of the largest squared norm per cost for which there is room."""
    chosen = chosen | ((costs == 0) & (norms_sq > 0))
    ratio = np.where(chosen, 0, norms_sq / np.where(costs > 0, costs, 1))
    for i in np.argsort(-ratio, kind="stable"):
        if ratio[i] > 0 and costs[i] <= room:
            chosen[i], room = True, room - costs[i]
    return chosen


def test_selections_are_filled_by_squared_norm_per_cost_up_to_their_limits():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        norms, costs = rng.integers(0, 4, (6, 5)).astype(float), rng.integers(0, 4, 6) / 2
        required, limits = rng.random((6, 5)) < 0.2, rng.integers(-1, 7, 5) / 2
        found = group_swaps._fill_cost_limit(norms, costs, required, limits)
        for j, room in enumerate(limits):
            np.testing.assert_array_equal(found[:, j], fill(norms[:, j], costs, required[:, j], room))


@EACH_RULES
def test_selections_are_rearranged_around_one_group_more_or_less_where_costs_differ(rules):
    A = np.random.default_rng(1).standard_normal((10, 7))
    S, costs, forced = A.T @ A, rules.group_costs[:, 0], rules.required[:, 0]
    limit = 4.0 - rules.required_cost[0]
    for chosen, _ in selections_of(rules):
        z = group_swaps._compute_leading_loadings(S, chosen, rules)[1]
        pull = S @ z * ~rules.excluded[:, 0]
        members = [pull * (labels_of(rules) == g) for g in range(rules.n_groups)]
        energy, expected = np.array([m @ m for m in members]), []
        order = [] if rules.uniform_cost else np.argsort(-energy)
        for more, g in [(True, g) for g in order if not chosen[g]] + [(False, g) for g in order[::-1] if chosen[g]]:
            if (more and (energy[g] == 0 or costs[g] > limit)) or (not more and forced[g]):
                continue
            near = S @ (z + members[g] / energy[g] ** 0.5 if more else z * (labels_of(rules) != g))
            near_sq = np.bincount(labels_of(rules), (near * ~rules.excluded[:, 0]) ** 2)
            one = np.arange(rules.n_groups) == g
            room = limit - costs[g] if more else limit
            expected.append(fill(np.where(one & (not more), 0, near_sq), costs, forced | (one & more), room))
        found = group_swaps._rearrange_groups(S, z, chosen, rules, 4.0)
        np.testing.assert_array_equal(np.array(found), np.array(expected))
