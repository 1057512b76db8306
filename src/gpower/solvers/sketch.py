"""Sketch a matrix: replace the samples by a few combinations of them that preserve the variance shared by many columns.

Many starts are compared at low cost on a sketch. Its columns of large norm are better starts than those of the matrix,
in particular on standardised data, whose columns have equal norms.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`: ``combine(T)`` is A T for T of shape
(n, m), and ``correlate(Y)`` is AᵀY for sample-space vectors Y of shape (p, m). Both results are where the matrix is, on
the host or a device, in its dtype. A covariance AᵀA is an operator too: it has p = n and no samples, and Y contains
coefficients u of vectors A u. A sketch has `rows` samples and the same n columns. Loadings Z are (n, m).

- `Operator`: ``column_norms``, (n,), where the matrix is, in its dtype; ``columns(idx)``, columns as sample-space
  vectors; ``inner(X, Y, C)``, XᵀY on the host, with C = AᵀY only needed for a covariance; ``to_backend(T)``, T where
  the matrix is; ``take(idx)``, the operator of some columns; ``max_cached_columns``, how many may be gathered;
  ``has_samples``, false for a covariance. ``container.wrap_array(Y)`` makes a container of an array in the same memory,
  ``prepare(double_sums=True)`` lets its sums be added in float64, and its ``gram(...)`` is then YᵀY.
- `FitSpec`, the specification of a fit: ``mu``, one weight for each component; ``n_init``, the least number of starts
  or None; ``cardinalities``, (m,) numbers, empty without them; ``sparsity.penalty_family.support_rules``, None without
  rules; ``select_unit(j)`` is the specification of component j alone, ``restrict(idx)`` that of some columns.
- `SupportRules`: ``required``, (g, ·), the groups that every support has; ``broadcast_to_variables`` takes values of
  groups to variables, (n, ·); ``usable_variables``, (n,), mask of the variables that are not excluded everywhere.
- `ComponentResult`, one component: ``Z``, (n, 1); ``objective``, (1,) on the host, the squared norm of the scores for a
  cardinality, less for a penalty; ``embed(columns, operator)`` takes loadings of some columns to all columns.
- A `Problem` of one unit: ``as_batch(s)`` is that of s independent starts, ``feasible_set.make_point(X)`` normalises
  vectors X, (p, s), and takes their correlations; ``penalty.start_score(norms)``, (n,), is zero for columns that may
  not be starts, ``penalty.evaluate(C)`` gives the value of each start, and ``penalty.max_cardinality`` is the largest
  number of variables, 0 if unknown. ``sparsity.make_penalty(gamma)`` makes a penalty; here γ is not read. A
  `StartContext` has the problem, its norms, a random generator and the ``callback`` of the races.
- Starts: ``make_unit_starts(problem, norms, count, rng)`` is a `Point` with up to `count` starts of one unit, the most
  promising first; ``race_starts`` returns the best few, a list of points of one unit; ``compute_shared_variance`` are
  estimates of ‖Aᵀaᵢ‖², (n,), up to a factor; ``compute_squared_norms(operator, Y)`` are squared norms, (s,) on the
  host.
- Solvers: ``solve_component`` finds one component of a matrix, ``solve_in_turn`` a list of them, known ones first.
- Arrays: ``to_host(x)`` is x as a NumPy array, ``asarray_like(x, values)`` is `values` where x is; ``max_or_zero`` is
  the largest of non-negative values, 0.0 for none; ``safe_reciprocal`` is 1/x, and 0 for x = 0.
  ``DataMatrix(DenseMatrix(B))`` is the operator of an array on the host.
- ``stable_argmax`` is the index of the largest value, the first of those equal up to rounding; ``find_largest_rows(v,
  k)`` gives the rows of the k largest values of each column of v, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, safe_reciprocal, stable_argmax, to_host
from gpower.feasible_sets import Point
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix
from gpower.operators.storage.dense import DenseMatrix
from gpower.penalties.elementary import find_largest_rows
from gpower.problem.formulation import Problem
from gpower.solvers.component import ComponentResult, solve_component, solve_in_turn
from gpower.solvers.fit_specification import FitSpec
from gpower.solvers.starts import (
    N_FINALISTS,
    N_PROBES,
    Start,
    StartContext,
    compute_shared_variance,
    compute_squared_norms,
    make_unit_starts,
    race_starts,
)
from gpower.solvers.working_set import COLUMNS_PER_ACTIVE, MIN_WORKING_SET

#: Number of rows of a sketch beyond the number of components, and number of power iterations. With 15 extra rows, weak
#: components of GSE1992, GSE3143 and of a factor model are lost; 80 rows, or two iterations, gain nothing there.
OVERSAMPLING, N_POWER_ITERATIONS = 40, 1
#: Number of samples up to which the matrix itself is used; also used up to twice the number of rows of a sketch.
MAX_UNSKETCHED_SAMPLES = 200
#: Largest norm of a column, and inverse of the smallest, for which a sketch needs no scaling in single precision, whose
#: range is 10^±38: fourth powers of norms, and sums of them, are formed.
MAX_FLOAT32_NORM = 1e5
#: Smallest ratio of the median column norm to the largest for which single precision is used.
MIN_MEDIAN_NORM_RATIO = 1e-3
#: Number of rows that are multiplied at once: a copy of so many rows in double precision takes some 20 MB.
GRAM_BLOCK_ROWS = 1 << 16
#: Largest number of random probes that estimate the row norms of AᵀA when they choose the columns of a race.
MAX_RACE_PROBES = 64
#: Number of columns of a race on a subset: the first number, or the second times the cardinality.
MIN_RACE_COLUMNS, RACE_COLUMNS_PER_VARIABLE = 1000, 10
#: Relative difference below which column norms do not say where to start. On standardised data, after one component
#: was removed, the norms of most columns differ by a thousandth.
MAX_TIED_NORM_DIFFERENCE = 0.01
#: Starts of every component on the sketch, and of all components together if that is more. With 24 the components of
#: GSE1992 and GSE3143 explain 0.3 % less; with 128 or more one of GSE3143, standardised, explains up to 9 % more than
#: with 32.
N_SKETCH_STARTS, N_SKETCH_STARTS_TOTAL = 32, 512
#: Share of the first component's variance that the sketch must contain: it is 0.64 to 0.72 in Gaussian noise of
#: 500 × 5000, and at least 0.94 in expression data, word counts and factor models.
MIN_SKETCHED_SHARE = 0.85
#: The sketch is sharpened while each sharpening leaves at most this share of what it missed: 0.94 in Gaussian noise,
#: 0.4 to 0.8 in sparse counts with weak factors.
MAX_MISSING_RATIO = 0.85
MAX_SHARPENINGS = 2
#: The columns of the sketch are screened, not those of the matrix, if the objective of every component on the sketch is
#: more than this multiple of the largest variance that it can hide. Without screening the starts, which are the columns
#: of largest norm, missed modules of columns of smaller norm: up to 10 % of the variance in 8 of 400 factor models.
MIN_SHOWN_RATIO = 2.0
#: Columns of the sketch among which starts race: this number, or this multiple of the cardinalities. With 4000 of the
#: 15,528 columns of GSE1992, standardised, 30 components explain 4 % less.
MIN_SKETCH_COLUMNS, SKETCH_COLUMNS_PER_VARIABLE = 20_000, 8


@dataclass(frozen=True, eq=False)
class Sketch:
    """A small matrix in host memory that stands for a larger one.

    It has samples even if the larger one is a covariance, but these are not the samples of the larger one: only
    loadings and column indices carry over.

    Attributes
    ----------
    operator : Operator
        The matrix A that is sketched.
    matrix : Operator
        The sketch, (n_rows, n), or A itself if it has few samples; divided by `scale`.
    unshared_norms_sq : ndarray of float64 of shape (n,)
        Part of each squared column norm of `matrix` that no other column shares; zero for a sketch.
    B : ndarray of shape (n_rows, n) or None
        Entries of the sketch, from which `sharpen` continues; None if `matrix` is A itself.
    scale : float
        Divisor of all entries, such that single precision can represent them.
    projected_matrix : Operator or None
        The sketch if `matrix` is A itself, else None.
    hidden_variance : float
        Estimate, within a factor of two, of the largest variance of unit loadings in what the sketch leaves out of A,
        in the units of `matrix`; zero if it leaves out nothing.
    """

    operator: Operator
    matrix: Operator
    unshared_norms_sq: Array
    B: Array | None = None
    scale: float = 1.0
    projected_matrix: Operator | None = None
    hidden_variance: float = 0.0

    def compute_variance_share(self, z: Array) -> float:
        """Return the share of the variance of loadings z, (n, 1), that the sketch preserves; 1 for zero variance.

        z may be on the host or on the device, of any floating dtype and length. The share exceeds 1 only by rounding.
        """
        sketched, total = (
            float(compute_squared_norms(A, A.combine(A.to_backend(z.astype(A.dtype))))[0])
            for A in (self.projected_matrix or self.matrix, self.operator)
        )
        return sketched / total * self.scale**2 if total > 0 else 1.0

    def choose_columns(self, max_columns: int, usable: Array | None = None) -> Array:
        """Return the indices of up to `max_columns` columns of the largest shared squared norms, sorted.

        Columns outside of the mask `usable`, (n,), on the host, are returned only if there are too few inside.
        `max_columns` is at least 1 and may exceed n. The indices are increasing, on the host; which of equal norms are
        chosen is not specified.
        """
        squares = self.matrix.column_norms.astype(np.float64) ** 2 - self.unshared_norms_sq
        squares = squares if usable is None else np.where(usable, squares, -np.inf)
        return np.sort(np.argpartition(-squares, min(max_columns, squares.size) - 1)[:max_columns])

    def sharpen(self) -> Sketch | None:
        """Return the sketch after another power iteration; None if `matrix` is A itself."""
        if self.B is None:
            return None
        return _make_projected_sketch(self.operator, self.operator.to_backend(self.B.T.astype(self.operator.dtype)))


def make_sketch(operator: Operator, n_components: int, rng: np.random.RandomState) -> Sketch:
    """Return a sketch of a matrix, usually in single precision, or the matrix in host memory if it has few samples.

    A sketch has `n_components` + OVERSAMPLING rows, or fewer for a smaller matrix. If these are as many as the matrix
    has, the sketch is a rotation of the matrix and is returned instead of it. One number is drawn from `rng`. The
    matrix has at least one positive column norm; it may be on a device, the sketch is on the host.
    """
    n, rows = operator.shape[1], n_components + OVERSAMPLING
    random = np.random.default_rng(rng.randint(2**31))  # far faster than RandomState
    T = random.standard_normal((n, min(rows, *operator.shape)), np.float32)
    T = operator.to_backend(T.astype(operator.dtype, copy=False))
    for _ in range(N_POWER_ITERATIONS):
        _apply_power_iteration(operator, T)
    projected = _make_projected_sketch(operator, T)
    del T  # as large as the sketch, which may have its memory
    p = operator.shape[0]
    if not operator.has_samples or p > max(MAX_UNSKETCHED_SAMPLES, 2 * rows) or p == projected.matrix.shape[0]:
        return projected
    scale, dtype = projected.scale, projected.matrix.dtype
    norms = to_host(operator.column_norms).astype(np.float64) / scale
    unshared = norms**2 - projected.matrix.column_norms.astype(np.float64) ** 2
    A = np.empty((p, n), dtype, order="F")
    step = n if operator.is_remote else GRAM_BLOCK_ROWS
    for start in range(0, n, step):
        columns = np.arange(start, min(start + step, n))
        A[:, columns[0] : columns[-1] + 1] = to_host(operator.columns(columns)) / scale
    return replace(
        projected,
        matrix=DataMatrix(DenseMatrix(A), norms.astype(dtype)),
        unshared_norms_sq=unshared,
        B=None,
        projected_matrix=projected.matrix,
    )


def _make_projected_sketch(operator: Operator, T: Array) -> Sketch:
    """Return the sketch QᵀA, (rows, n), on the host, where Q is an orthonormal basis of the range of A T.

    Along the leading principal components its Gram matrix is nearly AᵀA [Halko, Martinsson and Tropp 2011].
    T, (n, rows), is in the memory of the matrix, of its dtype; it is overwritten, and the sketch may use its memory.
    The sketch is divided by its `scale` and is in single precision, if that can represent the norms of half of the
    columns, else in the dtype of the matrix.
    """
    _apply_power_iteration(operator, T)
    largest = max_or_zero(operator.column_norms)
    scale = 1.0 if largest == 0 or 1 / MAX_FLOAT32_NORM < largest < MAX_FLOAT32_NORM else largest
    fits_float32 = float(np.median(operator.column_norms)) >= MIN_MEDIAN_NORM_RATIO * largest
    dtype = np.dtype(np.float32) if fits_float32 else operator.dtype
    T /= scale
    B = to_host(T.astype(dtype, order="C", copy=False)).T
    hidden_variance = _estimate_hidden_variance(operator, B, scale)
    return Sketch(operator, DataMatrix(DenseMatrix(B)), np.zeros(B.shape[1]), B, scale, hidden_variance=hidden_variance)


def _estimate_hidden_variance(operator: Operator, B: Array, scale: float) -> float:
    """Return the `hidden_variance` of the sketch B, (rows, n), on the host, of a matrix that was divided by `scale`.

    It is the square of one of the smallest singular values of the sketch (directions weaker than these are not found
    reliably), or of the largest singular value of noise with the norm of what is left [Marchenko and Pastur 1967]. It
    is zero if the sketch has as many rows as the matrix has rows or columns, and then is complete.
    """
    p, n = operator.shape
    if B.shape[0] == min(p, n):
        return 0.0
    shown = np.linalg.eigvalsh(_compute_gram(B.T))  # increasing
    total = float(np.sum((to_host(operator.column_norms).astype(np.float64) / scale) ** 2))
    noise_edge = max(total - float(shown.sum()), 0.0) * (1 / np.sqrt(p) + 1 / np.sqrt(n)) ** 2
    return max(float(shown[min(OVERSAMPLING // 4, shown.size - 1)]), noise_edge)


def _apply_power_iteration(operator: Operator, T: Array) -> None:
    """Replace T, (n, rows), by AᵀQ, where Q is an orthonormal basis of the range of A T.

    Q is not computed: T and then AᵀY, where Y = A T, are multiplied by small matrices. Columns of Q beyond the rank of
    Y are zero. T, in the memory of the matrix and of its dtype, is overwritten: besides it only AᵀY takes as much. It
    takes two passes.
    """
    _whiten(T, _compute_gram(T), out=T)
    Y = operator.combine(T)
    C = operator.correlate(Y)
    _whiten(C, _compute_inner_products(operator, Y, C), out=T)


def _whiten(C: Array, gram: Array, out: Array) -> None:
    """Write C V w^{-1/2} into `out`, by blocks of rows; w and V are eigenvalues and eigenvectors of `gram`.

    `gram`, (m, m) in float64 on the host, is that of Y. With Y instead of C the result would be orthonormal; so C may
    be Y, or AᵀY. Columns beyond the rank of Y are zero. `out` has the shape, (n, m), dtype and memory of C, or is C.
    """
    squares, V = np.linalg.eigh(gram)
    is_nonzero = squares > np.finfo(np.float64).eps * squares.size * max(squares[-1], 0.0)
    inverse = np.where(is_nonzero, safe_reciprocal(np.sqrt(np.maximum(squares, 0))), 0)
    multiplier = asarray_like(C, (V * inverse).astype(C.dtype))
    for start in range(0, C.shape[0], GRAM_BLOCK_ROWS):
        rows = slice(start, start + GRAM_BLOCK_ROWS)
        out[rows] = C[rows] @ multiplier


def _compute_gram(T: Array) -> Array:
    """Compute TᵀT, (m, m) in float64 on the host, from blocks of rows, of which only one is copied at a time.

    T has at least one row and may be on a device, in any floating dtype.
    """
    blocks = (T[i : i + GRAM_BLOCK_ROWS].astype(np.float64) for i in range(0, T.shape[0], GRAM_BLOCK_ROWS))
    return to_host(sum(block.T @ block for block in blocks))


def _compute_inner_products(operator: Operator, Y: Array, C: Array) -> Array:
    """Compute YᵀY, (m, m) in float64 on the host, where C = AᵀY; weak directions would be lost in single precision.

    Y, (p, m), are sample-space vectors of the operator; without samples the inner products are those of A Y.
    """
    if not operator.has_samples:
        return operator.inner(Y, Y, C).astype(np.float64)
    container = operator.container.wrap_array(Y).prepare(double_sums=True)
    return to_host(container.gram(mean=None, weight=None)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class SketchStarts(Start):
    """The best of `n_starts` starts of one unit, after a race on a subset of the columns of a matrix.

    The subset are the columns of largest norm. If the norms do not distinguish the columns, because one outside of the
    subset is within 1 % of the largest, the columns with the largest estimates of ‖Aᵀaᵢ‖² are taken instead.

    Attributes
    ----------
    n_starts : int
        Number of starts of the race, at least 1.
    unshared_norms_sq : ndarray of float64 of shape (n_features,)
        Part of each squared column norm that no other column shares, on the host, as a sketch is. It is subtracted
        before columns are compared.
    """

    n_starts: int
    unshared_norms_sq: Array

    def restrict(self, idx: Array) -> SketchStarts:
        """Return the strategy for the columns `idx`, indices on the host."""
        return SketchStarts(self.n_starts, self.unshared_norms_sq[idx])

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the winner of the race, one point with the correlations of all n columns, for a problem of one unit.

        The matrix is on the host and must have samples: the finalists of the race on the gathered columns are
        sample-space vectors, which mean the same on all columns.
        """
        problem, rng = context.problem, context.rng
        norms = np.sqrt(np.maximum(context.norms**2 - self.unshared_norms_sq, 0)).astype(context.norms.dtype)
        if self.n_starts <= N_FINALISTS:  # too few for a race
            return [_select_best_start(problem, make_unit_starts(problem, norms, self.n_starts, rng).X)]
        columns = self._choose_columns(problem, norms, rng)
        restricted = problem.restrict(columns)
        starts = make_unit_starts(restricted, norms[columns], min(self.n_starts, columns.size), rng)
        finalists = race_starts(restricted, starts, context.callback, 2 * N_FINALISTS)
        return [_select_best_start(problem, np.hstack([point.X for point in finalists]))]

    def _choose_columns(self, problem: Problem, norms: Array, rng: np.random.RandomState) -> Array:
        """Return the columns of the race, increasing; `norms`, (n,), are without the part that no column shares."""
        n_columns = max(MIN_RACE_COLUMNS, RACE_COLUMNS_PER_VARIABLE * problem.penalty.max_cardinality)
        n_columns = max(1, min(n_columns, problem.operator.max_cached_columns, norms.size))
        scores = problem.penalty.start_score(norms)
        columns = find_largest_rows(scores[:, None], n_columns)[:, 0]
        if np.delete(scores, columns).max(initial=0) >= (1 - MAX_TIED_NORM_DIFFERENCE) * scores.max():
            # As many probes as fit the memory for cached columns; each takes two sample and five variable vectors.
            p, n = problem.operator.shape
            n_probes = min(MAX_RACE_PROBES, max(N_PROBES, problem.operator.max_cached_columns * p // (2 * p + 5 * n)))
            shared = compute_shared_variance(problem.operator, norms, rng, n_probes)
            columns = find_largest_rows(np.where(scores > 0, shared, 0)[:, None], n_columns)[:, 0]
        return np.sort(columns)


def _select_best_start(problem: Problem, X: Array) -> Point:
    """Return the best of the starts X of one unit, (n_samples, n_starts), normalised, by the value of the penalty.

    X is of any length, at least one column, in the memory of the matrix; of values equal up to rounding the first wins.
    """
    batch = problem.as_batch(X.shape[1])
    points = batch.feasible_set.make_point(X)
    values, _ = batch.penalty.evaluate(points.C)
    return points.select_unit(stable_argmax(values))


class SketchSolution(NamedTuple):
    """Components found on a sketch, and the matrix to screen for further candidates.

    `units` have loadings, (n, 1), on all n columns of `matrix`, the sketch: on the host, usually in single precision.
    `max_columns` is the largest useful number of columns in the working set of a component. `screened` is the sketch if
    it is smaller than the matrix and hides no component of similar variance, else the matrix itself.
    """

    units: tuple[ComponentResult, ...]
    matrix: Operator
    max_columns: int
    screened: Operator


def solve_on_sketch(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> SketchSolution | None:
    """Find the components of a sketch, sharpened until it contains the first one or gains little.

    Return None if there are few components and the sketch does not contain the first: then each component gets starts
    of its own after every deflation. In noise of 150 × 2500 five components explain 1.3 % less otherwise.

    `spec` is that of all m components, of ℓ2 variance, in sequence, for the columns of `operator`, which has variance;
    its own start is not used. `rng` is advanced.
    """
    m = len(spec.mu)
    n_starts = max(spec.n_init or 0, N_SKETCH_STARTS, N_SKETCH_STARTS_TOTAL // m)
    sketch = make_sketch(operator, m, rng)
    missing_share = 1.0
    for n_sharpenings in range(MAX_SHARPENINGS + 1):
        columns = _choose_sketch_columns(sketch, spec)
        matrix = sketch.matrix.take(columns)
        start = SketchStarts(n_starts, sketch.unshared_norms_sq[columns])
        sketch_spec = replace(spec.restrict(columns), start=start, local_search=False)
        first = solve_component(matrix, sketch_spec.select_unit(0), rng)
        previous_share = missing_share
        missing_share = 1 - sketch.compute_variance_share(first.embed(columns, sketch.matrix).Z)
        gains = 1 - MIN_SKETCHED_SHARE < missing_share <= MAX_MISSING_RATIO * previous_share
        sharper = sketch.sharpen() if gains and n_sharpenings < MAX_SHARPENINGS else None
        if sharper is None:
            break
        sketch = sharper
    if missing_share > 1 - MIN_SKETCHED_SHARE and 1 < m <= N_FINALISTS:
        return None
    units = solve_in_turn(matrix, sketch_spec, rng, [first])
    # A sketch has few rows, so that the matrix left after the first components is hardly sparse, and a penalty admits
    # hundreds of columns that the component of the whole matrix does not use. No working set exceeds those of the first
    # half of the components.
    sizes = [np.count_nonzero(unit.Z) for unit in units[: (m + 1) // 2]]
    max_columns = max(MIN_WORKING_SET, int(COLUMNS_PER_ACTIVE * max(sizes)))
    embedded = tuple(unit.embed(columns, sketch.matrix) for unit in units)
    least_objective = min(float(unit.objective[0]) for unit in units)
    # A sketch that hides nothing is as large as the matrix.
    shows_best = 0 < MIN_SHOWN_RATIO * sketch.hidden_variance < least_objective
    screened = (sketch.projected_matrix or sketch.matrix) if shows_best else operator
    return SketchSolution(embedded, sketch.matrix, max_columns, screened)


def _choose_sketch_columns(sketch: Sketch, spec: FitSpec) -> Array:
    """Return the columns that starts race on, sorted: the largest shared norms among the usable, and all required.

    Indices are on the host. A column of an excluded variable is among them only if there are too few others.
    """
    rules = spec.sparsity.penalty_family.support_rules
    if rules is None:
        return sketch.choose_columns(max(MIN_SKETCH_COLUMNS, SKETCH_COLUMNS_PER_VARIABLE * sum(spec.cardinalities)))
    m = len(spec.mu)
    n_variables = m * spec.sparsity.make_penalty(np.zeros(m)).max_cardinality
    n_columns = max(MIN_SKETCH_COLUMNS, SKETCH_COLUMNS_PER_VARIABLE * n_variables)
    required = np.flatnonzero(rules.broadcast_to_variables(rules.required).any(axis=1))
    return np.union1d(sketch.choose_columns(n_columns, rules.usable_variables), required)
