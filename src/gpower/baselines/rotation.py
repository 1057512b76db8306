"""Rotated principal components: varimax and quartimax towards few large loadings (Jolliffe 1995)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from gpower._utils.arrays import Array, Seed, normalize_columns, polar_factor
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask
from gpower.baselines.thresholding import check_threshold, truncate_loadings
from gpower.feasible_sets import Stiefel
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.ascent import AscentResult, maximize
from gpower.solvers.refit import StallCallback
from gpower.validation.params import check_int, check_option

#: Power of the eigenvalue that the squared length of a loading vector gets before rotation.
LENGTH_EXPONENTS = {"unit": 0.0, "variance": 1.0, "whitened": -1.0}
#: Weight of the subtracted term of `OrthomaxObjective`.
CRITERION_WEIGHTS = {"varimax": 1.0, "quartimax": 0.0}


@dataclass(eq=False, repr=False, kw_only=True)
class RotatedPCA(Baseline):
    """The leading principal components, rotated towards loadings that are either large or small.

    The subspace, and so the variance of all components together, stays that of PCA until small loadings are
    set to zero.

    Parameters
    ----------
    n_components : int, default=2
        Number of components that are rotated.
    cardinality : int or sequence of int, optional
        Afterwards keep that many largest loadings, of all components or one number each.
    threshold : float, optional
        Afterwards keep loadings of at least this absolute value; with neither, all are kept.
    criterion : {"varimax", "quartimax"}, default="varimax"
        Sum over the components of the variance of the squared loadings, or the sum of their fourth powers.
    normalization : {"unit", "variance", "whitened"}, default="unit"
        Length of the loading vectors while they are rotated: 1 keeps them orthogonal (both criteria then agree);
        √λ as in factor analysis; 1/√λ keeps the scores uncorrelated.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Choose the kept loadings anew, for the most variance.
    n_init : int, default=8
        Starts: no rotation, then random ones.
    tol, max_iter : float and int, default=1e-10, 5000
        Stop when the criterion grows by no more than this, relatively; most steps from each start.
    random_state : int, RandomState or None
        Of the random starts. None stands for a fixed seed.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_iter_, converged_
        As in `gpower.GPower`, by decreasing variance; `n_iter_` and `converged_` have one entry.
    rotation_ : ndarray of shape (n_components, n_components)
        Orthogonal R; the rotated loadings are V R, V with the columns of the chosen length.

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
        R, rank = (
            np.eye(task.n_components),
            int(np.count_nonzero(variances)),
        )  # beyond the rank there is nothing to rotate
        if rank == 0:
            return [BaselineResult(V, extra_attributes={"rotation_": R})]
        L = V[:, :rank] * (variances[:rank] / variances[0]) ** (LENGTH_EXPONENTS[self.normalization] / 2)
        best = self._find_rotation(L.astype(np.float64), task)
        Z = normalize_columns(L @ best.point).astype(V.dtype)
        order = np.argsort(-Scores.from_loadings(task.operator, Z).variances, kind="stable")
        R[:rank, :rank] = best.point[:, order]
        Z = np.pad(Z[:, order], ((0, 0), (0, task.n_components - rank)))
        return [
            BaselineResult.from_ascent(
                best,
                truncate_loadings(Z, task.target_cardinality, self.threshold or 0.0),
                extra_attributes={"rotation_": R},
            )
        ]

    def _find_rotation(self, L: Array, task: ComponentTask) -> AscentResult:
        """The best end of an ascent from no rotation and from random ones."""
        objective, m, settings = (
            OrthomaxObjective(L, CRITERION_WEIGHTS[self.criterion]),
            L.shape[1],
            task.fit_spec.settings,
        )
        starts = [np.eye(m)] + [
            polar_factor(task.rng.standard_normal((m, m))) for _ in range(self.n_init - 1 if m > 1 else 0)
        ]
        ascend = partial(maximize, objective, Stiefel(), max_iter=settings.max_iter)
        ends = [ascend(R, tol=settings.tol, acceleration=True) for R in starts]
        best = max(ends, key=lambda end: end.value)
        # Values settle at the square of the points' error: go on by plain steps until the loadings rest.
        rested = ascend(best.point, tol=-1.0, callback=StallCallback(objective.rotate_loadings, 0.0))
        value = best.value - objective.convexity_shift / 2 * m
        return replace(best, last_state=replace(rested.last_state, n_iter=best.n_iter, value=value))


@dataclass(frozen=True, eq=False)
class OrthomaxObjective:
    """Σᵢⱼ ℓᵢⱼ⁴ − (weight/n) Σⱼ (Σᵢ ℓᵢⱼ²)² of ℓ = L R, as a function of the rotation R.

    Varimax for weight 1, quartimax for 0. Convex on the unit balls once (ω/2)‖R‖², constant on rotations, is added,
    as it is here: ω = 12 weight ‖LᵀL‖²/n bounds the curvature of the subtracted term.
    """

    L: Array  # (n, m)
    weight: float

    @cached_property
    def convexity_shift(self) -> float:
        """Strong convexity that makes up for the subtracted term."""
        return 12 * self.weight / self.L.shape[0] * float(np.linalg.norm(self.L, 2)) ** 4

    def rotate_loadings(self, R: Array) -> Array:
        """L R."""
        return np.asarray(self.L @ R)

    def value_and_gradient(self, R: Array) -> tuple[float, Array]:
        """The criterion and its gradient, with the convexifying term."""
        n = self.L.shape[0]
        rotated = self.rotate_loadings(R)
        squares = rotated**2
        sums = squares.sum(axis=0)
        value = float(np.sum(squares**2) - self.weight / n * np.sum(sums**2) + self.convexity_shift / 2 * np.sum(R**2))
        return value, 4 * self.L.T @ (rotated * (squares - self.weight / n * sums)) + self.convexity_shift * R
