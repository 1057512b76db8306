"""What loadings are fitted to and judged by: samples in memory, or the means and covariances of those that are not.

Shares of variance, Cronbach's α and correlations of scores depend on samples through sums of squares and products
alone. Of a table too large for the memory those of each part are added up as its blocks are read; what a fold is fitted
to, or judged by, is some parts put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array
from gpower.operators import Moments, Table, container_of
from gpower.operators.explained_variance import captured_variance
from gpower.operators.leading_pca import leading_components
from gpower.operators.running_moments import RunningMoments
from gpower.solvers.specification import Recipe
from gpower.validation.imputation import fill_from
from gpower.validation.prepare import Input, Prepared, Reading

#: Covariances that fit to a fold beside those of the parts, each of which is there twice while they are added up.
BESIDE = 6


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples in memory, without holes."""

    X: Table

    @property
    def weight(self) -> float:
        """Their number."""
        return float(self.X.shape[0])

    @cached_property
    def _moments(self) -> tuple[Array, Array, float]:
        return container_of(self.X).moments(None, self.weight)

    @property
    def mean(self) -> Array:
        """Of every variable."""
        return self._moments[0]

    @property
    def spread(self) -> Array:
        """Σ (x − mean)² of every variable."""
        return self._moments[1] ** 2

    def products(self, T: Array, center: Array) -> Array:
        """Inner products of the scores, of the variables in use."""
        dtype = self.X.dtype
        Y = np.asarray(container_of(self.X).project(T.astype(dtype), center.astype(dtype)), np.float64)
        return Y.T @ Y


#: Samples, as far as loadings are judged by them: number, means, sums of squares, and products of scores.
Evidence: TypeAlias = Samples | RunningMoments


def squares(evidence: Evidence, moments: Moments) -> float:
    """‖(X − mean)/scale‖², about the means of others."""
    return float(np.sum((evidence.spread + evidence.weight * (evidence.mean - moments.mean) ** 2) / moments.scale**2))


def inside(evidence: Evidence, Z: Array, moments: Moments) -> float:
    """Of these squares, what is in the span of the loadings Z."""
    return captured_variance(evidence.products(Z / moments.scale[:, None], moments.mean), Z)


def reliability(evidence: Evidence, Z: Array, scale: Array) -> float:
    """Cronbach's α of weighted variables, the worst component counting; zero for a single variable.

    Examples
    --------
    >>> import numpy as np
    >>> same, ones = Samples(np.outer([-1.0, 0.0, 1.0], [1.0, 1.0])), np.ones(2)
    >>> round(reliability(same, np.ones((2, 1)), ones), 6), reliability(same, np.eye(2)[:, :1], ones)
    (1.0, 0.0)
    """
    T, count = Z / scale[:, None], np.count_nonzero(Z, axis=0)
    apart, together = evidence.spread @ T**2, np.diagonal(evidence.products(T, evidence.mean))
    known = (count > 1) & (together > 0)
    alpha = (1 - apart / np.where(known, together, 1)) * count / np.maximum(count - 1, 1)
    return float(np.where(known, alpha, 0).min(initial=1))


@dataclass(frozen=True, eq=False)
class InMemory:
    """A table whose samples are at hand."""

    table: Input

    @property
    def names(self) -> Array | None:
        """Of the variables."""
        return self.table.names

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return self.table.shape[1]

    @property
    def whole(self) -> Samples:
        """Missing entries are at their mean."""
        X = self.table.X
        return Samples(np.where(np.isnan(X), np.nanmean(X, axis=0), X) if _has_holes(X) else X)

    def seen(self, rows: Array, recipes: Sequence[Recipe]) -> Prepared:
        """Holes are filled by what these tell."""
        return self.table.rows(rows).filled().prepared(None, recipes)

    def held_out(self, rows: Array, prepared: Prepared, rank: int) -> Samples:
        """Holes are filled by ordinary components of those fitted to."""
        X = self.table.X[rows]
        if not _has_holes(X):
            return Samples(X)
        V = leading_components(prepared.operator, min(rank, *prepared.operator.shape))[0]
        return Samples(fill_from(X, V, prepared.moments.mean, prepared.moments.scale))


def _has_holes(X: Table) -> bool:
    return not sp.issparse(X) and bool(np.isnan(np.sum(X)))


@dataclass(frozen=True, eq=False)
class Summed:
    """A table of which the moments of some parts are known; without the table, so that it travels to other processes.

    Attributes
    ----------
    reading : Reading
    names : ndarray of str or None
        Of the variables.
    part : ndarray of shape (n_samples,)
        The number of each sample's part.
    moments : sequence of RunningMoments
        Of every part.
    """

    reading: Reading
    names: Array | None
    part: Array
    moments: Sequence[RunningMoments]

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return self.moments[0].mean.size

    @property
    def whole(self) -> RunningMoments:
        """All parts."""
        return reduce(RunningMoments.merged, self.moments)

    def _of(self, rows: Array) -> RunningMoments:
        """The parts that some samples are made of; twice where those are."""
        there, counts = np.unique(self.part[rows], return_counts=True)
        times = [round(count / self.moments[i].weight) for i, count in zip(there, counts, strict=True)]
        return reduce(RunningMoments.merged, (self.moments[i] for i in np.repeat(there, times)))

    def seen(self, rows: Array, recipes: Sequence[Recipe]) -> Prepared:
        """By their covariance."""
        operator, moments = self._of(rows).operator(bool(self.reading.center), bool(self.reading.scale))
        return Prepared(operator, moments, tuple(recipes), names=self.names)

    def held_out(self, rows: Array, prepared: Prepared, rank: int) -> RunningMoments:
        """By theirs."""
        return self._of(rows)


#: Samples that folds take some of: to fit to, to judge by.
Splits: TypeAlias = InMemory | Summed


def products_of(splits: Splits, standard: bool) -> Callable[[Sequence[sp.csc_array]], Array]:
    """What makes inner products of scores of all samples, standardised or not, by component, of several loadings."""
    evidence = splits.whole
    deviation = np.sqrt(evidence.spread / max(evidence.weight - 1, 1)) if standard else np.ones(1)
    scale = np.where(deviation > 0, deviation, 1)[:, None]

    def products(loadings: Sequence[sp.csc_array]) -> Array:
        m, count = loadings[0].shape[1], len(loadings)
        G = evidence.products(np.hstack([Z.toarray() for Z in loadings]) / scale, evidence.mean)
        own = np.diagonal(G.reshape(count, m, count, m), axis1=1, axis2=3)  # of the same component
        return np.moveaxis(own, 2, 0)  # (m, n_loadings, n_loadings)

    return products


def splits_of(table: Input, recipe: Recipe, rows: Sequence[Array]) -> Splits:
    """What folds take these rows of: covariances of parts of a tall table, or of one too large; else the samples."""
    (p, n), blocks, part = table.shape, table.blocks, np.zeros(table.shape[0], np.intp)
    for each in rows:  # samples that all folds take alike are a part
        taken = np.bincount(each, minlength=p)
        part = np.unique(part * (taken.max() + 1) + taken, return_inverse=True)[1]
    parts = int(part.max()) + 1
    count = 2 * parts + BESIDE
    at_hand = not table.container.whereabouts
    possible = not recipe.needs_samples and (at_hand if blocks is None else count <= blocks.covariances)
    cheap = count * n <= p  # less room than the table
    needed = blocks is not None and not blocks.fits
    if possible and (cheap or needed) and not (at_hand and _has_holes(table.X)):
        return Summed(table.reading, table.names, part, table.by_part(part, parts))
    why = "Cross-validation takes samples out of a table in memory"
    if not recipe.needs_samples:
        size = f"{count} covariances of {n} variables, {8e-9 * count * n * n:.2g} GB"
        other = " (this one is stored by variable)" if blocks is not None and blocks.axis == 1 else ""
        why += f" or, of one stored by sample{other}, needs room for {size}"
    found = table.in_memory(why)
    return InMemory(found.finite(allow_nan=table.reading.missing == "impute"))
