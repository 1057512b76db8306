"""The whole trade-off: solutions from one variable to all of them, each begun at its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from gpower._arrays import Array
from gpower.continuation import sweep
from gpower.estimators import GPower
from gpower.extraction import ROTATION_NOTE, Extraction
from gpower.fitted import fitted_attributes
from gpower.leading import leading_components
from gpower.metrics import score_gram
from gpower.model_selection.grids import checked_cardinalities, checked_gammas
from gpower.model_selection.solutions import SparsityPath
from gpower.notices import notices, tell
from gpower.parameters import random_source, recipe_from
from gpower.persistence import jsonable
from gpower.preparation import Prepared, read

#: Fitted attributes with a row per point in a path; the others are common to all points, or derived.
PER_POINT = (
    "explained_variance_",
    "explained_variance_ratio_",
    "cardinality_",
    "gamma_",
    "objective_",
    "optimality_gap_",
    "n_iter_",
    "converged_",
)


def sparsity_path(
    X: Any,
    *,
    n_components: int = 1,
    cardinalities: Any = None,
    gammas: Any = None,
    penalty: str = "l0",
    method: str = "deflation",
    resume: SparsityPath | None = None,
    progress: Callable[[int, int], Any] | None = None,
    sample_weight: Any = None,
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
    cardinalities : sequence of int, optional
        Numbers of variables, in any order; repeated ones count once. By default up to 50, evenly spaced on a
        logarithmic scale from one to all variables.
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
    table, kind = read(template, X).filled(), "cardinality" if gammas is None else "gamma"
    grid = checked_cardinalities(cardinalities, table.shape[1]) if gammas is None else checked_gammas(gammas)
    recipes = [recipe_from(template.get_params() | {kind: value.item()}, table.shape) for value in grid]
    prepared = table.prepared(sample_weight, recipes)
    known = {} if resume is None else _known(resume, template, kind, grid, prepared)
    walk = sweep(prepared.operator, recipes, random_source(template.random_state), known)
    found, complete = _walked(walk, 2 * len(grid) - 1, progress)
    points = sorted(found)
    path = _assembled(template, kind, grid[points], prepared, [found[i] for i in points], table.shape[0])
    tell(_notices(path, prepared.constant, found.values()))
    if complete:
        return path
    reached = f"Interrupted: {len(points)} of {len(grid)} points were reached"
    tell([(f"{reached}; they are kept, and resume goes on from there.", UserWarning)])
    return replace(path, complete=False)


def _walked(
    walk: Iterator[tuple[int, Extraction]], total: int, progress: Callable[[int, int], Any] | None
) -> tuple[dict[int, Extraction], bool]:
    """The last solution of each point, and whether the walk came to its end."""
    found: dict[int, Extraction] = {}
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


def _known(
    resume: SparsityPath, template: GPower, kind: str, grid: Array, prepared: Prepared
) -> Mapping[int, Extraction]:
    """Solutions of an earlier path at points of this grid."""
    names = vars(template).get("feature_names_in_")
    other = [name for name, value in _varying(template).items() if jsonable(value) != jsonable(resume.params[name])]
    if resume.kind != kind or resume.n_features != template.n_features_in_ or other:
        what = f"{', '.join(other)} differ" if other else "it is of another grid or other data"
        raise ValueError(f"resume: this path cannot go on where that one stopped; {what}.")
    if names is not None and resume.feature_names is not None and list(names) != list(resume.feature_names):
        raise ValueError("resume: that path is of data with other variables' names.")
    _check_same_data(resume, prepared)
    known = {}
    for i, value in enumerate(grid):
        for at in np.flatnonzero(resume.grid == value):
            rest = {name: resume.fitted[f"{name}_"][at] for name in ("gamma", "objective", "n_iter", "converged")}
            Z = resume.components(int(at)).toarray().T
            known[i] = Extraction(Z=Z, gap=resume.fitted["optimality_gap_"][at], **rest)
    return known


def _check_same_data(resume: SparsityPath, prepared: Prepared) -> None:
    """Refuse solutions that explain something else on these data than where they were found."""
    operator, norms = prepared.operator, prepared.reach
    close = float(np.sqrt(np.finfo(norms.dtype).eps))
    same = np.allclose(resume.column_norms, norms, rtol=close, atol=0)
    for i, variance in enumerate(resume.variance):  # standardised data all have the same norms
        own = np.diagonal(score_gram(operator, resume.components(i).toarray().T)) / prepared.moments.degrees
        same = same and np.allclose(own, variance, rtol=close, atol=close * float(np.max(variance)))
    if not same:
        raise ValueError("resume: that path is of other data; begin a new one, without resume.")


def _notices(path: SparsityPath, constant: Array, found: Iterable[Extraction]) -> Iterator[tuple[str, type[Warning]]]:
    """Sentences about a path, each with its category."""
    if constant.size:  # said as of a single fit, where it comes first
        yield next(notices(path[0], constant, path.variance[0]))
    empty = np.any(path.cardinality == 0, axis=1)
    if empty.any():
        yield (
            f"{np.count_nonzero(empty)} of {len(path)} points have a component without active variables, all zero. "
            "The data have no variance left for it, or gamma is too large: ask for fewer components or a smaller one.",
            ConvergenceWarning,
        )
    short = ~np.all(path.fitted["converged_"], axis=1)
    if short.any():
        yield (
            f"{np.count_nonzero(short)} of {len(path)} points: the ascent stopped before it converged "
            f"(max_iter={path.params['max_iter']}, tol={path.params['tol']:g}); raise max_iter.",
            ConvergenceWarning,
        )
    # At the dense end a block with equal weights is PCA: every default grid has it, so that it says nothing new.
    for note in dict.fromkeys(note for solution in found for note in solution.notes if note != ROTATION_NOTE):
        yield f"At some points: {note}", UserWarning


def _varying(template: GPower) -> dict[str, Any]:
    """Parameters that must agree for two paths to be of the same problem."""
    idle = ("cardinality", "gamma", "callback", "verbose", "random_state", "n_init", "init")
    return {name: value for name, value in template.get_params().items() if name not in idle}


def _assembled(
    template: GPower,
    kind: str,
    grid: Array,
    prepared: Prepared,
    found: list[Extraction],
    n_samples: int,
) -> SparsityPath:
    """The solutions with what they explain."""
    operator = prepared.operator
    passes = operator.passes
    stored = [fitted_attributes(prepared, solution) for solution in found]
    m, total = template.n_components, operator.total_variance
    pca = leading_components(operator, m)[1]
    first = stored[0][0]
    common: dict[str, Any] = {"mean_": first["mean_"], "scale_": first["scale_"], "n_passes_": passes}
    common |= {name: value for name, value in vars(template).items() if name == "feature_names_in_"}
    params = {
        name: value
        for name, value in template.get_params().items()
        if name not in (kind, "callback") and not isinstance(value, np.random.RandomState | np.random.Generator)
    }
    return SparsityPath(
        params=params,
        kind=kind,
        grid=grid,
        loadings=sp.vstack([sp.csr_array(solution.Z.T) for solution in found], format="csr"),
        fitted={name: np.array([np.asarray(attributes[name]) for attributes, _ in stored]) for name in PER_POINT},
        variance=np.array([own for _, own in stored]),
        pca_variance_ratio=pca / total if total > 0 else np.zeros(m),
        column_norms=prepared.reach,
        common=common,
        n_samples=n_samples,
    )
