"""``python -m benchmarks.certificates``: print the gaps and proofs of ``docs/certificates.md`` as Markdown."""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from benchmarks.datasets import expression, factor_data
from gpower import Certificate, GPower, best_subset, certify
from gpower.certificates.certificate import Clock
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.datasets import gaussian, load_pitprops

#: Cardinalities of the public matrices and of the Gaussian one.
CARDINALITIES = (5, 10, 20)
METHODS = ("trace", "gershgorin", "eigenvalue", "soft threshold", "sample space", "rows")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.certificates", description=__doc__)
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="covariance matrices, one array each")
    parser.add_argument("--expression", type=Path, metavar="FILE.npz", help="a real table: array X, samples x genes")
    words = "pitprops, gaussian, public, wide or expression"
    parser.add_argument("--only", metavar="WORD", default="", help=words)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="threads of BLAS")
    return parser.parse_args()


def percent(gap: float) -> str:
    """Format a gap in per cent, with up to four digits after the point."""
    return (
        "0" if gap < 5e-9 else f"{100 * gap:.4f}" if gap < 1e-3 else f"{100 * gap:.2f}" if gap < 0.1 else f"{gap:.0%}"
    )


def row(*cells: Any) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(title: str, *cells: str) -> None:
    print(f"\n### {title}\n")
    row(*cells)
    row(*("---" for _ in cells))


def gaps(certificate: Certificate) -> Iterator[str]:
    """Yield the gap of every bound in % of the value, or a dash for a bound that was not computed."""
    found = {bound.method: bound.value / certificate.value - 1 for bound in certificate.bounds}
    for method in METHODS:
        yield percent(max(found[method], 0)).removesuffix("%") if method in found else "–"


def rows_alone(S: np.ndarray, k: int, best: float) -> float:
    """Return the gap of the row bound without screening."""
    problem = RowProblem(S / best, k, np.zeros(len(S), bool))
    start, smoothings = initialize_rows(problem), (0.03, 0.01, 0.003, 0.001, 0.0003)
    found = minimize_row_bound(problem, start, target=1, clock=Clock(60), smoothings=smoothings, steps=60)
    return found.bound - 1


def pitprops() -> None:
    S = load_pitprops().correlation
    head("Pit props, 13 variables, gaps in %", "k", "best", *METHODS, "s", "rows, not screened", "s")
    for k in (2, 3, 5, 7, 10, 11):
        certificate = certify(GPower(1, cardinality=k, covariance="precomputed").fit(S), S, tol=0)[0]
        begin = time.perf_counter()
        alone = percent(rows_alone(S, k, certificate.value)).removesuffix("%")
        seconds = time.perf_counter() - begin
        row(k, f"{certificate.value:.6f}", *gaps(certificate), f"{certificate.seconds:.2f}", alone, f"{seconds:.2f}")
    begin = time.perf_counter()
    proofs = [best_subset(S, cardinality=k, covariance="precomputed")[1] for k in range(1, 14)]
    seconds, proven = time.perf_counter() - begin, sum(proof.optimal for proof in proofs)
    print(f"\nAll {len(proofs)} cardinalities by best_subset: {proven} proven in {seconds:.2f} s.")
    head("Pit props, three components of five variables", "component", "value", "upper bound", "gap %", "bound")
    model = GPower(3, cardinality=5, covariance="precomputed").fit(S)
    for j, c in enumerate(certify(model, S), start=1):
        row(j, f"{c.value:.6f}", f"{c.upper_bound:.6f}", percent(c.gap), c.method)


def noise() -> None:
    X = gaussian(100, 300, random_state=0)
    head("Gaussian noise, 100 samples × 300 variables, gaps in %", "k", "found", *METHODS, "s")
    for k in CARDINALITIES:
        c = certify(GPower(1, cardinality=k).fit(X), X, max_time=30)[0]
        row(k, f"{c.value:.3f}", *gaps(c), f"{c.seconds:.1f}")


def public(path: Path) -> None:
    head(
        "Public covariance and correlation matrices",
        "matrix",
        "n",
        "k",
        "best found",
        "`certify` gap %",
        "bound",
        "s",
        "`best_subset` gap",
        "proof",
        "nodes",
        "s",
    )
    certified, proofs = [], []
    with np.load(path) as file:
        matrices = {name: np.asarray(file[name], float) for name in file.files}
    for name, S in matrices.items():
        for k in CARDINALITIES:
            begin = time.perf_counter()
            component, proof = best_subset(S, cardinality=k, covariance="precomputed", max_time=10)
            seconds = time.perf_counter() - begin
            c = certify(component, S, covariance="precomputed")[0]
            certified.append(c.gap)
            proofs.append(proof.optimal)
            tail = (f"{proof.gap:.1e}", proof.method, proof.nodes, f"{seconds:.1f}")
            row(name, len(S), k, f"{proof.value:.9g}", percent(c.gap), c.method, f"{c.seconds:.2f}", *tail)
    print(
        f"\ncertify: median gap {percent(float(np.median(certified)))} %, 90 % quantile "
        f"{percent(float(np.quantile(certified, 0.9)))} %, largest {percent(max(certified))} %; "
        f"best_subset: {sum(proofs)} of {len(proofs)} proven to 1e-6 within 10 s."
    )


def wide() -> None:
    head("Factor model, 200 samples × 20,000 variables, k = 20", "scale", "gap %", "bound", "s", "peak memory, GB")
    X = factor_data(200, 20_000)
    for scale in (False, True):
        model = GPower(1, cardinality=20, scale=scale).fit(X)
        c = certify(model, X, max_time=50)[0]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        row(scale, percent(c.gap), c.method, f"{c.seconds:.1f}", f"{peak:.1f}")


def genes(path: Path) -> None:
    X = expression(path)
    title = f"Gene expression, {X.shape[0]} samples × {X.shape[1]} genes, two components of 20, 30 s each"
    head(title, "scale", "component", "gap %", "bound", "s")
    for scale in (False, True):
        model = GPower(2, cardinality=20, scale=scale).fit(X)
        for j, c in enumerate(certify(model, X, max_time=30), start=1):
            row(scale, j, percent(c.gap), c.method, f"{c.seconds:.1f}")


def main() -> None:
    """Print every table, or those that ``--only`` names."""
    options = arguments()
    with threadpoolctl.threadpool_limits(options.threads):
        print(f"{options.threads} threads, NumPy {np.__version__}")
        for name, table in (("wide", wide), ("pitprops", pitprops), ("gaussian", noise)):
            if options.only in ("", name):
                table()
        if options.expression is not None and options.only in ("", "expression"):
            genes(options.expression)
        if options.data is not None and options.only in ("", "public"):
            public(options.data)


if __name__ == "__main__":
    main()
