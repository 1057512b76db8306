"""
Data larger than memory
=======================

Pass the path of a store instead of an array. The matrix is read in blocks, a few times, and the result is the same as
for the array. This example uses a small file of 48 MB.
"""

import tempfile
from pathlib import Path

import numpy as np

from gpower import GPower
from gpower.plotting import plot_loadings

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3000))
X[:, :10] += 3 * rng.standard_normal((2000, 1))  # ten variables that vary together
X[:, 20:30] += 2 * rng.standard_normal((2000, 1))  # and ten more
folder = tempfile.TemporaryDirectory()
store = Path(folder.name) / "counts.npy"
np.save(store, X)
print(f"{store.stat().st_size / 1e6:.0f} MB on disk")

# %%
# ``memory_limit`` bounds the memory of the blocks; ``n_passes_`` is the number of passes over the store.
for limit in ("4MB", "8MB", "16MB"):
    model = GPower(2, cardinality=10, memory_limit=limit).fit(store)
    used = [np.flatnonzero(z).tolist() for z in model.components_]
    print(f"{limit}: {used}, {model.n_passes_:.0f} passes")

# %%
# The result in memory is the same.
whole = GPower(2, cardinality=10).fit(X)
largest = abs(whole.components_ - model.components_).max()
print(f"largest difference of a loading: {largest:.0e}")

# %%
plot_loadings(model)
folder.cleanup()
