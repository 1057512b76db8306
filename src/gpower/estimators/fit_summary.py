"""What a fit reports: the fitted attributes, the warnings about them, and a log entry."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gpower._utils.arrays import Array, to_host, to_numpy
from gpower._utils.messages import format_param
from gpower._utils.text import format_names
from gpower._utils.warnings import GPowerWarning, NotConvergedWarning, ScaleWarning, WarningSpec
from gpower.operators.explained_variance import Scores, cosine_matrix, count_shared_variables
from gpower.solvers.component import ComponentResult
from gpower.validation.checks import format_variable_name
from gpower.validation.params import fix_n_components, get_constructor_params, resolve_solver
from gpower.validation.prepare import PreparedData
from gpower.validation.variable_rules import VariableRules

#: Parameters of an estimator, or its fitted attributes, by name.
NamedValues: TypeAlias = dict[str, Any]
logger = logging.getLogger("gpower")
#: A component duplicates others if its adjusted variance is below this share of its variance.
MIN_ADDED_VARIANCE_SHARE = 0.1
#: A warning names no more components than these.
MAX_LISTED_COMPONENTS = 8
#: A component is decided by the scale of its variables if this share of its squared loadings belongs to one variable
#: whose standard deviation is this multiple of the median, or to variables of this larger multiple. The largest
#: multiples seen where all variables have one unit: 7 in log expression of genes, 41 in counts of words.
DOMINANT_LOADING_SHARE, DOMINANT_SCALE_RATIO, EXTREME_SCALE_RATIO = 0.95, 10, 100
#: Columns of far larger scale are foreign to a table of at least so many columns if they are at most this share of
#: them, or three, and the scales of the others are similar.
MIN_COMPARED_COLUMNS, MAX_FOREIGN_SHARE = 10, 0.03


class IterationCounts(np.ndarray):
    """Numbers of steps, one per ascent; a comparison is true if it is true for all of them.

    scikit-learn's checks evaluate ``n_iter_ >= 1`` as one truth value.
    """

    def __bool__(self) -> bool:
        return bool(np.all(np.asarray(self)))

    def __repr__(self) -> str:
        return repr(np.asarray(self))


@dataclass(frozen=True, eq=False)
class FitSummary:
    """The fitted attributes of a model, in the units of the data."""

    components: Array  # (n_components, n_features), on the device of the data if they are on one
    component_attributes: dict[str, Array]  # attributes with an entry, or a row, per component or ascent, on the host
    shared_attributes: NamedValues  # of all components together, and of the data; mean_ and scale_ on its device
    unadjusted_variance: Array  # (n_components,), variance of each component's scores

    @property
    def attributes(self) -> NamedValues:
        """Return all fitted attributes by name."""
        return {"components_": self.components} | self.component_attributes | self.shared_attributes


def summarize_fit(
    prepared: PreparedData, result: ComponentResult, *, sort: bool = False, adjust_in_order: bool = False
) -> FitSummary:
    """Compute the fitted attributes of loadings.

    Parameters
    ----------
    prepared : PreparedData
        The operator that the loadings were found on, before any deflation, and its moments.
    result : ComponentResult
        The loadings, (n_features, m), of unit length or zero, in the order in which they were found; on the device of
        the data if they are on one.
    sort : bool
        Sort the components by decreasing adjusted variance, unless a parameter gives each its own place.
    adjust_in_order : bool
        Adjust variances in the order of the components instead of by decreasing variance.
    """
    operator, moments = prepared.operator, prepared.moments
    passes = operator.passes  # before the scores are computed
    scores = Scores.from_loadings(operator, result.Z)
    variances = scores.compute_adjusted_variances(keep_order=adjust_in_order)
    total = operator.total_variance
    order = np.arange(result.Z.shape[1])
    if sort and prepared.fit_spec.should_sort_components:
        order = np.argsort(-np.round(variances / max(variances.max(), np.finfo(float).tiny), 10), kind="stable")
        result, scores, variances = result.reorder(order), scores.reorder(order), variances[order]
    by_component = {
        "explained_variance_": variances / moments.degrees_of_freedom,
        "explained_variance_ratio_": variances / total if total > 0 else np.zeros_like(variances),
        "cardinality_": to_host(np.count_nonzero(result.Z, axis=0)),  # Z is on a device if the data are
        "gamma_": result.gamma,
        "objective_": result.objective,
        "stationarity_gap_": result.gap,
        "n_iter_": result.n_iter.view(IterationCounts),
        "converged_": result.converged,
        "extraction_order_": order,
        "score_covariance_": scores.gram / moments.degrees_of_freedom,
    }
    common = {
        "n_passes_": passes,
        "n_samples_": moments.total_weight,
        "mean_": moments.mean.astype(prepared.dtype),
        "scale_": moments.scale.astype(prepared.dtype),
        "notes_": np.array(prepared.notes, dtype=object),
        "overlap_": count_shared_variables(result.Z),
        "loading_correlation_": cosine_matrix(to_host(result.Z.T @ result.Z).astype(np.float64)),
        "score_correlation_": cosine_matrix(scores.gram),
    }
    if prepared.covariates is not None:
        common |= {
            "covariates_names_": prepared.covariates.encoding.names,
            "covariates_levels_": prepared.covariates.encoding.levels,
            "covariates_mean_": prepared.covariates.mean,
            "covariates_rank_": prepared.covariates.rank,
            "covariates_coef_": prepared.covariates.coef,
            "covariate_variance_ratio_": prepared.covariate_variance_ratio,
        }
    return FitSummary(
        result.Z.T.astype(prepared.dtype), by_component, common, scores.variances / moments.degrees_of_freedom
    )


def fit_warnings(model: Any, column_norms: Array, unadjusted_variance: Array) -> Iterator[WarningSpec]:
    """Yield the warnings about a fitted model, each with its category.

    Parameters
    ----------
    model : GPower or a baseline
        The fitted model. Its attribute `_sparsity_param` names the penalty parameter, if there is one.
    column_norms : ndarray of shape (n_features,)
        Norms of the columns that were fitted, zero for a constant column; on the host or a device.
    unadjusted_variance : ndarray of shape (n_components,)
        Variance of each component's scores, in the units of `explained_variance_`.
    """
    if not column_norms.any():
        yield "No column varies: there is nothing to explain, and all loadings are zero.", NotConvergedWarning
    elif np.any(model.cardinality_ == 0):
        name = model._sparsity_param
        reason = f", or {name} is too large. Ask for fewer components or a smaller {name}." if name else "."
        yield (
            f"{_format_component_numbers(model.cardinality_ == 0)}: no active variable, all zero. The data have no "
            f"variance left for it{reason}",
            NotConvergedWarning,
        )
    if not np.all(model.converged_):
        joint = model.converged_.size < len(model.components_)
        block = get_constructor_params(model).get("method") == "block"
        which = "The block" if block else "The components" if joint else _format_component_numbers(~model.converged_)
        tol = resolve_solver(get_constructor_params(model))["tol"]
        measured = np.all(np.isfinite(model.stationarity_gap_))
        yield (
            f"{which}: the ascent stopped before it converged ({format_param('max_iter', model.max_iter)}, "
            f"{format_param('tol', tol)}); raise {format_param('max_iter')}"
            + (", or see stationarity_gap_ for how far it was from a stationary point." if measured else "."),
            NotConvergedWarning,
        )
    yield from _iter_sparsity_warnings(model, unadjusted_variance)
    is_covariance = get_constructor_params(model).get("covariance") == "precomputed"
    names = vars(model).get("feature_names_in_")
    yield from iter_scale_warnings(to_numpy(model.components_), to_host(column_norms), names, is_covariance)


def _iter_sparsity_warnings(model: Any, unadjusted_variance: Array) -> Iterator[WarningSpec]:
    """Yield warnings about components with fewer variables than requested, and components that duplicate others.

    `unadjusted_variance`, (n_components,), is as in `fit_warnings`. The cardinality is not compared if it is only an
    upper limit (non-negative loadings, a constraint), or if the model explains a smaller one itself; a share of
    variance, below one, is never undercut.
    """
    params = get_constructor_params(model)
    at_most = params.get("positive", False) or params.get("constraint") is not None or model._explains_shortfall
    requested = np.atleast_1d(0 if model.cardinality is None or at_most else model.cardinality)
    count = model.cardinality_
    if params.get("include") is not None:
        Z = to_numpy(model.components_)
        feature_names = vars(model).get("feature_names_in_")
        include = fix_n_components(params, len(Z)).get("include", params["include"])
        rules = VariableRules(Z.shape[1], len(Z), feature_names, include=include)
        unused = rules.find_unused_includes(Z)
        yield from rules.warn_unused_includes(unused)
        count = count + [len(names) for names in unused]
    # One requested number for all components, or one each; the list may be longer if n_components is "auto".
    short = (model.cardinality_ > 0) & (count < requested[: len(model.cardinality_)])
    if np.any(short):
        yield (
            f"{_format_component_numbers(short)}: fewer variables than requested explain as much; "
            "the others are uncorrelated with them and would get a zero loading.",
            GPowerWarning,
        )
    repeats = (unadjusted_variance > 0) & (model.explained_variance_ < MIN_ADDED_VARIANCE_SHARE * unadjusted_variance)
    if np.any(repeats):
        elsewhere = params.get("deflation", "schur") != "schur" or params.get("method") == "block"
        advice = format_param("deflation", "schur") if elsewhere else "fewer components, or more variables in each"
        if params.get("constraint") is not None:
            advice = format_param("constraint", "uncorrelated")
        yield (
            f"{_format_component_numbers(repeats)}: nearly all of the variance is that of other components, "
            f"whose variables it is correlated with. To look elsewhere, try {advice}.",
            GPowerWarning,
        )


def find_large_scales(column_norms: Array) -> tuple[Array, Array, bool]:
    """Return the columns whose norm is far above the median, the largest first, and their multiples of the median.

    The third entry is whether these are few columns among others of one scale, such as clinical data among genes; in a
    table of different units the others differ too. `column_norms`, (n_features,), are on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.estimators.fit_summary import find_large_scales
    >>> find_large_scales(np.array([1.0] * 8 + [50.0, 700.0]))
    (array([9, 8]), array([700.,  50.]), True)
    """
    norms = np.sort(column_norms[column_norms > 0])
    median = np.quantile(norms, 0.5, method="lower") if norms.size else np.inf
    large = np.flatnonzero(column_norms >= DOMINANT_SCALE_RATIO * median)
    large = large[np.argsort(-column_norms[large], kind="stable")]
    n = column_norms.size
    are_few = n >= MIN_COMPARED_COLUMNS and large.size <= max(3, MAX_FOREIGN_SHARE * n)
    low, high = np.quantile(norms[: norms.size - large.size], [0.05, 0.95]) if are_few and norms.size else (0.0, 1.0)
    return large, column_norms[large] / median, bool(high < DOMINANT_SCALE_RATIO * low)


def iter_scale_warnings(
    components: Array, column_norms: Array, feature_names: Any = None, is_covariance: bool = False
) -> Iterator[WarningSpec]:
    """Yield a warning if components consist of variables whose scale is far above that of the others.

    `components` are of shape (m, n_features), `column_norms`, (n_features,), are on the host. The norms are equal after
    scaling, so that nothing is yielded then.
    """
    large, ratios, are_foreign = find_large_scales(column_norms)
    shares = components[:, large] ** 2  # (m, number of large columns)
    share_of_extreme = shares[:, ratios >= EXTREME_SCALE_RATIO].sum(axis=1)
    dominated = np.maximum(shares.max(axis=1, initial=0), share_of_extreme) >= DOMINANT_LOADING_SHARE
    if not dominated.any():
        return
    listed = [
        f"{'column ' * (feature_names is None)}{format_variable_name(large[i], feature_names)} ({ratios[i]:,.0f} times)"
        for i in np.flatnonzero(shares[dominated].max(axis=0) > 1 - DOMINANT_LOADING_SHARE)
    ]
    advice = "give the correlation matrix" if is_covariance else f"use {format_param('scale', True)}"
    advice = f"If the variables have different units, {advice}"
    if are_foreign:
        advice = "The scales of the other variables are similar: if these are of another kind, leave them out"
    yield (
        f"{_format_component_numbers(dominated)}: variables whose standard deviation is far above the median of all "
        f"variables have nearly all of the weight: {format_names(listed)}. {advice}.",
        ScaleWarning,
    )


def _format_component_numbers(mask: Array) -> str:
    """Return the numbers, counted from 1, of the components that `mask` selects, such as "Components 2, 3 of 3".

    Of more than `MAX_LISTED_COMPONENTS` the first are listed, with their number: "Components 1, 2, … (90 of 200)".
    """
    numbers = np.flatnonzero(mask) + 1
    if numbers.size > MAX_LISTED_COMPONENTS:
        listed = ", ".join(map(str, numbers[:MAX_LISTED_COMPONENTS]))
        return f"Components {listed}, … ({numbers.size} of {mask.size})"
    return f"Component{'s' if numbers.size > 1 else ''} {', '.join(map(str, numbers))} of {mask.size}"


def log_fit(model: Any) -> None:
    """Log what `print` shows of a model to the "gpower" logger, or to stderr if logging is not set up.

    In the latter case the logger gets a handler and the level INFO, which stay.
    """
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)
    logger.info("%s", model)
