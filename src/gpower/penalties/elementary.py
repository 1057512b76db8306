"""What one wants of the loadings, as convex functions φ of the correlations C = μ∘AᵀX; no data inside.

Each penalty is separable over the columns (units) of C, grows with |c|, and its gradient is a thresholding
of C whose normalised columns are the loadings. Values are the paper's f, so gradients carry its factor 2.

====================== ================================== ===========================================
penalty                φ(c) of one unit                    source
====================== ================================== ===========================================
`L1(gamma)`            Σ (|cᵢ| − γ)₊²                      [JNRS10] problems (7) and (13)
`L0(gamma)`            Σ (cᵢ² − γ)₊                        [JNRS10] problems (10) and (17)
`Cardinality(k)`       sum of the k largest cᵢ²            the constrained problem ‖z‖₀ ≤ k
`L1Ball(s)`            max ⟨c, z⟩, ‖z‖₂ ≤ 1, ‖z‖₁ ≤ √s     SCoTLASS / penalised matrix decomposition
`FixedSupport(P)`      ‖c[P]‖ or ‖c[P]‖²                   [JNRS10] Algorithm 6, and its variance form
`NonNegative(φ)`       φ(c₊)                               non-negative loadings
====================== ================================== ===========================================

[JNRS10] is Journée et al. (2010), Journal of Machine Learning Research 11, 517–553.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from gpower.penalties.support_rules import SupportRules


class Penalty(ABC):
    """A convex function of correlations, separable over units: the contract of a sparsity of your own.

    `evaluate` is all that must be there. A penalty on named variables also says in `restrict` what is left of it on
    some of them. `at_cardinality`, or `set_problem_gamma` with `gamma_max`, let `GPower` set its level, so that paths
    and cross-validation run over it. The example "A sparsity of your own" shows one.

    Examples
    --------
    The sum of squares wants all variables: ordinary PCA.

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
    #: Whether any variable may take the place of any other, so that exchanges are worth trying.
    has_exchangeable_variables = False
    #: Whether loadings are bounded by more than their norm, so that a refit on their pattern would leave the set.
    has_loading_bound = False
    #: Whether one threshold holds for all variables of a unit, so that |c| alone says which matters more.
    has_uniform_threshold = True
    #: Whether what is chosen may be exchanged for something else as long as that raises the variance.
    supports_local_search = False

    @property
    def support_rules(self) -> SupportRules | None:
        """Which supports are admissible; None where all are."""
        return None

    @property
    def max_cardinality(self) -> int:
        """The most variables that a unit can have; zero where that is not known beforehand."""
        return 0

    @property
    def relaxation(self) -> Penalty:
        """One that many starts race by: the same, or a quicker bound from above."""
        return self

    @abstractmethod
    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Values per unit, (m,), and the gradient, (n, m)."""

    def value_and_gradient(self, C: Array) -> tuple[float, Array]:
        """φ(C) and φ′(C)."""
        values, gradient = self.evaluate(C)
        return float(values.sum()), gradient

    def loadings(self, C: Array) -> Array:
        """Unit-norm loadings that attain φ at C; a unit with no active variable has zero loadings."""
        return normalize_columns(self.evaluate(C)[1])

    def screen(self, norms: Array, mu: Array) -> Array:
        """Mask of the variables that may be active somewhere, given ‖aᵢ‖ (static screening)."""
        return norms > 0

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """|C| (or C₊) of each unit over its threshold, (n, m): above one means active; T is the gradient, if known.

        By default infinite where the gradient is active, else |c| over the smallest active one.
        """
        magnitude = np.abs(C)
        active = (self.evaluate(C)[1] if T is None else T) != 0
        smallest = np.min(np.where(active, magnitude, np.inf), axis=0)
        ratio = magnitude / np.maximum(smallest, get_min_divisor(C))
        return np.where(active, np.inf, np.minimum(ratio, 1))

    def restrict(self, idx: Array) -> Penalty:
        """The same wish for the variables `idx` alone."""
        return self

    def select_unit(self, j: int) -> Penalty:
        """What unit j wishes for."""
        return self

    def start_score(self, norms: Array) -> Array:
        """What says which variables to begin at, the largest first: the norms of their columns, (n,)."""
        return norms

    def count_selected(self, pattern: Array) -> Array:
        """How much of a pattern, (n, m), a number of variables counts, per unit."""
        return to_host(np.count_nonzero(pattern, axis=0))

    def select_pattern(self, scores: Array, counts: Array) -> Array:
        """Pattern of the wanted number of variables per unit, those of the largest scores, (n, m)."""
        pattern = np.zeros_like(scores, dtype=bool)
        for j, k in enumerate(counts):
            pattern[find_largest_rows(scores[:, j : j + 1], k)[:, 0], j] = True
        return pattern

    def with_sign(self, other: Penalty) -> Penalty:
        """Another penalty under this one's restriction of signs, if it has one."""
        return other

    def at_cardinality(self, k: Array) -> Penalty:
        """The same kind of wish for kⱼ variables in unit j; a ValueError of those that know no such number."""
        raise ValueError(f"{type(self).__name__} knows no number of variables: leave cardinality None.")

    def at_gamma(self, gamma: Array) -> Penalty:
        """The same kind of wish at absolute γⱼ; a ValueError of those that know no γ."""
        raise ValueError(f"{type(self).__name__} knows no gamma: leave gamma None.")

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """The smallest γ per unit, (m,), that lets no variable in, given the largest |aᵢᵀx|; NaN without γ."""
        return np.full(len(mu), np.nan)


@dataclass(frozen=True, eq=False)
class L1(Penalty):
    """Σ (|c| − γⱼ)₊²: soft thresholding.

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

    gamma: Array

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Squares of the soft-thresholded entries."""
        T = np.abs(C)
        T -= asarray_like(T, self.gamma)
        np.maximum(T, 0, out=T)
        values = column_dots(T, T)
        T += T
        return values, np.copysign(T, C, out=T)

    def screen(self, norms: Array, mu: Array) -> Array:
        """μⱼ‖aᵢ‖ > γⱼ for some unit [JNRS10, equation (8)]."""
        return np.any(norms[:, None] * asarray_like(norms, mu) > asarray_like(norms, self.gamma), axis=1)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """|c| / γ."""
        return np.abs(C) / asarray_like(C, np.maximum(self.gamma, get_min_divisor(C)))

    def at_gamma(self, gamma: Array) -> L1:
        """Another level."""
        return L1(gamma)

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """μⱼ max‖aᵢ‖."""
        return np.asarray(mu, float) * max_or_zero(norms)


@dataclass(frozen=True, eq=False)
class L0(Penalty):
    """Σ (c² − γⱼ)₊: hard thresholding.

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

    gamma: Array

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Excess of the squares over γ."""
        excess = C * C
        excess -= asarray_like(C, self.gamma)
        np.maximum(excess, 0, out=excess)
        T = C * (excess > 0)
        T += T
        return column_sums(excess), T

    def screen(self, norms: Array, mu: Array) -> Array:
        """(μⱼ‖aᵢ‖)² > γⱼ for some unit [JNRS10, equation (11); the weight has to be squared]."""
        return np.any((norms[:, None] * asarray_like(norms, mu)) ** 2 > asarray_like(norms, self.gamma), axis=1)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """|c| / √γ."""
        return np.abs(C) / asarray_like(C, np.maximum(np.sqrt(self.gamma), get_min_divisor(C)))

    def at_gamma(self, gamma: Array) -> L0:
        """Another level."""
        return L0(gamma)

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """(μⱼ max‖aᵢ‖)²."""
        return (np.asarray(mu, float) * max_or_zero(norms)) ** 2


#: Values of which a sample tells the level of the largest.
DEVICE_SORT_SAMPLE_SIZE = 1 << 14


def get_min_divisor(C: Array) -> float:
    """What a vanishing threshold is taken for, so that a ratio to it stays finite."""
    return float(np.sqrt(np.finfo(C.dtype).tiny))


def find_largest_rows(values: Array, k: int) -> Array:
    """Row indices of the k largest values of each column, (k, m)."""
    n = values.shape[0]
    if k >= n:
        return np.broadcast_to(asarray_like(values, np.arange(n)[:, None]), (n, values.shape[1]))
    if is_device_array(values) and n > DEVICE_SORT_SAMPLE_SIZE:
        return np.stack([_find_largest_on_device(values[:, j], k) for j in range(values.shape[1])], axis=1)
    if values.shape[1] == 1:
        return np.argpartition(values[:, 0], n - k)[n - k :, None]
    return np.argpartition(values, n - k, axis=0)[n - k :]


def _find_largest_on_device(values: Array, k: int) -> Array:
    """Indices of the k largest values on a device, which sorts: only those above a level that a sample tells."""
    n = values.size
    sample = np.sort(values[:: max(1, n // DEVICE_SORT_SAMPLE_SIZE)])
    rank = min(sample.size, int(np.ceil(sample.size * (2 * k + 64) / n)) + 8)
    above = np.flatnonzero(values >= sample[sample.size - rank])
    if above.size < k:
        return np.argsort(values)[n - k :]
    return above[np.argsort(values[above])[above.size - k :]]


@dataclass(frozen=True, eq=False)
class Cardinality(Penalty):
    """Sum of the kⱼ largest squares: a maximum of convex quadratics, attained by kⱼ loadings.

    Parameters
    ----------
    k : ndarray of int of shape (m,) or (1,)
        Number of variables of each unit, or one number for all.

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
        """The largest k."""
        return int(np.max(self.k))

    def _locate_largest(self, C: Array) -> list[tuple[Array, Any]]:
        """Where the k largest magnitudes are: rows and columns, for all units at once if they want as many."""
        magnitude = np.abs(C)
        if C.shape[1] == 1:
            return [(find_largest_rows(magnitude, int(self.k[0]))[:, 0], 0)]
        if self.k.size == 1 or np.all(self.k == self.k[0]):
            return [(find_largest_rows(magnitude, int(self.k[0])), asarray_like(C, np.arange(C.shape[1])))]
        return [(find_largest_rows(magnitude[:, j : j + 1], int(k))[:, 0], j) for j, k in enumerate(self.k)]

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Squares of the k largest entries."""
        T, values = np.zeros_like(C), []
        for rows, units in self._locate_largest(C):
            kept = C[rows, units]  # (k,) or (k, m)
            T[rows, units] = 2 * kept
            values.append(column_dots(kept, kept) if kept.ndim == 2 else np.array([float(kept @ kept)], C.dtype))
        return np.concatenate(values), T

    def at_cardinality(self, k: Array) -> Cardinality:
        """Another number."""
        return Cardinality(k)


@dataclass(frozen=True, eq=False)
class L1Ball(Penalty):
    """max ⟨c, z⟩ over ‖z‖₂ ≤ 1, ‖z‖₁ ≤ √s: soft thresholding at a level found by sorting.

    Parameters
    ----------
    s : float
        At least 1: the square of the bound on ‖z‖₁, the same for all units.

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
        """The support function of the intersection of the two balls, and where it is attained."""
        Z = np.column_stack([self._maximize_unit(c) for c in C.T])
        return np.sum(C * Z, axis=0), Z

    def _maximize_unit(self, c: Array) -> Array:
        """The maximiser for one unit, (n,): soft thresholding, seen from the largest entry down.

        With gaps bᵢ = max|c| − |cᵢ| the loadings are ∝ (τ − bᵢ)₊; gaps stay accurate where entries nearly tie.
        """
        largest = np.max(np.abs(c))
        if largest == 0:
            return np.zeros_like(c)
        gap = largest - np.abs(c)
        tied = int(np.count_nonzero(gap == 0))
        weights = (
            self._spread_over_ties(gap == 0, tied)
            if tied >= self.s
            else np.maximum(self._solve_threshold_height(gap, tied, largest) - gap, 0)
        )
        z = np.copysign(weights / np.linalg.norm(weights), c) * (weights > 0)
        return z.astype(c.dtype)

    def _spread_over_ties(self, largest: Array, tied: int) -> Array:
        """Positive weights on the tied entries with sum √s and unit norm: no level separates them.

        Every such vector attains the maximum; this one is even but for the first entry.
        """
        mean = np.sqrt(self.s) / tied
        excess = np.sqrt(max(1 - self.s / tied, 0.0) / (tied * max(tied - 1, 1)))
        first = asarray_like(largest, np.arange(largest.size)) == np.argmax(largest)
        return np.where(largest, np.where(first, mean + (tied - 1) * excess, mean - excess), 0)

    def _solve_threshold_height(self, gap: Array, tied: int, largest: float) -> float:
        """τ > 0 with ‖(τ − b)₊‖₁ = √s ‖(τ − b)₊‖₂; the largest entry itself, no threshold, where the bound is slack."""
        b = np.sort(gap)
        q = asarray_like(b, np.arange(1, b.size + 1))
        one, two = np.cumsum(b), np.cumsum(b * b)
        # ‖·‖₁²/‖·‖₂² grows with τ; find the number q of entries above the level, then solve a quadratic.
        following = np.concatenate([b[1:], asarray_like(b, np.array([float(largest)], b.dtype))])
        excess_one = q * following - one
        excess_two = q * following**2 - 2 * following * one + two
        enough = (excess_one**2 >= self.s * excess_two) & (q >= tied) & (q > self.s)
        if not enough.any():
            return float(largest)
        count = int(np.argmax(enough)) + 1
        mean = one[count - 1] / count
        spread = np.mean((b[:count] - mean) ** 2)
        return float(min(mean + np.sqrt(spread * self.s / (count - self.s)), largest))


@dataclass(frozen=True, eq=False)
class FixedSupport(Penalty):
    """Fill a given pattern P: Σ‖c[P]‖ (`power=1`, [JNRS10] Algorithm 6) or Σ‖c[P]‖² (`power=2`, variance).

    Parameters
    ----------
    pattern : ndarray of bool of shape (n, m)
        P, true where a loading may be other than zero.
    power : {1, 2}, default=2
        Of the norms that are summed.

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
        """Norms of the active entries, or their squares."""
        T = C * self.pattern
        squares = column_dots(T, T)
        if self.power == 2:
            return squares, 2 * T
        norms = np.sqrt(squares)
        return norms, T * asarray_like(T, safe_reciprocal(norms))

    def screen(self, norms: Array, mu: Array) -> Array:
        """The variables of the pattern."""
        return np.any(self.pattern, axis=1)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Infinite on the pattern, zero elsewhere."""
        return np.where(self.pattern, np.inf, 0.0)

    def restrict(self, idx: Array) -> FixedSupport:
        """The pattern of some variables."""
        return FixedSupport(self.pattern[idx], self.power)


@dataclass(frozen=True, eq=False)
class NonNegative(Penalty):
    """φ(c₊): the loadings of φ among the non-negative ones. Convex because φ grows with |c|.

    Parameters
    ----------
    penalty : Penalty
        φ, of the signed loadings.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.penalties.elementary import L0, NonNegative
    >>> NonNegative(L0(np.array([1.0]))).value_and_gradient(np.array([[3.0], [-5.0]]))[0]
    8.0
    """

    penalty: Penalty
    is_nonnegative = True

    @property
    def has_loading_bound(self) -> bool:  # type: ignore[override]
        """Whether loadings are bounded by more than their norm, as of the signed penalty."""
        return self.penalty.has_loading_bound

    @property
    def has_uniform_threshold(self) -> bool:  # type: ignore[override]
        """Whether one threshold holds for all variables of a unit, as of the signed penalty."""
        return self.penalty.has_uniform_threshold

    @property
    def support_rules(self) -> SupportRules | None:
        """As for the signed penalty."""
        return self.penalty.support_rules

    @property
    def max_cardinality(self) -> int:
        """As for the signed penalty."""
        return self.penalty.max_cardinality

    @property
    def relaxation(self) -> NonNegative:
        """As for the signed penalty."""
        return NonNegative(self.penalty.relaxation)

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """The penalty at the positive part."""
        return self.penalty.evaluate(np.maximum(C, 0))

    def screen(self, norms: Array, mu: Array) -> Array:
        """As for the signed penalty."""
        return self.penalty.screen(norms, mu)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Relevance of the positive part; negative correlations never matter."""
        P = np.maximum(C, 0)
        return np.where(P > 0, self.penalty.activity_ratio(P, T), 0.0)

    def restrict(self, idx: Array) -> NonNegative:
        """The same wish for the variables `idx` alone."""
        return NonNegative(self.penalty.restrict(idx))

    def select_unit(self, j: int) -> NonNegative:
        """The same of unit j alone."""
        return NonNegative(self.penalty.select_unit(j))

    def start_score(self, norms: Array) -> Array:
        """As for the signed penalty."""
        return self.penalty.start_score(norms)

    def count_selected(self, pattern: Array) -> Array:
        """As for the signed penalty."""
        return self.penalty.count_selected(pattern)

    def select_pattern(self, scores: Array, counts: Array) -> Array:
        """As for the signed penalty."""
        return self.penalty.select_pattern(scores, counts)

    def with_sign(self, other: Penalty) -> NonNegative:
        """Non-negative too."""
        return NonNegative(other)

    def at_cardinality(self, k: Array) -> NonNegative:
        """The signed penalty at another number."""
        return NonNegative(self.penalty.at_cardinality(k))

    def at_gamma(self, gamma: Array) -> NonNegative:
        """The signed penalty at another level."""
        return NonNegative(self.penalty.at_gamma(gamma))

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """As for the signed penalty."""
        return self.penalty.gamma_max(norms, mu)
