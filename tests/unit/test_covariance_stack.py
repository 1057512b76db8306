"""Components of a stack of small covariances: as good as those of single fits, on planted, noisy and tied tables."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.enumeration import compute_variance

from gpower import GPower, GPowerCV, component_test, stability_selection
from gpower.solvers.covariance_stack import (
    can_solve_in_stack,
    find_components_in_stack,
    rank_start_columns,
    solve_covariance_stack,
)
from gpower.validation.prepare import read_estimator_input


def make_table(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 18))
    if kind == "planted":
        X[:, :5] += 1.2 * rng.standard_normal((40, 1))
        X[:, 5:9] += rng.standard_normal((40, 1))
    if kind == "tied":  # every column has a copy
        X[:, 9:] = X[:, :9]
    if kind == "binary":
        X = (X + rng.standard_normal((40, 1)) > 0).astype(float)
    return X - X.mean(axis=0)


KINDS = ("planted", "noise", "tied", "binary")


@pytest.mark.parametrize("kind", KINDS)
def test_components_are_as_good_as_those_of_single_fits(kind):
    tables = [make_table(kind, seed) for seed in range(6)]
    S = np.array([np.cov(X.T) for X in tables])
    for k in (1, 3, 6, 17):
        Z, variances = solve_covariance_stack(S, np.full(6, k))
        expected = [GPower(1, cardinality=k).fit(X).explained_variance_[0] for X in tables]
        np.testing.assert_allclose(variances, expected, rtol=1e-2)
        assert np.mean(variances / expected) > 0.998
        np.testing.assert_array_equal(np.count_nonzero(Z, axis=1), k)
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1)
        np.testing.assert_allclose((Z[:, None] @ S @ Z[:, :, None])[:, 0, 0], variances)


@pytest.mark.parametrize("kind", KINDS)
def test_no_swap_of_one_variable_is_better(kind):
    S = np.cov(make_table(kind, 0).T)
    (z,), (variance,) = solve_covariance_stack(S[None], np.array([4]))
    support = np.flatnonzero(z)
    for kept in combinations(support, 3):
        for j in np.setdiff1d(np.arange(18), support):
            assert compute_variance(S, [*kept, j]) <= variance * (1 + 1e-6)


def test_later_components_are_those_of_the_deflated_covariance():
    X = make_table("planted", 1)
    Z = find_components_in_stack(np.cov(X.T)[None], np.array([[5, 4, 3]]))[0]
    model = GPower(3, cardinality=[5, 4, 3]).fit(X)
    np.testing.assert_allclose(np.abs(Z.T), np.abs(model.components_), atol=1e-6)


def test_different_cardinalities_and_large_stacks(monkeypatch):
    S = np.array([np.cov(make_table("noise", seed).T) for seed in range(5)])
    k = np.array([1, 4, 9, 18, 2])
    whole = solve_covariance_stack(S, k)
    monkeypatch.setattr("gpower.solvers.covariance_stack.MAX_STACK_ENTRIES", 1)
    np.testing.assert_allclose(solve_covariance_stack(S, k)[1], whole[1])
    np.testing.assert_array_equal(np.count_nonzero(whole[0], axis=1), k)


def test_components_beyond_the_rank_are_zero():
    X = np.outer(np.arange(6.0) - 2.5, np.arange(1.0, 5.0))
    Z = find_components_in_stack(np.cov(X.T)[None], np.array([[2, 2]]))[0]
    assert np.count_nonzero(Z[:, 0]) == 2
    Z = find_components_in_stack(np.zeros((1, 4, 4)), np.array([[2]]))
    assert not Z.any()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"scale": True}, True),
        ({"penalty": "l1"}, False),
        ({"positive": True}, False),
        ({"n_init": 4}, False),
        ({"deflation": "projection"}, False),
        ({"method": "block"}, False),
        ({"variance": "l1"}, False),
        ({"groups": np.arange(18) // 2}, False),
        ({"constraint": "disjoint"}, False),
    ],
)
def test_which_fits_are_stacked(options, expected):
    table = read_estimator_input(GPower(2, cardinality=3, **options), make_table("noise", 0))
    (spec,) = table.build_fit_specs()
    assert can_solve_in_stack(spec, 18) is expected
    assert not can_solve_in_stack(replace(spec), 1000)


@pytest.mark.parametrize("kind", ["noise", "tied"])
def test_model_selection_agrees_with_single_fits(kind, monkeypatch):
    X = make_table(kind, 2)
    calls = (
        lambda: stability_selection(X, n_components=1, cardinality=4, n_subsamples=30).frequency,
        lambda: GPowerCV(1, cardinalities=[2, 5, 9]).fit(X).cv_results_["mean_test_score"],
    )
    stacked = [call() for call in calls]
    for module in ("stability_runs", "cross_validation"):
        monkeypatch.setattr(f"gpower.model_selection.{module}.can_solve_in_stack", lambda *args: False)
    for values, call in zip(stacked, calls, strict=True):
        expected = call()
        if kind == "tied":  # copies are exchanged
            values, expected = values.sum(), expected.sum()
        np.testing.assert_allclose(values, expected, atol=0.1)


def test_a_permutation_test_counts_planted_components():
    assert component_test(make_table("planted", 0), 3, cardinality=4).n_components == 2


def test_columns_to_start_from_are_ranked_by_the_variance_of_their_direction():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 9, 6)) * rng.uniform(0.3, 3, (5, 1, 6))
    S = np.swapaxes(A, 1, 2) @ A
    explained = np.sum(S**2, axis=1) / np.diagonal(S, axis1=1, axis2=2)
    np.testing.assert_array_equal(rank_start_columns(S), np.argsort(-explained, axis=1))
