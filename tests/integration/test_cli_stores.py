"""``gpower fit`` on stores read in blocks gives the same components; a broken store gives a one-line error."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from tests.command_line import assert_refused
from tests.seeds import seeds

from gpower import GPower, GPowerCV

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
    adata.var_names = NAMES
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
def test_components_are_those_of_the_array(gpower, tmp_path, name):
    A = COUNTS if name == "h5ad" else X
    found = read_components(gpower, STORES[name](tmp_path), "-m", 2, "-k", 6, "--memory", "300KB")
    np.testing.assert_allclose(found, GPower(2, cardinality=6).fit(A).components_, atol=1e-8)


@cache
def search_in_memory(is_counts):
    return GPowerCV(2, cv=3).fit(COUNTS if is_counts else X)


@pytest.mark.parametrize("memory", ["400KB", "40MB"], ids=["in blocks", "in memory"])
@pytest.mark.parametrize("name", seeds(sorted(STORES, key=lambda name: name not in ("npy", "h5ad")), fast=2))
def test_numbers_are_chosen_as_in_memory(gpower, tmp_path, name, memory):
    result = gpower("fit", STORES[name](tmp_path), "-k", "auto", "--folds", 3, "--memory", memory, "--json")
    expected = search_in_memory(name == "h5ad")
    np.testing.assert_allclose(json.loads(result.stdout)["components_"], expected.components_, atol=1e-8)
    choices = re.search(r"numbers? of variables, (.*?), w\w+ chosen by cross-validation in 3 folds", result.stderr)[1]
    numbers = [int(number) for number in re.findall(r"(\d+) \(", choices)]
    assert numbers == expected.best_params_["cardinality"]


@pytest.mark.parametrize("name", ["zarr", "HDF5", "h5ad", "Parquet"])
def test_a_store_is_decoded_once(gpower, tmp_path, name):
    path, folder = STORES[name](tmp_path), tmp_path / "cache"
    expected = read_components(gpower, path, "-k", 6, "--memory", "300KB")
    for _ in range(2):
        found = read_components(gpower, path, "-k", 6, "--memory", "300KB", "--cache", folder)
        np.testing.assert_allclose(found, expected, atol=1e-10)
        assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("name", STORES)
def test_results_are_written(gpower, tmp_path, name):
    path, out = STORES[name](tmp_path), tmp_path / "out"
    result = gpower.succeed("fit", path, "-m", 2, "-k", 6, "--memory", "300KB", "-o", out)
    model = GPower.load(out / "model.npz")
    A = COUNTS if name == "h5ad" else X
    scores = np.loadtxt(out / "scores.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    np.testing.assert_allclose(scores, (A - A.mean(axis=0)) @ model.components_.T, rtol=1e-4, atol=1e-4)
    assert "300" in result.stdout
    if name in ("h5ad", "Parquet"):
        assert "gene" in result.stdout


def test_one_of_several_arrays(gpower, tmp_path):
    assert read_components(gpower, hdf5(tmp_path), "--key", "half", "-k", 6).shape == (2, N // 2)


def test_a_virtual_dataset(gpower, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("a.h5", "X", X.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
    assert_refused(gpower("fit", tmp_path / "x.h5"), "it is a virtual dataset", "read it with --virtual")
    found = gpower.read_json("fit", tmp_path / "x.h5", "-k", 6, "--virtual")["components_"]
    np.testing.assert_allclose(found, GPower(2, cardinality=6).fit(X).components_, atol=1e-8)
    found = gpower("fit", tmp_path / "x.h5", "--virtual", "--scheduler", "tcp://127.0.0.1:9")
    assert_refused(found, "--virtual is for this machine")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    assert_refused(gpower("fit", tmp_path / "x.csv", "--virtual"), "--virtual is for HDF5 files")


def test_a_small_file_is_read_into_memory(gpower, tmp_path):
    found = read_components(gpower, npy(tmp_path), "-k", 6)
    np.testing.assert_allclose(found, GPower(2, cardinality=6).fit(X).components_, atol=1e-10)


def npy_cut_short(folder):
    os.truncate(npy(folder), 5000)
    return folder / "x.npy"


def npy_with_a_missing_value(folder):
    A = np.tile(X, (10, 1))
    A[2777, 13] = np.nan
    np.save(folder / "x.npy", A)
    return folder / "x.npy"


class TestRefused:
    @pytest.mark.parametrize(
        ("make", "flags", "words"),
        [
            (npy_cut_short, "--memory 1MB", ["x.npy: this is not a whole .npy file"]),
            (npy_with_a_missing_value, "--memory 200KB", ["first in row 2777 (counted from 0), column 13"]),
            (npy, "--cache .", ["--cache is for stores that are read in blocks"]),
            (zarr_store, "--transpose", ["a store is read in blocks as it is; --transpose does not work on it"]),
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
    def test_flags_and_stores_that_do_not_go_together(self, gpower, tmp_path, make, flags, words):
        assert_refused(gpower("fit", make(tmp_path), *flags.split()), *words)

    def test_another_fit_of_the_same_checkpoint(self, gpower, tmp_path):
        path, checkpoint = npy(tmp_path), tmp_path / "fit.npz"
        gpower.succeed("fit", path, "-k", 6, "--memory", "1MB", "--checkpoint", checkpoint)
        found = gpower("fit", path, "-k", 7, "--memory", "1MB", "--checkpoint", checkpoint, "--resume")
        assert_refused(found, "is a checkpoint of other data or other parameters")


class TestCheckpoint:
    def test_a_fit_is_resumed(self, gpower, tmp_path):
        path, checkpoint = npy(tmp_path), tmp_path / "fit.npz"
        flags = ["-m", 3, "-k", 6, "--memory", "1MB", "--checkpoint", checkpoint]
        first = read_components(gpower, path, *flags)
        np.testing.assert_array_equal(first, read_components(gpower, path, *flags, "--resume"))

    def test_an_interrupted_fit_can_be_resumed(self, gpower, tmp_path):
        """Ctrl-C after the first component gives exit code 130 and a valid checkpoint."""
        A = rng.standard_normal((400, 20_000))
        np.save(tmp_path / "x.npy", A)
        checkpoint = tmp_path / "fit.npz"
        options = ["-m", "40", "-k", "6", "--memory", "4MB", "--checkpoint", str(checkpoint)]
        command = [sys.executable, "-m", "gpower", "fit", str(tmp_path / "x.npy"), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
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
            flags = ["-k", 6, "--json", "-o", tmp_path / "out", "--scheduler", cluster.scheduler_address]
            found = gpower("fit", zarr_store(tmp_path), *flags)
        expected = GPower(2, cardinality=6).fit(X)
        np.testing.assert_allclose(json.loads(found.stdout)["components_"], expected.components_, atol=1e-8)
        scores = np.loadtxt(tmp_path / "out" / "scores.csv", delimiter=",", skiprows=1, usecols=(1, 2))
        np.testing.assert_allclose(scores, expected.transform(X), atol=1e-8)
        with pytest.raises(ValueError, match="No global client found"):
            distributed.get_client()

    def test_an_unreachable_cluster_is_reported(self, gpower, tmp_path, monkeypatch):
        pytest.importorskip("distributed")
        monkeypatch.setattr("gpower.operators.storage.dask_client.CONNECT_TIMEOUT_SECONDS", 0.5)
        found = gpower("fit", zarr_store(tmp_path), "--scheduler", "tcp://127.0.0.1:9")
        assert_refused(found, "No Dask scheduler answers at tcp://127.0.0.1:9")

    def test_a_table_is_no_store(self, gpower, tmp_path):
        pytest.importorskip("distributed")
        (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
        found = gpower("fit", tmp_path / "x.csv", "--scheduler", "tcp://127.0.0.1:9")
        assert_refused(found, "a matrix on disk ends in")


def test_scores_carry_the_names_of_the_cells(gpower, tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32))
    adata.obs_names, adata.var_names = [f"cell{i}" for i in range(12)], [f"gene{j}" for j in range(6)]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    gpower.succeed("fit", tmp_path / "cells.h5ad", "-m", 1, "-k", 2, "-o", tmp_path / "out")
    assert (tmp_path / "out" / "scores.csv").read_text().splitlines()[1].startswith("cell0,")


class TestHalfWritten:
    def test_unwritten_chunks_are_reported_once(self, gpower, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("X", X.shape, chunks=(50, N), dtype="f8")[:100] = X[:100]
        result = gpower("fit", tmp_path / "x.h5", "-k", 3, "--json")
        notes = [note for note in json.loads(result.stdout)["notes"] if "chunks are not stored" in note]
        assert notes == [
            f"{tmp_path / 'x.h5'}, X: 4 of 6 chunks are not stored and read as 0.0. That is right if they contain "
            "only this value; otherwise the store is incomplete."
        ]
        assert result.stderr.count("chunks are not stored") == 1

    def test_repeated_names_are_reported(self, gpower, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "x.h5ad", "w") as file:
            file["X"] = X
            file.create_group("var").attrs["_index"] = "names"
            file["var/names"] = ["gene0", *NAMES[:-1]]
        result = gpower("fit", tmp_path / "x.h5ad", "-k", 3, "--json")
        assert json.loads(result.stdout)["feature_names_in_"][:3] == ["gene0", "gene0.1", "gene1"]
        assert "note: several variables are called gene0" in result.stderr
