"""The one room that every fit enters: data and parameters in; table, operator, moments and recipes out, once.

`read` checks what the user handed over and names its variables; `Input.prepared` makes an operator of it, with the
means and scales that it applies, once it is known to hold numbers throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gpower._arrays import Array, is_device, to_host
from gpower.imputation import impute
from gpower.inputs import check_finite, check_range, check_table, whereabouts
from gpower.operators import BlockMatrix, Moments, Operator, as_operator
from gpower.operators.running import MOST_FEATURES, RunningMoments
from gpower.parameters import check_covariance, check_weights, one_of, whole
from gpower.recipes import Recipe

#: Forming the covariance of n variables takes the time of about n/GRAM_READS reads of the data.
GRAM_READS = 8
#: Data that are read in blocks are replaced by the covariance of up to this many variables whatever is asked of them.
MOST_GRAM = 4096


@dataclass(frozen=True)
class Reading:
    """The parameters of an estimator that say how its data are read; those that it does not have are as usual."""

    n_components: int = 1
    covariance: str | None = None
    variance: str = "l2"
    center: bool = True
    scale: bool = False
    missing: str = "error"
    certify: bool = False
    accumulation: str | None = None
    memory_limit: Any = None
    init: Any = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Reading:
        """Those among the parameters of an estimator."""
        return cls(**{field.name: params[field.name] for field in fields(cls) if field.name in params})


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a fit works on.

    Attributes
    ----------
    operator : Operator
    moments : Moments
        Means, scales and norms that the operator applies.
    recipes : tuple of Recipe
        One, or one per point of a grid.
    """

    operator: Operator
    moments: Moments
    recipes: tuple[Recipe, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The only one, or the first."""
        return self.recipes[0]

    @cached_property
    def reach(self) -> Array:
        """The largest possible correlations of the columns, by the variance in use."""
        return self.recipe.wish.samples.reach(self.operator)

    @property
    def constant(self) -> Array:
        """Indices of the columns that do not vary."""
        return to_host(np.flatnonzero(self.moments.norms == 0))


@dataclass(frozen=True, eq=False)
class Input:
    """Samples × variables, or a covariance: a float32 or float64 matrix, not yet looked through for holes.

    Attributes
    ----------
    X : ndarray, CSR or CSC matrix, array on a device, or matrix in blocks
    reading : Reading
    names : ndarray of str or None
        Of the variables.
    """

    X: Any
    reading: Reading
    names: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    def rows(self, idx: Array) -> Input:
        """Some of the samples."""
        return replace(self, X=self.X[idx])

    def in_memory(self, why: str) -> Input:
        """The same, if it is in the memory of this machine; `why` says what needs that."""
        where = whereabouts(self.X)
        if where:
            raise ValueError(f"{why}; X is {where}.")
        return self

    def finite(self, allow_nan: bool = False) -> Input:
        """The same, if it holds numbers throughout."""
        check_finite(self.X, self.names, allow_nan=allow_nan)
        return self

    def in_double(self) -> Input:
        """The same in float64, not copied if it is."""
        return replace(self, X=self.X.astype(np.float64, copy=False))

    def filled(self) -> Input:
        """The same with missing entries filled, if that was asked for."""
        reading = self.reading
        if is_device(self.X):
            self._check_device()
        if one_of(reading.missing, "missing", ("error", "impute")) == "error":
            return self
        if sp.issparse(self.X) or isinstance(self.X, BlockMatrix) or reading.covariance is not None:
            what = "a sparse matrix, whose absent entries are zeros" if sp.issparse(self.X) else "a covariance"
            raise ValueError(
                f'missing="impute" fills the holes of a dense table of samples; X is {whereabouts(self.X) or what}.'
            )
        self.finite(allow_nan=True)
        if not np.isnan(np.sum(self.X)):
            return self
        rank = whole(reading.n_components, "n_components", 1)
        return replace(self, X=impute(self.X, rank, center=bool(reading.center), scale=bool(reading.scale)).X)

    def _check_device(self) -> None:
        """Refuse what is not done on a device."""
        ordinary = {"variance": "l2", "covariance": None, "missing": "error", "certify": False}
        asked = vars(self.reading)
        odd = [f"{name}={asked[name]!r}" for name, value in ordinary.items() if asked[name] != value]
        if odd:
            raise ValueError(f"{', '.join(odd)} works on the host only; pass X.get() or X.cpu().")

    def prepared(
        self, sample_weight: Any = None, recipes: Sequence[Recipe] = (), *, reduce: bool | None = None
    ) -> Prepared:
        """The operator of the data, centred and scaled as asked.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), optional
        recipes : sequence of Recipe
            What is to be done with it.
        reduce : bool, optional
            Whether tall data may be replaced by their covariance; by default where the recipes need no samples and the
            reads that they are expected to make pay for it.
        """
        X, reading = self.X, self.reading
        precomputed = reading.covariance == "precomputed"
        if X.shape[0] == 1 and reading.center and not precomputed:
            raise ValueError("n_samples=1: a single sample has no variance about its mean; give more, or center=False.")
        if precomputed:
            X = self._covariance(sample_weight)
        with np.errstate(all="ignore"):  # values that are not finite are named below
            operator, moments = as_operator(
                X,
                center=reading.center,
                scale=reading.scale,
                sample_weight=check_weights(sample_weight, X.shape[0], X.dtype),
                covariance=precomputed,
                reduce=self._pays(recipes) if reduce is None else reduce,
                double_sums=reading.accumulation == "float64",
            )
        check_finite(X, self.names, moments.norms)
        check_range(moments.norms, self.names, operator.dtype)
        return Prepared(operator, moments, tuple(recipes))

    def _covariance(self, sample_weight: Any) -> Array:
        """X, if it is a covariance."""
        stored = sp.issparse(self.X) or isinstance(self.X, BlockMatrix)
        if stored or sample_weight is not None:
            what = "a dense matrix in memory" if stored else "no sample_weight"
            raise ValueError(f'covariance="precomputed" takes {what}.')
        return check_covariance(self.finite().X)

    def _pays(self, recipes: Sequence[Recipe]) -> bool:
        """Whether the covariance of tall data serves the recipes, and costs less than the reads that they will make."""
        n, reads = self.shape[1], sum(recipe.reads() for recipe in recipes)
        few = n <= GRAM_READS * reads or (isinstance(self.X, BlockMatrix) and n <= MOST_GRAM)
        return few and not any(recipe.needs_samples for recipe in recipes)

    def running(self, sample_weight: Any) -> RunningMoments:
        """Moments of a batch of samples, once it is known to hold numbers throughout."""
        reading = self.reading
        if reading.covariance is not None or reading.variance != "l2" or not isinstance(reading.init, str | None):
            raise ValueError(
                'partial_fit keeps the covariance of samples, not the samples: it needs covariance=None, variance="l2" '
                'and an init of None or "paper".'
            )
        if self.shape[1] > MOST_FEATURES:
            raise ValueError(
                f"partial_fit keeps the covariance of all variables, and n_features={self.shape[1]} are more than "
                f"{MOST_FEATURES}; fit a file or a Dask array instead, which are read in blocks."
            )
        weight = check_weights(sample_weight, self.shape[0], self.X.dtype)
        with np.errstate(all="ignore"):  # values that are not finite are named below
            moments = RunningMoments.of(self.X, weight)
        check_finite(self.X, self.names, np.diagonal(moments.scatter))
        return moments


def read(estimator: BaseEstimator, X: Any, *, reset: bool = True) -> Input:
    """What `fit` or `transform` of an estimator was given, which learns or checks the number and names of variables."""
    reading = Reading.of(estimator.get_params(deep=False))
    X = check_table(estimator, X, reset=reset, memory_limit=reading.memory_limit)
    return Input(X, reading, vars(estimator).get("feature_names_in_"))


#: The recipes for data of a shape (n_samples, n_features).
Plan = Callable[[tuple[int, int]], Sequence[Recipe]]


def prepare(estimator: BaseEstimator, X: Any, sample_weight: Any, plan: Plan) -> Prepared:
    """All of it, for an estimator that is fitted to X."""
    table = read(estimator, X).filled()
    if table.reading.certify:
        table.in_memory("A certificate needs the matrix in the memory of this machine")
    return table.prepared(sample_weight, plan(table.shape))
