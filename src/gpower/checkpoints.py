"""Components found so far, kept in a file, so that an interrupted fit goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpower.extraction import Extraction
from gpower.operators import Moments
from gpower.persistence import read_model, write_model

_ARRAYS = ("Z", "gamma", "objective", "gap", "n_iter", "converged")


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds the components found so far, for one matrix and one set of parameters.

    Attributes
    ----------
    path : Path
    fingerprint : str
        Of the data and the parameters: another fit does not go on from this one.
    """

    path: Path
    fingerprint: str

    @classmethod
    def of(cls, path: str | os.PathLike[str], moments: Moments, shape: tuple[int, int], params: Any) -> Checkpoint:
        """The checkpoint of a fit, before it begins."""
        digest = hashlib.sha256(json.dumps([list(shape), params], sort_keys=True, default=str).encode())
        for values in (moments.mean, moments.norms):
            digest.update(np.ascontiguousarray(values, np.float64).round(10).tobytes())
        return cls(Path(path), digest.hexdigest())

    def save(self, units: Sequence[Extraction], rng: np.random.RandomState) -> None:
        """Write the components found so far, and where the generator of random starts is; whole or not at all."""
        arrays = {f"{i}:{name}": getattr(unit, name) for i, unit in enumerate(units) for name in _ARRAYS}
        _, keys, position, has_gauss, cached = rng.get_state(legacy=True)
        header = {
            "class": "Checkpoint",
            "fingerprint": self.fingerprint,
            "notes": [list(unit.notes) for unit in units],
            "generator": [int(position), int(has_gauss), float(cached)],
        }
        write_model(self.path, header, arrays | {"generator": np.asarray(keys)})

    def load(self, rng: np.random.RandomState) -> list[Extraction]:
        """The components of an earlier fit of the same problem; the generator goes on where it was. None yet: empty."""
        if not self.path.exists():
            return []
        header, arrays = read_model(self.path)
        if header.get("class") != "Checkpoint":
            raise ValueError(f"{str(self.path)!r} is not a checkpoint; give another path.")
        if header["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"{str(self.path)!r} is a checkpoint of other data or other parameters, so this fit cannot go on from "
                "it; give another path, or resume=False to begin anew."
            )
        position, has_gauss, cached = header["generator"]
        rng.set_state(("MT19937", arrays.pop("generator"), position, has_gauss, cached))
        return [
            Extraction(**{name: arrays[f"{i}:{name}"] for name in _ARRAYS}, notes=tuple(notes))
            for i, notes in enumerate(header["notes"])
        ]
