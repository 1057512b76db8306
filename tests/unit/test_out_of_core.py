"""Data read in blocks give the result of the array within the memory limit, and every read is counted."""

import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from tests.fitted_models import assert_same_fit
from tests.memory import measure_peak_memory
from tests.stored_matrices import make_counting_store, make_store

from gpower import GPower, Solver, sparsity_path
from gpower.io.stores.matrix_source import MatrixSource, StoreError
from gpower.operators.storage.disk import StreamedMatrix

P, N = 150, 1700  # too many entries for the direct ascent
LIMIT = 2_000_000  # bytes: five blocks of rows, and a fifth of the columns may be gathered at once
LITTLE = 330_000  # blocks of six rows


def make_factor_data(seed=0, p=P, n=N):
    """Return samples of three factors on some tens of variables each, with noise and offsets."""
    rng = np.random.default_rng(seed)
    V = np.zeros((n, 3))
    for j, size in enumerate((24, 16, 10)):
        V[rng.permutation(n)[:size], j] = 2 * rng.standard_normal(size)
    return rng.standard_normal((p, 3)) @ V.T + rng.standard_normal((p, n)) + rng.uniform(-3, 3, n)


X = make_factor_data(2)
WEIGHTS = np.random.default_rng(1).uniform(0.2, 3, P)


def count_lines(reads):
    """Return the number of lines that were read."""
    return sum(hi - lo for lo, hi in reads)


OPTIONS = {
    "cardinality": {"cardinality": [20, 14, 8]},
    "l1 with a cardinality": {"penalty": "l1", "cardinality": 15},
    "block of a cardinality": {"method": "block", "cardinality": 15, "mu": [1.0, 0.8, 0.6], "tol": 1e-12},
    "block l1": {"method": "block", "penalty": "l1", "gamma": 0.2, "mu": [1.0, 0.8, 0.6], "tol": 1e-12},
    "scaled uncentred": {"scale": True, "center": False, "gamma": 0.05, "deflation": "schur"},
    "l1 variance": {"variance": "l1", "penalty": "l1", "gamma": 0.3},
    "direct": {"solver": Solver("full"), "gamma": 0.05},
    "no refit": {"gamma": 0.05, "solver": Solver(refit=None), "tol": 1e-13},
}


@cache
def reference(name):
    """Return the fit to the array in memory."""
    return GPower(3, **OPTIONS[name]).fit(X)


@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
@pytest.mark.parametrize("name", OPTIONS)
def test_blocks_give_the_answer_of_the_array(name, axis):
    assert_same_fit(GPower(3, memory_limit=LIMIT, **OPTIONS[name]).fit(make_store(X, axis)), reference(name))


def test_sums_over_many_blocks_of_float32_lose_nothing():
    """2²⁰ rows in blocks of 256: a sum in float32 would stop growing at 2²⁴ of the value's own digits."""
    p = 1 << 20
    rows = MatrixSource("ones", (p, 2), np.dtype(np.float32), lambda lo, hi: np.full((hi - lo, 2), 0.1, np.float32))
    matrix = StreamedMatrix(rows, 1 << 13)
    assert matrix.n_blocks == p // 256
    found = matrix.transposed_times(np.ones((p, 1), np.float32)).ravel()
    np.testing.assert_allclose(found, p * float(np.float32(0.1)), rtol=1e-6)


def test_an_entry_stored_in_parts_counts_as_their_sum():
    rng = np.random.default_rng(6)
    columns = rng.integers(0, 12, 800)  # 20 of each row, many places twice
    parts = sp.csr_matrix((rng.standard_normal(800), columns, np.arange(0, 801, 20)), (40, 12))
    assert not parts.has_canonical_format
    for options in ({"scale": True}, {"center": False}):
        found = GPower(2, gamma=0.1, n_init=1, memory_limit=8000, **options).fit(make_store(parts))
        assert_same_fit(found, GPower(2, gamma=0.1, n_init=1, **options).fit(parts.toarray()))


class TestMemory:
    """Memory use stays within the limit for matrices of any size."""

    LIMIT = 16_000_000

    def generated(self, p, n, dtype=np.float64):
        """Return a matrix whose rows are computed when they are read."""
        base = (20 * np.random.default_rng(0).standard_normal(3 * n)).astype(dtype)

        def read(lo, hi):
            rows = np.empty((hi - lo, n), dtype)
            for i in range(lo, hi):
                rows[i - lo] = base[i * 7919 % (2 * n) :][:n]
            return rows

        return MatrixSource("generated", (p, n), np.dtype(dtype), read)

    @pytest.mark.parametrize(
        ("dtype", "n"), [(np.float32, 6000), pytest.param(np.float64, 3000, marks=pytest.mark.slow)]
    )
    def test_a_fit_takes_no_more_than_granted(self, dtype, n):
        stored = self.generated(4000, n, dtype)
        GPower(1, gamma=0.5, memory_limit=self.LIMIT).fit(self.generated(40, 60))  # imports and the like
        peak = measure_peak_memory(lambda: GPower(1, cardinality=10, memory_limit=self.LIMIT).fit(stored))
        assert peak <= 1.25 * self.LIMIT  # the limit does not include vectors as long as a sample
        assert 4000 * n * stored.working_dtype.itemsize > 5 * self.LIMIT

    def test_blocks_grow_with_the_memory_up_to_a_largest_size(self):
        sizes = [StreamedMatrix(make_store(X), limit).block_edges[1] for limit in (60_000, LITTLE, 10**9)]
        assert sizes == [1, 6, P]
        wide = MatrixSource("wide", (10_000, 100_000), np.dtype(np.float64), None)
        assert StreamedMatrix(wide, 10**12).block_edges[1] * 800_000 <= 24 << 20

    def test_memory_is_counted_in_the_working_type(self):
        bytes_of = [MatrixSource("x", (9, 100), np.dtype(t), None).bytes_per_line for t in ("i1", "f2", "f4", "i8")]
        assert bytes_of == [800, 800, 400, 800]

    def test_blocks_are_multiples_of_the_chunks(self):
        edges = StreamedMatrix(replace(make_store(X), chunk_length=7), 16 * N * 4 * 9).block_edges
        assert set(np.diff(edges)[:-1] % 7) == {0}
        assert edges[-1] == P


def test_the_next_block_is_read_while_this_one_is_in_use():
    begun = [threading.Event() for _ in range(4)]

    def read(lo, hi):
        begun[lo].set()
        return X[lo:hi]

    matrix = StreamedMatrix(MatrixSource("rows", (4, N), X.dtype, read), 1)
    seen = matrix.map_blocks(lambda block, i: i == 3 or begun[i + 1].wait(20), [(i,) for i in range(4)])
    assert seen == [True] * 4


@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
@pytest.mark.parametrize("options", [{"gamma": 0.05}, {"cardinality": 20, "scale": True}])
@pytest.mark.parametrize("count", [1, 3])
def test_passes_are_the_reads_that_were_made(options, axis, count):
    """`n_passes_` counts the lines read from the store, except for the variance computed at the end."""
    stored, reads = make_counting_store(X, axis)
    model = GPower(count, memory_limit=LIMIT, **options).fit(stored)
    real = count_lines(reads) / X.shape[axis]
    assert real - 1.3 <= model.n_passes_ <= real + 1e-9
    assert model.n_passes_ <= 20 * count


@pytest.mark.parametrize(
    ("chunk_length", "expected"),
    [(1, [(7, 8), (20, 21), (301, 302), (350, 351), (1699, 1700)]), (100, [(0, 100), (300, 400), (1600, 1700)])],
)
def test_chunks_of_the_requested_columns_are_read_once(chunk_length, expected):
    stored, reads = make_counting_store(X, 1, chunk_length=chunk_length)
    idx = np.array([350, 20, 301, 1699, 7])
    np.testing.assert_array_equal(StreamedMatrix(stored, LIMIT).columns(idx), X[:, idx])
    assert sorted(reads) == expected


@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
def test_scores_and_share_from_blocks_are_those_of_the_array(axis):
    model = GPower(3, cardinality=20, scale=True, memory_limit=LIMIT).fit(X)
    stored, reads = make_counting_store(X, axis)
    np.testing.assert_allclose(model.transform(stored), model.transform(X), atol=1e-10)
    assert count_lines(reads) <= (1 + axis) * X.shape[axis]  # a store of columns is read twice
    assert model.score(make_store(X, axis)) == pytest.approx(model.score(X), rel=1e-10)
    again = GPower(3, cardinality=20, scale=True, memory_limit=LIMIT)
    np.testing.assert_allclose(again.fit_transform(make_store(X, axis)), model.transform(X), atol=1e-8)


def test_a_path_from_blocks_is_the_path_of_the_array():
    sizes = [5, 15, 40]
    found, expected = sparsity_path(make_store(X), cardinalities=sizes), sparsity_path(X, cardinalities=sizes)
    np.testing.assert_allclose(found.explained_variance_ratio, expected.explained_variance_ratio, rtol=1e-6)


def fail_at_row_60(lo, hi):
    if lo >= 60:
        raise OSError("bad sector")
    return X[lo:hi]


class TestErrors:
    def test_a_value_that_is_not_finite_is_named_by_its_place(self):
        A = X.copy()
        A[17 * 6 + 2, 41] = np.nan  # in block 17
        matrix = StreamedMatrix(make_store(A), LITTLE)
        assert matrix.block_edges[17] == 17 * 6
        with pytest.raises(ValueError, match=r"NaN or infinity \(inf\), first in row 104 .*column 41\. Drop"):
            GPower(1, memory_limit=LITTLE).fit(make_store(A))
        with pytest.raises(ValueError, match="row 104"):
            GPower(1, gamma=0.5).fit(X).set_params(memory_limit=LITTLE).transform(make_store(A))

    @pytest.mark.parametrize(
        ("read", "message"),
        [
            (fail_at_row_60, r"disk, rows 60 to 65: they could not be read \(bad sector\)"),
            (lambda lo, hi: X[lo : hi - 1], r"rows 0 to 31: the store gave an array of shape \(31, 1700\) instead"),
            (lambda lo, hi: np.full((hi - lo, N), "a", object), "rows 0 to 31: values of type object are not numbers"),
        ],
        ids=["broken disk", "another shape", "objects"],
    )
    def test_a_reader_that_fails_is_reported_with_the_place(self, read, message):
        with pytest.raises(StoreError, match=message):
            GPower(1, memory_limit=LITTLE).fit(MatrixSource("disk", X.shape, X.dtype, read))

    def test_memory_errors_pass_unchanged(self):
        def read(lo, hi):
            raise MemoryError("no room")

        with pytest.raises(MemoryError, match="no room"):
            GPower(1).fit(MatrixSource("x", X.shape, X.dtype, read))

    @pytest.mark.parametrize(
        ("A", "options", "message"),
        [
            *((X, {"memory_limit": size}, "a number of bytes is needed") for size in ("", "-1", "2XB", "nan", 0)),
            (X, {"missing": "impute"}, "X is in blocks, on disk or on a cluster"),
            (np.eye(30), {"covariance": "precomputed"}, "takes a dense matrix in memory"),
            (np.zeros((0, 5)), {}, "at least one sample and one variable"),
            (np.zeros((5, 0)), {}, "at least one sample and one variable"),
        ],
    )
    def test_stores_and_options_that_do_not_fit_are_refused(self, A, options, message):
        with pytest.raises(ValueError, match=message):
            GPower(1, **options).fit(make_store(A))

    def test_another_number_of_variables_is_refused(self):
        model = GPower(1, gamma=0.5).fit(X[:, :50])
        with pytest.raises(ValueError, match="X has 1700 features, but GPower is expecting 50"):
            model.transform(make_store(X))
