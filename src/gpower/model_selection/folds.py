"""Training and test data of cross-validation folds: samples in memory, or means and covariances of parts of a table.

Shares of variance depend on samples only through sums of squares and products. If a table is too large for memory,
these sums are accumulated for each part while its blocks are read. The training and the test data of a fold are unions
of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array
from gpower.operators import MatrixLike, as_container
from gpower.operators.explained_variance import captured_variance, compute_captured_share, total_variance
from gpower.operators.leading_pca import compute_leading_components
from gpower.operators.running_moments import RunningMoments
from gpower.operators.storage.covariate_residuals import ResidualMatrix
from gpower.solvers.fit_specification import FitSpec
from gpower.validation.covariates import CovariateRegression, Covariates, CovariateVariables
from gpower.validation.imputation import impute_from_loadings
from gpower.validation.prepare import EstimatorInput, PreparedData

#: Number of covariance matrices that fitting a fold needs in memory, in addition to two for each part (each part has
#: two while its blocks are accumulated).
N_EXTRA_COVARIANCES = 6


#: Function of loadings Z, (n_features, m), that returns the share of the held-out variance in their span.
HeldOutScore: TypeAlias = Callable[[Array], float]


@dataclass(frozen=True, eq=False)
class SampleFolds:
    """Folds of a table in memory: rows are selected and prepared like a table of their own."""

    table: EstimatorInput

    @property
    def names(self) -> Array | None:
        """Return the names of the variables, if there are any."""
        return self.table.feature_names

    @property
    def n_features(self) -> int:
        """Return the number of variables."""
        return self.table.shape[1]

    def prepare_training(self, rows: Array, specs: Sequence[FitSpec]) -> PreparedData:
        """Prepare some samples for a fit; imputation and regression on covariates use these samples alone."""
        return self.table.select_samples(rows).fill_missing().prepare(None, specs)

    def make_held_out_score(self, rows: Array, prepared: PreparedData, rank: int) -> HeldOutScore:
        """Return the score on some samples, less what the covariates predict with the training samples' coefficients.

        Missing values are imputed from the leading PCA components of the training samples.
        """
        held_out, moments = self.table.select_samples(rows), prepared.moments
        X, regression = held_out.X, prepared.covariates
        if regression is not None and isinstance(held_out.covariates, Covariates):
            X = ResidualMatrix(held_out.container, held_out.covariates.values - regression.mean, regression.coef)
        if _has_missing_values(held_out.X):
            V = compute_leading_components(prepared.operator, min(rank, *prepared.operator.shape))[0]
            X = impute_from_loadings(as_container(X).to_dense(), V, moments.mean, moments.scale)
        total = total_variance(X, moments.mean, moments.scale)
        return lambda Z: compute_captured_share(X, Z, moments.mean, moments.scale, total)


def _has_missing_values(X: MatrixLike) -> bool:
    return not sp.issparse(X) and bool(np.isnan(np.sum(X)))


@dataclass(frozen=True, eq=False)
class CovarianceFolds:
    """Folds whose data are sums of the moments of disjoint parts of a table.

    The object does not contain the table, so that it is cheap to send to other processes.

    Attributes
    ----------
    params : mapping
        Parameters of the estimator, of which `center` and `scale` are used.
    names : ndarray of str or None
        Names of the variables.
    part_labels : ndarray of shape (n_samples,)
        Index of each sample's part.
    part_moments : sequence of RunningMoments
        Moments of every part; of the variables and then the encoded covariates, if there are any.
    n_covariates : int
        Number of encoded covariates.
    """

    params: Mapping[str, Any]
    names: Array | None
    part_labels: Array
    part_moments: Sequence[RunningMoments]
    n_covariates: int = 0

    @property
    def n_features(self) -> int:
        """Return the number of variables."""
        return self.part_moments[0].mean.size - self.n_covariates

    def _regress(self, moments: RunningMoments) -> CovariateRegression | None:
        """Return the regression of the variables on the covariates of the same samples; None without covariates."""
        if not self.n_covariates:
            return None
        center, mean, S = bool(self.params["center"]), moments.mean, moments.scatter
        S = S if center else S + moments.total_weight * np.outer(mean, mean)
        columns = np.arange(self.n_features, mean.size)
        found = CovariateVariables(columns.astype(object), columns).regress(as_container(S), None, center)
        return replace(found, mean=mean[columns] if center else np.zeros(columns.size))

    def _subtract_covariates(self, moments: RunningMoments, regression: CovariateRegression | None) -> RunningMoments:
        """Return the moments of the variables less what a regression predicts, which may be one of other samples."""
        if regression is None:
            return moments
        n, coef = self.n_features, regression.coef[:, : self.n_features]
        S, C = moments.scatter[:n, :n], moments.scatter[n:]
        mixed = coef.T @ C[:, :n]
        rest = S - mixed - mixed.T + coef.T @ (C[:, n:] @ coef)
        is_predicted = np.diagonal(regression.residuals)[:n] == 0
        rest[is_predicted] = 0
        rest[:, is_predicted] = 0
        mean = moments.mean[:n] - (moments.mean[n:] - regression.mean) @ coef
        return replace(moments, mean=mean, scatter=rest)

    def _merge_moments(self, rows: Array) -> RunningMoments:
        """Return the moments of the parts that make up these samples; repeated samples count repeatedly."""
        parts, counts = np.unique(self.part_labels[rows], return_counts=True)
        times = [round(count / self.part_moments[i].total_weight) for i, count in zip(parts, counts, strict=True)]
        return reduce(RunningMoments.merge, (self.part_moments[i] for i in np.repeat(parts, times)))

    def prepare_training(self, rows: Array, specs: Sequence[FitSpec]) -> PreparedData:
        """Prepare the covariance of some samples for a fit."""
        moments = self._merge_moments(rows)
        regression = self._regress(moments)
        residual = self._subtract_covariates(moments, regression)
        operator, applied = residual.to_operator(bool(self.params["center"]), bool(self.params["scale"]))
        return PreparedData(operator, applied, tuple(specs), feature_names=self.names, covariates=regression)

    def make_held_out_score(self, rows: Array, prepared: PreparedData, rank: int) -> HeldOutScore:
        """Return the score on some samples, or on what the training samples' regression leaves of them."""
        held_out, moments = self._subtract_covariates(self._merge_moments(rows), prepared.covariates), prepared.moments
        shift = held_out.mean - moments.mean
        squares = held_out.squared_deviations + held_out.total_weight * shift**2
        total = float(np.sum(squares / moments.scale**2)) or np.inf

        def score(Z: Array) -> float:
            return captured_variance(held_out.compute_score_gram(Z / moments.scale[:, None], moments.mean), Z) / total

        return score


#: Source of the training and the test data of every fold.
FoldSource: TypeAlias = SampleFolds | CovarianceFolds


def build_fold_source(table: EstimatorInput, spec: FitSpec, rows: Sequence[Array]) -> FoldSource:
    """Return covariances of parts if the table is tall or too large for memory, else the samples.

    `rows` are the indices of the training and of the test samples of all folds.
    """
    p, n = table.shape
    blocks = table.block_matrix
    labels = np.zeros(p, np.intp)
    for each in rows:  # samples that every fold treats alike form a part
        times = np.bincount(each, minlength=p)
        labels = np.unique(labels * (times.max() + 1) + times, return_inverse=True)[1]
    n_parts = int(labels.max()) + 1
    count = 2 * n_parts + N_EXTRA_COVARIANCES
    in_memory = not table.container.storage_description
    possible = not spec.needs_samples and (in_memory if blocks is None else count <= blocks.max_covariances)
    cheap = count * n <= p  # the covariances take less memory than the table
    needed = blocks is not None and not blocks.fits_in_memory
    if possible and (cheap or needed) and not (in_memory and _has_missing_values(table.X)):
        moments = table.compute_moments_by_part(labels, n_parts)
        return CovarianceFolds(table.params, table.feature_names, labels, moments, moments[0].mean.size - n)
    reason = "Cross-validation needs the table in memory"
    if not spec.needs_samples:
        size = f"{count} covariances of {n} variables, {8e-9 * count * n * n:.2g} GB"
        axis_note = " (this one is stored by variable)" if blocks is not None and blocks.axis == 1 else ""
        reason += f" or, for a table stored by sample{axis_note}, needs memory for {size}"
    samples = table.load_into_memory(reason)
    return SampleFolds(samples.require_finite(allow_nan=table.params["missing"] == "impute"))
