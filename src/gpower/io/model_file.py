"""Save and load models without pickle: a NumPy archive of plain arrays with a JSON header.

The header gives the format and its version; everything else is numbers. Reading the file needs only NumPy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sklearn

from gpower._utils.arrays import to_numpy
from gpower._utils.files import FileError, format_error_line, refuse_pipe, write_file_atomically
from gpower._utils.text import format_names
from gpower.io.stores.npy import read_npz

MODEL_FORMAT, MODEL_FORMAT_VERSION = "gpower-model", 1

#: The only key of a JSON object that stores a dictionary as pairs, because its keys are not all text.
KEY_VALUE_PAIRS_KEY = "pairs of keys and values"

#: Field of the header that lists the arrays of the file.
_ARRAY_NAMES_FIELD = "arrays"

ModelHeader: TypeAlias = dict[str, Any]  # values that JSON can store


class ModelFileError(FileError):
    """A file that is not a model, or is one that this version cannot read."""


def write_model(path: str | os.PathLike[str], header: ModelHeader, arrays: dict[str, np.ndarray]) -> None:
    """Write a model atomically: the file is replaced only once the new one is complete."""
    from gpower import __version__

    versions = {"gpower": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    preamble = {
        "format": MODEL_FORMAT,
        "version": MODEL_FORMAT_VERSION,
        "written_by": versions,
        _ARRAY_NAMES_FIELD: list(arrays),  # so that a reader can name an array that was lost
    }
    text = json.dumps(to_json_value(preamble | header))
    with write_file_atomically(Path(path)) as temp_path, temp_path.open("wb") as handle:
        np.savez_compressed(handle, **{"header": np.frombuffer(text.encode(), np.uint8), **arrays})  # type: ignore[arg-type]


def simulate_json_round_trip(value: object) -> Any:
    """Return parameters as they are read back from a file; objects that JSON cannot store become their class names.

    Examples
    --------
    >>> import numpy as np
    >>> simulate_json_round_trip({"groups": {np.int64(3): "a", "3": "b"}, "gamma": np.float64(0.1), "mu": None})
    {'groups': {3: 'a', '3': 'b'}, 'gamma': 0.1, 'mu': None}
    """
    return json.loads(json.dumps(to_json_value(value)), object_hook=_restore_mapping_keys)


def to_json_value(value: object) -> Any:
    """Return a value that JSON can store.

    A mapping whose keys are not all text becomes pairs, a pandas Series with text labels a dictionary, an array a list,
    and an unknown object the name of its class.
    """
    if isinstance(value, Mapping):
        pairs = [[to_json_value(key), to_json_value(each)] for key, each in value.items()]
        has_text_keys = all(isinstance(key, str) for key, _ in pairs)
        return dict(pairs) if has_text_keys else {KEY_VALUE_PAIRS_KEY: sorted(pairs, key=lambda pair: str(pair[0]))}
    if isinstance(value, list | tuple | Set | range):
        return [to_json_value(each) for each in value]
    if hasattr(value, "to_dict") and all(isinstance(key, str) for key in value.to_dict()):
        return to_json_value(value.to_dict())
    if hasattr(value, "tolist"):  # an array, a NumPy scalar, or a Series without text labels
        return to_json_value(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value if isinstance(value, str | int | float | None) else type(value).__name__


def _restore_mapping_keys(value: ModelHeader) -> dict[Any, Any]:
    """Return a dictionary read from JSON with its original keys; the inverse of the pairs of `to_json_value`."""
    return dict(value[KEY_VALUE_PAIRS_KEY]) if list(value) == [KEY_VALUE_PAIRS_KEY] else value


def read_model(path: str | os.PathLike[str]) -> tuple[ModelHeader, dict[str, np.ndarray]]:
    """Return the header and the arrays of a model file."""
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {str(source)!r}.")
    if source.is_dir():
        raise ModelFileError(f"{str(source)!r} is a folder; give its model file, {str(source / 'model.npz')!r}.")
    refuse_pipe(source, ModelFileError)
    if not _is_zip_file(source):
        problem = f"{str(source)!r} is not a gpower model but some other file"
        raise ModelFileError(f"{problem}; give the model.npz that gpower fit -o or model.save(path) wrote.")
    try:
        arrays = read_npz(source)
        if "header" not in arrays:
            raise ValueError("it has no header")
        header = json.loads(arrays.pop("header").tobytes(), object_hook=_restore_mapping_keys)
    except Exception as error:  # a damaged archive can raise anything
        reason = format_error_line(error).removeprefix(f"{source}: ")
        problem = f"{str(source)!r} is truncated or not a gpower model ({reason})"
        raise ModelFileError(f"{problem}; write one with model.save(path).") from None
    if not isinstance(header, dict) or header.get("format") != MODEL_FORMAT:
        raise ModelFileError(f"{str(source)!r} is a NumPy archive but not a gpower model.")
    header.setdefault(_ARRAY_NAMES_FIELD, [])  # earlier files have no such field
    check_header_fields(source, header, {"version": int, "class": str, _ARRAY_NAMES_FIELD: list})
    if header["version"] > MODEL_FORMAT_VERSION:
        raise ModelFileError(
            f"{str(source)!r} was written by a newer gpower: its format is {header['version']}, "
            f"this one reads up to {MODEL_FORMAT_VERSION}. Upgrade gpower to read it."
        )
    return header, arrays


def _is_zip_file(path: Path) -> bool:
    """Return whether a file begins like a zip archive; True if it is empty or cannot be opened, for later errors."""
    try:
        with path.open("rb") as handle:
            return handle.read(4) in (b"PK\x03\x04", b"")
    except OSError:
        return True


def check_header_fields(path: str | os.PathLike[str], header: ModelHeader, field_types: Mapping[str, type]) -> None:
    """Raise if a field of the header is missing or not of the given type."""
    for name, kind in field_types.items():
        if type(header.get(name)) is not kind:
            raise ModelFileError(f"{str(path)!r} is damaged: its header lacks {name!r} as a {kind.__name__}.")


def check_array_shapes(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], shape_letters: Mapping[str, str]
) -> None:
    """Raise if an array is missing, has the wrong kind of values, or a shape that does not fit the others.

    A letter stands for a length, the same wherever it occurs: ``{"components_": "mn", "mean_": "n"}``. Arrays with
    "names" in their name hold text, all others numbers.

    Examples
    --------
    >>> import numpy as np
    >>> check_array_shapes("m.npz", {"a_": np.ones((2, 3)), "b_": np.ones(2)}, {"a_": "mn", "b_": "n"})
    Traceback (most recent call last):
    ...
    gpower.io.model_file.ModelFileError: 'm.npz' is damaged: b_ has the shape (2,).
    """
    lengths: dict[str, int] = {}
    for name, letters in shape_letters.items():
        if name not in arrays:
            raise ModelFileError(f"{str(path)!r} is damaged: it has no {name}.")
        array = np.asarray(arrays[name])
        if array.dtype.kind not in ("OU" if "names" in name else "fiub"):
            raise ModelFileError(f"{str(path)!r} is damaged: {name} holds {array.dtype}.")
        pairs = zip(letters, array.shape, strict=False)
        if array.ndim != len(letters) or any(lengths.setdefault(letter, size) != size for letter, size in pairs):
            raise ModelFileError(f"{str(path)!r} is damaged: {name} has the shape {array.shape}.")


def read_saved_object(path: str | os.PathLike[str], class_name: str) -> tuple[ModelHeader, dict[str, Any]]:
    """Return the header and the values of a saved object of the given class; the inverse of `flatten_to_arrays`.

    Arrays without dimensions become Python numbers.
    """
    header, arrays = read_model(path)
    if header["class"] != class_name:
        raise ModelFileError(f"{str(path)!r} holds a {header['class']}, not a {class_name}; load it with that class.")
    lost = [str(name) for name in header[_ARRAY_NAMES_FIELD] if str(name) not in arrays]
    if lost:
        raise ModelFileError(f"{str(path)!r} is damaged: it has no {format_names(lost)}.")
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        table, _, column = name.rpartition(":")
        target = values.setdefault(table, {}) if table else values
        if not isinstance(target, dict) or column in target:
            raise ModelFileError(f"{str(path)!r} is damaged: it holds {name} twice.")
        target[column] = array.item() if array.ndim == 0 else array.astype(object) if array.dtype.kind == "U" else array
    return header, values


def flatten_to_arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return arrays by name, those of a nested dictionary as "table:column", with objects converted to text."""
    flat: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}:{column}": array for column, array in flatten_to_arrays(value).items()}
        else:
            array = to_numpy(value)
            flat[name] = array.astype(str) if array.dtype == object else array
    return flat
