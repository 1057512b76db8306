"""scikit-learn's SparsePCA as a baseline, with its penalty calibrated to a number of variables."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import SparsePCA
from sklearn.exceptions import ConvergenceWarning

from gpower._utils.arrays import Array, Seed, normalize_columns
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask
from gpower.baselines.penalty_levels import bisect_penalty_level
from gpower.operators.base import Operator
from gpower.validation.params import check_float

#: Warning if the components do not have the requested cardinalities.
SINGLE_ALPHA_NOTE = (
    "scikit-learn's SparsePCA has one penalty for all components: their total number of variables is calibrated, "
    "not the number of each."
)
#: Smallest penalty of the calibration, relative to the largest useful one.
MIN_ALPHA_RATIO = 1e-6


@dataclass(eq=False, repr=False, kw_only=True)
class ScikitLearnSparsePCA(Baseline):
    """`sklearn.decomposition.SparsePCA`: dictionary learning with an ℓ1 penalty on the loadings.

    The wrapper is meant for comparisons. It adds the calibration to a number of variables, unit loadings, adjusted
    variance and warnings. Data are centred, and scaled if requested, as a dense array.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number of variables of every component, or one number for each. `alpha` is calibrated to their sum.
    alpha : float, optional
        Penalty of scikit-learn, in the units of the data; default 1.
    covariance : None
        Must be None, because the method needs the samples.
    center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Recompute the loadings on their support to maximise the variance.
    tol, max_iter : float and int, default=1e-4, 1000
        Tolerance and maximum number of iterations of each fit, as in scikit-learn.
    random_state : int, RandomState or None
        Seed of scikit-learn. None stands for a fixed seed.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_iter_, converged_
        As in `gpower.GPower`; `n_passes_` does not count the passes of scikit-learn.
    alpha_ : ndarray of shape (n_components,)
        Penalty of the fit, equal for all components.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from gpower.baselines import ScikitLearnSparsePCA
    >>> X = np.random.RandomState(0).standard_normal((20, 6)) * [3, 3, 3, 1, 1, 1]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     model = ScikitLearnSparsePCA(2, cardinality=3).fit(X)
    >>> int(model.cardinality_.sum())
    6
    """

    alpha: float | None = None
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Seed = None

    _sparsity_param = "alpha"
    _requires_samples = True
    _explains_shortfall = True

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        if self.alpha is not None:
            check_float(self.alpha, "alpha", 0.0)
        if self.covariance is not None:
            raise ValueError("scikit-learn's SparsePCA needs the samples; it takes no precomputed covariance.")

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        A = _get_dense_samples(task.operator, centred=bool(self.center))
        if task.target_cardinality is None:
            result = self._fit_at_alpha(A, task, 1.0 if self.alpha is None else float(self.alpha))
            return [replace(result, Z=result.Z.astype(task.operator.dtype))]
        total = sum(task.target_cardinality)
        max_alpha = float(task.operator.column_norms.max())
        fit = partial(self._fit_at_alpha, A, task)
        count = BaselineResult.count_nonzero
        result = bisect_penalty_level(fit, count, max_alpha, MIN_ALPHA_RATIO * max_alpha, total)
        Z = _keep_largest_overall(result.Z, total).astype(task.operator.dtype)
        is_uneven = np.any(np.count_nonzero(Z, axis=0) != task.target_cardinality)
        return [replace(result, Z=Z, notes=(SINGLE_ALPHA_NOTE,) if is_uneven else ())]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _fit_at_alpha(self, A: Array, task: ComponentTask, alpha: float) -> BaselineResult:
        """Fit scikit-learn's SparsePCA to samples A, (p, n_features), at one penalty.

        The loadings are unit columns in float64 or the dtype of A; the callers convert them.
        """
        options = {"method": "cd", "tol": self.tol, "max_iter": self.max_iter, "random_state": self.random_state or 0}
        model = SparsePCA(task.n_components, alpha=alpha, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # raised by single regressions
            model.fit(A)
        n_iter = int(model.n_iter_)
        Z = normalize_columns(model.components_.T)
        attributes = {"alpha_": np.full(task.n_components, alpha)}
        return BaselineResult(Z, n_iter, n_iter < self.max_iter, extra_attributes=attributes)


def _get_dense_samples(operator: Operator, centred: bool) -> Array:
    """Return the matrix A as a dense array, (p, n_features), for scikit-learn, which would centre it again.

    Raise ValueError for a sparse matrix. If the mean of A is not zero, every row is repeated with the opposite sign, so
    that centring has no effect, and divided by √2, so that AᵀA is the same.
    """
    if operator.is_sparse:
        raise ValueError("scikit-learn's SparsePCA takes no sparse matrix of samples.")
    A = operator.columns(np.arange(operator.shape[1]))
    return A if centred and operator.sqrt_sample_weight is None else np.vstack([A, -A]) / np.sqrt(2)


def _keep_largest_overall(Z: Array, total: int) -> Array:
    """Return Z, (n_features, m), with the `total` largest loadings of all columns together, scaled to unit columns.

    Loadings that tie with the smallest of them are kept too.
    """
    if np.count_nonzero(Z) <= total:
        return Z
    threshold = np.sort(np.abs(Z), axis=None)[-total]
    return normalize_columns(np.where(np.abs(Z) >= threshold, Z, 0))
