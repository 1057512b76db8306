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
    monkeypatch.setattr("gpower.operators.leading_pca.MIN_LANCZOS_ORDER", 8)
    z, largest = compute_leading_components(operator, 1, start=V[:, -1] + 0.01)
    np.testing.assert_allclose(largest, values[-1:], rtol=1e-9)
    assert abs(z[:, 0] @ V[:, -1]) == pytest.approx(1)
