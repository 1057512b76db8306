"""What a page tells of a model, gathered from the results of the library: plain numbers and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array, is_device, to_host
from gpower._utils.backends import on_host
from gpower._utils.text import unique_names
from gpower.analysis.association import Association, Metadata, associate, in_order_of
from gpower.analysis.enrichment import Enrichment
from gpower.estimators.base import SparsePCAEstimator
from gpower.plotting.scree import ordinary_shares
from gpower.report.results import Results
from gpower.report.samples import Samples, dense, moments, naming, samples_of
from gpower.validation.params import parameters_of
from gpower.validation.pipelines import Held
from gpower.validation.prepare import read

#: Loadings that a page lists at most; bars and gene sets of a component's card; its loadings at a point of a path.
MOST_LOADINGS, MOST_BARS, MOST_SETS, MOST_ON_PATH = 5000, 20, 10, 30
#: Means of the samples of a fit and of those at hand may differ by this share of the spread: rounding is far below.
AS_GOOD_AS_EQUAL = 1e-3


@dataclass(frozen=True)
class Variable:
    """A variable of a component."""

    name: str
    loading: float
    mean: float
    spread: float
    at: int  # its place among the variables of the model
    again: float | None = None  # how often it is chosen again, of parts of the samples


@dataclass(frozen=True)
class Component:
    """A component with what is known of it."""

    number: int
    share: float
    total: float
    variables: tuple[Variable, ...]
    ratio: float | None = None  # proven share of the best possible
    p_value: float | None = None
    sets: tuple[dict[str, Any], ...] = ()  # enriched gene sets
    n_sets: int = 0

    @property
    def reach(self) -> float:
        """The largest loading, by which bars are drawn."""
        return max((abs(variable.loading) for variable in self.variables), default=1.0)

    @property
    def barred(self) -> tuple[Variable, ...]:
        """The variables whose loadings are bars of its card."""
        return self.variables[:MOST_BARS]

    @property
    def has_both(self) -> bool:
        """Whether some of these are positive and some negative."""
        return len({variable.loading < 0 for variable in self.barred}) == 2


@dataclass(frozen=True, eq=False)
class Contents:
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
    names: list[str] = field(repr=False)
    components: tuple[Component, ...]
    ordinary: Array
    results: Results
    samples: Samples | None = None
    association: Association | None = None
    warnings: tuple[str, ...] = ()
    search: Any = field(default=None, repr=False)
    steps: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of the data and of the gene sets, and no reason to worry."""
        sets = self.results.enrichment
        return (*self.model.notes_, *(() if sets is None else sets.universe.notes()))

    @property
    def n_missing(self) -> int:
        """Values that the model had to fill in itself."""
        filled = parameters_of(self.model).get("missing") == "impute" and isinstance(self.matrix, np.ndarray)
        return int(np.count_nonzero(np.isnan(self.matrix))) if filled else 0

    @property
    def is_covariance(self) -> bool:
        """Whether there are no samples to speak of."""
        return parameters_of(self.model).get("covariance") is not None

    @property
    def listed(self) -> list[tuple[Component, Variable]]:
        """The loadings of all components, of very many the largest."""
        pairs = [(component, variable) for component in self.components for variable in component.variables]
        if len(pairs) <= MOST_LOADINGS:
            return pairs
        least = sorted((abs(variable.loading) for _, variable in pairs), reverse=True)[MOST_LOADINGS]
        return [pair for pair in pairs if abs(pair[1].loading) > least]

    @property
    def at_on_path(self) -> int:
        """The point of the path whose components are nearest to the model's in number of variables."""
        path, asked = self.results.path, self.n_loadings / max(len(self.components), 1)
        return 0 if path is None else int(np.argmin(np.abs(path.cardinality.mean(axis=1) - asked)))

    @property
    def n_loadings(self) -> int:
        """Loadings that are not zero."""
        return sum(len(component.variables) for component in self.components)


def collected(
    model: Any,
    X: Any,
    *,
    metadata: Metadata | None = None,
    sample_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    results: Results,
    with_samples: bool = True,
    anonymise: bool = False,
    warnings: Iterable[str] = (),
) -> Contents:
    """What there is to tell of a fitted model and its data."""
    held = Held.fitted(model)
    why = "A report needs the data in the memory of this machine"
    reader = held.model if held.pipeline is None else held.pipeline[-1]  # with the names that the fit has seen, if any
    table = read(reader, held.seen(X), reset=False).in_memory(why)
    names, bare = _names(held.model, feature_names), _bare(held.model)
    matrix = to_host(table.X) if is_device(table.X) else table.X
    covariance = parameters_of(bare).get("covariance") is not None
    if covariance and metadata is not None:
        raise ValueError("metadata tell of samples; the model is of a covariance, and has none.")
    metadata = {} if metadata is None else in_order_of(X, metadata, sample_names)
    known = {str(name): values for name, values in metadata.items()}
    left_out = naming(known) if anonymise else ()
    known = {name: values for name, values in known.items() if name not in left_out}
    results.check(bare.components_.shape)
    used = _used(on_host(bare.components_))
    doubts = _strangers(bare, matrix, used)
    given = _sample_names(X, table.shape[0]) if sample_names is None else sample_names
    samples = None if covariance else samples_of(bare, matrix, given, known, used)
    if samples is not None and anonymise:
        samples = samples.anonymous(left_out)
    return Contents(
        model=bare,
        matrix=matrix,
        names=names,
        components=tuple(_components(bare, matrix, names, used, results)),
        ordinary=ordinary_shares(bare, matrix),
        results=results,
        samples=samples if with_samples else None,
        association=associate(bare.transform(matrix), known) if known else None,
        warnings=tuple(dict.fromkeys(map(_counted, [*vars(bare).get("warnings_", ()), *doubts, *warnings]))),
        search=held.model,
        steps=tuple(type(step).__name__ for _, step in (held.pipeline.steps[:-1] if held.pipeline else ())),
    )


def _strangers(model: SparsePCAEstimator, matrix: Any, used: NDArray[np.intp]) -> Iterator[str]:
    """Whether the model was made of other samples than these, or weighed them."""
    params, seen = parameters_of(model), float(vars(model).get("n_samples_", np.nan))
    if params.get("covariance") is not None:
        return
    known, whole = moments(matrix, used), params.get("center") and params.get("missing") != "impute"
    apart = np.abs(on_host(model.mean_)[used] - known["mean"]) > AS_GOOD_AS_EQUAL * known["spread"]
    if seen != matrix.shape[0] or (whole and apart.any()):
        yield (
            f"The model was fitted to other samples than the {matrix.shape[0]:,} shown here, or weighed them: their "
            f"number, or the sum of their weights, was {seen:g}. Components and what they explain are those of the "
            "fit; scores, distances and ordinary components are of the samples shown."
        )


def _counted(warning: str) -> str:
    """A sentence of the library with components counted from 1, as the page counts them."""
    return re.sub(r"components_\[(\d+)\]", lambda found: f"component {int(found[1]) + 1}", str(warning))


def _bare(model: Any) -> SparsePCAEstimator:
    """The model itself, of a search the best, without names, so that it takes plain matrices without a word."""
    bare = copy(getattr(model, "best_estimator_", model))
    vars(bare).pop("feature_names_in_", None)
    return bare


def _names(model: Any, given: Sequence[str] | None) -> list[str]:
    names = getattr(model, "feature_names_in_", None) if given is None else given
    n = model.components_.shape[1]
    if names is None:
        return [f"x{j}" for j in range(n)]
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} entries, but there are {n} variables.")
    return unique_names([str(name) for name in names])


def _sample_names(X: Any, n: int) -> list[str]:
    """Those of a frame, or s0, s1, …."""
    rows = getattr(X, "index", None)
    return [f"s{i}" for i in range(n)] if rows is None or callable(rows) else [str(name) for name in rows]


def _used(components: Array) -> NDArray[np.intp]:
    """Variables with a loading, the largest first."""
    sizes = np.abs(components).max(axis=0)
    return np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]


def _components(
    model: SparsePCAEstimator, matrix: Any, names: list[str], used: NDArray[np.intp], results: Results
) -> Iterable[Component]:
    """Each component with its variables, its proof, its p-value and its gene sets."""
    known = _moments(model, matrix, used)
    place, at = {int(j): i for i, j in enumerate(used)}, {name: j for j, name in enumerate(names)}
    shares, sets = np.asarray(model.explained_variance_ratio_, float), _sets(results.enrichment)
    ratios, p_values = _ratios(model, results), _p_values(model, results)
    for i, loadings in enumerate(model.loadings(names)):
        again = None if results.stability is None else results.stability.frequency[i]
        found = sets.get(i + 1, [])
        yield Component(
            number=i + 1,
            share=float(shares[i]),
            total=float(shares[: i + 1].sum()),
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
            ratio=ratios.get(i),
            p_value=p_values.get(i),
            sets=tuple(found[:MOST_SETS]),
            n_sets=len(found),
        )


def _moments(model: SparsePCAEstimator, matrix: Any, used: NDArray[np.intp]) -> Any:
    """Mean and spread of the variables; a covariance tells the spread alone."""
    if parameters_of(model).get("covariance") is None:
        return moments(matrix, used)
    spread = np.sqrt(np.diagonal(dense(matrix))[used].clip(0))
    return {"mean": np.full(used.size, np.nan), "spread": spread}


def _ratios(model: SparsePCAEstimator, results: Results) -> dict[int, float]:
    """Proven shares of the best possible, by component."""
    if results.certificates:
        return {i: proof.ratio for i, proof in enumerate(results.certificates)}
    return {i: float(ratio) for i, ratio in enumerate(vars(model).get("optimality_ratio_", ()))}


def _p_values(model: SparsePCAEstimator, results: Results) -> dict[int, float]:
    """By component, of those that were held against permuted tables."""
    if results.test is not None:
        return {i: float(p) for i, p in enumerate(results.test.p_values[: results.test.n_tested])}
    return {i: float(p) for i, p in enumerate(vars(model).get("component_p_values_", ()))}


def _sets(enrichment: Enrichment | None) -> dict[int, list[dict[str, Any]]]:
    """The enriched gene sets of each component, counted from 1."""
    found: dict[int, list[dict[str, Any]]] = {}
    for record in () if enrichment is None else enrichment.records():
        if record["enriched"]:
            found.setdefault(record["component"], []).append(record)
    return found
