"""Sparse components of an AnnData object, with the arguments of ``scanpy.pp.pca``. Needs anndata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from gpower._utils.arrays import Array, to_numpy
from gpower._utils.optional import import_optional
from gpower.estimators.gpower import GPower
from gpower.io.stores.open import open_source, select_source_columns
from gpower.operators import as_container
from gpower.operators.storage.dask import is_dask_array

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["sparse_pca"]

_HIGHLY_VARIABLE_COLUMN = "highly_variable"
#: Number of components for ``n_comps=None``.
_DEFAULT_N_COMPS = 10


class _HighlyVariableDefault:
    """Default of `mask_var`: the highly variable genes if they are marked, as in scanpy."""

    def __repr__(self) -> str:
        return repr(_HIGHLY_VARIABLE_COLUMN)


_DEFAULT_MASK = _HighlyVariableDefault()


def sparse_pca(
    adata: AnnData,
    n_comps: int | None = None,
    *,
    cardinality: int | Sequence[int] | None = None,
    layer: str | None = None,
    obsm: str | None = None,
    zero_center: bool = True,
    mask_var: object = _DEFAULT_MASK,
    key_added: str | None = None,
    dtype: DTypeLike = "float32",
    random_state: int | None = 0,
    copy: bool = False,
    return_model: bool = False,
    **options: Any,
) -> AnnData | GPower | None:
    """Find sparse principal components of the cells, each of a few genes, and store them in the AnnData object.

    Parameters
    ----------
    adata : AnnData
        In memory, backed by a file, on a GPU (CuPy arrays and sparse matrices, as rapids-singlecell keeps them), or
        with a Dask array. Counts are usually normalised and logarithmised before.
    n_comps : int, optional
        Number of components; by default 10, or as many as there are genes.
    cardinality : int or sequence of int, optional
        Number of genes in each component. Without it and without ``gamma`` the default penalty is used.
    layer, obsm : str, optional
        Matrix to use instead of ``adata.X``.
    zero_center : bool, default=True
        Subtract the means, without making a sparse matrix dense.
    mask_var : array of bool, str or None
        Genes to use: a mask, a column of ``adata.var``, or None for all; by default ``var["highly_variable"]`` if it
        exists. The other genes get zero loadings.
    key_added : str, optional
        Key under which all results are stored; by default ``obsm["X_spca"]``, ``varm["sPCs"]`` and ``uns["spca"]``.
    dtype : dtype, default="float32"
        Type of the scores.
    random_state : int, default=0
    copy : bool, default=False
        Work on a copy of the object in memory and return it.
    return_model : bool, default=False
        Return the fitted model, whose variables are the genes used.
    **options
        Further parameters of `GPower`. With ``batch_key="sample"`` the cells of each sample, a column of ``adata.obs``,
        are centred by themselves, and with ``covariates=["pct_counts_mt"]`` the linear effect of such columns is
        removed; a sparse matrix stays sparse.

    Returns
    -------
    None, AnnData or GPower
        Sets ``obsm`` (scores, cells × components; lazy for a Dask array, on the GPU if the matrix is), ``varm``
        (loadings, genes × components) and ``uns`` (``params``, ``variance``, ``variance_ratio``, ``n_nonzero``,
        ``converged``; with ``certify=True`` also ``upper_bound`` and ``optimality_ratio``, and with batches or
        covariates ``covariate_variance_ratio``).

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from gpower.estimators.single_cell import sparse_pca
    >>> counts = np.random.default_rng(0).poisson(1.0, (50, 20)).astype("float32")
    >>> adata = anndata.AnnData(counts)
    >>> sparse_pca(adata, n_comps=2, cardinality=5)
    >>> adata.obsm["X_spca"].shape, adata.uns["spca"]["n_nonzero"]
    ((50, 2), array([5, 5]))
    """
    _check_anndata(adata)
    batch_key, covariates = options.pop("batch_key", None), options.pop("covariates", None) or ()
    names = [covariates] if isinstance(covariates, str) else list(covariates)
    if copy and return_model:
        raise ValueError("copy=True returns the object and return_model=True the model; ask for one of them.")
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    X = _select_anndata_matrix(adata, layer, obsm)
    if obsm is not None and mask_var is not _DEFAULT_MASK and mask_var is not None:
        raise ValueError(f"mask_var chooses genes, and obsm={obsm!r} has none; leave one of them out.")
    if mask_var is _DEFAULT_MASK:
        mask_var = _HIGHLY_VARIABLE_COLUMN if obsm is None and _HIGHLY_VARIABLE_COLUMN in adata.var else None
    genes = _select_gene_positions(adata, mask_var)
    used = X if genes is None else _select_gene_columns(X, genes)
    n_comps = min(_DEFAULT_N_COMPS, used.shape[1]) if n_comps is None else n_comps
    model = GPower(n_comps, cardinality=cardinality, center=zero_center, random_state=random_state, **options)
    removed = _select_obs_columns(adata, batch_key, names)
    scores = model.fit(used, **removed).transform(used, **removed)
    in_obsm, in_varm, in_uns = (key_added,) * 3 if key_added is not None else ("X_spca", "sPCs", "spca")
    adata.obsm[in_obsm] = scores.astype(dtype)
    if obsm is None:
        adata.varm[in_varm] = _expand_loadings_to_genes(model, adata.n_vars, genes)
    origin: dict[str, Any] = {"layer": layer, "obsm": obsm, "mask_var": mask_var if isinstance(mask_var, str) else None}
    origin |= {"batch_key": batch_key, "covariates": np.asarray(names) if names else None}
    adata.uns[in_uns] = _build_uns_entry(model, origin)
    return adata if copy else model if return_model else None


def _check_anndata(adata: object) -> None:
    """Raise unless `adata` is an AnnData object."""
    anndata = import_optional("anndata", "single-cell", "AnnData objects need")
    if not isinstance(adata, anndata.AnnData):
        raise TypeError(f"sparse_pca takes an AnnData object, not {type(adata).__name__}; use GPower for a matrix.")


def _select_anndata_matrix(adata: AnnData, layer: str | None, obsm: str | None) -> Any:
    """Return the matrix that `layer` or `obsm` names, by default ``adata.X``."""
    if layer is not None and obsm is not None:
        raise ValueError("layer and obsm both name a matrix; give one of them.")
    if layer is None and obsm is None:
        if adata.X is None:
            raise ValueError("adata.X is None; name a matrix with layer or obsm.")
        return adata.X
    name, key = ("obsm", obsm) if layer is None else ("layer", layer)
    matrices: Any = adata.obsm if layer is None else adata.layers
    if key not in matrices:
        raise ValueError(f"{name}={key!r} is not there; adata has {[k for k in matrices if k is not None]}.")
    return matrices[key]


def _select_obs_columns(adata: AnnData, batch_key: str | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments `covariates` and `batch` of `GPower.fit` from columns of ``adata.obs``; none without any."""
    for argument, name in [*(("covariates", name) for name in names), ("batch_key", batch_key)]:
        if name is not None and name not in adata.obs:
            raise ValueError(f"{argument}: {name!r} is not a column of adata.obs; it has {list(adata.obs)[:8]}.")
    removed: dict[str, Any] = {"covariates": {name: adata.obs[name] for name in names}} if names else {}
    return removed if batch_key is None else removed | {"batch": adata.obs[batch_key]}


def _select_gene_positions(adata: AnnData, mask_var: object) -> Array | None:
    """Return the positions of the genes to use; None stands for all."""
    if mask_var is None:
        return None
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            raise ValueError(f"mask_var={mask_var!r} is not a column of adata.var; it has {list(adata.var)[:8]}.")
        mask_var = adata.var[mask_var].to_numpy()
    mask = np.asarray(mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise ValueError(f"mask_var must hold a true or false for each of the {adata.n_vars} genes, got {mask.shape}.")
    if not mask.any():
        raise ValueError("mask_var leaves no gene.")
    return np.flatnonzero(mask)


def _select_gene_columns(X: Any, genes: Array) -> Any:
    """Return some columns of a matrix in memory, on disk, on a device or in Dask."""
    source = None if is_dask_array(X) else open_source(X)
    if source is not None:
        return select_source_columns(source, genes)
    return X[:, genes] if isinstance(X, np.ndarray) or not as_container(X).is_on_device else as_container(X).take(genes)


def _expand_loadings_to_genes(model: GPower, n_genes: int, genes: Array | None) -> Array:
    """Return the loadings, genes × components, with zeros for genes that were not used."""
    components = to_numpy(model.components_)
    loadings = np.zeros((n_genes, len(components)), components.dtype)
    loadings[slice(None) if genes is None else genes] = components.T
    return loadings


def _build_uns_entry(model: GPower, origin: dict[str, Any]) -> dict[str, object]:
    """Return the parameters and the explained variances under keys in the style of scanpy."""
    sparsity = {"cardinality": model.cardinality, "gamma": model.gamma}
    given = origin | {name: None if value is None else np.asarray(value) for name, value in sparsity.items()}
    params = {"zero_center": bool(model.center), "n_comps": len(model.components_), "penalty": model.penalty}
    further = [*(("upper_bound", "optimality_ratio") if model.certify else ())]
    further += ["covariate_variance_ratio"] if hasattr(model, "covariate_variance_ratio_") else []
    return {
        "params": params | {name: value for name, value in given.items() if value is not None},
        "variance": np.asarray(model.explained_variance_),
        "variance_ratio": np.asarray(model.explained_variance_ratio_),
        "n_nonzero": np.asarray(model.cardinality_),
        "converged": np.asarray(model.converged_),
        **{name: np.asarray(vars(model)[f"{name}_"]) for name in further},
    }
