"""
The optimiser on its own
========================

``maximize`` is the loop behind everything here: the gradient scheme for a convex function over a compact set. A
function that tells its value and gradient, and a set that knows where a linear function is largest, are all it needs.
With a quadratic function on the sphere it is the power method.
"""

from dataclasses import dataclass

import numpy as np

from gpower import maximize
from gpower.feasible_sets import Sphere
from gpower.plotting import plot_convergence
from gpower.solvers.ascent import Trace


@dataclass
class Quadratic:
    """½xᵀCx, convex for a positive semidefinite C."""

    C: np.ndarray

    def value_and_gradient(self, x):
        """Value and gradient at a point."""
        return 0.5 * x @ self.C @ x, self.C @ x


# %%
# The covariance of a random walk of ten steps. Every step of the scheme raises the value, and ``gap`` tells how far a
# point is from meeting the first-order condition.
steps = np.arange(1.0, 11)
C = np.minimum.outer(steps, steps)
trace = Trace()
start = np.full(10, 10**-0.5)
result = maximize(Quadratic(C), Sphere(), start, tol=1e-15, callback=trace)
print(result.status)
largest = np.linalg.eigvalsh(C)[-1]
print(f"twice the value {2 * result.value:.9f}, largest eigenvalue {largest:.9f}")

# %%
plot_convergence(trace)

# %%
# The paper's three examples are scripts of their own: :download:`power_method.py <../../examples/power_method.py>`,
# :download:`shifted_power_method.py <../../examples/shifted_power_method.py>` for indefinite matrices,
# :download:`procrustes.py <../../examples/procrustes.py>` over matrices with orthonormal columns.
