"""Precomputed covariance and correlation matrices: detection, checks, and clipping of negligible eigenvalues."""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param

#: Largest number of variables for which the eigenvalues are computed; above it only the diagonal is checked.
MAX_EIGENVALUE_CHECK_VARIABLES = 3000
#: Negative eigenvalues down to this share of the largest are set to zero; published matrices reach −1e-9.
NEGLIGIBLE_EIGENVALUE_SHARE = 1e-6
#: Error of an entry or an eigenvalue that counts as rounding, relative to the largest entry: the larger of this number
#: and of these machine epsilons per variable. Matrices are written and read with few digits.
MIN_RELATIVE_ROUNDING, ROUNDING_IN_EPS_PER_VARIABLE = 1e-8, 1e3
#: A table looks symmetric if small entries differ by at most this share of the largest entry.
SYMMETRY_TOLERANCE = 1e-8


def detect_matrix_kind(X: Array, same_names: bool = False) -> str:
    """Return "correlation" or "covariance" if a table looks like such a matrix, else "".

    A correlation matrix is symmetric with a diagonal of ones and is not the identity. A covariance matrix is symmetric
    with a positive diagonal and has the `same_names` on both sides. Equal means up to 1e-5 relative or
    SYMMETRY_TOLERANCE of the largest absolute entry. X is a NumPy array of two dimensions and of float type, not
    changed; a table with missing values, or of fewer than three rows, is neither.

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
    if not (ones or (same_names and np.all(diagonal > 0))):
        return ""
    tolerance = SYMMETRY_TOLERANCE * float(np.max(np.abs(X)))
    # The first row rules out most square tables before the whole table is compared.
    if not np.allclose(X[0], X[:, 0], atol=tolerance) or not np.allclose(X, X.T, atol=tolerance):
        return ""
    return "correlation" if ones else "covariance"


def check_covariance(S: Array) -> tuple[Array, tuple[str, ...]]:
    """Return S if it is square, symmetric and positive semidefinite, and notes on what was changed.

    S is a NumPy array of two dimensions in float32 or float64, not empty, and all its entries are finite; it is not
    changed. Differences between both triangles, and negative eigenvalues, that are rounding errors (see
    MIN_RELATIVE_ROUNDING) stay, and S itself is returned without notes. Larger negative eigenvalues, down to
    −NEGLIGIBLE_EIGENVALUE_SHARE of the largest, are set to zero in a copy of the same dtype, with a note; still smaller
    ones raise a ValueError. Above MAX_EIGENVALUE_CHECK_VARIABLES variables only a negative diagonal entry is found, and
    raises.
    """
    if S.shape[0] != S.shape[1]:
        parameter = format_param("covariance", "precomputed")
        raise ValueError(f"{parameter} needs a square matrix, not one of shape {S.shape}; leave it out for samples.")
    largest = float(np.max(np.abs(S), initial=0))
    rounding = ROUNDING_IN_EPS_PER_VARIABLE * float(np.finfo(S.dtype).eps) * S.shape[0]
    tolerance = max(rounding, MIN_RELATIVE_ROUNDING) * largest
    difference = np.abs(S - S.T)
    i, j = np.unravel_index(int(np.argmax(difference)), S.shape)
    if difference[i, j] > tolerance:
        raise ValueError(
            f"The covariance is not symmetric: entry ({i}, {j}) is {S[i, j]:.6g} and ({j}, {i}) is {S[j, i]:.6g}."
        )
    small = S.shape[0] <= MAX_EIGENVALUE_CHECK_VARIABLES
    eigenvalues = np.linalg.eigvalsh(S) if small else np.sort(np.diagonal(S))
    smallest, limit = float(eigenvalues[0]), -NEGLIGIBLE_EIGENVALUE_SHARE * float(eigenvalues[-1])
    if smallest >= -tolerance:
        return S, ()
    if small and smallest >= limit:
        w, V = np.linalg.eigh(S)
        below = V[:, w < 0]
        clipped = S - (below * w[w < 0]) @ below.T
        count = f"{below.shape[1]} negative eigenvalue(s), down to {w[0]:.2g}"
        return (clipped + clipped.T) / 2, (f"The covariance has {count}, which is negligible; they are set to zero.",)
    raise ValueError(
        f"The covariance is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}, and only values down "
        f"to {limit:.2g} are set to zero. Entries rounded to few digits and pairwise deletion of missing values are "
        "common causes. Give the exact matrix, or set the negative eigenvalues to zero yourself."
    )
