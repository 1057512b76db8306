"""Where to begin: points at which every unit has an active variable, best guesses first.

One unit: a column of the matrix, the largest first [JNRS10, eq. (32)]; where norms tie, as on standardised
data, the one most correlated with the others. A block: columns chosen by pivoted QR, so that every unit
starts active; the paper's completion by an arbitrary orthonormal complement is `paper_start`.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array, beside, first_largest, largest, rows_of, to_host
from gpower.feasible_sets import Cube, Point
from gpower.formulations import Problem
from gpower.operators.base import Operator
from gpower.penalties import NonNegative, Penalty
from gpower.postprocess import leading_components

#: Probes of the sketch that estimates the row norms of AᵀA; where reads are dear and it decides more, many.
PROBES, REMOTE_PROBES = 16, 64
#: Number of starts of an exact cardinality: starts · n · p stays under WORK, but there are at least FEWEST.
WORK, FEWEST = 1e8, 32


def auto_starts(operator: Operator) -> int:
    """Number of starts of a unit with exact cardinality: as many as fit the work, at least 32, at most n.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> auto_starts(as_operator(np.eye(13), covariance=True)[0])
    13
    """
    p, n = operator.shape
    return int(min(n, max(FEWEST, WORK / (p * n))))


def column_order(
    operator: Operator, norms: Array, count: int, rng: np.random.RandomState, n_probes: int = PROBES
) -> Array:
    """Indices of the `count` most promising columns: by norm, ties by an estimate of ‖Aᵀaᵢ‖.

    `norms` are those of the variance in use. The row norms of AᵀA are estimated by its product with a few random
    signs, two passes at most.
    """
    if count == 1 and int(np.count_nonzero(norms >= norms.max() * (1 - 1e-6))) == 1:
        return np.array([first_largest(norms)])
    rounded = np.round(norms.astype(np.float64) / max(largest(norms), float(np.finfo(norms.dtype).tiny)), 6)
    if np.unique(rounded).size < norms.size:
        probes = beside(norms, rng.choice([-1.0, 1.0], size=(norms.size, n_probes)).astype(operator.dtype))
        secondary = np.sum(operator.correlate(operator.combine(probes)) ** 2, axis=1)
        rounded += 4e-7 * secondary / max(largest(secondary), float(np.finfo(norms.dtype).tiny))  # decides ties alone
    order = to_host(np.argsort(-rounded, kind="stable")[:count])
    return order[to_host(rows_of(norms, order)) > 0]


def unit_starts(problem: Problem, norms: Array, count: int, rng: np.random.RandomState) -> Point:
    """`count` starts of one unit, side by side, with the correlations of all in one product.

    The most promising columns; once they are used up, the first principal component and random combinations.
    """
    idx = column_order(problem.operator, norms, count, rng)
    directions = problem.operator.columns(idx)
    if count > idx.size:
        directions = np.hstack([directions, _beyond_columns(problem.operator, count - idx.size, rng)])
    if isinstance(problem.samples, Cube):
        directions = problem.samples.argmax_linear(directions)
    return _better_sign(problem.penalty, problem.as_batch(directions.shape[1]).feasible_set.point(directions))


def _better_sign(penalty: Penalty, points: Point) -> Point:
    """Points or their opposites, whichever non-negative loadings make more of; signed ones see no difference."""
    if not isinstance(penalty, NonNegative):
        return points
    sign = np.where(penalty.evaluate(-points.C)[0] > penalty.evaluate(points.C)[0], -1, 1).astype(points.C.dtype)
    return Point(points.X * beside(points.X, sign), points.C * beside(points.C, sign))


def _beyond_columns(operator: Operator, count: int, rng: np.random.RandomState) -> Array:
    """The first principal component, then random combinations of the columns."""
    T = rng.standard_normal((operator.shape[1], count)).astype(operator.dtype)
    T[:, 0] = leading_components(operator, 1)[0][:, 0]
    return operator.combine(operator.own(T))


def block_start(problem: Problem) -> Point:
    """The first columns of a pivoted QR factorisation: orthonormal, each near a column of its own."""
    X, C = problem.feasible_set.fresh_directions(problem.mu.size)
    return Point(X, beside(C, problem.mu) * C)


def random_block_start(problem: Problem, rng: np.random.RandomState) -> Point:
    """Orthonormalised random columns of the matrix."""
    norms = problem.operator.column_norms
    everywhere = int(np.count_nonzero(norms > 0)) == norms.size
    candidates = np.arange(norms.size) if everywhere else to_host(np.flatnonzero(norms > 0))
    idx = rng.choice(candidates, size=problem.mu.size, replace=candidates.size < problem.mu.size)
    return problem.feasible_set.point(problem.operator.columns(idx))


def paper_start(problem: Problem, norms: Array, rng: np.random.RandomState) -> Point:
    """The largest-norm column, completed by any orthonormal complement [JNRS10, section 5]."""
    operator, m = problem.operator, problem.mu.size
    first = operator.columns(np.array([first_largest(norms)]))
    if isinstance(problem.samples, Cube):
        return problem.feasible_set.point(problem.samples.argmax_linear(first))
    shape = (operator.shape[0], m - 1)
    rest = operator.own(rng.standard_normal(shape).astype(operator.dtype))
    if operator.has_samples:  # orthogonal to the first column, which must stay as it is
        x = first / np.linalg.norm(first)
        Q, _ = np.linalg.qr(rest - x @ (x.T @ rest))
        rest = Q
        first = x
    return problem.feasible_set.point(np.hstack([first, rest]))
