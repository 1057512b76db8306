"""The best subset: exact search for the component of largest variance with k variables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, embedded
from gpower._utils.text import listed
from gpower._utils.warnings import tell
from gpower.certificates.bounds import EPS
from gpower.certificates.branch_and_bound import Search, assess_by_rows, assess_cheaply, best_completion
from gpower.certificates.cascade import Standing, best_known, cheap_bounds, exact_search, row_candidates, search_root
from gpower.certificates.certificate import Bound, Certificate, Clock
from gpower.certificates.group_search import GroupSearch, best_groups
from gpower.certificates.inputs import checked_table
from gpower.certificates.joint import best_disjoint
from gpower.operators.base import Operator
from gpower.validation.params import number, one_of, whole
from gpower.validation.variable_rules import Knowledge, check_varies

#: Supports that are simply all looked at.
ENUMERATED = 20_000
#: Seconds for the search with cheap bounds, which closes easy problems at once.
CHEAP_SECONDS = 0.5


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

    names: Array | None = None

    @classmethod
    def of(cls, found: tuple[Array, Certificate], names: Array | None) -> BestSubset:
        """The same pair, with the names of the variables."""
        pair = cls(found)
        pair.names = names
        return pair

    def __repr__(self) -> str:
        component, certificate = self
        said = [*(self._told(z) for z in np.atleast_2d(component)), str(certificate)]
        return f"<BestSubset: {'; '.join(said)}>"

    def _told(self, z: Array) -> str:
        """The variables of a component and their loadings, the largest first."""
        order = np.argsort(-np.abs(z), kind="stable")[: np.count_nonzero(z)]
        return listed([f"{f'x{j}' if self.names is None else self.names[j]} {z[j]:+.3f}" for j in order])


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
    tol, max_time = number(tol, "tol", 0.0), number(max_time, "max_time", 0.0)
    table = checked_table(X, covariance)
    operator = table.operator
    knowledge = Knowledge(operator.shape[1], 1, table.names, groups, include, exclude)
    if knowledge.told:
        if resume is not None or constraint is not None:
            odd = "resume" if resume is not None else "constraint"
            raise ValueError(
                f"{knowledge.told[0]} does not go together with {odd} in an exact search; leave one of them."
            )
        k = whole(cardinality, "cardinality", 1)
        return BestSubset.of(_known_subset(operator, knowledge, k, Clock(max_time), tol, callback), table.names)
    if one_of(constraint, "constraint", (None, "disjoint")) is not None:
        if resume is not None or callback is not None:
            raise ValueError('constraint="disjoint" knows no callback and no resume; give it more max_time instead.')
        return BestSubset.of(best_disjoint(operator, cardinality, tol, max_time), table.names)
    k, n = whole(cardinality, "cardinality", 1), operator.shape[1]
    if k > n:
        raise ValueError(f"cardinality={k}: a component uses at most as many variables as there are, n_features={n}.")
    begun = None if resume is None else _resumed(resume, operator, k, tol)
    state = search_subset(operator, k, tol, max_time=max_time, callback=callback, begun=begun)
    return BestSubset.of((state.standing.z, state.certificate()), table.names)


def _known_subset(
    operator: Operator,
    knowledge: Knowledge,
    k: int,
    clock: Clock,
    tol: float,
    callback: Callable[[Progress], object] | None,
) -> tuple[Array, Certificate]:
    """The best of the admissible supports; where variables are left out and nothing else, the best of the others."""
    known = knowledge.admissible()
    assert known is not None
    knowledge.check_level(known, [k], "cardinality")
    check_varies(known, operator.column_norms, knowledge.names)
    if knowledge.told == ["exclude"]:
        left = np.flatnonzero(~known.barred[:, 0])
        state = search_subset(operator.take(left), k, tol, max_time=clock.limit, callback=callback)
        return embedded(state.standing.z[:, None], left, operator.shape[1])[:, 0], state.certificate()

    def told(search: GroupSearch, usable: Array) -> object:
        found = (search.upper, search.value, search.nodes, len(search.open), clock.elapsed)
        return callback(Progress(*found, usable[search.support(search.chosen)])) if callback else None

    z, certificate = best_groups(operator, known, k, tol, clock, told if callback else None)
    tell(knowledge.told_idle(knowledge.idle(z[None])))
    return z, certificate


@dataclass(frozen=True, eq=False)
class SubsetState:
    """Where `best_subset` stands: what is known, the search to go on with, and what both have cost."""

    standing: Standing
    tree: Search | None = None
    cheap_nodes: int = 0
    seconds: float = 0.0

    @property
    def nodes(self) -> int:
        """Nodes of the search trees so far."""
        return self.cheap_nodes + (0 if self.tree is None else self.tree.nodes)

    def progress(self, seconds: float) -> Progress:
        """What the user is told after so many seconds, in the middle of a search too."""
        known, tree = self.standing, self.tree
        if tree is None:
            return Progress(known.upper, known.value, self.nodes, 0, seconds, known.support)
        value = max(known.value, tree.found)
        bound = max(min(known.upper, tree.proven), value)
        return Progress(bound, value, self.nodes, len(tree.open), seconds, known.support)

    def certificate(self) -> Certificate:
        """What was proven, and where to go on."""
        return replace(self.standing.certificate(self.seconds), nodes=self.nodes, search=self)


def _resumed(certificate: Certificate, operator: Operator, k: int, tol: float) -> SubsetState:
    """The state that an earlier call left, if it is of the same problem; the certificate keeps its own."""
    state = certificate.search
    if state is None:
        raise ValueError("resume takes the certificate of an earlier call of best_subset.")
    known = state.standing
    if known.k != k or known.tol != tol or not _same_matrix(known.operator, operator):
        raise ValueError(
            f"resume is a certificate of another problem (cardinality={known.k}, tol={known.tol:g}, "
            f"n_features={known.operator.shape[1]}); pass the same X, cardinality and tol."
        )
    return replace(state, tree=None if state.tree is None else replace(state.tree, open=list(state.tree.open)))


def _same_matrix(one: Operator, other: Operator) -> bool:
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
    begun: SubsetState | None = None,
) -> SubsetState:
    """All stages, from the beginning or from where an earlier call stopped, until the gap is closed or time is up."""
    clock = Clock(max_time, None if callback is None else lambda: callback(state.progress(clock.elapsed)))
    state = SubsetState(best_known(operator, k, tol, clock)) if begun is None else begun
    for reached in _stages(state, clock):
        state = reached  # what the callback is told of
    state = replace(state, seconds=state.seconds + clock.elapsed)
    clock.report()
    return state


def _stages(state: SubsetState, clock: Clock) -> Iterator[SubsetState]:
    """The state after each stage; a stage is skipped once it is done or no longer needed."""
    if not state.standing.bounds:
        yield (state := replace(state, standing=_enumerated(state.standing, clock)))
        for standing in cheap_bounds(state.standing, clock):
            yield (state := replace(state, standing=standing))
        yield (state := _searched_cheaply(state, clock))
        clock.report()
    if state.tree is None and not state.standing.done(clock):
        yield (state := _bounded_at_root(state, clock))
    if state.tree is not None and state.tree.open:
        begin = time.perf_counter()
        state.tree.run(assess_by_rows, clock)
        yield replace(state, standing=state.standing.searched(state.tree, "search", begin))


def _enumerated(standing: Standing, clock: Clock) -> Standing:
    """All supports, where they are few."""
    view, k, n = standing.view, standing.k, standing.view.idx.size
    if view.floor > 0 or comb(n, k) > ENUMERATED:
        return standing
    begin = time.perf_counter()
    with clock.interruptible():
        value, support = best_completion(view.S, np.arange(0), np.arange(n), k, clock)
        if np.isfinite(value):
            bound = Bound("enumeration", value * (1 + 8 * k * EPS) - view.shift)
            return standing.improved(support).bounded(bound, begin)
    return standing


def _searched_cheaply(state: SubsetState, clock: Clock) -> SubsetState:
    """A short search with cheap bounds."""
    standing = state.standing
    if standing.done(clock) or standing.view.floor > 0:
        return state
    begin, search = time.perf_counter(), exact_search(standing, standing.view)
    search.push(search.root(standing.upper))
    search.run(assess_cheaply, clock.part(CHEAP_SECONDS))
    return replace(state, standing=standing.searched(search, "cheap search", begin), cheap_nodes=search.nodes)


def _bounded_at_root(state: SubsetState, clock: Clock) -> SubsetState:
    """The row bound at the root, and the node to go on from."""
    begin, standing = time.perf_counter(), state.standing
    view = row_candidates(standing)
    search, node = search_root(standing, view, clock)
    if node is None and search.upper > search.level and view.floor > standing.view.floor:
        search, node = search_root(standing, standing.view, clock)
    if node is not None and not search.enumerated(node):
        search.push(node)
    return replace(state, standing=standing.searched(search, "rows", begin), tree=search)
