"""A path of solutions as an object: every point a fitted model, what each explains, a frame, a plot, a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2

from gpower._arrays import Array
from gpower.estimators import GPower
from gpower.fitted import PerAscent
from gpower.frames import frame
from gpower.persistence import jsonable, read_model, write_model


@dataclass(frozen=True, eq=False)
class SparsityPath(Sequence[GPower]):
    """Solutions along a grid of sparsity, as `sparsity_path` returns them.

    A sequence of fitted models, from the sparsest to the densest: ``len(path)``, ``path[3]``, ``path[-1]``,
    ``for model in path``; a slice is a path.

    Attributes
    ----------
    params : dict
        Of `GPower`, but for the one that varies.
    kind : {"cardinality", "gamma"}
        What varies.
    grid : ndarray of shape (n_points,)
        Its values.
    loadings : CSR array of shape (n_points · n_components, n_features)
        All components, those of a point together.
    fitted : dict of ndarray
        Fitted attributes with a row per point.
    variance : ndarray of shape (n_points, n_components)
        Variance of each component on its own.
    pca_variance_ratio : ndarray of shape (n_components,)
        Share of the total variance in each ordinary principal component.
    column_norms : ndarray of shape (n_features,)
        The largest possible correlations, which bound the cardinality at a given γ.
    common : dict of ndarray
        ``mean_``, ``scale_``, ``n_passes_`` and, if X has names, ``feature_names_in_``.
    n_samples : int
    complete : bool
        False where the computation was interrupted.
    """

    params: dict[str, Any]
    kind: str
    grid: Array
    loadings: sp.csr_array
    fitted: dict[str, Array]
    variance: Array
    pca_variance_ratio: Array
    column_norms: Array
    common: dict[str, Any]
    n_samples: int
    complete: bool = True

    def __len__(self) -> int:
        return len(self.grid)

    def __repr__(self) -> str:
        ends = f"{self.kind} {self.grid[0]:g} to {self.grid[-1]:g}"
        return f"<SparsityPath: {len(self)} points, {ends}, {self.n_components} component(s)>"

    @property
    def n_components(self) -> int:
        """Components of every solution."""
        return int(self.params["n_components"])

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return int(self.loadings.shape[1])

    @property
    def penalty(self) -> str:
        """Penalty of every solution."""
        return str(self.params["penalty"])

    @property
    def feature_names(self) -> Array | None:
        """Names of the variables, if X has any."""
        return self.common.get("feature_names_in_")

    @property
    def n_passes(self) -> float:
        """Reads of the matrix that the whole path took."""
        return float(self.common["n_passes_"])

    @property
    def cardinality(self) -> Array:
        """Number of variables of each component, (n_points, n_components)."""
        return self.fitted["cardinality_"]

    @property
    def gamma(self) -> Array:
        """Absolute γ of each component, NaN where there is none, (n_points, n_components)."""
        return self.fitted["gamma_"]

    @property
    def adjusted_variance(self) -> Array:
        """Variance of each component that the others leave, (n_points, n_components)."""
        return self.fitted["explained_variance_"]

    @property
    def explained_variance_ratio(self) -> Array:
        """Adjusted variance as a share of the total, (n_points, n_components)."""
        return self.fitted["explained_variance_ratio_"]

    @property
    def share_of_pca(self) -> Array:
        """Adjusted variance of all components over that of as many ordinary principal components, (n_points,)."""
        reference = float(self.pca_variance_ratio.sum())
        total = self.explained_variance_ratio.sum(axis=1)
        return np.asarray(total / reference if reference > 0 else np.zeros_like(total))

    def components(self, i: int) -> sp.csr_array:
        """Loadings of point i, (n_components, n_features), as few numbers as they have non-zeros."""
        m, i = self.n_components, range(len(self))[i]
        return self.loadings[i * m : (i + 1) * m]

    def __getitem__(self, i: Any) -> Any:
        """The fitted model of a point, or the path of a slice."""
        if isinstance(i, slice):
            return self._points(np.arange(len(self))[i])
        return self._model(range(len(self))[i])

    def __iter__(self) -> Iterator[GPower]:
        return (self._model(i) for i in range(len(self)))

    def _points(self, points: Array) -> SparsityPath:
        if len(points) == 0:
            raise ValueError("The slice holds no point of the path; a path has at least one.")
        points, m = np.sort(points), self.n_components
        rows = (points[:, None] * m + np.arange(m)).ravel()
        fitted = {name: values[points] for name, values in self.fitted.items()}
        return replace(
            self, grid=self.grid[points], loadings=self.loadings[rows], fitted=fitted, variance=self.variance[points]
        )

    def _model(self, i: int) -> GPower:
        wish = self.grid[i].item()
        model = GPower(**self.params, **{self.kind: wish})
        attributes = {name: values[i] for name, values in self.fitted.items()} | self.common
        attributes["n_iter_"] = attributes["n_iter_"].view(PerAscent)
        attributes["components_"] = self.components(i).toarray()
        attributes["n_features_in_"] = self.n_features
        model.__dict__.update(attributes)
        return model

    def at(self, *, cardinality: int | None = None, gamma: float | None = None) -> GPower:
        """The fitted model of one point.

        Parameters
        ----------
        cardinality : int, optional
            Number of variables. Along a grid of γ: of every component.
        gamma : float, optional
            Along a grid of γ: its value there.

        Returns
        -------
        GPower
            Fitted: ``transform``, ``components_`` and all the rest.

        Examples
        --------
        >>> from gpower import sparsity_path
        >>> from gpower.datasets import load_pitprops
        >>> path = sparsity_path(load_pitprops().correlation, covariance="precomputed")
        >>> path.at(cardinality=5).cardinality_
        array([5])
        """
        if (cardinality is None) == (gamma is None):
            raise ValueError("at() takes one of cardinality and gamma.")
        if gamma is not None and self.kind != "gamma":
            raise ValueError("This path runs over cardinalities; use at(cardinality=...).")
        if gamma is not None:
            name, wanted, values = "gamma", float(gamma), self.grid
        else:
            name, wanted = "cardinality", float(cardinality or 0)
            alike = np.ptp(self.cardinality, axis=1) == 0
            values = self.grid if self.kind == "cardinality" else np.where(alike, self.cardinality[:, 0], np.nan)
        hits = np.flatnonzero(np.isclose(values, wanted, rtol=1e-12, atol=0))
        if hits.size == 0:
            seen = np.unique(values[np.isfinite(values)])
            nearest = np.sort(seen[np.argsort(np.abs(seen - wanted), kind="stable")[:3]])
            near = ", ".join(f"{value:g}" for value in nearest) or "none"
            raise ValueError(f"No point of the path has {name}={wanted:g}; the nearest are {near}.")
        return self._model(int(hits[-1]))

    def cardinality_bound(self, gamma: Any) -> Array:
        """The most variables that the first component can have at absolute γ: those with ‖aᵢ‖ > γ (ℓ0: ‖aᵢ‖² > γ).

        In a block ‖aᵢ‖ is weighted by the first μ.

        Parameters
        ----------
        gamma : float or array-like

        Returns
        -------
        ndarray of int
        """
        level, mu = np.asarray(gamma, float), self.params["mu"]
        norms = np.sort(self.column_norms.astype(float)) * (1.0 if mu is None else float(mu[0]))
        norms = norms if self.penalty == "l1" else norms**2
        return np.asarray(norms.size - np.searchsorted(norms, level, side="right"))

    def expected_cardinality_bound(self, gamma: Any) -> Array:
        """Expectation of that bound, n·P(χ²_d > γ²/σ²) (ℓ0: γ/σ²), were the data Gaussian noise of their mean variance.

        d is the number of samples, less one if centred.

        Parameters
        ----------
        gamma : float or array-like

        Returns
        -------
        ndarray
        """
        if self.params["covariance"] is not None:
            raise ValueError("A covariance does not say how many samples it is of; the expectation needs the data.")
        if self.params["variance"] != "l2":
            raise ValueError('The expectation is of sums of squares; with variance="l1" there is none.')
        degrees = self.n_samples - int(bool(self.params["center"]))
        noise = float(np.mean(self.column_norms.astype(float) ** 2)) / degrees
        level = np.asarray(gamma, float) ** (2 if self.penalty == "l1" else 1)
        return np.asarray(self.n_features * chi2.sf(level / noise, degrees))

    def columns(self) -> dict[str, Array]:
        """The columns of `to_frame`, without pandas."""
        points, m = len(self), self.n_components
        return {
            "point": np.repeat(np.arange(points), m),
            "component": np.tile(np.arange(m), points),
            "gamma": self.gamma.ravel(),
            "cardinality": self.cardinality.ravel(),
            "variance": self.variance.ravel(),
            "adjusted_variance": self.adjusted_variance.ravel(),
            "explained_variance_ratio": self.explained_variance_ratio.ravel(),
            "share_of_pca": np.repeat(self.share_of_pca, m),
        }

    def to_frame(self) -> Any:
        """One row per point and component: γ, cardinality, variances, share of PCA's.

        Returns
        -------
        pandas.DataFrame
        """
        return frame(self.columns())

    def plot(self, axes: Any = None) -> Any:
        """Variance against cardinality; see `gpower.plotting.plot_tradeoff`.

        Parameters
        ----------
        axes : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        from importlib import import_module  # a door above this floor: it opens when it is used

        return import_module("gpower.plotting").plot_tradeoff(self, axes=axes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the path to a file that needs no pickle to read.

        Parameters
        ----------
        path : str or path
        """
        header = {
            "class": type(self).__name__,
            "params": jsonable(self.params),
            "kind": self.kind,
            "n_samples": self.n_samples,
            "complete": self.complete,
        }
        names = {"feature_names_in_": self.feature_names.astype(str)} if self.feature_names is not None else {}
        arrays = {
            "grid": self.grid,
            "variance": self.variance,
            "pca_variance_ratio": self.pca_variance_ratio,
            "column_norms": self.column_norms,
            "data": self.loadings.data,
            "indices": self.loadings.indices,
            "indptr": self.loadings.indptr,
            **{f"fitted:{name}": values for name, values in self.fitted.items()},
            **{f"common:{name}": np.asarray(value) for name, value in (self.common | names).items()},
        }
        write_model(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A path written by `save`.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        SparsityPath
        """
        header, arrays = read_model(path)
        if header["class"] != cls.__name__:
            raise ValueError(f"{str(path)!r} holds a {header['class']}, not a {cls.__name__}; load it with that class.")
        groups = {
            prefix: {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
            for prefix in ("fitted:", "common:")
        }
        common: dict[str, Any] = groups["common:"]
        common["n_passes_"] = float(common["n_passes_"])
        if "feature_names_in_" in common:
            common["feature_names_in_"] = common["feature_names_in_"].astype(object)
        shape = (arrays["indptr"].size - 1, arrays["column_norms"].size)
        return cls(
            params=header["params"],
            kind=header["kind"],
            grid=arrays["grid"],
            loadings=sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape),
            fitted=groups["fitted:"],
            variance=arrays["variance"],
            pca_variance_ratio=arrays["pca_variance_ratio"],
            column_norms=arrays["column_norms"],
            common=common,
            n_samples=header["n_samples"],
            complete=header["complete"],
        )
