"""The certificate of a component, the bounds that it contains, and the clock that limits the time of a computation.

``format_count(count, noun)`` of `_utils.text` returns a count and its noun, in the plural unless the count is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from gpower._utils.arrays import Array
from gpower._utils.text import format_count

if TYPE_CHECKING:
    from gpower.certificates.cascade import BoundState

#: Gaps up to this are rounding and count as zero.
MAX_ROUNDING_GAP = 1e-12
#: Seconds between two calls of the user's callback inside a long step.
CALLBACK_INTERVAL_SECONDS = 0.25


@dataclass(frozen=True)
class Bound:
    """An upper bound and the time that its computation took.

    Attributes
    ----------
    method : str
        Name of the bound, as in the guide "Certificates".
    value : float
        No unit vector of the given cardinality has a larger zᵀΣz.
    seconds : float
        Time of its computation.

    Examples
    --------
    >>> from gpower import GPower, certify
    >>> from gpower.datasets import load_pitprops
    >>> S = load_pitprops().correlation
    >>> certificate = certify(GPower(1, cardinality=7, covariance="precomputed").fit(S), S)[0]
    >>> [bound.method for bound in certificate.bounds]
    ['trace', 'gershgorin', 'eigenvalue', 'soft threshold', 'sample space', 'rows']
    """

    method: str
    value: float
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """The value of a component and a proven upper bound on the value of every component of `cardinality` variables.

    Values are those of ``GPower.objective_`` for an exact cardinality: ‖A z‖² = zᵀΣz, with Σ = AᵀA of the centred (and
    scaled) data, or the given covariance. Divide by n_samples − 1 for a variance.

    Attributes
    ----------
    value : float
        zᵀΣz of the component, with Σ deflated by its predecessors if it has any; a sum for several components.
    upper_bound : float
        No unit vector with at most `cardinality` non-zeros has a larger zᵀΣz.
    cardinality : int
        The requested number of variables or groups, or that of the component if none was requested.
    tol : float
        Largest gap at which `optimal` is true.
    method : str
        Name of the bound or search that gave `upper_bound`.
    bounds : tuple of Bound
        All bounds that were computed, in order.
    seconds : float
        Total time.
    nodes : int
        Nodes of the search tree; zero without a search.
    gamma, objective, objective_bound : float or None
        For a component of the ℓ0 penalty: γ, zᵀΣz − γ‖z‖₀, and an upper bound on the latter over all unit z.
    cardinality_unit : {"variables", "groups"}
        What `cardinality` counts.
    search : BoundState or None
        State in which `best_subset` stopped; pass the certificate as its `resume` to continue.

    Examples
    --------
    >>> from gpower import Certificate
    >>> certificate = Certificate(value=2.0, upper_bound=2.1, cardinality=3, tol=0.1, method="trace")
    >>> round(certificate.gap, 3), certificate.optimal
    (0.05, True)
    >>> print(certificate)
    3 variables: 2 found, at most 2.1 possible (gap 5%, within the tolerance); trace, 0.0 s
    """

    value: float
    upper_bound: float
    cardinality: int
    tol: float
    method: str
    bounds: tuple[Bound, ...] = ()
    seconds: float = 0.0
    nodes: int = 0
    gamma: float | None = None
    objective: float | None = None
    objective_bound: float | None = None
    cardinality_unit: str = "variables"
    search: BoundState | None = field(default=None, repr=False)

    @classmethod
    def from_bounds(
        cls, value: float, bounds: Sequence[Bound], *, cardinality: int, tol: float, seconds: float, **fields: Any
    ) -> Certificate:
        """Create the certificate of a value from all bounds on it, in order; `fields` are further attributes.

        The upper bound is the least of the bounds, of which there should be one, but at least the value: only rounding
        makes a bound smaller. `method` is that of the least bound, the first of equal ones.
        """
        least = find_least_bound(bounds)
        upper = max(least.value, value)
        return cls(value, upper, cardinality, tol, least.method, tuple(bounds), seconds, **fields)

    @property
    def gap(self) -> float:
        """Return upper_bound/value − 1: no component of this cardinality has a value larger by more than this share.

        It is zero if the bound is at most the value, and infinity for a value of zero below the bound.
        """
        return relative_gap(self.value, self.upper_bound)

    @property
    def ratio(self) -> float:
        """Return value/upper_bound, between 0 and 1: the component has at least this share of the best value."""
        return 1.0 if self.upper_bound <= self.value else self.value / self.upper_bound

    @property
    def optimal(self) -> bool:
        """Return whether the gap is at most `tol`, or rounding."""
        return self.gap <= max(self.tol, MAX_ROUNDING_GAP)

    @property
    def objective_gap(self) -> float | None:
        """Return the relative gap of the ℓ0-penalised objective; None if there is no such objective."""
        if self.objective is None or self.objective_bound is None:
            return None
        return relative_gap(self.objective, self.objective_bound)

    def __repr__(self) -> str:
        return f"<Certificate: {self}>"

    def __str__(self) -> str:
        verdict = "within the tolerance" if self.optimal else "not within the tolerance"
        gap = 0.0 if self.gap <= MAX_ROUNDING_GAP else self.gap
        size = format_count(self.cardinality, self.cardinality_unit.removesuffix("s"))
        return (
            f"{size}: {self.value:.6g} found, at most {self.upper_bound:.6g} possible "
            f"(gap {100 * gap:.3g}%, {verdict}); {self.method}, {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Progress:
    """The progress of `best_subset`, passed to its callback.

    Attributes
    ----------
    bound : float
        Proven upper bound so far.
    incumbent : float
        Value of the best support so far.
    nodes, open : int
        Number of nodes created so far, and of those that are still open.
    seconds : float
        Time since the call began.
    support : ndarray of int
        Column numbers of the best support, increasing. While `best_subset` runs its last search, over single variables,
        it is the best support before that search, and `incumbent` may already be the value of a better one.

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


class CertifiedComponent(NamedTuple):
    """A component, or several that were searched together, and its certificate."""

    component: Array  # (n_features,) or (n_components, n_features): unit loadings, the largest absolute one positive
    certificate: Certificate


def find_least_bound(bounds: Sequence[Bound]) -> Bound:
    """Return the least bound, the first of equal ones; an infinite one if there are none."""
    return min(bounds, key=lambda bound: bound.value, default=Bound("none", float("inf")))


def relative_gap(value: float, upper: float) -> float:
    """Return upper/value − 1; zero if upper ≤ value, and infinity above a value of zero or less, or for upper = ∞."""
    if upper <= value:
        return 0.0
    return upper / value - 1 if value > 0 else float("inf")


@dataclass(eq=False)
class Clock:
    """A time limit with a callback of the user; long computations ask it whether to stop.

    Examples
    --------
    >>> Clock(0.0).is_expired, Clock(60.0).is_expired
    (True, False)
    """

    max_seconds: float  # counted from `start_time`; infinity for no limit
    callback: Callable[[], object] | None = None  # called every now and then; a true result stops
    stop_event: Event = field(default_factory=Event)  # shared by a clock and its children
    start_time: float = field(default_factory=time.perf_counter)  # as the next one, of `time.perf_counter`
    last_callback_time: float = field(default_factory=time.perf_counter)

    @property
    def elapsed_seconds(self) -> float:
        """Return the seconds since the clock was created."""
        return time.perf_counter() - self.start_time

    @property
    def is_expired(self) -> bool:
        """Return whether to stop: time is up, the callback returned true, or Ctrl-C was pressed.

        The callback is called before, if the last call was more than CALLBACK_INTERVAL_SECONDS ago.
        """
        if time.perf_counter() - self.last_callback_time > CALLBACK_INTERVAL_SECONDS:
            self.poll_callback()
        return self.stop_event.is_set() or self.elapsed_seconds >= self.max_seconds

    def poll_callback(self) -> None:
        """Call the callback now, if there is one; a true result expires the clock and those that share its event.

        What the callback raises is not caught.
        """
        self.last_callback_time = time.perf_counter()
        if self.callback is not None and self.callback():
            self.stop_event.set()

    def make_child(self, max_seconds: float) -> Clock:
        """Return a clock without a callback that expires after `max_seconds`, or with this one; both stop together."""
        return Clock(min(max_seconds, self.max_seconds - self.elapsed_seconds), stop_event=self.stop_event)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C end the block and expire the clock instead of raising, so that callers keep what is proven.

        Only KeyboardInterrupt is caught. Names assigned in the block may be unset or old afterwards. The clock's parent
        and children, which share `stop_event`, expire too.
        """
        try:
            yield
        except KeyboardInterrupt:
            self.stop_event.set()
