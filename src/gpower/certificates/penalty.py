"""Upper bounds on the ℓ0-penalised objective max_z zᵀΣz − γ‖z‖₀, the problem of a model fitted with ``gamma``.

A variable of variance at most γ is in no solution (safe elimination: it would add at most its variance and cost γ), so
only the others are looked at. Three bounds: a profile of `bounds` less γj, the largest over j; λmax(Σ Yᵢ) of
`sample_space` at ρ = γ; λmax of `rows` with the price held at γ.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array
from gpower.certificates.bounds import eigenvalue_profile, gershgorin_profile, penalized, trace_profile
from gpower.certificates.cascade import Cascade
from gpower.certificates.clock import Clock
from gpower.certificates.rows import RowProblem, first_rows, minimize_rows
from gpower.certificates.sample_space import covering_eigenvalue
from gpower.certificates.wide import whole_eigenvalue

#: Smoothings and steps of the row bound.
SMOOTHINGS, STEPS = (0.03, 0.01, 0.003, 0.001), 40
#: Above this number of variables the row bound is left out, and below this γ, relative to the best bound, there is
#: nothing to gain by it: the penalty is rounding.
MOST, NEGLIGIBLE = 600, 1e-9


def penalized_bound(cascade: Cascade, gamma: float) -> float:
    """The least of the three bounds for the matrix of a cascade, γ absolute."""
    view = cascade.view
    if view.floor > gamma:  # variables that count are not all at hand
        squares = cascade.operator.column_norms.astype(np.float64) ** 2 + view.shift
        trace = trace_profile(squares[squares > gamma], squares.size)
        return min(penalized(trace, gamma), max(whole_eigenvalue(cascade.operator) - gamma, 0.0))
    used = np.flatnonzero(np.diagonal(view.S) > gamma)
    if not used.size:
        return 0.0
    S = view.S[np.ix_(used, used)]
    best = penalized(_profile(S), gamma) - view.shift
    with cascade.clock.interruptible():
        A, x = cascade.columns(gamma)
        if x is not None:
            best = min(best, covering_eigenvalue(A, x, gamma))
        if used.size <= MOST and gamma > NEGLIGIBLE * best and not cascade.clock.expired:
            best = min(best, _row_bound(S, gamma, best, cascade.clock) - view.shift)
    return max(best, 0.0)


def _profile(S: Array) -> Array:
    """The least of the three profiles, over all cardinalities."""
    n = S.shape[0]
    return np.minimum(np.minimum(trace_profile(np.diagonal(S), n), gershgorin_profile(S, n)), eigenvalue_profile(S, n))


def _row_bound(S: Array, gamma: float, best: float, clock: Clock) -> float:
    """Rows at the price γ, in the scale of the best bound known."""
    n, scale = S.shape[0], best + gamma
    problem = RowProblem(S / scale, n, np.zeros(n, bool))
    found = minimize_rows(
        problem,
        first_rows(problem, gamma / scale),
        target=0.0,
        clock=clock,
        smoothings=SMOOTHINGS,
        steps=STEPS,
        price=gamma / scale,
    )
    return found.bound * scale
