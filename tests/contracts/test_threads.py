"""Threads over parts of a matrix: the parts cover it as views, and no result depends on the number of threads."""

import os
import subprocess
import sys
import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import threadpoolctl
from tests.memory import measure_peak_memory
from tests.planted_data import make_modules

from gpower import GPower
from gpower._utils import threads
from gpower._utils.sparse_parts import split_lines, view_lines
from gpower._utils.threads import (
    MAX_SMALL_ENTRIES,
    get_thread_count,
    limit_small_products,
    map_in_threads,
    use_one_thread,
)
from gpower.operators import as_container
from gpower.operators.storage import dense, sparse
from gpower.solvers import sequential

EACH_FORMAT = pytest.mark.parametrize("convert", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])


def table(dtype=np.float64, density=0.3, shape=(211, 37)):
    """Return a sparse table with empty rows at both ends and one long row."""
    rng = np.random.default_rng(3)
    A = np.where(rng.random(shape) < density, rng.standard_normal(shape) + 1, 0.0)
    A[:3] = A[-2:] = 0
    A[100] = 2.5
    return A.astype(dtype)


def widen(A):
    """Return the matrix with 64-bit indices, as SciPy's constructors would not leave it."""
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


@EACH_FORMAT
@pytest.mark.parametrize("entries", [1, 7, 50, 10**6])
def test_parts_are_views_that_cover_the_matrix(convert, entries):
    A = widen(convert(table()))
    parts = split_lines(A, entries)
    assert parts[0].start == 0
    assert parts[-1].stop == A.indptr.size - 1
    assert all(before.stop == after.start for before, after in pairwise(parts))
    axis = 0 if A.format == "csr" else 1
    for transpose in (False, True):
        views = [view_lines(A, lines, transpose=transpose) for lines in parts]
        assert all(np.shares_memory(view.data, A.data) for view in views if view.nnz)
        assert all(np.shares_memory(view.indices, A.indices) for view in views if view.nnz)
        whole = np.concatenate([view.toarray() for view in views], axis=1 - axis if transpose else axis)
        np.testing.assert_array_equal(whole, A.toarray().T if transpose else A.toarray())


def test_parts_have_about_as_many_entries_as_asked_for():
    A = sp.csr_array(table())
    counts = [view_lines(A, lines).nnz for lines in split_lines(A, 100)]
    assert len(counts) > 10
    assert max(counts) <= 100 + 2 * A.shape[1]


def compute_all(X, weight):
    """Return every result of a container that sums over parts."""
    p, n = X.shape
    rng = np.random.default_rng(0)
    T, Y, idx = rng.standard_normal((n, 3)), rng.standard_normal((p, 3)), np.arange(0, n, 3)
    shift = rng.standard_normal(n)
    mean, norms, _ = X.compute_moments(weight, p if weight is None else weight.sum())
    part = X.take(idx)
    return [
        X.times(T.astype(X.dtype)),
        X.transposed_times(Y.astype(X.dtype)),
        X.gram(None, weight),
        X.gram(mean, weight),
        X.gram(None, weight, idx),
        X.weighted_sums(weight),
        X.squared_deviations(shift, weight),
        mean,
        norms,
        part.to_dense(),
        part.transposed_times(Y.astype(X.dtype)),
    ]


@pytest.fixture
def small_parts(monkeypatch):
    """Divide small matrices into many parts."""
    monkeypatch.setattr(sparse, "MIN_PART_ENTRIES", 50)
    monkeypatch.setattr(sparse, "MIN_GROUP_COLUMNS", 4)
    monkeypatch.setattr(sparse, "DENSE_GRAM_ENTRIES", 400)
    monkeypatch.setattr(sparse, "MIN_DENSE_GRAM_ROWS", 8)
    monkeypatch.setattr(dense, "MIN_THREADED_SUM_ENTRIES", 0)


MATRICES = {
    "CSR": lambda: as_container(sp.csr_array(table())),
    "CSR of few entries": lambda: as_container(sp.csr_array(table(density=0.05))),
    "CSC": lambda: as_container(sp.csc_array(table())),
    "CSR matrix of 64-bit indices": lambda: as_container(widen(sp.csr_matrix(table()))),
    "CSR float32": lambda: as_container(sp.csr_array(table(np.float32))),
    "CSC float32 in double": lambda: as_container(sp.csc_array(table(np.float32))).prepare(True),
    "dense": lambda: as_container(table()),
    "Fortran": lambda: as_container(np.asfortranarray(table())),
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_results_are_those_of_the_matrix_whatever_the_number_of_threads(name, weighted, monkeypatch):
    X = MATRICES[name]()
    weight = np.random.default_rng(1).uniform(0.5, 2, X.shape[0]) if weighted else None
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "get_thread_count", lambda count=count: count)
        found.append(compute_all(X, weight))
    for one, two, five in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)  # to the last digit
        np.testing.assert_array_equal(one, five)
    expected = compute_all(as_container(X.to_dense().astype(np.float64)), weight)
    rtol = 1e-11 if X.dtype == np.float64 else 1e-5
    for one, exact in zip(found[0], expected, strict=True):
        np.testing.assert_allclose(one, exact, rtol=rtol, atol=rtol * np.abs(exact).max())


@pytest.mark.usefixtures("small_parts")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_no_sparse_matrix_of_all_columns_becomes_dense(kind, monkeypatch):
    """A fit makes dense what it gathers: blocks of rows of a Gram matrix, or a few columns."""
    A, sizes = kind(sp.random_array((8000, 300), density=0.02, rng=np.random.default_rng(6))), []
    for each in (sp.csr_array, sp.csc_array):

        def record(self, *args, toarray=each.toarray, **options):
            sizes.append(np.prod(self.shape))
            return toarray(self, *args, **options)

        monkeypatch.setattr(each, "toarray", record)
    GPower(2, cardinality=5).fit(A)
    assert 0 < max(sizes) < np.prod(A.shape) / 4


def test_results_come_in_order_and_errors_are_raised(monkeypatch):
    monkeypatch.setattr(threads, "get_thread_count", lambda: 3)
    assert list(map_in_threads(lambda i: i * i, range(20))) == [i * i for i in range(20)]
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda i: 1 // (i - 7), range(20)))


def test_threads_start_no_threads_and_keep_the_context(monkeypatch):
    monkeypatch.setattr(threads.joblib, "cpu_count", lambda: 3)
    library = SimpleNamespace(get_num_threads=lambda: 3)
    monkeypatch.setattr(threads, "_find_blas_libraries", lambda: SimpleNamespace(lib_controllers=[library]))
    with np.errstate(over="raise", divide="ignore"):
        found = list(
            map_in_threads(lambda i: (get_thread_count(), np.geterr()["over"], threading.get_ident()), [0] * 9)
        )
    assert {(count, over) for count, over, _ in found} == {(1, "raise")}
    assert threading.get_ident() not in {ident for *_, ident in found}
    assert get_thread_count() == 3


def test_limits_of_blas_are_limits_of_threads():
    for limit in (lambda: threadpoolctl.threadpool_limits(1, user_api="blas"), use_one_thread):
        with limit():
            assert get_thread_count() == 1


def count_blas_threads(_=None):
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


def test_many_fits_to_a_small_table_and_threads_over_dense_arrays_use_one_thread_of_blas(monkeypatch):
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = get_thread_count(), count_blas_threads()
        with limit_small_products(MAX_SMALL_ENTRIES):
            assert (get_thread_count(), count_blas_threads()) == (1, {1})
        with limit_small_products(MAX_SMALL_ENTRIES + 1):
            assert (get_thread_count(), count_blas_threads()) == before
        with monkeypatch.context() as patch:
            patch.setattr(threads, "get_thread_count", lambda: 2)  # also on a machine with one processor
            assert all(found <= {1} for found in map_in_threads(count_blas_threads, range(4), limit_blas=True))
        assert (get_thread_count(), count_blas_threads()) == before


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_a_process_that_is_told_to_use_one_thread_uses_one(name):
    code = "from gpower._utils.threads import get_thread_count; print(get_thread_count())"
    env = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    found = subprocess.run(
        [sys.executable, "-c", code], env=env | {name: "1"}, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["1"]


def test_a_gram_matrix_gathers_its_columns_part_by_part(monkeypatch):
    monkeypatch.setattr(sparse, "MIN_PART_ENTRIES", 10_000)
    monkeypatch.setattr(sparse, "DENSE_GRAM_ENTRIES", 10_000)
    X = as_container(sp.random_array((60_000, 60), density=0.08, format="csr", rng=np.random.default_rng(0)))
    idx = np.arange(0, 60, 2)
    gathered = X.take(idx).A
    with threadpoolctl.threadpool_limits(1):
        np.testing.assert_allclose(X.gram(None, None, idx), (gathered.T @ gathered).toarray(), rtol=1e-12)
        peak = measure_peak_memory(lambda: X.gram(None, None, idx))
    assert peak < (gathered.data.nbytes + gathered.indices.nbytes) / 2


def test_limits_that_overlap_leave_the_number_of_threads_as_it_was():
    first, second = limit_small_products(1), limit_small_products(1)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = count_blas_threads()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert get_thread_count() == 1
        second.__exit__(None, None, None)
        assert count_blas_threads() == before


def test_the_rounds_of_a_fit_use_one_blas_thread(monkeypatch):
    counts = []
    solve = sequential.solve_in_turn

    def watch(*args, **kwargs):
        counts.append(get_thread_count())
        return solve(*args, **kwargs)

    monkeypatch.setattr(sequential, "solve_in_turn", watch)
    X = make_modules((200, 2000), (slice(10), 2))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = get_thread_count()
        GPower(2, cardinality=10).fit(X)
        assert get_thread_count() == before
    assert counts
    assert set(counts) == {1}
