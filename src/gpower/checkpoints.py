"""Components found so far, kept in a file, so that an interrupted fit goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpower.extraction import Extraction
from gpower.operators import Moments
from gpower.persistence import jsonable, read_model, write_model
from gpower.preparation import Prepared
from gpower.shared_rounds import Standing, extract_components

#: Relative difference of means and norms up to which two matrices are taken for the same.
SAME = 1e-8
_ARRAYS = ("Z", "gamma", "objective", "gap", "n_iter", "converged")


def extract_kept(prepared: Prepared, rng: np.random.RandomState, params: Mapping[str, Any]) -> Extraction:
    """The components of a fit, those found so far kept in its checkpoint, if it has one."""
    operator, recipe = prepared.operator, prepared.recipe
    if params["checkpoint"] is None:
        if params["resume"]:
            raise ValueError("resume=True goes on from a checkpoint; give checkpoint=, the file it is kept in.")
        return extract_components(operator.gathering(), recipe, rng)
    if recipe.block:
        raise ValueError(
            'checkpoint keeps components that are found one after the other; method="block" finds all at once.'
        )
    kept = Checkpoint.of(prepared, params)
    standing = kept.load(rng) if params["resume"] else None
    return extract_components(operator, recipe, rng, standing, partial(kept.save, rng=rng))


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
    """

    path: Path
    fingerprint: str
    moments: Moments

    @classmethod
    def of(cls, prepared: Prepared, params: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of a fit, before it begins."""
        idle = ("callback", "verbose", "checkpoint", "resume", "memory_limit")
        telling = {name: value for name, value in params.items() if name not in idle}
        facts = [list(prepared.operator.shape), jsonable(telling)]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=_word).encode())
        return cls(Path(params["checkpoint"]), digest.hexdigest(), prepared.moments)

    def save(self, standing: Standing, rng: np.random.RandomState) -> None:
        """Write how far the components are, and where the generator of random starts is; whole or not at all."""
        arrays = {f"{i}:{name}": getattr(unit, name) for i, unit in enumerate(standing.units) for name in _ARRAYS}
        arrays |= {f"{i}:end": unit.end for i, unit in enumerate(standing.units) if unit.end is not None}
        _, keys, position, has_gauss, cached = rng.get_state(legacy=True)
        header = {
            "class": "Checkpoint",
            "fingerprint": self.fingerprint,
            "notes": [list(unit.notes) for unit in standing.units],
            "settled": standing.settled,
            "generator": [int(position), int(has_gauss), float(cached)],
        }
        of_data = {
            "mean": np.asarray(self.moments.mean),
            "norms": np.asarray(self.moments.norms),
            "columns": standing.columns,
        }
        try:
            write_model(self.path, header, arrays | of_data | {"generator": np.asarray(keys)})
        except OSError as error:
            reason = error.strerror or str(error)
            before = f" What was found before is still in {str(self.path)!r}." if self.path.exists() else ""
            raise OSError(
                f"The checkpoint {str(self.path)!r} could not be written: {reason}. The fit stops here, with "
                f"{standing.settled} component(s) found.{before}"
            ) from error

    def load(self, rng: np.random.RandomState) -> Standing | None:
        """How far an earlier fit of the same problem was; the generator goes on where it was. None yet: nothing."""
        if not self.path.exists():
            return None
        header, arrays = read_model(self.path)
        if header.get("class") != "Checkpoint":
            raise ValueError(f"{str(self.path)!r} is not a checkpoint; give another path.")
        if header["fingerprint"] != self.fingerprint or not self._same_data(arrays.pop("mean"), arrays.pop("norms")):
            raise ValueError(
                f"{str(self.path)!r} is a checkpoint of other data or other parameters, so this fit cannot go on from "
                "it; give another path, or resume=False to begin anew."
            )
        position, has_gauss, cached = header["generator"]
        rng.set_state(("MT19937", arrays.pop("generator"), position, has_gauss, cached))
        units = [
            Extraction(
                **{name: arrays[f"{i}:{name}"] for name in _ARRAYS}, notes=tuple(notes), end=arrays.get(f"{i}:end")
            )
            for i, notes in enumerate(header["notes"])
        ]
        return Standing(tuple(units), header["settled"], arrays["columns"])

    def _same_data(self, mean: np.ndarray, norms: np.ndarray) -> bool:
        """Whether means and norms are those of this fit's data, up to rounding."""
        spread = SAME * np.asarray(self.moments.norms) * np.asarray(self.moments.scale)
        close = np.abs(mean - self.moments.mean) <= SAME * np.abs(self.moments.mean) + spread
        size = SAME * float(np.max(self.moments.norms, initial=0.0))
        return bool(np.all(close) and np.allclose(norms, self.moments.norms, rtol=SAME, atol=size))


def _word(value: Any) -> str:
    """A parameter that JSON does not hold; where a generator of random numbers is, the checkpoint says itself."""
    return type(value).__name__ if isinstance(value, np.random.RandomState | np.random.Generator) else str(value)
