"""Container of SciPy's CSR and CSC matrices, which are never converted to dense as a whole.

Products, sums and gathered columns are computed by threads over parts of the matrix: rows of a CSR matrix or columns of
a CSC matrix, as views. The parts depend on the matrix alone, and so do the results.

X, the matrix, has shape (n_samples, n_features) and dtype float32 or float64; no method changes it or its arguments. T
has shape (n_features, m) and Y (n_samples, m), in the dtype of X; `idx` are indices of columns on the host; `mean` and
`shift` have shape (n_features,); `weight` contains non-negative sample weights, (n_samples,), and is None for ones. All
arrays are on the host; in the subclass `DeviceSparseMatrix` all but indices and the weights of sums are on a device.

Terms: the attribute `A` is the matrix, and `has_double_sums` says that products with float32 data are summed in
float64. Lines are the rows of a CSR or the columns of a CSC matrix. ``split_lines(A, n)`` returns slices of consecutive
lines, all together, with about n stored entries each; ``view_lines(A, lines, transpose=False)`` is a matrix in CSR or
CSC that shares their entries, transposed if asked. ``map_in_threads(function, items)`` yields the results in the order
of the items; ``add_in_float64(terms)`` adds arrays in their order, in float64, and returns a single one itself.
``sum_duplicate_entries(A)`` is the matrix with every entry stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array
from gpower._utils.forwarding import forward
from gpower._utils.sparse_parts import split_lines, view_lines
from gpower._utils.threads import map_in_threads
from gpower.io.stores.matrix_source import DataBlock, ScipySparse, sum_duplicate_entries
from gpower.operators.storage.base import InMemoryMatrix, add_in_float64
from gpower.operators.storage.dense import DenseMatrix

#: Smallest number of stored entries of a part.
MIN_PART_ENTRIES = 1 << 20
#: Smallest number of stored entries of a part for each number of its result, if the results of parts are added up.
ENTRIES_PER_SUM = 8
#: Largest number of sections of consecutive parts whose results are added up by separate threads. The number does not
#: depend on the number of threads, so that the sums do not.
MAX_SECTIONS = 16
#: Largest number of entries of a Gram matrix for each stored entry of the chosen columns in a section, which limits the
#: memory of the Gram matrices of the sections.
SUMS_PER_SECTION_ENTRY = 4
#: Number of entries, and largest and smallest number of rows, of a dense block of a Gram matrix.
DENSE_GRAM_ENTRIES, MAX_DENSE_GRAM_ROWS, MIN_DENSE_GRAM_ROWS = 1 << 22, 1 << 12, 1 << 8
#: Share of stored entries above which the Gram matrix of dense rows is cheaper.
MIN_DENSE_GRAM_DENSITY = 0.1
#: Number of column groups of a sparse Gram product (measured on CSR 50000 × 2000 in one thread: 6.5 s as one group,
#: 4.8 s in 8 groups), and smallest number of columns of a group.
GRAM_COLUMN_GROUPS, MIN_GROUP_COLUMNS = 16, 32


def wrap_in_memory(matrix: DataBlock) -> InMemoryMatrix:
    """Return the container of a NumPy array or SciPy sparse matrix."""
    return SparseMatrix(matrix) if sp.issparse(matrix) else DenseMatrix(matrix)


class SparseMatrix(InMemoryMatrix):
    """Container of a CSR or CSC matrix A on the host; entries that are not stored are zero."""

    A: ScipySparse
    is_sparse = True

    @property
    def should_use_covariance(self) -> bool:
        """Return whether the matrix has more stored entries than its covariance; one on a device stays there."""
        return bool(self.shape[1] ** 2 < self.A.nnz) and not self.is_on_device

    @property
    def max_gram_columns(self) -> int:
        """Return the number of columns whose Gram matrix has a quarter as many entries as the matrix stores."""
        return int(np.sqrt(self.A.nnz) / 2)

    def prepare(self, double_sums: bool) -> Self:
        """Return the matrix with every entry stored once, and float64 sums on request if the data are float32."""
        return type(self)(sum_duplicate_entries(self.A), double_sums and self.dtype == np.float32)

    def times(self, T: Array) -> Array:
        """Compute X T, (n_samples, m), with float64 sums if `has_double_sums`."""
        return self._multiply_parts(self._to_sum_dtype(T), transpose=False).astype(self.dtype, copy=False)

    def transposed_times(self, Y: Array) -> Array:
        """Compute XᵀY, (n_features, m), with float64 sums if `has_double_sums`."""
        return self._multiply_parts(self._to_sum_dtype(Y), transpose=True).astype(self.dtype, copy=False)

    def _to_sum_dtype(self, Y: Array) -> Array:
        """Return Y in the dtype of sums, row by row in memory, as SciPy needs it."""
        return Y.astype(np.float64 if self.has_double_sums else self.dtype, order="C", copy=False)

    def _multiply_parts(
        self, Y: Array, *, transpose: bool, transform: Callable[[Array, Array], Array] | None = None
    ) -> Array:
        """Compute X Y or, with `transpose`, XᵀY in the common dtype of X and Y, where Y has m columns.

        `transform`, if given, is called with the values and the columns of the stored entries of each part and returns
        the values to use instead, in float64.
        """
        A, is_csr = self.A, self.A.format == "csr"
        are_lines_separate = is_csr != transpose  # each line gives a row of the product; otherwise parts are added up
        n_sums = 0 if are_lines_separate else self.shape[1 if transpose else 0] * max(Y.shape[1], ENTRIES_PER_SUM)

        def multiply_part(lines: slice) -> Array:
            part = view_lines(A, lines, transpose=transpose)
            if transform is not None:
                columns = part.indices
                if not is_csr:
                    columns = np.repeat(np.arange(lines.start, lines.stop), np.diff(part.indptr))
                part.data = transform(part.data, columns)
            return np.asarray(part @ (Y if are_lines_separate else Y[lines]))

        parts = split_lines(A, max(MIN_PART_ENTRIES, n_sums))
        if len(parts) == 1:
            return multiply_part(parts[0])
        if not are_lines_separate:
            step = -(-len(parts) // MAX_SECTIONS)
            sections = [parts[i : i + step] for i in range(0, len(parts), step)]
            return add_in_float64(map_in_threads(lambda section: add_in_float64(map(multiply_part, section)), sections))
        dtype = np.result_type(A.dtype if transform is None else np.float64, Y.dtype)
        product = np.empty((A.indptr.size - 1, Y.shape[1]), dtype)

        def fill_part(lines: slice) -> None:
            product[lines] = multiply_part(lines)

        for _ in map_in_threads(fill_part, parts):
            pass
        return product

    def take(self, idx: Array) -> Self:
        """Return a copy of the columns `idx`, in that order, in the format of the matrix."""
        if self.A.format == "csc":
            return super().take(idx)
        parts = split_lines(self.A, max(MIN_PART_ENTRIES, ENTRIES_PER_SUM * self.shape[1]))
        gathered = list(map_in_threads(lambda lines: view_lines(self.A, lines)[:, idx], parts))
        return type(self)(sp.vstack(gathered, format="csr"), self.has_double_sums)

    def to_dense(self) -> Array:
        """Return the matrix as a dense array in Fortran order."""
        return np.asarray(self.A.toarray(order="F"))

    def wrap_array(self, A: Array) -> DenseMatrix:
        """Return the container of gathered columns, a dense array (n_samples, m), with the same precision of sums."""
        return DenseMatrix(A, self.has_double_sums)

    def subtract_offsets(self, shift: Array) -> Self:
        """Return a copy with a constant subtracted from the stored entries of each column.

        `shift`, (n_features,), must be zero for columns with entries that are not stored. A column with an offset large
        enough to be subtracted has every entry stored; otherwise it would vary by as much as its mean.
        """
        A = self.A.copy()
        cols = A.indices if A.format == "csr" else np.repeat(np.arange(self.shape[1]), np.diff(A.indptr))
        A.data -= shift.astype(self.dtype)[cols]
        return type(self)(A, self.has_double_sums)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute the Gram matrix by sections of the rows, one thread each, summed in float64.

        It is (X − mean)ᵀ diag(w) (X − mean), (n, n), dense in float64; with `idx` that of these n columns, and `mean`
        is (n,), of them alone, or None for zero. Chosen columns are gathered part by part. A part with many entries, or
        that must be centred, is converted to dense block by block.
        """
        if idx is not None and self.A.format == "csc":
            return self.take(idx).gram(mean, weight)
        A = self.A.tocsr()
        n = A.shape[1] if idx is None else len(idx)
        groups = _split_columns(n)
        # Entries of A that give one entry of the chosen columns, were they spread evenly.
        entries_per_chosen = A.shape[1] / max(n, 1)
        entries_per_sum = max(MIN_PART_ENTRIES, n * n * entries_per_chosen / SUMS_PER_SECTION_ENTRY)
        sections = split_lines(A, int(max(entries_per_sum, A.nnz / MAX_SECTIONS)))
        entries_per_part = int(max(MIN_PART_ENTRIES, n * n // ENTRIES_PER_SUM) * entries_per_chosen)

        def sum_section(section: slice) -> Array:
            S = np.zeros((n, n))
            B = view_lines(A, section)
            w = None if weight is None else weight[section]
            for rows in split_lines(B, max(entries_per_part, 1)):
                part = view_lines(B, rows) if idx is None else view_lines(B, rows)[:, idx]
                w_part = None if w is None else w[rows]
                if mean is None and part.nnz <= MIN_DENSE_GRAM_DENSITY * part.shape[0] * n:
                    _add_sparse_gram(S, part, w_part, groups)
                else:
                    self._add_dense_gram(S, part, mean, w_part)
            return S

        S = add_in_float64(map_in_threads(sum_section, sections, limit_blas=True))
        for i, j in groups:
            S[j:, i:j] = S[i:j, j:].T
        return S

    def _add_dense_gram(self, S: Array, A: ScipySparse, mean: Array | None, weight: Array | None) -> None:
        """Add the Gram matrix of a CSR matrix of many entries to S, (n, n), from dense blocks of its rows.

        A, (p, n), has some rows of the matrix and the columns of S; `mean` is (n,), `weight` (p,), for these rows. S is
        changed in place, both triangles.
        """
        p, n = A.shape
        step = int(np.clip(DENSE_GRAM_ENTRIES // max(n, 1), MIN_DENSE_GRAM_ROWS, MAX_DENSE_GRAM_ROWS))
        blocks = [slice(start, min(start + step, p)) for start in range(0, p, step)]
        dense_blocks = map_in_threads(lambda rows: view_lines(A, rows).toarray(), blocks)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite entries are reported elsewhere
            for rows, B in zip(blocks, dense_blocks, strict=True):
                S += DenseMatrix(B, self.has_double_sums).gram(mean, None if weight is None else weight[rows])

    stored_values = forward("A.data", "Return the stored entries.")

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Return rows and columns of the stored entries that `entry_mask`, (nnz,), marks."""
        stored = self.A.tocoo(copy=False)
        return stored.row[entry_mask], stored.col[entry_mask]

    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the columns in float64, because float32 sums of repeated values drift."""
        return self._multiply_parts(self._make_weight_column(weight), transpose=True)[:, 0]

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sums of (x − shift)², where entries that are not stored deviate by shift.

        The result has shape (n_features,), in float64. Every entry must be stored once (see `prepare`), because stored
        entries are counted.
        """
        shift, w = shift.astype(np.float64), self._make_weight_column(weight)
        squares = self._multiply_parts(
            w, transpose=True, transform=lambda values, columns: (values.astype(np.float64) - shift[columns]) ** 2
        )
        counted = w if weight is None else np.concatenate([w, np.ones_like(w)], axis=1)
        stored = self._multiply_parts(
            counted, transpose=True, transform=lambda values, columns: np.ones_like(values, dtype=np.float64)
        )
        unstored_weight = np.where(stored[:, -1] < self.shape[0], np.maximum(np.sum(w) - stored[:, 0], 0), 0)
        total: Array = squares[:, 0] + unstored_weight * shift**2
        return total

    def _make_weight_column(self, weight: Array | None) -> Array:
        """Return sample weights, (n_samples,) or None for ones, as a column in float64 where the matrix is."""
        w = np.ones(self.shape[0]) if weight is None else weight.astype(np.float64)
        return self.to_backend(w[:, None])


def _split_columns(n: int) -> list[tuple[int, int]]:
    """Return the first column and the end of each group of columns of a sparse Gram product, together 0 to n."""
    n_groups = int(np.clip(n // MIN_GROUP_COLUMNS, 1, GRAM_COLUMN_GROUPS))
    return list(pairwise(np.linspace(0, n, n_groups + 1).astype(int).tolist()))


def _add_sparse_gram(S: Array, A: ScipySparse, weight: Array | None, groups: Sequence[tuple[int, int]]) -> None:
    """Add AᵀWA of a CSR matrix of few entries to S, (n, n) in float64, on and above the blocks of the diagonal.

    A, (p, n), has some rows of the matrix and the columns of S; `weight` is (p,), or None for ones. S is changed in
    place. Threads multiply groups of columns, as `groups` gives them, with themselves and later ones; the entries below
    the diagonal blocks of the groups follow by symmetry, and are not written here.
    """
    B = A.astype(np.float64)
    if weight is not None:
        B.data *= np.repeat(np.sqrt(weight, dtype=np.float64), np.diff(B.indptr))
    by_column = B.tocsc()

    def multiply_group(group: tuple[int, int]) -> Array:
        i, j = group
        return (by_column[:, i:j].T @ (B[:, i:] if i else B)).toarray()

    for (i, j), product in zip(groups, map_in_threads(multiply_group, groups), strict=True):
        S[i:j, i:] += product
