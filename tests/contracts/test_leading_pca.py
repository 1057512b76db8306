"""Leading principal components computed from products with the matrix alone."""

import numpy as np
import pytest
from scipy import sparse

from gpower.operators import as_operator
from gpower.operators.leading_pca import compute_leading_components


@pytest.mark.parametrize("kind", ["wide", "tall", "sparse", "covariance"])
def test_leading_components_from_products_agree_with_a_dense_eigendecomposition(kind, monkeypatch):
    A = np.random.default_rng(0).standard_normal((150, 40)) * np.linspace(1, 3, 40)
    A = A.T if kind == "wide" else A
    data = {"sparse": sparse.csr_array(A), "covariance": A.T @ A}.get(kind, A)
    operator, _ = as_operator(data, center=False, covariance=kind == "covariance")
    values, V = np.linalg.eigh(A.T @ A)
    monkeypatch.setattr("gpower.operators.leading_pca.MAX_DENSE_EIGEN_ORDER", 8)
    Z, variances = compute_leading_components(operator, 2)
    np.testing.assert_allclose(variances, values[[-1, -2]], rtol=1e-9)
    np.testing.assert_allclose(np.abs(Z.T @ V[:, [-1, -2]]), np.eye(2), atol=1e-6)
    monkeypatch.setattr("gpower.operators.leading_pca.MAX_DENSE_EIGEN_ORDER", 1000)
    monkeypatch.setattr("gpower.operators.leading_pca.MAX_DENSE_ORDER_OF_ONE", 8)
    z, largest = compute_leading_components(operator, 1)
    np.testing.assert_allclose(largest, values[-1:], rtol=1e-9)
    assert abs(z[:, 0] @ V[:, -1]) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["wide", "tall", "sparse", "covariance"])
@pytest.mark.parametrize("idx", [None, np.array([0, 3, 4, 7, 11])], ids=["all", "some"])
@pytest.mark.parametrize("max_dense_order", [2, 100])
def test_components_of_some_columns_are_eigenvectors_and_zero_beyond_the_rank(kind, idx, max_dense_order, monkeypatch):
    monkeypatch.setattr("gpower.operators.leading_pca.MAX_DENSE_EIGEN_ORDER", max_dense_order)
    rng = np.random.default_rng(1)
    A = rng.standard_normal((4 if kind == "wide" else 30, 3)) @ rng.standard_normal((3, 12))
    A[:, 4] = 0
    data = {"sparse": sparse.csr_array(A), "covariance": A.T @ A}.get(kind, A)
    operator = as_operator(data, center=False, covariance=kind == "covariance", reduce_tall=False)[0]
    chosen = np.arange(12) if idx is None else idx
    gram = A[:, chosen].T @ A[:, chosen]
    for m in (1, 2, 5, 13):
        Z, variances = compute_leading_components(operator, m, idx)
        expected = np.append(np.linalg.eigvalsh(gram)[:-4:-1], np.zeros(10))[:m]
        np.testing.assert_allclose(variances, expected, atol=1e-9)
        np.testing.assert_allclose(Z.T @ Z, np.diag(np.arange(m) < 3), atol=1e-9)
        np.testing.assert_allclose(gram @ Z, Z * variances, atol=1e-8)
        np.testing.assert_array_equal(variances[3:], 0)
        np.testing.assert_array_equal(Z[chosen == 4], 0)


@pytest.mark.parametrize("size", [0.0, 1e-100, 1e100])
def test_a_single_component_of_many_columns_is_found_at_any_scale(size):
    X = size * np.random.default_rng(2).standard_normal((160, 200))
    for data in (X, X.T):
        values, V = np.linalg.eigh(data.T @ data)
        z, variance = compute_leading_components(as_operator(data, center=False, reduce_tall=False)[0], 1)
        np.testing.assert_allclose(variance, values[-1:], rtol=1e-9)
        assert abs(z[:, 0] @ V[:, -1]) == pytest.approx(float(size > 0))


@pytest.mark.parametrize(("share", "is_noise"), [(40, True), (160, False)])
def test_an_eigenvalue_within_rounding_of_the_largest_is_zero(share, is_noise):
    values = np.zeros(100)
    values[:2] = 1e6, 1e6 * share * np.finfo(float).eps  # the bound is eighty units for a hundred columns
    Z, variances = compute_leading_components(as_operator(np.diag(values), covariance=True)[0], 2)
    assert (variances[1] == 0) == is_noise
    assert Z[:, 1].any() != is_noise
