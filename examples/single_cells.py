"""
Single cells
============

``sparse_pca`` has the arguments of ``scanpy.pp.pca`` and stores its results next to those of PCA, so that neighbours,
embeddings and plots can use them. The cells are simulated: three types, each with a programme of twelve genes whose
expression is about four times that in the other types.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from anndata import AnnData

from gpower.estimators.single_cell import sparse_pca

rng = np.random.default_rng(0)
kinds = rng.integers(3, size=400)
rates = np.tile(rng.gamma(0.7, 2.0, size=600), (3, 1))
for kind in range(3):
    programme = slice(12 * kind, 12 * (kind + 1))
    rates[kind, programme] = rates[kind, programme] * 3 + 2
counts = rng.poisson(rates[kinds] + 0.1).astype(np.float32)

# %%
# Counts are normalised to the same depth and log-transformed.
depth = counts.sum(axis=1, keepdims=True)
kind = pd.Categorical([f"kind {k}" for k in kinds])
cells = AnnData(
    np.log1p(counts / depth * np.median(depth)),
    obs=pd.DataFrame({"kind": kind}, index=[f"cell{i}" for i in range(400)]),
    var=pd.DataFrame(index=[f"GENE{i}" for i in range(600)]),
)

# %%
# Fit two components of twelve genes. Loadings are in ``varm``, scores in ``obsm``, everything else in ``uns``.
sparse_pca(cells, n_comps=2, cardinality=12)
for column in cells.varm["sPCs"].T:
    used = np.flatnonzero(column)
    belong = f"{np.sum(used < 36)} of {used.size} genes belong to a programme:"
    print(belong, *cells.var_names[used][:5], "…")

# %%
for kind in cells.obs["kind"].cat.categories:
    plt.scatter(*cells.obsm["X_spca"][cells.obs["kind"] == kind].T, s=8, label=kind)
plt.xlabel("component 1")
plt.ylabel("component 2")
plt.legend(frameon=False)
plt.show()
