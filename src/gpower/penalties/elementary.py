"""Penalties as convex functions φ of the correlations C = μ∘AᵀX; they contain no data.

Each penalty is separable over the columns (units) of C and increasing in |c|. Its gradient is a thresholding of C whose
normalised columns are the loadings. Values are the paper's f, so gradients have its factor 2.

Names that all methods share: C, (n, m), are the correlations of n variables and m units, in the dtype of the data, on
the host or the device of the data, and are never changed; T is the gradient at C, of the same shape, dtype and place;
`norms`, (n,), are the largest |aᵢᵀx| over units x, which on spheres are the column norms ‖aᵢ‖, in the same place and
dtype; `mu`, (m,), are the positive weights of the units. `mu` and the parameters γ and k of a penalty, with one entry
per unit, are on the host. A variable is active in a unit where T is not zero. Masks are bool, and where C or `norms`
is. "The level" of a penalty is its γ, k or s.

Helpers for arrays on the host or a device: ``asarray_like(x, values)`` returns a host array `values` where x is, in its
own dtype, ``to_host`` copies to the host, and ``is_device_array`` tells where an array is. ``column_dots(X, Y)`` and
``column_sums(X)`` are sums over the rows, (m,), on the host. ``safe_reciprocal`` is 1/x, and 0 for x = 0.
`SupportRules` are groups, required and excluded variables, and costs; a support is admissible if it agrees with the
rules.

====================== ================================== ===========================================
penalty                φ(c) of one unit                    source
====================== ================================== ===========================================
`L1(gamma)`            Σ (|cᵢ| − γ)₊²                      [JNRS10] problems (7) and (13)
`L0(gamma)`            Σ (cᵢ² − γ)₊                        [JNRS10] problems (10) and (17)
`Cardinality(k)`       sum of the k largest cᵢ²            the constrained problem ‖z‖₀ ≤ k
`L1Ball(s)`            max ⟨c, z⟩, ‖z‖₂ ≤ 1, ‖z‖₁ ≤ √s     SCoTLASS / penalised matrix decomposition
`FixedSupport(P)`      ‖c[P]‖ or ‖c[P]‖²                   [JNRS10] Algorithm 6, or explained variance
`NonNegative(φ)`       φ(c₊)                               non-negative loadings
====================== ================================== ===========================================

[JNRS10] is Journée et al. (2010), Journal of Machine Learning Research 11, 517–553.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from gpower._utils.arrays import (
    Array,
    asarray_like,
    column_dots,
    column_sums,
    is_device_array,
    max_or_zero,
    normalize_columns,
    safe_reciprocal,
    to_host,
)
from gpower._utils.forwarding import forward

if TYPE_CHECKING:
    from gpower.penalties.support_rules import SupportRules


class Penalty(ABC):
    """A convex function of correlations, separable over units; the base class of user-defined penalties.

    C, (n, m), are the correlations of n variables and m units, on the host or a device, in single or double precision.

    Only `evaluate` is required. A penalty that treats variables differently must also implement `restrict`, its
    restriction to some variables. `at_cardinality`, or `at_gamma` with `gamma_max`, let `GPower` set the level of the
    penalty, as paths and cross-validation need. The file `examples/own_penalty.py` defines a penalty.

    Examples
    --------
    The sum of squares selects all variables, which is ordinary PCA.

    >>> import numpy as np
    >>> from gpower import GPower
    >>> from gpower.penalties.elementary import Penalty
    >>> class Squares(Penalty):
    ...     def evaluate(self, C):
    ...         return np.sum(C**2, axis=0), 2 * C
    ...     def restrict(self, idx):
    ...         return self
    >>> X = np.random.default_rng(0).standard_normal((20, 4))
    >>> GPower(1, penalty=Squares()).fit(X).cardinality_
    array([4])
    """

    #: Whether loadings are non-negative.
    is_nonnegative = False
    #: Whether any variable may replace any other in a support without making it inadmissible; signs are free.
    has_exchangeable_variables = False
    #: Whether a bound beyond that on the norm limits the loadings, so that a refit on their support would violate it.
    has_loading_bound = False
    #: Whether all variables of a unit have the same threshold, so that |c| orders them by importance.
    has_uniform_threshold = True
    #: Whether the loadings of largest variance on a support are the best ones, so that a local search may swap selected
    #: variables, or groups, for others if that raises the variance.
    supports_local_search = False

    @property
    def support_rules(self) -> SupportRules | None:
        """Return the rules for admissible supports, or None if all supports are admissible."""
        return None

    @property
    def max_cardinality(self) -> int:
        """Return the largest number of variables of a unit, or zero if it is not known in advance.

        It counts variables even where the level counts groups or costs, and may exceed the number of variables.
        """
        return 0

    @property
    def relaxation(self) -> Penalty:
        """Return the penalty by which many starts of one unit are compared: this one, or a faster upper bound on it."""
        return self

    @abstractmethod
    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the values per unit, (m,), and the gradient T, (n, m), in a new array where C, (n, m), is.

        T has the dtype of C and is exactly zero for variables that are not active; a unit may have no active ones, and
        then its value is zero. Values are not negative, on the host or where C is. C is not changed.
        """

    def value_and_gradient(self, C: Array) -> tuple[float, Array]:
        """Compute φ(C), summed over units, and the gradient φ′(C), (n, m), where C is, in its dtype."""
        values, gradient = self.evaluate(C)
        return float(values.sum()), gradient

    def loadings(self, C: Array) -> Array:
        """Compute the unit-norm loadings, (n, m), that attain φ at C; zero in a unit without active variables.

        They are the gradient with normalised columns, where C is, in its dtype, with the signs of C.
        """
        _, gradient = self.evaluate(C)
        return normalize_columns(gradient)

    def screen(self, norms: Array, mu: Array) -> Array:
        """Return the mask, (n,), of variables that may be active at some point (static screening).

        `norms`, (n,), are the largest |aᵢᵀx| over units x, so that |cᵢⱼ| ≤ μⱼ·norms[i] at every point. The mask is
        where `norms` is. It may be true for variables that are never active, but not false for one that can be.
        """
        return norms > 0

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Compute the ratio of |C| (or C₊) to the threshold of its unit, (n, m); above one a variable is active.

        Pass the gradient T at C if it is known. The ratio is where C is, in its dtype, and is used to rank variables
        that are not active. By default it is infinite where the gradient is non-zero, and elsewhere |c| over the
        smallest active |c|, at most one; it is zero in a unit without active variables.
        """
        magnitude = np.abs(C)
        if T is None:
            _, T = self.evaluate(C)
        active = T != 0
        smallest = np.min(np.where(active, magnitude, np.inf), axis=0)
        ratio = magnitude / np.maximum(smallest, get_min_divisor(C))
        return np.where(active, np.inf, np.minimum(ratio, 1))

    def restrict(self, idx: Array) -> Penalty:
        """Return the penalty of the variables `idx` (indices on the host) alone: a penalty of C[idx].

        The level stays the same. Penalties that treat all variables alike return themselves.
        """
        return self

    def select_unit(self, j: int) -> Penalty:
        """Return the penalty with the rules of unit j alone; here itself, because no rule depends on the unit.

        The level stays that of all units: the caller sets it with `at_gamma` or `at_cardinality`.
        """
        return self

    def start_score(self, norms: Array) -> Array:
        """Return the scores, (n,), by which variables are chosen as starts, largest first: here `norms` itself.

        Variables of score zero are no starts. `norms`, (n,), are the largest |aᵢᵀx| over units x; the scores are not
        negative, where `norms` is, in its dtype.
        """
        return norms

    def count_selected(self, pattern: Array) -> Array:
        """Count what a cardinality limits in a pattern, (n, m) of bool, per unit: here variables, elsewhere groups.

        The pattern may be on a device; the counts, (m,) of int, are on the host.
        """
        return to_host(np.count_nonzero(pattern, axis=0))

    def select_pattern(self, scores: Array, counts: Array) -> Array:
        """Return the pattern, (n, m) of bool, of the `counts[j]` variables with the largest scores in each unit j.

        `scores`, (n, m), are non-negative, on the host or a device, where the pattern is too; `counts`, (m,) of int, is
        on the host. With more than n requested, all variables are in the pattern. Which of equal scores are selected is
        not specified.
        """
        pattern = np.zeros_like(scores, dtype=bool)
        for j, k in enumerate(counts):
            pattern[find_largest_rows(scores[:, j : j + 1], k)[:, 0], j] = True
        return pattern

    def with_sign(self, other: Penalty) -> Penalty:
        """Return the penalty `other`, made non-negative if this one is; here unchanged, because signs are free."""
        return other

    def at_cardinality(self, k: Array) -> Penalty:
        """Return this kind of penalty for kⱼ variables in unit j; raise ValueError if the kind has no such parameter.

        k, (m,) of int, is on the host; for penalties with groups it has numbers of groups, or sums of costs in float64.
        """
        raise ValueError(f"{type(self).__name__} cannot fix the number of variables: leave cardinality None.")

    def at_gamma(self, gamma: Array) -> Penalty:
        """Return this kind of penalty at absolute γⱼ in unit j, γ of shape (m,); raise ValueError if it has no γ.

        γ is on the host, in the dtype of the data, so that results keep that dtype.
        """
        raise ValueError(f"{type(self).__name__} has no gamma: leave gamma None.")

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """Compute the smallest γ per unit, (m,), at which no variable is active at any point, float64 on the host.

        `norms`, (n,), are the largest |aᵢᵀx| over units x, where the data are. The result is NaN for a penalty without
        γ.
        """
        return np.full(len(mu), np.nan)


@dataclass(frozen=True, eq=False)
class _ThresholdPenalty(Penalty):
    """A penalty of one variable after the other: a variable is active in unit j where |c|^power exceeds γⱼ.

    Parameters
    ----------
    gamma : ndarray of shape (m,)
        Absolute γ of each unit, non-negative, on the host, in the dtype of C, so that ratios keep that dtype.
    """

    gamma: Array
    #: Power of |c| that is compared with γ.
    power: ClassVar[int]

    def screen(self, norms: Array, mu: Array) -> Array:
        """Return the mask, (n,), of variables with (μⱼ‖aᵢ‖)^power > γⱼ for some unit; ‖aᵢ‖ is norms[i].

        These are [JNRS10, equations (8) and (11)], the latter with the weight squared, as it has to be. The mask is
        where `norms` is.
        """
        largest = (norms[:, None] * asarray_like(norms, mu)) ** self.power
        return np.any(largest > asarray_like(norms, self.gamma), axis=1)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Compute |c| over the threshold γ^(1/power), (n, m); the gradient T is not used.

        If γ is zero, every |c| of ordinary size is far above one and c = 0 is at zero. The ratio is where C is, in its
        dtype.
        """
        return np.abs(C) / asarray_like(C, np.maximum(self.gamma ** (1 / self.power), get_min_divisor(C)))

    def at_gamma(self, gamma: Array) -> Self:
        """Return the penalty at another γ, (m,)."""
        return replace(self, gamma=gamma)

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """Compute (μⱼ max‖aᵢ‖)^power, (m,), float64 on the host; zero if there is no variable."""
        return (np.asarray(mu, float) * max_or_zero(norms)) ** self.power


@dataclass(frozen=True, eq=False)
class L1(_ThresholdPenalty):
    """Penalty Σ (|c| − γⱼ)₊², soft thresholding.

    Parameters
    ----------
    gamma : ndarray of shape (m,)
        Absolute γ of each unit.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import L1
    >>> value, gradient = L1(np.array([1.0])).value_and_gradient(np.array([[3.0], [-0.5]]))
    >>> value, gradient.ravel().tolist()
    (4.0, [4.0, -0.0])
    """

    power = 1

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the sums of squares of the soft-thresholded entries, (m,) on the host, and the gradient, (n, m).

        The gradient 2 sign(c)(|c| − γ)₊ is a new array where C is; zeros may be negative.
        """
        T = np.abs(C)
        T -= asarray_like(T, self.gamma)
        np.maximum(T, 0, out=T)
        values = column_dots(T, T)
        T += T
        return values, np.copysign(T, C, out=T)


@dataclass(frozen=True, eq=False)
class L0(_ThresholdPenalty):
    """Penalty Σ (c² − γⱼ)₊, hard thresholding.

    Parameters
    ----------
    gamma : ndarray of shape (m,)
        Absolute γ of each unit.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import L0
    >>> value, gradient = L0(np.array([1.0])).value_and_gradient(np.array([[3.0], [-0.5]]))
    >>> value, gradient.ravel().tolist()
    (8.0, [6.0, -0.0])
    """

    power = 2

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the sums of the excess of the squares over γ, (m,) on the host, and the gradient, (n, m).

        The gradient is 2c where c² > γ and zero elsewhere, in a new array where C is.
        """
        excess = C * C
        excess -= asarray_like(C, self.gamma)
        np.maximum(excess, 0, out=excess)
        T = C * (excess > 0)
        T += T
        return column_sums(excess), T


#: Number of values that a device sorts; of more values a sample of this size estimates the k-th largest.
DEVICE_SORT_SAMPLE_SIZE = 1 << 14
#: Additions to the expected rank in that sample: to twice the number of values sought, and to the rank. They make it
#: unlikely that too few values lie above the estimate, which costs a sort of all values.
EXTRA_VALUES, EXTRA_RANKS = 64, 8
#: Number of values of several units up to which they are ordered at once; the indices take 8 MB.
MAX_JOINTLY_ORDERED = 1 << 20


def get_min_divisor(C: Array) -> float:
    """Return the smallest divisor for the dtype of C, which replaces a zero threshold so that ratios stay finite."""
    return float(np.sqrt(np.finfo(C.dtype).tiny))


def find_largest_rows(values: Array, k: int) -> Array:
    """Return the row indices of the k largest values of each column, (k, m), in no particular order.

    `values`, (n, m), contain no NaN; they and the indices are on the host or both on a device. k is at least 1. For
    k ≥ n the indices are all rows, (n, m), in an array that must not be written to. Which of several equal values are
    chosen is not specified.
    """
    n = values.shape[0]
    if k >= n:
        return np.broadcast_to(asarray_like(values, np.arange(n)[:, None]), (n, values.shape[1]))
    if is_device_array(values) and n > DEVICE_SORT_SAMPLE_SIZE:
        return np.stack([_find_largest_on_device(values[:, j], k) for j in range(values.shape[1])], axis=1)
    if values.shape[1] == 1:
        return np.argpartition(values[:, 0], n - k)[n - k :, None].copy()  # a view would keep all n indices
    return np.argpartition(values.T, n - k, axis=1)[:, n - k :].T  # correlations are in Fortran order


def _find_largest_on_device(values: Array, k: int) -> Array:
    """Return the indices, (k,), of the k < n largest values, (n,), on a device, as an array on that device.

    n is larger than `DEVICE_SORT_SAMPLE_SIZE`. Only the values above a level that a sample suggests are sorted; all
    values if these are fewer than k. The indices are in the order of increasing values, which callers do not use.
    """
    n = values.size
    sample = np.sort(values[:: max(1, n // DEVICE_SORT_SAMPLE_SIZE)])
    rank = min(sample.size, int(np.ceil(sample.size * (2 * k + EXTRA_VALUES) / n)) + EXTRA_RANKS)
    above = np.flatnonzero(values >= sample[sample.size - rank])
    if above.size < k:
        return np.argsort(values)[n - k :]
    return above[np.argsort(values[above])[above.size - k :]]


@dataclass(frozen=True, eq=False)
class Cardinality(Penalty):
    """Penalty that sums the kⱼ largest squares, a maximum of convex quadratics, attained by kⱼ loadings.

    Parameters
    ----------
    k : ndarray of int of shape (m,) or (1,)
        Number of variables of each unit, or one number for all; at least 1, on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import Cardinality
    >>> value, gradient = Cardinality(np.array([1])).value_and_gradient(np.array([[3.0], [-0.5]]))
    >>> value, gradient.ravel().tolist()
    (9.0, [6.0, 0.0])
    """

    k: Array
    has_exchangeable_variables = supports_local_search = True

    @property
    def max_cardinality(self) -> int:
        """Return the largest k, a number of variables; it may exceed the number of variables there are."""
        return int(np.max(self.k))

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the sums of squares of the k largest entries, (m,), and the gradient, (n, m), where C is.

        The gradient is 2c for the k largest |c|, zero elsewhere. A k above n selects all variables. Which of equal |c|
        are selected is not specified. Units of one k are ordered together, unless |C| and the indices that order it
        would take too much memory. The values are on the host, in the dtype of C.
        """
        m = C.shape[1]
        order: Literal["C", "F"] = "C" if C.flags.c_contiguous else "F"
        T = np.zeros(C.shape, C.dtype, order, like=C)  # unlike `zeros_like`, takes no memory for pages of zeros
        if m > 1 and C.size <= MAX_JOINTLY_ORDERED and np.all(self.k == self.k[0]):
            rows, units = find_largest_rows(np.abs(C), int(self.k[0])), asarray_like(C, np.arange(m))
            largest = C[rows, units]
            T[rows, units] = 2 * largest
            return column_dots(largest, largest), T
        values = []
        for j in range(m):
            row = find_largest_rows(np.abs(C[:, j : j + 1]), int(self.k[j % self.k.size]))[:, 0]
            entries = C[row, j]
            T[row, j] = 2 * entries
            values.append(float(entries @ entries))
        return np.array(values, C.dtype), T

    def at_cardinality(self, k: Array) -> Cardinality:
        """Return the penalty for other numbers of variables k, (m,) or (1,) of int, on the host."""
        return Cardinality(k)


@dataclass(frozen=True, eq=False)
class L1Ball(Penalty):
    """Penalty max ⟨c, z⟩ over ‖z‖₂ ≤ 1, ‖z‖₁ ≤ √s, soft thresholding at a level found by sorting.

    Parameters
    ----------
    s : float
        Square of the bound on ‖z‖₁, at least 1, the same for all units.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import L1Ball
    >>> L1Ball(1.0).value_and_gradient(np.array([[3.0], [-0.5]]))[0]
    3.0
    """

    s: float
    has_loading_bound = True

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the support function of the intersection of the two balls, (m,), and its maximisers, (n, m).

        Unlike the other penalties, the value is not a square: the gradient is the loadings themselves. Both are where C
        is, in its dtype.
        """
        Z = np.column_stack([self._maximize_unit(c) for c in C.T])
        return np.sum(C * Z, axis=0), Z

    def _maximize_unit(self, c: Array) -> Array:
        """Return the maximiser z for one unit, (n,), by soft thresholding of its correlations c, (n,); zero for c = 0.

        z is where c is, on the host or a device, in its dtype, of unit length, with the signs of c; n > 0. With gaps bᵢ
        = max|c| − |cᵢ| the loadings are ∝ (τ − bᵢ)₊. Gaps stay accurate if entries nearly tie.
        """
        largest = np.max(np.abs(c))
        if largest == 0:
            return np.zeros_like(c)
        gap = largest - np.abs(c)
        n_tied = int(np.count_nonzero(gap == 0))
        if n_tied >= self.s:
            weights = self._spread_over_ties(gap == 0, n_tied)
        else:
            weights = np.maximum(self._solve_threshold_height(gap, n_tied, largest) - gap, 0)
        z = np.copysign(weights / np.linalg.norm(weights), c) * (weights > 0)
        return z.astype(c.dtype)

    def _spread_over_ties(self, is_tied: Array, n_tied: int) -> Array:
        """Return weights, (n,), positive on the tied largest entries, zero elsewhere, with sum √s and unit norm.

        `is_tied`, (n,) of bool, marks the `n_tied` ≥ s entries. No threshold separates tied entries, and every such
        vector attains the maximum. This one is uniform except for the first entry. It is float64, where `is_tied` is.
        """
        mean = np.sqrt(self.s) / n_tied
        excess = np.sqrt(max(1 - self.s / n_tied, 0.0) / (n_tied * max(n_tied - 1, 1)))
        is_first = asarray_like(is_tied, np.arange(is_tied.size)) == np.argmax(is_tied)
        return np.where(is_tied, np.where(is_first, mean + (n_tied - 1) * excess, mean - excess), 0)

    def _solve_threshold_height(self, gap: Array, n_tied: int, largest: float) -> float:
        """Solve ‖(τ − b)₊‖₁ = √s ‖(τ − b)₊‖₂ for τ > 0; return the largest entry (no threshold) for a slack bound.

        `gap`, (n,), contains b = largest − |c| in any order, in the dtype of c, of which `n_tied` < s are zero;
        `largest` > 0 is the largest |c|. The loadings are proportional to (τ − b)₊.
        """
        b = np.sort(gap)
        q = asarray_like(b, np.arange(1, b.size + 1))
        sums, sums_sq = np.cumsum(b), np.cumsum(b * b)
        # ‖·‖₁²/‖·‖₂² increases with τ; find the number q of entries above the threshold, then solve a quadratic.
        next_gap = np.concatenate([b[1:], asarray_like(b, np.array([float(largest)], b.dtype))])
        norm_one = q * next_gap - sums
        norm_two_sq = q * next_gap**2 - 2 * next_gap * sums + sums_sq
        is_enough = (norm_one**2 >= self.s * norm_two_sq) & (q >= n_tied) & (q > self.s)
        if not is_enough.any():
            return float(largest)
        count = int(np.argmax(is_enough)) + 1
        mean = sums[count - 1] / count
        variance = np.mean((b[:count] - mean) ** 2)
        return float(min(mean + np.sqrt(variance * self.s / (count - self.s)), largest))


@dataclass(frozen=True, eq=False)
class FixedSupport(Penalty):
    """Penalty of a fixed support P: Σ‖c[P]‖ (`power=1`, [JNRS10] Algorithm 6) or Σ‖c[P]‖² (`power=2`, variance).

    Parameters
    ----------
    pattern : ndarray of bool of shape (n, m)
        P, true where a loading may be non-zero; on the host or device where C is. A unit may have no variable.
    power : {1, 2}, default=2
        Power of the norms that are summed.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import FixedSupport
    >>> FixedSupport(np.array([[True], [False]])).value_and_gradient(np.array([[3.0], [-0.5]]))[0]
    9.0
    """

    pattern: Array
    power: int = 2

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the norms of the entries on the support, or their squares, (m,), and the gradient, (n, m).

        The values are on the host. The gradient is c/‖c[P]‖ or 2c on the support, in a new array where C is; zero in a
        unit with c[P] = 0.
        """
        T = C * self.pattern
        squares = column_dots(T, T)
        if self.power == 2:
            return squares, 2 * T
        norms = np.sqrt(squares)
        return norms, T * asarray_like(T, safe_reciprocal(norms))

    def screen(self, norms: Array, mu: Array) -> Array:
        """Return the mask, (n,), of variables in the support of some unit, where the pattern is."""
        return np.any(self.pattern, axis=1)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Return infinity on the support and zero elsewhere, (n, m), float64 where the pattern is."""
        return np.where(self.pattern, np.inf, 0.0)

    def restrict(self, idx: Array) -> FixedSupport:
        """Return the penalty with the support of the variables `idx`; the pattern must be on the host like `idx`."""
        return FixedSupport(self.pattern[idx], self.power)


@dataclass(frozen=True, eq=False)
class NonNegative(Penalty):
    """Penalty φ(c₊), which makes the loadings of φ non-negative; convex because φ increases with |c|.

    Parameters
    ----------
    penalty : Penalty
        The penalty φ of loadings of either sign.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import L0, NonNegative
    >>> NonNegative(L0(np.array([1.0]))).value_and_gradient(np.array([[3.0], [-5.0]]))[0]
    8.0
    """

    penalty: Penalty
    is_nonnegative = True
    # These members are those of φ: the sign does not change them.
    has_loading_bound = forward("penalty.has_loading_bound")
    has_uniform_threshold = forward("penalty.has_uniform_threshold")
    support_rules = forward("penalty.support_rules")
    max_cardinality = forward("penalty.max_cardinality")
    screen = forward("penalty.screen")
    start_score = forward("penalty.start_score")
    count_selected = forward("penalty.count_selected")
    select_pattern = forward("penalty.select_pattern")
    gamma_max = forward("penalty.gamma_max")

    @property
    def relaxation(self) -> NonNegative:
        """Return the relaxation of the signed penalty, a faster upper bound, with non-negative loadings."""
        return NonNegative(self.penalty.relaxation)

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the values, (m,), and the gradient, (n, m), of the signed penalty at the positive part of C.

        Value and gradient are zero in a unit of C without positive entries.
        """
        return self.penalty.evaluate(np.maximum(C, 0))

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Compute the activity ratio of the positive part of C, (n, m); it is zero for negative correlations.

        T is the gradient of this penalty at C, which is that of the signed penalty at the positive part.
        """
        P = np.maximum(C, 0)
        return np.where(P > 0, self.penalty.activity_ratio(P, T), 0.0)

    def restrict(self, idx: Array) -> NonNegative:
        """Return the non-negative penalty of the variables `idx` alone, indices on the host."""
        return NonNegative(self.penalty.restrict(idx))

    def select_unit(self, j: int) -> NonNegative:
        """Return the penalty with the rules of unit j alone, and the level of all units."""
        return NonNegative(self.penalty.select_unit(j))

    def with_sign(self, other: Penalty) -> NonNegative:
        """Return the penalty `other`, which must not be non-negative already, with non-negative loadings."""
        return NonNegative(other)

    def at_cardinality(self, k: Array) -> NonNegative:
        """Return the penalty for other numbers of variables k, (m,) of int, on the host."""
        return NonNegative(self.penalty.at_cardinality(k))

    def at_gamma(self, gamma: Array) -> NonNegative:
        """Return the penalty at another γ, (m,)."""
        return NonNegative(self.penalty.at_gamma(gamma))
