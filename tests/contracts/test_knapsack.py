"""The most valuable things that fit, against all selections."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpower.knapsack import best_within

WHOLE = st.integers(0, 4).map(float)
ANY = st.floats(0.01, 10) | st.just(0.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(things=st.lists(st.tuples(WHOLE, WHOLE) | st.tuples(ANY, ANY), min_size=1, max_size=9), share=st.floats(0, 1.1))
def test_no_selection_that_fits_is_worth_more(things, share):
    value, cost = np.array(things).T
    room = share * float(cost.sum())
    selections = np.array(list(product([False, True], repeat=value.size)))
    fit = selections @ cost <= room * (1 + 1e-9)
    chosen = best_within(value, cost, room)
    assert cost[chosen].sum() <= room * (1 + 1e-8)
    assert value[chosen].sum() == pytest.approx(np.max(selections[fit] @ value))
    assert np.all(chosen[cost == 0])


@pytest.mark.parametrize("n", [60, 400])
@pytest.mark.parametrize("costs", ["any", "equal", "two", "near one"])
def test_many_things_are_within_the_bound_of_a_part_of_one_more(n, costs):
    rng = np.random.default_rng(n)
    value = rng.exponential(size=n)
    cost = {"any": rng.exponential(size=n), "equal": np.full(n, 3.0), "two": rng.choice([1.0, 20.0], n)}.get(
        costs, rng.uniform(0.9, 1.1, n)
    )
    room = 0.3 * float(cost.sum())
    chosen = best_within(value, cost, room)
    order = np.argsort(-value / cost)
    linear = float(np.interp(room, np.append(0, np.cumsum(cost[order])), np.append(0, np.cumsum(value[order]))))
    assert cost[chosen].sum() <= room * (1 + 1e-8)
    assert linear - np.max(value) <= value[chosen].sum() <= linear * (1 + 1e-9)
