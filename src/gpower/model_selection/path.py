"""The whole trade-off: solutions from one variable to all of them, each begun at its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.warnings import GPowerWarning, NotConvergedWarning, WarningSpec, warn_all
from gpower.estimators.base import summarize_fit
from gpower.estimators.diagnostics import fit_warnings
from gpower.estimators.gpower import GPower
from gpower.io.model_file import simulate_json_round_trip
from gpower.model_selection.grids import check_cardinality_grid, check_gamma_grid
from gpower.model_selection.path_result import SparsityPath
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.component import ROTATION_NOTE, ComponentResult
from gpower.solvers.warm_path import warm_path
from gpower.validation.params import make_random_state
from gpower.validation.prepare import EstimatorInput, PreparedData, read_estimator_input

#: Parameters in which two paths of the same problem may differ.
PARAMS_IGNORED_ON_RESUME = (
    "cardinality",
    "gamma",
    "callback",
    "verbose",
    "random_state",
    "n_init",
    "init",
    "warm_start",
)
#: Called with the steps done and their total.
StepProgressCallback = Callable[[int, int], object]


def sparsity_path(
    X: object,
    *,
    n_components: int = 1,
    cardinalities: Iterable[int] | None = None,
    gammas: Iterable[float] | None = None,
    penalty: str = "l0",
    method: str = "deflation",
    resume: SparsityPath | None = None,
    progress: StepProgressCallback | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> SparsityPath:
    """Sparse components for every number of variables of a grid, each begun at its neighbours.

    The grid is walked from the densest point to the sparsest and back, and the best solution of each point is kept:
    with one component of exact cardinality (``penalty="l0"``, ``variance="l2"``) the explained variance never falls as
    the cardinality grows. Means, norms and gathered columns are shared by all points.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        As for `GPower.fit`.
    n_components : int, default=1
        Number of components of every point.
    cardinalities : sequence of int, optional
        Numbers of variables, or of groups where `groups` are given, in any order; repeated ones count once. By default
        up to 50, evenly spaced on a logarithmic scale from one to all.
    gammas : sequence of float, optional
        Instead: fractions in [0, 1) of the largest useful penalty, in any order.
    penalty, method
        As in `GPower`. With ``penalty="l1"`` and cardinalities γ is calibrated at every point.
    resume : SparsityPath, optional
        A path of the same data and parameters, interrupted or of another grid: its solutions at common points are kept
        unless better ones are found.
    progress : callable, optional
        Called as ``progress(done, total)`` after each step of the walk.
    sample_weight : array-like of shape (n_samples,), optional
    **options
        Further parameters of `GPower`. Where ``n_init="auto"`` stands for many starts, only a few points of the grid
        get them; a number gives every point as many.

    Returns
    -------
    SparsityPath
        Every solution, a fitted `GPower` each. Interrupted with Ctrl-C, the points that were reached, and a warning.

    Examples
    --------
    >>> from gpower import sparsity_path
    >>> from gpower.datasets import load_pitprops
    >>> path = sparsity_path(load_pitprops().correlation, covariance="precomputed", cardinalities=[2, 5, 13])
    >>> path.cardinality.ravel()
    array([ 2,  5, 13])
    >>> path.share_of_pca.round(2)
    array([0.46, 0.81, 1.  ])
    """
    for name in ("cardinality", "gamma", "l1_bound"):
        if name in options:
            raise ValueError(f"A path runs over a grid: give cardinalities=[...] or gammas=[...] instead of {name}.")
    if cardinalities is not None and gammas is not None:
        raise ValueError("cardinalities and gammas are two grids; give one of them.")
    template = GPower(n_components, penalty=penalty, method=method, **options)
    table, kind = read_estimator_input(template, X).fill_missing(), "cardinality" if gammas is None else "gamma"
    grid = (
        check_cardinality_grid(cardinalities, table.cardinality_range) if gammas is None else check_gamma_grid(gammas)
    )
    recipes = table.build_fit_specs(*({kind: value.item()} for value in grid))
    asked = _PathRequest(template, kind, grid, table, table.prepare(sample_weight, recipes))
    known = {} if resume is None else asked.reuse_solutions(resume)
    walk = warm_path(asked.prepared.operator, recipes, make_random_state(template.random_state), known)
    found, complete = _collect_solutions(walk, 2 * len(grid) - 1, progress)
    path = replace(asked.build_path(found), complete=complete)
    warn_all(asked.path_warnings(path, found.values()))
    return path


def _collect_solutions(
    walk: Iterator[tuple[int, ComponentResult]], total: int, progress: StepProgressCallback | None
) -> tuple[dict[int, ComponentResult], bool]:
    """The last solution of each point, and whether the walk came to its end."""
    found: dict[int, ComponentResult] = {}
    try:
        for done, (i, solution) in enumerate(walk, 1):
            found[i] = solution
            if progress is not None:
                progress(done, total)
    except KeyboardInterrupt:
        if not found:
            raise
        return found, False
    return found, True


def _restore_solution(path: SparsityPath, i: int) -> ComponentResult:
    """The loadings of point i and how they were found."""
    found = {name: path.fitted[f"{name}_"][i] for name in ("gamma", "objective", "n_iter", "converged")}
    shown = ComponentResult(Z=path.components(i).toarray().T, gap=path.fitted["stationarity_gap_"][i], **found)
    order = path.fitted.get("extraction_order_")  # which earlier files have not
    return shown if order is None else shown.reorder(np.argsort(order[i]))


@dataclass(frozen=True, eq=False)
class _PathRequest:
    """A path that was asked for: the model but for what varies, the values of that, and the data."""

    template: GPower
    kind: str
    grid: Array
    table: EstimatorInput
    prepared: PreparedData

    def reuse_solutions(self, resume: SparsityPath) -> dict[int, ComponentResult]:
        """Solutions of an earlier path at points of this grid."""
        mine, theirs = (
            {
                name: simulate_json_round_trip(value)
                for name, value in params.items()
                if name not in PARAMS_IGNORED_ON_RESUME
            }
            for params in (self.template.get_params(), resume.params)
        )
        other = [name for name, value in mine.items() if value != theirs.get(name)]
        if resume.kind != self.kind or resume.n_features != self.table.shape[1] or other:
            what = f"{', '.join(other)} differ" if other else "it is of another grid or other data"
            raise ValueError(f"resume: this path cannot go on where that one stopped; {what}.")
        names, before = self.table.feature_names, resume.feature_names
        if names is not None and before is not None and list(names) != list(before):
            raise ValueError("resume: that path is of data with other variables' names.")
        if not self._has_same_variances(resume):
            raise ValueError("resume: that path is of other data; begin a new one, without resume.")
        return {
            i: _restore_solution(resume, int(at))
            for i, value in enumerate(self.grid)
            for at in np.flatnonzero(resume.grid == value)
        }

    def _has_same_variances(self, resume: SparsityPath) -> bool:
        """Whether solutions found earlier explain on these data what they did there."""
        norms, degrees = self.prepared.max_correlations, self.prepared.moments.degrees_of_freedom
        loadings = (resume.components(i).toarray().T for i in range(len(resume)))
        own = [Scores.from_loadings(self.prepared.operator, Z).variances / degrees for Z in loadings]
        close = float(np.sqrt(np.finfo(norms.dtype).eps))
        noise = close * resume.variance.max(axis=1, keepdims=True)
        same_norms = np.allclose(resume.column_norms, norms, rtol=close, atol=0)  # as all standardised data have
        return same_norms and bool(np.isclose(own, resume.variance, rtol=close, atol=noise).all())

    def build_path(self, solutions: Mapping[int, ComponentResult]) -> SparsityPath:
        """The solutions with what they explain."""
        operator, m, points = self.prepared.operator, len(self.prepared.fit_spec.mu), sorted(solutions)
        fits = [summarize_fit(self.prepared, solutions[i], sort=True) for i in points]
        pca, total = compute_leading_components(operator, m)[1], operator.total_variance
        names = {} if self.table.feature_names is None else {"feature_names_in_": self.table.feature_names}
        return SparsityPath(
            params={
                name: value for name, value in self.template.get_params().items() if self._is_kept_param(name, value)
            },
            kind=self.kind,
            grid=self.grid[points],
            loadings=sp.vstack([sp.csr_array(fit.components) for fit in fits], format="csr"),
            fitted={
                name: np.array([fit.component_attributes[name] for fit in fits])
                for name in fits[0].component_attributes
            },
            variance=np.array([fit.unadjusted_variance for fit in fits]),
            pca_variance_ratio=pca / total if total > 0 else np.zeros(m),
            column_norms=self.prepared.max_correlations,
            common=fits[0].shared_attributes | names,
            n_samples=self.table.shape[0],
        )

    def _is_kept_param(self, name: str, value: object) -> bool:
        """Whether a parameter is the same at all points, and of use after the fit."""
        generator = isinstance(value, np.random.RandomState | np.random.Generator)
        return name not in (self.kind, "callback") and not generator

    def path_warnings(self, path: SparsityPath, solutions: Iterable[ComponentResult]) -> Iterator[WarningSpec]:
        """Sentences about the path, each with its category."""
        if not self.prepared.has_variance:  # said as of a single fit, where it comes first
            yield next(fit_warnings(path[0], False, path.variance[0]))
            return
        empty = np.any(path.cardinality == 0, axis=1)
        if empty.any():
            yield (
                f"{np.count_nonzero(empty)} of {len(path)} points have a component without active variables, all zero. "
                "The data have no variance left for it, or gamma is too large: ask for fewer components or a smaller "
                "one.",
                NotConvergedWarning,
            )
        short = ~np.all(path.fitted["converged_"], axis=1)
        if short.any():
            yield (
                f"{np.count_nonzero(short)} of {len(path)} points: the ascent stopped before it converged "
                f"(max_iter={path.params['max_iter']}, tol={path.params['tol']:g}); raise max_iter.",
                NotConvergedWarning,
            )
        # At the dense end a block with equal weights is PCA: every default grid has it, so that it says nothing new.
        for note in dict.fromkeys(note for solution in solutions for note in solution.notes if note != ROTATION_NOTE):
            yield f"At some points: {note}", GPowerWarning
        if not path.complete:
            reached = f"Interrupted: {len(path)} of {len(self.grid)} points were reached"
            yield f"{reached}; they are kept, and resume goes on from there.", GPowerWarning
