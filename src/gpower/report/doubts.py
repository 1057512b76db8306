"""Reasons to doubt a result, collected in one place for the top of a page and of the output of ``gpower fit``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from gpower._utils.arrays import to_numpy
from gpower._utils.messages import format_param
from gpower._utils.text import format_percent, format_ratio, quote
from gpower.analysis.association import Association
from gpower.analysis.permutation_test import describe_selection
from gpower.estimators.base import SparsePCAEstimator
from gpower.report.results import ReportResults
from gpower.validation.params import get_constructor_params

#: A p-value above this, a proven share of the best possible variance below this, and a share of selected variables
#: below this cast doubt on a component.
MAX_SIGNIFICANT_P_VALUE, MIN_OPTIMALITY_RATIO, MIN_SELECTED_SHARE = 0.05, 0.9, 0.5
#: More variables than this, chosen by cross-validation, are too many to read.
MAX_READABLE_NUMBER = 100
#: A column of metadata named like a batch casts doubt on components with which it is associated this strongly, of 1.
MIN_BATCH_STRENGTH = 0.5
_BATCH_NAME_PATTERN = re.compile(
    r"(.*[\W_])?(batch|plate|run|lane|chip|array|slide|flow_?cell|kit|lot|scanner|site|cent(er|re)|hospital|lab|study"
    r"|platform|operator|instrument|sequencer|date)(e?s)?[\W_]*(\d+|id|no|number|name)?",
    re.IGNORECASE,
)


def find_doubts(model: SparsePCAEstimator, results: ReportResults | None = None) -> Iterator[str]:
    """Yield each warning of the fit, doubts on components and on chosen numbers, and each note on the data, once.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import GPower
    >>> from gpower.report.doubts import find_doubts
    >>> X = np.random.default_rng(0).standard_normal((40, 9))
    >>> X[:, 4] = 1
    >>> print(*find_doubts(GPower(1, cardinality=3).fit(X)))
    1 column(s) do not vary and get no loading: 4.
    """
    results = results or ReportResults()
    on_components = (*_find_doubtful_components(model, results), *_find_unreadable_numbers(model))
    p_values = vars(model).get("component_p_values_")
    selection = None if p_values is None else describe_selection(p_values)  # a note that casts no doubt
    doubts = dict.fromkeys(map(str, (*vars(model).get("warnings_", ()), *on_components, *model.notes_)))
    yield from (doubt for doubt in doubts if doubt != selection)


def _find_doubtful_components(model: SparsePCAEstimator, results: ReportResults) -> Iterator[str]:
    """Yield a sentence for each component far from the best possible, then for those by chance, then for unstable ones.

    Each sentence states the evidence: the certificate, the p-value, or the variables that other samples choose again.
    """
    low = {i: ratio for i, ratio in results.get_optimality_ratios(model).items() if ratio < MIN_OPTIMALITY_RATIO}
    if low:
        yield (
            f"{_format_subject(low)} proven to reach only {', '.join(map(format_ratio, low.values()))} of the best "
            "possible variance; other variables may explain more, or the proof, which stops after ten seconds, needs "
            "more time: certify(model, X, max_time=60)."
        )
    p_values = results.get_p_values(model)
    by_chance = {i: f"{p:.2g}" for i, p in p_values.items() if p > MAX_SIGNIFICANT_P_VALUE}
    if by_chance:
        subject = _format_subject(by_chance, "may be", "may be")
        yield f"{subject} chance: permuted tables explain as much (p = {', '.join(by_chance.values())})."
    untested = [i for i in range(len(model.components_) if p_values else 0) if i not in p_values]
    if untested:
        subject = _format_subject(untested, "was", "were")
        yield f"{subject} not compared with permuted tables, since an earlier one may be chance."
    stability = results.stability
    if stability is not None:
        n_selected = (stability.selected & (to_numpy(model.components_) != 0)).sum(axis=1)
        unstable = np.flatnonzero(n_selected < MIN_SELECTED_SHARE * np.asarray(model.cardinality_)).tolist()
        if unstable:
            counts = ", ".join(f"{n_selected[i]} of {model.cardinality_[i]}" for i in unstable)
            yield (
                f"{_format_subject(unstable)} unstable: fewer than half of the variables ({counts}) are chosen again "
                f"in at least {format_percent(stability.threshold)} of {stability.n_subsamples} fits to random parts "
                "of the samples."
            )


def _find_unreadable_numbers(model: SparsePCAEstimator) -> Iterator[str]:
    """Yield a sentence if cross-validation chose more variables, or groups, than can be read as a list."""
    params = get_constructor_params(model)
    chosen = np.unique(params["cardinality"]) if hasattr(model, "cardinality_choice_") else np.zeros(0)
    if large := [f"{number}" for number in chosen if number > MAX_READABLE_NUMBER]:
        unit = "variables" if params["groups"] is None else "groups"
        yield (
            f"{', '.join(large)} {unit} are too many to read as a list: each of them adds variance of held-out "
            f"samples. For a list give a number, such as {format_param('cardinality', 25)}."
        )


def _format_subject(indices: Iterable[int], verb: str = "is", plural_verb: str = "are") -> str:
    """Return "Component 2 is" or "Components 2, 3 are", with these verbs, for components counted from 0."""
    numbers = [str(i + 1) for i in indices]
    return f"Component {numbers[0]} {verb}" if len(numbers) == 1 else f"Components {', '.join(numbers)} {plural_verb}"


def find_batch_doubts(association: Association) -> Iterator[str]:
    """Yield a sentence for each column of metadata, named like a batch, that differs with components.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.association import associate
    >>> from gpower.report.doubts import find_batch_doubts
    >>> print(*find_batch_doubts(associate(np.arange(12.0)[:, None], {"plate": ["a"] * 6 + ["b"] * 6})))
    Component 1 differs with 'plate' (strength 0.87 of 1), which may be a batch; if so, remove it with batch.
    """
    is_strong = (association.strength >= MIN_BATCH_STRENGTH) & (association.adjusted_p_values < MAX_SIGNIFICANT_P_VALUE)
    for name, strengths, strong in zip(association.names, association.strength.T, is_strong.T, strict=True):
        if strong.any() and _BATCH_NAME_PATTERN.fullmatch(name):
            numbers = ", ".join(str(j) for j, each in enumerate(strong, 1) if each)
            components = f"Component {numbers} differs" if strong.sum() == 1 else f"Components {numbers} differ"
            yield (
                f"{components} with {quote(name)} (strength {strengths[strong].max():.2f} of 1), which may be a batch; "
                f"if so, remove it with {format_param('batch')}."
            )
