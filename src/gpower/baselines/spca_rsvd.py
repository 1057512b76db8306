"""sPCA-rSVD: rank-one approximations with thresholded loadings (Shen and Huang 2008)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially, keep_largest
from gpower.baselines.penalty_levels import bisect_penalty_level
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.penalty_calibration import set_problem_gamma
from gpower.solvers.working_set import ascend
from gpower.validation.params import FloatPerComponent


@dataclass(eq=False, repr=False, kw_only=True)
class RankOneSVD(Baseline):
    """Sparse rank-one approximation: power iteration with soft or hard thresholding of the loadings.

    Minimises ‖A − x zᵀ‖² + penalty(z), alternating between x and z. The steps are those of `GPower` with the same
    penalty. The differences are the start, which is the first principal component, and that the loadings are not
    refitted.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    penalty : {"l1", "l0"}, default="l1"
        Soft thresholding ("l1") or hard thresholding ("l0").
    cardinality : int or sequence of int, optional
        Number of variables of every component, or one number for each. With "l0" every step keeps that many
        correlations; with "l1" the smallest gamma that gives the number is used.
    gamma : float or sequence of float, optional
        Penalty as a fraction in [0, 1) of its largest useful value, as in `GPower`; default 0.1 (l1) or 0.01 (l0).
    covariance, center, scale
        As in `gpower.GPower`.
    deflation : {"projection", "orthogonalized", "schur"}, default="projection"
        As in `gpower.GPower`, whose default is "schur"; the authors deflate by projection.
    refit : bool, default=False
        Recompute the loadings on their support to maximise the variance.
    tol : float, default=1e-4
        Relative increase of the objective at which an ascent stops; the default is that of the GPower paper.
    max_iter : int, default=1000
        Maximum number of steps.

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
        """Ascend from the first principal component; calibrate gamma if an ℓ1 component has a target cardinality.

        The matrix of the task is deflated and has a column that varies.
        """
        operator, norms = task.operator, task.operator.column_norms
        sparsity = task.fit_spec.sparsity.select_unit(task.component_index)
        problem = sparsity.make_problem(operator, norms, np.ones(1))
        first, _ = compute_leading_components(operator, 1)
        start = problem.feasible_set.make_point(operator.combine(first.astype(operator.dtype)))

        def solve(gamma: float) -> BaselineResult:
            penalized = set_problem_gamma(problem, np.array([gamma])) if np.isfinite(gamma) else problem
            ascent = ascend(penalized, start, task.fit_spec.settings)
            return BaselineResult.from_ascent(ascent, penalized.compute_loadings(ascent.point), gamma=gamma)

        gamma_max = float(problem.penalty.gamma_max(norms, np.ones(1))[0])
        if not (sparsity.has_cardinality_levels and np.isfinite(gamma_max)):
            return solve(float(sparsity.compute_gamma(norms, np.ones(1))[0]))
        k = int(sparsity.levels[0])
        result = bisect_penalty_level(solve, BaselineResult.count_nonzero, gamma_max, 0.0, k, prefer_densest=True)
        count = result.count_nonzero()
        if count == k:
            return result
        note = f"No penalty gives exactly {k} variables; the largest of {count} loadings were kept."
        return replace(result, Z=keep_largest(result.Z, [k]), notes=(note,))
