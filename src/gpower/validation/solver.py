"""The settings of the algorithm, `Solver`, and the settings with which it is that of the paper [JNRS10]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpower.solvers.ascent import Callback

#: Tolerance of `GPower` by default, and the one that the paper uses instead.
DEFAULT_TOL, PAPER_TOL = 1e-6, 1e-4


@dataclass(repr=False, eq=False)
class Solver(BaseEstimator):
    """Options of the search for components, for ``GPower(solver=Solver(...))``.

    scikit-learn's `set_params` and `clone` work, and ``GPower.set_params(solver__acceleration=False)`` reaches the
    options.

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

    def to_dict(self) -> dict[str, Any]:
        """Return the options that a file keeps, by name: all but the callback; `init` may be an array."""
        return {name: value for name, value in self.get_params(deep=False).items() if name != "callback"}


def restore_solver(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a model file with the options of the solver as a `Solver` again, in a new dictionary.

    `params` comes from the header of the file: `solver` is a dictionary of options, text, or missing. Raise TypeError
    for an option that `Solver` does not have. Values are not checked; text such as "auto" stays text.
    """
    options = params.get("solver")
    return {**params, "solver": Solver(**options)} if isinstance(options, dict) else dict(params)
