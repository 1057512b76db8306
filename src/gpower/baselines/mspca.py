"""msPCA: components in turn, with a growing price of being correlated (Cory-Wright and Pauphilet 2026)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, Seed, normalize_columns
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask
from gpower.operators import Operator
from gpower.operators.explained_variance import cosine_matrix
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint

#: Steps of a truncated power iteration, the change of its value that ends it, and random starts beside the present one.
MAX_POWER_STEPS, POWER_VALUE_TOLERANCE, N_RANDOM_STARTS = 50, 1e-9, 10
#: Growth of the price: these shares of the violation in the first part of the rounds, of value/violation after it.
VIOLATION_PHASE_END, FAST_GROWTH_START, SLOW_GROWTH_SHARE, FAST_GROWTH_SHARE = 0.15, 0.75, 0.01, 0.05
#: The change of the objective at which feasible components are final.
OBJECTIVE_TOLERANCE = 1e-8


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

    _explains_shortfall = True

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        if self.constraint not in ("orthogonal", "uncorrelated"):
            raise ValueError(
                f"constraint={self.constraint!r}: this method knows orthogonal and uncorrelated components only."
            )

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        rounds = _AlternatingComponents(
            task.operator, task.target_cardinality or [], CONSTRAINTS[self.constraint], task.rng
        )
        best, value, found, last, count = rounds.Z, -np.inf, False, 0.0, 0
        for count in range(1, self.max_iter + 1):
            rounds.update_components()
            now, violation = rounds.compute_variance(), rounds.compute_violation()
            if violation <= self.tol and now > value:
                best, value, found = rounds.Z.copy(), now, True
            if found and abs(now - last) <= OBJECTIVE_TOLERANCE * now:
                break
            last = now
            rounds.increase_penalty(now, max(violation, 1e-7), count / self.max_iter)
        return [BaselineResult(best if found else rounds.Z, count, found, objective=rounds.compute_variance())]


class _AlternatingComponents:
    """The components of one run, and the price that they pay."""

    def __init__(
        self, operator: Operator, cardinality: list[int], constraint: Constraint, rng: np.random.RandomState
    ) -> None:
        self.operator, self.cardinality, self.constraint, self.rng = operator, cardinality, constraint, rng
        self.Z = np.zeros((operator.shape[1], len(cardinality)), operator.dtype)
        self.gram = np.zeros(0) if operator.has_samples else operator.gram(np.arange(operator.shape[1]))
        self.penalty, self.pair_weights = 0.0, np.zeros(len(cardinality))

    def multiply_gram(self, Z: Array) -> Array:
        """ΣZ."""
        if not self.operator.has_samples:
            return self.gram @ Z
        return self.operator.correlate(self.operator.combine(Z))

    def compute_variance(self) -> float:
        """Σ zⱼᵀΣzⱼ."""
        return float(np.sum(self.Z * self.multiply_gram(self.Z)))

    def compute_violation(self) -> float:
        """Σ over pairs of |cosines| of loadings or scores."""
        other = self.multiply_gram(self.Z) if self.constraint.name == "uncorrelated" else self.Z
        return float(np.abs(np.triu(cosine_matrix(self.Z.T @ other), 1)).sum())

    def increase_penalty(self, value: float, violation: float, progress: float) -> None:
        """The price of the next round."""
        step = SLOW_GROWTH_SHARE if progress < FAST_GROWTH_START else FAST_GROWTH_SHARE
        self.penalty += step * (violation if progress < VIOLATION_PHASE_END else value / violation)

    def update_components(self) -> None:
        """Every component once."""
        first = not self.Z.any()
        for j, k in enumerate(self.cardinality):
            others = np.delete(self.Z, j, axis=1)
            V = self.multiply_gram(others) if self.constraint.name == "uncorrelated" else others
            V = V * np.sqrt(self.penalty * np.delete(self.pair_weights, j))
            chance = self.rng.standard_normal((len(self.Z), N_RANDOM_STARTS)).astype(V.dtype)
            Z, values = self._run_power_iterations(chance if first else np.hstack([self.Z[:, j : j + 1], chance]), V, k)
            best = int(np.argmax(values))
            self.Z[:, j] = Z[:, best]
            if first:
                self.pair_weights[j] = values[best]

    def _run_power_iterations(self, Z: Array, V: Array, cardinality: int) -> tuple[Array, Array]:
        """Truncated power iterations of Σ − VVᵀ, shifted to be positive semidefinite, and the values at their ends."""
        shift, last = float(np.linalg.eigvalsh(V.T @ V)[-1]) if V.shape[1] else 0.0, np.full(Z.shape[1], -np.inf)
        Z = normalize_columns(Z)
        for _ in range(MAX_POWER_STEPS):
            Y = self.multiply_gram(Z) - V @ (V.T @ Z)
            values = np.sum(Z * Y, axis=0)
            if np.all(values <= last + POWER_VALUE_TOLERANCE * np.abs(values)):
                break
            Y = Y + shift * Z
            small = np.argpartition(np.abs(Y), -cardinality, axis=0)[:-cardinality]
            np.put_along_axis(Y, small, 0.0, axis=0)
            last, Z = values, normalize_columns(Y)
        return Z, last
