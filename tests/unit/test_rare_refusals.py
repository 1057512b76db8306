"""Refusals that are rarely met: each ends in a sentence that says what was seen and what to do."""

import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import gpower._utils.backends
from gpower import GPower, best_subset, certify, sparsity_path, stability_selection
from gpower._utils.backends import to_device
from gpower.analysis.enrichment import enrich
from gpower.baselines import Greedy
from gpower.certificates.bounds import semidefinite_shift
from gpower.datasets import TableError, read_table
from gpower.io.model_file import ModelFileError
from gpower.io.stores.npy import read_npz
from gpower.io.stores.source import StoreError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 6))


def test_a_backward_search_of_many_variables_is_refused():
    with pytest.raises(ValueError, match=r"backward=True removes variables .* n_features=1001; use it with up to 1000"):
        Greedy(1, cardinality=2, backward=True).fit(RNG.standard_normal((5, 1001)))


def test_a_matrix_with_negative_eigenvalues_has_no_bounds():
    with pytest.raises(ValueError, match="matrix of 2 variables is not positive semidefinite, so it is no covariance"):
        semidefinite_shift(np.array([[1.0, 3.0], [3.0, 1.0]]))


@pytest.mark.parametrize(
    ("constant", "covariance", "told"),
    [
        (np.ones((5, 3)), None, "Every column of X is constant: no component explains anything"),
        (np.zeros((3, 3)), "precomputed", "The covariance is zero: no component explains anything"),
    ],
)
def test_nothing_to_explain_is_nothing_to_certify(constant, covariance, told):
    with pytest.raises(ValueError, match=told):
        certify(np.eye(3)[:1], constant, covariance=covariance)
    with pytest.raises(ValueError, match=told):
        best_subset(constant, cardinality=1, covariance=covariance)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("%%MatrixMarket vector\n1 1\n1\n", "its first line is not %%MatrixMarket matrix, a format"),
        ("%%MatrixMarket matrix array real general\n1 1\n" + 300 * "1", "a line has no end"),
    ],
)
def test_a_matrix_market_file_of_another_make(content, told, tmp_path, monkeypatch):
    monkeypatch.setattr("gpower.io.tables.matrix_market._CHUNK_BYTES", 64)  # bytes that a line may have
    (tmp_path / "x.mtx").write_text(content)
    with pytest.raises(TableError, match=f"x.mtx.*{told}"):
        read_table(tmp_path / "x.mtx")


def test_cupy_without_a_gpu(monkeypatch):
    monkeypatch.setattr(gpower._utils.backends, "_import_cupy", lambda: SimpleNamespace(is_available=lambda: False))
    with pytest.raises(ValueError, match="CuPy finds no GPU on this machine; leave device at cpu"):
        to_device(X, "cuda")


def test_loadings_with_holes_name_no_genes():
    with pytest.raises(ValueError, match="The loadings contain NaN or infinity; fit the model again without them"):
        enrich(np.array([[0.0, np.nan]]), {"set": {"A"}}, genes=["A", "B"])


def test_a_path_of_cardinalities_has_no_gamma():
    path = sparsity_path(X, cardinalities=[1, 2])
    with pytest.raises(ValueError, match=r"This path runs over cardinalities; use at\(cardinality=...\)"):
        path.at(gamma=0.1)


@pytest.mark.parametrize("change", [-8, 8])
def test_an_array_of_another_length_than_it_says(change, tmp_path):
    np.save(tmp_path / "whole.npy", X)
    content = (tmp_path / "whole.npy").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(StoreError, match=r"x.npz: this is not a whole .npz archive of numbers"):
        read_npz(tmp_path / "x.npz")


def test_positive_loadings_with_a_constraint_share_nothing():
    with pytest.raises(ValueError, match=r"positive=True with constraint='orthogonal': .* use constraint=\"disjoint\""):
        GPower(2, cardinality=2, positive=True, constraint="orthogonal").fit(X)


def test_a_file_that_is_no_archive_is_no_model(tmp_path):
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(ModelFileError, match=r"truncated or not a gpower model .*; write one with model.save\(path\)"):
        GPower.load(tmp_path / "model.npz")


def test_a_table_is_no_model_either(tmp_path):
    (tmp_path / "genes.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match=r"not a gpower model but some other file; give the model.npz that gpower"):
        GPower.load(tmp_path / "genes.csv")


def test_the_data_of_stability_come_first():
    told = r"^model is of type ndarray; the data come first: stability_selection\(X, model\)\.$"
    with pytest.raises(TypeError, match=told):
        stability_selection(GPower(2, cardinality=2).fit(X), X)


def test_complex_numbers_are_refused_without_showing_all_of_them():
    with pytest.raises(ValueError, match=r"^Complex data not supported: give real numbers, such as X.real or .*\.$"):
        GPower(2, cardinality=2).fit(X + 1j)


def test_a_mask_without_genes():
    anndata = pytest.importorskip("anndata")
    from gpower.estimators.single_cell import sparse_pca

    cells = anndata.AnnData(X.astype(np.float32))
    with pytest.raises(ValueError, match="mask_var leaves no gene"):
        sparse_pca(cells, n_comps=1, cardinality=2, mask_var=np.zeros(6, bool))
