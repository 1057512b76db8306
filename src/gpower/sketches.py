"""A small matrix in place of a large one: a few combinations of the samples that keep what many columns share.

Starts race on it, where they cost little, and columns that stand out in it are better to begin at than the longest
ones, above all on standardised data, whose columns are all as long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._arrays import Array, to_host
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix
from gpower.operators.sparse import in_memory

#: Rows of a sketch beyond the number of components, and turns of the power iteration that sharpens it. With 15 rows
#: more, weak components of GSE1992, GSE3143 and of a factor model are lost; 80, or two turns, gain nothing there.
OVERSAMPLING, TURNS = 40, 1
#: Up to so many samples, or twice the rows of a sketch, the matrix itself is as small.
FEW_SAMPLES = 200


@dataclass(frozen=True, eq=False)
class Sketch:
    """A small matrix in memory, and how much of each column's squared length, (n,), is noise by a sketch's measure."""

    matrix: Operator
    noise: Array

    def holds(self, operator: Operator, z: Array) -> float:
        """Share of the variance of loadings z, (n, 1), that is seen in the small matrix."""
        if not operator.has_samples:
            return 1.0
        seen, there = (float(np.sum(each.combine(each.own(z)) ** 2)) for each in (self.matrix, operator))
        return seen / there if there > 0 else 1.0


def sketched(operator: Operator, n_components: int, rng: np.random.RandomState) -> Sketch:
    """A sketch of a matrix; the matrix itself, in memory, where it has few samples, or none but a covariance."""
    if not operator.has_samples:
        return Sketch(operator, np.zeros(operator.shape[1]))
    rows = n_components + OVERSAMPLING
    B = range_sketch(operator, min(rows, operator.shape[0]), rng)
    small = DataMatrix(in_memory(B))
    if operator.shape[0] > max(FEW_SAMPLES, 2 * rows):
        return Sketch(small, np.zeros(B.shape[1]))
    norms = to_host(operator.column_norms)
    noise = norms.astype(np.float64) ** 2 - small.column_norms.astype(np.float64) ** 2
    return Sketch(DataMatrix(in_memory(to_host(operator.columns(np.arange(B.shape[1])))), norms), noise)


def range_sketch(operator: Operator, rows: int, rng: np.random.RandomState) -> Array:
    """QᵀA, (rows, n), on the host: Q an orthonormal basis of the range of A, as far as a few products find it.

    Along the leading principal components its Gram matrix is nearly AᵀA [Halko, Martinsson and Tropp 2011].
    """
    T = operator.own(rng.standard_normal((operator.shape[1], rows)).astype(operator.dtype))
    for _ in range(TURNS + 1):
        T = operator.correlate(np.linalg.qr(operator.combine(T))[0])
    return np.asfortranarray(to_host(T).T)
