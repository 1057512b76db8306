"""Checkpoints: a file keeps the components found so far, so that an interrupted fit can continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.files import check_writable, convert_read_errors, follow_link
from gpower._utils.messages import format_param
from gpower.io.model_file import (
    ModelFileError,
    ModelHeader,
    check_array_shapes,
    check_header_fields,
    read_model,
    to_json_value,
    write_model,
)
from gpower.operators import Moments
from gpower.operators.explained_variance import Scores
from gpower.solvers.component import ComponentResult
from gpower.solvers.sequential import SolverState, solve_all_components
from gpower.validation.params import RUN_PARAMS, resolve_solver
from gpower.validation.prepare import PreparedData

#: Largest absolute loading of a unit component, with room for rounding in single precision.
MAX_LOADING = 1 + 1e-3
#: Relative difference of means and products up to which two matrices count as the same data.
SAME_DATA_TOLERANCE = 1e-8
_RESULT_ARRAYS = ("Z", "gamma", "objective", "gap", "n_iter", "converged")


def solve_with_checkpoint(
    prepared: PreparedData, rng: np.random.RandomState, params: Mapping[str, Any]
) -> ComponentResult:
    """Return the components of a fit; while they are found, keep them in the file `checkpoint` of its parameters."""
    if params["checkpoint"] is None:
        raise ValueError(f"{format_param('resume', True)} continues from a checkpoint; give its file as checkpoint=.")
    if prepared.fit_spec.is_block:
        raise ValueError(
            f"checkpoint keeps components found in turn; {format_param('method', 'block')} finds all at once."
        )
    checkpoint = Checkpoint.from_prepared(prepared, params)
    found = checkpoint.read_if_present()
    state = checkpoint.restore(*found, rng) if params["resume"] and found is not None else SolverState()
    on_progress = partial(checkpoint.save, rng=rng)
    return solve_all_components(prepared.operator, prepared.fit_spec, rng, state, on_progress)


@dataclass(frozen=True)
class Checkpoint:
    """A file that contains the components found so far, for one matrix and one set of parameters.

    Attributes
    ----------
    path : Path
        The file.
    fingerprint : str
        Hash of the shape and the parameters; a fit with another one cannot continue from this file.
    moments : Moments
        Means and norms of the data; the means identify them. The same data read in other blocks have the same moments
        up to rounding.
    probe : ndarray of shape (3, 3)
        Gram matrix of three random combinations of the columns, to recognise data with the same means.
    probe_tolerance : float
        Relative rounding error of an entry of `probe`.
    """

    path: Path
    fingerprint: str
    moments: Moments
    probe: Array
    probe_tolerance: float

    @classmethod
    def from_prepared(cls, prepared: PreparedData, params: Mapping[str, Any]) -> Checkpoint:
        """Create the checkpoint of a fit before it starts."""
        relevant = {name: value for name, value in resolve_solver(params).items() if name not in RUN_PARAMS}
        identity = [list(prepared.operator.shape), to_json_value(relevant)]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=_serialize_param).encode())
        operator = prepared.operator
        random = np.random.RandomState(0).standard_normal((operator.shape[1], 3))
        R = Scores.from_loadings(operator, operator.to_backend(random)).gram_root
        return cls(Path(params["checkpoint"]), digest.hexdigest(), prepared.moments, R.T @ R, operator.precision)

    def read_if_present(self) -> tuple[ModelHeader, dict[str, Array]] | None:
        """Return header and arrays of the file, None without one; raise if it is not a checkpoint or not writable."""
        folder = follow_link(self.path).parent
        if not folder.is_dir():
            raise ValueError(f"The checkpoint {str(self.path)!r} cannot be written: there is no such folder.")
        check_writable(folder)
        if not self.path.exists():
            return None
        try:
            header, arrays = read_model(self.path)
        except (OSError, ModelFileError) as error:
            raise ModelFileError(
                f"{str(self.path)!r} is truncated or not a gpower model, and only a checkpoint is overwritten; give "
                "another path."
            ) from error
        if header["class"] != "Checkpoint":
            raise ModelFileError(f"{str(self.path)!r} is not a checkpoint; give another path.")
        return header, arrays

    def save(self, state: SolverState, rng: np.random.RandomState) -> None:
        """Write the components found so far and the state of the random generator, atomically."""
        arrays = {f"{i}:{name}": getattr(unit, name) for i, unit in enumerate(state.units) for name in _RESULT_ARRAYS}
        arrays |= {
            f"{i}:end": unit.ascent_loadings for i, unit in enumerate(state.units) if unit.ascent_loadings is not None
        }
        _, keys, position, has_gauss, cached = rng.get_state(legacy=True)
        header = {
            "class": "Checkpoint",
            "fingerprint": self.fingerprint,
            "notes": [list(unit.notes) for unit in state.units],
            "settled": state.n_final,
            "generator": [int(position), int(has_gauss), float(cached)],
        }
        data_arrays = {"mean": np.asarray(self.moments.mean), "probe": self.probe, "columns": state.working_set}
        try:
            write_model(self.path, header, arrays | data_arrays | {"generator": np.asarray(keys)})
        except OSError as error:
            reason = error.strerror or str(error)
            remaining = f" The previous checkpoint is still in {str(self.path)!r}." if self.path.exists() else ""
            raise OSError(
                f"The checkpoint {str(self.path)!r} could not be written: {reason}. The fit stops here, with "
                f"{state.n_final} component(s) found.{remaining}"
            ) from error

    def restore(self, header: ModelHeader, arrays: dict[str, Array], rng: np.random.RandomState) -> SolverState:
        """Return the state of an earlier fit of the same problem from its file, and restore `rng`."""
        check_header_fields(self.path, header, {"fingerprint": str, "notes": list, "settled": int, "generator": list})
        other_fit_message = (
            f"{str(self.path)!r} is a checkpoint of other data or other parameters; give another path, or "
            "resume=False to start anew."
        )
        if header["fingerprint"] != self.fingerprint:  # which depends on the shape of the data, too
            raise ValueError(other_fit_message)
        own = {"own mean": np.asarray(self.moments.mean), "own probe": self.probe}
        shapes = {"mean": "n", "own mean": "n", "probe": "qq", "own probe": "qq", "generator": "s", "columns": "c"}
        check_array_shapes(self.path, arrays | own, shapes)
        if not self._is_same_data(arrays["mean"], arrays["probe"]):
            raise ValueError(other_fit_message)
        with convert_read_errors(
            lambda what: ModelFileError(f"{str(self.path)!r} is damaged: it is not a checkpoint ({what}).")
        ):
            position, has_gauss, cached = header["generator"]
            units = [self._read_component(arrays, i, notes) for i, notes in enumerate(header["notes"])]
            rng.set_state(("MT19937", arrays["generator"], position, has_gauss, cached))
        return SolverState(tuple(units), header["settled"], arrays["columns"])

    def _read_component(self, arrays: Mapping[str, Array], i: int, notes: Sequence[str]) -> ComponentResult:
        """Return component i of the file."""
        result_arrays = {name: arrays[f"{i}:{name}"] for name in _RESULT_ARRAYS}
        shapes = dict.fromkeys(_RESULT_ARRAYS, "u") | {"Z": "nu", "mean": "n"}
        check_array_shapes(self.path, result_arrays | {"mean": arrays["mean"]}, shapes)
        if not np.all(np.abs(result_arrays["Z"]) <= MAX_LOADING):  # also of NaN
            raise ValueError(f"component {i + 1} has loadings that are not numbers between −1 and 1")
        return ComponentResult(**result_arrays, notes=tuple(map(str, notes)), ascent_loadings=arrays.get(f"{i}:end"))

    def _is_same_data(self, mean: Array, probe: Array) -> bool:
        """Return whether means and probe of a file are those of this fit's data, up to rounding."""
        spread = np.asarray(self.moments.column_norms) * np.asarray(self.moments.scale)
        mean_tolerance = SAME_DATA_TOLERANCE * (np.abs(self.moments.mean) + spread)
        probe_tolerance = max(SAME_DATA_TOLERANCE, 1e3 * self.probe_tolerance) * float(np.trace(self.probe))
        is_same_mean = np.all(np.abs(mean - self.moments.mean) <= mean_tolerance)
        return bool(is_same_mean and np.allclose(probe, self.probe, rtol=0, atol=probe_tolerance))


def _serialize_param(value: Any) -> str:
    """Return text for a parameter without a JSON form; the state of a random generator is saved separately."""
    return type(value).__name__ if isinstance(value, np.random.RandomState | np.random.Generator) else str(value)
