"""Sparse matrices: threads, a GPU, and scikit-learn's ARPACK PCA on the same machine.

`sparse` is a section of ``python -m benchmarks``; ``python -m benchmarks.sparse PART ...`` measures the parts that need
a large machine. Each line is printed as soon as it is measured, and a part that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import pstats
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
import threadpoolctl
from sklearn.decomposition import PCA

from benchmarks.out_of_core import GB, anonymous_memory, measured
from benchmarks.price import _on_device, sparse_counts
from benchmarks.report import at_most, machine_line
from benchmarks.rulers import quiet
from gpower import GPower
from gpower._utils.arrays import to_device, to_host

#: Programmes of genes, genes of each, and share of the counts of a cell that its programmes give.
N_PROGRAMMES, PROGRAMME_SIZE, PROGRAMME_SHARE = 40, 200, 0.4
#: Cells that are made at once, and entries of the tables from which genes are drawn.
CELLS_PER_BLOCK, DRAW_TABLE_SIZE = 4096, 1 << 20
#: Ratio to ARPACK that one, ten and thirty components of 100,000 × 5,000 are held to.
GOALS = {1: 0.6, 10: 0.5, 30: 0.8}
COMPONENTS = (1, 10, 30)


def make_cells(p: int, n: int, density: float = 0.036, seed: int = 0) -> sp.csr_array:
    """Return cells × genes, log1p of Poisson counts in float32, with two of 40 programmes of 200 genes in every cell.

    A Poisson number of counts per cell, each on a random gene, is a Poisson number per gene. Blocks of cells are made
    in threads; the result depends on the seed alone.
    """
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(0, 1, n)
    weights /= weights.sum()
    size = min(PROGRAMME_SIZE, n // N_PROGRAMMES)
    genes = rng.permutation(n)[: N_PROGRAMMES * size].reshape(N_PROGRAMMES, size)
    slope = np.exp(-8 * np.arange(size) / size)  # some fifty genes make up most of a programme
    slope /= slope.sum()
    draws = _make_draw_table(weights), np.array([each[_make_draw_table(slope)] for each in genes], np.int32)
    depth = _find_depth(weights, genes, slope, density)
    starts = range(0, p, CELLS_PER_BLOCK)

    def make_block(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        block_rng = np.random.default_rng((seed, start))
        return _draw_counts(block_rng, min(CELLS_PER_BLOCK, p - start), n, depth, *draws)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        values, columns, counts = zip(*pool.map(make_block, starts), strict=True)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    indptr = indptr.astype(np.int32 if indptr[-1] < 1 << 31 else np.int64)
    return sp.csr_array((np.concatenate(values), np.concatenate(columns), indptr), shape=(p, n))


def _make_draw_table(weights: np.ndarray) -> np.ndarray:
    """Return a table that contains each index as often as its weight requires."""
    edges = np.round(np.cumsum(weights) / np.sum(weights) * DRAW_TABLE_SIZE).astype(np.int64)
    return np.repeat(np.arange(weights.size, dtype=np.int32), np.diff(edges, prepend=0))


def _find_depth(weights: np.ndarray, genes: np.ndarray, slope: np.ndarray, density: float) -> float:
    """Return the mean number of counts of a cell with which the share of stored entries is `density`."""
    low, high = 1.0, 1e6
    rates = (1 - PROGRAMME_SHARE) * weights
    active = rates[genes[0]] + PROGRAMME_SHARE / 2 * slope
    for _ in range(60):
        depth = np.sqrt(low * high)
        extra = 2 * np.sum(np.exp(-depth * rates[genes[0]]) - np.exp(-depth * active))
        stored = np.sum(-np.expm1(-depth * rates)) + extra
        low, high = (depth, high) if stored < density * weights.size else (low, depth)
    return float(depth)


def _draw_counts(
    rng: np.random.Generator, rows: int, n: int, depth: float, base: np.ndarray, programmes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values, columns and numbers of entries of some cells."""
    cell = np.repeat(np.arange(rows, dtype=np.int32), rng.poisson(depth, rows))
    chosen = rng.integers(0, N_PROGRAMMES, (rows, 2), np.int32)
    gene = base[rng.integers(0, DRAW_TABLE_SIZE, cell.size, np.int32)]
    active = np.flatnonzero(rng.random(cell.size, np.float32) < PROGRAMME_SHARE)
    which = chosen[cell[active], rng.integers(0, 2, active.size, np.int8)]
    gene[active] = programmes[which, rng.integers(0, DRAW_TABLE_SIZE, active.size, np.int32)]
    key = cell.astype(np.int64) * n + gene
    key.sort()
    first = np.flatnonzero(np.diff(key, prepend=-1))
    values = np.log1p(np.diff(first, append=key.size).astype(np.float32))
    found = key[first]
    return values, (found % n).astype(np.int32), np.bincount(found // n, minlength=rows)


def matrix_bytes(X: sp.csr_array) -> int:
    """Return the bytes of the values and indices."""
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def print_line(*cells: Any) -> None:
    """Print one measured line without delay."""
    print("  " + "  ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells), flush=True)


def supports_of(model: Any) -> list[frozenset[int]]:
    """Return the variables of each component."""
    return [frozenset(np.flatnonzero(row).tolist()) for row in to_host(model.components_)]


def compare_supports(first: Sequence[frozenset[int]], second: Sequence[frozenset[int]]) -> str:
    """Return how many components have the same variables, and the share of common variables."""
    same = sum(any(a == b for b in second) for a in first)
    common = [max(len(a & b) for b in second) / max(len(a), 1) for a in first]
    return f"same variables in {same} of {len(first)}, {100 * float(np.mean(common)):.1f} % in common"


def fit_line(where: str, X: Any, m: int, k: int, size: int) -> tuple[Any, float]:
    """Fit, print seconds, peak memory, passes and share; return the model and the seconds."""
    before = anonymous_memory()
    model, seconds, peak = measured(lambda: GPower(m, cardinality=k).fit(X))
    share = float(np.sum(model.explained_variance_ratio_))
    print_line(
        f"{where:10s} m = {m:2d}: {seconds:7.2f} s,",
        f"peak {peak / GB:.2f} GB (matrix {size / GB:.2f}, extra {(peak - before) / GB:.2f}),",
        f"{float(model.n_passes_):.1f} passes, share {share:.4f}",
    )
    return model, seconds


def arpack_line(X: Any, m: int, ours: float, share: float) -> float:
    """Fit scikit-learn's PCA and print the ratios of ours to it; return its seconds."""
    pca, seconds, peak = measured(lambda: PCA(m, svd_solver="arpack", random_state=0).fit(X))
    theirs = float(np.sum(pca.explained_variance_ratio_))
    print_line(
        f"ARPACK     m = {m:2d}: {seconds:7.2f} s, peak {peak / GB:.2f} GB, share {theirs:.4f};",
        f"ours takes {ours / seconds:.3f} of the time and explains {share / theirs:.3f} of its variance",
    )
    return seconds


def cells(p: int, options: argparse.Namespace) -> None:
    """Measure cells × 20,000 genes on the processor, on the GPU, and with ARPACK."""
    begin = time.perf_counter()
    X = make_cells(p, options.genes)
    size = matrix_bytes(X)
    print_line(f"{p} x {options.genes}, {X.nnz:.3g} entries ({X.nnz / p / options.genes:.2%}), {size / GB:.3g} GB,")
    print_line(f"made in {time.perf_counter() - begin:.1f} s; indices {X.indices.dtype}")
    supports: dict[int, list[frozenset[int]]] = {}
    results: dict[int, tuple[float, float]] = {}

    def on_processor() -> None:
        for m in options.components:
            model, seconds = fit_line("processor", X, m, options.variables, size)
            supports[m] = supports_of(model)
            results[m] = seconds, float(np.sum(model.explained_variance_ratio_))
        if options.profile:
            profile(lambda: GPower(max(options.components), cardinality=options.variables).fit(X))

    if "cpu" in options.where:
        attempt("processor", on_processor)
    if "gpu" in options.where:
        attempt("GPU", lambda: cells_on_gpu(X, supports, options))
    if "arpack" in options.where and results:
        attempt("ARPACK", lambda: arpack_line(X, max(results), *results[max(results)]))


def cells_on_gpu(X: sp.csr_array, supports: dict[int, list[frozenset[int]]], options: argparse.Namespace) -> None:
    """Measure the same fits on the GPU, each twice, because the first one compiles kernels."""
    import cupy

    begin = time.perf_counter()
    on_device = to_device(X, "cuda")
    cupy.cuda.Device().synchronize()
    print_line(f"moved to the GPU in {time.perf_counter() - begin:.2f} s")
    products(cupy, on_device)
    pool = cupy.get_default_memory_pool()
    for m in options.components:
        for run in ("first", "again"):
            pool.free_all_blocks()
            model, _ = fit_line(f"GPU {run}", on_device, m, options.variables, matrix_bytes(X))
            print_line(f"           memory of the GPU: {pool.total_bytes() / GB:.2f} GB")
        if m in supports:
            print_line(f"           processor and GPU: {compare_supports(supports[m], supports_of(model))}")
    if options.profile:
        profile(lambda: GPower(max(options.components), cardinality=options.variables).fit(on_device))


def products(cupy: Any, A: Any) -> None:
    """Print the seconds of one product with 70 columns in each direction, with and without a copy by columns."""
    from gpower.operators import as_container
    from gpower.operators.storage import device_sparse

    rng = cupy.random.RandomState(0)
    T, Y = (rng.standard_normal((size, 70), dtype=A.dtype) for size in A.shape[::-1])
    for name, factor in (("stored", device_sparse.COPY_MEMORY_FACTOR), ("not stored", np.inf)):
        device_sparse.COPY_MEMORY_FACTOR, kept = factor, device_sparse.COPY_MEMORY_FACTOR
        X = as_container(A)
        times = [_seconds(cupy, lambda X=X: X.times(T)), _seconds(cupy, lambda X=X: X.transposed_times(Y))]
        device_sparse.COPY_MEMORY_FACTOR = kept
        print_line(f"products with 70 columns, copy by columns {name}: {times[0]:.4f} and {times[1]:.4f} s")


def _seconds(cupy: Any, work: Callable[[], Any]) -> float:
    """Return the least seconds of three runs after a warm-up."""
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        work()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def profile(work: Callable[[], Any], lines: int = 25) -> None:
    """Print the functions in which a call spends most of its time."""
    profiler, text = cProfile.Profile(), io.StringIO()
    with quiet():
        profiler.runcall(work)
    for key in ("tottime", "cumulative"):
        pstats.Stats(profiler, stream=text).strip_dirs().sort_stats(key).print_stats(lines)
    print("\n".join(line for line in text.getvalue().splitlines() if line.strip()), flush=True)


def check(options: argparse.Namespace) -> None:
    """Compare every method of the container on the GPU with the host, in many parts, and a small fit."""
    from gpower.operators import as_container
    from gpower.operators.storage import device_sparse

    X = make_cells(3000, 1500, 0.05)
    rng = np.random.default_rng(0)
    whole = device_sparse.MAX_PART_ENTRIES, device_sparse.MAX_CONVERTED_ENTRIES, device_sparse.COPY_MEMORY_FACTOR
    for parts, factor in ((whole[:2], 3), ((40_001, 30_011), 3), ((40_001, 30_011), np.inf)):
        device_sparse.MAX_PART_ENTRIES, device_sparse.MAX_CONVERTED_ENTRIES = parts
        device_sparse.COPY_MEMORY_FACTOR = factor
        for double in (False, True):
            host, device = (as_container(A).prepare(double) for A in (X, to_device(X, "cuda")))
            T, Y = rng.standard_normal((1500, 7)).astype("f4"), rng.standard_normal((3000, 7)).astype("f4")
            idx, w, shift = rng.permutation(1500)[:90], rng.random(3000), rng.random(1500)
            move = device.to_backend
            pairs = {
                "times": (host.times(T), device.times(move(T))),
                "transposed_times": (host.transposed_times(Y), device.transposed_times(move(Y))),
                "columns": (host.columns(idx), device.columns(idx)),
                "rows": (host.get_rows(np.sort(idx)), device.get_rows(np.sort(idx))),
                "gram": (host.gram(None, None, idx), device.gram(None, None, idx)),
                "weighted gram": (host.gram(None, w, idx), device.gram(None, move(w), idx)),
                "sums": (host.weighted_sums(w), device.weighted_sums(w)),
                "squares": (host.squared_deviations(shift, None), device.squared_deviations(move(shift), None)),
                "scores": (
                    host.project_samples(T, shift.astype("f4")),
                    device.project_samples(move(T), move(shift.astype("f4"))),
                ),
            }
            for name, (expected, found) in pairs.items():
                error = np.max(np.abs(to_host(found) - expected)) / np.max(np.abs(expected))
                print_line(
                    f"parts of {parts[0]}, copy {factor}, double {double}, {name}: {error:.1e}, {at_most(error, 1e-5)}"
                )
    device_sparse.MAX_PART_ENTRIES, device_sparse.MAX_CONVERTED_ENTRIES, device_sparse.COPY_MEMORY_FACTOR = whole
    with quiet():
        models = [GPower(5, cardinality=20, scale=True).fit(A) for A in (X, to_device(X, "cuda"))]
    print_line(f"fit: {compare_supports(*map(supports_of, models))}; {type(models[1].components_)}")
    attempt("tensors", lambda: check_tensors(X, models[0]))


def check_tensors(X: sp.csr_array, expected: Any) -> None:
    """Fit a CSR tensor of PyTorch on the GPU."""
    import torch

    parts = (torch.from_numpy(part.astype(np.int64)).cuda() for part in (X.indptr, X.indices))
    tensor = torch.sparse_csr_tensor(*parts, torch.from_numpy(X.data).cuda(), X.shape)
    with quiet():
        model = GPower(5, cardinality=20, scale=True).fit(tensor)
    print_line(f"tensor: {type(model.components_)}, scores {type(model.transform(tensor))}")
    model.components_ = model.components_.cpu().numpy()
    print_line(compare_supports(supports_of(expected), supports_of(model)))


def dense(options: argparse.Namespace) -> None:
    """Measure dense matrices on the GPU by cardinality and by γ, relative to torch.pca_lowrank."""
    import torch

    for shape, goal in {(2000, 20000): 25, (20000, 100000): 6, (500000, 2000): 4}.items():
        attempt(f"{shape[0]} x {shape[1]}", lambda shape=shape, goal=goal: dense_table(torch, shape, goal, options))
        torch.cuda.empty_cache()


def dense_table(torch: Any, shape: tuple[int, int], goal: float, options: argparse.Namespace) -> None:
    """Measure all fits of one dense matrix on the GPU."""
    X = _on_device(torch, shape)
    for m in options.components:

        def ordinary(m: int = m) -> None:
            torch.pca_lowrank(X, q=m + 10, niter=4)
            torch.cuda.synchronize()

        pca = min(_time(ordinary) for _ in range(4))
        fits = {"cardinality": GPower(m, cardinality=50), "gamma": GPower(m, gamma=0.02)}
        for name, model in fits.items():
            seconds = min(_time(lambda model=model: model.fit(X)) for _ in range(3))
            share = float(np.sum(model.explained_variance_ratio_))
            print_line(
                f"m = {m:2d} {name}: {seconds:.3f} s, {seconds / pca:.1f} times pca_lowrank ({pca:.4f} s),",
                f"{float(model.n_passes_):.1f} passes, share {share:.4f}",
                f"at most {goal}: {at_most(seconds / pca, goal)}" if m == max(options.components) else "",
            )
    for name, model in fits.items() if options.profile else ():
        print_line(f"profile of {name}, m = {m}")
        profile(lambda model=model: model.fit(X), 15)


def _time(work: Callable[[], Any]) -> float:
    with quiet():
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin


def two_cores(options: argparse.Namespace) -> dict[int, float]:
    """Return the ratio of the seconds to ARPACK's for CSR 100,000 × 5,000 with 6 % stored, 30 variables."""
    X = sparse_counts((options.cells, 5000), 0.06).astype(np.float32)
    print_line(f"CSR {X.shape[0]} x {X.shape[1]}, {X.nnz:.3g} entries, {matrix_bytes(X) / GB:.3g} GB")
    ratios = {}
    for m in options.components:
        times, shares = [], 0.0
        for _ in range(options.repeats):
            model, seconds = fit_line("processor", X, m, 30, matrix_bytes(X))
            times.append(seconds)
            shares = float(np.sum(model.explained_variance_ratio_))
        ratios[m] = min(times) / min(arpack_line(X, m, min(times), shares) for _ in range(options.repeats))
        print_line(f"ratio m = {m}: {ratios[m]:.2f}, at most {GOALS[m]}: {at_most(ratios[m], GOALS[m])}")
    return ratios


def sparse(run: Any) -> None:
    """Time of sparse components relative to ARPACK's ordinary ones: CSR 100,000 x 5,000, 6 % stored."""
    for m, ratio in two_cores(arguments(["two-cores"])).items():
        run.log.add(("sparse", "CSR 100000 x 5000", f"m={m} k=30", "gpower"), "ratio", ratio)


PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "check": check,
    "two-cores": two_cores,
    "cells-200k": lambda options: cells(200_000, options),
    "cells-1m": lambda options: cells(1_000_000, options),
    "cells": lambda options: cells(options.cells, options),
    "dense": dense,
}


def attempt(name: str, work: Callable[[], Any]) -> None:
    """Run a part; print the error if it fails."""
    print(f"{name} ({time.strftime('%H:%M:%S')})", flush=True)
    try:
        work()
    except Exception:
        traceback.print_exc()
        print_line(f"FAILED: {name}")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparse", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=tuple(PARTS))
    parser.add_argument("--components", type=int, nargs="+", default=COMPONENTS)
    parser.add_argument("--variables", type=int, default=50, help="of a component of cells")
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--cells", type=int, default=100_000, help="rows of the parts cells and two-cores")
    parser.add_argument("--where", nargs="+", default=("cpu", "gpu", "arpack"), choices=("cpu", "gpu", "arpack"))
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    parser.add_argument("--repeats", type=int, default=1, help="of the part two-cores; the least seconds count")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args(given)


def main() -> None:
    """Run all requested parts."""
    options = arguments()
    attempt("machine", lambda: print_line(machine_line(options.threads)))  # it needs an installed package
    with threadpoolctl.threadpool_limits(options.threads):
        for name in options.parts:
            attempt(name, lambda name=name: PARTS[name](options))


if __name__ == "__main__":
    main()
