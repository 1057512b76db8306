"""The whole trade-off: solutions from one variable to all of them, each begun at its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.warnings import Caution, GPowerWarning, NotConverged, tell
from gpower.estimators.base import fit_of
from gpower.estimators.diagnostics import notices
from gpower.estimators.gpower import GPower
from gpower.io.model_file import jsonable
from gpower.model_selection.grids import checked_cardinalities, checked_gammas
from gpower.model_selection.path_result import SparsityPath
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import leading_components
from gpower.solvers.component import ROTATION_NOTE, Extraction
from gpower.solvers.warm_path import sweep
from gpower.validation.params import random_source
from gpower.validation.prepare import Input, Prepared, read

#: Parameters in which two paths of the same problem may differ.
IDLE = ("cardinality", "gamma", "callback", "verbose", "random_state", "n_init", "init", "warm_start")
#: Called with the steps done and their total.
Progress = Callable[[int, int], object]


def sparsity_path(
    X: object,
    *,
    n_components: int = 1,
    cardinalities: Iterable[int] | None = None,
    gammas: Iterable[float] | None = None,
    penalty: str = "l0",
    method: str = "deflation",
    resume: SparsityPath | None = None,
    progress: Progress | None = None,
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
    table, kind = read(template, X).filled(), "cardinality" if gammas is None else "gamma"
    grid = checked_cardinalities(cardinalities, table.numbers) if gammas is None else checked_gammas(gammas)
    recipes = table.recipes(*({kind: value.item()} for value in grid))
    asked = _Asked(template, kind, grid, table, table.prepared(sample_weight, recipes))
    known = {} if resume is None else asked.known(resume)
    walk = sweep(asked.prepared.operator, recipes, random_source(template.random_state), known)
    found, complete = _walked(walk, 2 * len(grid) - 1, progress)
    path = replace(asked.path(found), complete=complete)
    tell(asked.notices(path, found.values()))
    return path


def _walked(
    walk: Iterator[tuple[int, Extraction]], total: int, progress: Progress | None
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


def _solution(path: SparsityPath, i: int) -> Extraction:
    """The loadings of point i and how they were found."""
    found = {name: path.fitted[f"{name}_"][i] for name in ("gamma", "objective", "n_iter", "converged")}
    shown = Extraction(Z=path.components(i).toarray().T, gap=path.fitted["optimality_gap_"][i], **found)
    order = path.fitted.get("order_found_")  # which earlier files have not
    return shown if order is None else shown.ordered(np.argsort(order[i]))


@dataclass(frozen=True, eq=False)
class _Asked:
    """A path that was asked for: the model but for what varies, the values of that, and the data."""

    template: GPower
    kind: str
    grid: Array
    table: Input
    prepared: Prepared

    def known(self, resume: SparsityPath) -> dict[int, Extraction]:
        """Solutions of an earlier path at points of this grid."""
        mine, theirs = (
            {name: jsonable(value) for name, value in params.items() if name not in IDLE}
            for params in (self.template.get_params(), resume.params)
        )
        other = [name for name, value in mine.items() if value != theirs.get(name)]
        if resume.kind != self.kind or resume.n_features != self.table.shape[1] or other:
            what = f"{', '.join(other)} differ" if other else "it is of another grid or other data"
            raise ValueError(f"resume: this path cannot go on where that one stopped; {what}.")
        names, before = self.table.names, resume.feature_names
        if names is not None and before is not None and list(names) != list(before):
            raise ValueError("resume: that path is of data with other variables' names.")
        if not self._explain_alike(resume):
            raise ValueError("resume: that path is of other data; begin a new one, without resume.")
        return {
            i: _solution(resume, int(at))
            for i, value in enumerate(self.grid)
            for at in np.flatnonzero(resume.grid == value)
        }

    def _explain_alike(self, resume: SparsityPath) -> bool:
        """Whether solutions found earlier explain on these data what they did there."""
        norms, degrees = self.prepared.reach, self.prepared.moments.degrees
        loadings = (resume.components(i).toarray().T for i in range(len(resume)))
        own = [Scores.of(self.prepared.operator, Z).variances / degrees for Z in loadings]
        close = float(np.sqrt(np.finfo(norms.dtype).eps))
        noise = close * resume.variance.max(axis=1, keepdims=True)
        same_norms = np.allclose(resume.column_norms, norms, rtol=close, atol=0)  # as all standardised data have
        return same_norms and bool(np.isclose(own, resume.variance, rtol=close, atol=noise).all())

    def path(self, found: Mapping[int, Extraction]) -> SparsityPath:
        """The solutions with what they explain."""
        operator, m, points = self.prepared.operator, len(self.prepared.recipe.mu), sorted(found)
        fits = [fit_of(self.prepared, found[i], sort=True) for i in points]
        pca, total = leading_components(operator, m)[1], operator.total_variance
        names = {} if self.table.names is None else {"feature_names_in_": self.table.names}
        return SparsityPath(
            params={name: value for name, value in self.template.get_params().items() if self._lasts(name, value)},
            kind=self.kind,
            grid=self.grid[points],
            loadings=sp.vstack([sp.csr_array(fit.components) for fit in fits], format="csr"),
            fitted={name: np.array([fit.by_component[name] for fit in fits]) for name in fits[0].by_component},
            variance=np.array([fit.own_variance for fit in fits]),
            pca_variance_ratio=pca / total if total > 0 else np.zeros(m),
            column_norms=self.prepared.reach,
            common=fits[0].common | names,
            n_samples=self.table.shape[0],
        )

    def _lasts(self, name: str, value: object) -> bool:
        """Whether a parameter is the same at all points, and of use after the fit."""
        generator = isinstance(value, np.random.RandomState | np.random.Generator)
        return name not in (self.kind, "callback") and not generator

    def notices(self, path: SparsityPath, found: Iterable[Extraction]) -> Iterator[Caution]:
        """Sentences about the path, each with its category."""
        if not self.prepared.varies:  # said as of a single fit, where it comes first
            yield next(notices(path[0], False, path.variance[0]))
            return
        empty = np.any(path.cardinality == 0, axis=1)
        if empty.any():
            yield (
                f"{np.count_nonzero(empty)} of {len(path)} points have a component without active variables, all zero. "
                "The data have no variance left for it, or gamma is too large: ask for fewer components or a smaller "
                "one.",
                NotConverged,
            )
        short = ~np.all(path.fitted["converged_"], axis=1)
        if short.any():
            yield (
                f"{np.count_nonzero(short)} of {len(path)} points: the ascent stopped before it converged "
                f"(max_iter={path.params['max_iter']}, tol={path.params['tol']:g}); raise max_iter.",
                NotConverged,
            )
        # At the dense end a block with equal weights is PCA: every default grid has it, so that it says nothing new.
        for note in dict.fromkeys(note for solution in found for note in solution.notes if note != ROTATION_NOTE):
            yield f"At some points: {note}", GPowerWarning
        if not path.complete:
            reached = f"Interrupted: {len(path)} of {len(self.grid)} points were reached"
            yield f"{reached}; they are kept, and resume goes on from there.", GPowerWarning
