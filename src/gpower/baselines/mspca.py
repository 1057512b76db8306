"""msPCA: alternating updates of the components under a growing penalty on dependence (Cory-Wright, Pauphilet 2026)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, Seed, normalize_columns
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, multiply_gram
from gpower.operators import Operator
from gpower.operators.explained_variance import cosine_matrix
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint

#: Maximum number of steps of a truncated power iteration, the relative change of its value at which it stops, and the
#: number of random starts in addition to the current component.
MAX_POWER_STEPS, POWER_VALUE_TOLERANCE, N_RANDOM_STARTS = 50, 1e-9, 10
#: Share of the rounds in which the penalty grows in proportion to the violation; later it grows by value/violation.
VIOLATION_PHASE_END = 0.15
#: Share of the rounds after which the penalty grows faster, and both growth rates.
FAST_GROWTH_START, SLOW_GROWTH_SHARE, FAST_GROWTH_SHARE = 0.75, 0.01, 0.05
#: Relative change of the variance at which the method stops once components are feasible.
OBJECTIVE_TOLERANCE = 1e-8


@dataclass(eq=False, repr=False, kw_only=True)
class MSPCA(Baseline):
    """Orthogonal or uncorrelated components by alternating truncated power iterations and a growing penalty.

    Each component in turn maximises zᵀΣz − λ Σ_s w_s(zᵀB z_s)², summed over the others s, with B = I or Σ and a fixed
    cardinality. The penalty λ grows in every round until the violation is below a positive tolerance.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int
        Number of variables of every component, or one number for each. It is required.
    constraint : {"orthogonal", "uncorrelated"}, default="orthogonal"
        Constraint between components: orthogonal loadings or uncorrelated scores.
    max_iter : int, default=200
        Maximum number of rounds.
    tol : float, default=1e-4
        Largest accepted violation: the sum over pairs of |cosines| of loadings, or |correlations| of scores.
    random_state : int, RandomState or None
        Seed of the random starts. None stands for a fixed seed.
    covariance, center, scale, refit
        As in the other methods; refitted loadings need not satisfy the constraint.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_
        As in `gpower.GPower`; `converged_` says whether the violation is at most `tol`, `n_iter_` counts rounds.
    overlap_, loading_correlation_, score_correlation_ : ndarray of shape (n_components, n_components)
        As in `gpower.GPower`; they measure the constraint.

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
                f"constraint={self.constraint!r}: this method has orthogonal and uncorrelated components only."
            )

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        components = _AlternatingComponents(
            task.operator, task.target_cardinality or [], CONSTRAINTS[self.constraint], task.rng
        )
        best: Array | None = None
        best_variance = -np.inf
        last_variance = 0.0
        n_iter = 0
        for n_iter in range(1, self.max_iter + 1):
            components.update_components()
            variance = components.compute_variance()
            violation = components.compute_violation()
            if violation <= self.tol and variance > best_variance:
                best = components.Z.copy()
                best_variance = variance
            if best is not None and abs(variance - last_variance) <= OBJECTIVE_TOLERANCE * variance:
                break
            last_variance = variance
            components.increase_penalty(variance, max(violation, 1e-7), n_iter / self.max_iter)
        Z = components.Z if best is None else best
        return [BaselineResult(Z, n_iter, best is not None, objective=components.compute_variance())]


class _AlternatingComponents:
    """State of one run: the loadings, (n_features, m), and the penalty on their dependence. Σ stands for AᵀA."""

    def __init__(
        self, operator: Operator, cardinality: list[int], constraint: Constraint, rng: np.random.RandomState
    ) -> None:
        self.operator, self.cardinality, self.constraint, self.rng = operator, cardinality, constraint, rng
        self.Z = np.zeros((operator.shape[1], len(cardinality)), operator.dtype)  # unit columns after the first round
        self.penalty = 0.0  # λ
        self.pair_weights = np.zeros(len(cardinality))  # w_s of component s

    def compute_variance(self) -> float:
        """Return the total variance of the components, in units of ‖A z‖²."""
        return float(np.sum(self.Z * multiply_gram(self.operator, self.Z)))

    def compute_violation(self) -> float:
        """Return the sum over pairs of |cosines| of loadings, or of scores."""
        other = multiply_gram(self.operator, self.Z) if self.constraint.name == "uncorrelated" else self.Z
        return float(np.abs(np.triu(cosine_matrix(self.Z.T @ other), 1)).sum())

    def increase_penalty(self, value: float, violation: float, progress: float) -> None:
        """Increase the penalty for the next round; `progress`, from 0 to 1, is the share of rounds done.

        `value` is the total variance of the components, and `violation` that of the constraint, positive.
        """
        step = SLOW_GROWTH_SHARE if progress < FAST_GROWTH_START else FAST_GROWTH_SHARE
        self.penalty += step * (violation if progress < VIOLATION_PHASE_END else value / violation)

    def update_components(self) -> None:
        """Maximise the penalised variance of every component in turn, the others held fixed.

        The first round has random starts only and no penalty, and its values become the weights of the components.
        """
        is_first_round = not self.Z.any()
        for j, k in enumerate(self.cardinality):
            others = np.delete(self.Z, j, axis=1)
            V = multiply_gram(self.operator, others) if self.constraint.name == "uncorrelated" else others
            V = V * np.sqrt(self.penalty * np.delete(self.pair_weights, j))
            starts = self.rng.standard_normal((len(self.Z), N_RANDOM_STARTS)).astype(V.dtype)
            if not is_first_round:
                starts = np.hstack([self.Z[:, j : j + 1], starts])
            self.Z[:, j], value = self._run_power_iterations(starts, V, k)
            if is_first_round:
                self.pair_weights[j] = value

    def _run_power_iterations(self, Z: Array, V: Array, cardinality: int) -> tuple[Array, float]:
        """Run truncated power iterations of Σ − VVᵀ, shifted to be positive semidefinite, from every column of Z.

        Z is (n_features, n_starts), not zero; V is (n_features, m − 1); both are in the dtype of the operator. Return
        the unit loadings, (n_features,), of the largest zᵀ(Σ − VVᵀ)z, and that value.
        """
        shift = float(np.linalg.eigvalsh(V.T @ V)[-1]) if V.shape[1] else 0.0
        last = np.full(Z.shape[1], -np.inf)
        Z = normalize_columns(Z)
        for _ in range(MAX_POWER_STEPS):
            Y = multiply_gram(self.operator, Z) - V @ (V.T @ Z)
            values = np.sum(Z * Y, axis=0)
            if np.all(values <= last + POWER_VALUE_TOLERANCE * np.abs(values)):
                break
            Y = Y + shift * Z
            small = np.argpartition(np.abs(Y), -cardinality, axis=0)[:-cardinality]
            np.put_along_axis(Y, small, 0.0, axis=0)
            last, Z = values, normalize_columns(Y)
        best = int(np.argmax(last))
        return Z[:, best], float(last[best])
