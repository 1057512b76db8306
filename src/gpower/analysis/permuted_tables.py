"""Permuted tables of a permutation test: orders of the samples, and the variance of a component in each table.

For a wide table most fits are smaller still. In a permuted table the components lie among the variables of largest
norm, and permuting does not change norms. A few permuted tables show how much more variance a fit to all variables
finds than a fit to the largest ones. After that the largest variables decide if their variance is far below that of the
table; otherwise all variables are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array
from gpower.analysis.deflation_stages import DeflationStage, build_table_operator, compute_table_gram
from gpower.operators.leading_pca import compute_leading_components

#: Margin, a share of the permuted variance: a permuted table is far below the table if at least this lies between them.
MIN_SCREENING_MARGIN = 0.25


class Permutations:
    """Orders of the samples of every variable in one permuted table, (n_features, n_samples), drawn when needed.

    Parameters
    ----------
    seed : int
    n_samples : int
    blocks : ndarray of int of shape (n_features,)
        Block of each variable, from 0: variables of the same block share an order.
    is_drawn_first : ndarray of bool of shape (n_blocks,)
        Whether the order of a block is drawn at once; the other orders are drawn on the first use of `all_orders`.
    strata : sequence of ndarray of int, optional
        Indices of the samples of each batch, within which samples are permuted; by default all are one batch.
    """

    def __init__(
        self, seed: int, n_samples: int, blocks: Array, is_drawn_first: Array, strata: Sequence[Array] | None = None
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._strata = [np.arange(n_samples)] if strata is None else strata
        self._block_indices = blocks
        self._deferred_blocks = np.flatnonzero(~is_drawn_first)
        self._orders_by_block = np.empty((is_drawn_first.size, n_samples), np.intp)
        self._draw_orders(np.flatnonzero(is_drawn_first))

    def _draw_orders(self, blocks: Array) -> None:
        for rows in self._strata:
            identity = np.tile(rows, (blocks.size, 1))
            self._orders_by_block[np.ix_(blocks, rows)] = self._rng.permuted(identity, axis=1)

    def get_for_variables(self, variables: Array) -> Array:
        """Return the orders of variables whose blocks are drawn first, (n_variables, n_samples)."""
        return self._orders_by_block[self._block_indices[variables]]

    @cached_property
    def all_orders(self) -> Array:
        """Return the orders of all variables, (n_features, n_samples)."""
        self._draw_orders(self._deferred_blocks)
        return self._orders_by_block[self._block_indices]


@dataclass(frozen=True, eq=False)
class NullComparison:
    """Comparison of permuted tables with the table at one stage, by the largest variables if they suffice.

    Attributes
    ----------
    stage : DeflationStage
    observed_variance : float
        Variance of the component that a small fit finds in the table.
    longest_variables : ndarray of int or None
        The variables of largest norm; None if all variables are always used.
    screening_ratios : ndarray
        Ratios of the variance of all variables to that of the largest ones, from permuted tables with both.
    """

    stage: DeflationStage
    observed_variance: float
    longest_variables: Array | None
    screening_ratios: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def from_stage(cls, stage: DeflationStage) -> NullComparison:
        """Create a comparison without permuted tables."""
        return cls(stage, stage.compute_variance(stage.compute_residual()), stage.find_longest_variables())

    @cached_property
    def _longest_stage(self) -> DeflationStage:
        """Return the stage of the largest variables, with one start."""
        stage = self.stage.restrict_to_variables(
            np.zeros(0, np.intp) if self.longest_variables is None else self.longest_variables
        )
        return replace(stage, fit_spec=replace(stage.fit_spec, start=None))

    def compute_permuted_variance(self, permutations: Permutations) -> tuple[float, float]:
        """Return the variance in a permuted table, and its ratio to that of the largest variables.

        The ratio is NaN if only one of the two was computed.
        """
        if self.longest_variables is None:
            return self.stage.compute_variance(self.stage.permute_residual(permutations.all_orders)), np.nan
        orders = permutations.get_for_variables(self.longest_variables)
        restricted = self._longest_stage.compute_variance(self._longest_stage.permute_residual(orders))
        if self.screening_ratios.size:
            upper = (1 + MIN_SCREENING_MARGIN) * self._max_expected_ratio * restricted
            if upper < self.observed_variance:
                return float(np.mean(self.screening_ratios)) * restricted, np.nan
        variance = self.stage.compute_variance(self.stage.permute_residual(permutations.all_orders))
        return variance, variance / restricted if restricted > 0 else np.nan

    @property
    def _max_expected_ratio(self) -> float:
        """Return an upper estimate of the ratio: as far above the largest as the largest is above the smallest."""
        return float(2 * self.screening_ratios.max() - self.screening_ratios.min())

    def add_ratios(self, ratios: Array) -> NullComparison:
        """Return the comparison with more ratios; NaN are left out."""
        return replace(self, screening_ratios=np.concatenate([self.screening_ratios, ratios[~np.isnan(ratios)]]))


def run_one_permutation(
    comparisons: Sequence[NullComparison],
    strata: Sequence[Array] | None,
    blocks: Array,
    is_drawn_first: Array,
    seed: int,
    n_pca_components: int,
) -> tuple[list[float], list[float], Array]:
    """Return variances and ratios of one permuted table at every stage, and the variances of its PCA components."""
    stage = comparisons[0].stage
    permutations = Permutations(seed, stage.table.shape[1], blocks, is_drawn_first, strata)
    results = [comparison.compute_permuted_variance(permutations) for comparison in comparisons]
    variances, ratios = zip(*results, strict=True)
    pca_variances = np.zeros(0)
    if n_pca_components:
        operator = build_table_operator(stage.permute_residual(permutations.all_orders), stage.fit_spec)
        _, pca_variances = compute_leading_components(operator, n_pca_components)
    return list(variances), list(ratios), pca_variances


def run_stacked_permutations(
    comparisons: Sequence[NullComparison],
    strata: Sequence[Array] | None,
    blocks: Array,
    is_drawn_first: Array,
    seeds: Array,
    n_pca_components: int,
) -> tuple[Array, Array, Array]:
    """Return what `run_one_permutation` returns, for many permuted tables of few variables, solved together.

    Variances and ratios, which are all NaN, are (n_seeds, n_comparisons), variances of PCA (n_seeds, n_pca_components).
    """
    first = comparisons[0].stage
    n, p = first.table.shape
    grams = np.empty((len(comparisons), seeds.size, n, n))
    for i, seed in enumerate(seeds):
        orders = Permutations(int(seed), p, blocks, is_drawn_first, strata).all_orders
        for j, comparison in enumerate(comparisons):
            grams[j, i] = compute_table_gram(comparison.stage.permute_residual(orders))
    variances = [each.stage.compute_variances(S) for each, S in zip(comparisons, grams, strict=True)]
    pca_variances = np.linalg.eigvalsh(grams[0])[:, ::-1][:, :n_pca_components]
    return np.column_stack(variances), np.full((seeds.size, len(comparisons)), np.nan), np.maximum(pca_variances, 0)
