"""What the user should know of a fit: sentences for warnings and for the log. Only the estimator issues them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.backends import on_host
from gpower._utils.warnings import Caution, GPowerWarning, NotConverged
from gpower.validation.params import parameters_of
from gpower.validation.variable_rules import Knowledge

logger = logging.getLogger("gpower")
#: A component that adds less than this share of its own variance repeats the others.
REPEATED = 0.1


def notices(model: Any, varies: bool, own_variance: Array) -> Iterator[Caution]:
    """Sentences about a fitted model, each with its category.

    Parameters
    ----------
    model : GPower or a baseline
        Fitted. A class with another penalty than gamma names it, or None, in `_sparsity_word`.
    varies : bool
        Whether any column does.
    own_variance : ndarray of shape (n_components,)
        Variance of each component on its own, in the units of `explained_variance_`.
    """
    if not varies:
        yield "No column varies: there is nothing to explain, and all loadings are zero.", NotConverged
    elif np.any(model.cardinality_ == 0):
        word = model._sparsity_word
        reason = f", or {word} is too large. Ask for fewer components or a smaller {word}." if word else "."
        yield (
            f"{_rows(model.cardinality_ == 0)}: no active variable, all zero. The data have no variance left for it"
            f"{reason}",
            NotConverged,
        )
    if not np.all(model.converged_):
        joint = model.converged_.size < len(model.components_)
        block = parameters_of(model).get("method") == "block"
        which = "The block" if block else "The components" if joint else _rows(~model.converged_)
        measured = np.all(np.isfinite(model.optimality_gap_))
        yield (
            f"{which}: the ascent stopped before it converged (max_iter={model.max_iter}, tol={model.tol:g}); "
            "raise max_iter"
            + (", or see optimality_gap_ for how far it was from a stationary point." if measured else "."),
            NotConverged,
        )
    yield from _about_sparsity(model, own_variance)


def _about_sparsity(model: Any, own_variance: Array) -> Iterator[Caution]:
    """Components with fewer variables than asked for, and components that repeat others."""
    params = parameters_of(model)
    at_most = params.get("positive", False) or params.get("constraint") is not None or model._explains_short
    wanted = np.atleast_1d(0 if model.cardinality is None or at_most else model.cardinality)[: len(model.cardinality_)]
    Z, names = on_host(model.components_), vars(model).get("feature_names_in_")
    known = Knowledge(Z.shape[1], len(Z), names, include=params.get("include"))
    idle = known.idle(Z)
    yield from known.told_idle(idle)
    short = (model.cardinality_ > 0) & (model.cardinality_ + [len(names) for names in idle] < wanted)
    if np.any(short):
        yield (
            f"{_rows(short)}: fewer variables than asked for explain as much; "
            "the others are uncorrelated with them and would get a zero loading.",
            GPowerWarning,
        )
    repeats = (own_variance > 0) & (model.explained_variance_ < REPEATED * own_variance)
    if np.any(repeats):
        elsewhere = params.get("deflation", "schur") != "schur" or params.get("method") == "block"
        advice = 'deflation="schur"' if elsewhere else "fewer components, or more variables in each"
        if params.get("constraint") is not None:
            advice = 'constraint="uncorrelated"'
        yield (
            f"{_rows(repeats)}: nearly all of the variance is that of other components, "
            f"whose variables it is correlated with. To look elsewhere, try {advice}.",
            GPowerWarning,
        )


def _rows(mask: Array) -> str:
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
