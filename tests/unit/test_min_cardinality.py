"""A share of the variance as the cardinality selects the fewest variables that explain it."""

import numpy as np
import pytest
from tests.enumeration import (
    GROUPS,
    compute_scatter,
    compute_variance,
    enumerate_supports,
    find_best_variance,
    make_table,
)
from tests.seeds import seeds

from gpower import GPower, Solver, sparsity_path


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_the_fewest_variables_that_explain_a_share(share):
    for seed in range(6):
        X = make_table(seed, n=9)
        S = compute_scatter(X)
        enough = share * compute_variance(S, range(9)) * (1 - 1e-9)
        model = GPower(1, cardinality=share).fit(X)
        assert model.cardinality_[0] == next(k for k in range(1, 10) if find_best_variance(S, k) >= enough)
        assert model.objective_[0] >= enough


def deflate(X, Z):
    """Return a table deflated by components."""
    A = X - X.mean(axis=0)
    for z in Z:
        x = A @ z / np.linalg.norm(A @ z)
        A = A - np.outer(x, A.T @ x)
    return A


@pytest.mark.parametrize("begin", seeds([0, 40, 80], fast=1))
def test_a_fit_with_one_variable_less_misses_the_share(begin):
    for seed in range(begin, begin + 40):
        X, share = np.random.default_rng(seed).standard_normal((25, 7)), (0.5, 0.7, 0.9, 0.8, 0.95)[seed % 5]
        shares = [share] if seed % 4 else [share, 0.9 * share]  # unequal shares keep their order
        model = GPower(len(shares), cardinality=shares).fit(X)
        for j, k in enumerate(model.cardinality_.tolist()):
            numbers = [*model.cardinality_[:j].tolist(), max(k - 1, 1)]
            less = GPower(j + 1, cardinality=numbers).fit(X)
            A = deflate(X, model.components_[:j])
            enough = shares[j] * np.linalg.norm(A, 2) ** 2
            np.testing.assert_array_equal(less.components_[:j] != 0, model.components_[:j] != 0)
            assert np.linalg.norm(A @ model.components_[j]) ** 2 >= enough * (1 - 1e-9)
            assert k == 1 or np.linalg.norm(A @ less.components_[j]) ** 2 < enough * (1 - 1e-9)


@pytest.mark.parametrize(
    "options", [{"penalty": "l1"}, {"positive": True}, {"variance": "l1"}, {"solver": Solver("working_set")}]
)
def test_larger_shares_need_more_variables_in_other_formulations(options):
    X = make_table(4)
    half, most = (GPower(1, cardinality=share, **options).fit(X) for share in (0.5, 0.99))
    assert 1 <= half.cardinality_[0] < most.cardinality_[0] <= 12


def test_a_share_selects_the_fewest_groups():
    X = make_table(5)
    model = GPower(1, cardinality=0.8, groups=GROUPS, include=[5], exclude=[0]).fit(X)
    S = compute_scatter(X)
    enough = 0.8 * compute_variance(S, range(1, 12))
    counted = len(set(GROUPS[model.components_[0] != 0]))
    best = [max(compute_variance(S, each) for each in enumerate_supports(GROUPS, k, [5], [0])) for k in range(1, 7)]
    assert counted == next(k for k, value in enumerate(best, 1) if value >= enough)


def test_a_path_has_the_point_of_a_share():
    path = sparsity_path(make_table(6))
    model = path.at(share=0.8)
    at = path.grid.tolist().index(model.cardinality)
    assert path.share_of_pca[at] >= 0.8 > path.share_of_pca[at - 1]
    with pytest.raises(ValueError, match=r"share=1.5: a share of what ordinary components explain"):
        path.at(share=1.5)
    with pytest.raises(ValueError, match="No point of the path explains 1 of what PCA does"):
        path[:3].at(share=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"cardinality": 0.9, "method": "block"},
            "cardinality=0.9 excludes method=.block.: each step of method=",
        ),
        ({"cardinality": [0.9, 3]}, "as a whole number"),
        ({"cardinality": float("nan")}, "cardinality=nan: .* as a whole number; .* or a share of variance such as 0.9"),
        ({"cardinality": float("inf")}, "cardinality=inf: .* as a whole number"),
        (
            {"cardinality": 0.9, "constraint": "disjoint"},
            "cardinality=0.9 excludes constraint=.disjoint.: fit without one first, and give the numbers found",
        ),
    ],
)
def test_invalid_shares_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        GPower(2, **options).fit(make_table())
