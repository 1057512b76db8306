"""Edited fields, links, pipes, and damage behind which a checksum stands: the answer is that of the whole file.

A file with a checksum or a size of its own (an archive, a compressed file, a header with counts) that is damaged is
refused, or gives the numbers of the undamaged file, or a warning. So does a file behind a link or in a pipe.
"""

import gzip
import json
import os
import re
import threading
import warnings
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from tests.fuzz import files

#: Kinds of files whose every byte is protected by a checksum.
CHECKED = ("csv.gz", "csv.bz2", "csv.xz", "mtx.gz", "npz", "xlsx", "model", "cross-validated model", "path")
CHECKED += tuple(kind for kind in files.KINDS if kind.startswith("npz "))
ABSURD = (0, 1, -1, 2, 13, 1 << 31, (1 << 63) - 1)


class SilentDifferenceError(AssertionError):
    """Another answer than that of the undamaged file, without a word."""


def collect_arrays(answer):
    """Return the numbers and names of an answer as a list of arrays."""
    if isinstance(answer, dict):
        return [np.array(sorted(map(repr, answer.items())))]
    if hasattr(answer, "X"):  # a table
        names = [np.array(part) for part in (answer.feature_names, answer.sample_names) if part is not None]
        return [*collect_arrays(answer.X), *names]
    if sp.issparse(answer):
        return [answer.toarray()]
    if isinstance(answer, list | tuple):
        return [array for each in answer for array in collect_arrays(each)]
    return [np.asarray(answer)]


def have_equal_arrays(a, b):
    pairs = zip(a, b, strict=False)
    equal = (np.array_equal(x, y, equal_nan=x.dtype.kind == y.dtype.kind == "f") for x, y in pairs)
    return len(a) == len(b) and all(equal)


# ---- field-aware edits: what a file then says is another valid answer, or an error


def edit_json(rng, text):
    """Return a JSON text with one value, at any depth, replaced."""
    content = json.loads(text)
    places, stack = [], [content]
    while stack:
        node = stack.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                stack.append(value)
    if places:
        node, key = places[rng.integers(len(places))]
        values = [*ABSURD, None, "x", [], {}, "<f8", "|O", [3, 3], 0.5, "\x1b[2J"]
        node[key] = values[rng.integers(len(values))]
    return json.dumps(content)


def edit_array(rng, array):
    """Return an array with an absurd entry, another type or another shape."""
    array = np.array(array)
    how = rng.integers(5)
    if how == 0 and array.size and array.dtype.kind in "iu":
        array.flat[rng.integers(array.size)] = ABSURD[rng.integers(4)]
    elif how == 1 and array.ndim:
        array = np.concatenate([array, array[:1]])
    elif how == 2:
        array = array.ravel()[:-1]
    elif how == 3 and array.dtype.kind in "fiu":
        array = array.astype([np.int8, np.float32, np.uint64, complex][rng.integers(4)])
    elif array.size and array.dtype.kind == "f":
        array.flat[rng.integers(array.size)] = [np.nan, np.inf, 1e300][rng.integers(3)]
    return array


def edit_npz(rng, path):
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    name = list(arrays)[rng.integers(len(arrays))]
    if name == "header":
        arrays[name] = np.frombuffer(edit_json(rng, arrays[name].tobytes()).encode(), np.uint8)
    else:
        arrays[name] = edit_array(rng, arrays[name])
    np.savez_compressed(path, **arrays)


def edit_hdf5(rng, path):
    with h5py.File(path, "r+") as file:
        places = []
        file.visititems(lambda name, item: places.append(item))
        item = [file, *places][rng.integers(len(places) + 1)]
        if len(item.attrs) and rng.integers(2):
            name = list(item.attrs)[rng.integers(len(item.attrs))]
            value = [*ABSURD, "x", np.array([12, 7]), np.array([12, 1 << 40])][rng.integers(len(ABSURD) + 3)]
            item.attrs[name] = value
        elif isinstance(item, h5py.Dataset):
            name, group, content = item.name, item.parent, item[()]
            is_number = isinstance(content, np.ndarray) and content.dtype.kind in "fiu"
            del group[name]
            if is_number and rng.integers(4):
                group[name] = edit_array(rng, content)
        elif len(item):
            del item[list(item)[rng.integers(len(item))]]


def edit_zarr(rng, path):
    described = sorted(file for file in path.rglob("*") if file.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup"))
    file = described[rng.integers(len(described))]
    file.write_text(edit_json(rng, file.read_text()))


def edit_parquet(rng, path):
    table = pq.read_table(path)
    described = table.schema.metadata[b"pandas"]
    j = int(rng.integers(table.num_columns))
    columns = [
        pa.array(["x"] * table.num_rows),
        pa.array([[1.0]] * table.num_rows),
        pa.array([None] * table.num_rows, pa.float64()),
        pa.nulls(table.num_rows),
        pa.array([True] * table.num_rows),
        pa.array(np.arange(table.num_rows), pa.timestamp("s")),
    ]
    how = int(rng.integers(len(columns) + 2))
    if how < len(columns):
        table = table.set_column(j, table.column_names[j], columns[how])
    elif how == len(columns):
        table = table.slice(0, 0)
    else:
        table = table.rename_columns([table.column_names[j]] * table.num_columns)
    metadata = {b"pandas": edit_json(rng, described).encode()}
    pq.write_table(table.replace_schema_metadata(metadata) if rng.integers(2) else table, path)


def edit_workbook(rng, path):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = [name for name in members if name.endswith(".xml")][rng.integers(len(members) - 3)]
    members[name] = files.misnumbered(rng, members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def edit_text(rng, path):
    """Replace a cell of a text, or a field of its header."""
    is_packed = path.suffix == ".gz"
    content = gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()
    found = list(re.finditer(rb"[^\s,\t]+", content))
    at = found[rng.integers(min(len(found), 40) if rng.integers(2) else len(found))]
    cells = [b"", b"NA", b"-", b"1e999", b"1,5", b'"', b"0x10", b"\xef\xbb\xbf", b"nan", b"-1", b"99999999999", b"x y"]
    content = content[: at.start()] + cells[rng.integers(len(cells))] + content[at.end() :]
    path.write_bytes(gzip.compress(content) if is_packed else content)


def edit_fields(rng, path):
    """Edit a field of a file in the terms of its format."""
    edit = {".zarr": edit_zarr, ".npz": edit_npz, ".parquet": edit_parquet, ".xlsx": edit_workbook}
    edit |= {".h5": edit_hdf5, ".h5ad": edit_hdf5, ".bz2": files.damage, ".xz": files.damage}
    edit[".npy"] = lambda rng, path: np.save(path, edit_array(rng, np.load(path)))
    edit.get(path.suffix, edit_text)(rng, path)


# ---- links and pipes


def replace_by_link(rng, path):
    """Replace a file by a link, a chain or a loop of links, a pipe, an empty file or a folder; return its writer."""
    target = path.with_name(f"target-{path.name}")
    path.rename(target)
    how = int(rng.integers(8))
    middle = path.with_name("middle")
    middle.symlink_to(target)
    if how == 5:
        path.touch() if rng.integers(2) else path.mkdir()
    elif how == 7 and target.is_file():
        os.mkfifo(path)
        threading.Thread(target=feed_pipe, args=(path, target.read_bytes()), daemon=True).start()
    else:
        goals = (target.name, target, middle, path, path.with_name("absent"), None, "/dev/null", target)
        path.symlink_to(goals[how])


def feed_pipe(path, content):
    try:
        with path.open("wb") as pipe:
            pipe.write(content)
    except OSError:  # the reader has left
        pass


def release_writer(path):
    """Open a pipe and close it, so that a thread that waits for a reader ends."""
    if path.is_fifo():
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


# ---- one case


def compare(use, expected, may_differ):
    """Return a reader that raises if the answer differs from the expected one and no warning was given."""

    def use_and_compare(path):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            answer = collect_arrays(use(path))
        if not (may_differ or said or have_equal_arrays(answer, expected)):
            raise SilentDifferenceError(f"{[array.shape for array in answer]}")

    return use_and_compare


def run_case(rng, kind, use, path, expected):
    """Return what was done to a file and the outcome of reading it."""
    how = ("edit", "link", "damage")[rng.integers(3 if kind in CHECKED else 2)]
    if how == "edit":
        edit_fields(rng, path)
    elif how == "link":
        replace_by_link(rng, path)
    else:
        path.write_bytes(files.damaged(rng, path.read_bytes()))
    end = files.outcome(compare(use, collect_arrays(expected), may_differ=how == "edit"), path)
    release_writer(path)
    return end if end in ("read", "refused") else f"{how}: {end}"


if __name__ == "__main__":
    files.main(run_case, __doc__, 1_000)
