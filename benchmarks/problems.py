"""A problem that a solver gets, and the answer that it returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    """A formulation of sparse PCA, free of the data.

    Attributes
    ----------
    penalty : {"l1", "l0"}
    gamma : float
        Fraction of the largest useful γ: of max‖aᵢ‖ (ℓ1), of its square (ℓ0).
    n_components : int
    method : {"deflation", "block"}
        One component after the other, or all at once.
    """

    penalty: str
    gamma: float
    n_components: int = 1
    method: str = "deflation"

    @property
    def label(self) -> str:
        """Return a short name of the problem."""
        many = "" if self.n_components == 1 else f" m={self.n_components} {self.method}"
        return f"{self.penalty} {100 * self.gamma:g}%{many}"


@dataclass(frozen=True, eq=False)
class Answer:
    """Loadings, (n_features, m), and the values that the solver itself reports, NaN if it does not."""

    Z: np.ndarray
    objective: float = np.nan
    passes: float = np.nan


class CannotRun(Exception):  # noqa: N818 - not an error: an entry of the table
    """A solver cannot solve a problem; the message gives the reason."""


L1, L0 = Problem("l1", 0.1), Problem("l0", 0.01)
FIVE = tuple(Problem(one.penalty, one.gamma, 5, method) for method in ("deflation", "block") for one in (L1, L0))
