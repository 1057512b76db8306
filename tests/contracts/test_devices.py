"""Matrices on a device give the result of the host and stay there; no array as long as the data is transferred.

Sparse matrices are also divided into parts, and used with and without a stored copy by columns.
"""

import sys
from contextlib import ExitStack
from functools import cache
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import gpower._utils.arrays
from gpower import GPower, Solver
from gpower._utils.arrays import as_native, to_device
from gpower.estimators import single_cell
from gpower.operators import as_container
from gpower.operators.storage import device_sparse
from gpower.penalties import elementary
from gpower.penalties.elementary import find_largest_rows

from .device_double import TRANSFERS, DeviceArray, DeviceCSC, DeviceCSR

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SHARED = [
    {"cardinality": 20},
    {"gamma": 0.05},
    {"gamma": 0.3, "penalty": "l1"},
    {"cardinality": 15, "method": "block"},
    {"cardinality": 20, "scale": True},
    {"cardinality": 20, "center": False},
    {"cardinality": 20, "deflation": "schur"},
    {"cardinality": 10, "positive": True},
]
DENSE = [
    *SHARED,
    {"cardinality": 20, "penalty": "l1"},
    {"gamma": 0.1, "method": "block"},
    {"gamma": 0.3, "penalty": "l1", "method": "block", "mu": [1, 0.5]},
    {"gamma": 0.05, "solver": Solver("full")},
    {"gamma": 0.05, "solver": Solver(init="largest_norm")},
    {"cardinality": 20, "deflation": "orthogonalized"},
    {"l1_bound": 8.0},
]
SPARSE = [*SHARED, {"cardinality": 20, "solver": Solver(accumulate_dtype="float64")}]


def make_dense(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3000)) + 3
    X[:, :30] += 2 * rng.standard_normal((120, 1))
    X[:, 30:50] += 1.5 * rng.standard_normal((120, 1))
    return X.astype(dtype)


def make_sparse(dtype=np.float64, shape=(400, 1500)):
    """Return a sparse table with two groups of variables that vary together."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random(shape) < 0.1, rng.gamma(2.0, size=shape), 0.0)
    X[:, :30] *= 4 * (rng.random((shape[0], 1)) < 0.3)
    X[:, :30] += 3 * (rng.random((shape[0], 1)) < 0.3)
    X[:, 30:50] += 2 * (rng.random((shape[0], 1)) < 0.2)
    return sp.csr_array(X.astype(dtype))


KINDS = {"dense": (make_dense, DeviceArray), "CSR": (make_sparse, DeviceCSR.wrap)}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def to_numpy(array):
    return array.a if isinstance(array, DeviceArray) else np.asarray(array)


@cache
def fit_on_host(kind, case, dtype):
    """Return the fit with the options of a case to the table on the host."""
    return GPower(2, **(DENSE if kind == "dense" else SPARSE)[case]).fit(KINDS[kind][0](dtype))


def assert_fit_of_host(kind, case, dtype=np.float64):
    """Check a fit on the device, and that the device transfers less than the data."""
    make_table, wrap = KINDS[kind]
    X, expected = make_table(dtype), fit_on_host(kind, case, dtype)
    TRANSFERS.clear()
    model = GPower(2, **(DENSE if kind == "dense" else SPARSE)[case]).fit(wrap(X))
    scores = model.transform(wrap(X))
    assert all(isinstance(array, DeviceArray) for array in (model.components_, model.mean_, scores))
    assert model.components_.dtype == dtype
    atol = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(to_numpy(model.components_), expected.components_, atol=atol)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-10 + atol)
    np.testing.assert_allclose(to_numpy(scores), expected.transform(X), atol=50 * atol)
    size = X.shape[0] * X.shape[1]
    # A dense matrix of few samples, 120 × 3000, is copied to the host once to compare starts, and again for every
    # component that is sought after a deflation; its Gram matrix has nine million entries.
    assert max(TRANSFERS) <= (size if kind == "dense" else size - 1)
    assert sum(each == size for each in TRANSFERS) <= 1 + len(model.explained_variance_)
    assert model.score(wrap(X)) == pytest.approx(expected.score(X), rel=10 * atol)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [*((case, np.float64) for case in range(len(DENSE))), (0, np.float32)],
    ids=[*map(str, DENSE), "single precision"],
)
def test_the_answer_for_an_array_is_that_of_the_host_and_stays_on_the_device(case, dtype):
    assert_fit_of_host("dense", case, dtype)


@pytest.mark.parametrize("memory", [1e12, 0], ids=["stored copy", "no memory for a copy"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", range(len(SPARSE)), ids=map(str, SPARSE))
def test_the_answer_for_a_sparse_matrix_is_that_of_the_host_and_stays_on_the_device(case, dtype, memory, monkeypatch):
    monkeypatch.setattr(device_sparse, "get_free_device_memory", lambda: memory)
    assert_fit_of_host("CSR", case, dtype)


def test_a_constraint_and_the_refit_of_a_block_work_on_the_device():
    X = make_dense()
    host, model = (GPower(2, cardinality=15, constraint="disjoint").fit(each) for each in (X, DeviceArray(X)))
    assert isinstance(model.components_, DeviceArray)
    assert model.overlap_[0, 1] == 0
    assert model.objective_.sum() == pytest.approx(host.objective_.sum(), rel=1e-3)  # many splits are nearly as good
    X = np.random.default_rng(0).standard_normal((10, 80))
    host, model = (GPower(2, gamma=0.05, method="block").fit(each) for each in (X, DeviceArray(X)))
    np.testing.assert_allclose(to_numpy(model.components_), host.components_, atol=1e-8)


@EACH_KIND
def test_weights_and_new_samples_on_either_side(kind):
    make_table, wrap = KINDS[kind]
    X = make_table()
    weight = np.random.default_rng(1).uniform(0.5, 2, X.shape[0])
    expected = GPower(1, cardinality=10).fit(X, sample_weight=weight)
    model = GPower(1, cardinality=10).fit(wrap(X), sample_weight=weight)
    scores = expected.transform(X)
    np.testing.assert_allclose(to_numpy(model.components_), expected.components_, atol=1e-10)
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-9)
    np.testing.assert_allclose(to_numpy(expected.transform(wrap(X))), scores, atol=1e-9)
    restored = model.inverse_transform(model.transform(wrap(X)))
    assert isinstance(restored, DeviceArray)
    np.testing.assert_allclose(to_numpy(restored), expected.inverse_transform(scores), atol=1e-9)


@pytest.mark.parametrize("sample_size", [16, 1000])
@pytest.mark.parametrize(
    ("n", "k"), [*((n, k) for n in (9, 200, 5000) for k in (1, 3, n // 2, n - 1)), (100_000, 3000), (100_000, 90_000)]
)
@pytest.mark.parametrize("levels", [np.inf, 2])
def test_the_largest_of_many_values_are_found_by_a_sample(n, k, levels, sample_size, monkeypatch):
    monkeypatch.setattr(elementary, "DEVICE_SORT_SAMPLE_SIZE", sample_size)
    values = np.random.default_rng(n).standard_normal((n, 2))
    values[:, 1] = np.sort(values[:, 1])[::-1]
    values = values if levels == np.inf else np.round(values * levels)  # many ties
    found = to_numpy(find_largest_rows(DeviceArray(values), k))
    assert found.shape == (k, 2)
    for j in range(2):
        assert np.unique(found[:, j]).size == k
        np.testing.assert_array_equal(np.sort(values[found[:, j], j]), np.sort(values[:, j])[-k:])


def test_a_model_of_the_device_is_saved_and_named_as_any(tmp_path):
    X = make_dense()
    model = GPower(1, cardinality=10).fit(DeviceArray(X))
    model.save(tmp_path / "model.npz")
    loaded = GPower.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.components_, to_numpy(model.components_))
    assert loaded.loadings() == model.loadings()


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (DeviceArray(np.ones((3, 4, 5))), "two dimensions"),
        (DeviceArray(np.ones((3, 4), complex)), "not real numbers"),
        (DeviceArray(np.where(np.eye(5, 40), np.nan, 1.0)), "NaN"),
        (DeviceCSR.wrap(sp.csr_array(np.ones((3, 4), complex))), "complex128, not real numbers"),
        (DeviceCSR.wrap(sp.csr_array(np.where(np.eye(5, 40, 4), np.nan, 1.0))), r"NaN .*first in column 4, row 0"),
    ],
)
def test_what_is_not_a_matrix_of_numbers_is_refused(X, sentence):
    with pytest.raises(ValueError, match=sentence):
        GPower(1, cardinality=2).fit(X)


@EACH_KIND
@pytest.mark.parametrize(
    "options", [{"missing": "impute"}, {"variance": "l1"}, {"covariance": "precomputed"}, {"certify": True}], ids=str
)
def test_options_of_the_host_alone_are_refused(kind, options):
    make_table, wrap = KINDS[kind]
    with pytest.raises(ValueError, match=rf"{next(iter(options))}=.* works on the host only; pass X\.get\(\)"):
        GPower(1, gamma=0.1, **options).fit(wrap(make_table()))


@pytest.mark.parametrize("library", ["array_api_strict", "torch", "cupy"])
def test_arrays_of_other_libraries_come_back_as_they_went(library):
    xp = pytest.importorskip(library)
    X = make_dense()
    foreign = xp.asarray(X)
    expected = GPower(2, cardinality=20).fit(X)
    model = GPower(2, cardinality=20).fit(foreign)
    scores = model.transform(foreign)
    assert type(model.components_) is type(foreign)
    assert type(scores) is type(foreign)
    copy = (lambda a: a.get()) if library == "cupy" else np.asarray
    np.testing.assert_allclose(copy(model.components_), expected.components_, atol=1e-10)
    np.testing.assert_allclose(copy(scores), expected.transform(X), atol=1e-8)
    assert type(model.inverse_transform(scores)) is type(foreign)


# --- parts and copies of sparse matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [1e12, 0], ids=["stored copy", "no memory for a copy"])
def test_a_matrix_of_many_parts_gives_the_same_result(memory, monkeypatch):
    monkeypatch.setattr(device_sparse, "get_free_device_memory", lambda: memory)
    X = make_sparse()
    expected = GPower(2, cardinality=15, scale=True).fit(DeviceCSR.wrap(X))
    monkeypatch.setattr(device_sparse, "MAX_PART_ENTRIES", 5000)
    monkeypatch.setattr(device_sparse, "MAX_CONVERTED_ENTRIES", 3000)
    monkeypatch.setattr(device_sparse, "DEVICE_BLOCK_ENTRIES", 4000)
    wide = DeviceCSR.wrap(X)
    wide.indptr = wide.indptr.astype(np.int64)  # as a tensor with 64-bit indices, or 2³¹ entries, has them
    model = GPower(2, cardinality=15, scale=True).fit(wide)
    np.testing.assert_allclose(to_numpy(model.components_), to_numpy(expected.components_), atol=1e-12)
    container, weight, shift = as_container(wide), np.linspace(1, 2, X.shape[0]), np.linspace(-1, 1, X.shape[1])
    container.transposed_times(DeviceArray(weight[:, None]))  # makes the copy by columns
    deviations = container.squared_deviations(DeviceArray(shift), DeviceArray(weight))
    np.testing.assert_allclose(to_numpy(deviations), weight @ (X.toarray() - shift) ** 2)


def test_a_copy_by_columns_is_stored_only_if_it_fits(monkeypatch):
    X, Y = make_sparse(), np.random.default_rng(1).standard_normal((400, 3))
    size = X.data.nbytes + X.indices.nbytes
    for free, is_stored in ((2 * size, False), (4 * size, True)):
        monkeypatch.setattr(device_sparse, "get_free_device_memory", lambda free=free: free)
        container = as_container(DeviceCSR.wrap(X))
        np.testing.assert_allclose(to_numpy(container.transposed_times(DeviceArray(Y))), X.T @ Y, atol=1e-10)
        assert (container._by_column is not None) == is_stored


@pytest.mark.parametrize("convert", [DeviceCSR.wrap, DeviceCSC.wrap])
def test_a_matrix_is_used_in_its_memory_and_other_formats_are_converted(convert):
    X = convert(make_sparse())
    A = as_container(X).A
    assert A.format == "csr"
    assert (A.data is X.data or np.shares_memory(A.data.a, X.data.a)) == (X.format == "csr")


def test_duplicate_entries_are_summed_in_a_copy():
    X = DeviceCSR((2, 3))
    X.data, X.indices = DeviceArray(np.array([1.0, 2.0, 4.0, 3.0])), DeviceArray(np.array([1, 1, 2, 0], np.int32))
    X.indptr = DeviceArray(np.array([0, 3, 4], np.int32))
    container = as_container(X)
    np.testing.assert_array_equal(to_numpy(container.to_dense()), [[0, 3, 4], [3, 0, 0]])
    assert X.nnz == 4
    np.testing.assert_allclose(to_numpy(container.squared_deviations(DeviceArray(np.ones(3)), None)), [5, 5, 10])


@pytest.mark.parametrize("wrap", [DeviceCSR.wrap, lambda X: DeviceArray(X.toarray())], ids=["CSR", "dense"])
@pytest.mark.parametrize("mask", [None, np.arange(1500) % 3 < 2], ids=["all genes", "some genes"])
def test_cells_on_the_device_are_fitted_there(wrap, mask, monkeypatch):
    """The cells are a stand-in for AnnData, which does not accept the stand-in for CuPy's arrays."""
    monkeypatch.setattr(single_cell, "_check_anndata", lambda adata: None)
    X = make_sparse(np.float32)
    host, cells = (SimpleNamespace(X=values, n_vars=1500, var={}, obsm={}, varm={}, uns={}) for values in (X, wrap(X)))
    single_cell.sparse_pca(host, n_comps=2, cardinality=15, mask_var=mask)
    single_cell.sparse_pca(cells, n_comps=2, cardinality=15, mask_var=mask)
    assert isinstance(cells.obsm["X_spca"], DeviceArray)
    assert isinstance(cells.varm["sPCs"], np.ndarray)
    np.testing.assert_allclose(cells.varm["sPCs"], host.varm["sPCs"], atol=1e-4)
    np.testing.assert_allclose(to_numpy(cells.obsm["X_spca"]), host.obsm["X_spca"], atol=1e-2)
    assert all(isinstance(value, np.ndarray) for value in cells.uns["spca"].values() if not isinstance(value, dict))


@pytest.mark.parametrize("wrap", [DeviceCSR.wrap, DeviceArray], ids=["CSR", "dense"])
@pytest.mark.parametrize("n_workers", [0, 2])
def test_blocks_of_a_dask_array_on_devices_give_the_result_of_the_host(wrap, n_workers):
    da, distributed = pytest.importorskip("dask.array"), pytest.importorskip("distributed")
    X = make_sparse()
    X.data += 40  # offsets, so that some columns are centred explicitly
    lazy = da.from_array(X.toarray(), chunks=(100, 1500)).map_blocks(wrap, meta=wrap(X[:0, :0].toarray()))
    with ExitStack() as stack:
        if n_workers:
            options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
            cluster = stack.enter_context(distributed.LocalCluster(n_workers=n_workers, **options))
            stack.enter_context(distributed.Client(cluster))
        model = GPower(2, cardinality=15, memory_limit="20MB").fit(lazy)
        scores = model.transform(lazy).compute()
    expected = GPower(2, cardinality=15).fit(X)
    assert isinstance(model.components_, np.ndarray)
    np.testing.assert_allclose(model.explained_variance_.sum(), expected.explained_variance_.sum(), rtol=1e-3)
    np.testing.assert_allclose(scores, model.transform(X), atol=1e-8)


# --- tables that are moved to the device ----------------------------------------------------------------------------


@pytest.fixture
def cupy_double(monkeypatch):
    """Put a stand-in for CuPy in place, with a settable amount of free memory."""
    cupy = ModuleType("cupy")
    cupy.free = 10**9
    cupy.is_available, cupy.asarray = lambda: True, DeviceArray
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (cupy.free, 10**10)))
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
    monkeypatch.setitem(sys.modules, "cupyx.scipy", ModuleType("cupyx.scipy"))
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", SimpleNamespace(csr_matrix=DeviceCSR))
    return cupy


@pytest.mark.usefixtures("cupy_double")
@pytest.mark.parametrize("convert", [sp.csr_array, sp.csc_matrix, np.asarray, lambda X: sp.csr_array(X.astype(int))])
def test_tables_move_to_the_device(convert):
    X = convert(np.where(make_sparse(shape=(40, 60)).toarray() > 1, 2.0, 0.0))
    moved = to_device(X, "cuda")
    assert isinstance(moved, DeviceCSR if sp.issparse(X) else DeviceArray)
    container = as_container(moved)
    assert container.dtype == np.float64
    np.testing.assert_array_equal(to_numpy(container.to_dense()), X.toarray() if sp.issparse(X) else X)


def test_tables_that_cannot_be_moved_are_refused(cupy_double):
    cupy_double.free = 1000
    message = r"needs \S+ GB of the GPU's memory, and 1e-06 GB are free; leave device at cpu"
    for convert in (sp.csr_array, np.asarray):
        with pytest.raises(ValueError, match=message):
            to_device(convert(np.ones((400, 1500))), "cuda")
    with pytest.raises(ValueError, match="Only a table in memory can be moved to a GPU"):
        to_device(object(), "cuda")
    cupy_double.is_available = lambda: False
    with pytest.raises(ValueError, match="CuPy finds no GPU on this machine; leave device at cpu"):
        to_device(np.ones((2, 2)), "cuda")


# --- tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_a_sparse_tensor_gives_tensors(index_dtype):
    torch = pytest.importorskip("torch")
    X = make_sparse(np.float32)
    pointers, columns = (torch.from_numpy(part.astype(index_dtype)) for part in (X.indptr, X.indices))
    tensor = torch.sparse_csr_tensor(pointers, columns, torch.from_numpy(X.data), X.shape)
    assert np.shares_memory(as_native(tensor).data, X.data)
    expected, model = GPower(2, cardinality=20).fit(X), GPower(2, cardinality=20).fit(tensor)
    assert isinstance(model.components_, torch.Tensor)
    np.testing.assert_allclose(model.components_.numpy(), expected.components_, atol=1e-6)
    scores = model.transform(tensor)
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(scores.numpy(), expected.transform(X), atol=1e-4)
    with pytest.raises(ValueError, match=r"layout torch\.sparse_coo .* pass a matrix as X\.to_sparse_csr\(\)"):
        GPower(2, cardinality=20).fit(tensor.to_sparse_coo())


class FakeTensor(SimpleNamespace):
    """What `as_native` uses of a tensor on a GPU."""

    is_cuda = True

    def __dlpack__(self):
        raise AssertionError

    def detach(self):
        return self


def test_a_sparse_tensor_of_a_device_becomes_a_matrix_there(cupy_double, monkeypatch):
    X = make_sparse()
    cupy_double.from_dlpack = lambda part: DeviceArray(part.numbers)
    parts = {
        name: lambda part=part: FakeTensor(numbers=part, shape=part.shape, ndim=1, layout="torch.strided")
        for name, part in {
            "values": X.data,
            "col_indices": X.indices,
            "crow_indices": X.indptr.astype(np.int64),
        }.items()
    }
    monkeypatch.setattr(gpower._utils.arrays, "get_package_name", lambda X: "torch")
    matrix = as_native(FakeTensor(shape=X.shape, ndim=2, layout="torch.sparse_csr", **parts))
    assert isinstance(matrix, DeviceCSR)
    np.testing.assert_array_equal(to_numpy(as_container(matrix).to_dense()), X.toarray())
