"""Sentences of a page: the summary, the methods with the options of the fit, and the citations."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from gpower._utils.text import format_count, format_names, format_percent, format_ratio
from gpower.analysis.permutation_test import AUTO_SIGNIFICANCE_LEVEL
from gpower.estimators.gpower import GPower
from gpower.report.content import Component, ReportContent
from gpower.report.samples import OUTLIER_LIMIT_LEVEL
from gpower.validation.checks import is_sequence
from gpower.validation.params import get_constructor_params, has_default_cardinality

#: References, by the part of a page that uses them.
CITATIONS = {
    "method": "M. Journée, Y. Nesterov, P. Richtárik, R. Sepulchre (2010). Generalized power method for sparse "
    "principal component analysis. Journal of Machine Learning Research 11, 517–553.",
    "stability": "N. Meinshausen, P. Bühlmann (2010). Stability selection. Journal of the Royal Statistical Society B "
    "72, 417–473.",
    "test": "J. L. Horn (1965). A rationale and test for the number of factors in factor analysis. Psychometrika 30, "
    "179–185.",
    "adjusted": "Y. Benjamini, Y. Hochberg (1995). Controlling the false discovery rate. Journal of the Royal "
    "Statistical Society B 57, 289–300.",
    "t2": "H. Hotelling (1931). The generalization of Student’s ratio. Annals of Mathematical Statistics 2, 360–378.",
    "residual": "G. E. P. Box (1954). Some theorems on quadratic forms applied in the study of analysis of variance "
    "problems, I. Annals of Mathematical Statistics 25, 290–302.",
}
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
#: Sentences of the methods on further results, by field of `ReportResults`; {0} is the result.
_RESULT_SENTENCES = {
    "stability": "Stability of the selection was assessed by refitting to {0.n_subsamples} random parts of the samples "
    "(Meinshausen and Bühlmann 2010), with a threshold of {0.threshold:g}.",
    "test": "The number of components was tested against up to {0.permuted_variance.shape[0]} tables with "
    "independently permuted columns at the level {0.level:g}. Parallel analysis (Horn 1965) counts the ordinary "
    "components that explain more than the mean of those of such tables: {0.n_components_pca} of the "
    "first {0.pca_variance.size}.",
    "enrichment": "Over-representation of gene sets was tested by the hypergeometric distribution, corrected for the "
    "number of tests (Benjamini and Hochberg 1995), at the level {0.alpha:g}.",
}
#: Parameters that describe the machine rather than the model and are not shown.
_MACHINE_PARAMS = ("checkpoint", "resume", "memory_limit", "verbose", "warm_start")
_MAX_MODEL_CHARACTERS = 500  # of the model and its parameters, blanks aside


class Check(NamedTuple):
    """A check of the components, with the flag of ``gpower report`` and the function that run it."""

    question: str
    flag: str
    function: str


def list_checks_not_run(contents: ReportContent) -> list[Check]:
    """Return the checks of the components of which the page has no result."""
    checks = []
    if all(component.p_value is None for component in contents.components):
        checks.append(Check("whether components explain more than chance", "--test", "component_test"))
    if contents.results.stability is None:
        question = "whether other samples would choose the same variables"
        checks.append(Check(question, "--stability", "stability_selection"))
    if all(component.optimality_ratio is None for component in contents.components):
        checks.append(Check("how far components are from the best possible", "--certify", "certify"))
    if contents.association is None and not contents.is_covariance:
        checks.append(Check("whether components differ between batches", "--metadata", "html_report(metadata=…)"))
    return checks


def describe_data_size(contents: ReportContent) -> str:
    """Return the size of the data, such as "60 samples × 150 variables"."""
    n_samples, n_features = contents.matrix.shape
    variables = format_count(n_features, "variable")
    return variables if contents.is_covariance else f"{format_count(n_samples, 'sample')} × {variables}"


def describe_cardinalities(counts: Sequence[int]) -> str:
    """Return a phrase on the numbers of variables of the components.

    Examples
    --------
    >>> describe_cardinalities([20, 20]), describe_cardinalities([20, 10]), describe_cardinalities([3])
    ('20 variables each', '20 and 10 variables', '3 variables')
    """
    if len(set(counts)) > 1:
        return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} variables"
    return format_count(counts[0], "variable") + (" each" if len(counts) > 1 else "")


def format_axis_label(component: Component) -> str:
    """Return the label of an axis of scores: the component and its share of variance."""
    return f"Component {component.number} ({format_percent(component.explained_share)})"


def summarize_content(contents: ReportContent) -> tuple[str, str, str]:
    """Return three sentences: on the data and the fit, on explained variance, and on optimality."""
    components = contents.components
    counts = [len(component.variables) for component in components]
    n_used = len({variable.index for component in components for variable in component.variables})
    source = "A covariance of" if contents.is_covariance else "A table of"
    first = (
        f"{source} {describe_data_size(contents)} was reduced to "
        f"{format_count(len(components), 'sparse component')} of {describe_cardinalities(counts)}"
    )
    they_use, explain = ("It uses", "explains") if len(components) == 1 else ("They use", "explain")
    pca_share = float(contents.pca_shares.sum())
    rest = "" if contents.removed_covariates is None else " that is left"
    second = (
        f"{they_use} {format_count(n_used, 'variable')} and {explain} "
        f"{format_percent(components[-1].cumulative_share)} of the variance{rest}; as many ordinary principal "
        f"components, with all variables, explain {format_percent(pca_share)}."
    )
    constraint = get_constructor_params(contents.model).get("constraint")
    first += "" if constraint is None else f", {CONSTRAINT_PHRASES[constraint]}"
    return "; ".join([first, *describe_choices(contents)]) + ".", second, _describe_optimality(contents)


def _describe_optimality(contents: ReportContent) -> str:
    """Return a sentence on the certificates of the components and, under a constraint, of all together."""
    ratios = [component.optimality_ratio for component in contents.components if component.optimality_ratio is not None]
    if not ratios:
        return "The distance from the best possible with as many variables was not computed (certify)."
    smallest = format_ratio(min(ratios))
    total = vars(contents.model).get("total_optimality_ratio_")
    constraint = get_constructor_params(contents.model).get("constraint")
    together = ""
    if total is not None and constraint is not None:
        best = f"{format_ratio(float(total))} of the best {CONSTRAINT_PHRASES[constraint]}"
        together = f", and all of them together at least {best}"
    claim = "be the best possible" if smallest == "100 %" else f"reach at least {smallest} of the best possible"
    subject = "It" if len(contents.components) == 1 else "Each"
    return f"{subject} is proven to {claim} with as many variables{together}."


def describe_methods(contents: ReportContent) -> Iterator[str]:
    """Yield the sentences of a methods section."""
    params = get_constructor_params(contents.model)
    counts = [len(component.variables) for component in contents.components]
    software = f"gpower {version('gpower')}, an implementation of the generalized power method (Journée et al. 2010)"
    if not _is_gpower_model(contents):
        software = f"{type(contents.model).__name__} of gpower {version('gpower')}"
    yield f"Sparse principal components were computed with {software}, from {describe_data_size(contents)}."
    yield from (f"{clause[0].upper()}{clause[1:]}." for clause in describe_choices(contents))
    how = describe_search(params) if _is_gpower_model(contents) else "were found"
    yield f"{format_count(len(counts), 'component')} of {describe_cardinalities(counts)} {how}."
    yield (
        "Explained variance is adjusted: a component counts only with the variance that it does not share with "
        "components of larger variance, so that no variance is counted twice."
    )
    yield from _describe_certificates(contents)
    results = {name: getattr(contents.results, name) for name in _RESULT_SENTENCES}
    yield from (_RESULT_SENTENCES[name].format(result) for name, result in results.items() if result is not None)
    yield from _describe_sample_analysis(contents)


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
    if contents.removed_covariates is not None:
        names, share = contents.removed_covariates
        yield (
            f"what a linear regression on {format_names(names)} predicts of each variable was removed, "
            f"{format_percent(share)} of the variance; values, explained variances and distances are those of the rest"
        )
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
    if shares := _list_variance_shares(params):
        yield (
            f"components have the fewest variables that explain {' or '.join(map(format_percent, shares))} of the "
            "variance that a component of all variables would explain at that step"
        )
    if "cardinality_choice_" in vars(contents.model):
        yield contents.model.cardinality_choice_


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
        if variables := _collect_variables(params.get(name)):
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
    if params.get("cardinality") is not None or ("gamma" in params and has_default_cardinality(params)):
        units = "groups" if params.get("groups") is not None else "variables"
        number = "the fewest" if _list_variance_shares(params) else "an exact number of"
        return f"with {number} {units}" + ("" if name == "l0" else f", reached by the penalty {name}")
    if params.get("budget") is not None:
        return "under a bound on the weights of their variables"
    return "under a bound on the ℓ1 norm" if params.get("l1_bound") is not None else f"under the penalty {name}"


def _is_gpower_model(contents: ReportContent) -> bool:
    """Return whether the model is a `GPower`, not one of the baselines."""
    return isinstance(contents.model, GPower)


def _describe_certificates(contents: ReportContent) -> Iterator[str]:
    """Yield sentences on the certificates, if there are any."""
    if all(component.optimality_ratio is None for component in contents.components):
        return
    yield (
        "Certificates are upper bounds on the variance that any component of as many variables explains after the "
        "components before it."
    )
    total = vars(contents.model).get("total_optimality_ratio_")
    if total is not None and get_constructor_params(contents.model).get("constraint") is None:
        yield (
            f"The variances of all components sum to at least {format_ratio(float(total))} of those that the best "
            "components of each size would have alone; without a constraint there is no tighter bound."
        )


def _describe_sample_analysis(contents: ReportContent) -> Iterator[str]:
    """Yield sentences on the tests of metadata and the limits of the distances."""
    if contents.association is not None:
        tests = sorted(set(contents.association.tests))
        yield (
            f"Associations of scores and metadata were tested by {' and '.join(tests)} tests, corrected for the number "
            "of tests (Benjamini and Hochberg 1995)."
        )
    if contents.samples is not None:
        yield (
            f"About {100 * OUTLIER_LIMIT_LEVEL:g} of 100 new samples stay within each limit for single samples, if "
            "scores are normally distributed: Hotelling’s T² (1931) within the components, and the squared residual "
            "(Box 1954) outside of them."
        )


def list_citations(contents: ReportContent) -> list[str]:
    """Return the references of the methods that the page uses, and of the software."""
    results = contents.results
    is_cited = {
        "method": _is_gpower_model(contents),
        "stability": results.stability is not None,
        "test": results.test is not None,
        "adjusted": results.enrichment is not None or contents.association is not None,
        "t2": contents.samples is not None,
        "residual": contents.samples is not None,
    }
    software = (
        "The gpower developers. gpower: sparse principal components by the generalized power method, version "
        f"{version('gpower')}."
    )
    return [CITATIONS[name] for name, cited in is_cited.items() if cited] + [software]


def list_package_versions() -> str:
    """Return the versions of gpower, its main requirements and Python."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("gpower", "numpy", "scipy", "scikit-learn"))
    return f"{packages}, Python {platform.python_version()}"


def format_changed_params(contents: ReportContent) -> str:
    """Return the constructor call of the model with the parameters that are not defaults, long values abbreviated."""
    model = clone(contents.model)
    defaults = get_constructor_params(type(model)())
    model.set_params(**{name: defaults[name] for name in _MACHINE_PARAMS if name in defaults})
    with np.printoptions(threshold=24):
        return " ".join(BaseEstimator.__repr__(model, _MAX_MODEL_CHARACTERS).split())
