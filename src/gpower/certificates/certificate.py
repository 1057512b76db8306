"""What a proof is made of: bounds and the time that each took, the certificate in the end, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from gpower._utils.text import format_count

if TYPE_CHECKING:
    from gpower.certificates.subset_search import SubsetState

#: A gap that is rounding.
MAX_ROUNDING_GAP = 1e-12
#: Seconds between two questions to the user's callback inside a long step.
CALLBACK_INTERVAL_SECONDS = 0.25


@dataclass(frozen=True)
class Bound:
    """One upper bound and the seconds it took.

    Attributes
    ----------
    method : str
        Its name, as in the guide "Certificates".
    value : float
    seconds : float
    threshold : float
        t of a soft threshold; zero for the others.

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
    threshold: float = 0.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """A value and a proven upper bound on every value that `cardinality` variables can reach.

    Values are those of ``GPower.objective_`` for an exact cardinality: ‖A z‖² = zᵀΣz, with Σ = AᵀA of the centred (and
    scaled) data, or the covariance that was given. Divide by n_samples − 1 for a variance.

    Attributes
    ----------
    value : float
        zᵀΣz of the component, on the matrix that it was extracted from.
    upper_bound : float
        No unit vector of so many non-zeros has a larger one.
    cardinality : int
        How many: the number asked for, else that of the component.
    tol : float
        Gap at which `optimal` is true.
    method : str
        The bound, or the search, that gave `upper_bound`.
    bounds : tuple of Bound
        All that were tried, in order.
    seconds : float
        Time in all.
    nodes : int
        Nodes of the search tree.
    gamma, objective, objective_bound : float or None
        For a component of the ℓ0 penalty γ: zᵀΣz − γ‖z‖₀, and a bound on it over all z.
    cardinality_unit : {"variables", "groups"}
        What `cardinality` counts.
    search : SubsetState or None
        Where `best_subset` stopped; pass the certificate as its `resume` to go on.

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
    search: SubsetState | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """upper_bound/value − 1: no component of this cardinality is better by a larger share."""
        return relative_gap(self.value, self.upper_bound)

    @property
    def ratio(self) -> float:
        """value/upper_bound, between 0 and 1: at least this share of the best possible was found."""
        return 1.0 if self.upper_bound <= self.value else self.value / self.upper_bound

    @property
    def optimal(self) -> bool:
        """Whether the gap is at most `tol`, or rounding."""
        return self.gap <= max(self.tol, MAX_ROUNDING_GAP)

    @property
    def objective_gap(self) -> float | None:
        """The gap of the ℓ0-penalised objective, where there is one."""
        if self.objective is None or self.objective_bound is None:
            return None
        return relative_gap(self.objective, self.objective_bound)

    def __repr__(self) -> str:
        return f"<Certificate: {self}>"

    def __str__(self) -> str:
        word = "within the tolerance" if self.optimal else "not within the tolerance"
        gap = 0.0 if self.gap <= MAX_ROUNDING_GAP else self.gap
        size = format_count(self.cardinality, self.cardinality_unit.removesuffix("s"))
        return (
            f"{size}: {self.value:.6g} found, at most {self.upper_bound:.6g} possible "
            f"(gap {100 * gap:.3g}%, {word}); {self.method}, {self.seconds:.1f} s"
        )


def relative_gap(value: float, upper: float) -> float:
    """upper/value − 1; nothing above nothing is no gap."""
    if upper <= value:
        return 0.0
    return upper / value - 1 if value > 0 else float("inf")


@dataclass(eq=False)
class Clock:
    """Seconds since the start, against a limit, and whether the user wants to stop: what long computations ask.

    Examples
    --------
    >>> Clock(0.0).is_expired, Clock(60.0).is_expired
    (True, False)
    """

    max_seconds: float
    callback: Callable[[], object] | None = None  # the user's word, asked now and then; a true answer stops
    stop_event: Event = field(default_factory=Event)  # one for a clock and all its parts
    start_time: float = field(default_factory=time.perf_counter)
    last_callback_time: float = field(default_factory=time.perf_counter)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.start_time

    @property
    def is_expired(self) -> bool:
        """Whether to stop now."""
        if time.perf_counter() - self.last_callback_time > CALLBACK_INTERVAL_SECONDS:
            self.poll_callback()
        return self.stop_event.is_set() or self.elapsed_seconds >= self.max_seconds

    def poll_callback(self) -> None:
        """Ask the user now."""
        self.last_callback_time = time.perf_counter()
        if self.callback is not None and self.callback():
            self.stop_event.set()

    def make_child(self, max_seconds: float) -> Clock:
        """A clock that asks nobody and expires after `limit` seconds, or with this one; to stop one is to stop both."""
        return Clock(min(max_seconds, self.max_seconds - self.elapsed_seconds), stop_event=self.stop_event)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C inside ends the block, not the program: what was proven until then is returned."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop_event.set()
