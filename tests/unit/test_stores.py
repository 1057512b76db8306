"""Every kind of store gives its matrix for any chunks; a broken store raises an error that names the place."""

import gc
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from tests.fitted_models import assert_same_fit
from tests.optional_packages import OptionalPackage
from tests.stored_matrices import make_counting_store

from gpower import GPower
from gpower.io.stores.cache import cache_store
from gpower.io.stores.matrix_source import MatrixSource, StoreError, read_source_block
from gpower.io.stores.open import create_sparse_source, open_source, select_source_columns, should_read_in_blocks
from gpower.operators.storage.disk import StreamedMatrix

anndata = OptionalPackage("anndata")
h5py = OptionalPackage("h5py")
pd = OptionalPackage("pandas")
zarr = OptionalPackage("zarr")

P, N = 1000, 60
LIMIT = 240_000  # bytes: half of the matrix, blocks of 125 rows
rng = np.random.default_rng(0)
LOADINGS = np.zeros((2, N))
LOADINGS[0, :10], LOADINGS[1, 20:28] = 1.5, 1.2
FACTORS = rng.standard_normal((P, 2)) @ LOADINGS
X = FACTORS + 0.5 * rng.standard_normal((P, N)) + rng.uniform(-3, 3, N)
COUNTS = rng.poisson(np.exp(FACTORS - 1.5)).astype(float)
NAMES = [f"gene {j}" for j in range(N)]


def zarr_array(path, A, chunks, zarr_format, **options):
    zarr.create_array(str(path), data=A, chunks=chunks, zarr_format=zarr_format, **options)
    return path


def hdf5(path, options=None, **arrays):
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, A in arrays.items():
            file.create_dataset(name, data=A, **(options or {}))
    return path


def adata_file(path, A, form="h5ad"):
    adata = anndata.AnnData(A)
    adata.var_names = NAMES
    getattr(adata, f"write_{form}")(path)
    return path


def early_anndata(path, A):
    """Write a sparse matrix as anndata did before 0.7, under other names."""
    hdf5(path, **{f"X/{part}": getattr(A, part) for part in ("data", "indices", "indptr")})
    with h5py.File(path, "r+") as file:
        file["X"].attrs.update({"h5sparse_format": A.format, "h5sparse_shape": A.shape})
    return path


def sharded_anndata(path, A):
    """Write a sparse matrix as anndata 0.13 does: three arrays in shards of several chunks."""
    group = zarr.open_group(str(path), mode="w", zarr_format=3).create_group("X")
    group.attrs.update({"encoding-type": f"{A.format}_matrix", "encoding-version": "0.1.0", "shape": list(A.shape)})
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(A, part), chunks=(500,), shards=(20_000,))
    return path


def parquet(path, A, names=NAMES, rows_of_group=170, **options):
    pytest.importorskip("pyarrow")
    pd.DataFrame(A, columns=names, **options).to_parquet(path, row_group_size=rows_of_group)
    return path


def npy(path, A):
    np.save(path, A)
    return path


STORES = {
    "npy": lambda at, A: npy(at / "x.npy", A),
    "npy by column": lambda at, A: npy(at / "x.npy", np.asfortranarray(A)),
    "zarr 2, rows": lambda at, A: zarr_array(at / "x.zarr", A, (70, N), 2),
    "zarr 3, rows": lambda at, A: zarr_array(at / "x.zarr", A, (70, N), 3),
    "zarr 2, columns": lambda at, A: zarr_array(at / "x.zarr", A, (P, 11), 2),
    "zarr 3, columns": lambda at, A: zarr_array(at / "x.zarr", A, (P, 11), 3),
    "zarr 3, both": lambda at, A: zarr_array(at / "x.zarr", A, (300, 11), 3),
    "zarr 3, sharded": lambda at, A: zarr_array(at / "x.zarr", A, (40, 15), 3, shards=(200, 60)),
    "zarr 3, one chunk": lambda at, A: zarr_array(at / "x.zarr", A, (P, N), 3),
    "HDF5, chunks": lambda at, A: hdf5(at / "x.h5", {"chunks": (130, 17), "compression": "gzip"}, X=A),
    "HDF5, columns": lambda at, A: hdf5(at / "x.h5", {"chunks": (P, 9)}, X=A),
    "HDF5, contiguous": lambda at, A: hdf5(at / "x.hdf5", only=A),
    "h5ad, dense": lambda at, A: adata_file(at / "x.h5ad", A),
    "h5ad, CSR": lambda at, A: adata_file(at / "x.h5ad", sp.csr_matrix(A)),
    "h5ad, CSC": lambda at, A: adata_file(at / "x.h5ad", sp.csc_matrix(A)),
    "AnnData zarr, CSR": lambda at, A: adata_file(at / "x.zarr", sp.csr_matrix(A), "zarr"),
    "zarr 3, sharded CSR": lambda at, A: sharded_anndata(at / "x.zarr", sp.csr_matrix(A)),
    "early h5ad, CSR": lambda at, A: early_anndata(at / "x.h5ad", sp.csr_matrix(A)),
    "early h5ad, CSC": lambda at, A: early_anndata(at / "x.h5ad", sp.csc_matrix(A)),
    "Parquet": lambda at, A: parquet(at / "x.parquet", A, index=[f"patient {i}" for i in range(P)]),
    "Parquet, one group": lambda at, A: parquet(at / "x.parquet", A, rows_of_group=10**6),
}
SPARSE = [name for name in STORES if "CS" in name]


pytestmark = [  # notices about future formats
    pytest.mark.filterwarnings("ignore:::anndata"),
    pytest.mark.filterwarnings("ignore:.*zarr_format.*|.*[Zz]arr.*v[23].*|.*zarr v2.*"),
]


def read_all_ways(matrix):
    """Read every entry of a matrix in blocks through both products and through its columns."""
    by_products = matrix.times(np.eye(matrix.shape[1], dtype=matrix.dtype))
    identity = np.eye(matrix.shape[0], dtype=matrix.dtype)
    np.testing.assert_allclose(matrix.transposed_times(identity), by_products.T)
    idx = np.array([5, 0, 41, 40, matrix.shape[1] - 1])
    np.testing.assert_allclose(matrix.columns(idx), by_products[:, idx])
    np.testing.assert_allclose(matrix.head(9), by_products[:9])
    return by_products


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_store_gives_its_matrix(tmp_path, name, dtype):
    A = (COUNTS if name in SPARSE else X).astype(dtype)
    matrix = StreamedMatrix(open_source(STORES[name](tmp_path, A)), LIMIT)
    assert matrix.n_blocks > 1 or "one chunk" in name
    assert matrix.dtype == dtype
    assert matrix.is_sparse == (name in SPARSE)
    np.testing.assert_array_equal(read_all_ways(matrix), A)


def test_a_shard_is_read_by_its_inner_chunks(tmp_path):
    source = open_source(zarr_array(tmp_path / "x.zarr", X, (40, N), 3, shards=(P, N)))
    assert source.chunk_length == 40
    assert np.diff(StreamedMatrix(source, LIMIT).block_edges).max() <= LIMIT // (8 * N)


@cache
def reference(is_sparse):
    """Return the fit to the array of a store."""
    return GPower(2, cardinality=8, scale=True).fit(COUNTS if is_sparse else X)


def assert_fits(stored, is_sparse=False):
    """Assert that the fit to a store is that to the array."""
    assert_same_fit(GPower(2, cardinality=8, scale=True, memory_limit=LIMIT).fit(stored), reference(is_sparse))


@pytest.mark.parametrize("name", ["zarr 3, rows", "HDF5, chunks", "HDF5, contiguous"])
def test_a_path_and_an_open_array_are_read_in_blocks(tmp_path, name):
    path = STORES[name](tmp_path, X)
    assert_fits(str(path))
    assert_fits(zarr.open(str(path), mode="r") if "zarr" in name else next(iter(h5py.File(path, "r").values())))


@pytest.mark.parametrize("form", ["dense", "CSR", "CSC"])
def test_the_matrix_of_a_backed_object_is_read_in_blocks(tmp_path, form):
    backed = anndata.read_h5ad(STORES[f"h5ad, {form}"](tmp_path, COUNTS), backed="r")
    source = open_source(backed.X)
    assert (source.is_sparse, source.axis) == (form != "dense", int(form == "CSC"))
    assert_fits(backed.X, is_sparse=True)
    backed.file.close()


@pytest.mark.parametrize("form", ["CSR", "CSC"])
def test_blocks_of_a_sparse_store_are_sparse_arrays_with_narrow_indices(form):
    A = sp.csr_array(COUNTS).asformat(form.lower())
    parts = [A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)]
    block = create_sparse_source(parts, A.shape, form == "CSC", "x", A.dtype).read_slice(3, 40)
    assert isinstance(block, sp.sparray)
    assert block.indices.dtype == block.indptr.dtype == np.int32
    np.testing.assert_array_equal(block.toarray(), COUNTS[:, 3:40] if form == "CSC" else COUNTS[3:40])


@pytest.mark.parametrize("name", ["h5ad, CSR", "AnnData zarr, CSR", "Parquet"])
def test_names_of_the_variables_are_read(tmp_path, name):
    model = GPower(1, cardinality=3).fit(STORES[name](tmp_path, COUNTS))
    assert list(model.feature_names_in_) == NAMES
    assert set(model.loadings()[0]) <= set(NAMES)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool", "float16", ">f8"])
def test_other_numbers_are_worked_on_as_float64(tmp_path, dtype):
    A = (COUNTS > 0 if dtype == "bool" else COUNTS).astype(dtype)
    model = GPower(1, cardinality=5, memory_limit=LIMIT).fit(npy(tmp_path / "x.npy", A))
    assert model.components_.dtype == np.float64
    np.testing.assert_allclose(model.components_, GPower(1, cardinality=5).fit(A.astype(float)).components_, atol=1e-8)


class TestMemoryMaps:
    @pytest.fixture(params=["C", "F"])
    def mapped(self, request, tmp_path):
        return np.load(npy(tmp_path / "x.npy", np.asarray(X, order=request.param)), mmap_mode="r")

    def test_one_that_fits_is_an_array(self, mapped):
        assert open_source(mapped) is None
        assert_same_fit(GPower(2, cardinality=8, scale=True).fit(mapped), reference(False))

    def test_one_that_exceeds_the_limit_is_read_in_blocks(self, mapped, monkeypatch):
        """Under the limit of the user, the whole map never becomes an array."""
        assert open_source(mapped, memory_limit=LIMIT).axis == int(mapped.flags.f_contiguous)
        expected = reference(False)
        monkeypatch.setattr("gpower.validation.checks.validate_data", None)  # which makes an array of what it checks
        assert_same_fit(GPower(2, cardinality=8, scale=True, memory_limit=LIMIT).fit(mapped), expected)

    def test_a_slice_of_a_map_is_the_slice(self, mapped):
        matrix = StreamedMatrix(open_source(mapped[10:900:2, 1::3], memory_limit=0), 2000)
        np.testing.assert_array_equal(matrix.times(np.eye(20)), X[10:900:2, 1::3])


class TestKeys:
    def test_one_of_several_arrays_is_named(self, tmp_path):
        path = hdf5(tmp_path / "x.h5", raw=X, other=X[:, :5])
        assert open_source(path, "other").shape == (P, 5)
        with pytest.raises(StoreError, match=r"no array is called X; it holds other, raw\. Select one with key"):
            open_source(path)
        with pytest.raises(StoreError, match="there is no 'missing'; it holds other, raw"):
            open_source(path, "missing")

    def test_a_layer_is_found_by_its_path(self, tmp_path):
        adata = anndata.AnnData(X.copy(), layers={"counts": sp.csr_matrix(COUNTS)})
        adata.write_h5ad(tmp_path / "x.h5ad")
        source = open_source(tmp_path / "x.h5ad", "layers/counts")
        np.testing.assert_array_equal(source.read_slice(0, P).toarray(), COUNTS)


class TestSomeColumns:
    @pytest.mark.parametrize("name", ["npy", "npy by column", "zarr 3, columns", "h5ad, CSR", "h5ad, CSC"])
    def test_some_columns_are_those_of_the_matrix(self, tmp_path, name):
        A = COUNTS if name in SPARSE else X
        idx = np.array([0, 3, 4, 12, 30, 59])
        part = select_source_columns(open_source(STORES[name](tmp_path, A)), idx)
        np.testing.assert_array_equal(StreamedMatrix(part, 4000).times(np.eye(6)), A[:, idx])

    def test_the_columns_left_out_are_counted_while_rows_are_read(self):
        rows = MatrixSource("rows", (100, 1000), np.dtype(float), None)
        assert select_source_columns(rows, np.arange(10)).bytes_per_line == rows.bytes_per_line

    def test_a_chunk_of_columns_is_read_once(self):
        stored, reads = make_counting_store(X, 1, chunk_length=20)
        part = select_source_columns(stored, np.arange(0, 60, 2))
        np.testing.assert_array_equal(part.read_slice(0, 30), X[:, ::2])
        assert [lo for lo, _ in reads] == [0, 20, 40]


# --- broken stores ----------------------------------------------------------------------------------------------------


def assert_refused(path, *words, **options):
    """Check that the error of a store that cannot be opened or fitted names the store and contains the words."""
    with pytest.raises(ValueError) as caught:
        GPower(1, memory_limit=LIMIT).fit(open_source(path, **options) if options else path)
    for word in (path.name, *words):
        assert word in " ".join(str(caught.value).split())


class TestBroken:
    @pytest.mark.parametrize(
        ("write", "message"),
        [
            (lambda at: at / "x.npy", "x.npy: there is no such file"),
            (lambda at: at, "a matrix on disk ends in .npy, .parquet, .zarr, .h5, .hdf5 or .h5ad"),
            (lambda at: npy(at / "x.npy", np.zeros((2, 3, 4))), "two dimensions, this array has the shape (2, 3, 4)"),
            (lambda at: hdf5(at / "x.h5", X=np.zeros(5)), "h5, X: a matrix has two dimensions, this array has the sh"),
            (lambda at: zarr_array(at / "x.zarr", np.zeros(5), (5,), 3), "two dimensions, this array has the shape (5"),
            (lambda at: npy(at / "x.npy", np.array([["a", "b"]])), "its values are of type <U1, not numbers"),
            (lambda at: npy(at / "x.npy", np.array([[None, 1]])), "x.npy: this is not a whole .npy file"),
            (lambda at: hdf5(at / "x.h5"), "no array is called X; it holds nothing"),
            (lambda at: hdf5(at / "x.h5ad", obs=X, var=X), "no array is called X; it holds obs, var"),
            (lambda at: hdf5(at / "x.h5", X=np.array([[b"a"]])), "X: its values are of type |S1, not numbers"),
            (lambda at: parquet(at / "x.parquet", {"b": ["x"]}, None), "not numbers. Drop it from the file"),
            (lambda at: parquet(at / "x.parquet", {"a": [[1.0]]}, None), "column 'a' holds list"),
        ],
    )
    def test_files_without_a_matrix_are_refused(self, tmp_path, write, message):
        assert_refused(write(tmp_path), message)

    @pytest.mark.parametrize("limit", [LIMIT, None])  # in blocks, and small enough for the memory
    def test_a_missing_value_is_named_by_its_file_row_and_column(self, tmp_path, limit):
        path = parquet(tmp_path / "x.parquet", np.where(np.eye(P, N, -65), np.nan, X))
        model = GPower(1, memory_limit=limit)
        calls = model.fit, GPower(1, gamma=0.5).fit(X).set_params(memory_limit=limit).transform
        for call, source in product(calls, (path, open_source(path))):
            with pytest.raises(ValueError, match=r"x\.parquet: the matrix contains NaN .*column 'gene 0'") as error:
                call(source)
            assert "row 65 (counted from 0)" in str(error.value)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("npy", "x.npy: this is not a whole .npy file"),
            ("HDF5, chunks", "x.h5: this is not a whole HDF5 file"),
            ("Parquet", "x.parquet: this is not a whole Parquet file"),
        ],
    )
    def test_truncated_files_are_refused(self, tmp_path, name, message):
        path = STORES[name](tmp_path, X)
        path.write_bytes(path.read_bytes()[:2000])
        assert_refused(path, message)

    def test_an_npy_cut_short_while_it_is_read_is_named(self, tmp_path):
        """Reading a map beyond the end of its file kills the process, so the reader checks the size."""
        path = npy(tmp_path / "x.npy", X)
        source = open_source(path)
        os.truncate(path, 5000)
        with pytest.raises(StoreError, match=r"x\.npy, rows 100 to 119: they could not be read"):
            read_source_block(source, 100, 120)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_changed_chunk_is_named(self, tmp_path):
        path = zarr_array(tmp_path / "x.zarr", X, (100, N), 3)
        (path / "c" / "4" / "0").write_bytes(b"broken")
        assert_refused(path, "x.zarr, rows ", "could not be read")
        gc.collect()  # zarr leaves the tasks of the other chunks behind

    @pytest.mark.parametrize("zarr_format", [2, 3])
    def test_a_missing_chunk_raises_a_warning(self, tmp_path, zarr_format):
        path = zarr_array(tmp_path / "x.zarr", X, (100, N), zarr_format)
        (path / "c" / "4" / "0" if zarr_format == 3 else path / "4.0").unlink()
        with pytest.warns(UserWarning, match=r"x\.zarr: 1 of 10 chunks are not stored and read as 0\.0"):
            GPower(1, memory_limit=LIMIT).fit(path)

    def test_a_missing_chunk_of_a_sparse_matrix_raises_a_warning(self, tmp_path):
        path = STORES["AnnData zarr, CSR"](tmp_path, COUNTS)
        chunks = [f for f in (path / "X" / "data").rglob("*") if f.is_file() and not f.name.startswith((".z", "zarr"))]
        chunks[0].unlink()
        with pytest.warns(UserWarning, match=r"x\.zarr, X, data: 1 of 1 chunks are not stored"):
            open_source(path)

    def test_a_folder_that_is_no_zarr_is_refused(self, tmp_path):
        pytest.importorskip("zarr")
        (tmp_path / "x.zarr").mkdir()
        assert_refused(tmp_path / "x.zarr", "x.zarr: this is not a zarr store")

    @pytest.mark.parametrize(
        ("part", "change", "words"),
        [
            *(
                ("indptr", change, ("X: indptr has", "1001 are needed, which begin with 0 and do not decrease"))
                for change in (lambda v: v[:-1], lambda v: v[::-1].copy(), lambda v: v + 1, lambda v: [*v, v[-1]])
            ),
            *(
                ("indices", change, ("X, rows 0 to", "could not be read", "indices"))
                for change in (lambda v: v + 50, lambda v: v - 3, lambda v: v.astype(np.int64) + 2**32)
            ),
            ("data", lambda v: v[: v.size // 2], ("X, rows", "could not be read")),
        ],
    )
    def test_parts_of_a_sparse_matrix_that_do_not_fit_are_refused(self, tmp_path, part, change, words):
        path = STORES["h5ad, CSR"](tmp_path, COUNTS)
        with h5py.File(path, "r+") as file:
            values = change(file[f"X/{part}"][:])
            del file[f"X/{part}"]
            file[f"X/{part}"] = values
        assert_refused(path, f"x.h5ad, {words[0]}", *words[1:])

    def test_a_sparse_matrix_without_a_shape_is_refused(self, tmp_path):
        path = STORES["h5ad, CSR"](tmp_path, COUNTS)
        with h5py.File(path, "r+") as file:
            del file["X"].attrs["shape"]
        assert_refused(path, "x.h5ad, X: a sparse matrix without the attribute 'shape'")


def virtual_dataset(path, *sources, height=P, fillvalue=None):
    """Write a virtual dataset of the arrays X of some files, one below the other, and a gap if it is higher."""
    layout = h5py.VirtualLayout((max(height, P * len(sources)), N), X.dtype, filename=str(path))
    for i, source in enumerate(sources):
        layout[i * P : (i + 1) * P] = h5py.VirtualSource(source, "X", X.shape)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("X", layout, fillvalue=fillvalue)
    return path


class TestOtherFiles:
    """A store must not bring the content of another file into the results."""

    @pytest.fixture
    def elsewhere(self, tmp_path):
        return hdf5(tmp_path / "elsewhere" / "secret.h5", X=X).parent

    def test_external_storage_is_refused(self, tmp_path, elsewhere):
        (elsewhere / "secret.bin").write_bytes(X.tobytes())
        path = hdf5(tmp_path / "x.h5", {"external": [(elsewhere / "secret.bin", 0, X.nbytes)]}, X=X)
        assert_refused(path, "X: it has external storage in", "secret.bin")

    def test_a_virtual_dataset_is_refused_unless_it_is_open(self, tmp_path, elsewhere):
        path = virtual_dataset(tmp_path / "x.h5", elsewhere / "secret.h5")
        assert_refused(path, "X: it is a virtual dataset", "read it with virtual=True")
        with h5py.File(path) as file:  # whoever opens it has decided to read it
            np.testing.assert_array_equal(open_source(file["X"]).read_slice(0, P), X)

    @pytest.mark.parametrize("form", ["link", "through a soft link", "through a group"])
    def test_an_external_link_is_refused(self, tmp_path, elsewhere, form):
        path = tmp_path / "x.h5"
        with h5py.File(path, "w") as file:
            where = "X" if form == "link" else "other"
            file[where] = h5py.ExternalLink(elsewhere / "secret.h5", "/" if form == "through a group" else "/X")
            if form != "link":
                file["X"] = h5py.SoftLink("/other/X" if form == "through a group" else "other")
        assert_refused(path, "is an external link to", "secret.h5")

    @pytest.mark.parametrize("part", ["X", "X/data", "X/indptr", "var", "var/_index", "obs/_index"])
    def test_an_external_link_in_an_anndata_is_refused(self, tmp_path, elsewhere, part):
        path = STORES["h5ad, CSR"](tmp_path, COUNTS)
        with h5py.File(path, "r+") as file, h5py.File(elsewhere / "part.h5", "w") as other:
            file.copy(file[part], other, "part")
            del file[part]
            file[part] = h5py.ExternalLink(elsewhere / "part.h5", "/part")
        assert_refused(path, f"{part.rpartition('/')[2]!r} is an external link to", "part.h5")

    def test_links_within_the_file_are_followed(self, tmp_path):
        path = hdf5(tmp_path / "x.h5", raw=X)
        with h5py.File(path, "r+") as file:
            file["X"] = h5py.SoftLink("again")
            file["again"] = h5py.SoftLink("/raw")
            file["loop"] = h5py.SoftLink("loop")
            file["dangling"] = h5py.SoftLink("/nowhere")
        np.testing.assert_array_equal(open_source(path).read_slice(0, P), X)
        with pytest.raises(StoreError, match=r"x\.h5: 'loop' is a loop of links"):
            open_source(path, "loop")
        with pytest.raises(StoreError, match="there is no 'dangling'"):
            open_source(path, "dangling")

    @pytest.mark.parametrize("what", ["chunk", "folder", "metadata"])
    def test_a_link_out_of_a_zarr_folder_is_refused(self, tmp_path, what):
        path = zarr_array(tmp_path / "x.zarr", X, (100, N), 3)
        place = path / {"chunk": "c/4/0", "folder": "c/4", "metadata": "zarr.json"}[what]
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
        assert_refused(path, f"{str(place.relative_to(path))!r} is a link to", "elsewhere', outside the store")

    def test_a_link_to_or_within_a_zarr_folder_is_followed(self, tmp_path):
        path = zarr_array(tmp_path / "real.zarr", X, (100, N), 3)
        (path / "c/4/0").rename(path / "c/4/moved")
        (path / "c/4/0").symlink_to(path / "c/4/moved")
        (tmp_path / "x.zarr").symlink_to(path)
        np.testing.assert_array_equal(open_source(tmp_path / "x.zarr").read_slice(0, P), X)

    def test_a_file_of_references_is_refused(self, tmp_path):
        pytest.importorskip("zarr")
        path = tmp_path / "x.zarr"
        path.write_text('{"version": 1, "refs": {".zgroup": "{}", "X/0.0": ["/etc/passwd", 0, 80]}}')
        assert_refused(path, "a zarr store is a folder; files of references to other files are not read")


class TestVirtualDatasets:
    """With virtual=True a virtual dataset is read if all its sources are in the folder of its file, or below it."""

    @pytest.mark.parametrize("absolute", [False, True])
    def test_sources_in_the_folder_are_read(self, tmp_path, monkeypatch, absolute):
        sources = [hdf5(tmp_path / "a.h5", X=X), hdf5(tmp_path / "part" / "b.h5", X=X)]
        names = (source if absolute else source.relative_to(tmp_path) for source in sources)
        path = virtual_dataset(tmp_path / "x.h5", *names)
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")  # sources are looked for beside the file, not in the working folder
        np.testing.assert_array_equal(open_source(path, virtual=True).read_slice(0, 2 * P), np.vstack([X, X]))

    def test_a_link_to_the_file_reads_the_sources_beside_the_file(self, tmp_path):
        hdf5(tmp_path / "real" / "a.h5", X=X)
        virtual_dataset(tmp_path / "real" / "x.h5", "a.h5")
        hdf5(tmp_path / "a.h5", X=X + 1)  # beside the link
        (tmp_path / "x.h5").symlink_to(tmp_path / "real" / "x.h5")
        np.testing.assert_array_equal(open_source(tmp_path / "x.h5", virtual=True).read_slice(0, P), X)

    @pytest.mark.parametrize(
        "how", ["absolute", "relative", "through a link to the file", "through a link to a folder"]
    )
    def test_sources_outside_the_folder_are_refused(self, tmp_path, how):
        secret = hdf5(tmp_path / "elsewhere" / "secret.h5", X=X)
        folder = tmp_path / "own"
        folder.mkdir()
        (folder / "link.h5").symlink_to(secret)
        (folder / "links").symlink_to(secret.parent)
        names = {"absolute": str(secret), "relative": "../elsewhere/secret.h5"}
        names |= {"through a link to the file": "link.h5", "through a link to a folder": "links/secret.h5"}
        path = virtual_dataset(folder / "x.h5", names[how])
        assert_refused(path, "X: its source 'X' in", "is outside the folder", "own", virtual=True)

    def test_sources_that_refer_to_other_files_are_refused(self, tmp_path):
        virtual_dataset(tmp_path / "nested.h5", hdf5(tmp_path / "a.h5", X=X).name)
        with h5py.File(tmp_path / "linked.h5", "w") as file:
            file["X"] = h5py.ExternalLink("/etc/secret.h5", "/X")
        for name, words in (
            ("nested.h5", ["its source 'X' in 'nested.h5' is a virtual dataset itself"]),
            ("linked.h5", ["is an external link to", "secret.h5"]),
        ):
            assert_refused(virtual_dataset(tmp_path / f"of-{name}", name), *words, virtual=True)

    @pytest.mark.parametrize("content", [None, {"Y": X}, {"X": X[1:]}], ids=["no file", "no array", "too small"])
    def test_sources_that_are_missing_or_too_small_are_refused(self, tmp_path, content):
        if content:
            hdf5(tmp_path / "a.h5", **content)
        words = "its source 'X' in 'a.h5' is missing" + (", or smaller than the part" if content else "")
        assert_refused(virtual_dataset(tmp_path / "x.h5", "a.h5"), words, virtual=True)

    def test_a_series_of_files_is_refused(self, tmp_path):
        unlimited = h5py.h5s.UNLIMITED
        part, whole = h5py.h5s.create_simple(X.shape), h5py.h5s.create_simple(X.shape, (unlimited, N))
        whole.select_hyperslab((0, 0), (unlimited, 1), (P, N), (P, N))
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_virtual(whole, b"part-%b.h5", b"X", part)
        with h5py.File(tmp_path / "x.h5", "w") as file:
            h5py.h5d.create(file.id, b"X", h5py.h5t.NATIVE_DOUBLE, whole, properties)
        assert_refused(tmp_path / "x.h5", "its source 'X' in 'part-%b.h5' is a series of files", virtual=True)

    def test_other_folders_of_the_environment_are_refused(self, tmp_path, monkeypatch):
        path = virtual_dataset(tmp_path / "x.h5", hdf5(tmp_path / "a.h5", X=X).name)
        monkeypatch.setenv("HDF5_VDS_PREFIX", "/etc")
        assert_refused(path, "HDF5_VDS_PREFIX", "unset this variable", virtual=True)

    def test_a_source_that_changed_is_decoded_again(self, tmp_path):
        changed = X.copy()
        changed[P // 2] += 1  # not among the first and last numbers, which are compared in any case
        path = virtual_dataset(tmp_path / "x.h5", "a.h5")
        for content in (X, changed):
            hdf5(tmp_path / "a.h5", X=content)
            copy = cache_store(open_source(path, virtual=True), tmp_path / "cache")
            np.testing.assert_array_equal(copy.read_slice(0, P), content)

    def test_gaps_are_noticed(self, tmp_path):
        hdf5(tmp_path / "a.h5", X=X)
        path = virtual_dataset(tmp_path / "x.h5", "a.h5", height=P + 1, fillvalue=-1)
        with pytest.warns(UserWarning, match=rf"{N} of {(P + 1) * N} numbers have no source and read as -1"):
            assert open_source(path, virtual=True).shape == (P + 1, N)

    def test_unwritten_chunks_of_a_source_are_noticed(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("X", X.shape, X.dtype, chunks=(P, 1))
        with pytest.warns(UserWarning, match=rf"'a.h5'.*{N} of {N} chunks are not stored"):
            open_source(virtual_dataset(tmp_path / "x.h5", "a.h5"), virtual=True)

    def test_other_files_have_none(self, tmp_path):
        assert_refused(STORES["npy"](tmp_path, X), "virtual=True is for HDF5 files", virtual=True)
        path = hdf5(tmp_path / "a.h5", X=X)
        np.testing.assert_array_equal(open_source(path, virtual=True).read_slice(0, P), X)


def test_which_files_are_read_in_blocks(tmp_path, monkeypatch):
    small = npy(tmp_path / "x.npy", X)
    assert all(should_read_in_blocks(tmp_path / name) for name in ("a.zarr", "a.h5", "a.h5ad"))
    assert not any(should_read_in_blocks(tmp_path / name) for name in ("a.csv", "x.npy"))
    assert should_read_in_blocks(small, "1MB")
    monkeypatch.setattr("gpower._utils.memory.get_free_memory", lambda: 4 * small.stat().st_size - 8)
    assert should_read_in_blocks(small)


def test_objects_that_are_not_on_disk_are_refused():
    for other in (X, sp.csr_array(COUNTS), [[1.0]], None, 3):
        assert open_source(other) is None


# --- the cache -----------------------------------------------------------------------------------------------------


class TestCache:
    @pytest.mark.parametrize(
        ("name", "dtype"),
        [
            *((name, np.float64) for name in STORES if not name.startswith("npy")),
            *((name, dtype) for name in ("zarr 3, both", "h5ad, CSR") for dtype in (np.float32, np.int32)),
        ],
    )
    def test_the_cache_contains_the_matrix(self, tmp_path, name, dtype):
        A = np.round(COUNTS if name in SPARSE else X * 10).astype(dtype)
        store = open_source(STORES[name](tmp_path, A))
        cached = cache_store(store, tmp_path / "cache")
        assert cached.is_decoded or cached.is_sparse
        for name in ("axis", "shape", "is_sparse", "feature_names"):
            assert getattr(cached, name) == getattr(store, name)
        np.testing.assert_array_equal(read_all_ways(StreamedMatrix(cached, LIMIT)), A)

    def test_a_store_is_decoded_once(self, tmp_path):
        store, calls = make_counting_store(X)
        cache_store(store, tmp_path)
        assert (0, P) in calls
        calls.clear()
        again = cache_store(store, tmp_path)
        assert set(calls) == {(0, 16), (P - 16, P)}  # the reads of the fingerprint
        np.testing.assert_array_equal(again.read_slice(0, P), X)
        calls.clear()
        GPower(1, cardinality=5, memory_limit=LIMIT).fit(again)
        assert not calls

    def test_a_store_that_changed_is_decoded_again(self, tmp_path):
        path = zarr_array(tmp_path / "x.zarr", X, (100, N), 3)
        before = cache_store(path, tmp_path / "cache")
        zarr.open(str(path))[:] = X + np.eye(P, N)
        after = cache_store(path, tmp_path / "cache")
        np.testing.assert_array_equal(before.read_slice(0, P), X)
        np.testing.assert_array_equal(after.read_slice(0, P), X + np.eye(P, N))

    def test_two_arrays_of_a_file_have_separate_caches(self, tmp_path):
        path = hdf5(tmp_path / "x.h5", {"chunks": (5, 5)}, a=X, b=X[:, ::-1])
        for key, A in (("a", X), ("b", X[:, ::-1])):
            np.testing.assert_array_equal(cache_store(path, tmp_path / "cache", key).read_slice(0, P), A)

    @pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "forget"])
    def test_a_damaged_copy_is_written_again(self, tmp_path, damage):
        store, calls = make_counting_store(X)
        cache_store(store, tmp_path)
        (copy,) = tmp_path.glob("*/X.npy")
        content = bytearray(copy.read_bytes())
        content[-1] ^= 1
        if damage == "remove":
            copy.unlink()
        elif damage == "forget":
            (copy.parent / "checksums.json").unlink()
        else:
            copy.write_bytes(content if damage == "flip" else content[: len(content) // 2])
        calls.clear()
        np.testing.assert_array_equal(cache_store(store, tmp_path).read_slice(0, P), X)
        assert (0, P) in calls
        assert [path.name for path in tmp_path.iterdir()] == [copy.parent.name]

    def test_two_fits_that_write_the_same_copy_at_once(self, tmp_path):
        barrier = threading.Barrier(2)

        def read(lo, hi):
            if hi - lo > 16:
                barrier.wait(timeout=60)  # both are decoding
            return X[lo:hi]

        def decode():
            return cache_store(MatrixSource("x", X.shape, X.dtype, read), tmp_path).read_slice(0, P)

        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda _: decode(), range(2)))
        np.testing.assert_array_equal(results, [X, X])
        assert len(list(tmp_path.iterdir())) == 1

    def test_plain_numbers_are_left_where_they_are(self, tmp_path):
        path = npy(tmp_path / "x.npy", X)
        cache_store(path, tmp_path / "cache")
        assert not (tmp_path / "cache").exists()

    def test_an_array_in_memory_is_refused(self, tmp_path):
        with pytest.raises(StoreError, match="A ndarray is not a store on disk"):
            cache_store(X, tmp_path)

    def test_a_reader_that_fails_leaves_nothing_behind(self, tmp_path):
        def read(lo, hi):
            if hi - lo > 16:
                raise OSError("bad sector")
            return X[lo:hi]

        with pytest.raises(StoreError, match="bad sector"):
            cache_store(MatrixSource("x", X.shape, X.dtype, read), tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_too_small_a_disk_is_reported_before_the_work(self, tmp_path, monkeypatch):
        usage = shutil.disk_usage(tmp_path)._replace(free=1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        store, calls = make_counting_store(X)
        with pytest.raises(StoreError, match=r"takes 0\.00048 GB as plain numbers, and only 1e-06 GB are free"):
            cache_store(store, tmp_path)
        assert (0, P) not in calls
