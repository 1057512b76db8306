"""Components found so far, kept in a file, so that an interrupted fit goes on where it stopped."""

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
from gpower._utils.files import convert_read_errors
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
from gpower.solvers.multi_component import solve_all_components
from gpower.solvers.sequential import SolverState
from gpower.validation.prepare import PreparedData

#: Relative difference of means, norms and products up to which two matrices are taken for the same.
SAME_DATA_TOLERANCE = 1e-8
_RESULT_ARRAYS = ("Z", "gamma", "objective", "gap", "n_iter", "converged")


def extract_with_checkpoint(
    prepared: PreparedData, rng: np.random.RandomState, params: Mapping[str, Any]
) -> ComponentResult:
    """The components of a fit, those found so far kept in its checkpoint, if it has one."""
    operator, recipe = prepared.operator, prepared.fit_spec
    if params["checkpoint"] is None:
        if params["resume"]:
            raise ValueError("resume=True goes on from a checkpoint; give checkpoint=, the file it is kept in.")
        return solve_all_components(operator.with_column_cache(), recipe, rng)
    if recipe.is_block:
        raise ValueError(
            'checkpoint keeps components that are found one after the other; method="block" finds all at once.'
        )
    kept = Checkpoint.from_prepared(prepared, params)
    standing = kept.load(rng) if params["resume"] else kept.begin()
    return solve_all_components(operator, recipe, rng, standing, partial(kept.save, rng=rng))


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds the components found so far, for one matrix and one set of parameters.

    Attributes
    ----------
    path : Path
    fingerprint : str
        Of the shape and the parameters: another fit does not go on from this one.
    moments : Moments
        Of the data; other data have other ones. The same data read in other blocks have them up to rounding.
    probe : ndarray of shape (3, 3)
        Products of a few random combinations of the columns, which means and norms alone do not tell.
    precision : float
        Relative rounding error of such a product.
    """

    path: Path
    fingerprint: str
    moments: Moments
    probe: Array
    probe_tolerance: float

    @classmethod
    def from_prepared(cls, prepared: PreparedData, params: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of a fit, before it begins."""
        idle = ("callback", "verbose", "checkpoint", "resume", "memory_limit", "warm_start")
        telling = {name: value for name, value in params.items() if name not in idle}
        facts = [list(prepared.operator.shape), to_json_value(telling)]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=_serialize_param).encode())
        operator = prepared.operator
        random = np.random.RandomState(0).standard_normal((operator.shape[1], 3))
        R = Scores.from_loadings(operator, operator.to_backend(random)).gram_root
        return cls(Path(params["checkpoint"]), digest.hexdigest(), prepared.moments, R.T @ R, operator.precision)

    def begin(self) -> SolverState:
        """Nothing is known yet; refuse to write over anything but a checkpoint, or where nothing can be written."""
        if self.path.exists():
            self._read_checkpoint()
        elif not self.path.parent.is_dir():
            raise ValueError(f"The checkpoint {str(self.path)!r} cannot be written: there is no such folder.")
        return SolverState()

    def _read_checkpoint(self) -> tuple[ModelHeader, dict[str, Array]]:
        """What the file holds, if it is a checkpoint."""
        try:
            header, arrays = read_model(self.path)
        except (OSError, ModelFileError) as error:
            told = f"{str(self.path)!r} is truncated or not a gpower model"
            raise ModelFileError(f"{told}, and a checkpoint replaces nothing else; give another path.") from error
        if header["class"] != "Checkpoint":
            raise ModelFileError(f"{str(self.path)!r} is not a checkpoint; give another path.")
        return header, arrays

    def save(self, state: SolverState, rng: np.random.RandomState) -> None:
        """Write how far the components are, and where the generator of random starts is; whole or not at all."""
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
        of_data = {
            "mean": np.asarray(self.moments.mean),
            "norms": np.asarray(self.moments.column_norms),
            "probe": self.probe,
            "columns": state.working_set,
        }
        try:
            write_model(self.path, header, arrays | of_data | {"generator": np.asarray(keys)})
        except OSError as error:
            reason = error.strerror or str(error)
            before = f" What was found before is still in {str(self.path)!r}." if self.path.exists() else ""
            raise OSError(
                f"The checkpoint {str(self.path)!r} could not be written: {reason}. The fit stops here, with "
                f"{state.n_final} component(s) found.{before}"
            ) from error

    def load(self, rng: np.random.RandomState) -> SolverState | None:
        """How far an earlier fit of the same problem was; the generator goes on where it was. None yet: nothing."""
        if not self.path.exists():
            return None
        header, arrays = self._read_checkpoint()
        check_header_fields(self.path, header, {"fingerprint": str, "notes": list, "settled": int, "generator": list})
        shapes = {"mean": "n", "norms": "n", "probe": "qq", "generator": "s", "columns": "c"}
        check_array_shapes(self.path, arrays, shapes)
        if header["fingerprint"] != self.fingerprint or not self._is_same_data(arrays):
            raise ValueError(
                f"{str(self.path)!r} is a checkpoint of other data or other parameters, so this fit cannot go on from "
                "it; give another path, or resume=False to begin anew."
            )
        with convert_read_errors(
            lambda what: ModelFileError(f"{str(self.path)!r} is damaged: it is no checkpoint ({what}).")
        ):
            position, has_gauss, cached = header["generator"]
            units = [self._read_component(arrays, i, notes) for i, notes in enumerate(header["notes"])]
            rng.set_state(("MT19937", arrays["generator"], position, has_gauss, cached))
        return SolverState(tuple(units), header["settled"], arrays["columns"])

    def _read_component(self, arrays: Mapping[str, Array], i: int, notes: Sequence[str]) -> ComponentResult:
        """The component number i."""
        own = {name: arrays[f"{i}:{name}"] for name in _RESULT_ARRAYS}
        shapes = dict.fromkeys(_RESULT_ARRAYS, "u") | {"Z": "nu", "mean": "n"}
        check_array_shapes(self.path, own | {"mean": arrays["mean"]}, shapes)
        return ComponentResult(**own, notes=tuple(map(str, notes)), ascent_loadings=arrays.get(f"{i}:end"))

    def _is_same_data(self, arrays: Mapping[str, Array]) -> bool:
        """Whether means, norms and products are those of this fit's data, up to rounding."""
        mean, norms, probe = arrays["mean"], arrays["norms"], arrays["probe"]
        if mean.shape != np.shape(self.moments.mean) or probe.shape != self.probe.shape:
            return False
        spread = SAME_DATA_TOLERANCE * np.asarray(self.moments.column_norms) * np.asarray(self.moments.scale)
        close = np.abs(mean - self.moments.mean) <= SAME_DATA_TOLERANCE * np.abs(self.moments.mean) + spread
        size = SAME_DATA_TOLERANCE * float(np.max(self.moments.column_norms, initial=0.0))
        alike = max(SAME_DATA_TOLERANCE, 1e3 * self.probe_tolerance) * float(np.trace(self.probe))
        same_products = np.allclose(probe, self.probe, rtol=0, atol=alike)
        return bool(
            np.all(close)
            and np.allclose(norms, self.moments.column_norms, rtol=SAME_DATA_TOLERANCE, atol=size)
            and same_products
        )


def _serialize_param(value: Any) -> str:
    """A parameter that JSON does not hold; where a generator of random numbers is, the checkpoint says itself."""
    return type(value).__name__ if isinstance(value, np.random.RandomState | np.random.Generator) else str(value)
