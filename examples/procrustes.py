"""The rectangular Procrustes problem: min ‖C − DX‖² over X with orthonormal columns [JNRS10, section 3.4].

‖C − DX‖² = ‖C‖² + ‖DX‖² − 2⟨DᵀC, X⟩, and ‖X‖² is constant on the Stiefel manifold, so the problem is to maximise
ω‖X‖² − ‖DX‖² + 2⟨DᵀC, X⟩, which is convex if ω is at least the largest eigenvalue of DᵀD. (The paper writes CD for
DᵀC.) One step is the polar factor of ωX − DᵀDX + DᵀC.
"""

from dataclasses import dataclass, field

import numpy as np

from gpower import AscentResult, maximize
from gpower.feasible_sets import Stiefel


@dataclass
class Procrustes:
    """ω‖X‖² − ‖DX‖² + 2⟨DᵀC, X⟩ with ω = λ_max(DᵀD)."""

    C: np.ndarray
    D: np.ndarray
    omega: float = field(init=False)

    def __post_init__(self) -> None:
        self.omega = float(np.linalg.norm(self.D, 2) ** 2)

    def value_and_gradient(self, X: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(X) and f′(X) = 2(ωX − DᵀDX + DᵀC)."""
        half_slope, linear = self.omega * X - self.D.T @ (self.D @ X), self.D.T @ self.C
        return float(np.vdot(half_slope + 2 * linear, X)), 2 * (half_slope + linear)

    def residual(self, X: np.ndarray) -> float:
        """Return ‖C − DX‖²."""
        return float(np.sum((self.C - self.D @ X) ** 2))


def solve(C: np.ndarray, D: np.ndarray, start: np.ndarray | None = None) -> AscentResult:
    """Find a stationary point of the Procrustes problem, by default from the polar factor of DᵀC."""
    start = Stiefel().argmax_linear(D.T @ C) if start is None else start
    return maximize(Procrustes(C, D), Stiefel(), start, tol=1e-14, max_iter=20_000)


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Return C = DX + noise, for a random X with orthonormal columns, and D."""
    rng = np.random.default_rng(0)
    D = np.diag(np.linspace(1, 3, 8)) + 0.2 * rng.standard_normal((8, 8))
    X, _ = np.linalg.qr(rng.standard_normal((8, 3)))
    return D @ X + 0.1 * rng.standard_normal((8, 3)), D


def main() -> tuple[float, np.ndarray]:
    """Return the residual ‖C − DX‖² and the orthonormal X that attains it."""
    C, D = problem()
    result = solve(C, D)
    residual = Procrustes(C, D).residual(result.point)
    print(f"residual {residual:.6f} of {np.sum(C**2):.6f} after {result.n_iter} steps, gap {result.gap:.1e}")
    print(result.status)
    return residual, result.point


if __name__ == "__main__":
    main()
