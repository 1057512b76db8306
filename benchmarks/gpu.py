"""``python -m benchmarks.gpu``: time a round on a GPU in reads of the matrix, and a fit relative to two cores.

Needs CuPy and a GPU. The time of one read is that of the sum of the matrix.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpower import GPower
from gpower._utils.arrays import take_rows, to_host
from gpower.feasible_sets import CorrelationSet, CorrelationStart, Point
from gpower.operators import Covariance, Operator, as_operator
from gpower.penalties.elementary import Cardinality
from gpower.problem.formulation import PenaltyObjective, Problem
from gpower.solvers.ascent import maximize
from gpower.solvers.starts import make_block_start, make_unit_starts
from gpower.solvers.working_set import INNER_TOL_FACTOR, AscentSettings, WorkingSetStep, select_working_set


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=30.0, help="size of the matrix of the rounds")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--end-to-end", type=float, default=8.0, metavar="GB", help="size of the matrix of the fits")
    parser.add_argument("--threads", type=int, default=2, help="of the fit on the processor")
    return parser.parse_args()


def device_matrix(cp: Any, shape: tuple[int, int], dtype: Any, seed: int = 0) -> Any:
    """Return noise with ten sparse factors, made on the device a few rows at a time."""
    rng = cp.random.RandomState(seed)
    p, n = shape
    L = cp.zeros((10, n), dtype)
    for j in range(10):
        L[j, j * 100 : (j + 1) * 100] = 1 + j / 10
    X = cp.empty(shape, dtype)
    step = max(1, (1 << 28) // n)
    for start in range(0, p, step):
        rows = min(step, p - start)
        X[start : start + rows] = rng.standard_normal((rows, n), dtype=dtype)
        X[start : start + rows] += rng.standard_normal((rows, 10), dtype=dtype) @ L
    return X


def seconds(cp: Any, work: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time of a call, with the device synchronised."""
    work()
    times = []
    for _ in range(repeats):
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        work()
        cp.cuda.Device().synchronize()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def measure_rounds(cp: Any, shape: tuple[int, int], dtype: Any) -> None:
    X = device_matrix(cp, shape, dtype)
    bytes_as_doubles = X.reshape(-1).view(cp.float64)  # the sum of single numbers does not keep up with the memory
    read = seconds(cp, lambda: bytes_as_doubles.sum())
    size = X.nbytes / 1e9
    print(f"\n{np.dtype(dtype).name} {shape[0]} x {shape[1]}, {size:.1f} GB")
    print(f"  one read (sum)          {1e3 * read:8.2f} ms   {size / read / 1e3:.2f} TB/s")
    begin = time.perf_counter()
    operator, _ = as_operator(X)
    cp.cuda.Device().synchronize()
    print(f"  means and norms, once   {time.perf_counter() - begin:8.3f} s")
    for m in (1, 5):
        times = round_times(cp, operator, m)
        times["product, objective and working set"] = times["product"] + times["objective and working set"]
        for name, value in times.items():
            print(f"  m = {m}  {name:36s} {1e3 * value:8.2f} ms   {value / read:.2f} reads")


def round_times(cp: Any, operator: Operator, m: int) -> dict[str, float]:
    """Return the seconds of a round of one unit or a block, and of its parts."""
    problem = Problem(operator, Cardinality(np.full(m, 50)), np.ones(m, operator.dtype))
    rng = np.random.RandomState(0)
    start = make_block_start(problem) if m > 1 else make_unit_starts(problem, operator.column_norms, 1, rng)
    objective, rounds = problem.objective, WorkingSetStep(problem, AscentSettings())
    first = objective.value_and_gradient(start)[1]
    point = rounds.step(first, start)
    point = Point(point.X, point.C)  # not marked as settled, so that a round can be repeated from here
    gradient = objective.value_and_gradient(point)[1]

    def choose() -> Any:
        return select_working_set(problem.penalty, point.C, objective.value_and_gradient(point)[1])

    return {
        "product": seconds(cp, lambda: operator.correlate(point.X)),
        "objective and working set": seconds(cp, choose),
        "whole round, inner ascent included": seconds(cp, lambda: rounds.step(gradient, point)),
        **inner_times(cp, rounds, start, select_working_set(problem.penalty, start.C, first)),
        **double_times(cp, operator, point.X),
    }


class DeviceCovariance(Covariance):
    """A Gram matrix that stays on the device, for an inner ascent there."""

    def correlate(self, X: Any) -> Any:
        """Return ΣU."""
        return self.S @ X

    def inner(self, X: Any, Y: Any, C: Any) -> Any:
        """Return UᵀΣV, (m, m)."""
        return to_host(X.T @ C)


def inner_times(cp: Any, rounds: WorkingSetStep, start: Point, W: np.ndarray) -> dict[str, float]:
    """Return the seconds of the first inner ascent, on the host with a copy of its Gram matrix, and on the device."""
    problem, A = rounds.problem, rounds.problem.operator.columns(W)
    C, G = take_rows(start.C, W), A.T @ A
    tol = rounds.settings.tol * INNER_TOL_FACTOR
    steps = []

    def ascend(operator: Operator, correlations: Any) -> None:
        feasible = CorrelationSet(operator, problem.mu, problem.sample_set)
        end = maximize(
            PenaltyObjective(problem.penalty), feasible, CorrelationStart(correlations), tol=tol, acceleration=True
        )
        steps.append(end.n_iter)

    host = seconds(cp, lambda: ascend(Covariance(G.get()), C.get()))
    device = seconds(cp, lambda: ascend(DeviceCovariance(G), C))
    print(f"  inner ascent on {W.size} columns: {steps[0]} steps on the host, {steps[-1]} on the device")
    return {"inner ascent on the host, copy included": host, "inner ascent on the device": device}


def double_times(cp: Any, operator: Any, X: Any) -> dict[str, float]:
    """Return the seconds of a product of float32 data with sums in float64."""
    if operator.dtype != np.float32:
        return {}
    double = replace(operator, X=operator.X.prepare(True))
    return {"product summed in float64": seconds(cp, lambda: double.correlate(X))}


def measure_fits(cp: Any, shape: tuple[int, int], dtype: Any, threads: int) -> None:
    import threadpoolctl

    X = device_matrix(cp, shape, dtype)
    print(f"\nwhole fits, {np.dtype(dtype).name} {shape[0]} x {shape[1]}, {X.nbytes / 1e9:.1f} GB")
    for name, options in {"cardinality=50": {"cardinality": 50}, "gamma=0.1": {"gamma": 0.1}}.items():
        GPower(3, **options).fit(X)  # kernels are compiled with their first use
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        ours = GPower(3, **options).fit(X)
        cp.cuda.Device().synchronize()
        device = time.perf_counter() - begin
        host_X = X.get()
        with threadpoolctl.threadpool_limits(threads):
            begin = time.perf_counter()
            host = GPower(3, **options).fit(host_X)
            processor = time.perf_counter() - begin
        same = float(np.max(np.abs(ours.components_.get() - host.components_)))
        print(
            f"  {name:16s} GPU {device:7.3f} s ({ours.n_passes_:.0f} passes)   {threads} threads {processor:8.2f} s   "
            f"{processor / device:6.1f} times   largest difference of a loading {same:.1e}"
        )


def main() -> None:
    import cupy as cp

    options = arguments()
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, CuPy {cp.__version__}, NumPy {np.__version__}")
    for dtype in (np.float64, np.float32):
        n = int(options.gigabytes * 1e9 / np.dtype(dtype).itemsize / options.samples)
        measure_rounds(cp, (options.samples, n), dtype)
        cp.get_default_memory_pool().free_all_blocks()
    n = int(options.end_to_end * 1e9 / 4 / options.samples)
    measure_fits(cp, (options.samples, n), np.float32, options.threads)


if __name__ == "__main__":
    main()
