"""The best subset: exact search for the component of largest variance with k variables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, embed_rows
from gpower._utils.text import format_names
from gpower._utils.warnings import warn_all
from gpower.certificates.bounds import EPS
from gpower.certificates.branch_and_bound import SupportSearch, assess_by_rows, assess_cheaply, best_completion
from gpower.certificates.cascade import (
    BoundState,
    add_cheap_bounds,
    create_search,
    select_row_candidates,
    start_from_heuristic,
    start_search,
)
from gpower.certificates.certificate import Bound, Certificate, Clock
from gpower.certificates.group_search import GroupSearch, best_groups
from gpower.certificates.inputs import prepare_certificate_input
from gpower.certificates.joint import best_disjoint
from gpower.operators.base import Operator
from gpower.validation.params import check_float, check_int, check_option
from gpower.validation.variable_rules import VariableRules, check_required_have_variance

#: Supports that are simply all looked at.
MAX_ENUMERATED_SUPPORTS = 20_000
#: Seconds for the search with cheap bounds, which closes easy problems at once.
MAX_CHEAP_SEARCH_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """What a callback of `best_subset` sees.

    Attributes
    ----------
    bound : float
        Proven upper bound so far.
    incumbent : float
        Value of the best support so far.
    nodes, open : int
        Nodes of the tree so far, and those still to be looked at.
    seconds : float
        Time of this call.
    support : ndarray of int
        The best support so far.

    Examples
    --------
    >>> from gpower import best_subset
    >>> from gpower.datasets import gaussian
    >>> seen = []
    >>> _ = best_subset(gaussian(20, 30, random_state=0), cardinality=4, callback=seen.append)
    >>> all(progress.incumbent <= progress.bound for progress in seen)
    True
    """

    bound: float
    incumbent: float
    nodes: int
    open: int
    seconds: float
    support: Array


class BestSubset(tuple[Array, Certificate]):
    """A component, or several, and its certificate: a pair that prints as the variables by name, and what is proven.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import best_subset
    >>> best_subset(np.diag([4.0, 2.0, 1.0]), cardinality=1, covariance="precomputed")
    <BestSubset: x0 +1.000; 1 variable: 4 found, at most 4 possible (gap 0%, within the tolerance); enumeration, 0.0 s>
    """

    feature_names: Array | None = None

    @classmethod
    def from_pair(cls, result: tuple[Array, Certificate], feature_names: Array | None) -> BestSubset:
        """The same pair, with the names of the variables."""
        pair = cls(result)
        pair.feature_names = feature_names
        return pair

    def __repr__(self) -> str:
        component, certificate = self
        said = [*(self._format_component(z) for z in np.atleast_2d(component)), str(certificate)]
        return f"<BestSubset: {'; '.join(said)}>"

    def _format_component(self, z: Array) -> str:
        """The variables of a component and their loadings, the largest first."""
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
    """The component of `cardinality` variables with the largest variance, and the proof that it is.

    Or several of them that share no variable, with the largest sum of variances.

    Starts from many ascents with swap polish, then proves: by looking at all supports where they are few, else by
    branch and bound. Out of time, it returns the best component found and what is proven about it.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data, centred here, or a covariance.
    cardinality : int or sequence of int
        Number of variables; with ``constraint="disjoint"`` one number for each component.
    constraint : {None, "disjoint"}
        Several components without a common variable: all supports are listed and searched, which up to 63 variables
        and 500,000 supports of a size is a proof; beyond, the best components found and the bounds of `certify_total`.
    covariance : {None, "precomputed"}
        Whether X is a covariance.
    groups, include, exclude
        As in `GPower`, for the one component: with groups, `cardinality` counts groups. An included variable that is
        uncorrelated with the others has a loading of zero, and a warning says so.
    tol : float, default=1e-6
        Relative gap that counts as proven.
    max_time : float, default=60.0
        Seconds after which to stop.
    callback : callable, optional
        Called with a `Progress` now and then; a true answer stops, as Ctrl-C does.
    resume : Certificate, optional
        Of an earlier call on the same X and cardinality that stopped early: go on where it stopped.

    Returns
    -------
    component : ndarray of shape (n_features,) or (n_components, n_features)
        Unit loadings, the largest positive.
    certificate : Certificate
        The pair prints as the variables and what is proven of them.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import best_subset
    >>> from gpower.datasets import load_pitprops
    >>> component, certificate = best_subset(load_pitprops().correlation, cardinality=5, covariance="precomputed")
    >>> np.flatnonzero(component), round(certificate.upper_bound, 5)
    (array([0, 1, 6, 8, 9]), 3.40615)
    """
    tol, max_time = check_float(tol, "tol", 0.0), check_float(max_time, "max_time", 0.0)
    table = prepare_certificate_input(X, covariance)
    operator = table.operator
    knowledge = VariableRules(operator.shape[1], 1, table.feature_names, groups, include, exclude)
    if knowledge.active_params:
        if resume is not None or constraint is not None:
            odd = "resume" if resume is not None else "constraint"
            raise ValueError(
                f"{knowledge.active_params[0]} does not go together with {odd} in an exact search; leave one of them."
            )
        k = check_int(cardinality, "cardinality", 1)
        return BestSubset.from_pair(
            _search_with_rules(operator, knowledge, k, Clock(max_time), tol, callback), table.feature_names
        )
    if check_option(constraint, "constraint", (None, "disjoint")) is not None:
        if resume is not None or callback is not None:
            raise ValueError('constraint="disjoint" knows no callback and no resume; give it more max_time instead.')
        return BestSubset.from_pair(best_disjoint(operator, cardinality, tol, max_time), table.feature_names)
    k, n = check_int(cardinality, "cardinality", 1), operator.shape[1]
    if k > n:
        raise ValueError(f"cardinality={k}: a component uses at most as many variables as there are, n_features={n}.")
    begun = None if resume is None else _check_resumed_state(resume, operator, k, tol)
    state = search_subset(operator, k, tol, max_time=max_time, callback=callback, initial_state=begun)
    return BestSubset.from_pair((state.bound_state.z, state.to_certificate()), table.feature_names)


def _search_with_rules(
    operator: Operator,
    variable_rules: VariableRules,
    k: int,
    clock: Clock,
    tol: float,
    callback: Callable[[Progress], object] | None,
) -> tuple[Array, Certificate]:
    """The best of the admissible supports; where variables are left out and nothing else, the best of the others."""
    known = variable_rules.build_support_rules()
    assert known is not None
    variable_rules.check_levels(known, [k], "cardinality")
    check_required_have_variance(known, operator.column_norms, variable_rules.feature_names)
    if variable_rules.active_params == ["exclude"]:
        left = np.flatnonzero(~known.excluded[:, 0])
        state = search_subset(operator.take(left), k, tol, max_time=clock.max_seconds, callback=callback)
        return embed_rows(state.bound_state.z[:, None], left, operator.shape[1])[:, 0], state.to_certificate()

    def told(search: GroupSearch, usable: Array) -> object:
        found = (
            search.upper_bound,
            search.incumbent_value,
            search.n_nodes,
            len(search.open_nodes),
            clock.elapsed_seconds,
        )
        return callback(Progress(*found, usable[search.find_variables(search.incumbent_groups)])) if callback else None

    z, certificate = best_groups(operator, known, k, tol, clock, told if callback else None)
    warn_all(variable_rules.warn_unused_includes(variable_rules.find_unused_includes(z[None])))
    return z, certificate


@dataclass(frozen=True, eq=False)
class SubsetState:
    """Where `best_subset` stands: what is known, the search to go on with, and what both have cost."""

    bound_state: BoundState
    tree: SupportSearch | None = None
    n_cheap_nodes: int = 0
    seconds: float = 0.0

    @property
    def n_nodes(self) -> int:
        """Nodes of the search trees so far."""
        return self.n_cheap_nodes + (0 if self.tree is None else self.tree.n_nodes)

    def make_progress(self, seconds: float) -> Progress:
        """What the user is told after so many seconds, in the middle of a search too."""
        known, tree = self.bound_state, self.tree
        if tree is None:
            return Progress(known.upper_bound, known.value, self.n_nodes, 0, seconds, known.support)
        value = max(known.value, tree.incumbent_variance)
        bound = max(min(known.upper_bound, tree.variance_bound), value)
        return Progress(bound, value, self.n_nodes, len(tree.open_nodes), seconds, known.support)

    def to_certificate(self) -> Certificate:
        """What was proven, and where to go on."""
        return replace(self.bound_state.to_certificate(self.seconds), nodes=self.n_nodes, search=self)


def _check_resumed_state(certificate: Certificate, operator: Operator, k: int, tol: float) -> SubsetState:
    """The state that an earlier call left, if it is of the same problem; the certificate keeps its own."""
    state = certificate.search
    if state is None:
        raise ValueError("resume takes the certificate of an earlier call of best_subset.")
    known = state.bound_state
    if known.k != k or known.tol != tol or not _is_same_matrix(known.operator, operator):
        raise ValueError(
            f"resume is a certificate of another problem (cardinality={known.k}, tol={known.tol:g}, "
            f"n_features={known.operator.shape[1]}); pass the same X, cardinality and tol."
        )
    return replace(
        state, tree=None if state.tree is None else replace(state.tree, open_nodes=list(state.tree.open_nodes))
    )


def _is_same_matrix(one: Operator, other: Operator) -> bool:
    """Whether AᵀA of both agree on a vector that no two different matrices are likely to agree on."""
    if one.shape[1] != other.shape[1]:
        return False
    probe = np.random.RandomState(0).standard_normal((one.shape[1], 1))
    first, second = (operator.correlate(operator.combine(probe)) for operator in (one, other))
    return bool(np.allclose(first, second, rtol=0, atol=1e-9 * float(np.max(np.abs(first)))))


def search_subset(
    operator: Operator,
    k: int,
    tol: float,
    *,
    max_time: float = np.inf,
    callback: Callable[[Progress], object] | None = None,
    initial_state: SubsetState | None = None,
) -> SubsetState:
    """All stages, from the beginning or from where an earlier call stopped, until the gap is closed or time is up."""
    clock = Clock(max_time, None if callback is None else lambda: callback(state.make_progress(clock.elapsed_seconds)))
    state = SubsetState(start_from_heuristic(operator, k, tol, clock)) if initial_state is None else initial_state
    for reached in _iterate_search_stages(state, clock):
        state = reached  # what the callback is told of
    state = replace(state, seconds=state.seconds + clock.elapsed_seconds)
    clock.poll_callback()
    return state


def _iterate_search_stages(state: SubsetState, clock: Clock) -> Iterator[SubsetState]:
    """The state after each stage; a stage is skipped once it is done or no longer needed."""
    if not state.bound_state.bounds:
        yield (state := replace(state, bound_state=_enumerate_supports(state.bound_state, clock)))
        for standing in add_cheap_bounds(state.bound_state, clock):
            yield (state := replace(state, bound_state=standing))
        yield (state := _search_cheaply(state, clock))
        clock.poll_callback()
    if state.tree is None and not state.bound_state.is_done(clock):
        yield (state := _bound_at_root(state, clock))
    if state.tree is not None and state.tree.open_nodes:
        begin = time.perf_counter()
        state.tree.run(assess_by_rows, clock)
        yield replace(state, bound_state=state.bound_state.with_search_result(state.tree, "search", begin))


def _enumerate_supports(bound_state: BoundState, clock: Clock) -> BoundState:
    """All supports, where they are few."""
    view, k, n = bound_state.candidates, bound_state.k, bound_state.candidates.variables.size
    if view.floor > 0 or comb(n, k) > MAX_ENUMERATED_SUPPORTS:
        return bound_state
    begin = time.perf_counter()
    with clock.interruptible():
        value, support = best_completion(view.S, np.arange(0), np.arange(n), k, clock)
        if np.isfinite(value):
            bound = Bound("enumeration", value * (1 + 8 * k * EPS) - view.shift)
            return bound_state.with_support(support).with_bound(bound, begin)
    return bound_state


def _search_cheaply(state: SubsetState, clock: Clock) -> SubsetState:
    """A short search with cheap bounds."""
    standing = state.bound_state
    if standing.is_done(clock) or standing.candidates.floor > 0:
        return state
    begin, search = time.perf_counter(), create_search(standing, standing.candidates)
    search.push(search.make_root(standing.upper_bound))
    search.run(assess_cheaply, clock.make_child(MAX_CHEAP_SEARCH_SECONDS))
    return replace(
        state, bound_state=standing.with_search_result(search, "cheap search", begin), n_cheap_nodes=search.n_nodes
    )


def _bound_at_root(state: SubsetState, clock: Clock) -> SubsetState:
    """The row bound at the root, and the node to go on from."""
    begin, standing = time.perf_counter(), state.bound_state
    view = select_row_candidates(standing)
    search, node = start_search(standing, view, clock)
    if node is None and search.upper_bound > search.pruning_threshold and view.floor > standing.candidates.floor:
        search, node = start_search(standing, standing.candidates, clock)
    if node is not None and not search.enumerate_if_leaf(node):
        search.push(node)
    return replace(state, bound_state=standing.with_search_result(search, "rows", begin), tree=search)
