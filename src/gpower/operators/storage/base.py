"""The contract of a container, which stores the data matrix and reads its entries.

A container X, samples × variables, multiplies, sums and gathers columns. The operator `DataMatrix` weights, centres and
scales it. A container implements:

================================== =================================================================
``times(T)``                       X T, shape (n_samples, m)
``transposed_times(Y)``            XᵀY, shape (n_features, m)
``take(idx)``                      X[:, idx] as a container, in host memory or on the device of X
``to_dense()``                     X as an array, each column contiguous; not to be written to
``get_rows(idx)``                  X[idx] as an array (optional: computed with a product by default)
``wrap_array(A)``                  the container of an array of gathered columns, which sums like X
``gram(mean, weight, idx)``        (X − mean)ᵀ diag(w) (X − mean)
``weighted_sums(weight)``          Σ w x of every column, in float64
``squared_deviations(shift, w)``   Σ w (x − shift)² of every column, in float64
``subtract_offsets(shift)``        X with a constant subtracted from each column
``find_non_finite(…)``             the first entry that is not finite
================================== =================================================================

and the attributes that say whether it is sparse or remote and how many columns may be gathered. Arrays that a method
takes and returns are where the matrix is, on the host or a device, except that index arrays and sample weights of sums
are on the host. Matrices that a method multiplies are in the dtype of X, and so are products; index arrays are of int,
different and in any order unless stated otherwise. Sample weights, (n_samples,), are non-negative, not all zero, and
None for ones; no method changes its arguments. The base class
derives the rest. A new type of data needs one such class and a function registered with `gpower.operators.register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from gpower._utils.arrays import Array, asarray_like, to_host
from gpower._utils.messages import format_param
from gpower.operators.moments import find_cancelled

if TYPE_CHECKING:
    from gpower.operators.storage.dense import DenseMatrix

#: Largest share of the matrix that is gathered column by column for a product; above it, reading the whole matrix in
#: order takes no longer.
MAX_GATHERED_SHARE = 0.1
#: Largest number of times that moments are recomputed, each time about a better estimate of the mean.
MAX_COLUMN_REREADS = 3


@dataclass(frozen=True)
class NonFiniteEntry:
    """Position of an entry that is not finite and, if it was looked up, its value."""

    row: int
    column: int
    value: float | None = None

    def make_error(self, column_name: object, storage_name: str = "") -> ValueError:
        """Create the error that reports the entry; the column and, if any, the file or store are given by name."""
        matrix = f"{storage_name}: the matrix" if storage_name else "Input X"
        if self.value is None:
            return ValueError(
                f"{matrix} contains NaN or infinity (inf), first in row {self.row} (counted from 0), column "
                f"{column_name}. Drop or replace those entries."
            )
        if np.isnan(self.value):
            kind = "NaN (a missing value)"
            remedy = f"Drop those rows or columns, or fill them, as {format_param('missing', 'impute')} does."
        else:
            kind = "infinity (inf)"
            remedy = "Drop or replace those entries before fitting."
        return ValueError(
            f"{matrix} contains {kind}, first in column {column_name}, row {self.row} (counted from 0). {remedy}"
        )


class ColumnMoments(NamedTuple):
    """Column means and norms of the deviations from them, each (n_features,), in float64 where the matrix is."""

    mean: Array
    deviation_norms: Array
    passes: float  # number of passes over the matrix that this took


class ShiftedSums(NamedTuple):
    """Weighted sums of x − shift and of (x − shift)² over the samples, each (n_features,), where the matrix is."""

    sums: Array
    squares: Array


class Container(ABC):
    """Storage of a data matrix, samples × variables, before centring and scaling; never written to.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
        Type of every product, float32 or float64.
    is_sparse : bool
        Whether the matrix takes much less memory than its columns would as dense arrays.
    is_remote : bool
        Whether a product with the whole matrix costs much more than one with a few gathered columns.
    is_on_device : bool
        Whether the matrix, and with it the arrays that methods take and return, is on a device.
    storage_description : str
        Where the matrix is, for messages; empty if it is in host memory.
    has_double_sums : bool
        Whether products with float32 data are summed in float64 and rounded once.
    feature_names : tuple of str or None
        Names of the columns, if the storage has them.
    storage_name : str
        Name of the file or store, for messages; empty if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_container
    >>> X = as_container(np.eye(3))
    >>> X.shape, X.dtype, X.is_sparse
    ((3, 3), dtype('float64'), False)
    """

    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool = False
    is_remote: bool = False
    is_on_device: bool = False
    storage_description: str = ""
    has_double_sums: bool = False
    feature_names: tuple[str, ...] | None = None
    storage_name: str = ""

    @property
    def max_cached_columns(self) -> int:
        """Return the number of columns that may be gathered at once as a dense array."""
        return self.shape[1]

    @property
    def max_gram_columns(self) -> int:
        """Return the largest number of columns whose Gram matrix takes little memory compared with the matrix."""
        return self.shape[1]

    @property
    def max_gram_share(self) -> float:
        """Return the number of columns, as a share of n_samples, below which an ascent works on their Gram matrix.

        On a device it is large: a Gram matrix takes one product, and steps on the host do not wait for the device.
        """
        return 2.0 if self.is_on_device and not self.has_double_sums else 0.5

    @property
    def should_use_covariance(self) -> bool:
        """Return whether the covariance is so much smaller than the matrix that it should replace it."""
        return False

    def column_read_share(self, idx: Array) -> float:
        """Return the share of the matrix that is read to gather some columns."""
        return len(idx) / self.shape[1]

    def should_copy(self, n_columns: int) -> bool:
        """Return whether `n_columns` columns may be gathered as an array."""
        return not self.is_sparse and n_columns <= self.max_cached_columns

    def prepare(self, double_sums: bool) -> Container:
        """Return the container to be used in a fit, with float64 sums on request if the data are float32.

        Containers without that option, such as those in blocks, return themselves.
        """
        return self

    @abstractmethod
    def times(self, T: Array) -> Array:
        """Compute X T, (n_samples, m), in a new array in the dtype of X, for T of shape (n_features, m)."""

    @abstractmethod
    def transposed_times(self, Y: Array) -> Array:
        """Compute XᵀY, (n_features, m), in the dtype of X, for Y of shape (n_samples, m)."""

    @abstractmethod
    def take(self, idx: Array) -> Container:
        """Return the columns `idx`, in that order, as a container; sparse columns stay sparse. `idx` is on the host."""

    @abstractmethod
    def to_dense(self) -> Array:
        """Return all columns as an array, (n_samples, n_features), each contiguous; not to be written to."""

    def columns(self, idx: Array) -> Array:
        """Return the columns `idx`, (n_samples, |idx|), as a new array that the caller may change, each contiguous."""
        return self.take(idx).to_dense()

    def get_rows(self, idx: Array) -> Array:
        """Return the rows `idx`, (|idx|, n_features), in the memory of the matrix; `idx` is increasing, on the host.

        Not to be written to. Entries that are not finite make those of other rows in their column not finite.
        """
        unit_vectors = np.zeros((self.shape[0], len(idx)), self.dtype)
        unit_vectors[idx, np.arange(len(idx))] = 1
        return self.transposed_times(self.to_backend(unit_vectors)).T

    def row_read_share(self, idx: Array) -> float:
        """Return the share of the matrix that is read to gather some rows."""
        return len(idx) / self.shape[0]

    @abstractmethod
    def wrap_array(self, A: Array) -> DenseMatrix:
        """Return the container of an array of columns in the memory of the matrix, with sums in the same precision."""

    def to_backend(self, values: Array) -> Array:
        """Return a small array in the memory of the matrix, host or device."""
        return to_host(values)

    def project_onto(self, Y: Array, q: Array) -> Array:
        """Compute Yᵀq, (m,), for Y of shape (n_samples, m) and q, (n_samples,), in the precision of products.

        All three are where the matrix is. On a device the product of a container is also the fastest.
        """
        if self.has_double_sums or self.is_on_device:
            return self.wrap_array(Y).transposed_times(q[:, None])[:, 0]
        return Y.T @ q

    @abstractmethod
    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute (X − mean)ᵀ diag(w) (X − mean), (n, n), adding the products of blocks of rows in float64.

        Parameters
        ----------
        mean : ndarray of shape (n,) or None
            Subtracted from the columns; None for zero. With `idx` it contains the means of those columns alone.
        weight : ndarray of shape (n_samples,) or None
            Non-negative sample weights, where the matrix is.
        idx : ndarray of int of shape (n,), optional
            Columns, on the host; all by default.

        Returns
        -------
        ndarray of shape (n, n)
            In float64, or in the dtype of X if a dense matrix needs a single block.
        """

    @abstractmethod
    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the columns, (n_features,), in float64, where the matrix is."""

    @abstractmethod
    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sum of (x − shift)² of every column, (n_features,), in float64, without cancellation.

        `shift`, (n_features,), is where the matrix is, of any float dtype; it may be rounded to that of X.
        """

    def shifted_sums(self, shift: Array, weight: Array | None) -> ShiftedSums:
        """Compute the weighted sums of x − shift and of its squares, each (n_features,), in float64.

        `shift`, (n_features,), is where the matrix is; `weight`, (n_samples,), is on the host.
        """
        total = self.shape[0] if weight is None else float(np.sum(weight, dtype=np.float64))
        sums = self.weighted_sums(weight) - total * shift.astype(np.float64)
        return ShiftedSums(sums, self.squared_deviations(shift, weight))

    def shifted_sums_by_part(self, mean: Array | None, part: Array, n_parts: int) -> Array:
        """Compute the sum and the Gram matrix of x − mean over each part of the samples, (n_parts, 1 + n, n).

        Sample i belongs to part `part[i]`; `part`, (n_samples,) of int, is on the host. `mean`, (n,), is on the host or
        where the matrix is; None stands for zero. The sum of a part is the first row of its matrix. The result is in
        float64 on the host, zero for a part without samples.
        """
        result = np.zeros((n_parts, 1 + self.shape[1], self.shape[1]))
        shift = self.to_backend(np.zeros(self.shape[1], self.dtype) if mean is None else mean)
        for i in np.unique(part):
            samples, weight = self._select_rows(part == i)
            result[i, 0] = to_host(samples.shifted_sums(shift, weight).sums)
            result[i, 1:] = to_host(samples.gram(None if mean is None else shift, weight))
        return result

    def _select_rows(self, row_mask: Array) -> tuple[Container, Array | None]:
        """Return a container and sample weights for the samples of a mask, (n_samples,), on the host.

        Here these are all samples, with weights zero and one; subclasses may return the samples themselves.
        """
        return self, row_mask.astype(self.dtype)

    def compute_moments(self, weight: Array | None, total_weight: float) -> ColumnMoments:
        """Compute column means, norms of the deviations from them, and the number of passes over the matrix.

        Means and norms ‖√w∘(x − mean)‖ have shape (n_features,), in float64 where the matrix is. `weight`, (n_samples,)
        or None, is on the host, and `total_weight` is its sum or the number of samples.
        """
        mean = self.weighted_sums(weight) / total_weight
        return ColumnMoments(mean, self.deviation_norms(mean, weight), 2.0)  # the means come first

    def deviation_norms(self, mean: Array, weight: Array | None = None) -> Array:
        """Compute ‖√w∘(x − mean)‖ of every column, (n_features,), in float64, without cancellation.

        `mean`, (n_features,), is where the matrix is; it need not be the mean.
        """
        return np.sqrt(self.squared_deviations(mean, weight))

    @abstractmethod
    def subtract_offsets(self, shift: Array) -> Self:
        """Return the matrix with a constant subtracted from each column, `shift` of shape (n_features,).

        The matrix itself is not changed. A sparse matrix subtracts it from stored entries only, so that `shift` must be
        zero for columns with entries that are not stored.
        """

    @abstractmethod
    def find_non_finite(self, is_suspected: bool, allow_nan: bool) -> NonFiniteEntry | None:
        """Return the first entry that is not finite (with `allow_nan`, that is infinite), or None.

        `is_suspected` says that an earlier read found a result that is not finite, so that entries must be searched.
        Otherwise containers that check entries when they read them for another purpose may return None unread.
        """

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """Compute the scores (X − mean) @ loadings, (n_samples, m).

        `loadings`, (n_features, m), are already divided by the scales of the columns; `mean` has shape (n_features,).
        Both are where the matrix is, in its dtype, as the result is.
        """
        return self.times(loadings) - mean @ loadings


def add_in_float64(terms: Iterable[Array]) -> Array:
    """Add arrays of one shape in their order, at least one; the sum is in float64, a single array is returned itself.

    The arrays belong to this function: the first may be overwritten.
    """
    terms = iter(terms)
    total = next(terms)
    for term in terms:
        total = total.astype(np.float64, copy=False)
        total += term
    return total


class InMemoryMatrix(Container):
    """Container of a matrix A in memory: a NumPy array, a SciPy sparse matrix or an array on a device.

    A has shape (n_samples, n_features) and dtype float32 or float64. It is not copied.
    """

    A: Array

    def __init__(self, A: Array, has_double_sums: bool = False) -> None:
        self.A = A
        self.has_double_sums = has_double_sums
        self.shape = A.shape
        self.dtype = A.dtype

    def prepare(self, double_sums: bool) -> Self:
        """Return the container with float64 sums on request if the data are float32."""
        return type(self)(self.A, double_sums and self.dtype == np.float32)

    def take(self, idx: Array) -> Self:
        """Return a copy of the columns `idx`, indices on the host, as a container where the matrix is."""
        return type(self)(self.A[:, self.to_backend(idx)], self.has_double_sums)

    def to_backend(self, values: Array) -> Array:
        """Return a small array in the memory of the matrix, host or device, without a copy if it is there already."""
        return asarray_like(self.stored_values, values) if self.is_on_device else to_host(values)

    def get_rows(self, idx: Array) -> Array:
        """Return the rows `idx`, (|idx|, n_features), as a new dense array where the matrix is."""
        return self.select_rows(idx).to_dense()

    def select_rows(self, idx: Array) -> Self:
        """Return a copy of the rows `idx`, indices on the host, as a container."""
        return type(self)(self.A[self.to_backend(idx)], self.has_double_sums)

    def copy_to_host(self) -> Any:
        """Return the matrix as a NumPy array or a SciPy matrix in host memory, itself if it is there."""
        return self.A.get() if self.is_on_device else self.A  # type: ignore[attr-defined]

    def _select_rows(self, row_mask: Array) -> tuple[Container, Array | None]:
        """Return a copy of the samples of a mask, (n_samples,) on the host, as a container, and no weights."""
        return self.select_rows(np.flatnonzero(row_mask)), None

    @property
    @abstractmethod
    def stored_values(self) -> Array:
        """Return the array of stored entries, where the matrix is: the matrix, or the entries of a sparse one."""

    @abstractmethod
    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Return rows and columns of the stored entries that `entry_mask` marks, on the host.

        `entry_mask` has the shape of `stored_values` and is where they are.
        """

    def head(self, n_rows: int) -> Array:
        """Return the first rows, (min(n_rows, n_samples), n_features), dense, in a new array."""
        return self.get_rows(np.arange(min(n_rows, self.shape[0])))

    def locate_non_finite(self, allow_nan: bool = False, *, by_row: bool = True) -> tuple[int, int] | None:
        """Return row and column of the first entry that is not finite (with `allow_nan`, that is infinite), or None.

        The first is meant row by row, or column by column without `by_row`; of a sparse matrix among stored entries.
        """
        is_invalid = np.isinf(self.stored_values) if allow_nan else ~np.isfinite(self.stored_values)
        if not is_invalid.any():
            return None
        rows, columns = self.locate_entries(is_invalid)
        first = np.lexsort((columns, rows) if by_row else (rows, columns))[0]
        return int(rows[first]), int(columns[first])

    def find_non_finite(self, is_suspected: bool, allow_nan: bool) -> NonFiniteEntry | None:
        """Return the first entry, column by column, that is not finite (with `allow_nan`, infinite), or None.

        Unless it is suspected, a finite sum of all entries is taken as proof that there is none.
        """
        with np.errstate(all="ignore"):
            if not is_suspected and np.isfinite(np.sum(self.stored_values)):
                return None
        position = self.locate_non_finite(allow_nan, by_row=False)
        return None if position is None else NonFiniteEntry(*position, float(self.A[position]))


class OnePassMoments(Container):
    """Container that computes means and norms of its columns from sums about a shift, in one pass.

    The squared norm is Σd² − (Σd)²/W for the differences d from the shift. Columns where this cancels are read again,
    about a typical value if the first shift was zero, then about their mean.
    """

    @property
    def is_first_shift_zero(self) -> bool:
        """Return whether the first shift is zero, which rarely loses digits in float64."""
        return False

    @abstractmethod
    def shifted_sums(self, shift: Array, weight: Array | None) -> ShiftedSums:
        """Compute the weighted sums of x − shift and of its squares, each (n_features,), in float64."""

    @abstractmethod
    def estimate_column_centers(self, weight: Array | None) -> Array:
        """Return a typical value of every column, (n_features,), which for a constant column is exactly its value.

        It is in the dtype of X. Samples of weight zero should not count.
        """

    def select_reread(self, lost_columns: Array) -> tuple[Array | slice, OnePassMoments, float]:
        """Return the columns to be read again, at least those of the mask `lost_columns`, (n_features,): here all.

        They are given by their increasing indices, or a slice for all, and as a container, with the share of the matrix
        that is read for them.
        """
        return slice(None), self, 1.0

    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the columns, (n_features,), in float64; `weight` is None for ones."""
        return self.shifted_sums(np.zeros(self.shape[1], self.dtype), weight).sums

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sums of (x − shift)² of every column, (n_features,), in float64."""
        return self.shifted_sums(shift.astype(self.dtype), weight).squares

    def compute_moments(self, weight: Array | None, total_weight: float) -> ColumnMoments:
        """Compute means, deviation norms and passes in one pass; columns that lost digits are read again.

        Arguments and results are as in `Container.compute_moments`. After `MAX_COLUMN_REREADS` the last values stay.
        """
        shift = np.zeros(self.shape[1]) if self.is_first_shift_zero else self.estimate_column_centers(weight)
        mean, squares, is_lossy = self._compute_moments_about(shift, weight, total_weight)
        passes = 1.0
        for reread in range(MAX_COLUMN_REREADS):
            if not is_lossy.any():
                break
            idx, columns, share = self.select_reread(is_lossy)
            shift = mean[idx].astype(self.dtype)
            if self.is_first_shift_zero and reread == 0:
                shift = np.where(is_lossy[idx], columns.estimate_column_centers(weight), shift)
            mean[idx], squares[idx], is_lossy[idx] = columns._compute_moments_about(shift, weight, total_weight)
            passes += share
        return ColumnMoments(mean, np.sqrt(squares), passes)

    def _compute_moments_about(
        self, shift: Array, weight: Array | None, total_weight: float
    ) -> tuple[Array, Array, Array]:
        """Compute means, squared norms of the deviations from them, and a mask of the columns whose norms lost digits.

        All have shape (n_features,), as `shift` has, about which the sums are taken. Means and squared norms are in
        float64, the latter at least zero; the mask is of bool, true also for NaN.
        """
        sums, squares = self.shifted_sums(shift, weight)
        squared_norms = np.maximum(squares - sums**2 / total_weight, 0)
        return shift + sums / total_weight, squared_norms, find_cancelled(squares, squared_norms, self.dtype)
