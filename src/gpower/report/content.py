"""What a page tells of a model, gathered from the results of the library: plain numbers and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array, is_device_array, to_host
from gpower._utils.backends import to_numpy
from gpower._utils.text import make_names_unique
from gpower.analysis.association import Association, Metadata, align_metadata, associate
from gpower.analysis.enrichment import Enrichment
from gpower.estimators.base import SparsePCAEstimator
from gpower.plotting.scree import compute_pca_shares
from gpower.report.results import ReportResults
from gpower.report.samples import (
    ReportSamples,
    collect_samples,
    compute_column_moments,
    find_identifying_columns,
    to_dense,
)
from gpower.validation.params import get_constructor_params
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import read_estimator_input

#: Loadings that a page lists at most; bars and gene sets of a component's card; its loadings at a point of a path.
MAX_LISTED_LOADINGS, MAX_LOADING_BARS, MAX_GENE_SETS_PER_COMPONENT, MAX_LOADINGS_PER_PATH_POINT = 5000, 20, 10, 30
#: Means of the samples of a fit and of those at hand may differ by this share of the spread: rounding is far below.
MAX_RELATIVE_MEAN_SHIFT = 1e-3


@dataclass(frozen=True)
class Variable:
    """A variable of a component."""

    name: str
    loading: float
    mean: float
    standard_deviation: float
    index: int  # its place among the variables of the model
    selection_frequency: float | None = None  # how often it is chosen again, of parts of the samples


@dataclass(frozen=True)
class Component:
    """A component with what is known of it."""

    number: int
    explained_share: float
    cumulative_share: float
    variables: tuple[Variable, ...]
    optimality_ratio: float | None = None  # proven share of the best possible
    p_value: float | None = None
    gene_sets: tuple[dict[str, Any], ...] = ()  # enriched gene sets
    n_gene_sets: int = 0

    @property
    def max_abs_loading(self) -> float:
        """The largest loading, by which bars are drawn."""
        return max((abs(variable.loading) for variable in self.variables), default=1.0)

    @property
    def bar_variables(self) -> tuple[Variable, ...]:
        """The variables whose loadings are bars of its card."""
        return self.variables[:MAX_LOADING_BARS]

    @property
    def has_both_signs(self) -> bool:
        """Whether some of these are positive and some negative."""
        return len({variable.loading < 0 for variable in self.bar_variables}) == 2


@dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything that a page shows.

    Attributes
    ----------
    model : GPower
        Without names of variables, so that plain matrices fit it.
    matrix : ndarray or sparse matrix
        The data, or the covariance, as the model sees them.
    names : list of str
        Of all variables.
    components : tuple of Component
    ordinary : ndarray of shape (n_components,)
        Share of the variance in each ordinary component.
    samples : Samples or None
    association : Association or None
    results : Results
    warnings : tuple of str
    search : GPower or GPowerCV
        What found the model; itself, if nothing else did.
    steps : tuple of str
        What the table went through before, in a pipeline.
    """

    model: SparsePCAEstimator
    matrix: Any = field(repr=False)
    feature_names: list[str] = field(repr=False)
    components: tuple[Component, ...]
    pca_shares: Array
    results: ReportResults
    samples: ReportSamples | None = None
    association: Association | None = None
    warnings: tuple[str, ...] = ()
    search_estimator: Any = field(default=None, repr=False)
    pipeline_steps: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of the data and of the gene sets, and no reason to worry."""
        sets = self.results.enrichment
        return (*self.model.notes_, *(() if sets is None else sets.universe.notes()))

    @property
    def n_missing(self) -> int:
        """Values that the model had to fill in itself."""
        filled = get_constructor_params(self.model).get("missing") == "impute" and isinstance(self.matrix, np.ndarray)
        return int(np.count_nonzero(np.isnan(self.matrix))) if filled else 0

    @property
    def is_covariance(self) -> bool:
        """Whether there are no samples to speak of."""
        return get_constructor_params(self.model).get("covariance") is not None

    @property
    def listed_loadings(self) -> list[tuple[Component, Variable]]:
        """The loadings of all components, of very many the largest."""
        pairs = [(component, variable) for component in self.components for variable in component.variables]
        if len(pairs) <= MAX_LISTED_LOADINGS:
            return pairs
        least = sorted((abs(variable.loading) for _, variable in pairs), reverse=True)[MAX_LISTED_LOADINGS]
        return [pair for pair in pairs if abs(pair[1].loading) > least]

    @property
    def path_start_index(self) -> int:
        """The point of the path whose components are nearest to the model's in number of variables."""
        path, asked = self.results.path, self.n_loadings / max(len(self.components), 1)
        return 0 if path is None else int(np.argmin(np.abs(path.cardinality.mean(axis=1) - asked)))

    @property
    def n_loadings(self) -> int:
        """Loadings that are not zero."""
        return sum(len(component.variables) for component in self.components)


def collect_content(
    model: Any,
    X: Any,
    *,
    metadata: Metadata | None = None,
    sample_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    results: ReportResults,
    with_samples: bool = True,
    anonymise: bool = False,
    warnings: Iterable[str] = (),
) -> ReportContent:
    """What there is to tell of a fitted model and its data."""
    held = UnwrappedModel.unwrap_fitted(model)
    why = "A report needs the data in the memory of this machine"
    reader = held.model if held.pipeline is None else held.pipeline[-1]  # with the names that the fit has seen, if any
    table = read_estimator_input(reader, held.apply_earlier_steps(X), reset=False).load_into_memory(why)
    names, bare = _resolve_feature_names(held.model, feature_names), _strip_feature_names(held.model)
    matrix = to_host(table.X) if is_device_array(table.X) else table.X
    covariance = get_constructor_params(bare).get("covariance") is not None
    if covariance and metadata is not None:
        raise ValueError("metadata tell of samples; the model is of a covariance, and has none.")
    metadata = {} if metadata is None else align_metadata(X, metadata, sample_names)
    known = {str(name): values for name, values in metadata.items()}
    left_out = find_identifying_columns(known) if anonymise else ()
    known = {name: values for name, values in known.items() if name not in left_out}
    results.check_shapes(bare.components_.shape)
    used = _find_used_variables(to_numpy(bare.components_))
    doubts = _check_same_samples(bare, matrix, used)
    given = _read_sample_names(X, table.shape[0]) if sample_names is None else sample_names
    samples = None if covariance else collect_samples(bare, matrix, given, known, used)
    if samples is not None and anonymise:
        samples = samples.anonymise(left_out)
    return ReportContent(
        model=bare,
        matrix=matrix,
        feature_names=names,
        components=tuple(_make_components(bare, matrix, names, used, results)),
        pca_shares=compute_pca_shares(bare, matrix),
        results=results,
        samples=samples if with_samples else None,
        association=associate(bare.transform(matrix), known) if known else None,
        warnings=tuple(
            dict.fromkeys(map(_number_components_from_one, [*vars(bare).get("warnings_", ()), *doubts, *warnings]))
        ),
        search_estimator=held.model,
        pipeline_steps=tuple(type(step).__name__ for _, step in (held.pipeline.steps[:-1] if held.pipeline else ())),
    )


def _check_same_samples(model: SparsePCAEstimator, matrix: Any, used_variables: NDArray[np.intp]) -> Iterator[str]:
    """Whether the model was made of other samples than these, or weighed them."""
    params, seen = get_constructor_params(model), float(vars(model).get("n_samples_", np.nan))
    if params.get("covariance") is not None:
        return
    known, whole = (
        compute_column_moments(matrix, used_variables),
        params.get("center") and params.get("missing") != "impute",
    )
    apart = np.abs(to_numpy(model.mean_)[used_variables] - known["mean"]) > MAX_RELATIVE_MEAN_SHIFT * known["spread"]
    if seen != matrix.shape[0] or (whole and apart.any()):
        yield (
            f"The model was fitted to other samples than the {matrix.shape[0]:,} shown here, or weighed them: their "
            f"number, or the sum of their weights, was {seen:g}. Components and what they explain are those of the "
            "fit; scores, distances and ordinary components are of the samples shown."
        )


def _number_components_from_one(warning: str) -> str:
    """A sentence of the library with components counted from 1, as the page counts them."""
    return re.sub(r"components_\[(\d+)\]", lambda found: f"component {int(found[1]) + 1}", str(warning))


def _strip_feature_names(model: Any) -> SparsePCAEstimator:
    """The model itself, of a search the best, without names, so that it takes plain matrices without a word."""
    bare = copy(getattr(model, "best_estimator_", model))
    vars(bare).pop("feature_names_in_", None)
    return bare


def _resolve_feature_names(model: Any, feature_names: Sequence[str] | None) -> list[str]:
    names = getattr(model, "feature_names_in_", None) if feature_names is None else feature_names
    n = model.components_.shape[1]
    if names is None:
        return [f"x{j}" for j in range(n)]
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} entries, but there are {n} variables.")
    return make_names_unique([str(name) for name in names])


def _read_sample_names(X: Any, n_samples: int) -> list[str]:
    """Those of a frame, or s0, s1, …."""
    rows = getattr(X, "index", None)
    return [f"s{i}" for i in range(n_samples)] if rows is None or callable(rows) else [str(name) for name in rows]


def _find_used_variables(components: Array) -> NDArray[np.intp]:
    """Variables with a loading, the largest first."""
    sizes = np.abs(components).max(axis=0)
    return np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]


def _make_components(
    model: SparsePCAEstimator, matrix: Any, names: list[str], used_variables: NDArray[np.intp], results: ReportResults
) -> Iterable[Component]:
    """Each component with its variables, its proof, its p-value and its gene sets."""
    known = _compute_variable_moments(model, matrix, used_variables)
    place, at = {int(j): i for i, j in enumerate(used_variables)}, {name: j for j, name in enumerate(names)}
    shares, sets = np.asarray(model.explained_variance_ratio_, float), _collect_enriched_sets(results.enrichment)
    ratios, p_values = _collect_optimality_ratios(model, results), _collect_p_values(model, results)
    for i, loadings in enumerate(model.loadings(names)):
        again = None if results.stability is None else results.stability.frequency[i]
        found = sets.get(i + 1, [])
        yield Component(
            number=i + 1,
            explained_share=float(shares[i]),
            cumulative_share=float(shares[: i + 1].sum()),
            variables=tuple(
                Variable(
                    name,
                    loading,
                    float(known["mean"][place[at[name]]]),
                    float(known["spread"][place[at[name]]]),
                    at[name],
                    None if again is None else float(again[at[name]]),
                )
                for name, loading in loadings.items()
            ),
            optimality_ratio=ratios.get(i),
            p_value=p_values.get(i),
            gene_sets=tuple(found[:MAX_GENE_SETS_PER_COMPONENT]),
            n_gene_sets=len(found),
        )


def _compute_variable_moments(model: SparsePCAEstimator, matrix: Any, used_variables: NDArray[np.intp]) -> Any:
    """Mean and spread of the variables; a covariance tells the spread alone."""
    if get_constructor_params(model).get("covariance") is None:
        return compute_column_moments(matrix, used_variables)
    spread = np.sqrt(np.diagonal(to_dense(matrix))[used_variables].clip(0))
    return {"mean": np.full(used_variables.size, np.nan), "spread": spread}


def _collect_optimality_ratios(model: SparsePCAEstimator, results: ReportResults) -> dict[int, float]:
    """Proven shares of the best possible, by component."""
    if results.certificates:
        return {i: proof.ratio for i, proof in enumerate(results.certificates)}
    return {i: float(ratio) for i, ratio in enumerate(vars(model).get("optimality_ratio_", ()))}


def _collect_p_values(model: SparsePCAEstimator, results: ReportResults) -> dict[int, float]:
    """By component, of those that were held against permuted tables."""
    if results.test is not None:
        return {i: float(p) for i, p in enumerate(results.test.p_values[: results.test.n_tested])}
    return {i: float(p) for i, p in enumerate(vars(model).get("component_p_values_", ()))}


def _collect_enriched_sets(enrichment: Enrichment | None) -> dict[int, list[dict[str, Any]]]:
    """The enriched gene sets of each component, counted from 1."""
    found: dict[int, list[dict[str, Any]]] = {}
    for record in () if enrichment is None else enrichment.records():
        if record["enriched"]:
            found.setdefault(record["component"], []).append(record)
    return found
