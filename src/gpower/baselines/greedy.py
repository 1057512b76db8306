"""Greedy selection: one variable more, or one less, at a time (d'Aspremont et al. 2008; Moghaddam et al. 2006).

Both directions look at all candidates through one eigendecomposition of the current matrix: adding a variable
borders it, removing one deletes a row and a column, and the largest eigenvalue after either solves a scalar
("secular") equation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, stable_argmax
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially
from gpower.operators import Operator
from gpower.solvers.refit import refit_unit
from gpower.validation.params import FloatPerComponent, check_option

#: Most variables of a backward pass, which factorises a matrix of all that are left at every step.
MAX_BACKWARD_FEATURES = 1000
#: Newton steps, and halvings of an interval, that reach full precision.
MAX_NEWTON_STEPS, N_INTERVAL_HALVINGS = 60, 60


@dataclass(eq=False, repr=False, kw_only=True)
class Greedy(Baseline):
    """Variables chosen one at a time, each the one that raises the variance of the component most.

    One fit gives the whole path: the best set found for every number of variables.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number of variables, of all components or one number each.
    gamma : float or sequence of float, optional
        Instead, the price of a variable: the number on the path with the largest variance − γ·number is taken. A
        fraction in [0, 1) of the largest squared column norm, as in `GPower`; default 0.01.
    search : {"full", "approximate"}, default="full"
        Take the variable that gives the largest eigenvalue; or the one most correlated with the component so
        far, which needs one eigenvector per step and ranks the others by it.
    backward : bool, default=False
        Also remove variables one at a time from the full set, and take for every number of variables the better of
        the two sets. For up to 1000 variables.
    covariance, center, scale
        As in `gpower.GPower`.
    deflation : {"projection", "orthogonalized", "schur"}, default="projection"
        As in `gpower.GPower`, whose default is "schur".
    refit : bool, default=False
        Choose the loadings of all patterns anew, together. For one component nothing changes.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_passes_, mean_, scale_
        As in `gpower.GPower`; `n_iter_` counts the variables chosen.
    order_ : ndarray of int of shape (n_components, k)
        Variables in the order in which the forward pass took them, of the matrix less earlier components; −1 after
        the last one.
    path_variance_ : ndarray of shape (n_components, k)
        Variance of the best set of 1, 2, …, k variables, in the units of `explained_variance_`; NaN after the last.

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
        operator, norms, j = task.operator, task.operator.column_norms, task.component_index
        gamma = np.nan if task.target_cardinality else float(task.fit_spec.sparsity.levels[j]) * float(norms.max()) ** 2
        most = (
            task.target_cardinality[j]
            if task.target_cardinality
            else int(np.count_nonzero(norms.astype(np.float64) ** 2 > gamma))
        )
        order, variances = select_forward(
            operator, min(most, int(np.count_nonzero(norms))), is_full_search=self.search == "full"
        )
        supports = [order[:k] for k in range(1, order.size + 1)]
        if self.backward:
            others, values = select_backward(operator, len(supports))
            supports = [b if y > x else a for a, b, x, y in zip(supports, others, variances, values, strict=True)]
            variances = np.maximum(variances, values)
        k = (
            len(supports)
            if task.target_cardinality
            else int(np.argmax(variances - gamma * np.arange(1, len(supports) + 1))) + 1
        )
        z, value = refit_unit(operator, np.sort(supports[k - 1]))
        kept = {"order_": order[None], "path_variance_": variances[None] / task.degrees_of_freedom}
        objective = value if task.target_cardinality else value - gamma * k
        return BaselineResult(z[:, None], len(supports), True, gamma, objective, extra_attributes=kept)


def select_forward(operator: Operator, max_cardinality: int, *, is_full_search: bool) -> tuple[Array, Array]:
    """Variables added one at a time, from the one of the largest variance on, and the variances of the sets so far.

    One pass per step. `full` compares the largest eigenvalues of all enlarged sets; otherwise the variable most
    correlated with the current component comes next, (aᵢᵀx)² being a lower bound of what it adds.
    """
    squares = operator.column_norms.astype(np.float64) ** 2
    order, variances = [stable_argmax(squares)], [float(squares.max())]
    S = np.zeros((max_cardinality, squares.size))  # rows of AᵀA of the chosen variables
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
    return np.array(order), np.array(variances)


def _compute_gram_row(operator: Operator, i: int) -> Array:
    """Row i of AᵀA."""
    return operator.correlate(operator.columns(np.array([i])))[:, 0].astype(np.float64)


def compute_bordered_eigenvalues(w: Array, border_squares: Array, corners: Array) -> Array:
    """Largest eigenvalues of diag(w) bordered by vectors c and corners d, for many c at once.

    Each is the root above max(w) of λ − d − Σᵢ cᵢ²/(λ − wᵢ), an increasing concave function: Newton's method from
    a lower bound rises to it. The bound is the eigenvalue of the 2 × 2 part of the largest w.

    w is ascending, (k,); `squares` holds cᵢ², (k, n), and d, (n,), a corner for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> compute_bordered_eigenvalues(np.array([1.0]), np.array([[4.0, 0.0]]), np.array([1.0, 3.0]))
    array([3., 3.])
    """
    least = 1e-14 * max(float(w[-1]), float(corners.max()), np.finfo(float).tiny)
    value = 0.5 * (w[-1] + corners + np.sqrt((w[-1] - corners) ** 2 + 4 * border_squares[-1]))
    value = np.maximum(value, w[-1] + least)  # off the pole, where no candidate differs by more than rounding
    for _ in range(MAX_NEWTON_STEPS):
        inverse = 1 / (value - w[:, None])  # (k, n)
        parts = border_squares * inverse
        excess = value - corners - parts.sum(axis=0)
        step = np.maximum(-excess / (1 + np.sum(parts * inverse, axis=0)), 0)
        value = value + step
        if np.all(step <= 1e-15 * value):
            break
    return np.asarray(value)


def select_backward(operator: Operator, max_cardinality: int) -> tuple[list[Array], Array]:
    """Remove variables one at a time from all of them; the sets of 1, …, `most` variables and their variances."""
    active = np.flatnonzero(operator.column_norms)
    S = operator.gram(np.arange(operator.shape[1])).astype(np.float64)
    supports, variances = [], []
    while active.size:
        w, U = np.linalg.eigh(S[np.ix_(active, active)])
        if active.size <= max_cardinality:
            supports.append(active)
            variances.append(float(w[-1]))
        active = np.delete(active, int(np.argmax(compute_shrunk_eigenvalues(w, U))))
    return supports[::-1], np.array(variances[::-1])


def compute_shrunk_eigenvalues(w: Array, U: Array) -> Array:
    """Largest eigenvalues of U diag(w) Uᵀ less its row and column i, for every i.

    Each is the root of Σⱼ uᵢⱼ²/(wⱼ − λ), which grows with λ, between the two largest of w (ascending).

    Examples
    --------
    >>> import numpy as np
    >>> compute_shrunk_eigenvalues(np.array([1.0, 2.0]), np.eye(2)).round(12)
    array([2., 1.])
    """
    if w.size == 1:
        return np.zeros(1)
    squares = U**2  # (n, n), row i of variable i
    low, high = np.full(w.size, w[-2]), np.full(w.size, w[-1])
    for _ in range(N_INTERVAL_HALVINGS):
        middle = 0.5 * (low + high)
        distance = w - middle[:, None]
        distance[distance == 0] = np.finfo(float).tiny
        above = np.sum(squares / distance, axis=1) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
