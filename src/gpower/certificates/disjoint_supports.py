"""Disjoint supports: depth-first branch and bound over sorted lists of all supports.

All supports of k variables are listed by decreasing largest eigenvalue, for every requested k. A node has chosen
supports for some components and keeps the supports that share no variable with them. Its bound is the sum of the chosen
values plus the largest value left for each further component. Components of equal k take supports in the order of the
list, so that no set is visited twice. As the lists are sorted, the rest of a list is pruned as soon as the bound does
not exceed the value of the best set. "Sorted" and "by decreasing value" are meant for the computed values, which have
the rounding error of LAPACK.

Terms: S, (n, n), is symmetric and positive semidefinite, in float64 on the host; the value of a support I is
λmax(S_II). A mask is a uint64 whose bit i stands for row i of S. ``iterate_supports(S, fixed, free, slots)`` yields
batches of the supports of `slots` indices out of `free`, together with `fixed`: `supports`, (n_supports, k) of int, and
their `values`, (n_supports,). ``is_expired`` of a `Clock` says whether to stop; ``interruptible()`` is a context in
which Ctrl-C ends the block and expires the clock. `EPS` is the machine epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from gpower._utils.arrays import Array
from gpower.certificates.bounds import EPS, MATRIX_ROUNDING_IN_EPS
from gpower.certificates.branch_and_bound import MIN_RELATIVE_GAIN, iterate_supports
from gpower.certificates.certificate import Clock

#: Largest number of supports listed for one k, and of variables that fit into a mask of 64 bits.
MAX_LISTED_SUPPORTS, MAX_MASK_VARIABLES = 500_000, 63


def can_list_supports(n_variables: int, cardinalities: Sequence[int]) -> bool:
    """Return whether there are few enough supports of these cardinalities to list them.

    Each cardinality is between 1 and `n_variables`; its list is made once, also if several components have it.
    """
    return n_variables <= MAX_MASK_VARIABLES and all(
        comb(n_variables, k) <= MAX_LISTED_SUPPORTS for k in set(cardinalities)
    )


@dataclass(frozen=True, eq=False)
class SupportList:
    """Supports of one cardinality by decreasing value, each a mask of bits."""

    values: Array  # (n_supports,), float64: λmax(S_II), decreasing
    masks: Array  # (n_supports,) of uint64, in the order of the values

    @property
    def best_value(self) -> float:
        """Return the largest value; −∞ for an empty list."""
        return float(self.values[0]) if self.values.size else -np.inf

    def without_variables(self, mask: np.uint64, start: int = 0) -> SupportList:
        """Return the supports from index `start` on that share no variable with `mask`, in their order."""
        is_disjoint = (self.masks[start:] & mask) == 0
        return SupportList(self.values[start:][is_disjoint], self.masks[start:][is_disjoint])


def list_supports(S: Array, k: int, clock: Clock) -> SupportList | None:
    """List all supports of k variables by decreasing value; return None if the clock expires.

    S is (n, n), with 1 ≤ k ≤ n ≤ MAX_MASK_VARIABLES. The values have the rounding error of LAPACK; of equal ones the
    lexicographically first support comes first. The clock is read after each batch of supports.
    """
    values, masks = [], []
    for supports, batch_values in iterate_supports(S, np.arange(0), np.arange(S.shape[0]), k):
        if clock.is_expired:
            return None
        values.append(batch_values)
        masks.append(np.bitwise_or.reduce(np.left_shift(np.uint64(1), supports.astype(np.uint64)), axis=1))
    order = np.argsort(-np.concatenate(values), kind="stable")
    return SupportList(np.concatenate(values)[order], np.concatenate(masks)[order])


@dataclass(eq=False)
class DisjointSearch:
    """State of the search for the best set of disjoint supports.

    Values are sums of λmax(S_II) of the S passed to `run`, a shift of its diagonal included. `incumbent_value` must be
    that of an actual set, or less: sets up to it are not searched.
    """

    cardinalities: Sequence[int]  # one k per component, equal ones next to each other; at most n in total
    incumbent_value: float  # sum of the values of the best set so far
    incumbent_masks: list[np.uint64] = field(default_factory=list)  # supports of the best set; empty until improved
    n_nodes: int = 0
    open_bound: float = np.inf  # no set that is not yet visited has a larger value

    @property
    def upper_bound(self) -> float:
        """Return an upper bound on the value of every set, the rounding of LAPACK included; infinity before `run`."""
        return max(self.incumbent_value, self.open_bound) * (1 + MATRIX_ROUNDING_IN_EPS * max(self.cardinalities) * EPS)

    def run(self, S: Array, clock: Clock) -> None:
        """Search until every set is visited or pruned, or the clock expires; call it once.

        S is symmetric, (n, n), in float64; n is at most MAX_MASK_VARIABLES, and there are at most MAX_LISTED_SUPPORTS
        supports of each cardinality, which lies between 1 and n. Ctrl-C expires the clock and does not raise. If the
        lists are not finished, `upper_bound` stays infinite. A set replaces the incumbent only if its value is larger,
        so that of equal ones the first that was visited stays.
        """
        with clock.interruptible():
            sizes = set(self.cardinalities)
            lists = {k: supports for k in sizes if (supports := list_supports(S, k, clock)) is not None}
            if len(lists) == len(sizes):
                self._descend([], 0.0, lists, clock)

    def _descend(
        self, chosen: list[np.uint64], value: float, support_lists: dict[int, SupportList], clock: Clock
    ) -> None:
        """Visit the sets that contain the chosen supports, of the given total value, and update the incumbent.

        A set with the support I next is worth at most the value, λmax(S_II) for each component of that cardinality, and
        the largest λmax left for each other one. The values decrease along the list, so that the first such bound that
        does not exceed the incumbent's value ends it.
        `chosen` contains a mask for each of the first components. `support_lists` maps every cardinality to the
        supports, by decreasing value, that share no variable with the chosen ones and that come after those of the same
        cardinality; a list may be empty.
        """
        if len(chosen) == len(self.cardinalities):
            if value > self.incumbent_value:
                self.incumbent_value, self.incumbent_masks = value, chosen
            return
        k, rest = self.cardinalities[len(chosen)], self.cardinalities[len(chosen) + 1 :]
        other_sizes_value = sum(support_lists[size].best_value for size in rest if size != k)
        n_equal = sum(size == k for size in rest)
        candidates = zip(support_lists[k].values.tolist(), support_lists[k].masks, strict=True)
        for i, (own_value, mask) in enumerate(candidates):
            if clock.is_expired:  # the rest of the list is not visited, so `open_bound` stays
                return
            bound = value + own_value * (1 + n_equal) + other_sizes_value
            if not chosen:
                self.open_bound = bound
            if bound <= self.incumbent_value * (1 + MIN_RELATIVE_GAIN):
                break
            self.n_nodes += 1
            remaining = {
                size: supports.without_variables(mask, i + 1 if size == k else 0)
                for size, supports in support_lists.items()
            }
            self._descend([*chosen, mask], value + own_value, remaining, clock)
        if not chosen and not clock.is_expired:
            self.open_bound = min(self.open_bound, self.incumbent_value)

    def decode_supports(self) -> list[Array]:
        """Return the rows of S of each component of the best set, increasing, in the order of `cardinalities`.

        They are arrays of int. The list is empty if no set of a larger value than the first incumbent was found.
        """
        return [
            np.array([i for i in range(MAX_MASK_VARIABLES) if int(mask) >> i & 1], np.intp)
            for mask in self.incumbent_masks
        ]
