"""Precomputed covariances: negligible negative eigenvalues are set to zero, larger ones are refused."""

import re

import numpy as np
import pytest

from gpower import GPower, certify, sparsity_path
from gpower.baselines import Greedy
from gpower.validation.covariance import NEGLIGIBLE_EIGENVALUE_SHARE, check_covariance, detect_matrix_kind


def singular(n=30, rank=10, seed=0):
    """Return a correlation matrix of low rank."""
    A = np.random.default_rng(seed).standard_normal((rank, n))
    A -= A.mean(axis=0)
    A /= np.linalg.norm(A, axis=0)
    return A.T @ A


def shifted(share, **options):
    """Return a matrix whose smallest eigenvalue is minus a share of the largest."""
    S = singular(**options)
    largest = np.linalg.eigvalsh(S)[-1]
    return S - share / (1 + share) * largest * np.eye(len(S))


@pytest.mark.parametrize("share", [1e-7, 0.9 * NEGLIGIBLE_EIGENVALUE_SHARE])
@pytest.mark.parametrize(("n", "rank"), [(5, 4), (30, 10), (120, 5)])
def test_negligible_negative_eigenvalues_are_set_to_zero(share, n, rank):
    S = shifted(share, n=n, rank=rank)
    clipped, notes = check_covariance(S)
    w = np.linalg.eigvalsh(S)
    assert np.linalg.eigvalsh(clipped)[0] >= -1e-12 * w[-1]
    np.testing.assert_array_equal(clipped, clipped.T)
    assert np.linalg.norm(clipped - S, 2) <= -w[0] * (1 + 1e-6) + 1e-12
    assert f"{np.count_nonzero(w < 0)} negative eigenvalue(s), down to {w[0]:.2g}" in notes[0]


@pytest.mark.parametrize(
    "S",
    [
        *(shifted(share) for share in (1.1 * NEGLIGIBLE_EIGENVALUE_SHARE, 0.01, 1.0)),
        *(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[-0.3]]), np.diag([1.0, 1.0, -0.3])),
    ],
)
def test_other_negative_eigenvalues_are_refused(S):
    smallest = re.escape(f"{np.linalg.eigvalsh(S)[0]:.6g}")
    with pytest.raises(ValueError, match=f"not positive semidefinite: its smallest eigenvalue is {smallest}"):
        check_covariance(S)


def test_every_function_that_takes_a_covariance_raises_the_note():
    S = np.round(singular(), 6)
    options = {"cardinality": 3, "covariance": "precomputed"}
    model = GPower(2, **options).fit(S)
    assert "negative eigenvalue(s)" in model.notes_[0]
    assert all(certificate.ratio <= 1 for certificate in certify(model, S))
    assert Greedy(2, **options).fit(S).notes_.tolist() == model.notes_.tolist()
    assert sparsity_path(S, cardinalities=[3], covariance="precomputed")[0].notes_.tolist() == model.notes_.tolist()


def test_rounding_errors_raise_no_note_and_a_covariance_is_never_changed_in_place():
    for S, n_notes in ((singular(), 0), (np.round(singular(), 6), 1)):
        before = S.copy()
        assert len(check_covariance(S)[1]) == n_notes
        np.testing.assert_array_equal(S, before)


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1.0, 1e9])
@pytest.mark.parametrize("entry", [(0, 1), (2, 3)])
def test_symmetry_is_judged_by_the_size_of_the_entries(size, entry):
    S = size * np.cov(np.random.default_rng(0).standard_normal((50, 4)), rowvar=False)
    assert detect_matrix_kind(S, same_names=True) == "covariance"
    rounding, difference = np.zeros_like(S), np.zeros_like(S)
    rounding[entry], difference[entry] = 1e-9 * size, 1e-2 * size
    assert detect_matrix_kind(S + rounding, same_names=True) == "covariance"
    assert detect_matrix_kind(S + difference, same_names=True) == ""
