"""Find one component of exact cardinality in each of many small covariances at once.

Folds, subsamples and permuted tables of a small table are many problems of the same size. If they are solved one by
one, calls of functions on tiny arrays take most of the time; here each step is one product with the stack of
covariances. The method is a short form of `gpower.solvers.component`: truncated power iterations from many columns,
then swaps of one variable while they raise the variance.

Terms: a stack has q covariances of n variables, S of shape (q, n, n), float64 on the host. There are r starts or
supports; Z are loadings of unit length or zero, of any sign, with n as the last axis, and `supports`, (r, n), are masks
of bool. All arrays are NumPy arrays in float64, masks or integers; arguments are not changed. Of equal values the first
counts, after rounding where rounding could decide. A `FitSpec` is the specification of a fit: ``sparsity``, its kind
(``penalty_family``, ``positive``, and ``has_exchangeable_variables``, whether any variable may replace any other),
``start``, ``n_init``, ``refit.powers`` (empty for no refit), ``deflation``, ``is_block``, ``constraint``,
``regularization`` and ``settings`` of the ascents, with a ``callback`` and ``use_working_set``, None by default.
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array
from gpower.penalties.elementary import Cardinality
from gpower.problem.deflation import SchurDeflation
from gpower.solvers.column_screening import argsort_descending
from gpower.solvers.fit_specification import ExactCardinality, FitSpec

#: Most variables of a covariance that is solved in a stack.
MAX_STACKED_VARIABLES = 128
#: Largest number of entries of the arrays of a stack; larger stacks are solved in parts.
MAX_STACK_ENTRIES = 4_000_000
#: Number of columns that an ascent starts from, steps before most starts are given up, and starts that remain.
MAX_COLUMN_STARTS, N_FIRST_STEPS, N_FINALISTS = 48, 4, 8
#: Most steps of an ascent, and most swaps of a component.
MAX_STACKED_STEPS, MAX_STACKED_SWAPS = 40, 200
#: Relative gain of variance that a swap must bring.
MIN_STACKED_SWAP_GAIN = 1e-7
#: Share of the total variance up to which a component counts as one beyond the rank.
RANK_SHARE = 1e-10
#: Relative gain of variance below which the ascents end.
STACKED_TOLERANCE = 1e-6
#: Relative difference of variance up to which two starts of one covariance count as copies.
COPY_TOLERANCE = 1e-7
#: Decimals, relative to the largest, to which variances are compared when starts and the best support are chosen.
VARIANCE_DECIMALS = 9
#: Smallest divisors: of a variance, which may be zero, and of the squared length that is left without one variable.
MIN_VARIANCE, MIN_SQUARED_LENGTH = 1e-300, 1e-12


def can_solve_in_stack(spec: FitSpec, n_features: int) -> bool:
    """Return whether components of `spec` in `n_features` variables can be found by `find_components_in_stack`.

    They must have exact cardinalities and no rules, starts or settings of their own.
    """
    sparsity, settings = spec.sparsity, spec.settings
    is_plain = isinstance(sparsity, ExactCardinality) and type(sparsity.penalty_family) is Cardinality
    has_own_search = spec.start is not None or spec.n_init is not None or not spec.refit.powers
    return (
        n_features <= MAX_STACKED_VARIABLES
        and is_plain
        and sparsity.has_exchangeable_variables
        and isinstance(spec.deflation, SchurDeflation)
        and not (sparsity.positive or spec.is_block or spec.constraint is not None or spec.regularization)
        and not (has_own_search or settings.callback is not None or settings.use_working_set is not None)
    )


def find_components_in_stack(S: Array, cardinalities: Array, *, local_search: bool = True) -> Array:
    """Return components found one after the other in every covariance, (q, n, m), zero beyond the rank.

    Loadings are of unit length and any sign, in float64, in the order in which they were found.

    Parameters
    ----------
    S : ndarray of shape (q, n, n)
        Covariances, positive semidefinite, of any floating dtype. Everything that is correlated with a component is
        removed before the next one is found.
    cardinalities : ndarray of int of shape (q, m)
        Numbers of variables, from 1 to n, of each component in each covariance; m ≥ 1.
    local_search : bool, default=True
        Swap variables at the end of the ascents.
    """
    S = np.asarray(S, np.float64)
    total = np.trace(S, axis1=1, axis2=2)
    loadings = []
    for cardinality in cardinalities.T:
        Z, variances = solve_covariance_stack(S, cardinality, local_search=local_search)
        has_variance = variances > RANK_SHARE * total
        loadings.append(Z * has_variance[:, None])
        SZ = (S @ Z[:, :, None])[:, :, 0]
        S = S - SZ[:, :, None] * SZ[:, None, :] / np.where(has_variance, variances, np.inf)[:, None, None]
    return np.stack(loadings, axis=-1)


def solve_covariance_stack(
    S: Array, cardinality: Array, *, start_columns: Array | None = None, local_search: bool = True
) -> tuple[Array, Array]:
    """Return a component of every covariance, (q, n), of unit length or zero, and their variances, (q,).

    Parameters
    ----------
    S : ndarray of shape (q, n, n)
        Covariances, float64, positive semidefinite.
    cardinality : ndarray of int of shape (q,)
        Number of variables of each component, from 1 to n.
    start_columns : ndarray of int of shape (q, r), optional
        Columns that ascents start from, r ≥ 1; by default those whose direction explains the most variance.
    local_search : bool, default=True
        Swap variables at the end of the ascents.

    Examples
    --------
    >>> import numpy as np
    >>> S = np.diag([1.0, 3.0, 2.0]) + 0.5
    >>> Z, variances = solve_covariance_stack(np.array([S, S[::-1, ::-1]]), np.array([1, 2]))
    >>> [np.flatnonzero(z).tolist() for z in Z], variances.round(2)
    ([[1], [0, 1]], array([3.5 , 3.71]))
    """
    q, n, _ = S.shape
    size = max(1, MAX_STACK_ENTRIES // (n * n * (N_FINALISTS if local_search else 1)))
    if q > size:
        parts = [
            solve_covariance_stack(
                S[part],
                cardinality[part],
                start_columns=None if start_columns is None else start_columns[part],
                local_search=local_search,
            )
            for part in (slice(i, i + size) for i in range(0, q, size))
        ]
        return np.concatenate([Z for Z, _ in parts]), np.concatenate([variances for _, variances in parts])
    columns = rank_start_columns(S)[:, :MAX_COLUMN_STARTS] if start_columns is None else start_columns
    ends = _ascend(S, np.take_along_axis(S, columns[:, :, None], axis=1), cardinality)  # (q, r, n)
    covariance_index = np.repeat(np.arange(q), ends.shape[1])
    supports = ends.reshape(-1, n) != 0
    if local_search:
        supports = _swap(S, covariance_index, supports)
    Z, variances = _refit(S, covariance_index, supports)
    variances = variances.reshape(q, -1)
    scale = np.maximum(variances.max(axis=1, keepdims=True), MIN_VARIANCE)
    best = np.argmax(np.round(variances / scale, VARIANCE_DECIMALS), axis=1)  # the first of equal ones
    return Z.reshape(ends.shape)[np.arange(q), best], variances[np.arange(q), best]


def rank_start_columns(S: Array) -> Array:
    """Return the columns of covariances S, (q, n, n), by the variance that their direction explains: (q, n) indices.

    The direction of column i is aᵢ, and explains ‖Aᵀaᵢ‖²/‖aᵢ‖². The column of the largest variance comes first, of
    equal ones the one with the smaller index. A column without variance comes last.
    """
    diagonal = np.maximum(np.diagonal(S, axis1=1, axis2=2), MIN_VARIANCE)
    explained = np.sum(S**2, axis=1) / diagonal
    return argsort_descending(explained, VARIANCE_DECIMALS)


def _truncate(W: Array, cardinality: Array) -> Array:
    """Return unit vectors with the largest entries of W, (q, r, n): as many as `cardinality`, (q,); of ties the first.

    "Largest" is by absolute value, and signs stay. A row without non-zero entries stays zero.
    """
    n = W.shape[-1]
    order = np.argsort(-np.abs(W), axis=-1, kind="stable")
    is_kept = np.arange(n) < cardinality[:, None, None]
    keep = np.zeros(W.shape, bool)
    np.put_along_axis(keep, order, np.broadcast_to(is_kept, W.shape), axis=-1)
    Z = np.where(keep, W, 0)
    norms = np.linalg.norm(Z, axis=-1, keepdims=True)
    return Z / np.where(norms > 0, norms, 1)


def _ascend(S: Array, starts: Array, cardinality: Array) -> Array:
    """Return the ends of truncated power iterations from the starts, (q, r, n); from a few of them if there are many.

    S, (q, n, n), are the covariances, `cardinality`, (q,), the numbers of variables, and `starts`, (q, r, n) with r ≥
    1, vectors of any length. The ends are unit loadings with `cardinality` non-zero entries at most, zero for a zero
    start. After a few steps, the `N_FINALISTS` starts of largest variance remain, copies of a better one last, so that
    the order of the ends is not that of the starts.
    """
    W, values = starts, np.zeros(starts.shape[:2])
    for step in range(MAX_STACKED_STEPS):
        Z = _truncate(W, cardinality)
        W = Z @ S
        previous, values = values, np.sum(Z * W, axis=-1)
        if step == N_FIRST_STEPS and W.shape[1] > N_FINALISTS:
            order = argsort_descending(values, VARIANCE_DECIMALS)
            ordered = np.take_along_axis(values, order, axis=1)
            is_copy = np.zeros(order.shape, bool)
            is_copy[:, 1:] = ordered[:, 1:] >= ordered[:, :-1] * (1 - COPY_TOLERANCE)
            best = np.take_along_axis(order, np.argsort(is_copy, axis=1, kind="stable")[:, :N_FINALISTS], axis=1)
            W = np.take_along_axis(W, best[:, :, None], axis=1)
            values = np.take_along_axis(values, best, axis=1)
        elif step > N_FIRST_STEPS and np.all(values <= previous * (1 + STACKED_TOLERANCE)):
            break
    return np.asarray(Z)


def _swap(S: Array, covariance_index: Array, supports: Array) -> Array:
    """Return the supports, (r, n), after swaps of one variable for another while the variance rises.

    `covariance_index`, (r,) of int, is the covariance in S, (q, n, n), of each support. Sizes may differ and do not
    change; an empty support stays empty. `supports` is copied. A support of which no swap helps stops, the others go
    on.

    A swap is evaluated by the variance of the old loadings without one variable, combined with the new variable in the
    best proportion. It is a lower bound on the variance after the swap, so that every swap is a gain.
    """
    supports, active, n = supports.copy(), np.arange(len(supports)), S.shape[1]
    diagonal = np.diagonal(S, axis1=1, axis2=2)
    for _ in range(MAX_STACKED_SWAPS):
        index, used = covariance_index[active], supports[active]
        z, value = _refit(S, index, used)
        columns, is_used = _list_columns(used)  # (r, k)
        rows = S[index[:, None], columns]  # (r, k, n)
        z_in = np.take_along_axis(z, columns, axis=1)
        y = (z_in[:, None, :] @ rows)[:, 0]  # (r, n)
        d, z_sq = diagonal[index], z_in**2
        rest = np.maximum(1 - z_sq, MIN_SQUARED_LENGTH)
        y_in, d_in = (np.take_along_axis(each, columns, axis=1) for each in (y, d))
        without = np.maximum(value[:, None] - 2 * z_in * y_in + z_sq * d_in, 0) / rest  # one variable left out
        cross = (y[:, None, :] - z_in[:, :, None] * rows) ** 2 / rest[:, :, None]
        half = (without[:, :, None] - d[:, None, :]) / 2
        bound = (without[:, :, None] + d[:, None, :]) / 2 + np.sqrt(half**2 + cross)
        bound[~(is_used[:, :, None] & ~used[:, None, :])] = -np.inf
        best = np.argmax(bound.reshape(len(active), -1), axis=1)
        gains = bound.reshape(len(active), -1)[np.arange(len(active)), best] > value * (1 + MIN_STACKED_SWAP_GAIN)
        if not gains.any():
            break
        old, new = np.divmod(best[gains], n)
        active = active[gains]
        supports[active, columns[gains, old]], supports[active, new] = False, True
    return supports


def _refit(S: Array, covariance_index: Array, supports: Array) -> tuple[Array, Array]:
    """Return the leading eigenvectors on the supports, (r, n), and the eigenvalues, (r,).

    S is (q, n, n); `covariance_index`, (r,) of int, is the covariance that each support belongs to; `supports`, (r, n),
    are masks of any size. The vectors have unit norm and any sign; for an empty support vector and value are zero.
    """
    columns, used = _list_columns(supports)
    rows = np.arange(len(supports))[:, None]
    block = S[covariance_index[:, None, None], columns[:, :, None], columns[:, None, :]]
    block *= used[:, :, None] & used[:, None, :]
    values, vectors = np.linalg.eigh(block)
    z = np.where(used, vectors[:, :, -1], 0)
    Z = np.zeros(supports.shape)
    Z[rows, columns] = z
    return Z, np.maximum(values[:, -1], 0) * (np.abs(z).max(axis=1, initial=0) > 0)


def _list_columns(supports: Array) -> tuple[Array, Array]:
    """Return the columns of the masks `supports`, (r, n), as indices, (r, k), and which of them belong to a support.

    k is the largest size of a support, at least 1. The columns of a support come first, in increasing order. A smaller
    support is filled up with other columns, which the second result, (r, k) of bool, marks as false.
    """
    size = max(int(supports.sum(axis=1).max(initial=0)), 1)
    columns = np.argsort(~supports, axis=1, kind="stable")[:, :size]
    return columns, np.take_along_axis(supports, columns, axis=1)
