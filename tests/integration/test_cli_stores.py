"""``gpower fit`` on stores read in blocks gives the same components; a broken store gives a one-line error."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.command_line import assert_refused, write_csv
from tests.polling import wait_until

from gpower import GPower, GPowerCV
from gpower.datasets import read_table

P, N = 300, 50
rng = np.random.default_rng(0)
LOADINGS = np.zeros((2, N))
LOADINGS[0, :6], LOADINGS[1, 20:26] = 2.0, 1.5
X = rng.standard_normal((P, 2)) @ LOADINGS + rng.standard_normal((P, N))
COUNTS = rng.poisson(np.exp(rng.standard_normal((P, 2)) @ LOADINGS / 2 - 1)).astype(np.float64)
NAMES = [f"gene{j}" for j in range(N)]


def npy(folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def zarr_store(folder):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(50, N), dtype=X.dtype)[:] = X
    return folder / "x.zarr"


def hdf5(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(50, 10))
        file.create_dataset("half", data=X[:, : N // 2])
    return folder / "x.h5"


def h5ad(folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(sp.csr_matrix(COUNTS))
    adata.obs_names, adata.var_names = [f"cell{i}" for i in range(P)], NAMES
    adata.write_h5ad(folder / "x.h5ad")
    return folder / "x.h5ad"


def parquet(folder):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    pandas.DataFrame(X, columns=NAMES).to_parquet(folder / "x.parquet", row_group_size=70)
    return folder / "x.parquet"


STORES = {"npy": npy, "zarr": zarr_store, "HDF5": hdf5, "h5ad": h5ad, "Parquet": parquet}


def read_components(gpower, path, *flags):
    """Return the components of ``gpower fit``."""
    return np.array(gpower.read_json("fit", path, *flags)["components_"])


@pytest.mark.parametrize("name", STORES)
def test_components_and_scores_are_those_of_the_array(gpower, tmp_path, name):
    A, out = COUNTS if name == "h5ad" else X, tmp_path / "out"
    found = gpower.read_json("fit", STORES[name](tmp_path), "-m", 2, "-k", 6, "--memory", "300KB", "-o", out)
    expected = GPower(2, cardinality=6).fit(A)
    np.testing.assert_allclose(found["components_"], expected.components_, atol=1e-8)
    np.testing.assert_array_equal(GPower.load(out / "model.npz").components_, found["components_"])
    scores = read_table(out / "scores.csv")
    np.testing.assert_allclose(scores.X, expected.transform(A), rtol=1e-4, atol=1e-4)
    assert scores.sample_names[1] == ("cell1" if name == "h5ad" else "s1")
    assert found["feature_names_in_"][1] == ("gene1" if name in ("h5ad", "Parquet") else "x1")


@pytest.mark.parametrize("memory", ["400KB", "40MB"], ids=["in blocks", "in memory"])
def test_numbers_are_chosen_as_in_memory(gpower, tmp_path, memory):
    result = gpower("fit", npy(tmp_path), "-k", "auto", "--folds", 3, "--memory", memory, "--json")
    expected = GPowerCV(2, cv=3).fit(X)
    np.testing.assert_allclose(json.loads(result.stdout)["components_"], expected.components_, atol=1e-8)
    assert expected.cardinality_choice_ in result.stderr


def test_a_store_is_decoded_once(gpower, tmp_path):
    path, folder = zarr_store(tmp_path), tmp_path / "cache"
    for _ in range(2):
        found = read_components(gpower, path, "-k", 6, "--memory", "300KB", "--cache", folder)
        np.testing.assert_allclose(found, GPower(2, cardinality=6).fit(X).components_, atol=1e-8)
        assert len(list(folder.iterdir())) == 1


def test_one_of_several_arrays(gpower, tmp_path):
    assert read_components(gpower, hdf5(tmp_path), "--key", "half", "-k", 6).shape == (2, N // 2)


def test_a_virtual_dataset(gpower, tmp_path):
    h5py = pytest.importorskip("h5py")
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(hdf5(tmp_path).name, "X", X.shape)
    path = tmp_path / "virtual.h5"
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("X", layout)
    assert_refused(gpower("fit", path), "it is a virtual dataset", "read it with --virtual")
    found = read_components(gpower, path, "-k", 6, "--virtual")
    np.testing.assert_allclose(found, GPower(2, cardinality=6).fit(X).components_, atol=1e-8)
    refused = gpower("fit", path, "--virtual", "--scheduler", "tcp://127.0.0.1:9")
    assert_refused(refused, "--virtual is for this machine")


def text(folder):
    return write_csv(folder / "x.csv", np.eye(3), "abc")


@pytest.mark.parametrize(
    ("make", "flags", "words"),
    [
        (text, "--virtual", ["--virtual is for HDF5 files"]),
        (text, "--scheduler tcp://127.0.0.1:9", ["a matrix on disk ends in"]),
        (npy, "--cache .", ["--cache is for stores that are read in blocks"]),
        (zarr_store, "--transpose", ["a store is read in blocks as it is; --transpose does not work on it"]),
        (zarr_store, "--platform GPL", ["a store is read in blocks as it is; --platform does not work on it"]),
        (zarr_store, "--memory plenty", ["--memory plenty: a number of bytes"]),
        (
            zarr_store,
            "-k auto --memory 100KB",
            ["memory for 16 covariances of 50 variables, 0.00032 GB", "takes 0.00012 GB"],
        ),
        (
            zarr_store,
            "--cache . --scheduler tcp://127.0.0.1:1",
            ["with --scheduler each worker reads the store itself"],
        ),
    ],
)
def test_flags_and_stores_that_do_not_go_together(gpower, tmp_path, make, flags, words):
    assert_refused(gpower("fit", make(tmp_path), *flags.split()), *words)


class TestCheckpoint:
    def test_a_fit_is_resumed(self, gpower, tmp_path):
        path, checkpoint = npy(tmp_path), tmp_path / "fit.npz"
        flags = ["-m", 3, "-k", 6, "--memory", "1MB", "--checkpoint", checkpoint]
        first = read_components(gpower, path, *flags)
        np.testing.assert_array_equal(first, read_components(gpower, path, *flags, "--resume"))

    def test_an_interrupted_fit_can_be_resumed(self, tmp_path):
        """Ctrl-C after the first component gives exit code 130 and a valid checkpoint."""
        np.save(tmp_path / "x.npy", rng.standard_normal((400, 20_000)))
        checkpoint = tmp_path / "fit.npz"
        options = ["-m", "40", "-k", "6", "--memory", "4MB", "--checkpoint", str(checkpoint)]
        command = [sys.executable, "-m", "gpower", "fit", str(tmp_path / "x.npy"), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert wait_until(lambda: checkpoint.exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Interrupted." in errors
        with np.load(checkpoint) as archive:
            assert archive["0:Z"].shape == (20_000, 1)


class TestScheduler:
    def test_a_cluster_does_the_work_and_its_scores_are_written(self, gpower, tmp_path):
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
        ) as cluster:
            flags = ["-k", 6, "-o", tmp_path / "out", "--scheduler", cluster.scheduler_address]
            found = read_components(gpower, zarr_store(tmp_path), *flags)
        expected = GPower(2, cardinality=6).fit(X)
        np.testing.assert_allclose(found, expected.components_, atol=1e-8)
        np.testing.assert_allclose(read_table(tmp_path / "out" / "scores.csv").X, expected.transform(X), atol=1e-8)
        with pytest.raises(ValueError, match="No global client found"):
            distributed.get_client()

    def test_an_unreachable_cluster_is_reported(self, gpower, tmp_path, monkeypatch):
        pytest.importorskip("distributed")
        monkeypatch.setattr("gpower.operators.storage.dask_client.CONNECT_TIMEOUT_SECONDS", 0.5)
        found = gpower("fit", zarr_store(tmp_path), "--scheduler", "tcp://127.0.0.1:9")
        assert_refused(found, "No Dask scheduler answers at tcp://127.0.0.1:9")


def test_unwritten_chunks_are_reported_once(gpower, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("X", X.shape, chunks=(50, N), dtype="f8")[:100] = X[:100]
    result = gpower("fit", tmp_path / "x.h5", "-k", 3)
    assert result.stderr.count("x.h5, X: 4 of 6 chunks are not stored and read as 0.0. That is right if they") == 1
