"""The knapsack solver against all selections of items."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpower.penalties import knapsack
from gpower.penalties.knapsack import MAX_UNFILTERED_ITEMS, _fill_greedily, _fix_items, solve_knapsack

WHOLE = st.integers(0, 4).map(float)
ANY = st.floats(0.01, 10) | st.just(0.0)


@given(things=st.lists(st.tuples(WHOLE, WHOLE) | st.tuples(ANY, ANY), min_size=1, max_size=9), share=st.floats(0, 1.1))
def test_no_selection_that_fits_is_worth_more(things, share):
    value, cost = np.array(things).T
    budget = share * float(cost.sum())
    selections = np.array(list(product([False, True], repeat=value.size)))
    fit = selections @ cost <= budget * (1 + 1e-9)
    chosen = solve_knapsack(value, cost, budget)
    assert cost[chosen].sum() <= budget * (1 + 1e-8)
    assert value[chosen].sum() == pytest.approx(np.max(selections[fit] @ value))
    assert np.all(chosen[cost == 0])


def compute_best_values(value, cost, budget):
    """Return the best value of each budget from 0 to the given one, by dynamic programming over whole costs."""
    best = np.zeros(budget + 1)
    for v, c in zip(value, cost, strict=True):
        best[c:] = np.maximum(best[c:], best[: max(best.size - c, 0)] + v)
    return best


def test_the_search_finds_what_swaps_of_a_greedy_selection_do_not():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        cost = rng.integers(5, 40, 24)
        value = cost + rng.uniform(0, 2, 24)  # nearly proportional: what fits decides
        budget = int(cost.sum() // 3)
        chosen = solve_knapsack(value, cost.astype(float), float(budget))
        assert cost[chosen].sum() <= budget
        assert value[chosen].sum() == pytest.approx(compute_best_values(value, cost, budget)[-1])


@pytest.mark.parametrize("budget", [3, 11, 40, 5000])
@pytest.mark.parametrize("costs", [(1, 9), (1, 2), (7, 9)])
def test_of_many_things_those_left_out_beforehand_are_not_missed(budget, costs):
    rng = np.random.default_rng(budget)
    value, cost = (
        rng.exponential(size=MAX_UNFILTERED_ITEMS + 500),
        rng.integers(costs[0], costs[1] + 1, MAX_UNFILTERED_ITEMS + 500),
    )
    chosen = solve_knapsack(value, cost.astype(float), float(budget))
    assert cost[chosen].sum() <= budget
    assert value[chosen].sum() == pytest.approx(compute_best_values(value, cost, budget)[-1])


def test_no_exchange_of_one_item_improves_a_greedy_selection():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        value, cost = rng.uniform(0.1, 1, (2, 12))
        order = np.argsort(-value / cost, kind="stable")
        value, cost, budget = value[order], cost[order], 0.4 * float(cost.sum())
        chosen = _fill_greedily(value, cost, budget)
        assert cost[chosen].sum() <= budget * (1 + 1e-12)
        room = budget - cost[chosen].sum()
        for i in np.flatnonzero(~chosen):
            assert cost[i] > room
            helps = (value[chosen] < value[i] * (1 - 1e-9)) & (cost[chosen] + room >= cost[i])
            assert not helps.any()


@pytest.mark.parametrize("seed", range(50))
def test_discarded_and_fixed_items_agree_with_every_best_selection(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    value, cost = rng.uniform(0.1, 1, 9), rng.uniform(0.1, 1, 9) if seed % 2 else rng.integers(1, 4, 9).astype(float)
    order = np.argsort(-value / cost, kind="stable")
    value, cost, budget = value[order], cost[order], rng.uniform(max(cost), 0.9 * sum(cost))
    selections = np.array(list(product([False, True], repeat=9)))
    worth = np.where(selections @ cost <= budget, selections @ value, -1)
    for known in (worth.max(), 0.9 * worth.max()):
        good = selections[worth >= known]
        always_in, always_out = _fix_items(value, cost, budget, known)
        assert good[:, always_in].all()
        assert not good[:, always_out].any()
        for i in range(9):  # what a part of one more item allows decides
            for is_taken, fixed in ((False, always_in), (True, always_out)):
                v, c, room = np.delete(value, i), np.delete(cost, i), budget - is_taken * cost[i]
                bound = np.interp(room, np.append(0, np.cumsum(c)), np.append(0, np.cumsum(v))) + is_taken * value[i]
                assert fixed[i] == (bound < known * (1 - 1e-12))
    monkeypatch.setattr(knapsack, "MAX_KNAPSACK_SWAPS", 0)
    prefix = value[np.cumsum(cost) <= budget].sum()
    assert value[_fill_greedily(value, cost, budget)].sum() == pytest.approx(max(prefix, value.max()))
    np.testing.assert_array_equal(_fill_greedily(np.array([1.0, 9.0]), np.array([0.5, 10.0]), 10.0), [False, True])
    nothing = np.zeros(9, bool)
    assert value[knapsack._search_undominated(value, cost, budget, nothing)].sum() == pytest.approx(worth.max())
    monkeypatch.setattr(knapsack, "MAX_UNFILTERED_ITEMS", 8)
    kept = knapsack._filter_promising_items(value, cost, budget)
    assert set(np.flatnonzero(selections[np.argmax(worth)])) <= set(kept)
    assert value[solve_knapsack(value, cost, budget)].sum() == pytest.approx(worth.max())
