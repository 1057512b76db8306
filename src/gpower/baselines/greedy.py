"""Greedy selection: add or remove one variable at a time (d'Aspremont et al. 2008; Moghaddam et al. 2006).

Both directions evaluate all candidates from one eigendecomposition of the current matrix. Adding a variable borders the
matrix, and removing one deletes a row and a column; the largest eigenvalue after either solves a scalar ("secular")
equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, stable_argmax
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially
from gpower.operators import Operator
from gpower.solvers.refit import refit_unit
from gpower.validation.params import FloatPerComponent, check_option

#: Largest number of variables for a backward pass, which factorises a matrix of all remaining variables at every step.
MAX_BACKWARD_FEATURES = 1000
#: Numbers of Newton steps and of interval halvings that reach full precision.
MAX_NEWTON_STEPS, N_INTERVAL_HALVINGS = 60, 60


@dataclass(eq=False, repr=False, kw_only=True)
class Greedy(Baseline):
    """Greedy selection: variables are added one at a time, each the one that raises the variance most.

    One fit gives the whole path, with the best support found for every cardinality.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number of variables of every component, or one number for each.
    gamma : float or sequence of float, optional
        Penalty on each variable, instead of `cardinality`: the cardinality k on the path with the largest
        variance − γk is chosen. A fraction in [0, 1) of the largest squared column norm, as in `GPower`; default 0.01.
    search : {"full", "approximate"}, default="full"
        Add the variable that gives the largest eigenvalue, or the one most correlated with the current component,
        which takes one eigenvector per step.
    backward : bool, default=False
        Also remove variables one at a time from the full set, and keep the better support for every cardinality. For
        up to 1000 variables.
    covariance, center, scale
        As in `gpower.GPower`.
    deflation : {"projection", "orthogonalized", "schur"}, default="projection"
        As in `gpower.GPower`, whose default is "schur".
    refit : bool, default=False
        Recompute the loadings of all components on their supports together. For one component it has no effect.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_passes_, mean_, scale_
        As in `gpower.GPower`; `n_iter_` is the number of variables on the path.
    order_ : ndarray of int of shape (n_components, k)
        Variables in the order in which the forward pass added them, padded with −1. The matrix is deflated by the
        earlier components.
    path_variance_ : ndarray of shape (n_components, k)
        Variance of the best support of 1, 2, …, k variables in the units of `explained_variance_`, padded with NaN.

    References
    ----------
    d'Aspremont, Bach, El Ghaoui (2008). Optimal solutions for sparse principal component analysis. Journal of
    Machine Learning Research 9, 1269–1294.

    Moghaddam, Weiss, Avidan (2006). Spectral bounds for sparse PCA: exact and greedy algorithms. Advances in
    Neural Information Processing Systems 18, 915–922.

    Examples
    --------
    >>> from gpower.baselines import Greedy
    >>> from gpower.datasets import load_pitprops
    >>> path = Greedy(1, cardinality=13, covariance="precomputed").fit(load_pitprops().correlation)
    >>> path.order_[0, :4].tolist(), path.path_variance_[0, :4].round(3).tolist()
    ([0, 1, 8, 9], [1.0, 1.954, 2.475, 2.937])
    """

    gamma: FloatPerComponent = None
    search: str = "full"
    backward: bool = False
    deflation: str = "projection"

    _sparsity_param = "gamma"

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        check_option(self.search, "search", ("full", "approximate"))
        if check_option(self.backward, "backward", (True, False)) and shape[1] > MAX_BACKWARD_FEATURES:
            raise ValueError(
                f"backward=True removes variables from the full set, which takes too long for n_features={shape[1]}; "
                f"use it with up to {MAX_BACKWARD_FEATURES}, or backward=False."
            )

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        empty = np.zeros((1, 0))
        return find_components_sequentially(
            task, self.deflation, self._find_component, order_=empty.astype(int), path_variance_=empty
        )

    def _find_component(self, task: ComponentTask) -> BaselineResult:
        """Select a support of the deflated matrix, which has a column that varies, and refit its loadings."""
        operator, norms, j = task.operator, task.operator.column_norms, task.component_index
        if task.target_cardinality:
            gamma = np.nan
            max_cardinality = task.target_cardinality[j]
        else:
            gamma = float(task.fit_spec.sparsity.levels[j]) * float(norms.max()) ** 2
            max_cardinality = int(np.count_nonzero(norms.astype(np.float64) ** 2 > gamma))
        max_cardinality = min(max_cardinality, int(np.count_nonzero(norms)))
        path = select_forward(operator, max_cardinality, is_full_search=self.search == "full")
        order = path.supports[-1]
        if self.backward:
            path = path.take_better(select_backward(operator, order.size))
        sizes = np.arange(1, order.size + 1)
        k = order.size if task.target_cardinality else int(np.argmax(path.variances - gamma * sizes)) + 1
        z, value = refit_unit(operator, np.sort(path.supports[k - 1]))
        attributes = {"order_": order[None], "path_variance_": path.variances[None] / task.degrees_of_freedom}
        objective = value if task.target_cardinality else value - gamma * k
        return BaselineResult(z[:, None], order.size, True, gamma, objective, extra_attributes=attributes)


class SelectionPath(NamedTuple):
    """Supports of 1, …, k variables and their variances."""

    supports: list[Array]  # entry j − 1: column numbers of j variables
    variances: Array  # (k,): λmax of AᵀA on each support

    def take_better(self, other: SelectionPath) -> SelectionPath:
        """Return the support of larger variance for every number of variables; both paths are equally long."""
        pairs = zip(self.supports, other.supports, other.variances > self.variances, strict=True)
        supports = [theirs if is_better else own for own, theirs, is_better in pairs]
        return SelectionPath(supports, np.maximum(self.variances, other.variances))


def select_forward(operator: Operator, max_cardinality: int, *, is_full_search: bool) -> SelectionPath:
    """Add variables one at a time, beginning with the one of largest norm.

    Each support contains the variables in the order in which they were added. At least `max_cardinality` columns, which
    is at least one, vary. Every step takes one pass over the matrix. A full search compares the largest eigenvalues of
    all enlarged supports. Otherwise the variable most correlated with the current component x is added; (aᵢᵀx)² is a
    lower bound of the gain.
    """
    squares = operator.column_norms.astype(np.float64) ** 2
    order = [stable_argmax(squares)]
    variances = [float(squares.max())]
    S = np.zeros((max_cardinality, squares.size))  # rows of AᵀA of the selected variables
    S[0] = _compute_gram_row(operator, order[0])
    while len(order) < max_cardinality:
        k = len(order)
        w, U = np.linalg.eigh(S[:k, order])
        C = U.T @ S[:k]  # (k, n): correlations of every variable with the eigenvectors' scores
        values = compute_bordered_eigenvalues(w, C**2, squares) if is_full_search else C[-1] ** 2
        values[order] = -np.inf
        values[squares == 0] = -np.inf
        order.append(stable_argmax(values))
        S[k] = _compute_gram_row(operator, order[-1])
        variances.append(float(np.linalg.eigvalsh(S[: k + 1, order])[-1]))
    return SelectionPath([np.array(order[: size + 1]) for size in range(len(order))], np.array(variances))


def _compute_gram_row(operator: Operator, i: int) -> Array:
    """Return row i of AᵀA, (n_features,), in float64."""
    return operator.correlate(operator.columns(np.array([i])))[:, 0].astype(np.float64)


def compute_bordered_eigenvalues(w: Array, border_squares: Array, corners: Array) -> Array:
    """Return the largest eigenvalues of diag(w) bordered by vectors c and corners d, for many c at once, (n,).

    Each is the root above max(w) of λ − d − Σᵢ cᵢ²/(λ − wᵢ), an increasing concave function, so that Newton's method
    from a lower bound rises to it. The bound is the larger eigenvalue of the 2 × 2 matrix of the largest w and d.

    w is ascending, (k,); `border_squares` contains cᵢ², (k, n), and `corners` d ≥ 0, (n,), for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> compute_bordered_eigenvalues(np.array([1.0]), np.array([[4.0, 0.0]]), np.array([1.0, 3.0]))
    array([3., 3.])
    """
    margin = 1e-14 * max(float(w[-1]), float(corners.max()), np.finfo(float).tiny)
    value = 0.5 * (w[-1] + corners + np.sqrt((w[-1] - corners) ** 2 + 4 * border_squares[-1]))
    value = np.maximum(value, w[-1] + margin)  # away from the pole, by less than rounding errors
    for _ in range(MAX_NEWTON_STEPS):
        inverse = 1 / (value - w[:, None])  # (k, n)
        terms = border_squares * inverse
        excess = value - corners - terms.sum(axis=0)
        step = np.maximum(-excess / (1 + np.sum(terms * inverse, axis=0)), 0)
        value = value + step
        if np.all(step <= 1e-15 * value):
            break
    return np.asarray(value)


def select_backward(operator: Operator, max_cardinality: int) -> SelectionPath:
    """Remove variables one at a time from all that vary, which are at least `max_cardinality`.

    The path has the supports of 1, …, `max_cardinality` variables, each increasing. AᵀA of all columns is formed.
    """
    active = np.flatnonzero(operator.column_norms)
    S = operator.gram(np.arange(operator.shape[1])).astype(np.float64)
    supports, variances = [], []
    while active.size:
        w, U = np.linalg.eigh(S[np.ix_(active, active)])
        if active.size <= max_cardinality:
            supports.append(active)
            variances.append(float(w[-1]))
        active = np.delete(active, int(np.argmax(compute_shrunk_eigenvalues(w, U))))
    return SelectionPath(supports[::-1], np.array(variances[::-1]))


def compute_shrunk_eigenvalues(w: Array, U: Array) -> Array:
    """Return the largest eigenvalues of U diag(w) Uᵀ without row and column i, for every i, (n,).

    w, (n,), and U, (n, n), are all eigenvalues and eigenvectors; the result is zero if n is one. Each is the root
    between the two largest of w (ascending) of Σⱼ uᵢⱼ²/(wⱼ − λ), which increases with λ.

    Examples
    --------
    >>> import numpy as np
    >>> compute_shrunk_eigenvalues(np.array([1.0, 2.0]), np.eye(2)).round(12)
    array([2., 1.])
    """
    if w.size == 1:
        return np.zeros(1)
    squares = U**2  # (n, n), a row for each variable
    low, high = np.full(w.size, w[-2]), np.full(w.size, w[-1])
    for _ in range(N_INTERVAL_HALVINGS):
        middle = 0.5 * (low + high)
        distance = w - middle[:, None]
        distance[distance == 0] = np.finfo(float).tiny
        above = np.sum(squares / distance, axis=1) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
