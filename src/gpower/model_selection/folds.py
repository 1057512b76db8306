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
from gpower.operators import MatrixLike, Moments, as_container
from gpower.operators.explained_variance import captured_variance
from gpower.operators.leading_pca import compute_leading_components
from gpower.operators.running_moments import RunningMoments
from gpower.solvers.specification import FitSpec
from gpower.validation.imputation import impute_from_loadings
from gpower.validation.prepare import DataParams, EstimatorInput, PreparedData

#: Covariances that fit to a fold beside those of the parts, each of which is there twice while they are added up.
N_EXTRA_COVARIANCES = 6


@dataclass(frozen=True, eq=False)
class FoldSamples:
    """Samples in memory, without holes."""

    X: MatrixLike

    @property
    def total_weight(self) -> float:
        """Their number."""
        return float(self.X.shape[0])

    @cached_property
    def _moments(self) -> tuple[Array, Array, float]:
        return as_container(self.X).compute_moments(None, self.total_weight)

    @property
    def mean(self) -> Array:
        """Of every variable."""
        return self._moments[0]

    @property
    def squared_deviations(self) -> Array:
        """Σ (x − mean)² of every variable."""
        return self._moments[1] ** 2

    def compute_score_gram(self, loadings: Array, center: Array) -> Array:
        """Inner products of the scores, of the variables in use."""
        dtype = self.X.dtype
        Y = np.asarray(as_container(self.X).project_samples(loadings.astype(dtype), center.astype(dtype)), np.float64)
        return Y.T @ Y


#: Samples, as far as loadings are judged by them: number, means, sums of squares, and products of scores.
FoldData: TypeAlias = FoldSamples | RunningMoments


def compute_total_squares(data: FoldData, moments: Moments) -> float:
    """‖(X − mean)/scale‖², about the means of others."""
    return float(
        np.sum((data.squared_deviations + data.total_weight * (data.mean - moments.mean) ** 2) / moments.scale**2)
    )


def compute_captured_squares(data: FoldData, Z: Array, moments: Moments) -> float:
    """Of these squares, what is in the span of the loadings Z."""
    return captured_variance(data.compute_score_gram(Z / moments.scale[:, None], moments.mean), Z)


def compute_cronbach_alpha(data: FoldData, Z: Array, scale: Array) -> float:
    """Cronbach's α of weighted variables, the worst component counting; zero for a single variable.

    Examples
    --------
    >>> import numpy as np
    >>> same, ones = FoldSamples(np.outer([-1.0, 0.0, 1.0], [1.0, 1.0])), np.ones(2)
    >>> round(compute_cronbach_alpha(same, np.ones((2, 1)), ones), 6)
    1.0
    >>> compute_cronbach_alpha(same, np.eye(2)[:, :1], ones)
    0.0
    """
    T, count = Z / scale[:, None], np.count_nonzero(Z, axis=0)
    apart, together = data.squared_deviations @ T**2, np.diagonal(data.compute_score_gram(T, data.mean))
    known = (count > 1) & (together > 0)
    alpha = (1 - apart / np.where(known, together, 1)) * count / np.maximum(count - 1, 1)
    return float(np.where(known, alpha, 0).min(initial=1))


@dataclass(frozen=True, eq=False)
class SampleFolds:
    """A table whose samples are at hand."""

    table: EstimatorInput

    @property
    def names(self) -> Array | None:
        """Of the variables."""
        return self.table.feature_names

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return self.table.shape[1]

    @property
    def all_data(self) -> FoldSamples:
        """Missing entries are at their mean."""
        X = self.table.X
        return FoldSamples(np.where(np.isnan(X), np.nanmean(X, axis=0), X) if _has_missing_values(X) else X)

    def prepare_training(self, rows: Array, specs: Sequence[FitSpec]) -> PreparedData:
        """Holes are filled by what these tell."""
        return self.table.select_samples(rows).fill_missing().prepare(None, specs)

    def take_held_out(self, rows: Array, prepared: PreparedData, rank: int) -> FoldSamples:
        """Holes are filled by ordinary components of those fitted to."""
        X = self.table.X[rows]
        if not _has_missing_values(X):
            return FoldSamples(X)
        V = compute_leading_components(prepared.operator, min(rank, *prepared.operator.shape))[0]
        return FoldSamples(impute_from_loadings(X, V, prepared.moments.mean, prepared.moments.scale))


def _has_missing_values(X: MatrixLike) -> bool:
    return not sp.issparse(X) and bool(np.isnan(np.sum(X)))


@dataclass(frozen=True, eq=False)
class CovarianceFolds:
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

    reading: DataParams
    names: Array | None
    part_labels: Array
    part_moments: Sequence[RunningMoments]

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return self.part_moments[0].mean.size

    @property
    def all_data(self) -> RunningMoments:
        """All parts."""
        return reduce(RunningMoments.merge, self.part_moments)

    def _merge_moments(self, rows: Array) -> RunningMoments:
        """The parts that some samples are made of; twice where those are."""
        there, counts = np.unique(self.part_labels[rows], return_counts=True)
        times = [round(count / self.part_moments[i].total_weight) for i, count in zip(there, counts, strict=True)]
        return reduce(RunningMoments.merge, (self.part_moments[i] for i in np.repeat(there, times)))

    def prepare_training(self, rows: Array, specs: Sequence[FitSpec]) -> PreparedData:
        """By their covariance."""
        operator, moments = self._merge_moments(rows).to_operator(bool(self.reading.center), bool(self.reading.scale))
        return PreparedData(operator, moments, tuple(specs), feature_names=self.names)

    def take_held_out(self, rows: Array, prepared: PreparedData, rank: int) -> RunningMoments:
        """By theirs."""
        return self._merge_moments(rows)


#: Samples that folds take some of: to fit to, to judge by.
FoldSource: TypeAlias = SampleFolds | CovarianceFolds


def make_score_gram_function(
    fold_source: FoldSource, should_standardize: bool
) -> Callable[[Sequence[sp.csc_array]], Array]:
    """What makes inner products of scores of all samples, standardised or not, by component, of several loadings."""
    evidence = fold_source.all_data
    deviation = (
        np.sqrt(evidence.squared_deviations / max(evidence.total_weight - 1, 1)) if should_standardize else np.ones(1)
    )
    scale = np.where(deviation > 0, deviation, 1)[:, None]

    def products(loadings: Sequence[sp.csc_array]) -> Array:
        m, count = loadings[0].shape[1], len(loadings)
        G = evidence.compute_score_gram(np.hstack([Z.toarray() for Z in loadings]) / scale, evidence.mean)
        own = np.diagonal(G.reshape(count, m, count, m), axis1=1, axis2=3)  # of the same component
        return np.moveaxis(own, 2, 0)  # (m, n_loadings, n_loadings)

    return products


def build_fold_source(table: EstimatorInput, spec: FitSpec, rows: Sequence[Array]) -> FoldSource:
    """What folds take these rows of: covariances of parts of a tall table, or of one too large; else the samples."""
    (p, n), blocks, part = table.shape, table.block_matrix, np.zeros(table.shape[0], np.intp)
    for each in rows:  # samples that all folds take alike are a part
        taken = np.bincount(each, minlength=p)
        part = np.unique(part * (taken.max() + 1) + taken, return_inverse=True)[1]
    parts = int(part.max()) + 1
    count = 2 * parts + N_EXTRA_COVARIANCES
    at_hand = not table.container.storage_description
    possible = not spec.needs_samples and (at_hand if blocks is None else count <= blocks.max_covariances)
    cheap = count * n <= p  # less room than the table
    needed = blocks is not None and not blocks.fits_in_memory
    if possible and (cheap or needed) and not (at_hand and _has_missing_values(table.X)):
        return CovarianceFolds(table.data_params, table.feature_names, part, table.compute_moments_by_part(part, parts))
    why = "Cross-validation takes samples out of a table in memory"
    if not spec.needs_samples:
        size = f"{count} covariances of {n} variables, {8e-9 * count * n * n:.2g} GB"
        other = " (this one is stored by variable)" if blocks is not None and blocks.axis == 1 else ""
        why += f" or, of one stored by sample{other}, needs room for {size}"
    found = table.load_into_memory(why)
    return SampleFolds(found.require_finite(allow_nan=table.data_params.missing == "impute"))
