"""One contract for every container: its products and sums are those of an explicit matrix in NumPy.

The last part defines a new container in one class, registers it and fits it.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.stored_matrices import make_dask_matrix, make_store, stream

from gpower import GPower
from gpower.operators import Container, as_container, find_registered_container, register
from gpower.operators.storage import dense, device
from gpower.operators.storage.base import NonFiniteEntry
from gpower.operators.storage.covariate_residuals import ResidualMatrix
from gpower.operators.storage.dense import DenseMatrix
from gpower.operators.storage.device import DeviceMatrix
from gpower.operators.storage.disk import StreamedMatrix

from .device_double import DeviceArray, DeviceCSR

P, N = 23, 17
IDX = np.array([11, 2, 3, 16])


def table():
    """Return a table with a third of non-zero entries and an offset in two columns."""
    rng = np.random.default_rng(5)
    X = np.where(rng.random((P, N)) < 0.3, rng.standard_normal((P, N)) + 2, 0.0)
    X[:, 3] = 50 + rng.standard_normal(P)
    X[:, 6] = 0.1
    return X


def weights():
    """Return weights of the samples, one of them zero."""
    w = np.random.default_rng(6).uniform(0.2, 3, P)
    w[2] = 0
    return w


class Rows(Container):
    """A toy container: a list of rows, each a dictionary of its entries, with all that a new kind of data needs."""

    def __init__(self, rows, n_features):
        self.rows, self.shape, self.dtype = rows, (len(rows), n_features), np.dtype(np.float64)

    def to_dense(self):
        A = np.zeros(self.shape, order="F")
        for x, row in zip(A, self.rows, strict=True):
            x[list(row)] = list(row.values())
        return A

    def times(self, T):
        return self.to_dense() @ T

    def transposed_times(self, Y):
        return self.to_dense().T @ Y

    def take(self, idx):
        place = {int(j): at for at, j in enumerate(idx)}
        return Rows([{place[j]: value for j, value in row.items() if j in place} for row in self.rows], len(idx))

    def wrap_array(self, A):
        return DenseMatrix(A)

    def gram(self, mean, weight, idx=None):
        A = (self if idx is None else self.take(idx)).to_dense()
        A = A if mean is None else A - mean
        return A.T @ (A if weight is None else weight[:, None] * A)

    def weighted_sums(self, weight):
        return (np.ones(self.shape[0]) if weight is None else weight) @ self.to_dense()

    def squared_deviations(self, shift, weight):
        return (np.ones(self.shape[0]) if weight is None else weight) @ (self.to_dense() - shift) ** 2

    def subtract_offsets(self, shift):
        return Rows([dict(enumerate(x - shift)) for x in self.to_dense()], self.shape[1])

    def find_non_finite(self, is_suspected, allow_nan):
        entries = ((i, j, value) for i, row in enumerate(self.rows) for j, value in row.items())
        return next((NonFiniteEntry(i, j, value) for i, j, value in entries if not np.isfinite(value)), None)


@register
def from_rows(X, memory_limit):
    """Return the container of a list of dictionaries, with one column more than the largest key."""
    if isinstance(X, list) and X and all(isinstance(row, dict) for row in X):
        return Rows(X, 1 + max(max(row, default=0) for row in X))
    return None


def as_rows(X):
    return [{int(j): float(x[j]) for j in np.flatnonzero(x)} for x in X]


def residual(kind):
    """Return a function that wraps a table plus a fitted part of two covariates, and removes that part again."""
    F = np.random.default_rng(7).standard_normal((P, 2))
    B = np.random.default_rng(8).standard_normal((2, N))
    return lambda X: ResidualMatrix(kind(X + F @ B), F, B)


def in_double(convert):
    return lambda X: as_container(convert(X)).prepare(True)


def make_dask_device_matrix(X, axis=0):
    return make_dask_matrix(X, axis, DeviceArray, DeviceArray(np.zeros((0, 0), X.dtype)))


SINGLE = {
    "float32": as_container,
    "float32 in double": in_double(np.asarray),
    "Fortran float32 in double": in_double(np.asfortranarray),
    "CSR float32": lambda X: as_container(sp.csr_array(X)),
    "CSR float32 in double": in_double(sp.csr_array),
    "streamed float32": stream,
    "device float32": lambda X: as_container(DeviceArray(X)),
    "device float32 in double": in_double(DeviceArray),
    "device CSR float32": lambda X: as_container(DeviceCSR.wrap(X)),
    "device CSR float32 in double": in_double(DeviceCSR.wrap),
}
DOUBLE = {
    "C": as_container,
    "Fortran": lambda X: as_container(np.asfortranarray(X)),
    "CSR": lambda X: as_container(sp.csr_array(X)),
    "CSR matrix": lambda X: as_container(sp.csr_matrix(X)),
    "CSC": lambda X: as_container(sp.csc_array(X)),
    "streamed rows": stream,
    "streamed columns": lambda X: stream(X, 1),
    "streamed CSR": lambda X: stream(sp.csr_array(X)),
    "streamed CSC": lambda X: stream(sp.csc_array(X), 1),
    "Dask rows": make_dask_matrix,
    "Dask columns": lambda X: make_dask_matrix(X, 1),
    "Dask CSR": lambda X: make_dask_matrix(X, wrap=sp.csr_matrix),
    "Dask device rows": make_dask_device_matrix,
    "Dask device columns": lambda X: make_dask_device_matrix(X, 1),
    "Dask device CSR": lambda X: make_dask_matrix(X, 0, DeviceCSR.wrap, DeviceCSR((0, 0), X.dtype)),
    "device": lambda X: as_container(DeviceArray(X)),
    "device CSR": lambda X: as_container(DeviceCSR.wrap(X)),
    "toy": lambda X: find_registered_container(as_rows(X)),
}
DOUBLE |= {
    f"residual of {name}": residual(DOUBLE[name])
    for name in ("C", "CSR", "streamed rows", "Dask rows", "device", "device CSR")
}
KINDS = DOUBLE | SINGLE


@dataclass
class Case:
    """A container and the matrix that it represents."""

    X: Container
    A: np.ndarray

    @property
    def rtol(self):
        return 1e-11 if self.X.dtype == np.float64 else 3e-6

    def own(self, values):
        return self.X.to_backend(values.astype(self.X.dtype))

    def close(self, found, expected, scale=1.0):
        atol = scale * self.rtol * max(1.0, np.max(np.abs(expected), initial=0))
        np.testing.assert_allclose(host(found), expected, rtol=0, atol=atol)


def host(array):
    array = array.a if isinstance(array, DeviceArray) else array
    return array.compute() if hasattr(array, "compute") else np.asarray(array)


def build(name, A=None):
    A = (table() if A is None else A).astype(np.float32 if name in SINGLE else np.float64)
    return Case(KINDS[name](A), A.astype(np.float64))


@pytest.fixture(params=KINDS)
def case(request):
    return build(request.param)


EACH_WEIGHT = pytest.mark.parametrize("weight", [None, weights()], ids=["equal", "weighted"])


def vectors(rows, m=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, m))


@pytest.mark.parametrize("m", [1, 3])
def test_products_are_those_of_the_matrix(case, m):
    T, Y = vectors(N, m), vectors(P, m, 1)
    times, back = case.X.times(case.own(T)), case.X.transposed_times(case.own(Y))
    case.close(times, case.A @ T)
    case.close(back, case.A.T @ Y)
    assert times.dtype == back.dtype == case.X.dtype
    assert case.X.shape == (P, N)


def test_columns_are_dense_by_column_and_ours(case):
    columns = case.X.columns(IDX)
    case.close(columns, case.A[:, IDX])
    if not isinstance(columns, DeviceArray):
        assert columns.flags.f_contiguous
    columns *= 0
    case.close(case.X.columns(IDX), case.A[:, IDX])


def test_rows_are_those_of_the_matrix(case):
    rows = np.array([0, 1, 5, 14, 22])
    found = case.X.get_rows(rows)
    assert found.dtype == case.X.dtype
    case.close(found, case.A[rows])
    if hasattr(case.X, "take_rows"):
        one = as_container(case.X.take_rows(rows[:1]))
        assert one.is_sparse == case.X.is_sparse
        case.close(one.to_dense(), case.A[rows[:1]])


def test_a_part_is_a_container_of_those_columns(case):
    part = case.X.take(IDX)
    assert part.shape == (P, IDX.size)
    assert case.X.take(IDX[:0]).shape == (P, 0)
    assert part.is_sparse == case.X.is_sparse
    assert part.has_double_sums == case.X.has_double_sums
    case.close(part.times(case.own(vectors(IDX.size))), case.A[:, IDX] @ vectors(IDX.size))
    case.close(part.to_dense(), case.A[:, IDX])


@EACH_WEIGHT
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("idx", [None, IDX], ids=["all", "some"])
def test_gram_matrices_are_those_of_centred_weighted_columns(case, weight, centred, idx):
    columns = np.arange(N) if idx is None else idx
    w = np.ones(P) if weight is None else weight
    mean = w @ case.A[:, columns] / w.sum()
    B = case.A[:, columns] - (mean if centred else 0)
    given = None if weight is None else case.X.to_backend(weight)
    found = case.X.gram(case.X.to_backend(mean) if centred else None, given, idx)
    case.close(found, B.T @ (w[:, None] * B), 4)


@EACH_WEIGHT
def test_sums_and_squares_about_a_shift(case, weight):
    shift = case.A.mean(axis=0) + 0.25
    w = np.ones(P) if weight is None else weight
    case.close(case.X.weighted_sums(weight), w @ case.A)
    case.close(case.X.squared_deviations(case.X.to_backend(shift), weight), w @ (case.A - shift) ** 2, 4)
    case.close(case.X.deviation_norms(case.X.to_backend(shift), weight), np.sqrt(w @ (case.A - shift) ** 2))
    sums, squares = case.X.shifted_sums(case.own(shift), weight)
    case.close(sums, w @ (case.A - shift), 20)
    case.close(squares, w @ (case.A - shift) ** 2, 4)


@pytest.mark.parametrize("centred", [True, False])
def test_sums_and_gram_matrices_of_parts_of_the_samples(case, centred):
    part = np.arange(P) % 5 // 2 * 2  # there is none of the numbers 1 and 3
    mean = case.A.mean(axis=0) if centred else np.zeros(N)
    found = case.X.shifted_sums_by_part(case.own(mean) if centred else None, part, 5)
    assert found.shape == (5, 1 + N, N)
    for i, sums in enumerate(found):
        B = case.A[part == i] - mean
        case.close(sums[0], B.sum(axis=0), 20)
        case.close(sums[1:], B.T @ B, 4)


@EACH_WEIGHT
def test_moments_are_means_and_deviations(case, weight):
    w = np.ones(P) if weight is None else weight
    mean, deviation, reads = case.X.compute_moments(weight, w.sum())
    expected = w @ case.A / w.sum()
    case.close(mean, expected)
    case.close(deviation, np.sqrt(w @ (case.A - expected) ** 2))
    assert mean.dtype == deviation.dtype == np.float64
    assert 1 <= reads <= 3


@pytest.mark.parametrize("name", ["CSR", "CSC", "streamed rows", "device", "device CSR", "toy"])
def test_passes_of_the_moments_are_the_sums_over_all_entries(name, monkeypatch):
    X, reads = build(name).X, []
    for method in ("weighted_sums", "squared_deviations", "shifted_sums"):
        plain = getattr(X, method)
        monkeypatch.setattr(X, method, lambda *args, plain=plain: reads.append(1) or plain(*args))
    assert X.compute_moments(None, P).passes == len(reads)


@pytest.mark.parametrize("name", DOUBLE)
@EACH_WEIGHT
def test_moments_far_from_zero_lose_no_digits(name, weight):
    offset = np.where(np.arange(N) % 3 == 0, 1e6, 0.0)
    A = table() + offset
    case = build(name, A)
    w = np.ones(P) if weight is None else weight
    mean, deviation, _ = case.X.compute_moments(weight, w.sum())
    expected = w @ (A - offset) / w.sum() + offset
    np.testing.assert_allclose(host(mean), expected, rtol=1e-13)
    np.testing.assert_allclose(host(deviation), np.sqrt(w @ (A - expected) ** 2), rtol=1e-8, atol=1e-7)


def test_shifted_data_are_less_a_constant_per_column(case):
    shift = np.where(np.all(case.A != 0, axis=0), case.A.mean(axis=0), 0.0)  # a sparse column that varies has zeros
    moved = case.X.subtract_offsets(case.X.to_backend(shift))
    assert shift.any()
    assert moved.is_sparse == case.X.is_sparse
    case.close(moved.to_dense(), case.A - shift)
    case.close(case.X.to_dense(), case.A)


def test_scores_are_those_of_centred_samples(case):
    Z = np.zeros((N, 2))
    Z[IDX] = vectors(IDX.size, 2)
    mean = case.A.mean(axis=0)
    case.close(case.X.project_samples(case.own(Z), case.own(mean)), (case.A - mean) @ Z, 4)


@pytest.mark.parametrize("name", KINDS)
def test_an_entry_that_is_not_finite_is_found(name):
    A = table()
    for is_suspected in (True, False):
        assert build(name, A).X.find_non_finite(is_suspected, allow_nan=False) is None
    for value in (np.nan, np.inf, -np.inf):
        A[9, 5] = value
        bad = build(name, A).X.find_non_finite(is_suspected=True, allow_nan=False)
        assert (bad.row, bad.column) == (9, 5)
        if bad.value is not None:
            np.testing.assert_equal(bad.value, value)
        assert "column 'x5'" in str(bad.make_error("'x5'"))


def test_gathered_columns_sum_as_the_matrix_does(case):
    A = case.own(case.A[:, IDX])
    wrapped = case.X.wrap_array(A)
    assert wrapped.has_double_sums == case.X.has_double_sums
    case.close(wrapped.times(case.own(vectors(IDX.size))), case.A[:, IDX] @ vectors(IDX.size))
    case.close(wrapped.cross_gram(A), case.A[:, IDX].T @ case.A[:, IDX])
    q = vectors(P, 1)[:, 0]
    case.close(case.X.project_onto(A, case.own(q)), case.A[:, IDX].T @ q)


def test_the_properties_of_a_container_are_consistent(case):
    X = case.X
    assert 0 < X.column_read_share(IDX) <= 1
    assert X.column_read_share(np.zeros(0, int)) == 0
    assert X.max_gram_columns >= 1
    assert not X.should_copy(X.max_cached_columns + 1)
    assert X.should_copy(1) == (not X.is_sparse)
    assert X.column_read_share(np.arange(N)) == 1
    assert bool(X.storage_description) == X.is_remote


@pytest.mark.parametrize("name", [name for name in KINDS if "double" in name])
def test_sums_in_double_round_once(name):
    """Three hundred thousand numbers of one value: a running sum in single precision drifts."""
    n, value = 300_000, float(np.float32(0.1))
    tall, wide = (KINDS[name](np.full(shape, value, np.float32)) for shape in ((n, 2), (2, n)))
    ones = tall.to_backend(np.ones((n, 1), np.float32))
    gathered = tall.columns(np.arange(2))
    for found in (tall.transposed_times(ones), wide.times(ones), tall.wrap_array(gathered).transposed_times(ones)):
        np.testing.assert_allclose(host(found), n * value, rtol=1e-7)
    for found in (tall.gram(None, None), tall.wrap_array(gathered).cross_gram(gathered)):
        np.testing.assert_allclose(host(found), n * value**2, rtol=1e-7)


# --- a new kind of data ---------------------------------------------------------------------------------------------


def planted():
    rng = np.random.default_rng(7)
    A = np.where(rng.random((60, 40)) < 0.4, rng.standard_normal((60, 40)), 0.0)
    A[:, :6] += 3 * rng.standard_normal((60, 1)) + 1
    return A


@pytest.mark.parametrize(
    "options", [{"cardinality": 6}, {"gamma": 0.1}, {"cardinality": 6, "scale": True}, {"gamma": 0.2, "penalty": "l1"}]
)
def test_a_new_kind_of_data_is_fitted_once_it_is_registered(options):
    A = planted()
    expected = GPower(2, **options).fit(A)
    model = GPower(2, **options).fit(as_rows(A))
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(model.transform(as_rows(A)), expected.transform(A), atol=1e-9)
    assert model.score(as_rows(A)) == pytest.approx(expected.score(A))


@pytest.mark.parametrize("density", [0.02, 0.3])
def test_a_gram_matrix_that_takes_little_memory_has_a_quarter_of_the_stored_entries(density):
    A = sp.random_array((200, 300), density=density, format="csr", rng=np.random.default_rng(0))
    n = as_container(A).max_gram_columns
    assert 4 * n**2 <= A.nnz < 4 * (n + 1) ** 2


@pytest.mark.parametrize(("idx", "share"), [([3], 0.05), ([0, 4], 0.05), ([4, 5], 0.1), ([0, 20, 40, 99], 0.2)])
def test_columns_are_read_with_their_chunk(idx, share):
    A = np.random.default_rng(0).standard_normal((12, 100))
    streamed = StreamedMatrix(replace(make_store(A, axis=1), chunk_length=5), 1 << 20)
    assert streamed.column_read_share(np.array(idx)) == pytest.approx(share)
    assert streamed.column_read_share(np.arange(0, 100, 5)) == 1


def test_sums_of_residuals_for_other_weights_are_computed_for_those():
    rng = np.random.default_rng(0)
    X, weight, other = rng.standard_normal((15, 6)) + 2, rng.uniform(0.5, 1, 15), rng.uniform(0.5, 1, 15)
    F = rng.standard_normal((15, 2))
    F = (F - np.average(F, axis=0, weights=weight)) / 3
    F = F @ np.linalg.inv(np.linalg.cholesky(F.T @ (weight[:, None] * F))).T
    matrix = ResidualMatrix(as_container(X), F, sample_weight=weight)
    rest = X - F @ (F.T @ (weight[:, None] * X))
    for w in (weight, other, None):
        gram = matrix.gram(None, w)
        np.testing.assert_allclose(gram, rest.T @ (rest if w is None else w[:, None] * rest))


@pytest.mark.parametrize("name", [name for name in KINDS if "in double" in name or name in ("C", "Fortran", "device")])
def test_blocks_of_a_few_rows_give_the_same_results(name, monkeypatch):
    for kind in (DenseMatrix, DeviceMatrix):
        monkeypatch.setattr(kind, "double_block_entries", 40)
        monkeypatch.setattr(kind, "projection_block_rows", 5)
    for module, constant in ((dense, "SUM_TILE_ENTRIES"), (device, "DEVICE_BLOCK_ENTRIES")):
        monkeypatch.setattr(module, constant, 130)
        monkeypatch.setattr(module, "MAX_FLOAT32_SUM_ROWS", 3)
    case = build(name)
    test_products_are_those_of_the_matrix(case, 3)
    test_scores_are_those_of_centred_samples(case)
    for weight in (None, weights()):
        test_sums_and_squares_about_a_shift(case, weight)
        test_gram_matrices_are_those_of_centred_weighted_columns(case, weight, True, IDX)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_memory_limit_of_blocks_bounds_what_is_gathered(axis, dtype):
    A, size = np.zeros((P, 9), dtype), np.dtype(dtype).itemsize
    for spare in (0, 4 * A.nbytes - 1, 4 * A.nbytes, 8 * 8 * 81 - 1, 8 * 8 * 81, 10**5):
        X = stream(A, axis, spare=spare)
        assert X.max_cached_columns == spare // (4 * size * P)
        assert X.max_gram_columns == max(k for k in range(200) if 8 * size * k * k <= spare)
        assert X.max_covariances == (spare // (8 * 81) if axis == 0 else 0)
        assert X.fits_in_memory == (4 * A.nbytes <= spare)
        assert X.should_use_covariance == (axis == 0 and spare >= 8 * 8 * 81)
    assert X.row_read_share(np.array([0, 1, 5, 22])) == (pytest.approx(11 / P) if axis == 0 else 1)
    assert as_container(A).row_read_share(np.array([0, 5])) == pytest.approx(2 / P)
    assert not stream(np.zeros((2 * N - 1, N)), spare=10**9).should_use_covariance
    shares = [as_container(np.zeros((p, 9))).should_use_covariance for p in (17, 18)]
    assert shares + [as_container(sp.csr_array(np.ones((p, 9)))).should_use_covariance for p in (9, 10)] == 2 * [0, 1]
