"""One contract for every penalty: a convex function of the correlations, attained by its loadings."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from gpower.penalties.elementary import L0, L1, Cardinality, FixedSupport, L1Ball, NonNegative
from gpower.penalties.grouped import GroupCardinality, GroupL0, GroupL1, WeightedPenalty
from gpower.penalties.support_rules import SupportRules

N, M = 7, 3
PATTERN = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]], bool
)  # the last unit has no active entry, two variables no active unit

GROUPS = np.array([0, 1, 1, 2, 2, 2, 3])
COSTS = np.array([1.0, 2.5, 0.0, 1.5])[:, None]
EACH_ITS_OWN = {  # one group is required and two variables are excluded, in one unit each
    "required": np.eye(4, M, dtype=bool)[::-1],
    "excluded": np.eye(N, M, dtype=bool),
}
GROUPED = SupportRules.from_groups(GROUPS)
COSTLY = SupportRules.from_groups(GROUPS, COSTS, **EACH_ITS_OWN)
LEADING = SupportRules.from_groups(np.arange(N), required=np.eye(N, 1, dtype=bool))
RESTRICTED = {
    "chosen groups": GroupCardinality(GROUPED, np.array([1, 2, 3])),
    "chosen groups that cost": GroupCardinality(COSTLY, np.array([1.5, 3, 4])),
    "chosen with the first": GroupCardinality(LEADING, np.array([3])),
    "chosen in parts": GroupCardinality(
        SupportRules.from_groups(GROUPS, COSTS), np.array([2.0]), allows_partial_group=True
    ),
    "l0, groups": GroupL0(GROUPED, np.array([0.25, 1.0, 6.0])),
    "l0, groups with weights": GroupL0(COSTLY, np.array([0.25, 1.0, 6.0])),
    "l1, groups": GroupL1(GROUPED, np.array([0.5, 1.0, 2.5])),
    "l1, groups with weights": GroupL1(COSTLY, np.array([0.5, 1.0, 2.5])),
}

PENALTIES = {
    "l1": L1(np.array([0.5, 1.0, 2.5])),
    "l1 of level zero": L1(np.zeros(M)),
    "l0": L0(np.array([0.25, 1.0, 6.0])),
    "l0 of level zero": L0(np.zeros(M)),
    "cardinality": Cardinality(np.array([1, 3, 6])),
    "one cardinality for all": Cardinality(np.array([2])),
    "cardinality of every variable": Cardinality(np.array([N])),
    "l1 ball s=1": L1Ball(1.0),
    "l1 ball s=1.7": L1Ball(1.7),
    "l1 ball s=4": L1Ball(4.0),
    "l1 ball s=n": L1Ball(float(N)),
    "l1 ball s>n": L1Ball(2.0 * N),
    "pattern, norms": FixedSupport(PATTERN, power=1),
    "pattern, squares": FixedSupport(PATTERN, power=2),
} | RESTRICTED
PENALTIES |= {f"non-negative {name}": NonNegative(penalty) for name, penalty in PENALTIES.items()}
EACH = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
L1_BALLS = {name: penalty for name, penalty in PENALTIES.items() if "l1 ball" in name}
EACH_L1_BALL = pytest.mark.parametrize("penalty", L1_BALLS.values(), ids=L1_BALLS)

#: Quarters make ties and zeros likely; the others are in general position.
QUARTERS = st.integers(-16, 16).map(lambda i: i / 4)
ANYWHERE = st.floats(-10, 10).map(lambda x: x if abs(x) > 1e-6 else 0.0)
CORRELATIONS = arrays(np.float64, (N, M), elements=QUARTERS) | arrays(np.float64, (N, M), elements=ANYWHERE)


def signed(penalty):
    """Return the penalty without its restriction to non-negative loadings."""
    return penalty.penalty if penalty.is_nonnegative else penalty


def generic(seed=0, scale=2.0):
    """Return correlations without ties or zeros."""
    return scale * np.random.default_rng(seed).standard_normal((N, M))


def effective_correlations(penalty, C):
    """Return the correlations that count: the positive part under a `NonNegative` wrapper."""
    return np.maximum(C, 0) if isinstance(penalty, NonNegative) else C


def assert_convex_between(penalty, x, y):
    """Assert f(y) ≥ f(x) + ⟨f′(x), y − x⟩."""
    value, gradient = penalty.value_and_gradient(x)
    above = penalty.value_and_gradient(y)[0] - value - np.sum(gradient * (y - x))
    assert above >= -1e-10 * (1 + np.sum(x * x) + np.sum(y * y))


# --- convexity ------------------------------------------------------------------------------------------------------


@EACH
@given(x=CORRELATIONS, y=CORRELATIONS)
def test_the_gradient_supports_the_function_from_below(penalty, x, y):
    for other in (y, x + 1e-3 * y, -x):
        assert_convex_between(penalty, x, other)


@EACH
def test_the_gradient_is_the_slope_of_the_function(penalty):
    x, h = generic(3), 1e-6
    gradient = penalty.value_and_gradient(x)[1]
    slope = np.zeros_like(x)
    for i, j in np.ndindex(N, M):
        e = np.zeros_like(x)
        e[i, j] = h
        slope[i, j] = (penalty.value_and_gradient(x + e)[0] - penalty.value_and_gradient(x - e)[0]) / (2 * h)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)


@EACH
def test_evaluation_changes_nothing_and_keeps_the_type(penalty):
    C = generic().astype(np.float32)
    C[0] = C[1] = 5.0  # a tie for the largest
    copy = C.copy()
    if isinstance(signed(penalty), L1 | L0 | WeightedPenalty):
        kept = signed(penalty).at_gamma(signed(penalty).gamma.astype(np.float32))
        penalty = NonNegative(kept) if isinstance(penalty, NonNegative) else kept
    values, gradient = penalty.evaluate(C)
    np.testing.assert_array_equal(C, copy)
    assert (values.dtype, gradient.dtype, penalty.loadings(C).dtype) == (np.float32,) * 3


# --- the loadings attain the original problem -----------------------------------------------------------------------


@EACH
@given(C=CORRELATIONS)
def test_loadings_have_unit_norm_or_are_zero(penalty, C):
    Z = penalty.loadings(C)
    values, gradient = penalty.evaluate(C)
    active = np.any(gradient, axis=0)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=0), active, atol=1e-12)
    np.testing.assert_array_equal(active, values > 0)


@EACH
def test_non_negative_loadings_are_non_negative(penalty):
    Z = NonNegative(signed(penalty)).loadings(generic())
    assert np.all(Z >= 0)
    assert np.all(penalty.loadings(generic()) * generic() >= 0), "a loading opposes its correlation"


ALONE = SupportRules.from_groups(np.arange(N))


def get_support_rules(penalty):
    rules = penalty.support_rules
    return ALONE if rules is None else rules


def list_names(*kinds):
    """Return the names of the penalties of some kinds that select whole groups."""
    return [
        name
        for name, penalty in PENALTIES.items()
        if isinstance(signed(penalty), kinds) and not getattr(signed(penalty), "allows_partial_group", False)
    ]


def admissible_patterns(rules, j):
    """Yield the masks of all admissible supports of unit j with their costs, and the mask of the groups to pay for."""
    unit = rules.select_unit(j)
    for chosen in product([False, True], repeat=rules.n_groups):
        if not np.any(unit.required[:, 0] & ~np.array(chosen)):
            pattern = unit.broadcast_to_variables(np.array(chosen)[:, None])[:, 0] & ~unit.excluded[:, 0]
            yield pattern, float(np.sum(unit.group_costs[list(chosen), 0])), np.array(chosen) & ~unit.required[:, 0]


@pytest.mark.parametrize("name", list_names(L1, GroupL1))
@pytest.mark.parametrize("seed", range(3))
def test_the_l1_value_is_the_largest_correlation_less_the_norms_of_groups(name, seed):
    """√f = max ⟨c, z⟩ − γ Σ w_g‖z_g‖ over the unit ball, over z without excluded variables."""
    penalty, C = PENALTIES[name], generic(seed)
    rules, Z, roots = get_support_rules(penalty), penalty.loadings(C), np.sqrt(penalty.evaluate(C)[0])

    def objective(z):
        z = rules.mask_excluded(z)
        price = np.where(rules.required, 0, rules.group_costs) * signed(penalty).gamma
        return np.sum(C * z, axis=0) - np.sum(price * np.sqrt(rules.group_norms_sq(z)), axis=0)

    np.testing.assert_allclose(objective(Z), roots, atol=1e-12)
    for z in candidates(penalty, Z, seed):
        assert np.all(objective(z) <= roots + 1e-12)


@pytest.mark.parametrize("name", list_names(L0, Cardinality, GroupL0, GroupCardinality))
@pytest.mark.parametrize("seed", range(5))
def test_the_value_is_the_best_over_all_admissible_supports(name, seed):
    """f = max ⟨c, z⟩² − γ·cost, or at a limited cost: on a support S the best z is c_S/‖c_S‖."""
    penalty, C = PENALTIES[name], generic(seed)
    rules, Z, positive = get_support_rules(penalty), penalty.loadings(C), effective_correlations(penalty, C)
    for j in range(M):
        patterns = list(admissible_patterns(rules, j))
        if hasattr(signed(penalty), "gamma"):
            prices = signed(penalty).gamma[j] * rules.select_unit(j).group_costs[:, 0]
        else:
            limit = signed(penalty).k if rules is ALONE else signed(penalty).max_cost
            patterns = [each for each in patterns if each[1] <= np.broadcast_to(limit, M)[j]]
            prices = np.zeros(rules.n_groups)
        best = max(np.sum(positive[P, j] ** 2) - np.sum(prices[paid]) for P, _, paid in patterns)
        assert penalty.evaluate(C)[0][j] == pytest.approx(best)
        gain = (C[:, j] @ Z[:, j]) ** 2
        assert best == pytest.approx(
            max(gain - np.sum(prices[paid]) if gain else 0 for P, _, paid in patterns if not np.any(Z[~P, j]))
        )


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_groups_are_a_bound_on_whole_ones(seed):
    whole, C = GroupCardinality(SupportRules.from_groups(GROUPS, COSTS), np.array([2.0])), generic(seed)
    assert np.all(whole.relaxation.evaluate(C)[0] >= whole.evaluate(C)[0] * (1 - 1e-12))
    assert np.any(whole.relaxation.evaluate(C)[0] > whole.evaluate(C)[0] * (1 + 1e-3))
    plain = PENALTIES["chosen groups"]
    assert plain.relaxation is plain


@given(C=CORRELATIONS, k=st.integers(1, N))
def test_exactly_the_wanted_number_of_variables_is_kept_among_ties(C, k):
    values, gradient = Cardinality(np.array([k])).evaluate(C)
    assert np.all(np.count_nonzero(gradient, axis=0) <= k)
    np.testing.assert_allclose(values, np.sum(np.sort(C * C, axis=0)[N - k :], axis=0), atol=1e-12)


def least_dual_value(c, s):
    """Minimise λ√s + ‖(|c| − λ)₊‖ over λ ≥ 0 by golden sections; no feasible z exceeds this value."""
    a = np.abs(c)

    def value(level):
        return level * s**0.5 + np.linalg.norm(np.maximum(a - level, 0))

    low, high = 0.0, a.max(initial=0.0)
    for _ in range(120):
        left, right = high - 0.618033988749895 * (high - low), low + 0.618033988749895 * (high - low)
        low, high = (low, right) if value(left) < value(right) else (left, high)
    return min(map(value, (0.0, low, high, a.max())))


def assert_solves_the_l1_ball_problem(penalty, C):
    """Assert that loadings are feasible and reach the dual value, hence are optimal."""
    s = signed(penalty).s
    values, Z = penalty.evaluate(C)
    assert np.all(np.isfinite(Z))
    assert np.all(np.sum(np.abs(Z), axis=0) <= np.sqrt(s) * (1 + 1e-9))
    assert np.all(np.linalg.norm(Z, axis=0) <= 1 + 1e-12)
    np.testing.assert_allclose(values, np.sum(C * Z, axis=0), atol=1e-12)
    least = [least_dual_value(c, s) for c in effective_correlations(penalty, C).T]
    np.testing.assert_allclose(values, least, atol=1e-8, rtol=1e-8)


@EACH_L1_BALL
@given(C=CORRELATIONS)
def test_the_l1_ball_value_equals_its_dual(penalty, C):
    assert_solves_the_l1_ball_problem(penalty, C)


@pytest.mark.parametrize("s", [1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
@pytest.mark.parametrize("gap", [0.0, 1e-15, 1e-13, 1e-10, 1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("others", [[], [0.3], [0.3, 0.3, 0.1], [1 - 1e-3]])
def test_the_l1_ball_is_respected_by_nearly_tied_correlations(s, gap, others):
    C = np.array([1.0, -(1 - gap), *others])[:, None]
    assert_solves_the_l1_ball_problem(L1Ball(s), C)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("power", [1, 2])
def test_a_pattern_is_filled_with_the_correlations_of_its_variables(power, positive):
    penalty = FixedSupport(PATTERN, power)
    penalty = NonNegative(penalty) if positive else penalty
    C = generic()
    inside = np.where(PATTERN, effective_correlations(penalty, C), 0)
    Z = penalty.loadings(C)
    np.testing.assert_allclose(penalty.evaluate(C)[0], np.linalg.norm(inside, axis=0) ** power)
    np.testing.assert_allclose(np.sum(C * Z, axis=0) ** power, penalty.evaluate(C)[0], atol=1e-12)
    assert not np.any(Z[~PATTERN])
    for z in candidates(penalty, Z, 0):
        assert np.all(np.sum(C * np.where(PATTERN, z, 0), axis=0) <= np.sum(C * Z, axis=0) + 1e-12)


def candidates(penalty, Z, seed):
    """Yield feasible loadings in the unit ball: random ones of every cardinality, neighbours of Z, and zero."""
    rng = np.random.default_rng(seed)
    for trial in range(200):
        z = rng.standard_normal((N, M)) if trial % 2 else Z + 0.1 * rng.standard_normal((N, M))
        z[rng.permutation(N)[: trial % N]] = 0
        z = np.maximum(z, 0) if isinstance(penalty, NonNegative) else z
        yield z / np.maximum(np.linalg.norm(z, axis=0), 1e-12)
    yield np.zeros((N, M))


@EACH
def test_what_a_penalty_says_about_itself(penalty):
    plain = signed(penalty)
    assert plain.has_uniform_threshold == penalty.has_uniform_threshold == (penalty.support_rules is None)
    assert plain.has_loading_bound == penalty.has_loading_bound == isinstance(plain, L1Ball)
    assert plain.has_exchangeable_variables == isinstance(plain, Cardinality)
    assert plain.supports_local_search == isinstance(plain, Cardinality | GroupCardinality)
    assert not any((plain.is_nonnegative, penalty is not plain and penalty.supports_local_search))


# --- which variables matter -----------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("seed", range(10))
def test_the_activity_ratio_is_above_one_exactly_on_the_active_entries(penalty, seed):
    C = generic(seed)
    active = penalty.evaluate(C)[1] != 0
    if isinstance(signed(penalty), FixedSupport) and not isinstance(penalty, NonNegative):
        np.testing.assert_array_equal(active, PATTERN)
    np.testing.assert_array_equal(penalty.activity_ratio(C) > 1, active)


@EACH
@given(C=CORRELATIONS)
def test_every_active_entry_has_a_ratio_above_one_at_ties_and_zeros(penalty, C):
    relevance = penalty.activity_ratio(C)
    assert relevance.shape == C.shape
    assert not np.any(np.isnan(relevance))
    assert np.all(relevance[penalty.evaluate(C)[1] != 0] > 1)


@pytest.mark.parametrize("name", ["l1", "l0", "cardinality", "l1 ball s=1.7"])
def test_the_activity_ratio_ranks_inactive_variables_by_their_correlation(name):
    C = generic(1, scale=0.4)
    relevance = PENALTIES[name].activity_ratio(C)
    for j in range(M):
        inactive = np.flatnonzero(relevance[:, j] <= 1)
        ranks = np.argsort(np.argsort(relevance[inactive, j]))
        np.testing.assert_array_equal(ranks, np.argsort(np.argsort(np.abs(C[inactive, j]))))


POSITIVE = st.floats(0.1, 3)
PAIRS = SupportRules.from_groups(
    np.array([0, 0, 1, 1, 2]), np.array([[1.0], [0.5], [2.0]]), np.eye(3, 2, dtype=bool), np.eye(5, 2, k=-4, dtype=bool)
)
LEVELS = {
    "l1": lambda g: L1(g),
    "l0": lambda g: L0(g),
    "non-negative l1": lambda g: NonNegative(L1(g)),
    "non-negative l0": lambda g: NonNegative(L0(g)),
    "cardinality": lambda g: Cardinality(np.ceil(g).astype(int)),
    "l1 ball": lambda g: L1Ball(1 + g[0]),
    "pattern": lambda g: FixedSupport(np.arange(5)[:, None] < g),
    "non-negative pattern": lambda g: NonNegative(FixedSupport(np.arange(5)[:, None] < g, power=1)),
    "chosen": lambda g: GroupCardinality(PAIRS, g),
    "weighed l0": lambda g: GroupL0(PAIRS, g),
    "weighed l1": lambda g: GroupL1(PAIRS, g),
    "non-negative weighed l0": lambda g: NonNegative(GroupL0(PAIRS, g)),
}


@pytest.mark.parametrize("make", LEVELS.values(), ids=LEVELS)
@given(
    A=arrays(np.float64, (3, 5), elements=QUARTERS),
    X=arrays(np.float64, (3, 2), elements=st.integers(-3, 3).map(float)),
    aligned=st.lists(st.integers(0, 4), max_size=2),
    mu=st.tuples(POSITIVE, POSITIVE).map(np.array),
    gamma=st.tuples(POSITIVE, POSITIVE).map(np.array),
)
def test_screening_never_drops_a_variable_that_some_direction_makes_active(make, A, X, aligned, mu, gamma):
    for j, i in enumerate(aligned):  # the direction in which variable i is most correlated
        X[:, j] = A[:, i]
    X /= np.maximum(np.linalg.norm(X, axis=0), 1e-12) * (1 + 1e-9)
    penalty = make(gamma)
    active = np.any(penalty.evaluate(mu * (A.T @ X))[1] != 0, axis=1)
    kept = penalty.screen(np.linalg.norm(A, axis=0), mu)
    assert kept.shape == (5,)
    assert np.all(kept[active])


@pytest.mark.parametrize(
    ("penalty", "kept"),
    [
        (L1(np.array([1.0, 3.0])), [False, False, True, True]),
        (L1(np.array([3.0, 1.9])), [False, True, True, True]),
        (L0(np.array([1.0, 9.0])), [False, False, True, True]),
        (L0(np.array([9.0, 3.9])), [False, True, True, True]),
        (NonNegative(L1(np.array([9.0, 6.0]))), [False, False, False, False]),
        (Cardinality(np.array([2])), [False, True, True, True]),
        (FixedSupport(np.eye(4, 2, dtype=bool)), [True, True, False, False]),
        (
            GroupCardinality(SupportRules.from_groups(np.arange(4), excluded=np.eye(4, 1, -1, bool)), np.array([2])),
            [False, False, True, True],
        ),
    ],
)
def test_screening_drops_variables_that_no_direction_can_make_active(penalty, kept):
    """Norms 0, 1, 1.5, 2.9 and weights 1, 2: unit j sees at most μⱼ‖aᵢ‖."""
    mu = np.array([1.0, 2.0])
    np.testing.assert_array_equal(penalty.screen(np.array([0.0, 1.0, 1.5, 2.9]), mu), kept)


@EACH
@pytest.mark.parametrize("idx", [[0, 1, 2, 3, 4, 5, 6], [6, 1, 3], [5]])
def test_a_restricted_penalty_is_the_full_one_with_the_other_variables_at_zero(penalty, idx):
    idx = np.array(idx, int)
    C = np.zeros((N, M))
    C[idx] = generic(2)[idx]
    values, gradient = penalty.evaluate(C)
    few_values, few_gradient = penalty.restrict(idx).evaluate(C[idx])
    np.testing.assert_allclose(few_values, values, atol=1e-12)
    np.testing.assert_allclose(few_gradient, gradient[idx], atol=1e-12)
    np.testing.assert_array_equal(penalty.restrict(idx).activity_ratio(C[idx]) > 1, penalty.activity_ratio(C)[idx] > 1)


@pytest.mark.parametrize(("kind", "power"), [(GroupL0, 2), (GroupL1, 1)])
def test_the_start_score_is_the_root_of_the_largest_level_at_the_longest_variable_of_each_group(kind, power):
    norms = np.random.default_rng(0).uniform(0.5, 2, N)
    penalty = kind(SupportRules.from_groups(GROUPS, COSTS), np.ones(1))
    lengths = np.sqrt(np.bincount(GROUPS, norms**2))
    is_free = COSTS[:, 0] == 0
    levels = lengths**power / np.where(is_free, np.inf, COSTS[:, 0])
    levels[is_free] = levels.max()
    longest = [max(np.flatnonzero(g == GROUPS), key=lambda i: norms[i]) for g in range(4)]
    expected = np.zeros(N)
    expected[longest] = np.sqrt(levels)
    np.testing.assert_allclose(penalty.start_score(norms), expected)
    free = kind(SupportRules.from_groups(GROUPS, np.zeros((4, 1))), np.ones(1))
    np.testing.assert_array_equal(free.start_score(norms), np.isin(np.arange(N), longest))
    single = kind(SupportRules.from_groups(np.arange(N)), np.ones(1))  # every variable is a start of its own
    np.testing.assert_allclose(single.start_score(norms), norms ** (power / 2))


def test_groups_not_selected_are_ranked_by_their_norm_over_the_smallest_selected_one():
    C = np.array([3.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.1])[:, None]  # norms 3, 1.41, 0.87, 0.1
    ratio = GroupCardinality(GROUPED, np.array([2])).activity_ratio(C)[:, 0]
    assert np.all(np.isinf(ratio[:3]))
    np.testing.assert_allclose(ratio[3:], np.array([0.75, 0.75, 0.75, 0.01]) ** 0.5 / 2**0.5)


@pytest.mark.parametrize("name", [name for name, penalty in PENALTIES.items() if hasattr(signed(penalty), "gamma")])
def test_the_largest_level_is_that_at_which_the_last_variable_with_a_weight_is_dropped(name):
    penalty, norms, mu = PENALTIES[name], np.random.default_rng(0).uniform(0.5, 2, N), np.array([1.5, 1.0, 0.4])
    largest = penalty.gamma_max(norms, mu)
    assert (largest.shape, largest.dtype) == ((M,), np.float64)
    for j in range(M):
        unit = penalty.select_unit(j)
        rules = get_support_rules(unit)
        with_weight = rules.broadcast_to_variables((rules.group_costs > 0) & ~rules.required)[:, 0]
        for factor in (1 - 1e-9, 1 + 1e-9):
            kept = unit.at_gamma(factor * largest[[j]]).screen(norms, mu[[j]])
            assert kept[with_weight].any() == (factor < 1)
            np.testing.assert_array_equal(kept[~with_weight], ~np.all(rules.excluded, axis=1)[~with_weight])
    np.testing.assert_array_equal(Cardinality(np.array([2])).gamma_max(norms, mu), np.full(M, np.nan))


def label_groups(rules):
    return np.arange(N) if rules.group_labels is None else rules.group_labels


@EACH
@pytest.mark.parametrize("counts", [[1, 2, 3], [2, 2, 2], [4, 1, 9]])
def test_a_pattern_of_some_number_has_the_largest_scores_of_variables_or_groups(penalty, counts):
    scores, rules = np.abs(generic(6)), get_support_rules(penalty)
    pattern = penalty.select_pattern(scores, np.array(counts))
    assert pattern.dtype == bool
    labels, expected = label_groups(rules), np.zeros((N, M), bool)
    for j, count in enumerate(counts):
        unit = rules.select_unit(j)
        squares = np.bincount(labels, np.where(unit.excluded[:, 0], 0, scores[:, j] ** 2))
        first = np.argsort(np.where(unit.required[:, 0], -np.inf, -squares))[: max(count, unit.required.sum())]
        expected[:, j] = np.isin(labels, first) & ~unit.excluded[:, 0]
    np.testing.assert_array_equal(pattern, expected)
    np.testing.assert_array_equal(penalty.count_selected(pattern), [len(set(labels[mask])) for mask in pattern.T])


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_groups_and_the_largest_cardinality_are_solutions_of_linear_programs(seed):
    rng = np.random.default_rng(seed)
    required = np.arange(4)[:, None] == seed % 5
    rules = SupportRules.from_groups(GROUPS, COSTS, required, np.arange(N)[:, None] == (seed % 6 or -1))
    norms_sq, max_cost = rng.uniform(0.1, 1, (4, 2)), float(rng.uniform(0, 6))
    budget, costs = max(max_cost - COSTS[required].sum(), 0), np.where(required, 0, COSTS)[:, 0]
    shares = rules.select_fractional_groups(norms_sq, np.array([max_cost]))
    assert np.all((shares >= 0) & (shares <= 1))
    assert np.all(costs @ shares <= budget + 1e-12)
    assert not shares[costs > budget].any()
    for j in range(2):
        best = linprog(-norms_sq[:, j], costs[None], [budget], bounds=[(0, float(c <= budget)) for c in costs]).fun
        assert norms_sq[:, j] @ shares[:, j] == pytest.approx(-best)
    sizes = np.bincount(GROUPS, ~rules.excluded[:, 0])
    most = -linprog(-sizes, costs[None], [budget], bounds=(0, 1)).fun
    assert rules.max_cardinality(np.array([max_cost])) == int(most + 1e-9)
    np.testing.assert_array_equal(rules.group_sizes[:, 0], sizes)


def test_a_group_whose_variables_are_all_excluded_takes_no_part_of_the_budget():
    rules = SupportRules.from_groups(np.array([0, 1, 1]), np.array([[1], [2.5]]), excluded=np.arange(3)[:, None] == 0)
    assert rules.max_cardinality(np.array([2.5])) == 2
    assert replace(rules, excluded=np.ones((3, 1), bool)).max_cardinality(np.array([2.5])) == 0


@pytest.mark.parametrize("rules", [ALONE, GROUPED, COSTLY, LEADING], ids=["alone", "groups", "costs", "required"])
def test_rules_know_the_members_of_groups_and_the_variables_that_some_unit_may_use(rules):
    labels = label_groups(rules)
    np.testing.assert_array_equal(rules.usable_variables, ~np.all(rules.excluded, axis=1))
    for i in range(N):
        np.testing.assert_array_equal(rules.group_members(i), np.flatnonzero(labels == labels[i]))
