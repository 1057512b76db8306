"""Disjoint supports: the best choice of several that share no variable, by branch and bound over lists of all supports.

All supports of k variables are listed by decreasing largest eigenvalue, for every k that is asked for. A node has
chosen some of them and holds what is left of the lists: the supports without a common variable with the chosen ones.
No choice from there reaches more than the chosen values plus the largest left for each component still to be chosen;
components of the same k are chosen in the order of their list, so that no set is looked at twice. Once that is no
more than the best set known, the rest of a list is settled at a stroke, as it is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb

import numpy as np

from gpower._utils.arrays import Array
from gpower.certificates.bounds import EPS
from gpower.certificates.certificate import Clock

#: Supports that are listed at most for one k, and variables that fit into a mask.
MAX_LISTED_SUPPORTS, MAX_MASK_VARIABLES = 500_000, 63
#: Supports whose eigenvalues are computed at once.
LISTING_BATCH_SIZE = 4096


def can_list_supports(n_variables: int, cardinalities: Sequence[int]) -> bool:
    """Whether all supports of these sizes can be listed."""
    return n_variables <= MAX_MASK_VARIABLES and all(
        comb(n_variables, k) <= MAX_LISTED_SUPPORTS for k in set(cardinalities)
    )


@dataclass(frozen=True, eq=False)
class SupportList:
    """Supports of one size by decreasing value, each a mask of bits."""

    values: Array
    masks: Array  # of uint64

    @property
    def best_value(self) -> float:
        """The largest value; −∞ of none."""
        return float(self.values[0]) if self.values.size else -np.inf

    def without_variables(self, mask: np.uint64, start: int = 0) -> SupportList:
        """Those without a variable of a mask, from a place in the list on."""
        kept = (self.masks[start:] & mask) == 0
        return SupportList(self.values[start:][kept], self.masks[start:][kept])


def list_supports(S: Array, k: int, clock: Clock) -> SupportList | None:
    """All supports of k variables; None if the clock expires."""
    n = S.shape[0]
    values, masks, subsets = [], [], combinations(range(n), k)
    while part := list(islice(subsets, LISTING_BATCH_SIZE)):
        if clock.is_expired:
            return None
        sets = np.array(part, np.intp)
        values.append(np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1])
        masks.append(np.bitwise_or.reduce(np.left_shift(np.uint64(1), sets.astype(np.uint64)), axis=1))
    order = np.argsort(-np.concatenate(values), kind="stable")
    return SupportList(np.concatenate(values)[order], np.concatenate(masks)[order])


@dataclass(eq=False)
class DisjointSearch:
    """The search: the best set so far, and what is proven."""

    cardinalities: Sequence[int]  # one k per component, equal ones side by side
    incumbent_value: float  # of the best set
    incumbent_masks: list[np.uint64] = field(default_factory=list)  # its masks; none if it is the one known before
    n_nodes: int = 0
    open_bound: float = np.inf  # no set that is not yet looked at has a larger value

    @property
    def upper_bound(self) -> float:
        """An upper bound on every set, LAPACK's rounding included."""
        return max(self.incumbent_value, self.open_bound) * (1 + 8 * max(self.cardinalities) * EPS)

    def run(self, S: Array, clock: Clock) -> None:
        """Search until all is settled or the clock expires."""
        with clock.interruptible():
            pools = {k: list_supports(S, k, clock) for k in set(self.cardinalities)}
            full = {k: pool for k, pool in pools.items() if pool is not None}
            if len(full) == len(pools):
                self._descend([], 0.0, full, clock)

    def _descend(
        self, chosen: list[np.uint64], value: float, support_lists: dict[int, SupportList], clock: Clock
    ) -> None:
        """Every way to go on from what is chosen."""
        if len(chosen) == len(self.cardinalities):
            if value > self.incumbent_value:
                self.incumbent_value, self.incumbent_masks = value, chosen
            return
        k, rest = self.cardinalities[len(chosen)], self.cardinalities[len(chosen) + 1 :]
        others = sum(support_lists[size].best_value for size in rest if size != k)
        alike = sum(size == k for size in rest)
        for place, (own, mask) in enumerate(zip(support_lists[k].values.tolist(), support_lists[k].masks, strict=True)):
            if clock.is_expired:  # what is below the last place is not settled
                return
            most = value + own * (1 + alike) + others
            if not chosen:
                self.open_bound = most
            if most <= self.incumbent_value * (1 + 1e-12):
                break
            self.n_nodes += 1
            left = {
                size: pool.without_variables(mask, place + 1 if size == k else 0)
                for size, pool in support_lists.items()
            }
            self._descend([*chosen, mask], value + own, left, clock)
        if not chosen and not clock.is_expired:
            self.open_bound = min(self.open_bound, self.incumbent_value)

    def decode_supports(self) -> list[Array]:
        """The variables of each component of the best set."""
        return [
            np.array([i for i in range(MAX_MASK_VARIABLES) if int(mask) >> i & 1], np.intp)
            for mask in self.incumbent_masks
        ]
