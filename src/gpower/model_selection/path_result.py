"""The result of a sparsity path: a sequence of fitted models with their variances, a data frame, a plot and a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, overload

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array
from gpower._utils.files import convert_read_errors
from gpower._utils.frames import Frame, make_frame
from gpower._utils.text import format_names
from gpower.estimators.fit_summary import IterationCounts, NamedValues, fit_warnings
from gpower.estimators.gpower import GPower
from gpower.io.model_file import (
    ModelFileError,
    check_array_shapes,
    check_header_fields,
    flatten_to_arrays,
    read_saved_object,
    simulate_json_round_trip,
    write_model,
)
from gpower.plotting import plot_tradeoff
from gpower.plotting.style import AxesLike, Panel
from gpower.validation.params import check_float
from gpower.validation.solver import restore_solver

#: Attributes of a path that its file stores unchanged: in the header with their types, and as arrays.
HEADER_FIELDS = {"kind": str, "n_samples": int, "complete": bool}
ARRAY_FIELDS = ("grid", "variance", "pca_variance_ratio", "column_norms", "fitted", "common")
#: Shapes of the arrays in a file, a letter for each axis: g points, m components, n variables, a ascents, s stored
#: loadings, l row pointers.
_PATH_ARRAY_SHAPES = {"grid": "g", "variance": "gm", "pca_variance_ratio": "m", "column_norms": "n"}
_PATH_ARRAY_SHAPES |= {"data": "s", "indices": "s", "indptr": "l", "mean_": "n", "scale_": "n", "n_passes_": ""}
_PATH_ARRAY_SHAPES |= {
    f"{name}_": "gm" for name in ("cardinality", "gamma", "explained_variance", "explained_variance_ratio")
}
_PATH_ARRAY_SHAPES |= {f"{name}_": "ga" for name in ("objective", "stationarity_gap", "n_iter", "converged")}


@dataclass(frozen=True, eq=False)
class SparsityPath(Sequence[GPower]):
    """Solutions along a grid of sparsity, as `sparsity_path` returns them.

    A sequence of fitted models, from the sparsest to the densest: ``len(path)``, ``path[3]``, ``path[-1]``,
    ``for model in path``; a slice is a path.

    Attributes
    ----------
    params : dict
        Parameters of `GPower`, without the one that varies.
    kind : {"cardinality", "gamma"}
        Parameter that varies.
    grid : ndarray of shape (n_points,)
        Values of that parameter.
    loadings : CSR array of shape (n_points · n_components, n_features)
        Loadings of all components, point by point.
    fitted : dict of ndarray
        Fitted attributes with a row for each point.
    variance : ndarray of shape (n_points, n_components)
        Variance of each component, not adjusted for the others.
    pca_variance_ratio : ndarray of shape (n_components,)
        Share of the total variance that each PCA component explains.
    column_norms : ndarray of shape (n_features,)
        Largest possible correlation of each variable, which bounds the cardinality at a given γ.
    common : dict of ndarray
        ``mean_``, ``scale_``, ``n_passes_`` and, if X has names, ``feature_names_in_``.
    n_samples : int
    complete : bool
        False if the computation was interrupted.

    Examples
    --------
    >>> from gpower import sparsity_path
    >>> from gpower.datasets import load_planted_expression
    >>> path = sparsity_path(load_planted_expression().X, cardinalities=[2, 4, 8])
    >>> len(path), path.grid.tolist(), path[-1].cardinality_.tolist()
    (3, [2, 4, 8], [8])
    """

    params: NamedValues
    kind: str
    grid: Array
    loadings: sp.csr_array
    fitted: dict[str, Array]
    variance: Array
    pca_variance_ratio: Array
    column_norms: Array
    common: NamedValues
    n_samples: int
    complete: bool = True

    def __len__(self) -> int:
        return len(self.grid)

    def __repr__(self) -> str:
        ends = f"{self.kind} {self.grid[0]:g} to {self.grid[-1]:g}"
        return f"<SparsityPath: {len(self)} points, {ends}, {self.n_components} component(s)>"

    @property
    def n_components(self) -> int:
        """Return the number of components of every solution."""
        return int(self.params["n_components"])

    @property
    def n_features(self) -> int:
        """Return the number of variables."""
        return int(self.loadings.shape[1])

    @property
    def penalty(self) -> str:
        """Return the penalty of every solution."""
        return str(self.params["penalty"])

    @property
    def feature_names(self) -> Array | None:
        """Return the names of the variables, if X has any."""
        return self.common.get("feature_names_in_")

    @property
    def n_passes(self) -> float:
        """Return the number of passes over the matrix that the whole path took."""
        return float(self.common["n_passes_"])

    @property
    def cardinality(self) -> Array:
        """Return the number of variables of each component, (n_points, n_components)."""
        return self.fitted["cardinality_"]

    @property
    def gamma(self) -> Array:
        """Return the absolute γ of each component, (n_points, n_components); NaN if the component has no penalty."""
        return self.fitted["gamma_"]

    @property
    def adjusted_variance(self) -> Array:
        """Return the variance of each component not shared with higher-variance ones, (n_points, n_components)."""
        return self.fitted["explained_variance_"]

    @property
    def explained_variance_ratio(self) -> Array:
        """Return the adjusted variance as a share of the total, (n_points, n_components)."""
        return self.fitted["explained_variance_ratio_"]

    @property
    def share_of_pca(self) -> Array:
        """Return the adjusted variance of all components over that of as many PCA components, (n_points,)."""
        reference = float(self.pca_variance_ratio.sum())
        total = self.explained_variance_ratio.sum(axis=1)
        return np.asarray(total / reference if reference > 0 else np.zeros_like(total))

    def components(self, i: int) -> sp.csr_array:
        """Return the loadings of point i as a sparse array, (n_components, n_features)."""
        m, i = self.n_components, range(len(self))[i]
        return self.loadings[i * m : (i + 1) * m]

    @overload
    def __getitem__(self, i: int) -> GPower: ...
    @overload
    def __getitem__(self, i: slice) -> SparsityPath: ...
    def __getitem__(self, i: int | slice) -> GPower | SparsityPath:
        """Return the fitted model of a point, or the path of a slice."""
        if isinstance(i, slice):
            points = np.sort(np.arange(len(self))[i])
            if not points.size:
                raise ValueError("The slice contains no point of the path; a path has at least one.")
            loadings = sp.vstack([self.components(point) for point in points], format="csr")
            rows = {name: values[points] for name, values in self.fitted.items()}
            return replace(self, grid=self.grid[points], loadings=loadings, fitted=rows, variance=self.variance[points])
        return self._build_model(range(len(self))[i])

    def _build_model(self, i: int) -> GPower:
        model = GPower(**self.params, **{self.kind: self.grid[i].item()})
        attributes = {name: values[i] for name, values in self.fitted.items()} | self.common
        attributes["n_iter_"] = attributes["n_iter_"].view(IterationCounts)
        attributes["components_"] = self.components(i).toarray()
        attributes["n_features_in_"] = self.n_features
        model.__dict__.update(attributes)
        warning_specs = fit_warnings(model, self.column_norms, self.variance[i])
        model.warnings_ = np.array([message for message, _ in warning_specs], dtype=object)
        return model

    def at(self, *, cardinality: int | None = None, gamma: float | None = None, share: float | None = None) -> GPower:
        """Return the fitted model of one point.

        Parameters
        ----------
        cardinality : int, optional
            Value on the grid. On a grid of γ, the number of variables that every component has.
        gamma : float, optional
            Value on a grid of γ.
        share : float, optional
            Smallest `share_of_pca`: selects the sparsest point that reaches it.

        Returns
        -------
        GPower
            Fitted model of that point.

        Examples
        --------
        >>> from gpower import sparsity_path
        >>> from gpower.datasets import load_pitprops
        >>> path = sparsity_path(load_pitprops().correlation, covariance="precomputed")
        >>> path.at(cardinality=5).cardinality_
        array([5])
        >>> path.at(share=0.9).cardinality_
        array([7])
        """
        arguments = {"cardinality": cardinality, "gamma": gamma, "share": share}
        given = {name: float(value) for name, value in arguments.items() if value is not None}
        if len(given) != 1:
            raise ValueError("at() takes one of cardinality, gamma and share.")
        if share is not None:
            return self._build_model(self._find_sparsest_point(share))
        name, target = given.popitem()
        if name == "gamma" and self.kind != "gamma":
            raise ValueError("This path runs over cardinalities; use at(cardinality=...).")
        is_uniform = np.ptp(self.cardinality, axis=1) == 0
        values = self.grid if name == self.kind else np.where(is_uniform, self.cardinality[:, 0], np.nan)
        matches = np.flatnonzero(np.isclose(values, target, rtol=1e-12, atol=0))
        if matches.size == 0:
            candidates = np.unique(values[np.isfinite(values)])
            nearest = np.sort(candidates[np.argsort(np.abs(candidates - target), kind="stable")[:3]])
            nearest_text = ", ".join(f"{value:g}" for value in nearest) or "none"
            raise ValueError(f"No point of the path has {name}={target:g}; the nearest are {nearest_text}.")
        return self._build_model(int(matches[-1]))

    def _find_sparsest_point(self, share: float) -> int:
        """Return the index of the sparsest point that explains a share of the variance explained by PCA."""
        if not 0 < check_float(share, "share", 0.0) <= 1:
            raise ValueError(f"share={share!r}: a share of what ordinary components explain, in (0, 1], is needed.")
        enough = np.flatnonzero(self.share_of_pca >= share * (1 - 1e-9))
        if enough.size == 0:
            most = float(np.max(self.share_of_pca))
            raise ValueError(f"No point of the path explains {share:.3g} of what PCA does; the maximum is {most:.3g}.")
        return int(enough[np.argmin(self.cardinality[enough].sum(axis=1))])

    def columns(self) -> dict[str, Array]:
        """Return the columns of `to_frame` without pandas."""
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

    def to_frame(self) -> Frame:
        """Return a frame with one row per point and component: γ, cardinality, variances, share of PCA.

        Returns
        -------
        pandas.DataFrame
        """
        return make_frame(self.columns())

    def plot(self, axes: AxesLike = None) -> Panel:
        """Plot variance against cardinality; see `gpower.plotting.plot_tradeoff`.

        Parameters
        ----------
        axes : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return plot_tradeoff(self, axes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the path to a file that is read without pickle.

        Parameters
        ----------
        path : str or path
        """
        own, csr = vars(self), self.loadings
        header = {"class": type(self).__name__, "params": simulate_json_round_trip(self.params)} | {
            name: own[name] for name in HEADER_FIELDS
        }
        stored = {name: own[name] for name in ARRAY_FIELDS}
        stored |= {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        write_model(path, header, flatten_to_arrays(stored))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a path written by `save`.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        SparsityPath
        """
        header, stored = read_saved_object(path, cls.__name__)
        check_header_fields(path, header, HEADER_FIELDS | {"params": dict})
        with convert_read_errors(
            lambda what: ModelFileError(f"{str(path)!r} is damaged: it contains no path ({what}).")
        ):
            fitted = stored["fitted"]
            check_array_shapes(path, stored | fitted | stored["common"], _PATH_ARRAY_SHAPES)
            points, m, n = len(stored["grid"]), header["params"]["n_components"], stored["column_norms"].size
            if header["kind"] not in ("cardinality", "gamma") or (points, m) != stored["variance"].shape:
                raise ValueError(f"{points} points of {m} components")
            wrong = [name for name, values in fitted.items() if np.shape(values)[:1] != (points,)]
            if wrong:
                raise ValueError(f"{format_names(wrong)} without one value for each of {points} points")
            params = restore_solver(header["params"])
            GPower(**params)
            loadings = sp.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=(points * m, n))
            loadings.check_format(full_check=True)
        return cls(
            params=params,
            loadings=loadings,
            **{name: header[name] for name in HEADER_FIELDS},
            **{name: stored[name] for name in ARRAY_FIELDS},
        )
