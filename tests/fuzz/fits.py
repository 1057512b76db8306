"""Random fits and certificates against plain NumPy; run as a program, ``python tests/fuzz/fits.py``, not by pytest.

Every number that a fit reports is computed again from its definition, and every certificate is compared with the
best of all supports. Cases are seeded one by one, so that each can be repeated: ``python tests/fuzz/fits.py fit 17``.
Some minutes; twenty times as many cases with ``FUZZ=long``. The exit code is 1 after a wrong number or a traceback.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings

import numpy as np
import scipy.sparse as sp
from tests.enumeration import find_best_variance

from gpower import GPower, certify

FITS, CERTIFICATES = 2000, 1000
LONGER = 20 if os.environ.get("FUZZ") == "long" else 1
DEFLATIONS = ("schur", "projection", "orthogonalized")


# --- random cases ---


def table(rng, most_samples=40, most_features=15):
    """Return a random table and its kind."""
    p, n = int(rng.integers(3, most_samples)), int(rng.integers(2, most_features))
    X = rng.standard_normal((p, n))
    kind = rng.choice(
        ["gaussian", "factor", "low rank", "twins", "near twins", "offset", "units", "counts", "constant"]
    )
    if kind == "factor":
        X[:, : n // 2] += 3 * rng.standard_normal((p, 1))
    elif kind == "low rank":
        rank = int(rng.integers(1, min(p, n) + 1))
        X = rng.standard_normal((p, rank)) @ rng.standard_normal((rank, n))
    elif kind in ("twins", "near twins"):
        X[:, rng.integers(n)] = X[:, rng.integers(n)] + (1e-5 * X[:, 0] if kind == "near twins" else 0)
    elif kind == "offset":
        X += 10.0 ** rng.integers(1, 6)
    elif kind == "units":
        X *= 10.0 ** rng.uniform(-3, 3, n)
    elif kind == "counts":
        X = rng.poisson(1.5, (p, n)).astype(float)
    elif kind == "constant":
        X[:, rng.random(n) < 0.4] = 3.0
    return X, str(kind)


def options_for(rng, n, p):
    """Return random compatible parameters of a model."""
    m = int(rng.integers(1, min(n, 4) + 1))
    options = {"n_components": m, "center": bool(rng.random() < 0.8), "scale": bool(rng.random() < 0.3)}
    options["positive"] = bool(rng.random() < 0.15)
    sparsity = rng.choice(["cardinality", "each", "gamma", "l1_bound"], p=[0.45, 0.15, 0.3, 0.1])
    options["penalty"] = str(rng.choice(["l0", "l1"]))
    if sparsity == "cardinality":
        options["cardinality"] = int(rng.integers(1, n + 1))
    elif sparsity == "each":
        options["cardinality"] = [int(k) for k in rng.integers(1, n + 1, m)]
    elif sparsity == "gamma":
        options["gamma"] = float(rng.uniform(0, 0.9))
    else:
        options |= {"l1_bound": float(rng.uniform(1, n)), "penalty": "l0"}
    if sparsity != "l1_bound" and m <= p and rng.random() < 0.2:
        options["method"] = "block"
    else:
        options["deflation"] = str(rng.choice(DEFLATIONS))
    return options


def wrap_table(rng, X):
    """Return the table in a random container, and the name of the container."""
    makers = {
        "array": np.asarray,
        "Fortran": np.asfortranarray,
        "view": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        "CSR": sp.csr_array,
        "CSC": sp.csc_array,
        "list": np.ndarray.tolist,
    }
    kind = str(rng.choice(list(makers), p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1]))
    return makers[kind](X), kind


# --- checks in plain NumPy ---


def standardized(X, w, center, scale):
    """Return A, the means, the scales and the divisor of variances by their definitions."""
    weight = np.ones(len(X)) if w is None else w
    divisor = weight.sum() - weight @ weight / weight.sum()
    divisor = divisor if divisor > 1e-12 * weight.sum() else 1.0
    mean = weight @ X / weight.sum()
    varies = np.ptp(X[weight > 0], axis=0) > 0
    spread = np.sqrt(weight @ (X - mean) ** 2 / divisor)
    scales = np.where(varies & bool(scale), spread, 1.0)
    means = mean if center else np.zeros_like(mean)
    A = np.sqrt(weight)[:, None] * np.where(varies | (not center), (X - means) / scales, 0.0)
    return A, means, scales, divisor


def adjusted_variances(Y):
    """Compute the squared norms of the columns outside the span of columns of larger norm, by Gram–Schmidt, twice.

    Among columns of equal norm, the one with the largest remainder comes first.
    """
    own = np.sum(Y**2, axis=0)
    sizes = np.round(own / max(own.max(initial=0), 1e-300), 9)
    basis, out, todo = [], np.zeros(own.size), list(range(own.size))
    while todo:
        tied = [j for j in todo if sizes[j] == max(sizes[todo])]
        rests = [_without(Y[:, j], basis) for j in tied]
        left = np.array([np.linalg.norm(rest) for rest in rests])
        at = int(np.argmax(left >= left.max() * (1 - 1e-9)))
        todo.remove(tied[at])
        if left[at] > 1e-9 * np.sqrt(own[tied[at]]) and left[at] > 0:
            basis.append(rests[at] / left[at])
            out[tied[at]] = left[at] ** 2
    return out


def _without(y, basis):
    """Return a vector less its projection onto orthonormal vectors."""
    for _ in range(2):
        for q in basis:
            y = y - (q @ y) * q
    return y


def assert_close(found, expected, what, rtol=1e-6, atol=0.0):
    """Raise an AssertionError that names the quantity if two results differ."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    if found.shape != expected.shape or not np.all(np.abs(found - expected) <= atol + rtol * np.abs(expected)):
        raise AssertionError(f"{what}: {found} instead of {expected}")


def check_fit(rng):
    """Check every number of one fit."""
    X, kind = table(rng)
    p, n = X.shape
    options = options_for(rng, n, p)
    data, container = wrap_table(rng, X)
    w = rng.uniform(0.1, 3, p) * 10.0 ** rng.integers(-4, 4) if rng.random() < 0.3 else None
    description = f"{kind} {p} × {n} as {container}, {options}" + ("" if w is None else ", weighted")
    model = GPower(**options).fit(data, sample_weight=w)
    A, mean, scale, divisor = standardized(X, w, options["center"], options["scale"])
    Z, k = model.components_, model.cardinality_
    size = float(np.linalg.norm(A)) ** 2
    noise = 1e-9 * size * (1 + np.max(np.abs(mean) / np.maximum(np.linalg.norm(A, axis=0), 1e-300), initial=0) * 1e-6)
    assert np.all(np.isfinite(Z)), description
    assert_close(np.linalg.norm(Z, axis=1), (k > 0).astype(float), f"norms, {description}")
    assert_close(k, np.count_nonzero(Z, axis=1), f"cardinality, {description}")
    tops = [np.argmax(np.abs(z) >= np.abs(z).max() * (1 - 1e-6)) for z in Z]  # the first of equal ones
    assert all(z[top] >= 0 for z, top in zip(Z, tops, strict=True)), f"signs, {description}"
    assert_close(model.mean_, mean, f"means, {description}", atol=1e-9 * np.max(np.abs(X)))
    assert_close(model.scale_, scale, f"scales, {description}")
    Y = A @ Z.T
    assert_close(
        model.explained_variance_, adjusted_variances(Y) / divisor, f"variances, {description}", 1e-5, noise / divisor
    )
    ratio = model.explained_variance_ * divisor / size if size > 0 else np.zeros(len(Z))
    assert_close(model.explained_variance_ratio_, ratio, f"shares, {description}", atol=1e-9)
    plain = (X - mean) / scale
    rounding = 1e-8 * np.max(np.abs(X / scale), initial=1)
    assert_close(model.transform(data), plain @ Z.T, f"scores, {description}", 1e-6, rounding)
    span = np.linalg.svd(Z.T, full_matrices=False)
    span = span[0][:, span[1] > 1e-6]
    inside = np.sum((plain @ span) ** 2) / np.sum(plain**2) if np.any(plain) else 0.0
    assert_close(model.score(data), inside, f"score, {description}", 1e-5, 1e-7)
    check_sparsity(model, A, options, description)


def check_sparsity(model, A, options, description):
    """Check that a fit has the requested sparsity and that no value exceeds the best possible one."""
    Z, n = model.components_, A.shape[1]
    if options["positive"]:
        assert np.all(Z >= 0), f"negative loadings, {description}"
    if "l1_bound" in options:
        limit = np.sqrt(options["l1_bound"]) * (1 + 1e-6)
        assert np.all(np.abs(Z).sum(axis=1) <= limit), f"absolute sums, {description}"
    if "cardinality" not in options:
        return
    expected = np.broadcast_to(options["cardinality"], len(Z))
    assert np.all(model.cardinality_ <= expected), f"more variables than asked for, {description}"
    if "method" in options or options["penalty"] != "l0":
        return
    value = float(np.sum((A @ Z[0]) ** 2))
    assert_close(model.objective_[0], value, f"objective, {description}", 1e-6, 1e-9 * np.linalg.norm(A) ** 2)
    if n <= 9 and not options["positive"]:
        best = find_best_variance(A.T @ A, int(expected[0]))
        limit = best * (1 + 1e-9) + 1e-9 * np.linalg.norm(A) ** 2
        assert value <= limit, f"{value} above the best, {best}, {description}"


def deflate(A, z, rule, basis):
    """Return A deflated by a component by the definition of the rule; a component of only rounding is not removed."""
    if rule == "schur":
        y = A @ z
        length = np.linalg.norm(y)
        return A if length <= 1e-7 * np.linalg.norm(A) else A - np.outer(y, y @ A) / length**2
    if rule == "projection":
        return A - np.outer(A @ z, z)
    z = _without(z, basis)
    if np.linalg.norm(z) <= 1e-7:
        return A
    basis.append(z / np.linalg.norm(z))
    return A - np.outer(A @ basis[-1], basis[-1])


def check_certificate(rng):
    """Check the certificates of some components against all supports."""
    X, kind = table(rng, 20, 8)
    if not np.ptp(X, axis=0).any():
        return
    n, rule = X.shape[1], str(rng.choice(DEFLATIONS))
    m = int(rng.integers(1, min(n, 4) + 1))
    if rng.random() < 0.5:
        Z = GPower(m, cardinality=int(rng.integers(1, n + 1)), deflation=rule).fit(X).components_
    else:
        Z = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.6)
        if m > 1 and rng.random() < 0.3:
            Z[-1] = Z[0]
    A = X - X.mean(axis=0)
    precomputed = bool(rng.random() < 0.3)
    given = {"covariance": "precomputed"} if precomputed else {}
    description = f"{kind} {X.shape[0]} × {n}, {rule}, {'covariance' if precomputed else 'data'}"
    proofs = certify(Z, A.T @ A if precomputed else X, deflation=rule, max_time=0.05, **given)
    size, basis = float(np.linalg.norm(A)) ** 2, []
    noise = (1e-6 if precomputed else 1e-9) * size
    for j, proof in enumerate(proofs):
        length = np.linalg.norm(Z[j])
        z = Z[j] / length if length > 0 else Z[j]
        value, truth = float(np.sum((A @ z) ** 2)), find_best_variance(A.T @ A, max(int(np.count_nonzero(z)), 1))
        assert_close(proof.value, value, f"value of component {j}, {description}", 1e-6, noise)
        where = f"component {j}, {description}"
        assert proof.upper_bound >= truth * (1 - 1e-9) - noise, f"bound {proof.upper_bound} < {truth}, {where}"
        most = value * (1 + 2 * proof.tol) + 2 * noise if proof.optimal else np.inf
        assert truth <= most, f"{value} called optimal below {truth}, {where}"
        if length > 0:
            A = deflate(A, z, rule, basis)


# --- the program ---


def run(what, check, count):
    """Run the cases, print wrong numbers and tracebacks, and return how many there were."""
    failures, begin = 0, time.perf_counter()
    for i in range(count):
        try:
            check(np.random.default_rng([20, len(what), i]))
        except Exception:
            failures += 1
            print(f"{what} {i}:")
            traceback.print_exc()
    print(f"{what}s: {count} checked, {failures} failures, {time.perf_counter() - begin:.0f} s")
    return failures


CHECKS = {"fit": (check_fit, FITS), "certificate": (check_certificate, CERTIFICATES)}


def main(words):
    """Run all cases, or the one that is named."""
    warnings.simplefilter("ignore")
    if words:
        CHECKS[words[0]][0](np.random.default_rng([20, len(words[0]), int(words[1])]))
        return 0
    return int(sum(run(what, check, LONGER * count) for what, (check, count) in CHECKS.items()) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
