"""The certificate of d'Aspremont, Bach and El Ghaoui [dBE08], computed with p × p matrices: cheap for wide data.

Over unit vectors y of the sample space, Σ_{i∈I} (aᵢᵀy)² ≤ Σ_i [(aᵢᵀy)² − ρ]₊ + kρ for every ρ ≥ 0 and |I| ≤ k. Let
Bᵢ = aᵢaᵢᵀ − ρI. If Yᵢ ⪰ Bᵢ and Yᵢ ⪰ 0, then [yᵀBᵢy]₊ ≤ yᵀYᵢy, hence

    λ_k(Σ) ≤ λmax(Σ_i Yᵢ) + kρ,      max_z zᵀΣz − ρ‖z‖₀ ≤ λmax(Σ_i Yᵢ).

Given a unit vector x, with c = aᵢᵀx:

- c² > ρ: Yᵢ = Bᵢxxᵀ Bᵢ/(xᵀBᵢx). Bᵢ has one positive eigenvalue and xᵀBᵢx > 0, so it is negative semidefinite on the
  vectors that are Bᵢ-orthogonal to x, and Yᵢ − Bᵢ ⪰ 0.
- c² < ρ < ‖aᵢ‖²: Yᵢ = ρ(‖aᵢ‖² − ρ)/(ρ − c²)·p̂p̂ᵀ, p̂ the direction of aᵢ − cx. On the span of x and p̂, the determinant of
  Yᵢ − Bᵢ is zero and its first entry ρ − c² > 0; off it, Yᵢ − Bᵢ = ρI.
- ‖aᵢ‖² ≤ ρ: Yᵢ = 0. Such a variable need not even be read.

x is the scores of a component, so that the certificate is exact when that component is the solution of the semidefinite
relaxation.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array, reciprocal
from gpower.certificates.bounds import least
from gpower.certificates.eigenvalues import EPS, largest_eigenvalue

#: Values of ρ tried: shares of the way from the (k+1)-th to the k-th largest c².
SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
#: A c² nearer to ρ than this share of ‖aᵢ‖² makes Yᵢ too uncertain.
NEAR = 1e-7


def covering_eigenvalue(A: Array, x: Array, rho: float) -> float:
    """λmax(Σ_i Yᵢ) for columns A, (p, n), at a unit vector x, (p,); infinite where a c² is too near to ρ.

    Examples
    --------
    >>> import numpy as np
    >>> round(covering_eigenvalue(np.diag([2.0, 1.0]), np.array([1.0, 0.0]), 1.0), 6)
    3.0
    """
    squares = np.sum(A * A, axis=0)  # (n,)
    used = squares > rho
    A, squares = A[:, used], squares[used]
    c = A.T @ x
    distance = c * c - rho
    if np.any(np.abs(distance) < NEAR * squares):
        return np.inf
    active = distance > 0
    P = A - np.outer(x, c)
    V = np.where(active, A * c - rho * x[:, None], P)
    lengths = np.sum(P * P, axis=0)
    weights = np.where(active, 1 / distance, -rho * (squares - rho) / distance * reciprocal(lengths))
    size = weights * np.sum(V * V, axis=0)  # traces of the Yᵢ
    noise = 16 * (sum(A.shape)) * EPS * float(size @ (1 + squares / np.abs(distance)))
    return largest_eigenvalue((V * weights) @ V.T) + noise


def sample_space_bound(A: Array, x: Array, k: int) -> float:
    """The least λmax(Σ Yᵢ) + kρ over ρ between the (k+1)-th and the k-th largest (aᵢᵀx)²."""
    squares = np.sort((A.T @ x) ** 2)[::-1]
    low, high = (float(squares[k]) if k < squares.size else 0.0), float(squares[min(k, squares.size) - 1])
    if not high > low:
        return np.inf
    return least(lambda rho: covering_eigenvalue(A, x, rho) + k * rho, low + (high - low) * SHARES)[0]
