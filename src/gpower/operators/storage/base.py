"""What a data matrix is kept in: the contract of a container, which alone knows how its numbers are read.

A container X, samples × variables, multiplies, sums and gathers; it is weighted, centred and scaled by the operator
above it, `DataMatrix`. What it must know:

=========================== ========================================================================
``times(T)``                X T, shape (n_samples, m)
``transposed_times(Y)``     XᵀY, shape (n_features, m)
``part(idx)``               X[:, idx], in the memory of this machine or where X is
``dense()``                 all of X as an array, each column contiguous; not to be written to
``samples(idx)``            X[idx] as an array
``held(A)``                 columns gathered from it, an array, as a container that sums as it does
``gram(mean, weight)``      (X − mean)ᵀ diag(w) (X − mean)
``sums(weight)``            Σ w x of every column, in float64
``squares_about(m, w)``     Σ w (x − m)² of every column, in float64
``shifted(shift)``          X less a constant per column
``bad_entry(…)``            the first entry that is not finite
=========================== ========================================================================

and what it says of itself: whether it is sparse or remote, how many columns may be gathered from it. The rest follows.
A new kind of data needs one such class, and a recogniser registered with `gpower.operators.register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from gpower._utils.arrays import Array, to_host
from gpower.operators.moments import find_cancelled

if TYPE_CHECKING:
    from gpower.operators.storage.dense import DenseMatrix

#: Products with few non-zero rows of T touch only those columns; above this share the whole matrix is read.
MAX_GATHERED_SHARE = 0.1
#: How often columns are looked at again at most: each time about a better mean.
MAX_COLUMN_REREADS = 3


@dataclass(frozen=True)
class NonFiniteEntry:
    """An entry that is not finite: where it is and, where that was looked up, its value."""

    row: int
    column: int
    value: float | None = None

    def make_error(self, column_name: object) -> ValueError:
        """What to say of it, the column called by its name."""
        if self.value is None:
            return ValueError(
                f"Input X contains NaN or infinity (inf), first in row {self.row} (counted from 0), column "
                f"{column_name}. Drop or replace those entries."
            )
        kind, remedy = "infinity (inf)", "Drop or replace those entries before fitting."
        if np.isnan(self.value):
            kind, remedy = "NaN (a missing value)", "Drop those rows or columns, or fill them, as "
            remedy += 'GPower(missing="impute") does.'
        return ValueError(
            f"Input X contains {kind}, first in column {column_name}, row {self.row} (counted from 0). {remedy}"
        )


class Container(ABC):
    """Samples × variables, as the user gave them; never written to.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
        float32 or float64; every product is of this type.
    is_sparse : bool
        Whether columns stored densely would take much more room than the matrix.
    is_remote : bool
        Whether a step on the whole matrix costs much more than arithmetic with a few gathered columns.
    whereabouts : str
        Where it is, in words, if not in the memory of this machine.
    in_double : bool
        Whether products with data in single precision are summed in double, and rounded once.
    names : tuple of str or None
        Names of the columns, where they are known.

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
    storage_description: str = ""
    has_double_sums: bool = False
    feature_names: tuple[str, ...] | None = None

    @property
    def max_cached_columns(self) -> int:
        """Number of columns that may be gathered at once."""
        return self.shape[1]

    @property
    def max_gram_columns(self) -> int:
        """Number of columns whose Gram matrix still takes little room beside the matrix."""
        return self.shape[1]

    @property
    def max_gram_share(self) -> float:
        """Columns are ascended on by their Gram matrix when they are fewer than this share of the samples."""
        return 0.5

    @property
    def should_use_covariance(self) -> bool:
        """Whether its covariance takes so little room beside it that it may stand for it."""
        return False

    def column_read_share(self, idx: Array) -> float:
        """Of a read of the matrix, what it takes to gather some columns."""
        return len(idx) / self.shape[1]

    def supports_take(self, n_columns: int) -> bool:
        """Whether a product that uses so many columns had better read those alone."""
        return n_columns <= MAX_GATHERED_SHARE * self.shape[1]

    def should_copy(self, n_columns: int) -> bool:
        """Whether so many columns may be gathered as an array."""
        return not self.is_sparse and n_columns <= self.max_cached_columns

    def prepare(self, double_sums: bool) -> Container:
        """As the products of a fit want it, summed in double if asked to and if that makes a difference."""
        return self

    @abstractmethod
    def times(self, T: Array) -> Array:
        """X T."""

    @abstractmethod
    def transposed_times(self, Y: Array) -> Array:
        """XᵀY."""

    @abstractmethod
    def take(self, idx: Array) -> Container:
        """Some columns, not yet dense if they are sparse."""

    @abstractmethod
    def to_dense(self) -> Array:
        """All columns as an array, each contiguous; not to be written to."""

    def columns(self, idx: Array) -> Array:
        """Some columns as an array of our own, each contiguous."""
        return self.take(idx).to_dense()

    def get_rows(self, idx: Array) -> Array:
        """Return some rows as an array, where the matrix is; `idx` grows."""
        chosen = np.zeros((self.shape[0], len(idx)), self.dtype)
        chosen[idx, np.arange(len(idx))] = 1
        return self.transposed_times(self.to_backend(chosen)).T

    def row_read_share(self, idx: Array) -> float:
        """Of a read of the matrix, what it takes to gather some rows."""
        return len(idx) / self.shape[0]

    @abstractmethod
    def wrap_array(self, A: Array) -> DenseMatrix:
        """Columns gathered from it, or made of those, where it is; summed as it sums."""

    def to_backend(self, values: Array) -> Array:
        """A small array where the matrix is."""
        return to_host(values)

    def project_onto(self, Y: Array, q: Array) -> Array:
        """Yᵀq for an array Y of columns, summed as the products are."""
        return self.wrap_array(Y).transposed_times(q[:, None])[:, 0] if self.has_double_sums else Y.T @ q

    @abstractmethod
    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """(X − mean)ᵀ diag(w) (X − mean), of the columns `idx` if given, whose means these are; summed in float64."""

    @abstractmethod
    def weighted_sums(self, weight: Array | None) -> Array:
        """Weighted sums of the columns, in float64."""

    @abstractmethod
    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Weighted sums of (x − shift)² of every column, in float64, without cancellation."""

    def shifted_sums(self, shift: Array, weight: Array | None) -> tuple[Array, Array]:
        """Weighted sums of x − shift and of its squares."""
        total = self.shape[0] if weight is None else float(np.sum(weight, dtype=np.float64))
        return self.weighted_sums(weight) - total * shift.astype(np.float64), self.squared_deviations(shift, weight)

    def shifted_sums_by_part(self, mean: Array | None, part: Array, n_parts: int) -> Array:
        """Sum and Gram matrix of x − mean over each part of the samples, numbered by `part`, (count, 1 + n, n)."""
        found = np.zeros((n_parts, 1 + self.shape[1], self.shape[1]))
        shift = self.to_backend(np.zeros(self.shape[1], self.dtype)) if mean is None else mean
        for i in np.unique(part):
            some, weight = self._select_rows(part == i)
            found[i, 0], found[i, 1:] = map(to_host, (some.shifted_sums(shift, weight)[0], some.gram(mean, weight)))
        return found

    def _select_rows(self, row_mask: Array) -> tuple[Container, Array | None]:
        """Some samples: all of them, by weights of zero and one."""
        return self, row_mask.astype(self.dtype)

    def compute_moments(self, weight: Array | None, total_weight: float) -> tuple[Array, Array, float]:
        """Means, norms of the deviations from them, and how many reads that took."""
        mean = self.weighted_sums(weight) / total_weight
        return mean, self.deviation_norms(mean, weight), 1.0

    def deviation_norms(self, mean: Array, weight: Array | None = None) -> Array:
        """‖√w∘(x − mean)‖ of every column, without cancellation."""
        return np.sqrt(self.squared_deviations(mean, weight))

    @abstractmethod
    def subtract_offsets(self, shift: Array) -> Self:
        """The matrix less a constant per column."""

    @abstractmethod
    def find_non_finite(self, is_suspected: bool, allow_nan: bool) -> NonFiniteEntry | None:
        """The first entry that is not finite (or infinite, where NaN are allowed); one may be suspected already."""

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """(X − mean) @ loadings."""
        return self.times(loadings) - mean @ loadings


class InMemoryMatrix(Container):
    """A matrix of NumPy, SciPy or a device, A, whole in memory."""

    A: Array

    def __init__(self, A: Array, has_double_sums: bool = False) -> None:
        self.A, self.has_double_sums = A, has_double_sums
        self.shape, self.dtype = A.shape, A.dtype

    def prepare(self, double_sums: bool) -> Self:
        """Sums in double make a difference to data in single precision."""
        return type(self)(self.A, double_sums and self.dtype == np.float32)

    def take(self, idx: Array) -> Self:
        """Some columns, a copy."""
        return type(self)(self.A[:, idx], self.has_double_sums)

    def get_rows(self, idx: Array) -> Array:
        """Return some rows as an array of our own."""
        return type(self)(self.A[self.to_backend(idx)]).to_dense()

    def _select_rows(self, row_mask: Array) -> tuple[Container, Array | None]:
        """Some samples, a copy."""
        return type(self)(self.A[self.to_backend(np.flatnonzero(row_mask))], self.has_double_sums), None

    @property
    @abstractmethod
    def stored_values(self) -> Array:
        """The numbers that are stored."""

    @abstractmethod
    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Rows and columns of those of the values that are marked, on the host."""

    def head(self, n_rows: int) -> Array:
        """The first rows, dense."""
        return type(self)(self.A[:n_rows]).to_dense()

    def locate_non_finite(self, allow_nan: bool = False, *, by_row: bool = True) -> tuple[int, int] | None:
        """Row and column of the first entry that is not finite."""
        bad = np.isinf(self.stored_values) if allow_nan else ~np.isfinite(self.stored_values)
        if not bad.any():
            return None
        rows, columns = self.locate_entries(bad)
        first = np.lexsort((columns, rows) if by_row else (rows, columns))[0]
        return int(rows[first]), int(columns[first])

    def find_non_finite(self, is_suspected: bool, allow_nan: bool) -> NonFiniteEntry | None:
        """The first by column."""
        with np.errstate(all="ignore"):
            if not is_suspected and np.isfinite(np.sum(self.stored_values)):
                return None
        place = self.locate_non_finite(allow_nan, by_row=False)
        return None if place is None else NonFiniteEntry(*place, float(self.A[place]))


class OnePassMoments(Container):
    """A matrix whose sums and squares come from one read, about a shift.

    Σd² − (Σd)²/W for the differences d from the shift. Columns where that cancels are looked at again, about a typical
    value if zero was the shift, then about their mean.
    """

    @property
    def is_first_shift_zero(self) -> bool:
        """Whether zero is the first shift: double precision bears it mostly."""
        return False

    @abstractmethod
    def shifted_sums(self, shift: Array, weight: Array | None) -> tuple[Array, Array]:
        """Weighted sums of x − shift and of its squares over the rows, in float64."""

    @abstractmethod
    def estimate_column_centers(self, weight: Array | None) -> Array:
        """A typical value of every column; of a constant column its very value."""

    @abstractmethod
    def select_reread(self, lost_columns: Array) -> tuple[Array | slice, OnePassMoments, float]:
        """Columns to be looked at again, which they are, and the share of a read that takes."""

    def weighted_sums(self, weight: Array | None) -> Array:
        """Weighted sums of the columns."""
        return self.shifted_sums(np.zeros(self.shape[1], self.dtype), weight)[0]

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Weighted sums of (x − shift)²."""
        return self.shifted_sums(shift.astype(self.dtype), weight)[1]

    def compute_moments(self, weight: Array | None, total_weight: float) -> tuple[Array, Array, float]:
        """One read, and some columns again where that lost digits."""
        shift, reads = (
            np.zeros(self.shape[1]) if self.is_first_shift_zero else self.estimate_column_centers(weight),
            1.0,
        )
        mean, squares, lost = self._compute_moments_about(shift, weight, total_weight)
        for look in range(MAX_COLUMN_REREADS):
            if not lost.any():
                break
            idx, part, share = self.select_reread(lost)
            shift = (
                part.estimate_column_centers(weight)
                if self.is_first_shift_zero and look == 0
                else mean[idx].astype(self.dtype)
            )
            shift, reads = np.where(lost[idx], shift, mean[idx].astype(self.dtype)), reads + share
            mean[idx], squares[idx], lost[idx] = part._compute_moments_about(shift, weight, total_weight)
        return mean, np.sqrt(squares), reads

    def _compute_moments_about(
        self, shift: Array, weight: Array | None, total_weight: float
    ) -> tuple[Array, Array, Array]:
        """Means, squared norms of the deviations from them, and where these have cancelled."""
        sums, squares = self.shifted_sums(shift, weight)
        kept = np.maximum(squares - sums**2 / total_weight, 0)
        return shift + sums / total_weight, kept, find_cancelled(squares, kept, self.dtype)
