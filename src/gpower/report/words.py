"""What a page says in sentences: what was done, how it was done, and whom to cite."""

from __future__ import annotations

import platform
import reprlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import numpy as np

from gpower._utils.text import format_count, format_ratio
from gpower.estimators.gpower import GPower
from gpower.report.choices import CONSTRAINT_PHRASES, describe_choices, describe_search
from gpower.report.content import Component, ReportContent
from gpower.report.samples import OUTLIER_LIMIT_LEVEL
from gpower.report.text import format_percent
from gpower.validation.params import get_constructor_params

#: What there is to cite, by the part of a page that rests on it.
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
#: Parameters that tell of a machine rather than of the model, and the longest that are spelled out.
_MACHINE_PARAMS = ("callback", "checkpoint", "resume", "memory_limit", "verbose", "warm_start")
_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxlist = _SHORT_REPR.maxtuple = _SHORT_REPR.maxdict = _SHORT_REPR.maxset = 24
_SHORT_REPR.maxstring = _SHORT_REPR.maxother = 80


def describe_data_size(contents: ReportContent) -> str:
    """How large the data are."""
    n, p = contents.matrix.shape
    return (
        format_count(p, "variable")
        if contents.is_covariance
        else f"{format_count(n, 'sample')} × {format_count(p, 'variable')}"
    )


def describe_cardinalities(counts: Sequence[int]) -> str:
    """How many variables components have.

    Examples
    --------
    >>> describe_cardinalities([20, 20]), describe_cardinalities([20, 10]), describe_cardinalities([3])
    ('20 variables each', '20 and 10 variables', '3 variables')
    """
    one, first = len(set(counts)) == 1, ", ".join(map(str, counts[:-1]))
    words = format_count(counts[0], "variable") if one else f"{first} and {counts[-1]} variables"
    return f"{words} each" if one and len(counts) > 1 else words


def format_axis_label(component: Component) -> str:
    """What stands at an axis of scores: the component, and what it explains."""
    return f"Component {component.number} ({format_percent(component.explained_share)})"


def summarize_content(contents: ReportContent) -> tuple[str, str, str]:
    """Three sentences: what was looked at, what is explained, and how far that is from the best possible."""
    parts, ordinary = contents.components, float(contents.pca_shares.sum())
    counts = [len(component.variables) for component in parts]
    used = len({variable.index for component in parts for variable in component.variables})
    what = "A covariance of" if contents.is_covariance else "A table of"
    first = (
        f"{what} {describe_data_size(contents)} was reduced to {format_count(len(parts), 'sparse component')} of "
        f"{describe_cardinalities(counts)}"
    )
    they, explain = ("It uses", "explains") if len(parts) == 1 else ("They use", "explain")
    second = (
        f"{they} {format_count(used, 'variable')} and {explain} {format_percent(parts[-1].cumulative_share)} of the "
        f"variance; as many ordinary principal components, with all variables, explain {format_percent(ordinary)}."
    )
    apart = get_constructor_params(contents.model).get("constraint")
    first += "" if apart is None else f", {CONSTRAINT_PHRASES[apart]}"
    return "; ".join([first, *describe_choices(contents)]) + ".", second, _describe_optimality(contents)


def _describe_optimality(contents: ReportContent) -> str:
    """What is proven of the components; of all together where something keeps them apart."""
    ratios = [component.optimality_ratio for component in contents.components if component.optimality_ratio is not None]
    if not ratios:
        return "How far that is from the best possible with so few variables was not computed (certify)."
    least, total = format_ratio(min(ratios)), vars(contents.model).get("total_optimality_ratio_")
    apart = get_constructor_params(contents.model).get("constraint")
    together = ""
    if total is not None and apart is not None:
        together = (
            f", and all of them together at least {format_ratio(float(total))} of the best {CONSTRAINT_PHRASES[apart]}"
        )
    what = "be the best possible" if least == "100 %" else f"reach at least {least} of the best possible"
    which = "It" if len(contents.components) == 1 else "Each"
    return f"{which} is proven to {what} with as many variables{together}."


def describe_methods(contents: ReportContent) -> Iterator[str]:
    """Sentences for the methods of a paper."""
    params = get_constructor_params(contents.model)
    counts = [len(component.variables) for component in contents.components]
    by = f"gpower {version('gpower')}, an implementation of the generalized power method (Journée et al. 2010)"
    by = by if _is_gpower_model(contents) else f"{type(contents.model).__name__} of gpower {version('gpower')}"
    yield f"Sparse principal components were computed with {by}, from {describe_data_size(contents)}."
    yield from (f"{clause[0].upper()}{clause[1:]}." for clause in describe_choices(contents))
    how = describe_search(params) if _is_gpower_model(contents) else "were found"
    yield f"{format_count(len(counts), 'component')} of {describe_cardinalities(counts)} {how}."
    yield (
        "Explained variance is adjusted: of each component only the part counts that the others of larger variance "
        "leave, so that no variance is counted twice."
    )
    yield from _describe_certificates(contents)
    yield from _describe_results(contents)
    yield from _describe_sample_analysis(contents)


def _is_gpower_model(contents: ReportContent) -> bool:
    """Whether the generalized power method found the model, and not one that it is compared with."""
    return isinstance(contents.model, GPower)


def _describe_certificates(contents: ReportContent) -> Iterator[str]:
    """What certificates bound."""
    if all(component.optimality_ratio is None for component in contents.components):
        return
    yield (
        "Upper bounds on what any component of as many variables explains of what the components before it leave were "
        "computed as certificates."
    )
    total = vars(contents.model).get("total_optimality_ratio_")
    if total is not None and get_constructor_params(contents.model).get("constraint") is None:
        yield (
            f"The variances of all components sum to at least {format_ratio(float(total))} of those that the best "
            "components of each size would have alone; nothing else bounds components that may repeat each other."
        )


def _describe_results(contents: ReportContent) -> Iterator[str]:
    """What was asked for beside the model."""
    found = contents.results
    if found.stability is not None:
        again = found.stability
        yield (
            f"Stability of the selection was assessed by refitting to {again.n_subsamples} random parts of the samples "
            f"(Meinshausen and Bühlmann 2010), with a threshold of {again.threshold:g}."
        )
    if found.test is not None:
        made = found.test.permuted_variance.shape[0]
        yield (
            f"The number of components was tested against up to {made} tables with independently permuted columns at "
            f"the level {found.test.level:g}, beside parallel analysis (Horn 1965)."
        )
    if found.enrichment is not None:
        yield (
            "Over-representation of gene sets was tested by the hypergeometric distribution, corrected for the number "
            f"of tests (Benjamini and Hochberg 1995), at the level {found.enrichment.alpha:g}."
        )


def _describe_sample_analysis(contents: ReportContent) -> Iterator[str]:
    """What the samples were held against."""
    if contents.association is not None:
        tests = sorted(set(contents.association.tests))
        yield (
            f"Scores were held against metadata by {' and '.join(tests)} tests, corrected for all that were made "
            "(Benjamini and Hochberg 1995)."
        )
    if contents.samples is not None:
        yield (
            f"Limits for single samples hold {100 * OUTLIER_LIMIT_LEVEL:g} % of normal ones: Hotelling’s T² (1931) "
            "within the components, and the squared residual (Box 1954) outside of them."
        )


def list_citations(contents: ReportContent) -> list[str]:
    """The papers behind what the page shows, and the software."""
    found = contents.results
    wanted = {
        "method": _is_gpower_model(contents),
        "stability": found.stability is not None,
        "test": found.test is not None,
        "adjusted": found.enrichment is not None or contents.association is not None,
        "t2": contents.samples is not None,
        "residual": contents.samples is not None,
    }
    own = (
        "The gpower developers. gpower: sparse principal components by the generalized power method, version "
        f"{version('gpower')}."
    )
    return [CITATIONS[name] for name, cited in wanted.items() if cited] + [own]


def list_package_versions() -> str:
    """What it was computed with."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("gpower", "numpy", "scipy", "scikit-learn"))
    return f"{packages}, Python {platform.python_version()}"


def format_changed_params(contents: ReportContent) -> str:
    """The parameters of the model that are not as usual; of long lists the beginning."""
    kind = type(contents.model)
    usual, given = get_constructor_params(kind()), get_constructor_params(contents.model)
    told = {
        name: value
        for name, value in given.items()
        if name not in _MACHINE_PARAMS and not _are_values_equal(value, usual.get(name))
    }
    arguments = ", ".join(f"{name}={_SHORT_REPR.repr(_array_to_list(value))}" for name, value in told.items())
    return f"{kind.__name__}({arguments})"


def _array_to_list(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _are_values_equal(one: object, other: object) -> bool:
    return bool(np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object)))
