"""Time of sparse components relative to as many ordinary components, fitted alternately on the same machine.

`price` is a section of ``python -m benchmarks``; ``python -m benchmarks.price --gpu`` measures on a GPU, ``--disk GB``
on a file that is read in blocks, ``--dask`` on a local cluster.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, IncrementalPCA

from benchmarks.report import print_table
from benchmarks.rulers import quiet
from gpower import GPower

#: Goals: the largest ratio, and the geometric means by a cardinality and by γ.
MOST, MEAN, MEAN_BY_GAMMA = 3.0, 1.0, 0.8


def sparse_factors(
    shape: tuple[int, int], dtype: Any = np.float64, *, count: int = 30, size: int = 50, seed: int = 0
) -> np.ndarray:
    """Return unit noise with `count` factors of decaying strength, each of `size` variables."""
    rng = np.random.default_rng(seed)
    L = np.zeros((count, shape[1]), dtype)
    for j in range(count):
        L[j, rng.choice(shape[1], size, replace=False)] = (2 - 1.5 * j / count) * rng.standard_normal(size)
    return rng.standard_normal((shape[0], count), dtype) @ L + rng.standard_normal(shape, dtype)


def sparse_counts(shape: tuple[int, int], density: float, *, count: int = 30, size: int = 30, seed: int = 0) -> Any:
    """Return counts in CSR, as of genes in cells, with `count` programmes of `size` genes, each in 5 % of the rows."""
    rng = np.random.default_rng(seed)
    X = sp.random(*shape, density, format="coo", random_state=rng, data_rvs=lambda k: 1.0 + rng.poisson(1.0, k))
    programme = np.full(shape[1], -1)
    programme[rng.permutation(shape[1])[: count * size]] = np.repeat(np.arange(count), size)
    strength = np.where(rng.random((shape[0], count)) < 0.05, 10.0, 1.0)
    inside = programme[X.col] >= 0
    X.data[inside] *= strength[X.row[inside], programme[X.col[inside]]]
    return X.tocsr()


#: Name, how it is made, number of variables of a component.
TABLES: tuple[tuple[str, Callable[[], Any], int], ...] = (
    ("295 x 13319", lambda: sparse_factors((295, 13319)), 50),
    ("2000 x 20000 float32", lambda: sparse_factors((2000, 20000), np.float32), 50),
    ("20000 x 2000", lambda: sparse_factors((20000, 2000)), 50),
    ("20000 x 2000 float32", lambda: sparse_factors((20000, 2000), np.float32), 50),
    ("CSR 50000 x 2000", lambda: sparse_counts((50000, 2000), 0.08), 30),
)


def beside(fits: Iterable[Callable[[], Any]], repeats: int) -> tuple[list[float], list[Any]]:
    """Return the least seconds of each call, run alternately, and the last results."""
    fits = list(fits)
    times, found = [[] for _ in fits], [None] * len(fits)
    with quiet():
        for _ in range(repeats):
            for j, fit in enumerate(fits):
                begin = time.perf_counter()
                found[j] = fit()
                times[j].append(time.perf_counter() - begin)
    return [min(each) for each in times], found


def row_of(name: str, m: int, fits: Iterable[Callable[[], Any]], repeats: int = 3) -> tuple[Any, ...]:
    """Return a row of the table: ordinary components, sparse ones by a cardinality, sparse ones by γ."""
    (pca, exact, penalised), (_, model, other) = beside(fits, repeats)
    shares = (float(each.explained_variance_ratio_.sum()) for each in (model, other))
    return name, m, pca, exact / pca, float(model.n_passes_), penalised / pca, *shares


def print_rows(rows: list[tuple[Any, ...]]) -> None:
    """Print the table, and the geometric mean and the largest of its ratios."""
    heads = ("", "components", "PCA s", "cardinality / PCA", "passes", "gamma / PCA", "share", "share by gamma")
    print_table(heads, rows)
    for name, column, mean_goal in (("cardinality", 3, MEAN), ("gamma", 5, MEAN_BY_GAMMA)):
        ratios = np.array([row[column] for row in rows])
        mean, largest = float(np.exp(np.log(ratios).mean())), float(ratios.max())
        print(f"  by {name}: geometric mean {mean:.2f} (at most {mean_goal}), largest {largest:.2f} (at most {MOST})")
    print()


def price(run: Any) -> None:
    """Time and passes of sparse components relative to ordinary ones."""
    rows = []
    for name, make, k in TABLES:
        X = make()
        solver = "arpack" if sp.issparse(X) else "randomized"
        for m in (1, 10, 30):
            ordinary = PCA(m, svd_solver=solver, random_state=0)
            models = GPower(m, cardinality=k), GPower(m, gamma=0.02)
            rows.append(row_of(name, m, [lambda each=each, X=X: each.fit(X) for each in (ordinary, *models)]))
            run.log.add(("price", name, f"m={m} k={k}", "gpower"), "ratio", rows[-1][3])
    print_rows(rows)


def on_a_gpu() -> None:
    """Measure on a GPU, relative to torch.pca_lowrank."""
    import torch

    rows = []
    for shape in ((2000, 20000), (20000, 100000), (500000, 2000)):
        X = _on_device(torch, shape)
        for m in (1, 10, 30):
            models = GPower(m, cardinality=50), GPower(m, gamma=0.02)

            def ordinary(X: Any = X, m: int = m) -> None:
                torch.pca_lowrank(X, q=m + 10, niter=4)
                torch.cuda.synchronize()

            fits = [ordinary, *(lambda each=each, X=X: each.fit(X) for each in models)]
            rows.append(row_of(f"{shape[0]} x {shape[1]}", m, fits))
            print(*rows[-1], flush=True)
        del X
        torch.cuda.empty_cache()
    print_rows(rows)


def _on_device(torch: Any, shape: tuple[int, int], count: int = 30, size: int = 50) -> Any:
    """Return the factor model, made on the device a few rows at a time."""
    rng = np.random.default_rng(0)
    L = np.zeros((count, shape[1]), np.float32)
    for j in range(count):
        L[j, rng.choice(shape[1], size, replace=False)] = (2 - 1.5 * j / count) * rng.standard_normal(size)
    torch.manual_seed(0)
    X = torch.randn(shape, device="cuda")
    loadings = torch.tensor(L, device="cuda")
    for start in range(0, shape[0], 10_000):
        rows = X[start : start + 10_000]
        rows += torch.randn((rows.shape[0], count), device="cuda") @ loadings
    return X


def on_disk(gigabytes: float, m: int = 5) -> None:
    """Measure a .npy file that is read in blocks, relative to IncrementalPCA."""
    p, n = 30_000, int(gigabytes * 1e9 / 30_000 / 4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        X = np.lib.format.open_memmap(path, "w+", np.float32, (p, n))
        for start in range(0, p, 3000):
            X[start : start + 3000] = sparse_factors((3000, n), np.float32)  # the same loadings, other samples
        X.flush()

        def incremental() -> None:
            IncrementalPCA(m, batch_size=1000).fit(np.load(path, mmap_mode="r"))

        models = GPower(m, cardinality=50, memory_limit="500MB"), GPower(m, gamma=0.02, memory_limit="500MB")
        fits = [incremental, *(lambda each=each: each.fit(path) for each in models)]
        print_rows([row_of(f"{p} x {n} on disk", m, fits, 1)])


def on_dask(m: int = 5) -> None:
    """Measure a Dask array on a local cluster, relative to svd_compressed."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        X = da.from_array(sparse_factors((20000, 5000), np.float32), chunks=(2500, 5000)).persist()

        def compressed() -> None:
            da.compute(*da.linalg.svd_compressed(X - X.mean(axis=0), m, n_power_iter=4))

        models = GPower(m, cardinality=50), GPower(m, gamma=0.02)
        print_rows([row_of("Dask 20000 x 5000", m, [compressed, *(lambda e=e: e.fit(X) for e in models)], 2)])


def main() -> None:
    """Run the measurements on a GPU, on disk or on a cluster."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.price", description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--disk", type=float, metavar="GB")
    parser.add_argument("--dask", action="store_true")
    options = parser.parse_args()
    if options.gpu:
        on_a_gpu()
    if options.disk:
        on_disk(options.disk)
    if options.dask:
        on_dask()


if __name__ == "__main__":
    main()
