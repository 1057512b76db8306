"""Simple thresholding: PCA with small loadings set to zero (Cadima and Jolliffe 1995)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, normalize_columns
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, keep_largest
from gpower.operators.leading_pca import compute_leading_components
from gpower.validation.params import check_float


@dataclass(eq=False, repr=False, kw_only=True)
class Thresholding(Baseline):
    """PCA with small loadings set to zero and the others scaled to unit norm.

    This is the oldest method for sparse loadings, and a misleading one: large loadings often belong to redundant
    variables, so that truncated components may be far from the best of their cardinality.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number of loadings kept in every component, the largest ones, or one number for each.
    threshold : float, optional
        Smallest absolute value of a loading that is kept, instead of `cardinality`; by default 1/√n_features, the
        value if all loadings were equal.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Recompute the kept loadings to maximise the variance.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_passes_, mean_, scale_
        As in `gpower.GPower`; the method does not iterate: `n_iter_` is one and `converged_` true.

    References
    ----------
    Cadima, Jolliffe (1995). Loading and correlations in the interpretation of principle components. Journal of
    Applied Statistics 22, 203–214.

    Examples
    --------
    >>> from gpower.baselines import Thresholding
    >>> from gpower.datasets import load_pitprops
    >>> model = Thresholding(1, cardinality=4, covariance="precomputed").fit(load_pitprops().correlation)
    >>> list(model.loadings(load_pitprops().feature_names)[0])
    ['length', 'topdiam', 'ringbut', 'whorls']
    """

    threshold: float | None = None

    _sparsity_param = "threshold"

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        check_threshold(self.threshold)

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        Z, _ = compute_leading_components(task.operator, task.n_components)
        level = 1 / np.sqrt(Z.shape[0]) if self.threshold is None else self.threshold
        return [BaselineResult(truncate_loadings(Z, task.target_cardinality, level))]


def check_threshold(threshold: float | None) -> None:
    """Raise ValueError if the threshold is not in [0, 1)."""
    if threshold is not None and check_float(threshold, "threshold", 0.0) >= 1:
        raise ValueError(f"threshold={threshold!r}: unit loadings lie below 1; use a threshold in [0, 1).")


def truncate_loadings(Z: Array, cardinality: Sequence[int] | None, level: float) -> Array:
    """Return unit columns with the largest loadings of Z, (n_features, m), on the host, and zeros elsewhere.

    As many as `cardinality`, one number per column, are kept, or those of at least `level`, a positive number or zero.
    """
    if cardinality is not None:
        return keep_largest(Z, cardinality)
    rounding_factor = 1 - 1e3 * np.finfo(Z.dtype).eps
    return normalize_columns(np.where(np.abs(Z) >= level * rounding_factor, Z, 0))
