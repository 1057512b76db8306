"""Sparse matrices on a device give the result of the host, in any number of parts, with and without a stored copy."""

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

from .device_double import TRANSFERS, DeviceArray, DeviceCSC, DeviceCSR

CASES = [
    {"cardinality": 20},
    {"gamma": 0.05},
    {"gamma": 0.3, "penalty": "l1"},
    {"cardinality": 15, "method": "block"},
    {"cardinality": 20, "scale": True},
    {"cardinality": 20, "center": False},
    {"cardinality": 20, "deflation": "schur"},
    {"cardinality": 10, "positive": True},
    {"cardinality": 20, "solver": Solver(accumulate_dtype="float64")},
]


def table(dtype=np.float64, shape=(400, 1500)):
    """Return a sparse table with two groups of variables that vary together."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random(shape) < 0.1, rng.gamma(2.0, size=shape), 0.0)
    X[:, :30] *= 4 * (rng.random((shape[0], 1)) < 0.3)
    X[:, :30] += 3 * (rng.random((shape[0], 1)) < 0.3)
    X[:, 30:50] += 2 * (rng.random((shape[0], 1)) < 0.2)
    return sp.csr_array(X.astype(dtype))


def numbers(array):
    return array.a if isinstance(array, DeviceArray) else np.asarray(array)


@cache
def fit_on_host(i, dtype):
    """Return the fit with the options of case i to the table on the host."""
    return GPower(3, **CASES[i]).fit(table(dtype))


@pytest.fixture(params=["stored copy", "no memory for a copy"])
def free_memory(request, monkeypatch):
    """Set the free memory of the device."""
    monkeypatch.setattr(device_sparse, "get_free_device_memory", lambda: 1e12 if request.param == "stored copy" else 0)


@pytest.mark.usefixtures("free_memory")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("i", range(len(CASES)), ids=map(str, CASES))
def test_the_answer_is_that_of_the_host_and_stays_on_the_device(i, dtype):
    X = table(dtype)
    expected = fit_on_host(i, dtype)
    TRANSFERS.clear()
    model = GPower(3, **CASES[i]).fit(DeviceCSR.wrap(X))
    assert isinstance(model.components_, DeviceArray)
    assert isinstance(model.mean_, DeviceArray)
    assert model.components_.dtype == dtype
    atol = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(numbers(model.components_), expected.components_, atol=atol)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-10 + atol)
    scores = model.transform(DeviceCSR.wrap(X))
    assert isinstance(scores, DeviceArray)
    np.testing.assert_allclose(numbers(scores), expected.transform(X), atol=50 * atol)
    assert max(TRANSFERS) < X.shape[0] * X.shape[1]
    assert model.score(DeviceCSR.wrap(X)) == pytest.approx(expected.score(X), rel=atol)


@pytest.mark.usefixtures("free_memory")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_matrix_of_many_parts_gives_the_same_result(monkeypatch):
    X = table()
    expected = GPower(2, cardinality=15, scale=True).fit(DeviceCSR.wrap(X))
    monkeypatch.setattr(device_sparse, "MAX_PART_ENTRIES", 5000)
    monkeypatch.setattr(device_sparse, "MAX_CONVERTED_ENTRIES", 3000)
    monkeypatch.setattr(device_sparse, "DEVICE_BLOCK_ENTRIES", 4000)
    wide = DeviceCSR.wrap(X)
    wide.indptr = wide.indptr.astype(np.int64)  # as a tensor with 64-bit indices, or 2³¹ entries, has them
    model = GPower(2, cardinality=15, scale=True).fit(wide)
    np.testing.assert_allclose(numbers(model.components_), numbers(expected.components_), atol=1e-12)


def test_a_copy_by_columns_is_stored_only_if_it_fits(monkeypatch):
    X, Y = table(), np.random.default_rng(1).standard_normal((400, 3))
    size = X.data.nbytes + X.indices.nbytes
    for free, is_stored in ((2 * size, False), (4 * size, True)):
        monkeypatch.setattr(device_sparse, "get_free_device_memory", lambda free=free: free)
        container = as_container(DeviceCSR.wrap(X))
        np.testing.assert_allclose(numbers(container.transposed_times(DeviceArray(Y))), X.T @ Y, atol=1e-10)
        assert (container._by_column is not None) == is_stored


@pytest.mark.parametrize("convert", [DeviceCSR.wrap, DeviceCSC.wrap])
def test_a_matrix_is_used_in_its_memory_and_other_formats_are_converted(convert):
    X = convert(table())
    A = as_container(X).A
    assert A.format == "csr"
    assert (A.data is X.data or np.shares_memory(A.data.a, X.data.a)) == (X.format == "csr")


def test_duplicate_entries_are_summed_in_a_copy():
    X = DeviceCSR((2, 3))
    X.data, X.indices = DeviceArray(np.array([1.0, 2.0, 4.0, 3.0])), DeviceArray(np.array([1, 1, 2, 0], np.int32))
    X.indptr = DeviceArray(np.array([0, 3, 4], np.int32))
    container = as_container(X)
    np.testing.assert_array_equal(numbers(container.to_dense()), [[0, 3, 4], [3, 0, 0]])
    assert X.nnz == 4
    np.testing.assert_allclose(numbers(container.squared_deviations(DeviceArray(np.ones(3)), None)), [5, 5, 10])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_the_host_takes_samples_of_the_device_and_conversely():
    X = table()
    on_host, on_device = GPower(2, cardinality=15).fit(X), GPower(2, cardinality=15).fit(DeviceCSR.wrap(X))
    expected = on_host.transform(X)
    np.testing.assert_allclose(numbers(on_host.transform(DeviceCSR.wrap(X))), expected, atol=1e-9)
    np.testing.assert_allclose(on_device.transform(X), expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_and_covariates_work_on_the_device():
    X, rng = table(), np.random.default_rng(2)
    known = {"sample_weight": rng.uniform(0.5, 2, 400), "covariates": rng.standard_normal((400, 2))}
    expected = GPower(2, cardinality=15).fit(X, **known)
    model = GPower(2, cardinality=15).fit(DeviceCSR.wrap(X), **known)
    np.testing.assert_allclose(numbers(model.components_), expected.components_, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"missing": "impute"}, {"variance": "l1"}, {"covariance": "precomputed"}, {"certify": True}], ids=str
)
def test_options_of_the_host_alone_are_refused(options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))}=.* works on the host only; pass X\.get\(\)"):
        GPower(1, gamma=0.1, **options).fit(DeviceCSR.wrap(table()))


def test_an_entry_that_is_not_finite_is_named():
    X = table().tolil()
    X[7, 11] = np.nan
    with pytest.raises(ValueError, match=r"NaN .*first in column 11, row 7"):
        GPower(1, cardinality=2).fit(DeviceCSR.wrap(X.tocsr()))


def test_values_that_are_not_real_are_refused():
    with pytest.raises(ValueError, match="complex128, not real numbers"):
        GPower(1, cardinality=2).fit(DeviceCSR.wrap(table().astype(complex)))


@pytest.mark.parametrize("wrap", [DeviceCSR.wrap, lambda X: DeviceArray(X.toarray())], ids=["CSR", "dense"])
@pytest.mark.parametrize("mask", [None, np.arange(1500) % 3 < 2], ids=["all genes", "some genes"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_cells_on_the_device_are_fitted_there(wrap, mask, monkeypatch):
    """The cells are a stand-in for AnnData, which does not accept the stand-in for CuPy's arrays."""
    monkeypatch.setattr(single_cell, "_check_anndata", lambda adata: None)
    X = table(np.float32)
    host, cells = (SimpleNamespace(X=values, n_vars=1500, var={}, obsm={}, varm={}, uns={}) for values in (X, wrap(X)))
    single_cell.sparse_pca(host, n_comps=2, cardinality=15, mask_var=mask)
    single_cell.sparse_pca(cells, n_comps=2, cardinality=15, mask_var=mask)
    assert isinstance(cells.obsm["X_spca"], DeviceArray)
    assert isinstance(cells.varm["sPCs"], np.ndarray)
    np.testing.assert_allclose(cells.varm["sPCs"], host.varm["sPCs"], atol=1e-4)
    np.testing.assert_allclose(numbers(cells.obsm["X_spca"]), host.obsm["X_spca"], atol=1e-2)
    assert all(isinstance(value, np.ndarray) for value in cells.uns["spca"].values() if not isinstance(value, dict))


@pytest.mark.parametrize("wrap", [DeviceCSR.wrap, DeviceArray], ids=["CSR", "dense"])
@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_blocks_of_a_dask_array_on_devices_give_the_result_of_the_host(wrap, n_workers):
    da, distributed = pytest.importorskip("dask.array"), pytest.importorskip("distributed")
    X = table()
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
    X = convert(np.where(table(shape=(40, 60)).toarray() > 1, 2.0, 0.0))
    moved = to_device(X, "cuda")
    assert isinstance(moved, DeviceCSR if sp.issparse(X) else DeviceArray)
    container = as_container(moved)
    assert container.dtype == np.float64
    np.testing.assert_array_equal(numbers(container.to_dense()), X.toarray() if sp.issparse(X) else X)


@pytest.mark.parametrize("convert", [sp.csr_array, np.asarray])
def test_a_table_that_does_not_fit_is_refused_with_its_size(cupy_double, convert):
    cupy_double.free = 1000
    with pytest.raises(
        ValueError, match=r"needs \S+ GB of the GPU's memory, and 1e-06 GB are free; leave device at cpu"
    ):
        to_device(convert(np.ones((400, 1500))), "cuda")


def test_a_table_in_blocks_is_not_moved():
    with pytest.raises(ValueError, match="Only a table in memory can be moved to a GPU"):
        to_device(object(), "cuda")


# --- tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_a_sparse_tensor_gives_tensors(index_dtype):
    torch = pytest.importorskip("torch")
    X = table(np.float32)
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


def test_a_sparse_tensor_of_a_device_becomes_a_matrix_there(cupy_double, monkeypatch):
    X = table()
    cupy_double.from_dlpack = lambda part: DeviceArray(part.values)
    tensors = [FakeTensor(part) for part in (X.data, X.indices, X.indptr.astype(np.int64))]
    tensor = FakeTensor(X, "torch.sparse_csr", *tensors)
    monkeypatch.setattr(gpower._utils.arrays, "get_package_name", lambda X: "torch")
    matrix = as_native(tensor)
    assert isinstance(matrix, DeviceCSR)
    np.testing.assert_array_equal(numbers(as_container(matrix).to_dense()), X.toarray())


class FakeTensor:
    """What `as_native` uses of a tensor on a GPU."""

    is_cuda = True

    def __init__(self, values, layout="torch.strided", data=None, columns=None, pointers=None):
        self.values = values if data is None else lambda: data
        self.shape, self.ndim, self.layout = values.shape, values.ndim, layout
        self.col_indices, self.crow_indices = lambda: columns, lambda: pointers

    def __dlpack__(self):
        raise AssertionError

    def detach(self):
        return self
