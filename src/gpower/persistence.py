"""Models on disk without pickle: a NumPy archive of plain arrays with a JSON header.

The header names the format and its version; everything else is numbers. A reader of the file needs NumPy
and nothing of this package.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.npyio import NpzFile

from gpower.devices import on_host

FORMAT, VERSION = "gpower-model", 1

Header: TypeAlias = dict[str, Any]  # what JSON holds


class ModelFileError(ValueError):
    """A file that does not hold a model this version can read."""


def write_model(path: str | os.PathLike[str], header: Header, arrays: dict[str, np.ndarray]) -> None:
    """Write a model atomically: the file is there whole, or the old one is untouched."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, "version": VERSION, **header})
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as handle:
        try:
            np.savez_compressed(handle, **{"header": np.frombuffer(text.encode(), np.uint8), **arrays})  # type: ignore[arg-type]
            handle.flush()
            os.chmod(handle.name, 0o644)
            os.replace(handle.name, target)
        except BaseException:
            Path(handle.name).unlink(missing_ok=True)
            raise


def jsonable(value: object) -> Any:
    """Parameters as JSON holds them; of an object that it does not hold, its kind."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else type(value).__name__


def read_model(path: str | os.PathLike[str]) -> tuple[Header, dict[str, np.ndarray]]:
    """Header and arrays of a model file."""
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {str(source)!r}.")
    try:
        with source.open("rb") as handle, NpzFile(handle) as archive:
            arrays = dict(archive)
        header = json.loads(arrays.pop("header").tobytes())
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, KeyError, zlib.error):
        raise ModelFileError(
            f"{str(source)!r} is truncated or not a gpower model; write one with model.save(path)."
        ) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{str(source)!r} is a NumPy archive but not a gpower model.")
    if header["version"] > VERSION:
        raise ModelFileError(
            f"{str(source)!r} was written by a newer gpower: its format is {header['version']}, "
            f"this one reads up to {VERSION}. Upgrade gpower to read it."
        )
    return header, arrays


def read_object(path: str | os.PathLike[str], kind: str) -> tuple[Header, dict[str, Any]]:
    """Header and values of what an object of the class `kind` wrote: the inverse of `flattened`, with plain numbers."""
    header, arrays = read_model(path)
    if header["class"] != kind:
        raise ValueError(f"{str(path)!r} holds a {header['class']}, not a {kind}; load it with that class.")
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        table, _, column = name.rpartition(":")
        place = values.setdefault(table, {}) if table else values
        place[column] = array.item() if array.ndim == 0 else array.astype(object) if array.dtype.kind == "U" else array
    return header, values


def flattened(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays by name, a table's as "table:column", and names as text: what needs no pickle."""
    flat: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}:{column}": array for column, array in flattened(value).items()}
        else:
            array = on_host(value)
            flat[name] = array.astype(str) if array.dtype == object else array
    return flat
