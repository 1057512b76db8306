"""Sketch a matrix: replace the samples by a few combinations of them that preserve what many columns share.

Races of many starts are cheap on a sketch. Its columns of large norm are better starts than those of the matrix, above
all on standardised data, whose columns have equal norms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, safe_reciprocal, to_host
from gpower.feasible_sets import correlate_if_needed
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix
from gpower.operators.storage.dense import DenseMatrix

#: Number of rows of a sketch beyond the number of components, and number of power iterations. With 15 extra rows, weak
#: components of GSE1992, GSE3143 and of a factor model are lost; 80 rows, or two iterations, gain nothing there.
OVERSAMPLING, N_POWER_ITERATIONS = 40, 1
#: Number of samples up to which the matrix itself is used; also used up to twice the number of rows of a sketch.
MAX_UNSKETCHED_SAMPLES = 200
#: Largest norm of a column, and inverse of the smallest, for which a sketch needs no scaling in single precision.
MAX_FLOAT32_NORM = 1e5
#: Smallest ratio of the median column norm to the largest for which single precision is used.
MIN_MEDIAN_NORM_RATIO = 1e-3
#: Number of rows whose products are added at once.
GRAM_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Sketch:
    """A small matrix in host memory that stands for a larger one.

    It has samples even if the larger one is a covariance, but these are not the samples of the larger one: only
    loadings and column indices carry over.

    Attributes
    ----------
    operator : Operator
        The matrix A that is sketched.
    matrix : Operator
        The sketch, (n_rows, n), or A itself if it has few samples; divided by `scale`.
    unshared_norms_sq : ndarray of float64 of shape (n,)
        Part of each squared column norm of `matrix` that no other column shares; zero for a sketch.
    B : ndarray of shape (n_rows, n) or None
        Entries of the sketch, from which `sharpen` continues; None if `matrix` is A itself.
    scale : float
        Divisor of all entries, such that single precision can represent them.
    projected_matrix : Operator or None
        The sketch if `matrix` is A itself, else None.
    hidden_variance : float
        Estimate, within a factor of two, of the largest variance of unit loadings in what the sketch leaves out of A,
        in the units of `matrix`; zero if it leaves out nothing.
    """

    operator: Operator
    matrix: Operator
    unshared_norms_sq: Array
    B: Array | None = None
    scale: float = 1.0
    projected_matrix: Operator | None = None
    hidden_variance: float = 0.0

    def compute_variance_share(self, z: Array) -> float:
        """Return the share of the variance of loadings z, (n, 1), that the sketch preserves; 1 for zero variance.

        z may be on the host or on the device, of any floating dtype.
        """
        sketched, total = (
            _compute_loading_variance(operator, operator.to_backend(z.astype(operator.dtype)))
            for operator in (self.projected_matrix or self.matrix, self.operator)
        )
        return sketched / total * self.scale**2 if total > 0 else 1.0

    def choose_columns(self, max_columns: int, usable: Array | None = None) -> Array:
        """Return the indices of up to `max_columns` columns of the largest shared squared norms, sorted.

        Columns outside of the mask `usable`, (n,), on the host, are returned only if there are too few inside.
        `max_columns` is at least 1 and may exceed n.
        """
        squares = self.matrix.column_norms.astype(np.float64) ** 2 - self.unshared_norms_sq
        squares = squares if usable is None else np.where(usable, squares, -np.inf)
        return np.sort(np.argpartition(-squares, min(max_columns, squares.size) - 1)[:max_columns])

    def sharpen(self) -> Sketch | None:
        """Return the sketch after another power iteration; None if `matrix` is A itself."""
        if self.B is None:
            return None
        return _make_projected_sketch(self.operator, self.operator.to_backend(self.B.T.astype(self.operator.dtype)))


def make_sketch(operator: Operator, n_components: int, rng: np.random.RandomState) -> Sketch:
    """Return a sketch of a matrix, usually in single precision, or the matrix in host memory if it has few samples.

    A sketch has `n_components` + OVERSAMPLING rows, or fewer for a smaller matrix. One number is drawn from `rng`.
    """
    n, rows = operator.shape[1], n_components + OVERSAMPLING
    random = np.random.default_rng(rng.randint(2**31))  # far faster than RandomState
    T = operator.to_backend(random.standard_normal((n, min(rows, *operator.shape)), np.float32).astype(operator.dtype))
    for _ in range(N_POWER_ITERATIONS):
        T = _apply_power_iteration(operator, T)
    projected = _make_projected_sketch(operator, T)
    if not operator.has_samples or operator.shape[0] > max(MAX_UNSKETCHED_SAMPLES, 2 * rows):
        return projected
    scale, dtype = projected.scale, projected.matrix.dtype
    norms = to_host(operator.column_norms).astype(np.float64) / scale
    unshared = norms**2 - projected.matrix.column_norms.astype(np.float64) ** 2
    A = DenseMatrix((to_host(operator.columns(np.arange(n))) / scale).astype(dtype, order="F"))
    return replace(
        projected,
        matrix=DataMatrix(A, norms.astype(dtype)),
        unshared_norms_sq=unshared,
        B=None,
        projected_matrix=projected.matrix,
    )


def _make_projected_sketch(operator: Operator, T: Array) -> Sketch:
    """Return the sketch QᵀA, (rows, n), on the host, where Q is an orthonormal basis of the range of A T.

    Along the leading principal components its Gram matrix is nearly AᵀA [Halko, Martinsson and Tropp 2011].
    T, (n, rows), is in the memory of the matrix, of its dtype.
    """
    C = _apply_power_iteration(operator, T)
    scale = _choose_sketch_scale(operator)
    B = to_host((C if scale == 1 else C / scale).astype(_choose_sketch_dtype(operator), order="C")).T
    hidden_variance = _estimate_hidden_variance(operator, B, scale)
    return Sketch(operator, DataMatrix(DenseMatrix(B)), np.zeros(B.shape[1]), B, scale, hidden_variance=hidden_variance)


def _estimate_hidden_variance(operator: Operator, B: Array, scale: float) -> float:
    """Return the `hidden_variance` of the sketch B, (rows, n), on the host, of a matrix divided by `scale`.

    It is the square of one of the smallest singular values of the sketch (directions weaker than these are not found
    reliably), or of the largest singular value of noise with the norm of what is left [Marchenko and Pastur 1967].
    """
    p, n = operator.shape
    if B.shape[0] == min(p, n):
        return 0.0
    shown = np.linalg.eigvalsh(B.astype(np.float64) @ B.T)  # increasing
    total = float(np.sum((to_host(operator.column_norms).astype(np.float64) / scale) ** 2))
    noise_edge = max(total - float(shown.sum()), 0.0) * (1 / np.sqrt(p) + 1 / np.sqrt(n)) ** 2
    return max(float(shown[min(OVERSAMPLING // 4, shown.size - 1)]), noise_edge)


def _choose_sketch_scale(operator: Operator) -> float:
    """Return 1, or the largest column norm if its powers exceed the range of single precision."""
    largest = max_or_zero(operator.column_norms)
    return 1.0 if largest == 0 or 1 / MAX_FLOAT32_NORM < largest < MAX_FLOAT32_NORM else largest


def _choose_sketch_dtype(operator: Operator) -> np.dtype:
    """Return float32, or the dtype of the matrix if most columns are so small that float32 would lose them."""
    norms = operator.column_norms
    fits_float32 = float(np.median(norms)) >= MIN_MEDIAN_NORM_RATIO * max_or_zero(norms)
    return np.dtype(np.float32) if fits_float32 else operator.dtype


def _apply_power_iteration(operator: Operator, T: Array) -> Array:
    """Compute AᵀQ, (n, rows), where Q is an orthonormal basis of the range of A T, for T of shape (n, rows).

    Q is not computed: T and then AᵀY, where Y = A T, are multiplied by small matrices. Columns of Q beyond the rank of
    Y are zero.
    """
    T = _whiten(T, _compute_gram(T))
    Y = operator.combine(T)
    C = operator.correlate(Y)
    return _whiten(C, _compute_inner_products(operator, Y, C))


def _whiten(C: Array, gram: Array) -> Array:
    """Return C V w^{-1/2}, where w and V are eigenvalues and eigenvectors of a Gram matrix of Y, (m, m), on the host.

    With Y instead of C the result would be orthonormal; so C may be Y, or AᵀY. Columns beyond the rank of Y are zero.
    """
    squares, V = np.linalg.eigh(gram)
    is_nonzero = squares > np.finfo(np.float64).eps * squares.size * max(squares[-1], 0.0)
    inverse = np.where(is_nonzero, safe_reciprocal(np.sqrt(np.maximum(squares, 0))), 0)
    return C @ asarray_like(C, (V * inverse).astype(C.dtype))


def _compute_gram(T: Array) -> Array:
    """Compute TᵀT, (m, m) in float64 on the host, from blocks of rows, of which only one is copied at a time."""
    blocks = (T[i : i + GRAM_BLOCK_ROWS].astype(np.float64) for i in range(0, T.shape[0], GRAM_BLOCK_ROWS))
    return to_host(sum(block.T @ block for block in blocks))


def _compute_inner_products(operator: Operator, Y: Array, C: Array) -> Array:
    """Compute YᵀY, (m, m) in float64 on the host, where C = AᵀY; weak directions would be lost in single precision."""
    if not operator.has_samples:
        return operator.inner(Y, Y, C).astype(np.float64)
    return to_host(operator.container.wrap_array(Y).prepare(True).gram(None, None)).astype(np.float64)


def _compute_loading_variance(operator: Operator, z: Array) -> float:
    """Compute zᵀAᵀA z for z of shape (n, 1)."""
    y = operator.combine(z)
    return float(operator.squared_norms(y, correlate_if_needed(operator, y))[0])
