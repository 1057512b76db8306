"""The shifted power method: the largest eigenvalue of an *indefinite* matrix [JNRS10, section 3.3].

For indefinite C the function ½xᵀCx is not convex and the scheme has no guarantee: the plain step would converge to the
eigenvector of −6, with alternating signs, because −6 is larger than 5 in absolute value. ½xᵀ(C + ωI)x is convex if ω
exceeds −λ_min(C), and on the unit sphere it differs from ½xᵀCx by a constant.
"""

from dataclasses import dataclass

import numpy as np

from gpower import maximize
from gpower.feasible_sets import Sphere


@dataclass
class ShiftedQuadratic:
    """½xᵀ(C + ωI)x, convex for ω ≥ −λ_min(C)."""

    C: np.ndarray
    shift: float

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(x) and f′(x) = Cx + ωx."""
        gradient = self.C @ x + self.shift * x
        return 0.5 * float(x @ gradient), gradient


def matrix() -> np.ndarray:
    """Return a symmetric matrix with eigenvalues −6, −3, −1, 2, 4, 5."""
    Q, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, 6)))
    return (Q * np.array([-6.0, -3.0, -1.0, 2.0, 4.0, 5.0])) @ Q.T


def main() -> tuple[float, np.ndarray]:
    """Return the largest eigenvalue of the matrix and its eigenvector."""
    C = matrix()
    shift = float(np.max(np.sum(np.abs(C), axis=1)))  # no eigenvalue is larger in absolute value (Gershgorin)
    start = np.full(6, 6**-0.5)
    result = maximize(ShiftedQuadratic(C, shift), Sphere(), start, tol=1e-15, max_iter=10_000)
    eigenvalue = 2 * result.value - shift
    print(f"largest eigenvalue {eigenvalue:.6f} after {result.n_iter} steps with the shift {shift:.3f}")
    print(f"eigenvector        {np.round(result.point, 3)}")
    print(result.status)
    return eigenvalue, result.point


if __name__ == "__main__":
    main()
