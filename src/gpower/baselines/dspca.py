"""DSPCA: the semidefinite relaxation of sparse PCA (d'Aspremont, El Ghaoui, Jordan and Lanckriet 2007)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially, keep_largest
from gpower.baselines.semidefinite import solve_relaxation

#: Largest number of variables: every step is an eigendecomposition of a matrix of that order.
MAX_FEATURES = 500


@dataclass(eq=False, repr=False, kw_only=True)
class DSPCA(Baseline):
    """Leading eigenvector of the semidefinite relaxation, truncated to its largest loadings, with an upper bound.

    Maximises ⟨Σ, X⟩ over X ⪰ 0 with tr X = 1 and Σ|Xᵢⱼ| ≤ k. This convex problem relaxes X = zzᵀ with k nonzeros in z,
    so that its value bounds the variance of every component of k variables.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number k of variables of every component, or one number for each; by default a fifth of the variables.
    covariance, center, scale
        As in `gpower.GPower`.
    deflation : {"projection", "orthogonalized", "schur"}, default="projection"
        As in `gpower.GPower`, whose default is "schur".
    refit : bool, default=False
        Recompute the loadings on their support to maximise the variance.
    tol : float, default=1e-4
        Relative difference between the bound and the value of the relaxation at which the method stops.
    max_iter : int, default=2000
        Maximum number of steps, each an eigendecomposition.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_iter_, converged_
        As in `gpower.GPower`; `objective_` is the value of the relaxation.
    upper_bound_ : ndarray of shape (n_components,)
        Upper bound on the variance of any component of that many variables, in the matrix deflated by the earlier
        components and in the units of `explained_variance_`. It is valid even if the method did not converge.

    References
    ----------
    d'Aspremont, El Ghaoui, Jordan, Lanckriet (2007). A direct formulation for sparse PCA using semidefinite
    programming. SIAM Review 49, 434–448.

    Examples
    --------
    >>> from gpower.baselines import DSPCA
    >>> from gpower.datasets import load_pitprops
    >>> model = DSPCA(1, cardinality=5, covariance="precomputed").fit(load_pitprops().correlation)
    >>> bool(3.4061 < model.upper_bound_[0] < 3.46)
    True
    """

    deflation: str = "projection"
    tol: float = 1e-4
    max_iter: int = 2000

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        if shape[1] > MAX_FEATURES:
            raise ValueError(
                f"n_features={shape[1]}: DSPCA factorises a matrix of variables × variables in every step and takes up "
                f"to {MAX_FEATURES} variables. Select variables first, or use another method."
            )

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        return find_components_sequentially(task, self.deflation, self._find_component, upper_bound_=np.zeros(1))

    def _find_component(self, task: ComponentTask) -> BaselineResult:
        operator, n = task.operator, task.operator.shape[1]
        k = task.target_cardinality[task.component_index] if task.target_cardinality else max(1, -(-n // 5))
        S = operator.gram(np.arange(n)).astype(np.float64)
        relaxed = solve_relaxation(S, k, tol=task.fit_spec.settings.tol, max_iter=task.fit_spec.settings.max_iter)
        _, V = np.linalg.eigh(relaxed.X)
        Z = keep_largest(np.where(operator.column_norms[:, None] > 0, V[:, -1:], 0), [k]).astype(operator.dtype)
        bounds = {"upper_bound_": np.array([relaxed.upper_bound / task.degrees_of_freedom])}
        return BaselineResult(Z, relaxed.n_iter, relaxed.converged, objective=relaxed.value, extra_attributes=bounds)
