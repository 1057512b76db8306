"""Warnings and log messages about a fitted model; the estimator issues them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.backends import to_numpy
from gpower._utils.messages import format_param
from gpower._utils.warnings import GPowerWarning, NotConvergedWarning, WarningSpec
from gpower.validation.params import get_constructor_params
from gpower.validation.solver import resolve_solver
from gpower.validation.variable_rules import VariableRules

logger = logging.getLogger("gpower")
#: A component duplicates others if its adjusted variance is below this share of its variance.
MIN_ADDED_VARIANCE_SHARE = 0.1


def fit_warnings(model: Any, has_variance: bool, unadjusted_variance: Array) -> Iterator[WarningSpec]:
    """Yield the warnings about a fitted model, each with its category.

    Parameters
    ----------
    model : GPower or a baseline
        The fitted model. Its attribute `_sparsity_param` names the penalty parameter, if there is one.
    has_variance : bool
        Whether any column varies.
    unadjusted_variance : ndarray of shape (n_components,)
        Variance of each component's scores, in the units of `explained_variance_`.
    """
    if not has_variance:
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


def _iter_sparsity_warnings(model: Any, unadjusted_variance: Array) -> Iterator[WarningSpec]:
    """Yield warnings about components with fewer variables than requested, and components that duplicate others.

    `unadjusted_variance`, (n_components,), is as in `fit_warnings`. The cardinality is not compared if it is only an
    upper limit (non-negative loadings, a constraint), or if the model explains a smaller one itself; a share of
    variance, below one, is never undercut.
    """
    params = get_constructor_params(model)
    at_most = params.get("positive", False) or params.get("constraint") is not None or model._explains_shortfall
    requested = np.atleast_1d(0 if model.cardinality is None or at_most else model.cardinality)
    Z = to_numpy(model.components_)
    feature_names = vars(model).get("feature_names_in_")
    rules = VariableRules(Z.shape[1], len(Z), feature_names, include=params.get("include"))
    unused = rules.find_unused_includes(Z)
    yield from rules.warn_unused_includes(unused)
    count = model.cardinality_ + [len(names) for names in unused]
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


def _format_component_numbers(mask: Array) -> str:
    """Return the numbers, counted from 1, of the components that `mask` selects, such as "Components 2, 3 of 3"."""
    numbers = np.flatnonzero(mask) + 1
    return f"Component{'s' if numbers.size > 1 else ''} {', '.join(map(str, numbers))} of {mask.size}"


def log_fit(model: Any) -> None:
    """Log a summary and the notes of a model to the "gpower" logger, or to stderr if logging is not set up.

    In the latter case the logger gets a handler and the level INFO, which stay.
    """
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)
    logger.info(
        "%d components of %s variables, %.1f %% of the variance, %.1f passes",
        len(model.components_),
        "-".join(map(str, model.cardinality_)),
        100 * model.explained_variance_ratio_.sum(),
        model.n_passes_,
    )
    for note in model.notes_:
        logger.info("%s", note)
