"""Covariance and correlation matrices as they are given: recognised, checked, lifted where rounding bent them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array

#: Largest matrix whose eigenvalues are looked at; of a larger one the diagonal is.
MAX_EIGENVALUE_CHECK_VARIABLES = 3000
#: Share of the largest eigenvalue down to which a negative one is set to zero: published matrices reach −1e-9.
NEGLIGIBLE_EIGENVALUE_SHARE = 1e-6


def detect_matrix_kind(X: Array, same_names: bool = False) -> str:
    """What a symmetric table with a diagonal of ones, or with the same names on both sides, is; or "".

    The identity, which holds no correlations, is nobody's.

    Examples
    --------
    >>> import numpy as np
    >>> detect_matrix_kind(np.eye(3) + 0.5 * (1 - np.eye(3))), detect_matrix_kind(np.ones((3, 4)))
    ('correlation', '')
    """
    n_rows, n_columns = X.shape
    if n_rows != n_columns or n_rows < 3:
        return ""
    diagonal = np.diag(X)
    ones = np.allclose(diagonal, 1) and np.count_nonzero(X) > n_rows
    # The first row spares most square tables the comparison of everything.
    if not (ones or (same_names and np.all(diagonal > 0))) or not np.allclose(X[0], X[:, 0]) or not np.allclose(X, X.T):
        return ""
    return "correlation" if ones else "covariance"


@dataclass(frozen=True)
class EntryRounding:
    """How the entries of a matrix were rounded, in words, and how far that may move its eigenvalues.

    Errors of half a unit u in the last place, evenly spread, move them by up to about 1.2 √n u, errors that conspire by
    n u; the smaller of twice the first and the second counts.
    """

    description: str
    max_eigenvalue_shift: float

    @classmethod
    def from_matrix(cls, S: Array) -> EntryRounding:
        """From the digits seen: so many decimals, so many significant digits, or single precision.

        Examples
        --------
        >>> import numpy as np
        >>> EntryRounding.from_matrix(np.array([[1.0, 0.954], [0.954, 1.0]]))
        EntryRounding(description='3 decimals', max_eigenvalue_shift=0.001)
        """
        n, S = S.shape[0], S.astype(np.float64)
        if np.all(S.astype(np.float32) == S):
            return cls("single precision", n * float(np.max(np.abs(S)) * np.finfo(np.float32).eps))
        sizes = np.where(S == 0, np.finfo(float).tiny, np.abs(S))
        exponents = np.ceil(np.log10(sizes) - 1e-12)  # of the first digit plus one; that of 1.00 is 0, as of 0.99
        decimals = next((d for d in range(16) if np.array_equal(np.round(S, d), S)), 16)
        digits = next((d for d in range(1, 17) if _fits_significant_digits(S, exponents, d)), 17)
        reach = 0.5 * min(float(n), 2.4 * float(np.sqrt(n)))
        largest = float(np.max(exponents))
        if decimals + largest <= digits:  # the large entries have as many
            return cls(f"{decimals} decimals", reach * 10.0**-decimals)
        return cls(f"{digits} digits", reach * 10.0 ** (largest - digits))


def _fits_significant_digits(S: Array, exponents: Array, digits: int) -> bool:
    """Whether no entry has more significant digits."""
    unit = 10.0 ** (exponents - digits)
    return bool(np.all(np.abs(np.round(S / unit) * unit - S) <= 4 * np.finfo(np.float64).eps * np.abs(S)))


def check_covariance(S: Array, psd: str = "lift") -> tuple[Array, tuple[str, ...]]:
    """S, if it is a covariance: square, symmetric and positive semidefinite; and what was done to it, in words.

    Negative eigenvalues that rounding of the entries explains are lifted to zero, or refused with ``psd="error"``.
    """
    if S.shape[0] != S.shape[1]:
        raise ValueError(
            f'covariance="precomputed" needs a square matrix of variables × variables, got shape {S.shape}; '
            "for data of samples × variables leave covariance=None."
        )
    largest = float(np.max(np.abs(S), initial=0))
    tolerance = max(1e3 * float(np.finfo(S.dtype).eps) * S.shape[0], 1e-8) * largest
    difference = np.abs(S - S.T)
    i, j = np.unravel_index(int(np.argmax(difference)), S.shape)
    if difference[i, j] > tolerance:
        raise ValueError(
            f"The covariance is not symmetric: entry ({i}, {j}) is {S[i, j]:.6g} and ({j}, {i}) is {S[j, i]:.6g}."
        )
    small = S.shape[0] <= MAX_EIGENVALUE_CHECK_VARIABLES
    eigenvalues = np.linalg.eigvalsh(S) if small else np.sort(np.diagonal(S))
    smallest, negligible = float(eigenvalues[0]), NEGLIGIBLE_EIGENVALUE_SHARE * float(eigenvalues[-1])
    if smallest >= -tolerance:
        return S, ()
    rounding = EntryRounding.from_matrix(S)
    if small and psd == "lift" and -smallest <= max(rounding.max_eigenvalue_shift, negligible):
        explained = (
            f"as rounding to {rounding.description} explains"
            if -smallest <= rounding.max_eigenvalue_shift
            else "which is negligible"
        )
        return _clip_negative_eigenvalues(S, explained)
    explained = ""
    if psd == "lift":
        explained = f"; rounding to {rounding.description} explains {-rounding.max_eigenvalue_shift:.2g} at most"
        explained += f", and one down to {-negligible:.2g} would be negligible"
    raise ValueError(
        f"The covariance is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}{explained}. "
        "A covariance of real data has none below zero; pairwise deletion of missing values is a common cause."
    )


def _clip_negative_eigenvalues(S: Array, reason: str) -> tuple[Array, tuple[str, ...]]:
    """Return S with its negative eigenvalues set to zero, and the note that says so."""
    w, V = np.linalg.eigh(S)
    below = V[:, w < 0]
    note = (
        f"The covariance has {below.shape[1]} eigenvalue(s) below zero, down to {w[0]:.2g}, {reason}; "
        "they count as zero."
    )
    clipped = S - (below * w[w < 0]) @ below.T
    return (clipped + clipped.T) / 2, (note,)
