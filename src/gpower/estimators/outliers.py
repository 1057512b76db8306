"""Distances of samples from a fitted model: inside the span of the components, and from the span.

Inside the span it is the distance of Hotelling (1931), t S⁺ tᵀ, with the covariance S of the scores, since scores of
sparse components are correlated. The distance from the span is the squared residual (SPE, or Q). Both have a known
distribution for normal data, which gives their limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats

from gpower._utils.arrays import Array, to_numpy
from gpower.operators import as_container
from gpower.validation.params import check_float, check_option

#: Entries of a block of samples that is processed at once: 2 MB, which fit into the cache of a processor.
DISTANCE_BLOCK_ENTRIES = 2**18


class OutlierDistanceMixin:
    """Distances of samples from a fitted model, with limits that a given share of normal samples does not exceed."""

    components_: Array
    mean_: Array
    scale_: Array
    score_covariance_: Array
    n_samples_: float
    #: Number of independent covariates that were removed from the data themselves.
    _n_removed_covariates: int = 0

    def _read_samples(self, X: Any, covariates: Any = None, batch: Any = None) -> Any:
        """Check samples and return them less what covariates predict; implemented by the estimator.

        The result is neither centred nor scaled. It is an array, a sparse matrix or a container that must not be
        changed, in the memory of X.
        """
        raise NotImplementedError

    def hotelling_t2(self, X: Any, covariates: Any = None, batch: Any = None) -> Array:
        """Compute the squared Mahalanobis distance of each sample's scores from the mean: t S⁺ tᵀ.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        covariates, batch : optional
            Covariates and batch labels of these samples, if the model was fitted with any.

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.array([[0.0, 1.0], [2.0, -1.0], [-2.0, 0.0]])
        >>> GPower(1, cardinality=1).fit(X).hotelling_t2(X)  # the first variable has the variance 4
        array([0., 1., 1.])
        """
        used = self._active_columns
        Z = np.asarray(to_numpy(self.components_), np.float64)[:, used].T
        scores = np.vstack([A @ Z for A in self._iter_standardized_blocks(X, covariates, batch, used)])
        return np.sum(scores @ self._score_precision * scores, axis=1)

    def hotelling_t2_limit(self, level: float = 0.95) -> float:
        """Compute the `hotelling_t2` that this share of new normal samples does not exceed.

        The limit comes from Fisher's F distribution, or from χ² if the number of samples is unknown.

        Parameters
        ----------
        level : float, default=0.95
        """
        rank = int(np.linalg.matrix_rank(self.score_covariance_, hermitian=True))
        n, removed = float(self.n_samples_), self._covariate_rank
        limit = compute_t2_limit(rank, n - removed, check_probability_level(level))
        return limit * (n - 1) / (n - 1 - removed) if n - 1 > removed else limit  # variances are divided by n − 1

    def squared_residual(self, X: Any, covariates: Any = None, batch: Any = None) -> Array:
        """Compute the squared distance of each sample from the span of the components, after centring and scaling.

        It is also called SPE or Q.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        covariates, batch : optional
            Covariates and batch labels of these samples, if the model was fitted with any.

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.array([[0.0, 1.0], [3.0, 0.0], [-3.0, -1.0]])
        >>> GPower(1, cardinality=1).fit(X).squared_residual(X)  # the squares of the second variable
        array([1., 0., 1.])
        """
        return np.concatenate([np.sum(left**2, axis=1) for left in self._iter_residual_blocks(X, covariates, batch)])

    def squared_residual_limit(self, X: Any, level: float = 0.95, covariates: Any = None, batch: Any = None) -> float:
        """Compute the `squared_residual` that this share of new normal samples does not exceed.

        The limit is a multiple of χ² with the mean and variance of the residuals of X [Box 1954], and allows for the
        error of a mean of n samples. New samples lie a little farther from a model than the samples of the fit: with q
        loadings per variable by (n + 1 + q)/(n − 1 − q), or by (n + 1 + q)/(n − 3 − q) if variables were scaled.
        Independent covariates count as loadings.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples of the fit, or other samples without outliers.
        level : float, default=0.95
        covariates, batch : optional
            Covariates and batch labels of these samples, if the model was fitted with any.

        References
        ----------
        Box (1954). Some theorems on quadratic forms applied in the study of analysis of variance problems, I.
        Annals of Mathematical Statistics 25, 290–302.
        """
        level, residuals = check_probability_level(level), self.squared_residual(X, covariates, batch)
        n, mean, variance = residuals.size, float(residuals.mean()), float(residuals.var(ddof=residuals.size > 1))
        if n < 3 or variance <= (1e-12 * mean) ** 2:
            return mean
        freedom = 2 * mean**2 / variance
        fitted = np.count_nonzero(to_numpy(self.components_)) / self.components_.shape[1]  # loadings per variable
        fitted += self._covariate_rank
        scaled = 2 * bool(np.any(to_numpy(self.scale_) != 1))  # the variances are estimated too
        farther = (n + 1 + fitted) / max(n - 1 - scaled - fitted, 1)
        return float(mean * farther * stats.f.ppf(level, freedom, freedom * (n - 1)))

    def contributions(self, X: Any, to: str = "t2", covariates: Any = None, batch: Any = None) -> Array:
        """Compute the contribution of each variable to a sample's distance; the contributions sum to the distance.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        to : {"t2", "residual"}, default="t2"
            Decompose `hotelling_t2`, where a variable that moves the scores towards the mean has a negative
            contribution, or `squared_residual`.
        covariates, batch : optional
            Covariates and batch labels of these samples, if the model was fitted with any.

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.random.default_rng(0).standard_normal((20, 4))
        >>> model = GPower(2, cardinality=2).fit(X)
        >>> bool(np.allclose(model.contributions(X).sum(axis=1), model.hotelling_t2(X)))
        True
        """
        check_option(to, "to", ("t2", "residual"))
        if to == "residual":
            return np.vstack([left**2 for left in self._iter_residual_blocks(X, covariates, batch)])
        Z = np.asarray(to_numpy(self.components_), np.float64).T
        blocks = self._iter_standardized_blocks(X, covariates, batch)
        return np.vstack([A * (A @ Z @ self._score_precision @ Z.T) for A in blocks])

    @property
    def _covariate_rank(self) -> int:
        """Return the number of independent covariates that were removed."""
        return int(getattr(self, "covariates_rank_", self._n_removed_covariates))

    @property
    def _score_precision(self) -> Array:
        """Return the pseudo-inverse S⁺ of the covariance of the scores, (m, m)."""
        return np.linalg.pinv(self.score_covariance_, rcond=1e-10, hermitian=True)

    @property
    def _active_columns(self) -> NDArray[np.intp]:
        """Return the columns with a non-zero loading in any component."""
        return np.flatnonzero(to_numpy(self.components_).any(axis=0))

    def _iter_standardized_blocks(
        self, X: Any, covariates: Any, batch: Any, columns: Array | None = None
    ) -> Iterator[Array]:
        """Yield blocks of centred and scaled samples in float64, with all variables or the given columns.

        Blocks are new NumPy arrays, (n_rows, n_columns), in the order of the samples, and may be changed. Raise
        ValueError if the samples are in blocks or on a device.
        """
        samples = as_container(self._read_samples(X.tocsr() if sp.issparse(X) else X, covariates, batch))
        if samples.storage_description:
            raise ValueError(
                f"Distances need the samples in memory; X is {samples.storage_description}: give a part of it."
            )
        mean, scale = (np.asarray(to_numpy(v), np.float64) for v in (self.mean_, self.scale_))
        if columns is not None:
            samples, mean, scale = samples.take(columns), mean[columns], scale[columns]
        n_rows = max(1, DISTANCE_BLOCK_ENTRIES // max(mean.size, 1))
        for start in range(0, samples.shape[0], n_rows):
            rows = np.arange(start, min(start + n_rows, samples.shape[0]))
            A = samples.get_rows(rows).astype(np.float64)
            A -= mean
            A /= scale
            yield A

    def _iter_residual_blocks(self, X: Any, covariates: Any, batch: Any) -> Iterator[Array]:
        """Yield blocks of standardized samples minus their projections on the span of the components.

        Blocks are new NumPy arrays, (n_rows, n_features). Variables that no component uses stay as they are.
        """
        used = self._active_columns
        Z = np.asarray(to_numpy(self.components_), np.float64)[:, used].T
        back = np.linalg.pinv(Z, rcond=1e-6)
        for A in self._iter_standardized_blocks(X, covariates, batch):
            A[:, used] -= A[:, used] @ Z @ back  # in place: the block is a copy
            yield A


def check_probability_level(level: object) -> float:
    """Return a level as a float; raise ValueError unless it lies between 0 and 1, both excluded."""
    if not 0 < check_float(level, "level", 0.0) < 1:
        raise ValueError(f"level={level!r}: a share between 0 and 1 is needed, such as 0.95.")
    return float(level)  # type: ignore[arg-type]


def compute_t2_limit(m: int, n_samples: float, level: float) -> float:
    """Compute the squared distance in m dimensions that a share of new normal samples does not exceed.

    The covariance is that of `n_samples` samples; a number of at most m + 1 stands for an unknown one.

    Examples
    --------
    >>> limits = compute_t2_limit(2, 50, 0.95), compute_t2_limit(2, 1, 0.95)
    >>> round(limits[0], 2), round(limits[1], 2)  # the second: for an unknown number
    (6.64, 5.99)
    """
    if m == 0:
        return 0.0
    if n_samples <= m + 1:
        return float(stats.chi2.ppf(level, m))
    factor = m * (n_samples**2 - 1) / (n_samples * (n_samples - m))
    return float(factor * stats.f.ppf(level, m, n_samples - m))
