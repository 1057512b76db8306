"""The best subset: exact search for the component of largest variance with k variables."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpower._arrays import Array, embedded, orient
from gpower.certificates.cascade import INSIDE, Cascade
from gpower.certificates.certificate import Certificate
from gpower.certificates.clock import Clock
from gpower.certificates.door import checked_operator
from gpower.certificates.eigenvalues import EPS
from gpower.certificates.enumeration import best_completion, count
from gpower.certificates.search import Search, assess_by_rows, assess_cheaply
from gpower.extraction import extract
from gpower.operators.base import Operator
from gpower.parameters import number, whole
from gpower.recipes import Exact, Recipe

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
    """

    bound: float
    incumbent: float
    nodes: int
    open: int
    seconds: float
    support: Array


def best_subset(
    X: Any,
    *,
    cardinality: int,
    covariance: str | None = None,
    tol: float = 1e-6,
    max_time: float = 60.0,
    callback: Callable[[Progress], Any] | None = None,
    resume: Certificate | None = None,
) -> tuple[Array, Certificate]:
    """The component of `cardinality` variables with the largest variance, and the proof that it is.

    Starts from many ascents with swap polish, then proves: by looking at all supports where they are few, else by
    branch and bound. Out of time, it returns the best component found and what is proven about it.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data, centred here, or a covariance.
    cardinality : int
        Number of variables.
    covariance : {None, "precomputed"}
        Whether X is a covariance.
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
    component : ndarray of shape (n_features,)
        Unit loadings, the largest positive.
    certificate : Certificate

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
    operator = checked_operator(X, covariance)
    k, n = whole(cardinality, "cardinality", 1), operator.shape[1]
    if k > n:
        raise ValueError(f"cardinality={k}: a component uses at most as many variables as there are, n_features={n}.")
    state = SubsetSearch(operator, k, tol) if resume is None else _resumed(resume, operator, k, tol)
    state.run(max_time, callback)
    return state.component(), state.certificate()


def _resumed(certificate: Certificate, operator: Operator, k: int, tol: float) -> SubsetSearch:
    """The state that an earlier call left, if it is of the same problem."""
    state = certificate.search
    if not isinstance(state, SubsetSearch):
        raise ValueError("resume takes the certificate of an earlier call of best_subset.")
    if state.k != k or state.tol != tol or not _same_matrix(state.operator, operator):
        raise ValueError(
            f"resume is a certificate of another problem (cardinality={state.k}, tol={state.tol:g}, "
            f"n_features={state.operator.shape[1]}); pass the same X, cardinality and tol."
        )
    return state


def _same_matrix(one: Operator, other: Operator) -> bool:
    """Whether AᵀA of both agree on a vector that no two different matrices are likely to agree on."""
    if one.shape[1] != other.shape[1]:
        return False
    probe = np.random.RandomState(0).standard_normal((one.shape[1], 1))
    first, second = (operator.correlate(operator.combine(probe)) for operator in (one, other))
    return bool(np.allclose(first, second, rtol=0, atol=1e-9 * float(np.max(np.abs(first)))))


@dataclass(eq=False)
class SubsetSearch:
    """The stages of `best_subset`, each skipped once it is done or no longer needed."""

    operator: Operator
    k: int
    tol: float
    seconds: float = 0.0
    clock: Clock = field(init=False)
    support: Array = field(init=False)
    cascade: Cascade | None = field(init=False, default=None)
    search: Search | None = field(init=False, default=None)
    cheap_nodes: int = field(init=False, default=0)

    def run(self, max_time: float, callback: Callable[[Progress], Any] | None) -> None:
        """All stages, until the gap is closed or the time is up."""
        self.clock = Clock(max_time, None if callback is None else lambda: callback(self.progress()))
        if self.cascade is None:
            self.cascade = self._start()
            self._enumerate()
            self.cascade.run_cheap()
            self._search_cheaply()
            self.clock.report()
        self.cascade.clock = self.clock
        if self.search is None and not self.cascade.done:
            self._bound_root()
        if self.search is not None and self.search.open:
            begin = time.perf_counter()
            self.search.run(assess_by_rows, self.clock)
            self._take("search", begin)
        self.seconds += self.clock.elapsed
        self.clock.report()

    def _start(self) -> Cascade:
        """The best heuristic's support, or after Ctrl-C the variables of largest variance."""
        norms = self.operator.column_norms
        z = np.zeros(norms.size)
        z[np.argsort(-norms, kind="stable")[: self.k]] = self.k**-0.5
        with self.clock.interruptible():
            recipe = Recipe(Exact(levels=(self.k,)))
            found = extract(self.operator, recipe, np.random.RandomState(0)).Z[:, 0]
            z = found if np.any(found) else z
        self.support = np.flatnonzero(z)
        if self.support.size < self.k:  # fill with any: more variables never explain less
            rest = np.setdiff1d(np.argsort(-norms, kind="stable"), self.support, assume_unique=True)
            self.support = np.sort(np.append(self.support, rest[: self.k - self.support.size]))
        return Cascade(self.operator, self._loadings(self.support), self.k, self.tol, self.clock)

    def _loadings(self, support: Array) -> Array:
        """Unit loadings of the largest variance on a support."""
        S = np.asarray(self.operator.gram(support), np.float64)
        leading = np.linalg.eigh((S + S.T) / 2)[1][:, -1:]
        return embedded(orient(leading), support, self.operator.shape[1])[:, 0]

    def _improve(self, support: Array) -> None:
        """A better support, over the candidates of the cascade; bounds stay what they are."""
        assert self.cascade is not None
        z = self._loadings(np.sort(support))
        value = self.cascade.view.value(z)
        if value > self.cascade.value:
            self.support, self.cascade.z, self.cascade.value = np.sort(support), z, value
            self.cascade.upper = max(self.cascade.upper, value)

    def _enumerate(self) -> None:
        """All supports, where they are few."""
        cascade = self.cascade
        assert cascade is not None
        n = cascade.view.idx.size
        if cascade.view.floor > 0 or count(n, self.k) > ENUMERATED:
            return
        begin = time.perf_counter()
        with self.clock.interruptible():
            value, support = best_completion(cascade.view.S, np.arange(0), np.arange(n), self.k, self.clock)
            if np.isfinite(value):
                self._improve(support)
                upper = value * (1 + 8 * self.k * EPS) - cascade.view.shift
                cascade.note("enumeration", upper, time.perf_counter() - begin)

    def _search_cheaply(self) -> None:
        """A short search with cheap bounds."""
        cascade = self.cascade
        assert cascade is not None
        if cascade.done or cascade.view.floor > 0:
            return
        begin, shift = time.perf_counter(), cascade.view.shift
        scale = cascade.value + shift
        search = Search(cascade.view.S / scale, self.k, INSIDE * self.tol, self.support)
        search.push(search.root((cascade.upper + shift) / scale))
        search.run(assess_cheaply, self.clock.part(CHEAP_SECONDS, quiet=True))
        self.cheap_nodes = search.nodes
        if search.value > 1 + 1e-12:
            self._improve(search.support)
        cascade.note("cheap search", search.upper * scale - shift, time.perf_counter() - begin)

    def _bound_root(self) -> None:
        """The row bound at the root, and the node to go on from."""
        assert self.cascade is not None
        begin = time.perf_counter()
        view = self.cascade.row_candidates(self.support)
        search, node = self.cascade.search(self.support, view)
        if node is None and search.upper > search.level and view.floor > self.cascade.view.floor:
            search, node = self.cascade.search(self.support, self.cascade.view)
        if node is not None and not search.enumerated(node):
            search.push(node)
        self.search = search
        self._take("rows", begin)

    def _take(self, method: str, begin: float) -> None:
        """What the search has found and proven so far."""
        cascade, search = self.cascade, self.search
        assert cascade is not None
        assert search is not None
        support = cascade.row_view.idx[search.support]
        if not np.array_equal(support, self.support):
            self._improve(support)
        cascade.note(method, cascade.upper_of(search, None), time.perf_counter() - begin)

    def progress(self) -> Progress:
        """Where the search stands."""
        cascade, search = self.cascade, self.search
        if cascade is None:
            return Progress(np.inf, 0.0, 0, 0, self.clock.elapsed, np.arange(0))
        bound, value, opened = cascade.upper, cascade.value, 0
        if search is not None:
            value = max(value, search.value * cascade.scale - cascade.row_view.shift)
            bound = max(min(bound, cascade.upper_of(search, None)), value)
            opened = len(search.open)
        nodes = self.cheap_nodes + (0 if search is None else search.nodes)
        return Progress(bound, value, nodes, opened, self.clock.elapsed, self.support)

    def component(self) -> Array:
        """Unit loadings of the incumbent."""
        assert self.cascade is not None
        return self.cascade.z

    def certificate(self) -> Certificate:
        """What was proven."""
        cascade = self.cascade
        assert cascade is not None
        return Certificate(
            value=cascade.value,
            upper_bound=cascade.upper,
            cardinality=self.k,
            tol=self.tol,
            method=cascade.method,
            bounds=tuple(cascade.bounds),
            seconds=self.seconds,
            nodes=self.cheap_nodes + (0 if self.search is None else self.search.nodes),
            search=self,
        )
