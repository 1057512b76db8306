"""The options of the search for components, and the setting of the paper [JNRS10]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from gpower._utils.messages import format_param
from gpower.solvers.ascent import Callback

#: Tolerance of `GPower` by default, and the one that the paper uses instead.
DEFAULT_TOL, PAPER_TOL = 1e-6, 1e-4
#: How ``solver="paper"`` fills in the loadings of a support, by penalty: the paper refits ℓ1 solutions only.
_PAPER_REFITS = {"l0": None, "l1": "norms"}


@dataclass(frozen=True, repr=False, eq=False)
class Solver(BaseEstimator):
    """Options of the search for components, for ``GPower(solver=Solver(...))``.

    An instance cannot be changed by assignment. scikit-learn's `set_params` and `clone` work, and
    ``GPower.set_params(solver__acceleration=False)`` reaches the options.

    Attributes
    ----------
    algorithm : {"auto", "working_set", "full"}, default="auto"
        Ascend on a working set of columns, checked against the whole matrix, or on the full matrix. "auto" uses the
        full matrix for small problems.
    init : {None, "largest_norm"} or ndarray of shape (n_samples, n_components), default=None
        Start at promising columns, at the column of largest norm as the paper does, or at the given points.
    refit : {"auto", "norms", "variance", None}, default="auto"
        Objective that fills in the loadings once the support is known. A single component gets the leading singular
        vector of its columns. A block maximises the sum of norms ("norms", the paper's Algorithm 6) or of squared norms
        ("variance"); "auto" keeps the one with the larger adjusted variance. None keeps the loadings of the ascent.
    local_search : bool, default=True
        Improve the components by a local search: swap variables of an exact cardinality; add, drop and swap variables
        under a penalty; on small data solve for each unit of a penalised block again with the other units fixed.
    acceleration : bool, default=True
        Use momentum with monotone restarts.
    regularization : float, default=0.0
        Weight ω of the strongly convex term in the objective of a block.
    accumulate_dtype : {None, "float64"}, default=None
        Type in which products with float32 data are summed. None is the type of the data. float64 keeps all digits of
        the data in sums over very many samples and takes several times as long. Means, norms and sums over blocks of
        data on disk or on a cluster always use float64.
    callback : callable, optional
        Called with the `AscentState` after each step; a true answer stops that ascent. Not saved with a model.

    Examples
    --------
    >>> from gpower import GPower, Solver
    >>> GPower(1, solver=Solver(acceleration=False)).set_params(solver__local_search=False)
    GPower(n_components=1, solver=Solver(acceleration=False, local_search=False))
    """

    algorithm: str = "auto"
    init: Any = None
    refit: str | None = "auto"
    local_search: bool = True
    acceleration: bool = True
    regularization: float = 0.0
    accumulate_dtype: str | None = None
    callback: Callback | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Solver):
            return NotImplemented
        mine, others = self.get_params(deep=False), other.get_params(deep=False)
        return all(np.array_equal(mine[name], others[name]) for name in mine)  # `init` may be an array

    def set_params(self, **params: Any) -> Self:
        """Set options in place, as scikit-learn's meta-estimators need it.

        Parameters
        ----------
        **params
            Options by name.

        Returns
        -------
        self
        """
        options = self.get_params(deep=False)
        for name in params:
            if name not in options:
                raise ValueError(f"{name!r} is not an option of Solver; use one of {', '.join(options)}.")
        self.__dict__.update(params)  # assignment is refused
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the options that a file keeps: all but the callback."""
        return {name: value for name, value in self.get_params(deep=False).items() if name != "callback"}


def make_solver(solver: Any) -> Solver:
    """Return the `Solver` that a value of the parameter `solver` other than "paper" stands for."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and solver == "auto":
        return Solver()
    if isinstance(solver, str) and solver == "paper":
        raise ValueError(f"{format_param('solver', solver)} has no options to set; use gpower.Solver(...).")
    raise ValueError(
        f"{format_param('solver', solver)} is not known; use one of 'auto', 'paper', or gpower.Solver(...)."
    )


def resolve_solver(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator with a `Solver` as `solver`; "paper" also sets `n_init` and `tol`.

    The result is a new dictionary. Parameters may be missing, as in estimators without a solver; a `tol` other than the
    default of `GPower` is kept. Options of the `Solver` are not checked.

    Examples
    --------
    >>> resolve_solver({"solver": "paper", "penalty": "l0", "tol": 1e-6})["tol"]
    0.0001
    """
    solver = params.get("solver", "auto")
    if not isinstance(solver, str) or solver != "paper":
        return {**params, "solver": make_solver(solver)}
    penalty = params.get("penalty")
    refit = _PAPER_REFITS.get(penalty, "auto") if isinstance(penalty, str) else "auto"
    tol = params.get("tol", DEFAULT_TOL)
    return {
        **params,
        "solver": Solver("full", "largest_norm", refit, local_search=False, acceleration=False),
        "n_init": 1,
        "tol": PAPER_TOL if tol == DEFAULT_TOL else tol,
    }


def restore_solver(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a model file with the options of the solver as a `Solver` again."""
    options = params.get("solver")
    return {**params, "solver": Solver(**options)} if isinstance(options, dict) else dict(params)
