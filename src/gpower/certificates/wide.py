"""Bounds for more variables than an n × n matrix is wanted for: products with blocks of columns alone."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array
from gpower.certificates.bounds import least
from gpower.certificates.clock import Clock
from gpower.certificates.eigenvalues import largest_eigenvalue, largest_sparse_eigenvalue
from gpower.operators.base import Operator

#: Entries of Σ that are kept, columns treated at once, and columns that tell how large the entries are.
ENTRIES, BLOCK, SAMPLE = 12_000_000, 256, 128
#: Samples for which a p × p matrix is formed.
MOST_SAMPLES = 3000
#: Thresholds tried, down to this share of the largest that can help.
THRESHOLDS, LOWEST = 6, 0.4


def sample_gram(operator: Operator) -> Array:
    """A Aᵀ, (p, p) in float64."""
    p, n = operator.shape
    K = np.zeros((p, p))
    for i in range(0, n, BLOCK):
        A = operator.columns(np.arange(i, min(i + BLOCK, n))).astype(np.float64)
        K += A @ A.T
    return K


def whole_eigenvalue(operator: Operator) -> float:
    """λmax(Σ) of all variables, as that of A Aᵀ where there are samples; infinite for too large a matrix."""
    if operator.shape[0] > MOST_SAMPLES:
        return np.inf
    if not operator.has_samples:
        return largest_eigenvalue(np.asarray(operator.gram(np.arange(operator.shape[1])), np.float64))
    return largest_eigenvalue(sample_gram(operator))


def wide_soft_threshold(operator: Operator, k: int, upper: float, clock: Clock) -> float:
    """The soft-threshold bound over all variables, min_t λmax(soft_t(Σ)) + kt, with few entries of Σ above t.

    Thresholds are tried from upper/k, where kt alone is no better than what is known, down to a share of it above
    which no more than ENTRIES entries are expected. A variable of variance at most t is left out, by (F) of `bounds`
    at no cost. What is left falls into blocks of connected variables, each bounded by LAPACK or, if large, by
    Collatz–Wielandt. Entries that are off by ε are paid for by kε.
    """
    squares = operator.column_norms.astype(np.float64) ** 2
    epsilon = 8 * operator.shape[0] * float(np.finfo(operator.dtype).eps) * float(np.max(squares, initial=0))
    high = upper / k
    low = max(_lowest_threshold(operator, squares), LOWEST * high)
    if not low < high:
        return np.inf
    kept = np.flatnonzero(squares > low)
    if not kept.size:
        return k * (low + epsilon)
    Sigma = _large_entries(operator, kept, low, clock)
    if Sigma is None:
        return np.inf

    def value(t: float) -> float:
        soft = Sigma.copy()
        soft.data = np.sign(soft.data) * np.maximum(np.abs(soft.data) - t, 0)
        members = np.flatnonzero(squares[kept] > t)
        part = sp.csr_array(soft[members][:, members]) if members.size < kept.size else soft
        part.eliminate_zeros()
        return np.inf if clock.expired else largest_sparse_eigenvalue(part) + k * (t + epsilon)

    return least(value, np.linspace(high, low, THRESHOLDS))[0]


def _lowest_threshold(operator: Operator, squares: Array) -> float:
    """The size that about ENTRIES entries of Σ exceed, from some columns at random."""
    n = squares.size
    idx = np.sort(np.random.RandomState(0).choice(n, min(SAMPLE, n), replace=False))
    sizes = np.abs(operator.correlate(operator.columns(idx)))
    return float(np.quantile(sizes, max(0.0, 1 - ENTRIES / n**2)))


def _large_entries(operator: Operator, kept: Array, threshold: float, clock: Clock) -> sp.csr_array | None:
    """Σ over some variables without the entries up to a threshold; None if they are too many or the clock expires."""
    parts, total = [], 0
    for i in range(0, kept.size, BLOCK):
        rows = np.asarray(operator.correlate(operator.columns(kept[i : i + BLOCK]))[kept].T, np.float64)
        rows[np.abs(rows) <= threshold] = 0.0
        parts.append(sp.csr_array(rows))
        total += parts[-1].nnz
        if clock.expired or total > 3 * ENTRIES:
            return None
    S = sp.csr_array(sp.vstack(parts, format="csr"))
    return sp.csr_array((S + S.T) / 2)
