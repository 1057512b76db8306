"""
The optimiser
=============

``maximize`` is the ascent of this package: the gradient scheme for a convex function over a compact set. It needs an
object that computes the value and the gradient, and a set that maximises linear functions. For a quadratic function on
the sphere it is the power method.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from gpower import maximize
from gpower.feasible_sets import Sphere
from gpower.solvers.ascent import Trace


@dataclass
class Quadratic:
    """½xᵀCx, convex for a positive semidefinite C."""

    C: np.ndarray

    def value_and_gradient(self, x):
        """Return the value and the gradient at x."""
        return 0.5 * x @ self.C @ x, self.C @ x


# %%
# C is the covariance of a random walk of ten steps. Every step of the scheme increases the value, and ``gap``
# measures the violation of the first-order condition.
steps = np.arange(1.0, 11)
C = np.minimum.outer(steps, steps)
trace = Trace()
start = np.full(10, 10**-0.5)
result = maximize(Quadratic(C), Sphere(), start, tol=1e-15, callback=trace)
print(result.status)
largest = np.linalg.eigvalsh(C)[-1]
print(f"twice the value {2 * result.value:.9f}, largest eigenvalue {largest:.9f}")

# %%
_, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.semilogy(trace.gaps, "o-")
axes.set(xlabel="iteration", ylabel="first-order gap")

# %%
# The paper's three examples are separate scripts: :download:`power_method.py <../../examples/power_method.py>`,
# :download:`shifted_power_method.py <../../examples/shifted_power_method.py>` for indefinite matrices,
# :download:`procrustes.py <../../examples/procrustes.py>` over matrices with orthonormal columns.
