"""msPCA: components in turn, with a growing price of being correlated (Cory-Wright and Pauphilet 2026)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, Seed, unit_columns
from gpower.baselines.base import Baseline, Task, Unit
from gpower.operators import Operator
from gpower.operators.explained_variance import cosines
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint

#: Steps of a truncated power iteration, the change of its value that ends it, and random starts beside the present one.
POWER_STEPS, AT_REST, STARTS = 50, 1e-9, 10
#: Growth of the price: these shares of the violation in the first part of the rounds, of value/violation after it.
SLOW_PART, FAST_PART, SLOW, FAST = 0.15, 0.75, 0.01, 0.05
#: The change of the objective at which feasible components are final.
SETTLED = 1e-8


@dataclass(eq=False, repr=False, kw_only=True)
class MSPCA(Baseline):
    """Orthogonal or uncorrelated components by alternating truncated power iterations and a growing penalty.

    Each component in turn maximises zᵀΣz − λ Σ_s w_s(zᵀB z_s)² over the others s, B = I or Σ, with a cardinality. The
    penalty λ grows from round to round until the violation is below a tolerance, which is not zero.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int
        Number of variables, of all components or one number each. It has to be given.
    constraint : {"orthogonal", "uncorrelated"}, default="orthogonal"
        What the components owe each other.
    max_iter : int, default=200
        Most rounds.
    tol : float, default=1e-4
        Sum over pairs of |cosines| of loadings, or |correlations| of scores, that counts as none.
    random_state : int, RandomState or None
        Of the starts of the first round.
    covariance, center, scale, refit
        As in the other methods; a refit gives up the constraint.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_
        As in `gpower.GPower`; `converged_` says whether the violation was reached, `n_iter_` counts rounds.
    overlap_, loading_correlation_, score_correlation_ : ndarray of shape (n_components, n_components)
        As in `gpower.GPower`: what the constraint is about.

    References
    ----------
    Cory-Wright, Pauphilet (2026). Sparse PCA with multiple components. Operations Research.

    Examples
    --------
    >>> from gpower.baselines import MSPCA
    >>> from gpower.datasets import load_pitprops
    >>> model = MSPCA(3, cardinality=4, covariance="precomputed").fit(load_pitprops().correlation)
    >>> bool(abs(model.loading_correlation_[0, 1]) < 1e-4), bool(model.converged_[0])
    (True, True)
    """

    constraint: str = "orthogonal"
    max_iter: int = 200
    tol: float = 1e-4
    random_state: Seed = None

    _explains_short = True

    def _check(self, shape: tuple[int, int]) -> None:
        if self.constraint not in ("orthogonal", "uncorrelated"):
            raise ValueError(
                f"constraint={self.constraint!r}: this method knows orthogonal and uncorrelated components only."
            )

    def _extract(self, task: Task) -> list[Unit]:
        rounds = _Rounds(task.operator, task.wanted or [], CONSTRAINTS[self.constraint], task.rng)
        best, value, found, last, count = rounds.Z, -np.inf, False, 0.0, 0
        for count in range(1, self.max_iter + 1):
            rounds.turn()
            now, violation = rounds.value(), rounds.violation()
            if violation <= self.tol and now > value:
                best, value, found = rounds.Z.copy(), now, True
            if found and abs(now - last) <= SETTLED * now:
                break
            last = now
            rounds.grow(now, max(violation, 1e-7), count / self.max_iter)
        return [Unit(best if found else rounds.Z, count, found, objective=rounds.value())]


class _Rounds:
    """The components of one run, and the price that they pay."""

    def __init__(
        self, operator: Operator, wanted: list[int], constraint: Constraint, rng: np.random.RandomState
    ) -> None:
        self.operator, self.wanted, self.constraint, self.rng = operator, wanted, constraint, rng
        self.Z = np.zeros((operator.shape[1], len(wanted)), operator.dtype)
        self.S = np.zeros(0) if operator.has_samples else operator.gram(np.arange(operator.shape[1]))
        self.price, self.weights = 0.0, np.zeros(len(wanted))

    def product(self, Z: Array) -> Array:
        """ΣZ."""
        if not self.operator.has_samples:
            return self.S @ Z
        return self.operator.correlate(self.operator.combine(Z))

    def value(self) -> float:
        """Σ zⱼᵀΣzⱼ."""
        return float(np.sum(self.Z * self.product(self.Z)))

    def violation(self) -> float:
        """Σ over pairs of |cosines| of loadings or scores."""
        other = self.product(self.Z) if self.constraint.word == "uncorrelated" else self.Z
        return float(np.abs(np.triu(cosines(self.Z.T @ other), 1)).sum())

    def grow(self, value: float, violation: float, progress: float) -> None:
        """The price of the next round."""
        step = SLOW if progress < FAST_PART else FAST
        self.price += step * (violation if progress < SLOW_PART else value / violation)

    def turn(self) -> None:
        """Every component once."""
        first = not self.Z.any()
        for j, k in enumerate(self.wanted):
            others = np.delete(self.Z, j, axis=1)
            V = self.product(others) if self.constraint.word == "uncorrelated" else others
            V = V * np.sqrt(self.price * np.delete(self.weights, j))
            chance = self.rng.standard_normal((len(self.Z), STARTS)).astype(V.dtype)
            Z, values = self._power(chance if first else np.hstack([self.Z[:, j : j + 1], chance]), V, k)
            best = int(np.argmax(values))
            self.Z[:, j] = Z[:, best]
            if first:
                self.weights[j] = values[best]

    def _power(self, Z: Array, V: Array, k: int) -> tuple[Array, Array]:
        """Truncated power iterations of Σ − VVᵀ, shifted to be positive semidefinite, and the values at their ends."""
        shift, last = float(np.linalg.eigvalsh(V.T @ V)[-1]) if V.shape[1] else 0.0, np.full(Z.shape[1], -np.inf)
        Z = unit_columns(Z)
        for _ in range(POWER_STEPS):
            Y = self.product(Z) - V @ (V.T @ Z)
            values = np.sum(Z * Y, axis=0)
            if np.all(values <= last + AT_REST * np.abs(values)):
                break
            Y = Y + shift * Z
            small = np.argpartition(np.abs(Y), -k, axis=0)[:-k]
            np.put_along_axis(Y, small, 0.0, axis=0)
            last, Z = values, unit_columns(Y)
        return Z, last
