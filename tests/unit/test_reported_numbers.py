"""Reported numbers against independent computations, in cases prone to errors."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from tests.fuzz.fits import adjusted_variances, check_fit

from gpower import GPower, GPowerCV, Solver
from gpower._utils.warnings import ScaleWarning
from gpower.operators import as_operator
from gpower.operators.explained_variance import (
    Scores,
    adjusted_variance,
    captured_variance,
    compute_captured_share,
    cosine_matrix,
    count_shared_variables,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*nearly all of the variance:UserWarning")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(60))
def test_every_number_of_a_random_fit_is_that_of_its_definition(seed):
    check_fit(np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(3))
def test_adjusted_variance_with_dependent_scores(seed):
    Y = np.random.default_rng(seed).standard_normal((12, 5)) * [5, 4, 3, 2, 1]
    Y[:, 1] = Y[:, 0]
    Y[:, 3] = 0.3 * Y[:, 0] - 0.2 * Y[:, 2]
    scores = Scores.from_data(Y, np.eye(5))
    np.testing.assert_allclose(scores.compute_adjusted_variances(), adjusted_variances(Y), atol=1e-9)
    in_given_order = np.zeros(5)
    in_given_order[::2] = np.diagonal(np.linalg.qr(Y[:, ::2], mode="r")) ** 2
    np.testing.assert_allclose(scores.compute_adjusted_variances(keep_order=True), in_given_order, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 7, 53])
def test_rank_deficient_blocks_report_what_their_scores_explain(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 12))
    with pytest.warns(ConvergenceWarning, match="no variance left"):  # the fourth is zero, not a repetition
        model = GPower(4, cardinality=8, method="block").fit(X)
    Y = (X - X.mean(axis=0)) @ model.components_.T
    np.testing.assert_allclose(model.explained_variance_ * 19, adjusted_variances(Y), atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_single_precision_reconstruction_stays_within_the_data(seed):
    rng = np.random.default_rng(seed)
    X = sum(np.outer(rng.standard_normal(20), rng.standard_normal(12)) for _ in range(2)).astype(np.float32)
    model = GPower(4, cardinality=6, method="block").fit(X)
    assert np.abs(model.inverse_transform(model.transform(X))).max() <= 3 * np.abs(X).max()


def test_single_precision_pca_keeps_components_far_above_rounding():
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((100, 3)))[0]
    V = np.linalg.qr(rng.standard_normal((20000, 3)))[0]
    X = (10 * (U * [100, 8, 7]) @ V.T).astype(np.float32)
    ratio = GPower(3, gamma=0.0).fit(X).explained_variance_ratio_
    np.testing.assert_allclose(ratio, GPower(3, gamma=0.0).fit(X.astype(float)).explained_variance_ratio_, atol=1e-5)


@pytest.mark.parametrize("init", [None, "largest_norm"])
def test_l1_variance_starts_where_its_own_norm_is_largest(init):
    X = np.random.default_rng(0).standard_normal((40, 10))
    X[:, 0] = 0
    X[0, 0] = 10.0  # the largest ℓ2 norm, far from the largest ℓ1 norm
    model = GPower(1, variance="l1", gamma=0.6, solver=Solver(init=init)).fit(X)
    assert model.cardinality_[0] >= 1
    assert model.objective_[0] > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("m", "k", "seed"), [(2, 4, 0), (2, 4, 1), (3, 9, 0), (3, 9, 1)])
def test_l1_blocks_have_the_cardinality_asked_for(m, k, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 15)) @ np.diag(rng.random(15) + 0.5)
    X[:, :5] += 2 * rng.standard_normal((60, 1))
    model = GPower(m, cardinality=k, penalty="l1", method="block").fit(X)
    assert model.cardinality_.tolist() == [k] * m


def test_single_precision_columns_that_vary_little_about_a_large_mean_are_kept():
    X = (np.arange(50.0)[:, None] % 7 * [1, 1] + 5e6).astype(np.float32)
    model = GPower(1, cardinality=2).fit(X)
    assert model.cardinality_.tolist() == [2]
    noisy = (np.random.default_rng(0).standard_normal((60, 20)) + 1e6).astype(np.float32)
    exact = GPower(2, cardinality=5).fit(noisy.astype(float))
    found = GPower(2, cardinality=5).fit(noisy)
    np.testing.assert_allclose(found.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-2)
    scores = (noisy - found.mean_) @ found.components_.T.astype(float)
    np.testing.assert_allclose(found.transform(noisy), scores, atol=1e-4 * np.abs(scores).max())


def test_screened_weights_of_l1_variance_give_the_same_gamma():
    X = np.zeros((40, 40))
    X[:, :8] = np.random.default_rng(0).standard_normal((40, 8))
    weight = np.full(40, 9.0)
    kwargs = {"variance": "l1", "penalty": "l1", "cardinality": 1}
    padded = GPower(1, **kwargs).fit(X, sample_weight=weight)
    plain = GPower(1, **kwargs).fit(X[:, :8], sample_weight=weight)
    np.testing.assert_allclose(padded.gamma_, plain.gamma_)
    np.testing.assert_allclose(padded.objective_, plain.objective_)


@pytest.mark.parametrize("refit", ["auto", None])
def test_the_weight_of_a_block_of_one_scales_its_objective(refit):
    X = np.random.default_rng(0).standard_normal((20, 10))
    solver = Solver(refit=refit)
    one, half = (GPower(1, cardinality=3, method="block", mu=[mu], solver=solver).fit(X) for mu in (1.0, 0.5))
    np.testing.assert_allclose(half.objective_, one.objective_ / 4, rtol=1e-6)


def test_uncorrelated_variables_that_add_no_variance_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="fewer variables than requested explain as much"):
        model = GPower(1, cardinality=3, covariance="precomputed").fit(np.eye(5))
    assert model.cardinality_.tolist() == [1]


def test_a_start_may_be_a_list():
    X = np.random.default_rng(0).standard_normal((40, 6))
    start = np.random.default_rng(1).standard_normal((40, 2))
    listed = GPower(2, gamma=0.1, solver=Solver(init=start.tolist())).fit(X)
    array = GPower(2, gamma=0.1, solver=Solver(init=start)).fit(X)
    np.testing.assert_array_equal(listed.components_, array.components_)


@pytest.mark.parametrize("deflation", ["schur", "projection"])
def test_the_exact_cardinality_is_reached_in_single_precision(deflation):
    """A column reduced to rounding by the first component does not displace another one."""
    X = load_wine().data
    for dtype in (np.float64, np.float32):
        for step, k in ((1, 3), (1, 13), (8, 3), (8, 10), (8, 13)):  # tall data by their covariance
            model = GPower(3, cardinality=k, deflation=deflation).fit(X[::step].astype(dtype))
            assert model.cardinality_.tolist() == [k] * 3
            assert model.components_.dtype == dtype


def test_entries_stored_in_parts_count_as_their_sum_wherever_samples_are_read():
    rows, columns = np.array([0, 0, 0, 1, 2, 2, 3]), np.array([0, 0, 1, 2, 1, 2, 0])
    parts = sp.csr_array((np.array([1.0, 1, 2, 3, 1, 5, 4]), columns, np.array([0, 3, 4, 6, 7])), shape=(4, 3))
    assert not parts.has_canonical_format
    whole = np.zeros((4, 3))
    np.add.at(whole, (rows, columns), [1.0, 1, 2, 3, 1, 5, 4])
    model = GPower(1, cardinality=2).fit(whole)
    assert model.score(parts) == pytest.approx(model.score(whole), rel=1e-12)
    np.testing.assert_allclose(model.transform(parts), model.transform(whole), atol=1e-12)
    by_parts, by_whole = (GPowerCV(1, cardinalities=[1, 2], cv=2).fit(X) for X in (parts, whole))
    np.testing.assert_allclose(by_parts.cv_results_["mean_test_score"], by_whole.cv_results_["mean_test_score"])
    assert parts.nnz == 7


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("p", "ratio"), [(30, 1e6), (30, 1e9), (9000, 1e6)])
def test_small_variances_are_small_not_zero(p, ratio, kind):
    X = np.random.default_rng(0).standard_normal((p, 40 if p == 30 else 2))
    X[:, 0] *= ratio
    with warnings.catch_warnings():  # only the own part of the second component is left
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ScaleWarning)  # the ratio of the scales is what is tested
        model = GPower(2, cardinality=1).fit(kind(X))
    own = X[:, np.argmax(model.components_, axis=1)]
    R = np.linalg.qr(own - own.mean(axis=0), mode="r")
    np.testing.assert_allclose(model.explained_variance_, np.diagonal(R) ** 2 / (p - 1), rtol=1e-6)


def test_what_a_component_adds_to_one_it_nearly_repeats_keeps_its_digits():
    X = np.random.default_rng(0).standard_normal((30, 3)) * [1e6, 1, 1e-3]
    X -= X.mean(axis=0)
    Z = np.array([[1.0, 0.8, 0.6], [0, 0.6, 0], [0, 0, 0.8]])
    expected = np.diagonal(np.linalg.qr(X @ Z, mode="r")) ** 2
    np.testing.assert_allclose(Scores.from_data(X, Z).compute_adjusted_variances(), expected, rtol=1e-6)


def test_repeated_components_add_nothing_in_single_precision():
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    Z = np.zeros((6, 3))
    Z[:2, 0], Z[:2, 1], Z[:3, 2] = (0.6, 0.8), (0.6, 0.8), (0.6, 0.8, 1e-9)
    for reduce in (True, False):
        adjusted = Scores.from_loadings(as_operator(X, reduce_tall=reduce)[0], Z).compute_adjusted_variances(
            keep_order=True
        )
        assert adjusted[0] > 0
        assert np.all(adjusted[1:] == 0)


@pytest.mark.parametrize("seed", range(2))
def test_variances_of_equal_components_are_those_of_the_order_reported(seed):
    """Single standardised variables have the same variance each."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 11)) + rng.standard_normal((20, 1))
    model = GPower(4, cardinality=1, scale=True, deflation="orthogonalized").fit(X)
    A = (X - model.mean_) / model.scale_
    np.testing.assert_allclose(adjusted_variance(A, model.components_.T) / 19, model.explained_variance_, rtol=1e-9)


def test_the_captured_share_is_that_of_the_projection_on_the_loadings():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((30, 7)) + 1, rng.standard_normal((7, 3))
    mean, scale = X.mean(axis=0), X.std(axis=0)
    total = 30 * 7
    expected = np.sum(((X - mean) / scale @ np.linalg.qr(Z)[0]) ** 2) / total
    assert compute_captured_share(X, Z, mean, scale) == pytest.approx(expected)
    assert compute_captured_share(X, Z, mean, scale, total=2 * total) == pytest.approx(expected / 2)
    assert compute_captured_share(np.zeros((4, 7)), Z, np.zeros(7), np.ones(7)) == 0


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_scores_of_data_have_the_adjusted_variances_of_a_qr_factorisation(convert):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((30, 7)) < 0.6, rng.standard_normal((30, 7)), 0.0)
    Z = rng.standard_normal((7, 3))
    scores = Scores.from_data(convert(X), Z)
    R = np.linalg.qr(X @ Z)[1]
    np.testing.assert_allclose(scores.compute_adjusted_variances(keep_order=True), np.diagonal(R) ** 2)
    np.testing.assert_allclose(scores.gram, (X @ Z).T @ (X @ Z))
    single = as_operator(convert(X.astype(np.float32)), center=False, reduce_tall=False)[0]
    Y = single.combine(Z.astype(np.float32)).astype(np.float64)  # products of scores are summed in float64
    np.testing.assert_allclose(Scores.from_loadings(single, Z).gram, Y.T @ Y, rtol=1e-9)
    tolerance = scores.norm_tolerance / (np.abs(Z).T @ np.linalg.norm(X, axis=0))
    assert np.ptp(tolerance) <= 1e-12 * tolerance[0]
    assert 0 < tolerance[0] < 1e-10


def test_a_variance_within_the_rounding_of_the_largest_inner_product_is_zero():
    for scale in (1.0, 1e6):
        Y = scale * np.random.default_rng(2).standard_normal((20, 3)) * [1.0, 1e-4, 1e-9]
        adjusted = Scores.from_gram(Y.T @ Y).compute_adjusted_variances()
        assert adjusted[0] == pytest.approx(Y[:, 0] @ Y[:, 0])
        assert adjusted[1] > 0
        assert adjusted[2] == 0


def test_measures_of_loadings_are_those_of_their_definitions():
    rng = np.random.default_rng(3)
    X, Z = rng.standard_normal((20, 9)), np.where(rng.random((9, 4)) < 0.5, rng.standard_normal((9, 4)), 0.0)
    Z[:, 2], Z[:, 3] = -2 * Z[:, 0], 0  # dependent on the first one, and nothing
    used = [set(np.flatnonzero(z)) for z in Z.T]
    np.testing.assert_array_equal(count_shared_variables(Z), [[len(a & b) for a in used] for b in used])
    grams = np.stack([Z.T @ Z, (X @ Z).T @ (X @ Z)])
    for vectors, cosines in zip((Z, X @ Z), cosine_matrix(grams), strict=True):
        np.testing.assert_allclose(cosines[:3, :3], np.corrcoef(np.vstack([vectors, -vectors])[:, :3].T), atol=1e-12)
        assert not cosines[3].any()
        assert not cosines[:, 3].any()
    assert captured_variance(grams[1], Z) == pytest.approx(np.sum((X @ np.linalg.svd(Z)[0][:, :2]) ** 2))
