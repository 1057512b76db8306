"""Sparsity paths: solutions for every cardinality or penalty of a grid, each warm-started from its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower._utils.warnings import GPowerWarning, NotConvergedWarning, WarningSpec, warn_all
from gpower.estimators.fit_summary import fit_warnings, iter_scale_warnings, summarize_fit
from gpower.estimators.gpower import GPower
from gpower.io.model_file import simulate_json_round_trip
from gpower.model_selection.grids import check_cardinality_grid, check_gamma_grid, warm_path
from gpower.model_selection.path_result import SparsityPath
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.component import ROTATION_NOTE, ComponentResult
from gpower.validation.params import RUN_PARAMS, make_random_state, resolve_solver
from gpower.validation.prepare import EstimatorInput, PreparedData, read_estimator_input
from gpower.validation.solver import Solver

#: Parameters that may differ between a path and the path that it resumes.
PARAMS_IGNORED_ON_RESUME = ("cardinality", "gamma", "random_state", "n_init", *RUN_PARAMS)
#: Function called with the number of steps done and their total.
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
    covariates: Any = None,
    batch: Any = None,
    **options: Any,
) -> SparsityPath:
    """Compute sparse components for every point of a grid of sparsity, with warm starts from neighbouring points.

    The grid is walked from the densest point to the sparsest and back, and the best solution of each point is kept.
    With one component of exact cardinality (``penalty="l0"``, ``variance="l2"``) the explained variance never falls as
    the cardinality grows. All points share means, norms and cached columns.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        As for `GPower.fit`.
    n_components : int, default=1
        Number of components of every point.
    cardinalities : sequence of int, optional
        Numbers of variables, or of groups if `groups` are given, in any order; repeated values count once. By default
        up to 50, evenly spaced on a logarithmic scale from one to all.
    gammas : sequence of float, optional
        Grid of penalties, instead of `cardinalities`: fractions in [0, 1) of the largest useful penalty, in any order.
    penalty, method
        As in `GPower`. With ``penalty="l1"`` and cardinalities, γ is calibrated at every point.
    resume : SparsityPath, optional
        Path of the same data and parameters that was interrupted or has another grid. Its solutions at common points
        are kept unless better ones are found.
    progress : callable, optional
        Called as ``progress(done, total)`` after each step of the walk.
    sample_weight : array-like of shape (n_samples,), optional
    covariates, batch : optional
        Covariates and batch labels of the samples, as for `GPower.fit`; every point is a fit to the residuals.
    **options
        Further parameters of `GPower`. If ``n_init="auto"`` stands for many starts, only a few points of the grid get
        them; an integer `n_init` gives every point that many.

    Returns
    -------
    SparsityPath
        Sequence of fitted `GPower` models, one for each point. After Ctrl-C it contains the points that were reached,
        and a warning is issued.

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
    table = read_estimator_input(template, X).with_covariates(covariates, batch).fill_missing()
    if gammas is None:
        kind, grid = "cardinality", check_cardinality_grid(cardinalities, table.cardinality_range)
    else:
        kind, grid = "gamma", check_gamma_grid(gammas)
    fit_specs = table.build_fit_specs(*({kind: value.item()} for value in grid))
    request = _PathRequest(template, kind, grid, table, table.prepare(sample_weight, fit_specs))
    earlier = {} if resume is None else request.reuse_solutions(resume)
    if resume is not None and resume.complete and np.array_equal(resume.grid, grid):
        return resume
    steps = warm_path(request.prepared.operator, fit_specs, make_random_state(template.random_state), earlier)
    solutions, complete = _collect_solutions(steps, 2 * len(grid) - 1, progress)
    path = replace(request.build_path(solutions), complete=complete)
    warn_all(request.path_warnings(path, solutions.values()))
    return path


def _collect_solutions(
    steps: Iterator[tuple[int, ComponentResult]], total: int, progress: StepProgressCallback | None
) -> tuple[dict[int, ComponentResult], bool]:
    """Return the last solution of each point, and False if the user interrupted the computation."""
    solutions: dict[int, ComponentResult] = {}
    try:
        for done, (i, solution) in enumerate(steps, 1):
            solutions[i] = solution
            if progress is not None:
                progress(done, total)
    except KeyboardInterrupt:
        if not solutions:
            raise
        return solutions, False
    return solutions, True


def _restore_solution(path: SparsityPath, i: int) -> ComponentResult:
    """Return the solution of point i of a path, with the components in the order in which they were extracted."""
    fields = {name: path.fitted[f"{name}_"][i] for name in ("gamma", "objective", "n_iter", "converged")}
    solution = ComponentResult(Z=path.components(i).toarray().T, gap=path.fitted["stationarity_gap_"][i], **fields)
    order = path.fitted.get("extraction_order_")  # missing in older files
    return solution if order is None else solution.reorder(np.argsort(order[i]))


def _select_problem_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return, as a file keeps them, the parameters that two paths of the same problem must share."""
    resolved = resolve_solver(params)
    resolved["solver"] = replace(resolved["solver"], init=None)
    ignored = PARAMS_IGNORED_ON_RESUME
    return {name: simulate_json_round_trip(value) for name, value in resolved.items() if name not in ignored}


@dataclass(frozen=True, eq=False)
class _PathRequest:
    """Input of a path: the model without the parameter that varies, the values of that parameter, and the data."""

    template: GPower
    kind: str
    grid: Array
    table: EstimatorInput
    prepared: PreparedData

    def reuse_solutions(self, resume: SparsityPath) -> dict[int, ComponentResult]:
        """Return the solutions of an earlier path at this grid's points; raise ValueError if the problems differ."""
        own_params = _select_problem_params(self.template.get_params(deep=False))
        earlier_params = _select_problem_params(resume.params)
        differing = [name for name, value in own_params.items() if value != earlier_params.get(name)]
        if resume.kind != self.kind or resume.n_features != self.table.shape[1] or differing:
            reason = f"{', '.join(differing)} differ" if differing else "it has another grid or is of other data"
            raise ValueError(f"resume: that path cannot be continued; {reason}.")
        names, earlier_names = self.table.feature_names, resume.feature_names
        if names is not None and earlier_names is not None and list(names) != list(earlier_names):
            raise ValueError("resume: the variables of that path have other names.")
        if not self._has_same_variances(resume):
            raise ValueError("resume: that path is of other data; compute a new one, without resume.")
        return {
            i: _restore_solution(resume, int(point))
            for i, value in enumerate(self.grid)
            for point in np.flatnonzero(resume.grid == value)
        }

    def _has_same_variances(self, resume: SparsityPath) -> bool:
        """Return whether earlier solutions explain the same variance of these data, and the column norms agree."""
        norms = self.prepared.max_correlations
        loadings = (resume.components(i).toarray().T for i in range(len(resume)))
        squares = np.array([Scores.from_loadings(self.prepared.operator, Z).variances for Z in loadings])
        variance = squares / self.prepared.moments.degrees_of_freedom
        rtol = float(np.sqrt(np.finfo(norms.dtype).eps))
        atol = rtol * resume.variance.max(axis=1, keepdims=True)
        same_norms = np.allclose(resume.column_norms, norms, rtol=rtol, atol=0)  # true for all standardised data
        return same_norms and bool(np.isclose(variance, resume.variance, rtol=rtol, atol=atol).all())

    def build_path(self, solutions: Mapping[int, ComponentResult]) -> SparsityPath:
        """Return the path of these solutions with their variances."""
        operator = self.prepared.operator
        m = len(self.prepared.fit_spec.mu)
        points = sorted(solutions)
        fits = [summarize_fit(self.prepared, solutions[i], sort=True) for i in points]
        _, pca = compute_leading_components(operator, m)
        total = operator.total_variance
        names = {} if self.table.feature_names is None else {"feature_names_in_": self.table.feature_names}
        return SparsityPath(
            params=self._select_stored_params(),
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

    def _select_stored_params(self) -> dict[str, Any]:
        """Return the parameters that all points share, without callback and random generator."""
        params = self.template.get_params(deep=False)
        if isinstance(params["solver"], Solver):
            params["solver"] = replace(params["solver"], callback=None)
        generators = (np.random.RandomState, np.random.Generator)
        return {
            name: value for name, value in params.items() if name != self.kind and not isinstance(value, generators)
        }

    def path_warnings(self, path: SparsityPath, solutions: Iterable[ComponentResult]) -> Iterator[WarningSpec]:
        """Yield the warnings about the path, each with its category."""
        if not self.prepared.has_variance:  # the first warning of a single fit says so
            yield next(fit_warnings(path[0], path.column_norms, path.variance[0]))
            return
        empty = np.any(path.cardinality == 0, axis=1)
        if empty.any():
            yield (
                f"{np.count_nonzero(empty)} of {len(path)} points have a component without active variables, all zero. "
                "The data have no variance left for it, or gamma is too large: ask for fewer components or a smaller "
                "one.",
                NotConvergedWarning,
            )
        stopped_early = ~np.all(path.fitted["converged_"], axis=1)
        if stopped_early.any():
            tol = resolve_solver(path.params)["tol"]
            yield (
                f"{np.count_nonzero(stopped_early)} of {len(path)} points: the ascent stopped before it converged "
                f"({format_param('max_iter', path.params['max_iter'])}, {format_param('tol', tol)}); "
                f"raise {format_param('max_iter')}.",
                NotConvergedWarning,
            )
        densest = np.asarray(path[-1].components_)
        is_covariance = self.template.covariance == "precomputed"
        yield from iter_scale_warnings(densest, path.column_norms, self.table.feature_names, is_covariance)
        # The rotation note is skipped: at the dense end of every default grid, a block with equal weights is PCA.
        for note in dict.fromkeys(note for solution in solutions for note in solution.notes if note != ROTATION_NOTE):
            yield f"At some points: {note}", GPowerWarning
        if not path.complete:
            reached = f"Interrupted: {len(path)} of {len(self.grid)} points were reached"
            yield f"{reached}; they are kept, and resume continues from there.", GPowerWarning
