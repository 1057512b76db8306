"""Best subset selection: exact search for the component of k variables with the largest variance.

Terms: all arrays are NumPy arrays on the host, in float64; supports and other indices are int. An `Operator` is a
matrix A through products, in float64 in host memory. ``shape`` is (p, n) with p samples, or (n, n) for a covariance;
``column_norms``, (n,), are zero for columns that do not vary; ``take(idx)`` is the operator of the columns `idx`, whose
variable i is idx[i]; ``combine(T)``, (p, m), is A T, and ``correlate(X)``, (n, m), is AᵀX. ``embed_rows(Z, idx, n)``
puts the rows of Z at the rows `idx` of an array of n rows, zero elsewhere.

A `BoundState` is a component and the bounds computed so far: `operator`; `k` and `tol` of the problem; `z`, (n,), unit
loadings, the largest absolute one positive; `bounds`; `candidates`, whose `floor` is the largest variance of the
variables that are none; `search`, with row bounds, or None; `seconds` of all calls. ``is_done(clock)`` says that the
gap is within the tolerance or the clock has expired; ``adopt_search(search, method, start_time)`` takes over the
incumbent and the bound of a search; ``make_progress(seconds)`` is the `Progress` for the user, and ``copy()`` can
change while the state stays.

``cascade.start_from_heuristic`` makes a state of k variables without bounds, `add_cheap_bounds` adds them,
``select_row_candidates(state)`` are the candidates for the row bound, and ``start_search(state, candidates, clock)`` is
a `SupportSearch` with the component as incumbent whose root is bounded. That has `open_nodes`, a list that is empty if
nothing is left to search; `n_nodes`; `may_omit_better`, whether a better support may have variables that are no
candidates; and ``run(clock)``, which searches on in place.

`VariableRules` are groups, include and exclude as the user gave them: `active_params`, the names of those that have an
effect; ``build_support_rules()``, the `SupportRules`, with masks `excluded`, (n, 1); ``check_levels(rules, [k],
"cardinality")``, which raises ValueError if no support has k groups; and the warning about included variables of
loading zero. A `Clock` limits the time: ``is_expired``, ``poll_callback()``, and ``interruptible()``, a context in
which Ctrl-C ends the block and expires the clock; `max_seconds` is its limit and `elapsed_seconds` counts from its
creation.

``prepare_certificate_data(X, covariance)`` has `operator` and `feature_names`, (n,) of text, or None. `best_groups` and
`best_disjoint` are the searches over groups and for disjoint components; each returns a `CertifiedComponent`, a pair of
`component` and `certificate`. `check_float`, `check_int`, `check_option` and `check_required_have_variance` raise
ValueError. ``find_unused_includes(Z)`` of the rules are the names of included variables without a loading, a list per
row of Z, and ``warn_unused_includes(names)`` the warnings about them, which `warn_all` issues. `format_names` joins the
first names of a list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, embed_rows
from gpower._utils.text import format_names
from gpower._utils.warnings import warn_all
from gpower.certificates import cascade
from gpower.certificates.arguments import prepare_certificate_data
from gpower.certificates.cascade import BoundState
from gpower.certificates.certificate import Certificate, CertifiedComponent, Clock, Progress
from gpower.certificates.group_search import best_groups
from gpower.certificates.joint import best_disjoint
from gpower.operators.base import Operator
from gpower.validation.params import check_float, check_int, check_option
from gpower.validation.variable_rules import VariableRules, check_required_have_variance

#: Difference of products, relative to the largest entry, up to which two matrices count as the same.
SAME_MATRIX_TOLERANCE = 1e-9


class BestSubset(CertifiedComponent):
    """A pair of a component, or several, and its certificate; prints the variables by name and the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import best_subset
    >>> best_subset(np.diag([4.0, 2.0, 1.0]), cardinality=1, covariance="precomputed")
    <BestSubset: x0 +1.000; 1 variable: 4 found, at most 4 possible (gap 0%, within the tolerance); trace, 0... s>
    """

    feature_names: Array | None = None  # (n_features,) of str, set by `best_subset`; None stands for x0, x1, …

    def __repr__(self) -> str:
        parts = [*(self._format_component(z) for z in np.atleast_2d(self.component)), str(self.certificate)]
        return f"<BestSubset: {'; '.join(parts)}>"

    def _format_component(self, z: Array) -> str:
        """Format the variables of a component, (n_features,), and their loadings, by decreasing absolute value."""
        order = np.argsort(-np.abs(z), kind="stable")[: np.count_nonzero(z)]
        return format_names(
            [f"{f'x{j}' if self.feature_names is None else self.feature_names[j]} {z[j]:+.3f}" for j in order]
        )


def best_subset(
    X: Any,
    *,
    cardinality: int | Sequence[int],
    constraint: str | None = None,
    covariance: str | None = None,
    groups: Any = None,
    include: Any = None,
    exclude: Any = None,
    tol: float = 1e-6,
    max_time: float = 60.0,
    callback: Callable[[Progress], object] | None = None,
    resume: Certificate | None = None,
) -> BestSubset:
    """Find the component of `cardinality` variables with the largest variance, and prove that it is the best.

    With ``constraint="disjoint"``, find several components that share no variable, with the largest sum of variances.

    The search starts from the best component of many ascents and a local search by swaps, and proves by bounds, branch
    and bound and enumeration that none is better. If time is up, it returns the best component found and what is proven
    about it.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data, which are centred, or a covariance.
    cardinality : int or sequence of int
        Number of variables; with ``constraint="disjoint"`` one number for each component.
    constraint : {None, "disjoint"}
        "disjoint": several components without a common variable. Up to 63 variables and 500,000 supports of each
        cardinality, all supports are listed and searched. Above, the result is the best components found, with the
        bounds of `certify_total`.
    covariance : {None, "precomputed"}
        Whether X is a covariance.
    groups, include, exclude
        As in `GPower`, for a single component. With groups, `cardinality` counts groups. An included variable that is
        uncorrelated with the others has a loading of zero, which raises a warning.
    tol : float, default=1e-6
        Relative gap at which the component counts as optimal.
    max_time : float, default=60.0
        Seconds after which to stop.
    callback : callable, optional
        Called with a `Progress` every now and then. A true return value stops the search, as Ctrl-C does.
    resume : Certificate, optional
        Certificate of an earlier call with the same X, cardinality and tol that stopped early; the search continues
        there.

    Returns
    -------
    component : ndarray of shape (n_features,) or (n_components, n_features)
        Unit loadings; the largest one in absolute value is positive.
    certificate : Certificate
        The proven upper bound and the gap. The pair prints the variables and the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import best_subset
    >>> from gpower.datasets import load_pitprops
    >>> component, certificate = best_subset(load_pitprops().correlation, cardinality=5, covariance="precomputed")
    >>> np.flatnonzero(component), round(certificate.upper_bound, 5)
    (array([0, 1, 6, 8, 9]), 3.40615)
    """
    tol = check_float(tol, "tol", 0.0)
    max_time = check_float(max_time, "max_time", 0.0)
    prepared = prepare_certificate_data(X, covariance)
    operator, n = prepared.operator, prepared.operator.shape[1]
    rules = VariableRules(n, 1, prepared.feature_names, groups, include, exclude)
    check_option(constraint, "constraint", (None, "disjoint"))
    if rules.active_params:
        if resume is not None or constraint is not None:
            other = "resume" if resume is not None else "constraint"
            raise ValueError(
                f"{rules.active_params[0]} does not go together with {other} in an exact search; leave one of them out."
            )
        k = check_int(cardinality, "cardinality", 1)
        found = _search_with_rules(operator, rules, k, Clock(max_time), tol, callback)
    elif constraint is not None:
        if resume is not None or callback is not None:
            raise ValueError('constraint="disjoint" takes neither callback nor resume; increase max_time instead.')
        found = best_disjoint(operator, cardinality, tol, max_time)
    else:
        k = check_int(cardinality, "cardinality", 1)
        if k > n:
            raise ValueError(f"cardinality={k} is larger than the number of variables, n_features={n}.")
        resumed = None if resume is None else _copy_resumed_state(resume, operator, k, tol)
        found = search_subset(operator, k, tol, max_time=max_time, callback=callback, resumed=resumed)
    result = BestSubset(*found)
    result.feature_names = prepared.feature_names
    return result


def _search_with_rules(
    operator: Operator,
    variable_rules: VariableRules,
    k: int,
    clock: Clock,
    tol: float,
    callback: Callable[[Progress], object] | None,
) -> CertifiedComponent:
    """Find the best support that rules allow: by a search over variables if some are only excluded, else over groups.

    `variable_rules` are for one component and have at least one active parameter; k ≥ 1, a number of groups if there
    are groups, is checked here. The callback, if any, gets a `Progress` with columns of X. The component is (n,), in
    float64. Raise ValueError if the rules leave no support of k, or if an included variable does not vary. Warn if an
    included variable has a loading of zero.
    """
    support_rules = variable_rules.build_support_rules()
    assert support_rules is not None
    variable_rules.check_levels(support_rules, [k], "cardinality")
    check_required_have_variance(support_rules, operator.column_norms, variable_rules.feature_names)
    if variable_rules.active_params == ["exclude"]:
        allowed = np.flatnonzero(~support_rules.excluded[:, 0])

        def call_with_columns(progress: Progress) -> object:
            """Call the user with the support as columns of X instead of positions among the allowed ones."""
            return callback is not None and callback(replace(progress, support=allowed[progress.support]))

        matrix = operator.take(allowed)
        z, certificate = search_subset(matrix, k, tol, max_time=clock.max_seconds, callback=call_with_columns)
        return CertifiedComponent(embed_rows(z[:, None], allowed, operator.shape[1])[:, 0], certificate)

    found = best_groups(operator, support_rules, k, tol, clock, callback)
    warn_all(variable_rules.warn_unused_includes(variable_rules.find_unused_includes(found.component[None])))
    return found


def _copy_resumed_state(certificate: Certificate, operator: Operator, k: int, tol: float) -> BoundState:
    """Return a copy of the state of an earlier call; raise ValueError if it is of another problem.

    The problem is the same if k and tol are equal and the operators agree in a product. The search on the copy changes
    nothing in the certificate.
    """
    earlier = certificate.search
    if earlier is None:
        raise ValueError("resume must be the certificate of an earlier call of best_subset.")
    if earlier.k != k or earlier.tol != tol or not _is_same_matrix(earlier.operator, operator):
        raise ValueError(
            f"resume is a certificate of another problem (cardinality={earlier.k}, tol={earlier.tol:g}, "
            f"n_features={earlier.operator.shape[1]}); pass the same X, cardinality and tol."
        )
    return earlier.copy()


def _is_same_matrix(one: Operator, other: Operator) -> bool:
    """Return whether the products AᵀA x of two operators agree for a random x, up to SAME_MATRIX_TOLERANCE.

    The tolerance is relative to the largest absolute entry of the first product. x is the same at every call.
    """
    if one.shape[1] != other.shape[1]:
        return False
    probe = np.random.RandomState(0).standard_normal((one.shape[1], 1))
    first, second = (operator.correlate(operator.combine(probe)) for operator in (one, other))
    return bool(np.allclose(first, second, rtol=0, atol=SAME_MATRIX_TOLERANCE * float(np.max(np.abs(first)))))


def search_subset(
    operator: Operator,
    k: int,
    tol: float,
    *,
    max_time: float = np.inf,
    callback: Callable[[Progress], object] | None = None,
    resumed: BoundState | None = None,
) -> CertifiedComponent:
    """Run all stages, or those that an earlier call left, until the gap is within the tolerance or time is up.

    The operator is in float64 in host memory, has a column that varies, and k is from 1 to its number of columns.
    `tol`, at least zero, is the relative gap, `max_time` a number of seconds for this call. Ctrl-C and a callback that
    returns true stop the search and do not raise. `resumed` comes from `_copy_resumed_state` for the same operator, k
    and tol; it is continued in place, and its time is added. The component of the result, (n,), has at most k
    non-zeros; the certificate contains the state, so that a later call can resume.
    """
    # The callback reads `state`, which is not set yet: `start_from_heuristic` never calls it.
    clock = Clock(max_time, None if callback is None else lambda: callback(state.make_progress(clock.elapsed_seconds)))
    state = resumed or cascade.start_from_heuristic(operator, k, tol, clock)
    if not state.bounds:
        cascade.add_cheap_bounds(state, clock)
        clock.poll_callback()
    if state.search is None and not state.is_done(clock):
        _bound_at_root(state, clock)
    if state.search is not None and state.search.open_nodes:
        start_time = time.perf_counter()
        state.search.run(clock)
        state.adopt_search(state.search, "search", start_time)
    state.seconds += clock.elapsed_seconds
    clock.poll_callback()
    n_nodes = 0 if state.search is None else state.search.n_nodes
    return CertifiedComponent(state.z, replace(state.to_certificate(state.seconds), nodes=n_nodes, search=state))


def _bound_at_root(state: BoundState, clock: Clock) -> None:
    """Add the row bound at the root, and open the root for the search.

    If variables that were left out of the row bound could be in a support of larger value, start again with all
    candidates. The search has no open node if nothing is left to search, or if variables that are no candidates could
    be in a support of larger value. The component has positive variance, and `state` has bounds.
    """
    start_time = time.perf_counter()
    view = cascade.select_row_candidates(state)
    search = cascade.start_search(state, view, clock)
    if search.may_omit_better and view.floor > state.candidates.floor:
        search = cascade.start_search(state, state.candidates, clock)
    state.adopt_search(search, "rows", start_time)
