"""Container of the residuals of a matrix after a regression on covariates, X − F B, which are never formed.

F, samples × covariates, contains the covariates and B their coefficients, so that a product with X − F B is one with X
and one with two thin matrices. A sparse X stays sparse, and a matrix on disk, in a cluster or on a device stays there.

X has shape (n_samples, n_features), F (n_samples, c) and B (c, n_features). Arrays that methods take and return are
where X is, host or device, in its dtype unless stated otherwise, except indices, of int, and sample weights, which are
on the host. `weight` contains non-negative sample weights, (n_samples,), not all zero, and is None for ones.

Terms: the base is the `Container` of X. ``times(T)`` is X T, ``transposed_times(Y)`` XᵀY, ``columns(idx)`` X[:, idx] as
a new array, ``get_rows(idx)`` X[idx]; ``gram(mean, w, idx)`` is (X − mean)ᵀ diag(w) (X − mean) of the columns `idx`
with their means; ``weighted_sums(w)``, Σwx, and ``squared_deviations(shift, w)``, Σw(x − shift)², are (n_features,),
float64; ``compute_moments(w, Σw)`` are means, ‖√w∘(x − mean)‖, both (n_features,), float64, and the number of passes.
``to_backend(v)`` moves a small array to where X is; ``take(idx)``, ``prepare(double_sums)`` and
``subtract_offsets(shift)`` are containers of some columns, of X as a fit uses it, and of X less a constant per column.
``take_rows(v, idx)`` is v[idx], where v is, and ``to_host(v)`` v as a NumPy array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, take_rows, to_host
from gpower._utils.forwarding import forward
from gpower.operators.storage.base import ColumnMoments, Container

#: Relative difference up to which weights are those of the constructor: squares of their roots have rounding errors.
SAME_WEIGHT_TOLERANCE = 1e-5
#: Rounding error of a sum about a large mean, in units of the machine epsilon.
SHIFT_ROUNDING_IN_EPS = 16
#: Share of the variance of a column, by dtype, below which the rest that covariates leave is rounding error.
MIN_RESIDUAL_SHARE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


class CovariateSums(NamedTuple):
    """Weighted sums of products with the covariates F, in float64, where the matrix is."""

    sums: Array  # Fᵀw, (c,)
    gram: Array  # FᵀWF, (c, c)
    cross: Array  # FᵀWX, (c, n_features)
    total_weight: float


class ResidualMatrix(Container):
    """The matrix X − F B, where X is another container.

    Parameters
    ----------
    base : Container
        The matrix X, (n_samples, n_features).
    F : ndarray of shape (n_samples, c)
        The covariates, finite, of any float dtype, on the host or where the matrix is, as are their coefficients. There
        may be none, c = 0. The attributes `F` and `B` are copies in the dtype of X, where X is.
    B : ndarray of shape (c, n_features), optional
        By default the coefficients are estimated in one pass over X: F must then be orthonormal with respect to the
        weights, FᵀWF = I, and B is FᵀWX, which is the regression of X on F without an intercept.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights W on the host for which sums with the covariates are computed once and kept; None stands for ones.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_container
    >>> from gpower.operators.storage.covariate_residuals import ResidualMatrix
    >>> X = np.array([[1.0, 4.0], [3.0, 2.0]])
    >>> ResidualMatrix(as_container(X), np.array([[-1.0], [1.0]]) / np.sqrt(2)).to_dense()
    array([[2., 3.],
           [2., 3.]])
    """

    # These members are those of X: the covariates are small and finite.
    max_cached_columns = forward("base.max_cached_columns")
    max_gram_columns = forward("base.max_gram_columns")
    should_use_covariance = forward("base.should_use_covariance")
    column_read_share = forward("base.column_read_share")
    row_read_share = forward("base.row_read_share")
    to_backend = forward("base.to_backend")
    wrap_array = forward("base.wrap_array")
    find_non_finite = forward("base.find_non_finite")

    def __init__(self, base: Container, F: Array, B: Array | None = None, sample_weight: Array | None = None) -> None:
        self.base = base
        self.shape, self.dtype = base.shape, base.dtype
        self.is_sparse, self.is_remote, self.is_on_device = base.is_sparse, base.is_remote, base.is_on_device
        self.storage_description, self.has_double_sums = base.storage_description, base.has_double_sums
        self.feature_names = base.feature_names
        self.F = base.to_backend(F.astype(base.dtype))
        self._sample_weight = sample_weight
        self._kept_sums: CovariateSums | None = None
        if B is None:
            self._kept_sums = self._compute_sums(sample_weight)
            B = self._kept_sums.cross
        self.B = base.to_backend(B.astype(base.dtype))

    def _get_sums(self, weight: Array | None) -> CovariateSums:
        """Return the sums for some weights, (n_samples,) or None, kept if the weights are those of the constructor.

        Weights, on the host or where X is, are those if they agree to SAME_WEIGHT_TOLERANCE, and None only with None.
        The sums are computed in a pass over the matrix unless they are kept. Not to be written to.
        """
        kept = self._sample_weight
        is_kept = weight is kept
        if weight is not None and kept is not None:  # the operator passes squares of square roots of the weights
            is_kept = np.allclose(to_host(weight), kept, rtol=SAME_WEIGHT_TOLERANCE, atol=0)
        if not is_kept:
            return self._compute_sums(weight)
        if self._kept_sums is None:
            self._kept_sums = self._compute_sums(kept)
        return self._kept_sums

    def _compute_sums(self, weight: Array | None) -> CovariateSums:
        """Compute the sums with the covariates for some weights, (n_samples,) or None, in one pass over the matrix.

        Products are computed in the dtype of X, then converted: the sums are in float64, where X is.
        """
        F = self.F if weight is None else self.base.to_backend(weight).astype(self.dtype)[:, None] * self.F
        cross = self.base.transposed_times(F).T.astype(np.float64)
        F = F.astype(np.float64)
        total = self.shape[0] if weight is None else float(np.sum(to_host(weight), dtype=np.float64))
        return CovariateSums(np.sum(F, axis=0), F.T @ self.F.astype(np.float64), cross, total)

    def prepare(self, double_sums: bool) -> ResidualMatrix:
        """Return the residuals of the base as it is used in a fit, with the same covariates and coefficients."""
        base = self.base.prepare(double_sums)
        return self if base is self.base else ResidualMatrix(base, self.F, self.B, self._sample_weight)

    def subtract_offsets(self, shift: Array) -> ResidualMatrix:
        """Return the residuals with a constant subtracted from each column of the base, `shift` of shape (n_features,).

        The coefficients stay.
        """
        shifted = ResidualMatrix(self.base.subtract_offsets(shift), self.F, self.B, self._sample_weight)
        if self._kept_sums is not None:
            offset = np.outer(self._kept_sums.sums, shift.astype(np.float64))
            shifted._kept_sums = self._kept_sums._replace(cross=self._kept_sums.cross - offset)
        return shifted

    def take(self, idx: Array) -> ResidualMatrix:
        """Return the residuals of the columns `idx`, in that order, with the sums that are kept for them."""
        columns = self.to_backend(idx)
        taken = ResidualMatrix(self.base.take(idx), self.F, self.B[:, columns], self._sample_weight)
        if self._kept_sums is not None:
            taken._kept_sums = self._kept_sums._replace(cross=self._kept_sums.cross[:, columns])
        return taken

    def _select_rows(self, row_mask: Array) -> tuple[Container, Array | None]:
        """Return the residuals of the samples of a mask, or all samples and weights, as the base does."""
        samples, weight = self.base._select_rows(row_mask)
        if samples is self.base:
            return self, weight
        return ResidualMatrix(samples, take_rows(self.F, np.flatnonzero(row_mask)), self.B), weight

    def times(self, T: Array) -> Array:
        """Compute (X − F B) T, (n_samples, m), as X T − F(B T), for T of shape (n_features, m)."""
        return self.base.times(T) - self.F @ (self.B @ T)

    def transposed_times(self, Y: Array) -> Array:
        """Compute (X − F B)ᵀY, (n_features, m), as XᵀY − Bᵀ(FᵀY), for Y of shape (n_samples, m)."""
        return self.base.transposed_times(Y) - self.B.T @ (self.F.T @ Y)

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """Compute the scores (X − F B − mean) @ loadings; lazy if those of the base are."""
        return self.base.project_samples(loadings, mean) - self.F @ (self.B @ loadings)

    def to_dense(self) -> Array:
        """Return all residuals, (n_samples, n_features), as a new array, each column contiguous."""
        return self.columns(np.arange(self.shape[1]))

    def columns(self, idx: Array) -> Array:
        """Return the residuals of some columns in the new array that the base returns."""
        A = self.base.columns(idx)
        A -= self.F @ self.B[:, self.to_backend(idx)]
        return A

    def get_rows(self, idx: Array) -> Array:
        """Return the residuals of the samples `idx`, increasing indices, as an array (|idx|, n_features)."""
        return self.base.get_rows(idx) - take_rows(self.F, idx) @ self.B

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute (X − F B − mean)ᵀ diag(w) (X − F B − mean), (n, n), by expanding the product.

        `mean`, (n,), are means of the residuals, None for zero. With `idx` it has those of these n columns alone, and X
        and F B are restricted to them. `weight`, (n_samples,), is where X is or on the host. The result is in float64.
        """
        sums, gram, cross, _ = self._get_sums(weight)
        B = self.B.astype(np.float64)
        if idx is not None:
            columns = self.to_backend(idx)
            B, cross = B[:, columns], cross[:, columns]
        if mean is not None:
            cross = cross - np.outer(sums, mean.astype(np.float64))
        mixed = B.T @ cross
        return self.base.gram(mean, weight, idx) - mixed - mixed.T + B.T @ (gram @ B)

    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the residuals of every column, (n_features,), in float64."""
        return self.base.weighted_sums(weight) - self._get_sums(weight).sums @ self.B.astype(np.float64)

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sums of (x − F b − shift)², (n_features,), in float64; zero where all is rounding error.

        `shift`, (n_features,), is a constant for each column, from which the residuals deviate, of any float dtype. It
        is rounding error up to the share MIN_RESIDUAL_SHARE of Σw(x − shift)², or to that of sums about a large shift.
        """
        whole = self.base.squared_deviations(shift, weight)
        return self._subtract_fitted(whole, shift.astype(np.float64), self._get_sums(weight))

    def _subtract_fitted(self, whole: Array, shift: Array, sums: CovariateSums) -> Array:
        """Return Σw(x − F b − shift)² of every column, given `whole`, Σw(x − shift)²; all (n_features,), float64.

        `sums` are those of the same weights. What is rounding error becomes zero, and NaN stays.
        """
        B = self.B.astype(np.float64)
        cross = sums.cross - np.outer(sums.sums, shift)  # FᵀW(X − shift)
        squares = whole + np.sum(B * (sums.gram @ B - 2 * cross), axis=0)
        # Sums of products with large means round in proportion to these: Σ w|f| is at most (Σw Σwf²)^½.
        sizes = np.sqrt(sums.total_weight * np.diagonal(sums.gram)) @ np.abs(B)
        rounding = SHIFT_ROUNDING_IN_EPS * float(np.finfo(self.dtype).eps) * np.abs(shift) * sizes
        return np.where(squares <= MIN_RESIDUAL_SHARE[self.dtype] * whole + rounding, 0.0, squares)  # NaN stays

    def compute_moments(self, weight: Array | None, total_weight: float) -> ColumnMoments:
        """Compute means and deviation norms of the residuals, each (n_features,), and the passes over the matrix.

        They follow from those of the base and the sums with the covariates; `total_weight` is the sum of the weights.
        """
        base = self.base.compute_moments(weight, total_weight)
        sums = self._get_sums(weight)
        centered = sums._replace(gram=sums.gram - np.outer(sums.sums, sums.sums) / total_weight)
        deviation_norms = np.sqrt(self._subtract_fitted(base.deviation_norms**2, base.mean, centered))
        mean = base.mean - sums.sums @ self.B.astype(np.float64) / total_weight
        return ColumnMoments(mean, deviation_norms, base.passes + 1)
