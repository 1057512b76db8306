"""A small matrix in place of a large one: a few combinations of the samples that keep what many columns share.

Starts race on it, where they cost little, and columns that stand out in it are better to begin at than the longest
ones, above all on standardised data, whose columns are all as long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, max_or_zero, safe_reciprocal, to_host
from gpower.feasible_sets import correlate_if_needed
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix
from gpower.operators.storage.sparse import wrap_in_memory

#: Rows of a sketch beyond the number of components, and turns of the power iteration that sharpens it. With 15 rows
#: more, weak components of GSE1992, GSE3143 and of a factor model are lost; 80, or two turns, gain nothing there.
OVERSAMPLING, N_POWER_ITERATIONS = 40, 1
#: Up to so many samples, or twice the rows of a sketch, the matrix itself is as small.
MAX_UNSKETCHED_SAMPLES = 200
#: Norms of columns, and one over them, that are neither large nor small.
MAX_FLOAT32_NORM = 1e5
#: Share of the longest column's norm that most columns must have for single precision.
MIN_MEDIAN_NORM_RATIO = 1e-3


@dataclass(frozen=True, eq=False)
class Sketch:
    """A small matrix in memory, where it comes from, and whether it could be sharper.

    `noise`, (n,), is how much of each column's squared length no other column shares. `B`, (rows, n), is the small
    matrix, where the next turn of the power iteration begins; None where it is the whole. All of it is in units of
    `unit`, so that single precision holds it. `shared` is what tells structure from noise: the few rows, also where
    the small matrix is the whole.
    """

    operator: Operator
    matrix: Operator
    unshared_norms_sq: Array
    B: Array | None = None
    scale: float = 1.0
    projected_matrix: Operator | None = None

    def compute_variance_share(self, z: Array) -> float:
        """Share of the variance of loadings z, (n, 1), that is seen in a few rows."""
        few = self.projected_matrix or self.matrix
        seen, there = (
            _compute_loading_variance(each, each.to_backend(z.astype(each.dtype))) for each in (few, self.operator)
        )
        return seen / there * self.scale**2 if there > 0 else 1.0

    def choose_columns(self, max_columns: int, usable: Array | None = None) -> Array:
        """Up to so many columns, those of which the most is not noise, sorted; of those in a mask, if there is one."""
        squares = self.matrix.column_norms.astype(np.float64) ** 2 - self.unshared_norms_sq
        squares = squares if usable is None else np.where(usable, squares, -np.inf)
        return np.sort(np.argpartition(-squares, min(max_columns, squares.size) - 1)[:max_columns])

    def sharpen(self) -> Sketch | None:
        """After another turn; None where there is nothing to gain."""
        if self.B is None:
            return None
        return _make_projected_sketch(self.operator, self.operator.to_backend(self.B.T.astype(self.operator.dtype)))


def make_sketch(operator: Operator, n_components: int, rng: np.random.RandomState) -> Sketch:
    """A sketch of a matrix, mostly in single precision; the matrix itself, in memory, where it has few samples."""
    n, rows = operator.shape[1], n_components + OVERSAMPLING
    random = np.random.default_rng(rng.randint(2**31))  # far faster
    T = operator.to_backend(random.standard_normal((n, min(rows, *operator.shape)), np.float32).astype(operator.dtype))
    for _ in range(N_POWER_ITERATIONS):
        T = _apply_power_iteration(operator, T)
    small = _make_projected_sketch(operator, T)
    if not operator.has_samples or operator.shape[0] > max(MAX_UNSKETCHED_SAMPLES, 2 * rows):
        return small
    norms = to_host(operator.column_norms).astype(np.float64) / small.scale
    noise = norms**2 - small.matrix.column_norms.astype(np.float64) ** 2
    dtype = small.matrix.dtype
    whole = wrap_in_memory((to_host(operator.columns(np.arange(n))) / small.scale).astype(dtype, order="F"))
    return Sketch(
        operator, DataMatrix(whole, norms.astype(dtype)), noise, scale=small.scale, projected_matrix=small.matrix
    )


def _make_projected_sketch(operator: Operator, T: Array) -> Sketch:
    """QᵀA, (rows, n), on the host: Q an orthonormal basis of the range of A T.

    Along the leading principal components its Gram matrix is nearly AᵀA [Halko, Martinsson and Tropp 2011].
    """
    T, unit = _apply_power_iteration(operator, T), _choose_sketch_scale(operator)
    B = to_host((T if unit == 1 else T / unit).astype(_choose_sketch_dtype(operator), order="C")).T
    return Sketch(operator, DataMatrix(wrap_in_memory(B)), np.zeros(B.shape[1]), B, unit)


def _choose_sketch_scale(operator: Operator) -> float:
    """One, or the longest column where that is so long or short that its powers leave single precision."""
    longest = max_or_zero(operator.column_norms)
    return 1.0 if longest == 0 or 1 / MAX_FLOAT32_NORM < longest < MAX_FLOAT32_NORM else longest


def _choose_sketch_dtype(operator: Operator) -> np.dtype:
    """Single precision, unless it would take most columns for rounding of the longest."""
    norms = operator.column_norms
    return (
        np.dtype(np.float32)
        if float(np.median(norms)) >= MIN_MEDIAN_NORM_RATIO * max_or_zero(norms)
        else operator.dtype
    )


def _apply_power_iteration(operator: Operator, T: Array) -> Array:
    """AᵀQ, (n, rows), Q an orthonormal basis of the range of A T."""
    if operator.has_samples:
        return operator.correlate(np.linalg.qr(operator.combine(T))[0])
    T = np.linalg.qr(T)[0]  # A T is known by its products alone
    C = operator.correlate(T)
    squares, V = np.linalg.eigh(operator.inner(T, T, C))
    return C @ (V * safe_reciprocal(np.sqrt(np.maximum(squares, 0))))


def _compute_loading_variance(operator: Operator, z: Array) -> float:
    """zᵀAᵀA z."""
    y = operator.combine(z)
    return float(operator.squared_norms(y, correlate_if_needed(operator, y))[0])
