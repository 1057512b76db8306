"""Exact search among admissible supports, compared with the defaults of GPower."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from tests.enumeration import GROUPS, compute_scatter, compute_variance, enumerate_supports, make_table
from tests.fuzz import variable_rules

from gpower import GPowerWarning, best_subset
from gpower.certificates.branch_and_bound import Node
from gpower.certificates.certificate import Clock
from gpower.certificates.group_search import GroupSearch


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("check", "n_tables", "hit_rate"),
    [(variable_rules.check, 40, variable_rules.MIN_HIT_RATE), (variable_rules.check_budget, 12, 0.9)],
)
def test_the_best_of_all_admissible_supports_is_proven_and_found(check, n_tables, hit_rate):
    shares = np.array([check(i) for i in range(n_tables)])
    assert np.mean(shares > 1 - 1e-6) >= hit_rate
    assert shares.min() >= variable_rules.MIN_VARIANCE_SHARE


def test_a_search_that_has_to_branch():
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((40, 60)), np.repeat(np.arange(20), 3)
    S = compute_scatter(X)
    component, proof = best_subset(X, cardinality=3, groups=labels, include=[0], exclude=[7])
    best = max(compute_variance(S, support) for support in enumerate_supports(labels, 3, [0], [7]))
    assert proof.nodes > 3
    assert proof.optimal
    assert component @ S @ component == pytest.approx(best)
    assert best <= proof.upper_bound <= best * (1 + 1e-5)
    assert "3 groups: " in str(proof)


def test_out_of_time_the_bound_holds_and_the_callback_stops():
    rng = np.random.default_rng(1)
    X, labels, seen = rng.standard_normal((50, 80)), np.repeat(np.arange(40), 2), []
    component, proof = best_subset(X, cardinality=6, groups=labels, max_time=0.0)
    assert np.unique(labels[component != 0]).size == 6
    assert proof.upper_bound > proof.value
    stopped = best_subset(X, cardinality=6, groups=labels, callback=lambda now: seen.append(now) or True)[1]
    assert 1 <= len(seen) <= 2
    assert seen[0].bound >= stopped.value
    assert np.unique(labels[seen[0].support]).size == 6


def test_an_interrupt_keeps_the_bound_of_the_node_that_is_expanded(interrupt):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((40, 60)), np.repeat(np.arange(20), 3)
    nodes = interrupt(GroupSearch, "_bound_by_discs", 2)
    proof = best_subset(X, cardinality=3, groups=labels)[1]
    assert len(nodes) == 2
    assert not proof.optimal


def test_rules_by_name_and_a_covariance():
    X, names = make_table(1), [f"gene{j}" for j in range(12)]
    S = pd.DataFrame(compute_scatter(X), columns=names, index=names)
    component, proof = best_subset(S, cardinality=3, covariance="precomputed", exclude=["gene3"], include=["gene5"])
    assert component[5]
    assert not component[3]
    assert proof.optimal
    alone = best_subset(X, cardinality=3, exclude=[3])[0]
    without = best_subset(np.delete(X, 3, axis=1), cardinality=3)[0]
    np.testing.assert_allclose(np.delete(alone, 3), without, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groups": GROUPS, "constraint": "disjoint"}, "groups does not go together with constraint in an exact"),
        ({"include": [1, 2, 3]}, r"include asks for 3 variables \(1, 2, 3\), and cardinality=2"),
        ({"groups": GROUPS[:5]}, "groups has 5 entries"),
    ],
)
def test_invalid_rules_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        best_subset(make_table(), cardinality=2, **options)


def test_an_included_variable_uncorrelated_with_the_others_has_no_loading():
    S = np.array([[1.0, 0, 0], [0, 2, 0.5], [0, 0.5, 2]])
    with pytest.warns(GPowerWarning, match=r"include asks for 0 in component 1, where the best loading is zero"):
        component, proof = best_subset(S, cardinality=3, covariance="precomputed", include=[0])
    assert np.flatnonzero(component).tolist() == [1, 2]
    assert proof.optimal
    assert proof.value == pytest.approx(2.5)


def test_too_many_variables_are_refused(monkeypatch):
    monkeypatch.setattr("gpower.certificates.group_search.MAX_GROUP_SEARCH_VARIABLES", 11)
    with pytest.raises(ValueError, match="at most 11 variables; there are 12"):
        best_subset(make_table(), cardinality=2, include=[1])


def test_the_bound_of_a_node_is_the_smaller_of_interlacing_and_block_discs():
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4])
    used = set()
    for trial in range(40):
        A = rng.standard_normal((12, 9)) + (trial % 2) * 3 * rng.standard_normal((12, 1))
        S = A.T @ A
        search = GroupSearch(S=S, group_labels=labels, k=3, incumbent=np.arange(3), tol=0.0)
        search.incumbent_value = 0.0  # so that no node is pruned
        fixed, allowed = np.zeros(5, bool), np.ones(5, bool)
        fixed[rng.choice(5, trial % 3, replace=False)] = True
        allowed[rng.choice(np.flatnonzero(~fixed))] = trial % 2
        norms = np.array([[np.linalg.norm(S[np.ix_(labels == g, labels == h)], 2) for h in range(5)] for g in range(5)])
        selections = [
            list(each)
            for each in combinations(np.flatnonzero(allowed), 3)
            if np.all(np.isin(np.flatnonzero(fixed), each))
        ]
        disc = max(norms[np.ix_(groups, groups)].sum(axis=1).max() for groups in selections)
        bounds = [compute_variance(S, np.flatnonzero(allowed[labels])), disc]
        node = search.assess(Node(np.inf, np.flatnonzero(allowed), fixed[allowed], np.ones(5)[allowed]), Clock(60.0))
        assert node.bound == pytest.approx(min(bounds), rel=1e-9)
        used.add(int(np.argmin(bounds)))
    assert used == {0, 1}  # each of the two is the smaller one sometimes
