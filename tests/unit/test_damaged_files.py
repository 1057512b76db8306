"""Damaged or hostile files raise an error that names the file, and never crash."""

import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from contextlib import suppress
from functools import partial

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import zarr
from tests.memory import measure_peak_memory
from tests.tables import dump

from gpower import GPower, GPowerCV, Solver, SparsityPath, sparsity_path
from gpower._utils.memory import get_free_memory
from gpower.cli.tables import InputTable
from gpower.datasets import Table, TableError, read_table
from gpower.io.model_file import ModelFileError
from gpower.io.stores.matrix_source import StoreError
from gpower.io.stores.npy import read_npz
from gpower.io.stores.open import open_source
from gpower.operators import as_operator
from gpower.plotting.style import resolve_variable_names
from gpower.solvers import column_screening

X = np.random.default_rng(0).standard_normal((12, 6))
COUNTS = sp.random(12, 6, 0.4, random_state=0, format="csr")


def damage(path, name, value):
    """Replace an array of an archive by a value, or by that of a function of the array; leave it out if it is None."""
    arrays = dict(np.load(path))
    arrays[name] = value(arrays[name]) if callable(value) else value
    with zipfile.ZipFile(path, "w") as archive:
        for member, array in arrays.items():
            if array is not None:
                archive.writestr(f"{member}.npy", dump(np.save, array))


def header_of(shape, descr="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


MARKET = b"%%MatrixMarket matrix coordinate real general\n"


class TestMatrixMarket:
    """Files that crash SciPy's reader are refused."""

    @pytest.mark.parametrize("matrix", [COUNTS[:5], X[:4]], ids=["sparse", "dense"])
    def test_every_truncation_is_refused(self, tmp_path, matrix):
        path = tmp_path / "x.mtx"
        scipy.io.mmwrite(path, matrix)
        whole = path.read_bytes()
        np.testing.assert_array_equal(read_table(path).X.shape, matrix.shape)
        for end in range(1, len(whole) - 1):
            path.write_bytes(whole[:end])
            last_digits = re.fullmatch(rb"[0-9Ee.-]+\s*", whole[end:])
            with suppress(TableError) if last_digits else pytest.raises(TableError, match=r"x\.mtx"):
                read_table(path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (MARKET + b"3 3 1\n1 1 \x00\n", r"could not convert string '\\x00' to float64 at row 0, column 3"),
            (MARKET + b"3 3 2\n1 1 1\n2 2 1.5E\n", "could not convert string '1.5E' to float64 at row 1, column 3"),
            (MARKET + b"3 3 99999999999\n1 1 1\n", "it has 1 entries, but its size line announces 99999999999"),
            (MARKET + b"0 3 0\n", "'0 3 0' is not the size of a general matrix"),
            (MARKET + b"3 3\n1 1 1\n", "'3 3' is not the size of a general matrix"),
            (
                MARKET + b"3 3 1\n99999999999999999999 1 1\n",
                "could not convert string '99999999999999999999' to int32 at row 0",
            ),
            (MARKET + b"3 3 1\n4 1 1\n", "entry 1 is in row 4, column 1, outside of the matrix of 3 × 3"),
            (MARKET + b"3 3 2\n1 1 1\n1 0 1\n", "entry 2 is in row 1, column 0, outside of the matrix of 3 × 3"),
            (MARKET + b"3 3 2\n1 1 1\n2 2\n", "the dtype passed requires 3 columns but 2 were found at row 2"),
            (MARKET.replace(b"general", b"symmetric") + b"2 3 0\n", "'2 3 0' is not the size of a symmetric matrix"),
            (MARKET, "'' is not the size"),
            (b"%%MatrixMarket matrix array real general\n0 3\n", "'0 3' is not the size"),
            (b"%%MatrixMarket vector\n1 1\n1\n", "its first line is not %%MatrixMarket matrix, a format"),
            (MARKET.replace(b"real", b"complex"), "its first line is not .* a field of real numbers"),
        ],
    )
    def test_malformed_lines_are_named(self, write, content, message):
        for path in write("x.mtx", content), write("x.mtx.gz", gzip.compress(content)):
            with pytest.raises(TableError, match=rf"{path.name}: this is not a whole Matrix Market file: {message}"):
                read_table(path)

    @pytest.mark.parametrize("field", ["real", "integer", "pattern"])
    @pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
    @pytest.mark.parametrize("is_dense", [False, True])
    def test_whole_files_of_all_kinds_are_read_as_by_scipy(self, tmp_path, field, symmetry, is_dense):
        A = sp.csr_array(np.array([[0.0, 2, 0], [0, 0, 3], [1, 0, 0]]))
        A = {"general": A, "symmetric": A + A.T, "skew-symmetric": A - A.T}[symmetry]
        if field == "pattern" and (is_dense or symmetry == "skew-symmetric"):
            return  # no such kind
        path = tmp_path / "x.mtx"
        matrix = A.toarray() if is_dense else A
        scipy.io.mmwrite(path, matrix, field=field, symmetry=symmetry, comment="made up\n\nby hand")
        X, expected = read_table(path).X, scipy.io.mmread(path, spmatrix=False)
        np.testing.assert_array_equal(X if is_dense else X.toarray(), expected if is_dense else expected.toarray())


def replace_first(index):
    """Return a function that replaces the first entry of an array."""
    return lambda array: np.append(index, array[1:])


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *(
            (kind, "row" if kind == "coo" else "indices", replace_first(index))
            for kind in ("csr", "csc", "bsr", "coo")
            for index in (10**6, -1)
        ),
        ("csr", "indptr", np.full(13, 10**6)),  # beyond the entries
    ],
)
def test_a_sparse_archive_with_an_index_out_of_range_is_refused(tmp_path, kind, name, value):
    path = tmp_path / "x.npz"
    sp.save_npz(path, COUNTS.asformat(kind))
    damage(path, name, value)
    with pytest.raises(TableError, match=r"x\.npz: this is not a sparse matrix of SciPy"):
        read_table(path)


class TestNumPy:
    @pytest.mark.parametrize(
        "content",
        [
            header_of((10**6, 10**6)),
            header_of((-1, 3)) + bytes(100),
            header_of((2, 2), "|O") + bytes(100),
            header_of((2, 2)).replace(b"'shape'", b"'shope'") + bytes(100),
            header_of((2, 2)).replace(b"(2, 2)", b"((2,2)") + bytes(100),
            b"\x93NUMPY\x03\x00" + bytes(100),
            b"\x93NUMPY\x01\x00\xff\xff{",
        ],
    )
    def test_headers_with_wrong_sizes_are_refused(self, tmp_path, content):
        path = tmp_path / "x.npy"
        path.write_bytes(content)
        with pytest.raises(TableError, match=r"x\.npy: this is not a whole \.npy file of numbers"):
            read_table(path)
        with pytest.raises(StoreError, match=r"x\.npy: this is not a whole \.npy file of numbers"):
            open_source(path)

    def test_an_archive_that_unpacks_beyond_memory(self, tmp_path, monkeypatch):
        np.savez_compressed(tmp_path / "x.npz", X=np.zeros((1000, 100)))
        monkeypatch.setattr("gpower.io.stores.npy.get_free_memory", lambda: 10**5)
        with pytest.raises(TableError, match=r"it unpacks to 0\.0008 GB, more than the free memory"):
            read_table(tmp_path / "x.npz")

    def test_an_encrypted_archive_is_refused(self, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, X=X)
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\x01\x02") + 8] |= 1
        content[6] |= 1
        path.write_bytes(bytes(content))
        with pytest.raises(TableError, match=r"x\.npz: .*encrypted"):
            read_table(path)

    def test_a_file_larger_than_the_address_space_is_read_in_windows(self, tmp_path):
        path = tmp_path / "x.npy"
        with path.open("wb") as file:
            file.write(header_of((10**6, 2000)))
            file.truncate(file.tell() + 8 * 2 * 10**9)  # 16 GB of zeros, which take no disk space
        code = f"""
import resource
from gpower.io.stores.open import open_source
from gpower.io.stores.matrix_source import read_source_block
from gpower._utils.memory import get_free_memory
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), used + (1 << 28)))
print(get_free_memory() <= 1 << 28)
source = open_source({str(path)!r})
print(source.shape, read_source_block(source, 999_990, 1_000_000).shape)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert result.stdout == "True\n(1000000, 2000) (10, 2000)\n", result.stderr
        assert get_free_memory() > 0


class TestText:
    @pytest.mark.parametrize(
        ("name", "limit", "value", "content", "message"),
        [
            (
                "x.csv.gz",
                "decompression._MAX_LINE_LENGTH",
                1000,
                gzip.compress(b"1" * 5000),
                "has more than 1,000",
            ),
            (
                "x.mtx",
                "decompression._MAX_LINE_LENGTH",
                64,
                MARKET + b"3 3 1\n" + 300 * b"1",
                "has more than 64",
            ),
            ("x.csv", "decompression.MAX_BLANK_LINES", 1000, b"\n" * 5000 + b"1,2\n", "1,000 lines are blank"),
            ("x.csv", "delimited.MAX_BLANK_LINES", 1000, b"#\n" * 5000 + b"1,2\n", "1,000 lines are comments"),
            ("x.csv", "delimited.get_free_memory", lambda: 1000, b"1,2\n" * 500, r"free memory; save it as \.npy"),
            ("x.csv", "delimited.get_free_memory", lambda: 1000, b"1,\n" * 500, r"free memory; save it as \.npy"),
        ],
    )
    def test_text_without_an_end_is_refused(self, write, monkeypatch, name, limit, value, content, message):
        monkeypatch.setattr(f"gpower.io.tables.{limit}", value)
        with pytest.raises(TableError, match=rf"{name}: .*{message}"):
            read_table(write(name, content))

    def test_long_and_odd_cells_are_shortened_and_printable(self, write):
        with pytest.raises(TableError) as result:
            read_table(write("x.csv", f"a\x1b[2J,b\n1,2\n3,\x1b]0;{'x' * 100_000}\n"))
        assert str(result.value).isprintable()
        assert len(str(result.value)) < 700


class TestStores:
    def test_a_dataset_that_was_never_written_is_noticed(self, tmp_path):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("X", X.shape, chunks=(4, 6), dtype="f8")[:4] = X[:4]
            file.create_dataset("plain", X.shape, dtype="f8")
            file["whole"] = X
        with pytest.warns(UserWarning, match="2 of 3 chunks are not stored and read as 0.0"):
            open_source(tmp_path / "x.h5")
        with pytest.warns(UserWarning, match="1 of 1 chunks are not stored"):
            open_source(tmp_path / "x.h5", "plain")
        open_source(tmp_path / "x.h5", "whole")  # without a warning, which would be an error

    def test_chunks_deleted_during_a_fit(self, tmp_path):
        store = zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, chunks=(4, 6), dtype=X.dtype)
        store[:] = X
        chunks = [path for path in (tmp_path / "x.zarr").rglob("*") if path.is_file() and path.name != "zarr.json"]

        def delete(state):
            chunks[-1].unlink(missing_ok=True)

        with pytest.raises(StoreError, match="the store was changed while it was read"):
            GPower(2, cardinality=2, memory_limit=300, solver=Solver("full", callback=delete)).fit(tmp_path / "x.zarr")

    def test_a_repeated_name_leaves_the_other_names(self, tmp_path):
        with h5py.File(tmp_path / "x.h5ad", "w") as file:
            file["X"] = X
            file.create_group("var").attrs["_index"] = "names"
            file["var/names"] = [b"TP53", b"BRCA1", b"TP53", b"\xff", b"MYC", b"KRAS"]
        source = open_source(tmp_path / "x.h5ad")
        assert source.feature_names == ("TP53", "BRCA1", "TP53.1", "\ufffd", "MYC", "KRAS")
        assert source.notes[0].startswith("several variables are called TP53")

    def test_a_text_heap_without_an_end(self, tmp_path):
        """A gap of length zero in the heap of strings makes the HDF5 library loop forever."""
        path = tmp_path / "x.h5ad"
        with h5py.File(path, "w") as file:
            file["X"] = X
            file.create_group("var").attrs["_index"] = "names"
            file["var/names"] = list("abcdef")
        assert open_source(path).feature_names == tuple("abcdef")
        content = bytearray(path.read_bytes())
        place = content.index(b"GCOL") + 16
        while int.from_bytes(content[place : place + 2], "little"):  # past the strings to the gap after them
            place += 16 + 8 * -(-int.from_bytes(content[place + 8 : place + 16], "little") // 8)
        content[place + 8 : place + 16] = bytes(8)
        path.write_bytes(content)
        with pytest.raises(
            StoreError, match=r"x.h5ad: this is not a whole HDF5 file \(the heap of text at byte \d+ is damaged\)"
        ):
            open_source(path)

    @pytest.mark.parametrize("shape", [[0.5, 1], "wide", [-3, 6], []])
    def test_attributes_that_are_no_shape(self, tmp_path, shape):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            for part in ("data", "indices", "indptr"):
                file[f"X/{part}"] = getattr(COUNTS, part)
            file["X"].attrs["shape"] = shape
        with pytest.raises(StoreError, match=r"x\.h5"):
            GPower(1).fit(tmp_path / "x.h5")


def edit_header(**changes):
    """Return a function that changes fields of the header of a model."""
    return lambda header: np.frombuffer(json.dumps(json.loads(header.tobytes()) | changes).encode(), np.uint8)


def resume(path, **options):
    return GPower(2, cardinality=3, checkpoint=path, **options).fit(X)


#: How each file of ours is written and read.
OUR_FILES = {
    "model.npz": (lambda path: GPower(2, cardinality=3).fit(X).save(path), GPower.load),
    "cv.npz": (lambda path: GPowerCV(1, cv=2, cardinalities=[1, 3]).fit(X).save(path), GPowerCV.load),
    "path.npz": (sparsity_path(X, n_components=1, cardinalities=[1, 3, 6]).save, SparsityPath.load),
    "fit.npz": (resume, partial(resume, resume=True)),
}


@pytest.mark.parametrize(
    ("file", "name", "value", "message"),
    [
        *(
            ("model.npz", name, np.zeros(6), "damaged")  # it would overwrite an attribute
            for name in ("__init__", "transform", "__dict__", "_restore", "fit", "components_:x")
        ),
        *(
            ("model.npz", name, value, f"damaged: .*{name}")
            for name in ("components_", "mean_", "scale_", "n_features_in_", "cardinality_", "n_samples_", "overlap_")
            for value in (np.ones(3), np.ones((2, 2, 2)), np.array(["a"]), None)
        ),
        *(
            ("model.npz", "header", edit_header(**change), "damaged")
            for change in (
                {"params": {"self": 1}},
                {"params": [1]},
                {"params": {"no_such": 1}},
                {"version": "1"},
                {"version": None},
            )
        ),
        ("model.npz", "header", np.frombuffer(b"[" * 200_000, np.uint8), "truncated or not a gpower model"),
        *(("model.npz", name, None, f"it has no {name}") for name in ("header", "gamma_", "converged_", "notes_")),
        ("cv.npz", "best_params_:cardinality", None, "damaged: it has no best_params_:"),
        ("path.npz", "indices", np.full(10, 99), "damaged"),
        ("path.npz", "indptr", np.arange(4) * 50, "damaged"),
        ("path.npz", "grid", np.ones(7), "damaged"),
        ("path.npz", "variance", np.ones((3, 3)), "damaged"),
        ("path.npz", "fitted:gamma_", np.ones(1), "damaged"),
        ("path.npz", "fitted:score_covariance_", np.float64(0.5), "damaged"),
        ("path.npz", "common:mean_", np.ones(2), "damaged"),
        ("fit.npz", "0:Z", np.ones((3, 1)), "damaged"),
        ("fit.npz", "0:Z", np.full((X.shape[1], 1), np.nan), "damaged"),
        ("fit.npz", "1:Z", np.full((X.shape[1], 1), 7.0), "damaged"),
        ("fit.npz", "generator", np.ones(5), "damaged"),
        ("fit.npz", "1:gamma", None, "damaged"),
        ("fit.npz", "mean", np.ones(2), "damaged"),
    ],
)
def test_damaged_files_of_ours_are_refused(tmp_path, file, name, value, message):
    write, read = OUR_FILES[file]
    write(tmp_path / file)
    damage(tmp_path / file, name, value)
    with pytest.raises(ModelFileError, match=rf"{file}' is .*{message}"):
        read(tmp_path / file)


def test_an_archive_is_its_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=np.asfortranarray(X), c=np.array(["é", "b"]), d=np.float64(2), e=X[:0])
    np.testing.assert_equal(read_npz(tmp_path / "x.npz"), dict(np.load(tmp_path / "x.npz")))


@pytest.mark.parametrize("change", [-8, 8])
def test_an_array_whose_length_differs_from_its_header_is_refused(change, tmp_path):
    content = dump(np.save, X)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(StoreError, match=r"x.npz: this is not a whole .npz archive of numbers"):
        read_npz(tmp_path / "x.npz")


class TestTinyFilesOfHugeMatrices:
    """A few bytes can announce a sparse matrix of any size; reading them takes less than 0.1 GB."""

    N = 2_000_000_000

    def write_mtx(self, path):
        path.write_text(f"%%MatrixMarket matrix coordinate real general\n2 {self.N} 1\n1 1 1\n")

    def write_npz(self, path):
        data, indices, indptr = np.ones(2), np.arange(2, dtype=np.int32), np.arange(3, dtype=np.int32)
        shape = np.array([2, self.N])
        np.savez(path, format="csr", shape=shape, data=data, indices=indices, indptr=indptr)

    def write_h5(self, path):
        with h5py.File(path, "w") as file:
            file.create_dataset("X", (2, self.N), "f8", chunks=(1, 1000))

    def write_zarr(self, path):
        zarr.create_array(str(path), shape=(2, self.N), chunks=(1, 1000), dtype="f8")

    def write_h5ad(self, path, shape=(2, N), n_entries=2):
        with h5py.File(path, "w") as file:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "shape": shape})
            for name in ("data", "indices"):
                group.create_dataset(name, (n_entries,), "f8" if name == "data" else "i8", chunks=(2,), fillvalue=1)
                group[name][:2] = np.arange(2)
            group["indptr"] = np.array([0, 1, n_entries])

    @pytest.mark.parametrize("suffix", ["mtx", "npz", "h5ad", "h5", "zarr"])
    def test_huge_matrices_are_refused_in_little_memory(self, suffix, tmp_path):
        path = tmp_path / f"x.{suffix}"
        getattr(self, f"write_{suffix}")(path)
        assert path.stat().st_size < 20_000
        announced = r"it announces 2 × 2,000,000,000 numbers, which need at least 400 GB of memory, and stores"

        def fit():
            with pytest.raises(ValueError, match=rf"x\.{suffix}.*: {announced}"):
                GPower(1, memory_limit="100MB").fit(read_table(path).X if suffix in ("mtx", "npz") else path)

        assert measure_peak_memory(fit) < 1e8

    def test_a_shape_beyond_the_memory_that_is_granted(self):
        A = sp.csr_matrix(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 1, 4_999_999])), shape=(2, 5_000_000))
        message = r"X: it announces 2 × 5,000,000 numbers, which need at least 1 GB .* memory_limit grants 0.1 GB"
        with pytest.raises(ValueError, match=message):
            GPower(1, cardinality=1, memory_limit="100MB").fit(A)

    def test_names_that_nobody_asks_for_are_not_written(self, tmp_path):
        table = InputTable(Table(sp.csr_matrix((2, 2_000_000_000)), None, None), tmp_path / "x.mtx")
        names = table.feature_names
        assert (len(names), names[-1], names[:2]) == (2_000_000_000, "x1999999999", ["x0", "x1"])
        assert resolve_variable_names(object(), None, 2_000_000_000)[7] == "x7"

    def test_zero_columns_are_not_scored(self, monkeypatch):
        A = np.zeros((8, 4000))
        A[:, ::2] = np.random.default_rng(0).standard_normal((8, 2000))
        scored, compute = [], column_screening._sum_excess_correlations
        monkeypatch.setattr(
            column_screening,
            "_sum_excess_correlations",
            lambda A, idx, *rest: scored.append(len(idx)) or compute(A, idx, *rest),
        )
        columns = column_screening.screen_columns(as_operator(A)[0], 0.5, np.ones(4000, bool), 10)
        assert scored == [2000]
        assert np.all(columns % 2 == 0)

    def test_entries_that_are_not_stored(self, tmp_path):
        self.write_h5ad(tmp_path / "x.h5ad", (2, 30), 10**9)
        message = r"x\.h5ad, X, data: it announces 8 GB of numbers, and not all are stored"
        with pytest.raises(StoreError, match=message), pytest.warns(UserWarning, match="are not stored"):
            open_source(tmp_path / "x.h5ad")

    def test_pointers_are_counted_before_they_are_read(self, tmp_path):
        self.write_h5ad(tmp_path / "x.h5ad", (2, 30))
        with h5py.File(tmp_path / "x.h5ad", "r+") as file:
            del file["X/indptr"]
            file.create_dataset("X/indptr", (10**7,), "i8", fillvalue=0)
        message = "indptr has 10000000 entries; 3 are needed"
        with pytest.raises(StoreError, match=message), pytest.warns(UserWarning, match="are not stored"):
            open_source(tmp_path / "x.h5ad")

    def test_the_free_memory_is_compared_too(self, tmp_path, monkeypatch):
        self.write_npz(tmp_path / "x.npz")
        damage(tmp_path / "x.npz", "shape", np.array([2, 10_000_000]))
        monkeypatch.setattr("gpower.io.stores.matrix_source._MAX_EXPANSION", 1e12)
        assert read_table(tmp_path / "x.npz").X.nnz == 2
        monkeypatch.setattr("gpower.io.stores.matrix_source.get_free_memory", lambda: 10**9)
        with pytest.raises(TableError, match=r"need at least 2 GB of memory, and 1 GB are free"):
            read_table(tmp_path / "x.npz")
        transposed = read_table(tmp_path / "x.npz", transpose=True)  # many samples take less memory than variables
        assert transposed.X.nnz == 2

    def test_a_large_sparse_matrix_is_not_refused(self, tmp_path):
        rng = np.random.default_rng(0)
        indices = np.zeros(100_000, int), rng.integers(0, 4_000_000, 100_000)
        A = sp.csr_array((np.ones(100_000), indices), (3, 4_000_000))
        sp.save_npz(tmp_path / "x.npz", A)
        assert read_table(tmp_path / "x.npz").X.shape == A.shape
