"""Rotated principal components: varimax and quartimax rotation to few large loadings (Jolliffe 1995)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from gpower._utils.arrays import Array, Seed, normalize_columns
from gpower._utils.polar_factor_and_signs import polar_factor
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask
from gpower.baselines.thresholding import check_threshold, truncate_loadings
from gpower.feasible_sets import Stiefel
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.ascent import AscentResult, maximize
from gpower.solvers.refit import StallCallback
from gpower.validation.params import check_int, check_option

#: Exponent e of each normalisation: before the rotation, the squared length of a loading vector is λᵉ for eigenvalue λ.
LENGTH_EXPONENTS = {"unit": 0.0, "variance": 1.0, "whitened": -1.0}
#: Weight of the subtracted term of `OrthomaxObjective` for each criterion.
CRITERION_WEIGHTS = {"varimax": 1.0, "quartimax": 0.0}


@dataclass(eq=False, repr=False, kw_only=True)
class RotatedPCA(Baseline):
    """Leading principal components, rotated so that loadings are either large or small.

    The components span the subspace of PCA and explain the same total variance until small loadings are set to zero.

    Parameters
    ----------
    n_components : int, default=2
        Number of components that are rotated.
    cardinality : int or sequence of int, optional
        Number of loadings kept in every component after the rotation, the largest ones, or one number for each.
    threshold : float, optional
        Smallest absolute value of a loading that is kept after the rotation. By default all are kept.
    criterion : {"varimax", "quartimax"}, default="varimax"
        Sum over the components of the variance of the squared loadings, or the sum of their fourth powers.
    normalization : {"unit", "variance", "whitened"}, default="unit"
        Length of the loading vectors during the rotation: 1, which keeps them orthogonal (both criteria then agree);
        √λ, as in factor analysis; or 1/√λ, which keeps the scores uncorrelated.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Recompute the kept loadings to maximise the variance.
    n_init : int, default=8
        Number of starts: the identity and random rotations.
    tol, max_iter : float and int, default=1e-10, 5000
        Relative increase of the criterion at which an ascent stops, and the maximum number of steps from each start.
    random_state : int, RandomState or None
        Seed of the random starts. None stands for a fixed seed.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_iter_, converged_
        As in `gpower.GPower`, by decreasing variance; `n_iter_` and `converged_` have one entry.
    rotation_ : ndarray of shape (n_components, n_components)
        Orthogonal matrix R: the rotated loadings are V R, where V has the PCA loadings scaled to the chosen length.

    References
    ----------
    Jolliffe (1995). Rotation of principal components: choice of normalization constraints. Journal of Applied
    Statistics 22, 29–35.

    Examples
    --------
    >>> from gpower.baselines import RotatedPCA
    >>> from gpower.datasets import load_pitprops
    >>> model = RotatedPCA(6, covariance="precomputed").fit(load_pitprops().correlation)
    >>> round(float(100 * model.score(load_pitprops().correlation)), 1)
    87.0
    """

    threshold: float | None = None
    criterion: str = "varimax"
    normalization: str = "unit"
    n_init: int = 8
    tol: float = 1e-10
    max_iter: int = 5000
    random_state: Seed = None

    _sparsity_param = "threshold"

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        check_threshold(self.threshold)
        check_option(self.criterion, "criterion", tuple(CRITERION_WEIGHTS))
        check_option(self.normalization, "normalization", tuple(LENGTH_EXPONENTS))
        check_int(self.n_init, "n_init", 1)

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        V, variances = compute_leading_components(task.operator, task.n_components)
        R = np.eye(task.n_components)
        rank = int(np.count_nonzero(variances))  # components beyond the rank are zero and not rotated
        if rank == 0:
            return [BaselineResult(V, extra_attributes={"rotation_": R})]
        L = V[:, :rank] * (variances[:rank] / variances[0]) ** (LENGTH_EXPONENTS[self.normalization] / 2)
        best = self._find_rotation(L.astype(np.float64), task)
        Z = normalize_columns(L @ best.point).astype(V.dtype)
        order = np.argsort(-Scores.from_loadings(task.operator, Z).variances, kind="stable")
        R[:rank, :rank] = best.point[:, order]
        Z = np.pad(Z[:, order], ((0, 0), (0, task.n_components - rank)))
        Z = truncate_loadings(Z, task.target_cardinality, self.threshold or 0.0)
        return [BaselineResult.from_ascent(best, Z, extra_attributes={"rotation_": R})]

    def _find_rotation(self, L: Array, task: ComponentTask) -> AscentResult:
        """Return the best ascent from the identity and from random rotations; its point is R, (m, m).

        L, (n, m) in float64, has the loadings to rotate, one at least. The value is that of the criterion, without the
        convexifying term; the point is refined by further steps that `n_iter` does not count.
        """
        objective = OrthomaxObjective(L, CRITERION_WEIGHTS[self.criterion])
        m = L.shape[1]
        settings = task.fit_spec.settings
        n_random = self.n_init - 1 if m > 1 else 0
        starts = [np.eye(m), *(polar_factor(task.rng.standard_normal((m, m))) for _ in range(n_random))]
        ascend = partial(maximize, objective, Stiefel(), max_iter=settings.max_iter)
        results = [ascend(R, tol=settings.tol, acceleration=True) for R in starts]
        best = max(results, key=lambda result: result.value)
        # The error of the value is the square of the point's error: continue with plain steps until the loadings stall.
        stalled = ascend(best.point, tol=-1.0, callback=StallCallback(objective.rotate_loadings, 0.0))
        value = best.value - objective.convexity_shift / 2 * m
        return replace(best, last_state=replace(stalled.last_state, n_iter=best.n_iter, value=value))


@dataclass(frozen=True, eq=False)
class OrthomaxObjective:
    """Criterion Σᵢⱼ ℓᵢⱼ⁴ − (weight/n) Σⱼ (Σᵢ ℓᵢⱼ²)² of ℓ = L R, as a function of the rotation R.

    The weight is 1 for varimax and 0 for quartimax. Adding (ω/2)‖R‖², which is constant on rotations, makes the
    function convex on the unit balls: ω = 12 weight ‖LᵀL‖²/n bounds the curvature of the subtracted term.
    """

    L: Array  # (n, m)
    weight: float

    @cached_property
    def convexity_shift(self) -> float:
        """Return ω, which makes up for the curvature of the subtracted term."""
        return 12 * self.weight / self.L.shape[0] * float(np.linalg.norm(self.L, 2)) ** 4

    def rotate_loadings(self, R: Array) -> Array:
        """Return the rotated loadings L R, (n, m)."""
        return np.asarray(self.L @ R)

    def value_and_gradient(self, R: Array) -> tuple[float, Array]:
        """Return the criterion and its gradient, (m, m), both with the convexifying term."""
        n = self.L.shape[0]
        rotated = self.rotate_loadings(R)
        squares = rotated**2
        sums = squares.sum(axis=0)
        value = float(np.sum(squares**2) - self.weight / n * np.sum(sums**2) + self.convexity_shift / 2 * np.sum(R**2))
        return value, 4 * self.L.T @ (rotated * (squares - self.weight / n * sums)) + self.convexity_shift * R
