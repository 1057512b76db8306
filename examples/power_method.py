"""The power method is the gradient scheme for f(x) = ½xᵀCx on the unit sphere [JNRS10, section 3.3].

One step is x ← Cx/‖Cx‖; the maximum is half the largest eigenvalue of the positive definite matrix C.
"""

from dataclasses import dataclass

import numpy as np

from gpower import maximize
from gpower.feasible_sets import Sphere


@dataclass
class Quadratic:
    """½xᵀCx, convex for positive semidefinite C."""

    C: np.ndarray

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(x) and f′(x) = Cx."""
        gradient = self.C @ x
        return 0.5 * float(x @ gradient), gradient


def matrix() -> np.ndarray:
    """Return a positive definite matrix: the covariance of a random walk of ten steps."""
    steps = np.arange(1, 11)
    return np.minimum.outer(steps, steps).astype(float)


def main() -> tuple[float, np.ndarray]:
    """Return the largest eigenvalue of the matrix and its eigenvector."""
    C = matrix()
    result = maximize(Quadratic(C), Sphere(), np.full(10, 10**-0.5), tol=1e-15)
    print(f"largest eigenvalue {2 * result.value:.6f} after {result.n_iter} steps")
    print(f"eigenvector        {np.round(result.point, 3)}")
    print(result.status)
    return 2 * result.value, result.point


if __name__ == "__main__":
    main()
