"""What the user should know of a fit: sentences for warnings and for the log. Only the estimator issues them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.backends import to_numpy
from gpower._utils.warnings import GPowerWarning, NotConvergedWarning, WarningSpec
from gpower.validation.params import get_constructor_params
from gpower.validation.variable_rules import VariableRules

logger = logging.getLogger("gpower")
#: A component that adds less than this share of its own variance repeats the others.
MIN_ADDED_VARIANCE_SHARE = 0.1


def fit_warnings(model: Any, has_variance: bool, unadjusted_variance: Array) -> Iterator[WarningSpec]:
    """Sentences about a fitted model, each with its category.

    Parameters
    ----------
    model : GPower or a baseline
        Fitted. A class with another penalty than gamma names it, or None, in `_sparsity_param`.
    varies : bool
        Whether any column does.
    own_variance : ndarray of shape (n_components,)
        Variance of each component on its own, in the units of `explained_variance_`.
    """
    if not has_variance:
        yield "No column varies: there is nothing to explain, and all loadings are zero.", NotConvergedWarning
    elif np.any(model.cardinality_ == 0):
        word = model._sparsity_param
        reason = f", or {word} is too large. Ask for fewer components or a smaller {word}." if word else "."
        yield (
            f"{_format_component_rows(model.cardinality_ == 0)}: no active variable, all zero. The data have no "
            f"variance left for it{reason}",
            NotConvergedWarning,
        )
    if not np.all(model.converged_):
        joint = model.converged_.size < len(model.components_)
        block = get_constructor_params(model).get("method") == "block"
        which = "The block" if block else "The components" if joint else _format_component_rows(~model.converged_)
        measured = np.all(np.isfinite(model.stationarity_gap_))
        yield (
            f"{which}: the ascent stopped before it converged (max_iter={model.max_iter}, tol={model.tol:g}); "
            "raise max_iter"
            + (", or see stationarity_gap_ for how far it was from a stationary point." if measured else "."),
            NotConvergedWarning,
        )
    yield from _iter_sparsity_warnings(model, unadjusted_variance)


def _iter_sparsity_warnings(model: Any, unadjusted_variance: Array) -> Iterator[WarningSpec]:
    """Components with fewer variables than asked for, and components that repeat others."""
    params = get_constructor_params(model)
    at_most = params.get("positive", False) or params.get("constraint") is not None or model._explains_shortfall
    wanted = np.atleast_1d(0 if model.cardinality is None or at_most else model.cardinality)[: len(model.cardinality_)]
    Z, names = to_numpy(model.components_), vars(model).get("feature_names_in_")
    known = VariableRules(Z.shape[1], len(Z), names, include=params.get("include"))
    idle = known.find_unused_includes(Z)
    yield from known.warn_unused_includes(idle)
    short = (model.cardinality_ > 0) & (model.cardinality_ + [len(names) for names in idle] < wanted)
    if np.any(short):
        yield (
            f"{_format_component_rows(short)}: fewer variables than asked for explain as much; "
            "the others are uncorrelated with them and would get a zero loading.",
            GPowerWarning,
        )
    repeats = (unadjusted_variance > 0) & (model.explained_variance_ < MIN_ADDED_VARIANCE_SHARE * unadjusted_variance)
    if np.any(repeats):
        elsewhere = params.get("deflation", "schur") != "schur" or params.get("method") == "block"
        advice = 'deflation="schur"' if elsewhere else "fewer components, or more variables in each"
        if params.get("constraint") is not None:
            advice = 'constraint="uncorrelated"'
        yield (
            f"{_format_component_rows(repeats)}: nearly all of the variance is that of other components, "
            f"whose variables it is correlated with. To look elsewhere, try {advice}.",
            GPowerWarning,
        )


def _format_component_rows(mask: Array) -> str:
    """The components of a mask as a user would index them."""
    return ", ".join(f"components_[{j}]" for j in np.flatnonzero(mask))


def log_fit(model: Any) -> None:
    """One line to the "gpower" logger, and to stderr where nobody has set up logging."""
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
