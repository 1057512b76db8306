"""A constraint between components holds to rounding on any data; small problems are compared with enumeration."""

import warnings
from dataclasses import fields
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.enumeration import compute_variance
from tests.seeds import seeds

from gpower import GPower, best_subset, certify_total
from gpower.certificates.joint import certify_joint_variance
from gpower.certificates.row_bound import smooth_eigenvalue_sum
from gpower.operators import as_operator
from gpower.solvers.component import ComponentResult
from gpower.solvers.joint import constraints, multistart
from gpower.solvers.joint.constrained_components import zero_units_beyond_rank
from gpower.solvers.joint.constraints import CONSTRAINTS, AdjustedVariancePenalty
from gpower.solvers.joint.manifold_newton import SupportManifold
from gpower.solvers.joint.multistart import (
    MultiStartBatch,
    block_coordinate,
    compute_total_adjusted_variance,
    make_start_batch,
    maximize_adjusted_variance,
    refine_loadings,
)
from gpower.solvers.local_search import swap_test

WORDS = tuple(CONSTRAINTS)
KINDS = ("plain", "duplicates", "constant", "low rank", "scales", "integers")


def table(seed, p, n, kind="plain"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, n))
    if kind == "duplicates":
        X[:, rng.integers(n, size=n // 2)] = X[:, [0]]
    if kind == "constant":
        X[:, : n // 3] = 1.0
    if kind == "low rank":
        X = X[:, :2] @ rng.standard_normal((2, n))
    if kind == "scales":
        X *= 10.0 ** rng.integers(-3, 4, n)
    return np.round(X) if kind == "integers" else X


def covariance(seed, n, kind="plain"):
    X = table(seed, 2 * n, n, kind)
    return X.T @ X


def violation(word, X, Z):
    """Compute the violation of a constraint from its definition."""
    if word == "disjoint":
        used = (Z != 0).astype(int)
        return np.triu(used.T @ used, 1).sum()
    V = Z if word == "orthogonal" else (X - X.mean(axis=0)) @ Z
    V = V / np.where(np.linalg.norm(V, axis=0) > 0, np.linalg.norm(V, axis=0), 1)
    return np.abs(np.triu(V.T @ V, 1)).sum()


def fitted(X, m, k, word, **more):
    """Return a fitted model, or None if the estimator raises that no such set exists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about constant columns, repeated and empty components
        try:
            return GPower(m, cardinality=k, constraint=word, **more).fit(X)
        except ValueError as error:
            if "components of cardinality" in str(error) or "exceeds the rank of the data" in str(error):
                return None
            raise


def best_disjoint(S, sizes, free=None):
    """Compute the best disjoint components by enumeration."""
    free = range(len(S)) if free is None else free
    if not sizes:
        return 0.0
    return max(
        compute_variance(S, one) + best_disjoint(S, sizes[1:], [i for i in free if i not in one])
        for one in combinations(free, sizes[0])
    )


OVERLAPPING = [np.array([0, 1, 2, 3]), np.array([2, 3, 4, 5]), np.array([3, 5, 6, 7])]


def make_loadings(S, supports, rng=None):
    """Return the leading component on each support, or random loadings, as columns."""
    Z = np.zeros((len(S), len(supports)))
    for z, support in zip(Z.T, supports, strict=True):
        z[support] = rng.standard_normal(len(support)) if rng else np.linalg.eigh(S[np.ix_(support, support)])[1][:, -1]
    return Z


@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from(WORDS), st.data())
def test_the_constraint_holds_to_rounding(seed, kind, word, data):
    p, n = data.draw(st.integers(3, 20)), data.draw(st.integers(3, 12))
    X, m = table(seed, p, n, kind), data.draw(st.integers(2, 3))
    k = data.draw(st.integers(1, n // m if word == "disjoint" else n))
    model = fitted(X, m, k, word)
    if model is None:
        return
    Z = model.components_.T
    assert violation(word, X, Z) <= (0 if word == "disjoint" else 1e-10)
    assert np.all(model.cardinality_ <= k)
    lengths = np.linalg.norm(Z, axis=0)
    assert np.all((np.abs(lengths - 1) < 1e-12) | (lengths == 0))


@pytest.mark.parametrize("seed", range(8))
def test_disjoint_components_are_the_best_and_orthogonal_ones_no_worse(seed):
    S, m = covariance(seed, 7, KINDS[seed % 6]), 2 + seed % 2
    k = 3 if m == 2 else 2
    truth = best_disjoint(S, (k,) * m)
    disjoint = fitted(S, m, k, "disjoint", covariance="precomputed")
    orthogonal = fitted(S, m, k, "orthogonal", covariance="precomputed")
    assert disjoint.objective_.sum() == pytest.approx(truth, rel=1e-9)
    assert orthogonal.objective_.sum() >= truth * (1 - 1e-9)


@pytest.mark.parametrize("seed", seeds(range(12), fast=6))
def test_the_total_bound_is_never_below_the_truth(seed):
    S, m = covariance(seed, 6 + seed % 3, KINDS[seed % 6]), 2 + seed % 2
    sizes = (2,) * m if seed % 2 else tuple(range(1, m + 1))
    truth = best_disjoint(S, sizes)
    component, certificate = best_subset(S, cardinality=sizes, constraint="disjoint", covariance="precomputed")
    assert certificate.value == pytest.approx(truth, rel=1e-9)
    assert certificate.optimal
    assert violation("disjoint", None, component.T) == 0
    operator, _ = as_operator(S, covariance=True)
    for word in (None, *WORDS[::2]):  # disjoint components are orthogonal
        bound = certify_joint_variance(operator, component.T, cardinality=sizes, constraint=word, tol=0.0)
        assert all(each.value >= truth * (1 - 1e-9) for each in bound.bounds), bound.bounds
    found = fitted(S, m, max(sizes), "uncorrelated", covariance="precomputed")
    if found is not None:
        bound = certify_total(found, S, tol=0.0)
        assert bound.upper_bound >= bound.value == pytest.approx(found.objective_.sum())
        assert all(each.value >= bound.value * (1 - 1e-9) for each in bound.bounds), bound.bounds


@pytest.mark.parametrize("word", WORDS)
def test_any_container_gives_the_same(word, tmp_path):
    X = table(3, 40, 15)
    X[np.abs(X) < 0.5] = 0
    np.save(tmp_path / "x.npy", X)
    A = X - X.mean(axis=0)
    want = fitted(X, 3, 4, word)
    others = [fitted(data, 3, 4, word) for data in (sp.csr_array(X), np.load(tmp_path / "x.npy", mmap_mode="r"))]
    others.append(fitted(A.T @ A, 3, 4, word, covariance="precomputed"))
    for other in others:
        np.testing.assert_allclose(np.abs(other.components_), np.abs(want.components_), atol=1e-6)
        assert violation(word, X, other.components_.T) <= 1e-10
    single = fitted(X.astype(np.float32), 3, 4, word).components_
    assert single.dtype == np.float32
    assert violation(word, X, single.T.astype(float)) < 1e-5


@pytest.mark.parametrize("word", seeds(WORDS, fast=1))
def test_wide_data_never_need_a_matrix_of_all_variables(word, monkeypatch):
    X = table(0, 25, 2000)
    X[:, :30] += 3 * table(1, 25, 1)
    widest = []
    from gpower.operators.data_matrix import DataMatrix

    gram = DataMatrix.gram
    monkeypatch.setattr(DataMatrix, "gram", lambda self, idx: widest.append(len(idx)) or gram(self, idx))
    model = fitted(X, 3, 6, word, n_init=2)
    assert violation(word, X, model.components_.T) <= 1e-10
    assert max(widest) < 600


@pytest.mark.parametrize("n", [12, 400])
def test_non_negative_disjoint_components(n):
    X = table(2, 40, n)
    model = fitted(X, 3, (2, 4, 3), "disjoint", positive=True)
    assert model.components_.min() >= 0
    assert violation("disjoint", X, model.components_.T) == 0
    assert np.all(model.cardinality_ >= 1)


def test_components_of_one_cardinality_are_sorted_and_others_keep_their_places():
    assert fitted(table(1, 40, 12), 3, (2, 4, 3), "disjoint").cardinality_.tolist() == [2, 4, 3]
    assert np.all(np.diff(fitted(table(1, 40, 12), 3, 3, "orthogonal").objective_) <= 0)


def test_components_of_zeros_stay_zero_and_one_variable_has_the_loading_one():
    operator, _ = as_operator(table(0, 12, 6))
    assert not maximize_adjusted_variance(operator, np.zeros((6, 2)), [2, 2]).any()
    single, _ = as_operator(table(0, 12, 1))
    np.testing.assert_allclose(np.abs(maximize_adjusted_variance(single, np.ones((1, 1)), [1])), 1)


def test_non_negative_disjoint_components_give_up_a_variable_that_another_gains_more_from():
    S = np.diag([4.0, 4.0, 1.0, 1.0])
    S[0, 1] = S[1, 0] = 1.0  # the two large ones explain 5 together and 4 each alone
    model = GPower(2, cardinality=2, constraint="disjoint", positive=True, covariance="precomputed").fit(S)
    assert model.objective_.sum() == pytest.approx(8)


@pytest.mark.parametrize("seed", range(6))
def test_a_block_explains_no_less_than_components_in_turn(seed):
    S = covariance(seed, 12, KINDS[seed])
    for m, k in ((3, 2), (2, 5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            turn = GPower(m, cardinality=k, covariance="precomputed").fit(S)
            block = GPower(m, cardinality=k, covariance="precomputed", method="block").fit(S)
        assert block.explained_variance_.sum() >= turn.explained_variance_.sum() * (1 - 1e-9)


@pytest.mark.parametrize("by_scores", [False, True])
def test_components_rise_together_on_their_supports(by_scores):
    S = covariance(4, 9)
    S /= np.linalg.eigvalsh(S)[-1]
    Z = make_loadings(S, OVERLAPPING, np.random.default_rng(0))
    pattern = SupportManifold(S, OVERLAPPING, by_scores)
    begin = pattern.retract(pattern.to_vector(Z / np.linalg.norm(Z, axis=0)))
    end = pattern.ascend(pattern.to_loadings(begin))
    assert np.trace(end.T @ S @ end) > pattern.compute_value(begin)
    B = S if by_scores else np.eye(9)
    np.testing.assert_allclose(np.triu(end.T @ B @ end, 1), 0, atol=1e-13)
    np.testing.assert_allclose(np.sum(end**2, axis=0), 1, atol=1e-13)
    _, J = pattern.evaluate_equations(pattern.to_vector(end))
    gradient = pattern.to_vector(2 * S @ end)  # first-order optimal: the gradient is spanned by the equations
    np.testing.assert_allclose(J @ np.linalg.lstsq(J, gradient)[0], gradient, atol=1e-5)


def test_a_block_is_refined_to_where_its_total_is_flat():
    S = covariance(3, 9)
    Z = make_loadings(S, ([0, 1, 2, 3], [2, 3, 4, 5], [5, 6, 7, 8]))
    found = refine_loadings(S, Z)
    best = compute_total_adjusted_variance(S, found)
    assert best > compute_total_adjusted_variance(S, Z)
    assert np.array_equal(found != 0, Z != 0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = (found + 1e-3 * rng.standard_normal(Z.shape)) * (Z != 0)
        assert compute_total_adjusted_variance(S, near / np.linalg.norm(near, axis=0)) <= best * (1 + 1e-9)


def test_the_penalty_matrix_of_schur_removes_what_the_others_explain():
    S, Z = covariance(0, 8), np.linalg.qr(table(1, 8, 3))[0]
    V, d = AdjustedVariancePenalty().penalty_matrix(S, Z)
    np.testing.assert_allclose((S - V @ V.T) @ Z, 0, atol=1e-10)
    assert not d.any()


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.integers(1, 4), st.floats(1e-3, 1.0))
def test_a_smoothed_sum_of_eigenvalues_is_above_the_sum(values, count, smoothing):
    w = np.sort(values)
    count = min(count, w.size)
    value, share = smooth_eigenvalue_sum(w, count, smoothing)
    assert value >= w[-count:].sum() - 1e-9
    assert share.sum() == pytest.approx(count)
    step = 1e-5 * np.arange(1, w.size + 1)
    if np.all(np.diff(w) > 1e-3) and count < w.size:
        slope = (smooth_eigenvalue_sum(w + step, count, smoothing)[0] - value) / 1e-5
        assert slope == pytest.approx(share @ np.arange(1, w.size + 1), rel=1e-2, abs=1e-2)


@pytest.mark.parametrize("constraint", ["disjoint", "orthogonal"])
def test_constrained_components_explain_no_less_than_sequential_ones(constraint):
    X = np.random.default_rng(3).standard_normal((200, 400))
    used, total = [], 0.0
    for _ in range(3):
        model = GPower(1, cardinality=10, exclude=used).fit(X)
        used += np.flatnonzero(model.components_[0]).tolist()
        total += float(model.objective_[0])
    assert GPower(3, cardinality=10, constraint=constraint).fit(X).objective_.sum() >= total * (1 - 1e-9)


def project(word, S, supports, Z=None):
    """Return loadings, or the leading components on some supports, as a joint solution of a constraint."""
    return CONSTRAINTS[word].project_feasible(S, make_loadings(S, supports) if Z is None else Z, supports)


@pytest.mark.parametrize("word", ["orthogonal", "uncorrelated"])
def test_components_too_large_to_ascend_together_are_each_the_best_that_the_earlier_ones_leave(word, monkeypatch):
    monkeypatch.setattr(constraints, "MAX_JOINT_LOADINGS", 0)
    S = covariance(7, 8)
    supports = [np.array([0, 1, 2, 3]), np.array([2, 3, 4, 5]), np.array([1, 4, 6, 7])]
    Z = make_loadings(S, supports, np.random.default_rng(0))
    joint = project(word, S, supports, Z)
    B = S if word == "uncorrelated" else np.eye(8)
    np.testing.assert_allclose(np.triu(joint.T @ B @ joint, 1), 0, atol=1e-10)
    np.testing.assert_allclose(np.sum(joint**2, axis=0), 1)
    earlier = np.zeros((8, 0))
    for j in np.argsort(-np.sum(Z * (S @ Z), axis=0)):
        P = np.eye(8)[:, supports[j]]
        V = P.T @ B @ earlier
        N = P @ (np.linalg.svd(V)[0][:, V.shape[1] :] if V.shape[1] else np.eye(4))
        assert joint[:, j] @ S @ joint[:, j] == pytest.approx(np.linalg.eigvalsh(N.T @ S @ N)[-1])
        earlier = np.column_stack([earlier, joint[:, j]])


def test_loadings_orthogonal_to_as_many_vectors_as_variables_do_not_exist():
    S, support = covariance(8, 5), np.array([1, 3])
    assert constraints.fit_orthogonal_to(S, support, np.eye(5)[:, support]) is None
    z = constraints.fit_orthogonal_to(S, support, np.eye(5)[:, :0])
    assert z @ S @ z == pytest.approx(compute_variance(S, support))


def test_the_supports_of_starts_have_their_non_zero_loadings_first():
    Z = np.zeros((10, 2))
    Z[[1, 4], 0], Z[[0, 5, 8], 1] = [0.6, -0.8], [0.1, 0.9, -0.42]
    for seed in range(5):
        batch = make_start_batch(covariance(11, 10), [Z], [4, 2], 6, np.random.RandomState(seed))
        assert set(batch.supports[0][0]) > {1, 4}
        assert set(batch.supports[1][0]) == {5, 8}  # the largest, as two are wanted
        for support, k in zip(batch.supports, (4, 2), strict=True):
            assert all(np.unique(each).size == k for each in support)


@pytest.mark.parametrize("seed", range(4))
def test_components_improved_in_turn_cannot_be_improved_by_a_swap_again(seed):
    S = covariance(seed, 9)
    S /= np.diagonal(S).max()
    Z = np.zeros((9, 2))
    Z[[0, 1, 2], 0] = Z[[3, 4, 5], 1] = 3**-0.5
    found, total = block_coordinate(S, Z, [3, 3])
    assert total == pytest.approx(compute_total_adjusted_variance(S, found))
    assert total >= compute_total_adjusted_variance(S, Z)
    assert block_coordinate(S, found, [3, 3])[1] <= total * (1 + 1e-7)
    for z, other in zip(found.T, found.T[::-1], strict=True):
        V, _ = AdjustedVariancePenalty().penalty_matrix(S, other[:, None])
        R, support = S - V @ V.T, np.flatnonzero(z)
        outside = np.setdiff1d(np.arange(9), support)
        swapped = [np.where(support == o, i, support) for o in support for i in outside]
        assert max(compute_variance(R, each) for each in swapped) <= (z @ R @ z) * (1 + 1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_block_keeps_as_many_units_as_the_rank(rank):
    X = table(1, 20, rank) @ table(2, rank, 8)
    operator, _ = as_operator(X)
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((8, 4))
    block = ComponentResult(**{f.name: None for f in fields(ComponentResult)} | {"Z": Z / np.linalg.norm(Z, axis=0)})
    kept = np.any(zero_units_beyond_rank(operator, block).Z, axis=0)
    assert np.count_nonzero(kept) == rank
    assert np.linalg.matrix_rank((X - X.mean(axis=0)) @ Z[:, kept]) == rank


def test_a_shared_variable_stays_where_its_loading_is_largest_and_free_ones_replace_it():
    for seed in range(20):
        rng, S = np.random.default_rng(seed), covariance(seed, 9)
        supports = [rng.choice(9, size, replace=False) for size in (4, 3, 4)]
        Z = make_loadings(S, supports, rng)
        kept = [[i for i in s if np.argmax(np.abs(Z[i])) == j] for j, s in enumerate(supports)]
        free = set(range(9)) - {i for each in kept for i in each}
        expected = []
        for j, support in enumerate(supports):
            z = np.zeros(9)
            z[kept[j]] = Z[kept[j], j]
            new = sorted(free, key=lambda i, z=z: -abs(S[i] @ z))[: support.size - len(kept[j])]
            free -= set(new)
            expected.append(sorted([*kept[j], *new]))
        joint = CONSTRAINTS["disjoint"].project_feasible(S, Z, supports)
        assert [np.flatnonzero(z).tolist() for z in joint.T] == expected
        variances = [compute_variance(S, each) for each in expected]
        np.testing.assert_allclose(np.sum(joint * (S @ joint), axis=0), variances, atol=1e-9)


def test_a_component_is_improved_in_each_start_by_the_swap_of_least_slack():
    rng, S, row = np.random.default_rng(14), covariance(14, 8), np.arange(5)[:, None]
    for n_swaps in (0, 1, 3):
        supports, V, d, weights = (
            rng.permuted(np.tile(np.arange(8), (5, 1)), axis=1)[:, :3],
            *(rng.standard_normal((5, 8, 2)), 20 * rng.random((5, 8)), rng.random(5)),
        )
        Z = np.zeros((5, 8, 2))
        Z[row, supports, 1] = 1.0
        batch = MultiStartBatch(S, Z.copy(), [supports, supports])
        batch.improve_component(1, (V, d), weights, n_swaps)
        assert not batch.Z[..., 0].any()
        assert batch.supports[0] is supports
        for r in range(5):
            R, support = S - weights[r] * (V[r] @ V[r].T + np.diag(d[r])), supports[r].copy()
            for _ in range(n_swaps):
                outside = np.setdiff1d(np.arange(8), support)
                slack = swap_test(R, support, outside)[2]
                if slack.min() < 0:
                    i, j = np.unravel_index(np.argmin(slack), slack.shape)
                    support[i] = outside[j]
            np.testing.assert_array_equal(batch.supports[1][r], support)
            z = batch.Z[r, :, 1]
            assert set(np.flatnonzero(z)) == set(support)
            assert (z @ z, z @ R @ z) == pytest.approx((1.0, np.linalg.eigvalsh(R[np.ix_(support, support)])[-1]))


def test_supports_are_filled_up_and_candidates_chosen_by_correlation(monkeypatch):
    A = table(16, 20, 30) - table(16, 20, 30).mean(axis=0)
    S, Z = A.T @ A, make_loadings(A.T @ A, ([0, 1], [4, 5, 6], []), np.random.default_rng(0))
    for j, support in enumerate(multistart._fill_joint_supports(S, Z, [3, 2, 4])):
        inside = np.flatnonzero(Z[:, j])
        scores = np.abs(S @ Z[:, j]) if inside.size else np.diagonal(S)
        rest = [i for i in np.argsort(-scores) if i not in inside]
        assert support.tolist() == [*inside, *rest][: (3, 2, 4)[j]]
    monkeypatch.setattr(multistart, "MAX_UNSCREENED_VARIABLES", 9)
    monkeypatch.setattr(multistart, "N_BASE_CANDIDATES", 2)
    operator = as_operator(A, reduce_tall=False)[0]
    found = multistart.candidate_variables(operator, Z[:, :2], [1, 2])
    best = [np.argsort(-np.abs(S @ z))[: 2 + 3 * k] for z, k in zip(Z.T, [1, 2], strict=False)]
    assert found.tolist() == sorted({0, 1, 4, 5, 6}.union(*(each.tolist() for each in best)))
    scaled, scale = multistart.compute_scaled_covariance(operator, found)
    np.testing.assert_allclose(scaled * scale, S[np.ix_(found, found)])
    assert (scale, scaled.max()) == pytest.approx((np.diagonal(S)[found].max(), 1.0))


def test_the_penalty_of_correlated_scores_is_their_squared_covariance_per_variance():
    S, Z = 1e-3 * covariance(12, 7), np.random.default_rng(12).standard_normal((2, 7, 3))
    Z[0, :, 1] = 0
    V, d = CONSTRAINTS["uncorrelated"].penalty_matrix(S, Z)
    np.testing.assert_allclose(V**2 * np.sum(Z * (S @ Z), axis=1, keepdims=True), (S @ Z) ** 2)
    assert not d.any()
    assert not V[0, :, 1].any()


@pytest.mark.parametrize("word", WORDS)
def test_swaps_are_ranked_by_the_loadings_of_a_power_step_that_keeps_the_constraint(word):
    S = covariance(10, 9)
    Z = project(word, S / np.linalg.eigvalsh(S)[-1], OVERLAPPING)
    normals = {"orthogonal": Z[:, 1:], "uncorrelated": S @ Z[:, 1:], "disjoint": Z[:, :0]}[word]
    z, inside, outside = Z[:, 0], np.flatnonzero(Z[:, 0]), np.flatnonzero(Z[:, 0] == 0)
    basis = np.column_stack([z, normals])
    step = (S @ z - basis @ np.linalg.pinv(basis[inside]) @ (S @ z)[inside]) / (z @ S @ z)
    gains = {(out, into): abs(step[into]) - abs(z[out]) for out in inside for into in outside}
    found = multistart._rank_swaps(S, CONSTRAINTS[word], Z, 0, inside)
    assert len(found) == min(len(gains), multistart.MAX_TRIED_SWAPS)
    np.testing.assert_allclose([swap[0] for swap in found], sorted(gains.values())[::-1][: len(found)])
    for gain, out, into, sign in found:
        assert (gain, sign) == pytest.approx((gains[out, into], np.sign(step[into])))
