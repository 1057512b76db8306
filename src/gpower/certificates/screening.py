"""Variables that no better support contains, and variables that every better one contains, from one point of the dual.

Let M be the matrix of (R) in `rows`, b the free price, c what the fixed variables pay, and let a support be better if
its value exceeds `level`. With P = θI − M for the right θ each question is whether a small change of P is positive
definite.

*Out.* If i is in the support its row need not be charged: with M⁽ⁱ⁾ = M − eᵢrᵢᵀ − rᵢeᵢᵀ − (ρᵢ²/b)eᵢeᵢᵀ,
λmax(M⁽ⁱ⁾) + c + (slots − 1)·b ≤ level means that no better support contains i. At θ = level − c − (slots − 1)·b, if
P ≻ 0, P + [eᵢ rᵢ]·C·[eᵢ rᵢ]ᵀ with C = [[ρᵢ²/b, 1], [1, 0]], of one positive and one negative eigenvalue, stays positive
definite if and only if C⁻¹ + [eᵢ rᵢ]ᵀP⁻¹[eᵢ rᵢ] has one of each too: its determinant is negative.

*In.* λmax(M without row and column i) + c + slots·b ≤ level means that every better support contains i. At
θ = level − c − slots·b, if P has exactly one negative eigenvalue, that is so if and only if (P⁻¹)ᵢᵢ < 0.

Both for all i from one eigendecomposition; doubtful signs count as no.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array
from gpower.certificates.eigenvalues import rounding
from gpower.certificates.rows import RowProblem, Rows

#: Relative size below which a sign is doubtful, and how far θ stays below what is allowed.
DOUBT, SLACK = 1e-8, 1e-9


def screen(problem: RowProblem, rows: Rows, level: float) -> tuple[Array, Array]:
    """Variables that may be kept, and variables that must be in, both (n,) of bool."""
    keep, must = np.ones(problem.fixed.size, bool), problem.fixed.copy()
    if problem.slots < 1 or problem.fixed.all():
        return keep, must
    b = float(np.max(rows.prices[~problem.fixed]))
    paid = float(np.sum(rows.prices[problem.fixed]))
    w, Q = np.linalg.eigh(problem.matrix(rows))
    safe = SLACK + 4 * rounding(w)
    theta = level - paid - (problem.slots - 1) * b - safe
    if w[-1] < theta:
        keep = problem.fixed | ~_excluded(problem, rows, Q, 1 / (theta - w))
    theta -= b
    if w[-1] > theta and (w.size == 1 or w[-2] < theta - safe):
        terms = Q**2 / (theta - w)  # (n, n); the diagonal of P⁻¹ is the sum of each row
        must = must | (np.sum(terms, axis=1) < -DOUBT * np.sum(np.abs(terms), axis=1))
    return keep, must


def _excluded(problem: RowProblem, rows: Rows, Q: Array, inverse: Array) -> Array:
    """The sign of the 2 × 2 determinant for all variables, P⁻¹ = Q diag(inverse) Qᵀ positive definite."""
    R = rows.R
    charge = np.sum(np.where(problem.counted(R), R**2, 0.0), axis=1) / rows.prices
    RQ = R @ Q
    corner = np.sum(Q * Q * inverse, axis=1)  # (P⁻¹)ᵢᵢ
    cross = np.sum(Q * RQ * inverse, axis=1)  # eᵢᵀP⁻¹rᵢ
    other = np.sum(RQ * RQ * inverse, axis=1)  # rᵢᵀP⁻¹rᵢ
    determinant = corner * (other - charge) - (1 + cross) ** 2
    return np.asarray(determinant < -DOUBT * (corner * (other + charge) + (1 + np.abs(cross)) ** 2))
