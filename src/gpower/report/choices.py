"""What was done to the data and asked of the search, a clause each: nothing is silent."""

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

#: What components owe each other.
CONSTRAINT_PHRASES = {
    "orthogonal": "with orthogonal loadings",
    "uncorrelated": "with uncorrelated scores",
    "disjoint": "with no variable in common",
}
_DEFLATION_PHRASES = {
    "schur": "everything correlated with the scores of a component was removed before the next was sought",
    "projection": "what lies along the loadings of a component was removed before the next was sought",
    "orthogonalized": "what lies along the loadings of all components so far was removed before the next was sought",
}


def describe_choices(contents: ReportContent) -> Iterator[str]:
    """What was done first, how numbers were chosen, and what variables had to keep."""
    params = get_constructor_params(contents.model)
    yield from _describe_preprocessing(contents, params)
    yield from _describe_chosen_numbers(contents, params)
    yield from _describe_variable_rules(params)


def _describe_preprocessing(contents: ReportContent, params: dict[str, Any]) -> Iterator[str]:
    """What was done to the table before."""
    if contents.pipeline_steps:
        yield f"the table went through {', '.join(contents.pipeline_steps)} first"
    if not contents.is_covariance:
        centred = "centred" if params.get("center", True) else "not centred (variance is counted about zero)"
        yield f"variables were {centred}" + (" and scaled to a standard deviation of 1" if params.get("scale") else "")
    if contents.n_missing:
        share, model = contents.n_missing / contents.matrix.size, format_count(len(contents.components), "component")
        yield (
            f"{contents.n_missing:,} of {contents.matrix.size:,} values ({format_percent(share)}) were missing and "
            f"were filled by a model of means and {model.replace(' ', ' ordinary ')}, fitted to the others"
        )


def _describe_chosen_numbers(contents: ReportContent, params: dict[str, Any]) -> Iterator[str]:
    """How many components and variables there are, where that was left to the data."""
    if params.get("n_components") == "auto":
        yield (
            "the number of components was chosen by a test against permuted tables, "
            f"at the level {AUTO_SIGNIFICANCE_LEVEL:g}"
        )
    shares = _list_variance_shares(params)
    if shares:
        yield (
            f"components have the fewest variables that explain {' or '.join(map(format_percent, shares))} of what one "
            "of all variables would at its turn"
        )
    search = vars(contents.search_estimator)
    if "chosen_by_" in search:
        by = ", ".join(dict.fromkeys(search["chosen_by_"].tolist()))
        yield f"the number of variables was chosen by cross-validation in {search['n_splits_']} folds ({by})"


def _list_variance_shares(params: dict[str, Any]) -> list[float]:
    """Those among the cardinalities that are shares of the variance."""
    asked = params.get("cardinality")
    given = [] if asked is None else np.ravel(np.asarray(asked, dtype=object)).tolist()
    return list(dict.fromkeys(float(each) for each in given if isinstance(each, float) and each < 1))


def _describe_variable_rules(params: dict[str, Any]) -> Iterator[str]:
    """What variables and loadings had to keep."""
    if params.get("groups") is not None:
        yield "variables were in or out by whole groups"
    for word, done in (("include", "had to be used"), ("exclude", "could not be used")):
        names = _collect_variables(params.get(word))
        if names:
            yield f"{format_count(len(names), 'variable')} {done}, as said beforehand ({word})"
    if params.get("penalty_weights") is not None:
        yield "variables were weighed (penalty_weights)"
    if params.get("budget") is not None:
        most = " or ".join(f"{each:g}" for each in dict.fromkeys(np.ravel(params["budget"]).tolist()))
        yield f"the weights of a component’s variables sum to at most {most}"
    if params.get("positive"):
        yield "no loading is negative"
    if params.get("variance") == "l1":
        yield "the sum of absolute scores was maximised in place of their variance"


def _collect_variables(variables: Any) -> set[Any]:
    """The variables of a list, or of a list for each component."""
    if variables is None:
        return set()
    if not is_sequence(variables):
        return {variables}
    return set().union(*(_collect_variables(each) for each in variables))


def describe_search(params: dict[str, Any]) -> str:
    """How the components were sought."""
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
    """What makes them sparse."""
    penalty = params.get("penalty", "l0")
    name = penalty if isinstance(penalty, str) else type(penalty).__name__
    if params.get("cardinality") is not None:
        what = "groups" if params.get("groups") is not None else "variables"
        exact = "the fewest" if _list_variance_shares(params) else "an exact number of"
        return f"with {exact} {what}" + ("" if name == "l0" else f", reached by the penalty {name}")
    if params.get("budget") is not None:
        return "under a bound on the weights of their variables"
    return "under a bound on the ℓ1 norm" if params.get("l1_bound") is not None else f"under the penalty {name}"
