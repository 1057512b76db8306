"""Components of a stack of small covariances: as good as those of single fits, on planted, noisy and tied tables."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from gpower import GPower, GPowerCV, stability_selection
from gpower.solvers import covariance_stack
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


def test_columns_to_start_from_are_ranked_by_the_variance_of_their_direction():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 9, 6)) * rng.uniform(0.3, 3, (5, 1, 6))
    S = np.swapaxes(A, 1, 2) @ A
    explained = np.sum(S**2, axis=1) / np.diagonal(S, axis1=1, axis2=2)
    np.testing.assert_array_equal(rank_start_columns(S), np.argsort(-explained, axis=1))


@pytest.mark.parametrize("n_swaps", [1, 3])
def test_swaps_are_the_best_combinations_of_the_remaining_loadings_with_a_new_variable(n_swaps, monkeypatch):
    monkeypatch.setattr(covariance_stack, "MAX_STACKED_SWAPS", n_swaps)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 9, 7))
    S, index, supports = np.swapaxes(A, 1, 2) @ A, rng.integers(4, size=30), rng.random((30, 7)) < rng.random((30, 1))
    assert 0 in supports.sum(axis=1)
    for i, support, found in zip(index, supports, covariance_stack._swap(S, index, supports), strict=True):
        expected = support.copy()
        for _ in range(n_swaps if support.any() else 0):
            z = np.zeros(7)
            value, vectors = np.linalg.eigh(S[i][np.ix_(expected, expected)])
            z[expected], swaps = vectors[:, -1], [(value[-1] * (1 + 1e-7), (0, 0))]
            for out, into in product(np.flatnonzero(expected), np.flatnonzero(~expected)):
                left = np.where(np.arange(7) == out, 0, z)
                Q = np.stack([left / max(np.linalg.norm(left), 1e-6), np.eye(7)[into]])
                swaps.append((np.linalg.eigvalsh(Q @ S[i] @ Q.T)[-1], (out, into)))
            out, into = max(swaps)[1]
            expected[out], expected[into] = expected[into], expected[out]
        np.testing.assert_array_equal(found, expected)


def test_ascents_go_on_from_the_best_starts_that_are_no_copies(monkeypatch):
    for name, value in {"N_FINALISTS": 3, "MAX_STACKED_STEPS": 9, "STACKED_TOLERANCE": -1}.items():
        monkeypatch.setattr(covariance_stack, name, value)
    rng = np.random.default_rng(1)
    A, starts, cardinality = rng.standard_normal((4, 9, 7)), rng.standard_normal((4, 8, 7)), np.array([2, 3, 1, 7])
    starts[:, 5], starts[:, 6], S = 2 * starts[:, 2], 0, np.swapaxes(A, 1, 2) @ A
    for W, M, k, ends in zip(starts, S, cardinality, covariance_stack._ascend(S, starts, cardinality), strict=True):
        for step in range(9):
            Z = np.where(np.argsort(np.argsort(-np.abs(W), axis=1, kind="stable"), axis=1) < k, W, 0)
            Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300)
            W, values = Z @ M, np.sum(Z @ M * Z, axis=1)
            if step == 4:
                best = sorted(range(8), key=lambda j: -values[j])
                copies = [j for i, j in pairwise(best) if values[j] >= values[i] * (1 - 1e-7)]
                W = W[[*(j for j in best if j not in copies), *copies][:3]]
        np.testing.assert_allclose(ends, Z, atol=1e-12)
