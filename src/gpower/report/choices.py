"""Clauses that describe the preprocessing of the data and the parameters of the fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpower._utils.text import format_count
from gpower.analysis.permutation import AUTO_SIGNIFICANCE_LEVEL
from gpower.report.content import ReportContent
from gpower.report.text import format_percent
from gpower.validation.checks import is_sequence
from gpower.validation.params import get_constructor_params

#: Phrases for the constraints between components.
CONSTRAINT_PHRASES = {
    "orthogonal": "with orthogonal loadings",
    "uncorrelated": "with uncorrelated scores",
    "disjoint": "with no variable in common",
}
_DEFLATION_PHRASES = {
    "schur": "everything correlated with the scores of a component was removed before the search for the next",
    "projection": "the part along the loadings of a component was removed before the search for the next",
    "orthogonalized": "the part along the loadings of all components so far was removed before the search for the next",
}


def describe_choices(contents: ReportContent) -> Iterator[str]:
    """Yield clauses on preprocessing, on numbers chosen from the data, and on rules for variables."""
    params = get_constructor_params(contents.model)
    yield from _describe_preprocessing(contents, params)
    yield from _describe_chosen_numbers(contents, params)
    yield from _describe_variable_rules(params)


def _describe_preprocessing(contents: ReportContent, params: dict[str, Any]) -> Iterator[str]:
    """Yield clauses on the preprocessing of the table."""
    if contents.pipeline_steps:
        yield f"the table went through {', '.join(contents.pipeline_steps)} first"
    if not contents.is_covariance:
        centred = "centred" if params.get("center", True) else "not centred (variance is counted about zero)"
        yield f"variables were {centred}" + (" and scaled to a standard deviation of 1" if params.get("scale") else "")
    if contents.n_missing:
        share = contents.n_missing / contents.matrix.size
        components = format_count(len(contents.components), "ordinary component")
        yield (
            f"{contents.n_missing:,} of {contents.matrix.size:,} values ({format_percent(share)}) were missing and "
            f"were filled by a model of means and {components}, fitted to the others"
        )


def _describe_chosen_numbers(contents: ReportContent, params: dict[str, Any]) -> Iterator[str]:
    """Yield clauses on numbers of components and variables that were chosen from the data."""
    if params.get("n_components") == "auto":
        yield (
            "the number of components was chosen by a test against permuted tables, "
            f"at the level {AUTO_SIGNIFICANCE_LEVEL:g}"
        )
    shares = _list_variance_shares(params)
    if shares:
        yield (
            f"components have the fewest variables that explain {' or '.join(map(format_percent, shares))} of the "
            "variance that a component of all variables would explain at that step"
        )
    search = vars(contents.search_estimator)
    if "chosen_by_" in search:
        criteria = ", ".join(dict.fromkeys(search["chosen_by_"].tolist()))
        yield f"the number of variables was chosen by cross-validation in {search['n_splits_']} folds ({criteria})"


def _list_variance_shares(params: dict[str, Any]) -> list[float]:
    """Return the distinct cardinalities that are shares of the variance."""
    cardinality = params.get("cardinality")
    values = [] if cardinality is None else np.ravel(np.asarray(cardinality, dtype=object)).tolist()
    return list(dict.fromkeys(float(each) for each in values if isinstance(each, float) and each < 1))


def _describe_variable_rules(params: dict[str, Any]) -> Iterator[str]:
    """Yield clauses on groups, included and excluded variables, weights, signs and the measure of variance."""
    if params.get("groups") is not None:
        yield "each group of variables was used as a whole or not at all"
    for name, rule in (("include", "had to be used"), ("exclude", "could not be used")):
        variables = _collect_variables(params.get(name))
        if variables:
            yield f"{format_count(len(variables), 'variable')} {rule}, as set beforehand ({name})"
    if params.get("penalty_weights") is not None:
        yield "variables were weighted (penalty_weights)"
    if params.get("budget") is not None:
        budgets = " or ".join(f"{each:g}" for each in dict.fromkeys(np.ravel(params["budget"]).tolist()))
        yield f"the weights of a component’s variables sum to at most {budgets}"
    if params.get("positive"):
        yield "no loading is negative"
    if params.get("variance") == "l1":
        yield "the sum of absolute scores was maximised instead of their variance"


def _collect_variables(variables: Any) -> set[Any]:
    """Return the distinct variables of a list, or of a list for each component."""
    if variables is None:
        return set()
    if not is_sequence(variables):
        return {variables}
    return set().union(*(_collect_variables(each) for each in variables))


def describe_search(params: dict[str, Any]) -> str:
    """Return a phrase on how the components were found."""
    constraint = params.get("constraint")
    if constraint is not None:
        return f"were found as one problem, {CONSTRAINT_PHRASES[constraint]}"
    if params.get("method") == "block":
        return "were found together, as a block"
    return (
        f"were extracted one after the other, {_describe_sparsity(params)}; "
        f"{_DEFLATION_PHRASES[params.get('deflation', 'schur')]}"
    )


def _describe_sparsity(params: dict[str, Any]) -> str:
    """Return a phrase on what makes the components sparse."""
    penalty = params.get("penalty", "l0")
    name = penalty if isinstance(penalty, str) else type(penalty).__name__
    if params.get("cardinality") is not None:
        units = "groups" if params.get("groups") is not None else "variables"
        number = "the fewest" if _list_variance_shares(params) else "an exact number of"
        return f"with {number} {units}" + ("" if name == "l0" else f", reached by the penalty {name}")
    if params.get("budget") is not None:
        return "under a bound on the weights of their variables"
    return "under a bound on the ℓ1 norm" if params.get("l1_bound") is not None else f"under the penalty {name}"
