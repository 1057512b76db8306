"""``python -m benchmarks.out_of_core``: time, memory and passes for data on disk, on a cluster and in AnnData files.

Files are written to a temporary folder and deleted afterwards. The default sizes take about a minute; ``--full`` has
the sizes of the documentation, 12 GB on disk, and takes some ten minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import threadpoolctl

from benchmarks.report import at_least, at_most, machine_line, print_table
from benchmarks.rulers import quiet, timed
from gpower import GPower

#: Seconds between two looks at the memory in use.
BLINK = 0.02
GB = 1e9


def anonymous_memory() -> float:
    """Return the bytes of memory of this process that do not belong to a file."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return float(found.group(1)) * 1024 if found else np.nan


def measured(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result of a call, its seconds, and the largest anonymous memory of this process during it."""
    peak, over = [anonymous_memory()], threading.Event()

    def watch() -> None:
        while not over.wait(BLINK):
            peak[0] = max(peak[0], anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with quiet():
            result, seconds = timed(call)
    finally:
        over.set()
        watcher.join()
    return result, seconds, peak[0]


def factors(rng: np.random.Generator, n: int, count: int, size: int) -> np.ndarray:
    """Return the loadings of factors on disjoint variables, (count, n)."""
    V = np.zeros((count, n), np.float32)
    for j, support in enumerate(rng.permutation(n)[: count * size].reshape(count, size)):
        V[j, support] = 1.5 - 0.1 * j
    return V


def write_npy(path: Path, p: int, n: int, rows: int = 500) -> None:
    """Write a .npy of float32 a few rows at a time: five factors of 60 variables, offsets and noise."""
    rng = np.random.default_rng(0)
    V, offsets = factors(rng, n, 5, 60), rng.uniform(-2, 2, n).astype(np.float32)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (p, n)})
        for lo in range(0, p, rows):
            count = min(rows, p - lo)
            block = rng.standard_normal((count, n), np.float32)
            block += rng.standard_normal((count, 5), np.float32) @ V + offsets
            file.write(block.data)


def dd_speed(path: Path) -> float:
    """Return the bytes per second at which dd reads a file that is in the page cache."""
    command = ["dd", f"if={path}", "of=/dev/null", "bs=16M"]
    subprocess.run(command, check=True, capture_output=True)
    _, seconds = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    return path.stat().st_size / seconds


def on_disk(folder: Path, p: int, n: int, memory: str) -> None:
    """Print the measurements of five components of 50 variables of a matrix that is read in blocks."""
    path = folder / "x.npy"
    _, seconds = timed(lambda: write_npy(path, p, n))
    size = path.stat().st_size
    print(f"{p} × {n} float32, {size / GB:.3g} GB on disk, written in {seconds:.0f} s; memory_limit={memory}")
    from gpower.io.stores.open import open_source
    from gpower.operators.storage.disk import StreamedMatrix

    dd = dd_speed(path)
    matrix = StreamedMatrix(open_source(path), int(float(memory.removesuffix("MB")) * 1e6))
    _, seconds, _ = measured(lambda: matrix.map_blocks(lambda block: None, matrix.repeat_arguments()))
    _, product, _ = measured(lambda: matrix.transposed_times(np.ones((p, 1), np.float32)))
    model, wall, peak = measured(lambda: GPower(5, cardinality=50, memory_limit=memory).fit(path))
    passes = model.n_passes_ / 5
    rows = [
        ("dd", size / dd, dd / GB, np.nan, ""),
        ("blocks read", seconds, size / seconds / GB, np.nan, f"half of dd: {at_least(size / seconds / dd, 0.5)}"),
        ("one product", product, size / product / GB, np.nan, f"half of dd: {at_least(size / product / dd, 0.5)}"),
        (
            "fit, 5 × 50 variables",
            wall,
            model.n_passes_ * size / wall / GB,
            peak / GB,
            f"{model.n_passes_:.0f} passes, at most 15 each: {at_most(passes, 15)}; "
            f"at most 3 GB: {at_most(peak / GB, 3)}",
        ),
    ]
    print_table(("", "seconds", "GB/s", "peak GB", ""), rows)
    path.unlink()


@contextmanager
def two_workers() -> Iterator[Any]:
    """Yield a client of two local workers of one thread each."""
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def on_workers(p: int, n: int, repeats: int) -> None:
    """Print the same fit in memory, and on 8 and 64 chunks of columns in the memory of two workers."""
    import dask.array as da
    import distributed

    rng = np.random.default_rng(0)
    X = rng.standard_normal((p, n)) + rng.standard_normal((p, 5)) @ factors(rng, n, 5, 60).astype(float)
    model = GPower(3, cardinality=50)
    times: dict[str, list[float]] = {"in memory": [], "8 chunks": [], "64 chunks": []}
    passes = {}
    with two_workers():
        with quiet():
            lazy = {f"{k} chunks": da.from_array(X, chunks=(p, n // k)).persist() for k in (8, 64)}
            distributed.wait(list(lazy.values()))
        stores = {"in memory": X, **lazy}
        for i in range(repeats + 1):
            for name, store in stores.items():
                found, seconds, _ = measured(lambda store=store: model.fit(store))
                passes[name] = found.n_passes_
                if i:  # the first round warms up
                    times[name].append(seconds)
    medians = {name: float(np.median(found)) for name, found in times.items()}
    rows = []
    for name, seconds in medians.items():
        bound = 1.5 * medians["in memory"] + 0.05 * passes[name]
        remark = f"at most 1.5 × in memory + 50 ms per pass = {bound:.2f} s: {at_most(seconds, bound)}"
        rows.append((name, seconds, passes[name], "" if name == "in memory" else remark))
    print_table((f"{p} × {n}, two workers", "seconds", "passes", ""), rows)
    ratio = medians["64 chunks"] / medians["8 chunks"]
    print(f"  64 chunks over 8: {ratio:.2f} (at most 1.3: {at_most(ratio, 1.3)})\n")


def write_cells(path: Path, p: int, n: int, density: float, rows: int = 5000) -> None:
    """Write cells × genes as counts to an .h5ad in CSR, with twelve programmes of 40 genes each."""
    import anndata

    rng = np.random.default_rng(0)
    V = np.concatenate([factors(rng, n, 6, 40), factors(rng, n, 6, 40)])
    parts = []
    for lo in range(0, p, rows):
        count = min(rows, p - lo)
        rate = np.log(density / (1 - density)) - 0.1 + rng.standard_normal((count, 12), np.float32) @ V
        seen = rng.random((count, n), np.float32) < 1 / (1 + np.exp(-rate))
        block = sp.csr_matrix(seen, dtype=np.float32)
        block.data += rng.exponential(1.0, block.nnz).astype(np.float32)
        parts.append(block)
    anndata.AnnData(sp.vstack(parts, format="csr")).write_h5ad(path)


def cells(folder: Path, p: int, n: int, count: int) -> None:
    """Print the measurements of ten components of 30 genes of a file of cells that stays on disk."""
    import anndata

    from gpower.estimators.single_cell import sparse_pca
    from gpower.io.stores.cache import cache_store

    path = folder / "cells.h5ad"
    write_cells(path, p, n, 0.05)
    adata = anndata.read_h5ad(path, backed="r")
    entries = adata.X.group["data"].shape[0]
    _, seconds, peak = measured(lambda: sparse_pca(adata, count, cardinality=30))
    source, once, _ = measured(lambda: cache_store(path, folder / "cache"))
    _, again, _ = measured(lambda: GPower(count, cardinality=30).fit(source))
    in_memory = adata.X[:]
    _, memory, _ = measured(lambda: GPower(count, cardinality=30).fit(in_memory))
    title = f"{p} × {n}, {entries / p / n:.1%} stored, {path.stat().st_size / GB:.3g} GB"
    rows = [
        ("sparse_pca, backed", seconds, peak / GB, f"60 s: {at_most(seconds, 60)}, 2 GB: {at_most(peak / GB, 2)}"),
        ("decode into a cache", once, np.nan, ""),
        ("fit from the cache", again, np.nan, ""),
        ("fit in memory", memory, np.nan, ""),
    ]
    print_table((title, "seconds", "peak GB", ""), rows)
    adata.file.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the sizes of the documentation")
    parser.add_argument("--folder", type=Path, help="where to make the files")
    parser.add_argument("--only", choices=("disk", "workers", "cells"), help="one section")
    parser.add_argument("--rows", type=int, help="rows of the matrix on disk")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed repeats of the fits on workers (3)")
    options = parser.parse_args()
    print(machine_line(os.cpu_count() or 1), time.strftime("%H:%M"), sep=", ", end="\n\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.only in (None, "disk"):
            p, n = (20_000, 150_000) if options.full else (2_000, 50_000)
            with threadpoolctl.threadpool_limits(max(1, (os.cpu_count() or 1) - 1)):  # one core is the reader's
                on_disk(folder, options.rows or p, n, "2000MB" if options.full else "100MB")
        if options.only in (None, "workers"):
            on_workers(*((2_000, 20_000) if options.full else (500, 8_000)), repeats=options.repeats)
        if options.only in (None, "cells"):
            cells(folder, *((100_000, 2_000, 10) if options.full else (10_000, 1_000, 5)))


if __name__ == "__main__":
    main()
