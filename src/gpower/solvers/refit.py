"""Compute loadings on a pattern of active variables: by a rank-one SVD, or by Algorithm 6 of [JNRS10].

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. A problem
has m units. Z, (n, m), are loadings, and C, (n, m), the weighted correlations of a `Point` of the problem with the
variables. A pattern, (n, m), bool, has the variables of each unit that may have a non-zero loading. These arrays are
where the matrix is, on the host or a device, in its dtype. W are sorted indices of variables on the host.

- `Operator`: ``column_norms``, (n,), tells by its memory and dtype those of the matrix; ``to_backend`` moves an array
  there; ``restrict(W).operator`` is the matrix of some columns, gathered once, perhaps a Gram matrix on the host;
  ``take(W)`` is that matrix with its samples.
- `Problem`: ``operator``; ``penalty``; ``mu``, the weights, (m,); ``sample_set``, the set of X, whose
  ``needs_only_gram`` is false only for the cube of ℓ1 variance; ``is_single_l2_unit``, whether there is one unit of
  variance ‖A z‖₂², also with non-negative loadings; ``compute_loadings(point)``, unit loadings Z at a point, zero where
  nothing is active.
- `Penalty`: ``is_nonnegative``; ``has_loading_bound``, whether loadings have a bound besides that on their norm;
  ``with_sign(other)``, the penalty `other` with this sign constraint. `FixedSupport` is the penalty of a pattern.
- ``to_host(x)`` is x as a NumPy array, ``take_rows(x, idx)`` a copy of x[idx]; ``normalize_columns(Z)`` has unit or
  zero columns. ``maximize`` runs an ascent, for which a `CorrelationStart`, C alone, is start enough.
- ``compute_leading_components(operator, 1, idx)`` gives unit loadings, (|idx|, 1), and variances, (1,), both on
  the host; ``embed_rows(Z, idx, n, like)`` puts rows into n rows of zeros, in the memory of `like`. `Scores` computes
  adjusted variances, (m,) on the host: what each component adds to those of larger variance; ``from_loadings`` takes Z
  where the matrix is. ``problem.feasible_set`` and ``problem.objective`` are what `maximize` needs to ascend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, embed_rows, normalize_columns, take_rows, to_host
from gpower.feasible_sets import CorrelationStart, Point
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import FixedSupport
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentState, maximize

#: Relative growth of the objective at which a refit changes from accelerated to plain steps.
REFIT_TOL = 1e-12
#: Largest change of a loading at which the plain steps end, as a share of the tolerance of the ascent, and at least as
#: a multiple of the machine precision.
LOADING_CHANGE_PER_TOL, MIN_LOADING_CHANGE_FACTOR = 1e-4, 16


def refit_unit(operator: Operator, support: Array) -> tuple[Array, float]:
    """Return the loadings of largest variance on a support, (n,), and their variance [JNRS10, equation (28)].

    `support` are increasing indices on the host; the loadings, of unit length and any sign, are in the memory of the
    matrix. They, and the variance ‖A z‖₂², without a weight μ, are zero for an empty support.
    """
    if support.size == 0:
        return np.zeros_like(operator.column_norms), 0.0
    loadings, variances = compute_leading_components(operator, 1, support)
    return embed_rows(loadings, support, operator.shape[1], operator.column_norms)[:, 0], float(variances[0])


def refit_pattern(
    problem: Problem, pattern: Array, start: Point, power: int, tol: float = 0.0, max_iter: int = 1000
) -> Array:
    """Return loadings on a pattern, (n, m), found by the alternating scheme [JNRS10, Algorithm 6] from a point.

    The objective is the sum of norms (`power=1`, as in the paper) or of squared norms (`power=2`, the variance). The
    loadings, of unit length, satisfy the other requirements of the problem too: non-negative loadings, ℓ1 variance; a
    regularization is left out. `pattern`, (n, m), bool, and the result are in the memory of the matrix. The result is
    zero in a unit with an empty pattern. Of `start` only the correlations C, (n, m), are used.

    `tol` is the tolerance of the ascent before: the refit ends when no loading changes by more than 1e-4·tol, or after
    `max_iter` accelerated and as many plain steps.
    """
    n, like = pattern.shape[0], problem.operator.column_norms
    W = to_host(np.flatnonzero(pattern.any(axis=1)))
    if W.size == 0:
        return np.zeros_like(like, shape=pattern.shape)
    # The ascent needs no `lift`, because only loadings are returned. The cube needs the samples, which `take` keeps.
    operator = problem.operator.restrict(W).operator if problem.sample_set.needs_only_gram else problem.operator.take(W)
    penalty = problem.penalty.with_sign(FixedSupport(operator.to_backend(to_host(take_rows(pattern, W))), power))
    inner = Problem(operator, penalty, problem.mu, problem.sample_set)
    objective, feasible_set = inner.objective, inner.feasible_set
    inner_start = CorrelationStart(operator.to_backend(take_rows(start.C, W)))
    result = maximize(objective, feasible_set, inner_start, tol=REFIT_TOL, max_iter=max_iter, acceleration=True)
    # The error of the value is the square of that of the point: make plain steps until the loadings stop moving.
    stall = StallCallback(inner.compute_loadings, LOADING_CHANGE_PER_TOL * tol)
    result = maximize(objective, feasible_set, result.point, tol=-1.0, max_iter=max_iter, callback=stall)
    return embed_rows(inner.compute_loadings(result.point), W, n, like)


class StallCallback:
    """A callback that stops an ascent once no loading changes by more than `max_change`, or by more than rounding.

    ``compute_loadings(point)`` returns the loadings, (n, m), at a point of the ascent.
    """

    def __init__(self, compute_loadings: Callable[[Any], Array], max_change: float) -> None:
        self.compute_loadings = compute_loadings
        self.max_change = max_change
        self.last_loadings: Array | float = np.inf

    def __call__(self, state: AscentState) -> bool:
        """Return whether the loadings are those of the last step; False at the first step.

        The loadings are remembered: use one object for one ascent.
        """
        Z = self.compute_loadings(state.point)
        change = np.max(np.abs(Z - self.last_loadings))
        self.last_loadings = Z
        return bool(change <= max(self.max_change, MIN_LOADING_CHANGE_FACTOR * float(np.finfo(Z.dtype).eps)))


@dataclass(frozen=True)
class RefitSpec:
    """How the loadings on a pattern are computed.

    Attributes
    ----------
    powers : tuple of int
        Powers of the norms whose sum a refit maximises: 1, as in the paper [JNRS10, Algorithm 6], or 2, the variance.
        With several powers the result of the largest adjusted variance is used. With none there is no refit: the
        loadings are those at the end of the ascent.
    is_automatic : bool
        Do not refit loadings with a bound other than that on their norm, because a refit would violate the bound. Use
        the last power alone for one unit.
    """

    powers: tuple[int, ...]
    is_automatic: bool = False

    def choose_powers(self, problem: Problem) -> tuple[int, ...]:
        """Return the powers to try for a problem, each 1 or 2; an empty tuple for no refit."""
        if not self.is_automatic:
            return self.powers
        if problem.penalty.has_loading_bound:
            return ()
        return self.powers if problem.mu.size > 1 else self.powers[-1:]


AUTO_REFIT = RefitSpec((1, 2), is_automatic=True)


def refit_loadings(
    problem: Problem,
    point: Point,
    refit_spec: RefitSpec = AUTO_REFIT,
    pattern: Array | None = None,
    tol: float = 0.0,
    max_iter: int = 1000,
) -> Array:
    """Return unit loadings, (n, m), on a pattern, by default that of the variables active at a point.

    A single unit of ℓ2 variance and either sign is refitted by the rank-one SVD, for any power. The signs of the result
    are arbitrary unless loadings must be non-negative. Without a refit the loadings at the point are cut to the pattern
    and normalised.

    Parameters
    ----------
    problem : Problem
        The problem at its level; only its penalty tells what is active.
    point : Point
        The end of the ascent.
    refit_spec : RefitSpec
        Whether and how to refit.
    pattern : ndarray of bool of shape (n, m), optional
        In the memory of the matrix, as are the loadings. A unit with an empty pattern gets zero loadings.
    tol : float
        Tolerance of the ascent; a refit by steps ends when no loading changes by more than a ten-thousandth of it.
    max_iter : int
        Largest number of steps of a refit, counted twice: accelerated and plain.
    """
    Z = problem.compute_loadings(point)
    powers = refit_spec.choose_powers(problem)
    pattern = Z != 0 if pattern is None else pattern
    if not powers:
        return normalize_columns(np.where(pattern, Z, 0))
    if problem.is_single_l2_unit and not problem.penalty.is_nonnegative:
        z, _ = refit_unit(problem.operator, to_host(np.flatnonzero(pattern[:, 0])))
        return z[:, None]
    refits = [refit_pattern(problem, pattern, point, power, tol, max_iter) for power in powers]
    if len(refits) == 1:
        return refits[0]
    return max(
        refits, key=lambda Z: float(Scores.from_loadings(problem.operator, Z).compute_adjusted_variances().sum())
    )
