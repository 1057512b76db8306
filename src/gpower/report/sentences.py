"""Sentences of a page: the summary, the methods with the options of the fit, and the citations.

Each text is a list of ``condition and sentence``, of which those with a condition that holds are shown.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from gpower._utils.messages import format_param
from gpower._utils.text import format_count, format_names, format_percent, format_ratio
from gpower.analysis.permutation_test import AUTO_SIGNIFICANCE_LEVEL
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.gpower import GPower
from gpower.report.content import Component, ReportContent
from gpower.report.samples import OUTLIER_LIMIT_LEVEL
from gpower.validation.checks import is_sequence
from gpower.validation.params import RUN_PARAMS, get_constructor_params, has_default_cardinality

#: References, by the words of the methods that cite them.
CITATIONS = {
    "Journée et al. 2010": "M. Journée, Y. Nesterov, P. Richtárik, R. Sepulchre (2010). Generalized power method for "
    "sparse principal component analysis. Journal of Machine Learning Research 11, 517–553.",
    "Meinshausen and Bühlmann 2010": "N. Meinshausen, P. Bühlmann (2010). Stability selection. Journal of the Royal "
    "Statistical Society B 72, 417–473.",
    "Horn 1965": "J. L. Horn (1965). A rationale and test for the number of factors in factor analysis. Psychometrika "
    "30, 179–185.",
    "Benjamini and Hochberg 1995": "Y. Benjamini, Y. Hochberg (1995). Controlling the false discovery rate. Journal of "
    "the Royal Statistical Society B 57, 289–300.",
    "Hotelling’s T² (1931)": "H. Hotelling (1931). The generalization of Student’s ratio. Annals of Mathematical "
    "Statistics 2, 360–378.",
    "Box 1954": "G. E. P. Box (1954). Some theorems on quadratic forms applied in the study of analysis of variance "
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
#: Share of the variance of ordinary components below which what sparse components lack is not worth a sentence.
MAX_SMALL_GAP = 0.01
_MAX_MODEL_CHARACTERS = 500  # of the model and its parameters, blanks aside


def list_checks_not_run(contents: ReportContent) -> list[tuple[str, str, str]]:
    """Return the checks of which the page has no result: question, flag of ``gpower report``, and function."""
    p_values = [each.p_value for each in contents.components if each.p_value is not None]
    batches_are_unchecked = contents.association is None and not contents.is_covariance
    checks = [
        not p_values and ("whether components explain more than chance", "--test", "component_test"),
        contents.results.stability is None
        and ("whether other samples would choose the same variables", "--stability", "stability_selection"),
        not contents.optimality_ratios and ("how far components are from the best possible", "--certify", "certify"),
        batches_are_unchecked
        and ("whether components differ between batches", "--metadata", "html_report(metadata=…)"),
    ]
    return [check for check in checks if check]


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
    components, constraint = contents.components, get_constructor_params(contents.model).get("constraint")
    pca_share = float(contents.pca_shares.sum())
    n_used = len({variable.index for component in components for variable in component.variables})
    source = "A covariance of" if contents.is_covariance else "A table of"
    phrase = "" if constraint is None else f", {CONSTRAINT_PHRASES[constraint]}"
    count = format_count(len(components), "sparse component")
    fit = (
        f"{source} {describe_data_size(contents)} was reduced to {count} of "
        f"{describe_cardinalities(contents.cardinalities)}{phrase}"
    )
    they_use, explain, each = ("It uses", "explains", "It") if len(components) == 1 else ("They use", "explain", "Each")
    rest = "" if contents.removed_covariates is None else " that is left"
    variance = (
        f"{they_use} {format_count(n_used, 'variable')} and {explain} "
        f"{format_percent(components[-1].cumulative_share)} of the variance{rest}; as many ordinary principal "
        f"components, with all variables, explain {format_percent(pca_share)}."
    )
    limit = describe_variance_limit(contents.model, pca_share)
    optimality = limit[0].upper() + limit[1:]
    if ratios := contents.optimality_ratios:
        smallest = format_ratio(min(ratios))
        claim = "be the best possible" if smallest == "100 %" else f"reach at least {smallest} of the best possible"
        is_limit_known = "optimality_ratio_" in vars(contents.model)
        optimality = f"{each} is proven to {claim} with as many variables" + f"; {limit}" * is_limit_known
    return "; ".join([fit, *describe_choices(contents)]) + ".", variance, f"{optimality}."


def describe_variance_limit(model: SparsePCAEstimator, pca_share: float | None = None) -> str:
    """Return a phrase on how much components of as many variables can explain, by the certificates of the fit.

    Adjusted variances sum to at most the variances that `certify_total` bounds, and to at most the share of as many
    ordinary components, `pca_share`: both bound what is possible. Under a constraint the phrase is on the best possible
    components that satisfy it. Without certificates the phrase says why few variables explain less, if they do.
    """
    certificates, params = vars(model).get("optimality_ratio_"), get_constructor_params(model)
    if certificates is None:
        if pca_share is not None and model.explained_variance_ratio_.sum() >= (1 - MAX_SMALL_GAP) * pca_share:
            return "more variables would add hardly any variance"
        return (
            f"few variables have only a part of the variance; {format_param('certify', True)} proves how much is "
            "possible (documentation: How much can a few variables explain?)"
        )
    m, ratio = len(model.components_), float(vars(model).get("total_optimality_ratio_", min(certificates)))
    if m > 1 and params.get("constraint") is not None:
        constraint = CONSTRAINT_PHRASES[params["constraint"]]
        return f"together they reach at least {format_ratio(ratio)} of the best possible {constraint}"
    shares, variances = model.explained_variance_ratio_.sum(), model.explained_variance_.sum()
    bound = float(np.trace(model.score_covariance_) / ratio * shares / variances) if variances > 0 else 0.0
    limit = min(bound, 1.0 if pca_share is None else pca_share)
    source = "" if limit == bound else ", the share of ordinary components," if pca_share else ""
    sizes = f"{format_count(m, 'component')} of {describe_cardinalities(model.cardinality_.tolist())}"
    return f"at most {format_percent(limit)}{source} is possible with {sizes}"


def describe_methods(contents: ReportContent) -> list[str]:
    """Return the sentences of a methods section."""
    params, results, association = get_constructor_params(contents.model), contents.results, contents.association
    stability, test, enrichment = results.stability, results.test, results.enrichment
    software = f"gpower {version('gpower')}, an implementation of the generalized power method (Journée et al. 2010)"
    search = describe_search(params)
    if not isinstance(contents.model, GPower):  # a baseline
        software, search = f"{type(contents.model).__name__} of gpower {version('gpower')}", "were found"
    count = format_count(len(contents.components), "component")
    sentences = [
        f"Sparse principal components were computed with {software}, from {describe_data_size(contents)}.",
        *(f"{clause[0].upper()}{clause[1:]}." for clause in describe_choices(contents)),
        f"{count} of {describe_cardinalities(contents.cardinalities)} {search}.",
        "Explained variance is adjusted: a component counts only with the variance that it does not share with "
        "components of larger variance, so that no variance is counted twice.",
        contents.optimality_ratios
        and "Certificates are upper bounds on the variance that any component of as many variables explains after the "
        "components before it.",
        "total_optimality_ratio_" in vars(contents.model)
        and "For all components together the bound is on the sum of their variances, shared variance included.",
        stability is not None
        and f"Stability of the selection was assessed by refitting to {stability.n_subsamples} random parts of the "
        f"samples (Meinshausen and Bühlmann 2010), with a threshold of {stability.threshold:g}.",
        test is not None
        and f"The number of components was tested against up to {len(test.permuted_variance)} tables with "
        f"independently permuted columns at the level {test.level:g}. Parallel analysis (Horn 1965) counts the "
        "ordinary components that explain more than the mean of those of such tables: "
        f"{test.n_components_pca} of the first {test.pca_variance.size}.",
        enrichment is not None
        and "Over-representation of gene sets was tested by the hypergeometric distribution, corrected for the number "
        f"of tests (Benjamini and Hochberg 1995), at the level {enrichment.alpha:g}.",
        association is not None
        and f"Associations of scores and metadata were tested by {' and '.join(sorted(set(association.tests)))} "
        "tests, corrected for the number of tests (Benjamini and Hochberg 1995).",
        contents.samples is not None
        and f"About {100 * OUTLIER_LIMIT_LEVEL:g} of 100 new samples stay within each limit for single samples, if "
        "scores are normally distributed: Hotelling’s T² (1931) within the components, and the squared residual "
        "(Box 1954) outside of them.",
    ]
    return [sentence for sentence in sentences if sentence]


def describe_choices(contents: ReportContent) -> list[str]:
    """Return clauses on preprocessing, on numbers chosen from the data, and on rules for variables."""
    params, matrix, steps = get_constructor_params(contents.model), contents.matrix, contents.pipeline_steps
    covariates, removed_share = contents.removed_covariates or ([], 0.0)
    centred = "centred" if params.get("center", True) else "not centred (variance is counted about zero)"
    scaled = " and scaled to a standard deviation of 1" if params.get("scale") else ""
    shares, rules = _list_variance_shares(params), {"include": "had to be used", "exclude": "could not be used"}
    variables = {name: _collect_variables(params.get(name)) for name in rules}
    budgets = [] if params.get("budget") is None else dict.fromkeys(np.ravel(params["budget"]).tolist())
    clauses = [
        steps and f"the table went through {', '.join(steps)} first",
        not contents.is_covariance and f"variables were {centred}{scaled}",
        covariates
        and f"what a linear regression on {format_names(covariates)} predicts of each variable was removed, "
        f"{format_percent(removed_share)} of the variance; values, explained variances and distances are those of the "
        "rest",
        contents.n_missing
        and f"{contents.n_missing:,} of {matrix.size:,} values ({format_percent(contents.n_missing / matrix.size)}) "
        "were missing and were filled by a model of means and "
        f"{format_count(len(contents.components), 'ordinary component')}, fitted to the others",
        params.get("n_components") == "auto"
        and "the number of components was chosen by a test against permuted tables, at the level "
        f"{AUTO_SIGNIFICANCE_LEVEL:g}",
        shares
        and f"components have the fewest variables that explain {' or '.join(map(format_percent, shares))} of the "
        "variance that a component of all variables would explain at that step",
        vars(contents.model).get("cardinality_choice_"),
        params.get("groups") is not None and "each group of variables was used as a whole or not at all",
        *(
            variables[name] and f"{format_count(len(variables[name]), 'variable')} {rule}, as set beforehand ({name})"
            for name, rule in rules.items()
        ),
        params.get("penalty_weights") is not None and "variables were weighted (penalty_weights)",
        budgets
        and f"the weights of a component’s variables sum to at most {' or '.join(f'{each:g}' for each in budgets)}",
        params.get("positive") and "no loading is negative",
        params.get("variance") == "l1" and "the sum of absolute scores was maximised instead of their variance",
    ]
    return [clause for clause in clauses if clause]


def _list_variance_shares(params: dict[str, Any]) -> list[float]:
    """Return the distinct cardinalities that are shares of the variance."""
    values = np.ravel(np.asarray(params.get("cardinality"), dtype=object)).tolist()
    return list(dict.fromkeys(float(each) for each in values if isinstance(each, float) and each < 1))


def _collect_variables(variables: Any) -> set[Any]:
    """Return the distinct variables of a list, or of a list for each component."""
    if variables is None or not is_sequence(variables):
        return set() if variables is None else {variables}
    return set().union(*(_collect_variables(each) for each in variables))


def describe_search(params: dict[str, Any]) -> str:
    """Return a phrase on how the components were found."""
    if (constraint := params.get("constraint")) is not None:
        return f"were found as one problem, {CONSTRAINT_PHRASES[constraint]}"
    if params.get("method") == "block":
        return "were found together, as a block"
    deflation = _DEFLATION_PHRASES[params.get("deflation", "schur")]
    return f"were extracted one after the other, {_describe_sparsity(params)}; {deflation}"


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


def list_citations(contents: ReportContent) -> list[str]:
    """Return the references of the methods section, and that of the software."""
    methods = " ".join(describe_methods(contents))
    software = "The gpower developers. gpower: sparse principal components by the generalized power method, version"
    cited = [reference for words, reference in CITATIONS.items() if words in methods]
    return [*cited, f"{software} {version('gpower')}."]


def list_package_versions() -> str:
    """Return the versions of gpower, its main requirements and Python."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("gpower", "numpy", "scipy", "scikit-learn"))
    return f"{packages}, Python {platform.python_version()}"


def format_changed_params(contents: ReportContent) -> str:
    """Return the constructor call of the model with the parameters that are not defaults, long values abbreviated."""
    model = clone(contents.model)
    defaults = get_constructor_params(type(model)())
    model.set_params(**{name: defaults[name] for name in RUN_PARAMS if name in defaults})
    with np.printoptions(threshold=24):
        return " ".join(BaseEstimator.__repr__(model, _MAX_MODEL_CHARACTERS).split())
