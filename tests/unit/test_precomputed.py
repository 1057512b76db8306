"""Covariances that are handed over: lifted where rounding explains what is wrong with them, else refused."""

import numpy as np
import pytest

from gpower import GPower, certify, sparsity_path
from gpower.baselines import Greedy
from gpower.validation.covariance import EntryRounding, check_covariance


def singular(n=30, rank=10, seed=0, largest=1.0):
    """A correlation matrix of low rank, times a factor."""
    A = np.random.default_rng(seed).standard_normal((rank, n))
    A -= A.mean(axis=0)
    A /= np.linalg.norm(A, axis=0)
    return largest * A.T @ A


ROUNDED = {
    "3 decimals": lambda S: np.round(S, 3),
    "2 decimals": lambda S: np.round(S, 2),
    "7 decimals": lambda S: np.round(S, 7),
    "4 digits": lambda S: np.vectorize(lambda x: float(f"{x:.4g}"))(42 * S),
    "single precision": lambda S: S.astype(np.float32).astype(np.float64),
}


@pytest.mark.parametrize(("words", "how"), ROUNDED.items(), ids=ROUNDED)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "rank"), [(5, 4), (30, 10), (120, 5)])
def test_what_rounding_has_bent_is_lifted(words, how, seed, n, rank):
    S = how(singular(n, rank, seed))
    assert EntryRounding.from_matrix(S).description == words
    lifted, notes = check_covariance(S)
    w = np.linalg.eigvalsh(S)
    assert np.linalg.eigvalsh(lifted)[0] >= -1e-12 * w[-1]
    np.testing.assert_array_equal(lifted, lifted.T)
    assert np.linalg.norm(lifted - S, 2) <= max(-w[0], 0) * (1 + 1e-9) + 1e-12
    if notes:
        assert f"down to {w[0]:.2g}, as rounding to {words} explains" in notes[0]
        with pytest.raises(ValueError, match="not positive semidefinite: its smallest eigenvalue is -"):
            check_covariance(S, "error")
    assert bool(notes) == bool(np.any(lifted != S))


def test_the_fit_says_it_and_everybody_who_takes_a_covariance_takes_it():
    S = np.round(singular(), 3)
    assert np.linalg.eigvalsh(S)[0] < -1e-4
    options = {"cardinality": 3, "covariance": "precomputed"}
    model = GPower(2, **options).fit(S)
    assert "eigenvalue(s) below zero" in model.notes_[0]
    assert all(certificate.ratio <= 1 for certificate in certify(model, S))
    assert Greedy(2, **options).fit(S).notes_.tolist() == model.notes_.tolist()
    assert sparsity_path(S, cardinalities=[3], covariance="precomputed")[0].notes_.tolist() == model.notes_.tolist()
    with pytest.raises(ValueError, match="not positive semidefinite"):
        GPower(2, psd="error", **options).fit(S)


@pytest.mark.parametrize("by", [0.01, 0.1, 1.0])
def test_what_rounding_does_not_explain_is_refused(by):
    S = np.round(singular() - by * np.eye(30), 3)
    with pytest.raises(
        ValueError, match=r"smallest eigenvalue is -.*; rounding to 3 decimals explains -0.0066 at most"
    ):
        check_covariance(S)


@pytest.mark.parametrize("S", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[-0.3]]), np.diag([1.0, 1.0, -0.3])])
def test_few_digits_are_no_excuse_for_a_matrix_that_is_no_covariance(S):
    with pytest.raises(ValueError, match="not positive semidefinite"):
        check_covariance(S)


def test_a_covariance_is_never_changed_in_place():
    S = np.round(singular(), 3)
    before = S.copy()
    check_covariance(S)
    np.testing.assert_array_equal(S, before)
