"""Random fits with covariates against fits to explicit residuals; a program, ``python tests/fuzz/covariates.py``.

300 tables, each as an array, a Fortran array, a frame, CSR, CSC, zarr, Dask, on a simulated device and, unweighted, as
a covariance: components, variances and scores agree to 1e-8 relative to their size. Every other table is treated as a
large one, which is neither loaded nor copied. Each case has its own seed: ``python tests/fuzz/covariates.py 17``
repeats one. Some minutes; twenty times as many tables with ``FUZZ=long``. The exit code is 1 after a difference or a
traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings

import numpy as np
import pandas as pd
from tests.unit.test_covariates import CONTAINERS, residualize, to_array

from gpower import GPower
from gpower.validation import prepare

SMALL_SIZES = {name: getattr(prepare, name) for name in ("MAX_DIRECT_ENTRIES", "MAX_UPCAST_ENTRIES")}
N_TABLES = 300 * (20 if os.environ.get("FUZZ") == "long" else 1)
TOLERANCE = 1e-8


def make_case(seed):
    """Return a table, its covariates as a frame and as numbers, weights or None, and the options of a fit."""
    rng = np.random.default_rng(seed)
    p, n, c = rng.integers(12, 80), rng.integers(4, 40), rng.integers(1, 4)
    numbers = rng.standard_normal((p, c)) * 10.0 ** rng.integers(-2, 3, c) + rng.integers(-5, 6, c)
    labels = rng.choice(list("abc"), p)
    frame = pd.DataFrame(numbers, columns=[f"c{j}" for j in range(c)]).assign(plate=labels)
    design = np.column_stack([numbers, labels[:, None] == np.unique(labels)])
    X = rng.standard_normal((p, n)) + 2 * rng.standard_normal((p, 1)) * (np.arange(n) < n / 2)
    X += (design - design.mean(axis=0)) @ (
        rng.standard_normal((design.shape[1], n)) / design.std(axis=0).clip(0.1)[:, None]
    )
    X = np.where(rng.random(X.shape) < rng.uniform(0.3, 1.0), X + rng.integers(0, 3), 0.0)
    k = int(rng.integers(2, max(3, n // 2)))
    options = {"scale": bool(rng.integers(2)), "center": bool(rng.integers(4) > 0)}
    options |= {"cardinality": k} if rng.integers(2) else {"gamma": float(rng.uniform(0, 0.3))}
    return X, frame, design, rng.uniform(0.2, 2.0, p) if rng.integers(2) else None, options


def list_differences(seed):
    """Yield a line for each container whose fit is not that of the residuals."""
    X, frame, design, weight, options = make_case(seed)
    rest = residualize(X, design, weight, options["center"])
    expected = GPower(1, **options).fit(rest, sample_weight=weight)
    scores = expected.transform(rest)
    for name, container in CONTAINERS.items():
        model = GPower(1, **options).fit(container(X), sample_weight=weight, covariates=frame)
        found = model.transform(container(X), covariates=frame)
        found = to_array(found.compute() if hasattr(found, "compute") else found)
        pairs = [
            (to_array(model.components_), expected.components_),
            (model.explained_variance_, expected.explained_variance_),
            (found, scores),
        ]
        errors = [np.abs(one - other).max() / max(np.abs(other).max(), 1e-300) for one, other in pairs]
        if not max(errors) <= TOLERANCE:
            yield f"{seed}: {name} {X.shape} {options}: differs by {max(errors):.1e}"
    if weight is None and options["center"]:
        S, columns = np.cov(np.column_stack([X, design]).T), list(range(X.shape[1], X.shape[1] + design.shape[1]))
        plain = {name: value for name, value in options.items() if name in ("cardinality", "gamma")}
        model = GPower(1, covariance="precomputed", **plain).fit(S, covariates=columns)
        own = GPower(1, **plain).fit(rest)
        error = np.abs(model.components_[:, : X.shape[1]] - own.components_).max()
        if not error <= TOLERANCE:
            yield f"{seed}: covariance {X.shape} {plain}: differs by {error:.1e}"


def main(seeds):
    warnings.simplefilter("ignore")
    failures = []
    for seed in seeds:
        for name, size in SMALL_SIZES.items():
            setattr(prepare, name, 0 if seed % 2 else size)
        try:
            failures += list_differences(seed)
        except Exception:
            failures.append(f"{seed}: {traceback.format_exc()}")
    print(*failures, f"{len(seeds)} tables with covariates, {len(failures)} failures", sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main([int(seed) for seed in sys.argv[1:]] or range(N_TABLES)))
