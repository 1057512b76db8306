"""Content of a page, as plain numbers and names collected from a fitted model, its data and further results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array, is_device_array, to_host, to_numpy
from gpower._utils.text import NumberedNames, make_names_unique
from gpower.analysis.association import Association, Metadata, align_metadata, associate, get_row_names
from gpower.estimators.base import SparsePCAEstimator
from gpower.plotting.bars import rank_nonzero_by_size
from gpower.plotting.scree import compute_pca_shares
from gpower.plotting.style import resolve_variable_names
from gpower.report.doubts import find_batch_doubts, find_doubts
from gpower.report.formatting import format_name
from gpower.report.results import ReportResults
from gpower.report.samples import (
    ReportSamples,
    collect_samples,
    compute_column_moments,
    find_identifying_columns,
)
from gpower.validation.covariates import read_covariates
from gpower.validation.params import get_constructor_params
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import read_estimator_input

#: Largest numbers of loadings in the table of a page, and of those of a component at a point of a path.
MAX_LISTED_LOADINGS, MAX_LOADINGS_PER_PATH_POINT = 5000, 30
#: Difference of means, in standard deviations, above which the data are not those of the fit; rounding is far below.
MAX_RELATIVE_MEAN_SHIFT = 1e-3


@dataclass(frozen=True)
class Variable:
    """A variable that a component uses."""

    name: str
    loading: float
    mean: float
    standard_deviation: float
    index: int  # column among the variables of the model
    selection_frequency: float | None = None  # share of random subsamples in which it is chosen


@dataclass(frozen=True)
class Component:
    """A component with its variables, certificate, p-value and gene sets."""

    number: int
    explained_share: float
    cumulative_share: float
    variables: tuple[Variable, ...]
    optimality_ratio: float | None = None  # proven share of the best possible
    p_value: float | None = None
    gene_sets: tuple[dict[str, Any], ...] = ()  # records of the enriched gene sets


@dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything that a page shows.

    Attributes
    ----------
    model : GPower
        A fitted model without feature names, so that it accepts arrays without a warning.
    matrix : ndarray or sparse matrix
        The data, or the covariance, as the model sees them: after the earlier steps of a pipeline, less what covariates
        predict, on the host.
    feature_names : list of str
        Unique names of all variables.
    components : tuple of Component
    pca_shares : ndarray of shape (n_components,)
        Share of the variance explained by each ordinary component.
    results : ReportResults
    samples : ReportSamples or None
    association : Association or None
    doubts : tuple of str
        Sentences on everything that casts doubt on the components, and notes on the data.
    search_estimator : GPower or GPowerCV
        The estimator that found the model: a search, or the model with its names.
    pipeline_steps : tuple of str
        Classes of the earlier steps of a pipeline.
    """

    model: SparsePCAEstimator
    matrix: Any = field(repr=False)
    feature_names: Sequence[str] = field(repr=False)
    components: tuple[Component, ...]
    pca_shares: Array
    results: ReportResults
    samples: ReportSamples | None = None
    association: Association | None = None
    doubts: tuple[str, ...] = ()
    search_estimator: Any = field(default=None, repr=False)
    pipeline_steps: tuple[str, ...] = ()

    @property
    def n_missing(self) -> int:
        """Return the number of missing values that the model estimated."""
        is_imputed = get_constructor_params(self.model).get("missing") == "impute"
        return int(np.count_nonzero(np.isnan(self.matrix))) if is_imputed and isinstance(self.matrix, np.ndarray) else 0

    @property
    def removed_covariates(self) -> tuple[list[str], float] | None:
        """Return the names of the covariates that were removed and their share of the variance; None without any."""
        names = getattr(self.search_estimator, "covariates_names_", None)
        if names is None:
            return None
        return list(dict.fromkeys(map(str, names))), float(self.search_estimator.covariate_variance_ratio_)

    @property
    def is_covariance(self) -> bool:
        """Return whether the model was fitted to a covariance, without samples."""
        return get_constructor_params(self.model).get("covariance") is not None

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Return the number of variables of each component."""
        return tuple(len(component.variables) for component in self.components)

    @property
    def optimality_ratios(self) -> list[float]:
        """Return the proven shares of the best possible, of the components that have a certificate."""
        return [each.optimality_ratio for each in self.components if each.optimality_ratio is not None]

    @cached_property
    def loadings(self) -> list[tuple[Component, Variable]]:
        """Return the variables of all components, each with its component."""
        return [(component, variable) for component in self.components for variable in component.variables]

    @property
    def listed_loadings(self) -> list[tuple[Component, Variable]]:
        """Return the loadings of all components, or the `MAX_LISTED_LOADINGS` largest at most."""
        sizes = sorted((abs(variable.loading) for _, variable in self.loadings), reverse=True)
        threshold = sizes[MAX_LISTED_LOADINGS] if len(sizes) > MAX_LISTED_LOADINGS else 0.0
        return [pair for pair in self.loadings if abs(pair[1].loading) > threshold]

    @property
    def max_abs_loading(self) -> float:
        """Return the largest absolute loading of all components, which scales all bars."""
        return max((abs(variable.loading) for _, variable in self.loadings), default=1.0)

    @property
    def has_negative_loadings(self) -> bool:
        """Return whether any loading is negative, so that all bars start in the middle."""
        return any(variable.loading < 0 for _, variable in self.loadings)

    @cached_property
    def path_points(self) -> list[dict[str, Any]]:
        """Return the points of the path and the model as JSON types, by number of variables; none without a path.

        A point with the cardinalities of the model is left out, because the model stands for it.
        """
        path = self.results.path
        if path is None:
            return []
        share = self.components[-1].cumulative_share
        points = [self._make_path_point(self.model.components_, share, share / self.pca_shares.sum(), is_model=True)]
        for i, cardinality in enumerate(path.cardinality.tolist()):
            if cardinality != points[0]["cardinality"]:
                shares = float(path.explained_variance_ratio[i].sum()), float(path.share_of_pca[i])
                points.append(self._make_path_point(path.components(i).toarray(), *shares, is_model=False))
        return sorted(points, key=lambda point: sum(point["cardinality"]))

    def _make_path_point(
        self, components: Array, explained_share: float, share_of_pca: float, *, is_model: bool
    ) -> dict[str, Any]:
        """Return a point of the path: the cardinality and the largest loadings of each component, and the shares."""
        ranked = [(z, rank_nonzero_by_size(z).tolist()) for z in to_numpy(components)]
        return {
            "cardinality": [len(variables) for _, variables in ranked],
            "explained_share": explained_share,
            "share_of_pca": float(share_of_pca),
            "components": [
                [(format_name(self.feature_names[j]), float(z[j])) for j in variables[:MAX_LOADINGS_PER_PATH_POINT]]
                for z, variables in ranked
            ],
            "is_model": is_model,
        }


def collect_content(
    model: Any,
    X: Any,
    *,
    metadata: Metadata | None = None,
    metadata_by_order: bool = False,
    sample_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    results: ReportResults,
    with_samples: bool = True,
    anonymise: bool = False,
    warnings: Iterable[str] = (),
    covariates: Any = None,
    batch: Any = None,
) -> ReportContent:
    """Collect the content of a page from a fitted model, its data, metadata and further results.

    If the model was fitted with covariates, the page shows the residuals and a model of them.
    """
    unwrapped = UnwrappedModel.unwrap_fitted(model)
    reason = "A report needs the data in the memory of this machine"
    pipeline = unwrapped.pipeline
    estimator = unwrapped.model if pipeline is None else pipeline[-1]  # it has the feature names of the fit, if any
    table = read_estimator_input(estimator, unwrapped.apply_earlier_steps(X), reset=False).load_into_memory(reason)
    names = resolve_variable_names(unwrapped.model, feature_names, table.shape[1], str)
    names = names if isinstance(names, NumberedNames) else make_names_unique(names)
    matrix = to_host(table.X) if is_device_array(table.X) else table.X
    if table.row_names is not None and not (covariates is None and batch is None):  # they must name the same samples
        read_covariates(covariates, batch, table.shape[0], table.row_names)
    bare_model, matrix = strip_feature_names(unwrapped.model).remove_covariates(matrix, covariates, batch)
    is_covariance = get_constructor_params(bare_model).get("covariance") is not None
    if is_covariance and metadata is not None:
        raise ValueError("metadata describe samples; the model was fitted to a covariance, which has none.")
    aligned = {} if metadata is None else align_metadata(X, metadata, sample_names, metadata_by_order)
    columns = {str(name): values for name, values in aligned.items()}
    omitted = find_identifying_columns(columns) if anonymise else ()
    shown_columns = {name: values for name, values in columns.items() if name not in omitted}
    results.check_shapes(bare_model.components_.shape)
    used = rank_nonzero_by_size(np.abs(to_numpy(bare_model.components_)).max(axis=0))
    means, spreads = compute_column_moments(matrix, used, is_covariance=is_covariance)
    data_warnings = () if is_covariance else _check_same_samples(bare_model, matrix.shape[0], means, spreads, used)
    moments = dict(zip(used.tolist(), zip(means.tolist(), spreads.tolist(), strict=True), strict=True))
    gene_notes = () if results.enrichment is None else results.enrichment.universe.notes()
    row_names = get_row_names(X) or NumberedNames(table.shape[0], "s") if sample_names is None else sample_names
    samples = None
    if with_samples and not is_covariance:
        samples = collect_samples(bare_model, matrix, row_names, shown_columns, omitted, used, anonymise=anonymise)
    association = associate(bare_model.transform(matrix), shown_columns) if shown_columns else None
    batch_doubts = () if association is None else find_batch_doubts(association)
    doubts = (*data_warnings, *find_doubts(bare_model, results), *batch_doubts, *warnings, *gene_notes)
    return ReportContent(
        model=bare_model,
        matrix=matrix,
        feature_names=names,
        components=tuple(_make_components(bare_model, names, moments, results)),
        pca_shares=compute_pca_shares(bare_model, matrix),
        results=results,
        samples=samples,
        association=association if association is not None and association.names else None,
        doubts=tuple(dict.fromkeys(doubts)),
        search_estimator=unwrapped.model,
        pipeline_steps=tuple(type(step).__name__ for _, step in (pipeline.steps[:-1] if pipeline else ())),
    )


def _check_same_samples(
    model: SparsePCAEstimator, n_samples: int, means: Array, spreads: Array, used_variables: NDArray[np.intp]
) -> Iterator[str]:
    """Yield a warning if the model was fitted to other samples than these, or with sample weights.

    These have the given means and standard deviations of the variables in use.
    """
    params = get_constructor_params(model)
    n_fitted = float(vars(model).get("n_samples_", np.nan))
    has_plain_means = params.get("center") and params.get("missing") != "impute"
    shift = np.abs(to_numpy(model.mean_)[used_variables] - means)
    if n_fitted != n_samples or (has_plain_means and np.any(shift > MAX_RELATIVE_MEAN_SHIFT * spreads)):
        yield (
            f"The model was fitted to other samples than the {n_samples:,} shown here, or with weights: their "
            f"number, or the sum of their weights, was {n_fitted:g}. Components and explained variances are those of "
            "the fit; scores, distances and ordinary components are those of the samples shown."
        )


def strip_feature_names(model: Any) -> SparsePCAEstimator:
    """Return a copy of the model, or of the best of a search, without feature names, so that it accepts arrays."""
    bare_model = copy(getattr(model, "best_estimator_", model))
    vars(bare_model).pop("feature_names_in_", None)
    return bare_model


def _make_components(
    model: SparsePCAEstimator,
    names: Sequence[str],
    moments: Mapping[int, tuple[float, float]],
    results: ReportResults,
) -> Iterable[Component]:
    """Yield each component with its variables, certificate, p-value and gene sets.

    `moments` are the mean and the standard deviation of each variable in use.
    """
    shares = np.asarray(model.explained_variance_ratio_, float)
    ratios, p_values = results.get_optimality_ratios(model), results.get_p_values(model)
    records = [] if results.enrichment is None else [each for each in results.enrichment.records() if each["enriched"]]
    for i, row in enumerate(to_numpy(model.components_)):
        frequency = {} if results.stability is None else dict(enumerate(results.stability.frequency[i].tolist()))
        yield Component(
            number=i + 1,
            explained_share=float(shares[i]),
            cumulative_share=float(shares[: i + 1].sum()),
            variables=tuple(
                Variable(names[j], float(row[j]), *moments[j], j, frequency.get(j))
                for j in rank_nonzero_by_size(row).tolist()
            ),
            optimality_ratio=ratios.get(i),
            p_value=p_values.get(i),
            gene_sets=tuple(record for record in records if record["component"] == i + 1),
        )
