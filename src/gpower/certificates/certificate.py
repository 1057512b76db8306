"""What was proven about a component."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: A gap that is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Bound:
    """One upper bound and the seconds it took.

    Attributes
    ----------
    method : str
        Its name in ``docs/certificates.md``.
    value : float
    seconds : float
    """

    method: str
    value: float
    seconds: float


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
    search : object
        Where `best_subset` stopped; pass the certificate as its `resume` to go on.

    Examples
    --------
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
    search: Any = field(default=None, repr=False)

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
        return self.gap <= max(self.tol, ROUNDING)

    @property
    def objective_gap(self) -> float | None:
        """The gap of the ℓ0-penalised objective, where there is one."""
        if self.objective is None or self.objective_bound is None:
            return None
        return relative_gap(self.objective, self.objective_bound)

    def __str__(self) -> str:
        word = "within the tolerance" if self.optimal else "not within the tolerance"
        return (
            f"{self.cardinality} variables: {self.value:.6g} found, at most {self.upper_bound:.6g} possible "
            f"(gap {100 * self.gap:.3g}%, {word}); {self.method}, {self.seconds:.1f} s"
        )


def relative_gap(value: float, upper: float) -> float:
    """upper/value − 1; nothing above nothing is no gap."""
    if upper <= value:
        return 0.0
    return upper / value - 1 if value > 0 else float("inf")
