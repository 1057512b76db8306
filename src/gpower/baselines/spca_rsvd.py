"""sPCA-rSVD: rank-one approximations with thresholded loadings (Shen and Huang 2008)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially, keep_largest
from gpower.baselines.levels import bisect_penalty_level
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.calibration import set_problem_gamma
from gpower.solvers.working_set import ascend
from gpower.validation.params import FloatPerComponent


@dataclass(eq=False, repr=False, kw_only=True)
class RankOneSVD(Baseline):
    """Sparse loadings of the best rank-one approximation: soft or hard thresholding inside the power iteration.

    Minimises ‖A − x zᵀ‖² + penalty(z) by turns over x and z. The steps are those of `GPower` with the same
    penalty; what differs is the start, the first principal component, and that the loadings are read off as
    they are, shrunken ones included.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    penalty : {"l1", "l0"}, default="l1"
        Soft thresholding, or hard thresholding.
    cardinality : int or sequence of int, optional
        Number of variables, of all components or one number each. With "l0" that many correlations are kept in
        every step; with "l1" the smallest gamma that leaves no more is taken.
    gamma : float or sequence of float, optional
        Level as a fraction in [0, 1) of its largest useful value, as in `GPower`; default 0.1 (l1) or 0.01 (l0).
    covariance, center, scale
        As in `gpower.GPower`.
    deflation : {"projection", "orthogonalized", "schur"}, default="projection"
        As in `gpower.GPower`, whose default is "schur"; the authors deflate by projection.
    refit : bool, default=False
        Choose the loadings of the pattern anew, for the most variance.
    tol : float, default=1e-4
        Stop when the objective grows by no more than this, relatively; the setting of the GPower paper.
    max_iter : int, default=1000
        Most steps of an ascent.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_
        As in `gpower.GPower`.
    gamma_, objective_, n_iter_, converged_
        As in `gpower.GPower`.

    References
    ----------
    Shen, Huang (2008). Sparse principal component analysis via regularized low rank matrix approximation. Journal
    of Multivariate Analysis 99, 1015–1034.

    Examples
    --------
    >>> from gpower.baselines import RankOneSVD
    >>> from gpower.datasets import load_pitprops
    >>> model = RankOneSVD(1, penalty="l0", cardinality=4, covariance="precomputed")
    >>> model.fit(load_pitprops().correlation).explained_variance_.round(3)
    array([2.883])
    """

    penalty: str = "l1"
    gamma: FloatPerComponent = None
    deflation: str = "projection"
    tol: float = 1e-4
    max_iter: int = 1000

    _sparsity_param = "gamma"

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        return find_components_sequentially(task, self.deflation, self._find_component)

    def _find_component(self, task: ComponentTask) -> BaselineResult:
        """An ascent from the first principal component; gamma calibrated where a cardinality is wanted of ℓ1."""
        operator, norms = task.operator, task.operator.column_norms
        wish = task.fit_spec.sparsity.select_unit(task.component_index)
        problem, gamma = wish.make_problem(operator, norms, np.ones(1)), wish.compute_gamma(norms, np.ones(1))
        first, _ = compute_leading_components(operator, 1)
        start = problem.feasible_set.make_point(operator.combine(first.astype(operator.dtype)))

        def solve(gamma: float) -> BaselineResult:
            level = set_problem_gamma(problem, np.array([gamma])) if np.isfinite(gamma) else problem
            end = ascend(level, start, task.fit_spec.settings)
            return BaselineResult.from_ascent(end, level.compute_loadings(end.point), gamma=gamma)

        largest = float(problem.penalty.gamma_max(norms, np.ones(1))[0])
        if not (wish.has_cardinality_levels and np.isfinite(largest)):
            return solve(float(gamma[0]))
        k = int(wish.levels[0])
        unit = bisect_penalty_level(solve, BaselineResult.count_nonzero, largest, 0.0, k, prefer_densest=True)
        if unit.count_nonzero() == k:
            return unit
        note = f"No gamma gives exactly {k} variables; of {unit.count_nonzero()} the largest loadings were kept."
        return replace(unit, Z=keep_largest(unit.Z, [k]), notes=(note,))
