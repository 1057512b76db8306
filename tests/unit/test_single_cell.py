"""Sparse components of an AnnData object with the interface of scanpy.pp.pca, for every kind of matrix."""

import anndata
import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from gpower import GPower
from gpower.estimators.single_cell import sparse_pca
from gpower.io.stores.matrix_source import StoreError
from gpower.io.stores.open import read_annotation_column

P, N = 150, 40
rng = np.random.default_rng(0)
LOADINGS = np.zeros((2, N))
LOADINGS[0, :8], LOADINGS[1, 15:21] = 0.9, 0.8
COUNTS = np.log1p(rng.poisson(np.exp(rng.standard_normal((P, 2)) @ LOADINGS))).astype(np.float32)
CHOSEN = np.zeros(N, bool)
CHOSEN[[0, 1, 2, 3, 4, 15, 16, 17, 18, 30, 31]] = True

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:anndata"),
    pytest.mark.filterwarnings("ignore:.*[Zz]arr.*"),
]


def cells(form="dense", **options):
    X = {"dense": np.asarray, "csr": sp.csr_matrix, "csc": sp.csc_matrix}[form](COUNTS)
    adata = anndata.AnnData(X.copy(), **options)
    adata.var_names = [f"gene {j}" for j in range(N)]
    return adata


def backed(tmp_path, form):
    cells(form).write_h5ad(tmp_path / "cells.h5ad")
    return anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")


def dask_cells(form):
    X = da.from_array(COUNTS, chunks=(50, N))
    return anndata.AnnData(X if form == "dense" else X.map_blocks(sp.csr_matrix))


def reference(genes=slice(None), **options):
    return GPower(2, cardinality=5, random_state=0, **options).fit(COUNTS[:, genes])


def assert_stored(adata, model, genes=slice(None), keys=("X_spca", "sPCs", "spca"), atol=1e-5):
    in_obsm, in_varm, in_uns = keys
    scores = adata.obsm[in_obsm]
    scores = scores.compute() if hasattr(scores, "compute") else scores
    np.testing.assert_allclose(scores, model.transform(COUNTS[:, genes]), atol=atol)
    loadings = np.zeros((N, 2))
    loadings[genes] = model.components_.T
    np.testing.assert_allclose(adata.varm[in_varm], loadings, atol=atol)
    np.testing.assert_allclose(adata.uns[in_uns]["variance"], model.explained_variance_, rtol=1e-4)
    np.testing.assert_allclose(adata.uns[in_uns]["variance_ratio"], model.explained_variance_ratio_, rtol=1e-4)
    np.testing.assert_array_equal(adata.uns[in_uns]["n_nonzero"], [5, 5])
    assert adata.uns[in_uns]["converged"].all()


IN_ONE_PIECE = [f"{kind} {form}" for kind in ("memory", "backed") for form in ("dense", "csr", "csc")]


def open_cells(where, tmp_path):
    """Return the cells in memory, backed by a file or in Dask, with a matrix of some format."""
    kind, form = where.split()
    return cells(form) if kind == "memory" else backed(tmp_path, form) if kind == "backed" else dask_cells(form)


@pytest.mark.parametrize("where", [*IN_ONE_PIECE, "dask dense", "dask csr"])
def test_scores_and_loadings_are_stored_for_every_kind_of_matrix(tmp_path, where):
    adata = open_cells(where, tmp_path)
    assert sparse_pca(adata, 2, cardinality=5, memory_limit=20_000 if "backed" in where else None) is None
    assert adata.isbacked == ("backed" in where)
    assert type(adata.obsm["X_spca"]).__module__.startswith("dask") == ("dask" in where)  # Dask stays lazy
    assert isinstance(adata.varm["sPCs"], np.ndarray)
    assert adata.obsm["X_spca"].dtype == np.float32
    assert_stored(adata, reference())


@pytest.mark.parametrize("where", ["memory dense", "backed csr", "backed csc", "backed dense", "dask csr"])
@pytest.mark.parametrize("how", ["array", "column"])
def test_genes_left_out_have_zero_loadings(tmp_path, where, how):
    adata, mask = open_cells(where, tmp_path), CHOSEN
    if how == "column":
        adata.var["mine"], mask = CHOSEN, "mine"
    sparse_pca(adata, 2, cardinality=5, mask_var=mask)
    assert_stored(adata, reference(CHOSEN), CHOSEN)
    assert not np.any(adata.varm["sPCs"][~CHOSEN])


def test_highly_variable_genes_are_the_default():
    adata = cells()
    adata.var["highly_variable"] = CHOSEN
    sparse_pca(adata, 2, cardinality=5)
    assert_stored(adata, reference(CHOSEN), CHOSEN)
    assert adata.uns["spca"]["params"]["mask_var"] == "highly_variable"
    sparse_pca(adata, 2, cardinality=5, mask_var=None)
    assert_stored(adata, reference())
    assert "mask_var" not in adata.uns["spca"]["params"]


@pytest.mark.parametrize("where", ["memory csr", "backed csr"])
def test_a_copy_leaves_the_object_alone_and_one_key_names_all_three(tmp_path, where):
    adata = open_cells(where, tmp_path)
    before = adata.X[:]
    changed = sparse_pca(adata, 2, cardinality=5, copy=True, key_added="mine")
    assert (before != adata.X[:]).nnz == (before != changed.X).nnz == 0
    assert not adata.obsm
    assert not adata.uns
    assert not changed.isbacked
    assert_stored(changed, reference(), keys=("mine", "mine", "mine"))
    assert "X_spca" not in changed.obsm


def test_a_layer_or_an_embedding_is_fitted():
    adata = anndata.AnnData(np.zeros_like(COUNTS), layers={"log": COUNTS}, obsm={"other": COUNTS[:, :12]})
    sparse_pca(adata, 2, cardinality=5, layer="log")
    assert_stored(adata, reference())
    assert adata.uns["spca"]["params"]["layer"] == "log"
    sparse_pca(adata, 2, cardinality=5, obsm="other", key_added="second")
    np.testing.assert_allclose(adata.obsm["second"], reference(slice(12)).transform(COUNTS[:, :12]), atol=1e-5)
    assert "second" not in adata.varm
    assert adata.uns["second"]["params"]["obsm"] == "other"


def test_centring_can_be_left_out():
    adata = cells("csr")
    sparse_pca(adata, 2, cardinality=5, zero_center=False, deflation="schur")
    assert_stored(adata, reference(center=False, deflation="schur"))
    assert not adata.uns["spca"]["params"]["zero_center"]


def test_a_view_becomes_an_object_of_its_own():
    whole = cells()
    view = whole[10:, :]
    with pytest.warns(anndata.ImplicitModificationWarning):
        sparse_pca(view, 2, cardinality=5)
    assert view.obsm["X_spca"].shape == (P - 10, 2)
    assert not whole.obsm


@pytest.mark.parametrize("form", ["h5ad", "zarr"])
@pytest.mark.parametrize("where", ["memory csr", "backed csr", "dask csr"])
def test_results_survive_the_disk(tmp_path, form, where):
    adata = open_cells(where, tmp_path)
    sparse_pca(adata, 2, cardinality=[6, 4], mask_var=CHOSEN)
    written = adata.to_memory() if adata.isbacked else adata
    getattr(written, f"write_{form}")(tmp_path / f"out.{form}")
    again = (anndata.read_h5ad if form == "h5ad" else anndata.read_zarr)(tmp_path / f"out.{form}")
    np.testing.assert_array_equal(np.asarray(again.obsm["X_spca"]), np.asarray(adata.obsm["X_spca"]))
    np.testing.assert_array_equal(again.varm["sPCs"], adata.varm["sPCs"])
    uns = again.uns["spca"]
    np.testing.assert_array_equal(uns["params"]["cardinality"], [6, 4])
    np.testing.assert_array_equal(uns["n_nonzero"], [6, 4])
    assert uns["params"]["penalty"] == "l0"


def test_as_many_components_as_there_are_genes_or_ten():
    adata = cells()
    sparse_pca(adata, None, cardinality=3)
    assert adata.obsm["X_spca"].shape == (P, 10)
    few = cells()[:, :4].copy()
    sparse_pca(few, cardinality=1)
    assert few.obsm["X_spca"].shape == (P, 4)


def test_the_model_can_be_returned_and_certificates_are_stored():
    adata = cells()
    model = sparse_pca(adata, 2, cardinality=5, mask_var=CHOSEN, certify=True, return_model=True)
    np.testing.assert_allclose(model.transform(COUNTS[:, CHOSEN]), adata.obsm["X_spca"], atol=1e-5)
    np.testing.assert_array_equal(adata.uns["spca"]["upper_bound"], model.upper_bound_)
    np.testing.assert_array_equal(adata.uns["spca"]["optimality_ratio"], model.optimality_ratio_)


class TestErrors:
    def test_objects_without_a_matrix_are_refused(self):
        with pytest.raises(TypeError, match="takes an AnnData object, not ndarray; use GPower for a matrix"):
            sparse_pca(COUNTS)
        with pytest.raises(ValueError, match=r"adata\.X is None"):
            sparse_pca(anndata.AnnData(shape=(5, 4)))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"layer": "missing"}, r"layer='missing' is not there; adata has \['own'\]"),
            ({"obsm": "missing"}, r"obsm='missing' is not there; adata has \['own'\]"),
            ({"mask_var": "nothing"}, "is not a column of adata.var"),
            ({"mask_var": np.ones(3, bool)}, "a true or false for each of the 40 genes"),
            ({"mask_var": np.ones(N)}, "a true or false for each of the 40 genes"),
            ({"mask_var": np.zeros(N, bool)}, "mask_var leaves no gene"),
            ({"layer": "a", "obsm": "b"}, "layer and obsm both name a matrix"),
            ({"obsm": "own", "mask_var": CHOSEN}, "mask_var chooses genes, and obsm='own' has none"),
            ({"copy": True, "return_model": True}, "ask for one of them"),
        ],
    )
    def test_options_that_choose_nothing_or_exclude_each_other_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            sparse_pca(cells(layers={"own": COUNTS}, obsm={"own": COUNTS}), 2, **options)

    def test_nothing_is_stored_by_a_fit_that_fails(self):
        adata = cells()
        with pytest.raises(ValueError, match="cardinality"):
            sparse_pca(adata, 2, cardinality=-1)
        assert not adata.obsm
        assert not adata.uns


class TestLabelsInAFile:
    LABELS = ("a", "a", "b", "b", None, "c", "c", "c")

    def write(self, path, labels):
        cells = anndata.AnnData(np.zeros((20, 8), np.float32))
        cells.var["grp"] = labels
        cells.write_h5ad(path)
        return path

    @pytest.mark.parametrize(
        "values",
        [
            pd.array([1, 0, 1, 0, None, 1, 1, 1], dtype="Int64"),
            pd.array([1, 0, 1, 0, None, 1, 1, 1], dtype="boolean"),
            np.array([1.0, 0, 1, 0, np.nan, 1, 1, 1]),
        ],
    )
    def test_missing_numbers_are_no_label(self, tmp_path, values):
        path = self.write(tmp_path / "x.h5ad", values)
        labels = read_annotation_column(path, "var", "grp")
        assert [j for j, label in enumerate(labels) if label is None] == [4]
        assert len(set(labels)) == 3

    @pytest.mark.parametrize("as_reference", [False, True], ids=["group", "early anndata"])
    @pytest.mark.parametrize(("code", "expected"), [(-1, None), (1, "b"), (-2, ...), (99, ...)])
    def test_a_code_outside_the_categories_is_an_error(self, tmp_path, as_reference, code, expected):
        path = self.write(tmp_path / "x.h5ad", pd.Categorical(self.LABELS))
        with h5py.File(path, "r+") as file:
            codes = file["var/grp/codes"][:]
            codes[0] = code
            file["var/grp/codes"][:] = codes
            if as_reference:  # as anndata wrote it before 0.8
                file["var/__categories/grp"] = file["var/grp/categories"]
                del file["var/grp"]
                file["var/grp"] = codes
                file["var/grp"].attrs["categories"] = file["var/__categories/grp"].ref
        if expected is ...:
            with pytest.raises(StoreError, match=rf"x.h5ad, var/grp: code {code} is not one of the 3 categories"):
                read_annotation_column(path, "var", "grp")
        else:
            assert read_annotation_column(path, "var", "grp") == [expected, *self.LABELS[1:]]

    @pytest.mark.parametrize("content", ["an array", "an empty group", "a group"])
    def test_what_is_no_column_is_refused(self, tmp_path, content):
        path = self.write(tmp_path / "x.h5ad", pd.Categorical(self.LABELS))
        with h5py.File(path, "r+") as file:
            del file["var"]
            if content == "an array":
                file["var"] = np.zeros(8)
            else:
                file.create_group("var/grp" if content == "a group" else "var")
        with pytest.raises(StoreError, match=r"x\.h5ad"):
            read_annotation_column(path, "var", "grp")


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_batches_and_covariates_are_columns_of_obs(form, tmp_path):
    obs = {
        "sample": pd.Categorical(["a", "b", "c"] * 50),
        "mt": np.random.default_rng(1).uniform(size=P),
        "run": [1] * P,
    }
    adata = cells(form, obs=pd.DataFrame(obs, index=[f"cell {i}" for i in range(P)]))
    sparse_pca(adata, 2, cardinality=5, batch_key="sample", covariates=["mt"])
    known = {"covariates": {"mt": obs["mt"]}, "batch": obs["sample"]}
    expected = GPower(2, cardinality=5, random_state=0).fit(COUNTS, **known)
    np.testing.assert_allclose(adata.varm["sPCs"], expected.components_.T, atol=1e-5)
    np.testing.assert_allclose(adata.obsm["X_spca"], expected.transform(COUNTS, **known), atol=1e-4)
    assert adata.uns["spca"]["covariate_variance_ratio"] == pytest.approx(expected.covariate_variance_ratio_, rel=1e-5)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    params = anndata.read_h5ad(tmp_path / "cells.h5ad").uns["spca"]["params"]
    assert params["batch_key"] == "sample"
    assert list(params["covariates"]) == ["mt"]
    with pytest.raises(ValueError, match=r"batch_key: 'plate' is not a column of adata.obs; it has .'sample', 'mt'"):
        sparse_pca(adata, 2, cardinality=5, batch_key="plate")
