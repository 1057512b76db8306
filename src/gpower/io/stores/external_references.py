"""Refuse references from a store to other files, which would bring the content of any readable file into the results.

A virtual dataset is read if the user asks for it and all its sources are in the folder of its file.

HDF5 files can refer to others by external links, external storage and virtual datasets; zarr folders by symbolic links.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from gpower._utils.arrays import get_package_name
from gpower._utils.messages import format_param
from gpower._utils.text import quote
from gpower._utils.warnings import warn
from gpower.io.stores.hdf5_check import check_hdf5_heaps
from gpower.io.stores.matrix_source import StoreError

_MAX_SOFT_LINKS = 16
#: Environment variable with folders in which HDF5 looks for the sources of virtual datasets first.
_SOURCE_FOLDERS_VARIABLE = "HDF5_VDS_PREFIX"
_HDF5_REMEDY = "Copy the data into one file, or, if you trust the other file, open the dataset with h5py and pass it."


def find_member(group: Any, key: str, name: str, virtual: bool = False) -> Any:
    """Return the array or group at a path within a zarr or h5py group; None if there is none.

    Raise if it, or a group on the way to it, is in another file. With `virtual`, accept a virtual dataset; check its
    sources with `iterate_virtual_sources`. `name` names the group in messages.
    """
    if get_package_name(group) != "h5py":
        return group.get(key)
    member = _follow_hdf5_path(group, key, name, 0)
    check_hdf5_dataset(member, f"{name}, {key}", virtual)
    return member


def _follow_hdf5_path(group: Any, key: str, name: str, n_soft_links: int) -> Any:
    """Return the object at a path within a group, link by link, without ever opening another file."""
    if n_soft_links > _MAX_SOFT_LINKS:
        raise StoreError(f"{name}: {quote(key)} is a loop of links.")
    member = group.file if key.startswith("/") else group
    for part in key.split("/"):
        if part in ("", "."):
            continue
        link: Any = member.get(part, getlink=True) if hasattr(member, "get") else None
        link_type = type(link).__name__
        if link_type == "ExternalLink":
            target = quote(link.filename)
            raise StoreError(
                f"{name}: {quote(part)} is an external link to {target}, which is not read. {_HDF5_REMEDY}"
            )
        if link_type == "SoftLink":
            member = _follow_hdf5_path(member, link.path, name, n_soft_links + 1)
        else:
            member = None if link is None else member[part]
        if member is None:
            return None
    return member


def check_hdf5_dataset(member: Any, name: str, virtual: bool = False) -> None:
    """Raise if a dataset takes its numbers from other files; accept any other object, and virtual ones if `virtual`."""
    if getattr(member, "external", None):
        files = ", ".join(quote(os.fsdecode(file)) for file, *_ in member.external[:3])
        raise StoreError(f"{name}: it has external storage in {files}, which is not read. {_HDF5_REMEDY}")
    if getattr(member, "is_virtual", False) and not virtual:
        raise StoreError(
            f"{name}: it is a virtual dataset, a view of other datasets, which is not read by default. If they are "
            f"in the folder of the file, read it with {format_param('virtual', True)}. {_HDF5_REMEDY}"
        )


def iterate_virtual_sources(dataset: Any, name: str) -> Iterator[tuple[Any, str]]:
    """Yield each source of a virtual dataset with its name for messages; every other object has none.

    Raise if a source is not a plain dataset of a file in the same folder or below it. Warn if the sources do not cover
    the dataset, because HDF5 fills the gaps without a warning. The file must have been opened by its resolved path,
    because HDF5 looks for the sources in the folder of the path that was opened.
    """
    if not getattr(dataset, "is_virtual", False):
        return
    if _SOURCE_FOLDERS_VARIABLE in os.environ:
        raise StoreError(f"{name}: {_SOURCE_FOLDERS_VARIABLE} leads to sources in other folders; unset this variable.")
    h5py = import_module("h5py")
    file_path = Path(dataset.file.filename)
    n_covered = 0
    for source in dataset.virtual_sources():
        place = f"{name}: its source {quote(source.dset_name)} in {quote(source.file_name)}"
        path = file_path if source.file_name == "." else (file_path.parent / source.file_name).resolve()
        if "%" in source.file_name + source.dset_name:
            raise StoreError(f"{place} is a series of files or datasets, which is not read. {_HDF5_REMEDY}")
        if file_path.parent not in path.parents:
            raise StoreError(f"{place} is outside the folder {quote(str(file_path.parent))}. {_HDF5_REMEDY}")
        if not path.is_file():
            raise StoreError(f"{place} is missing.")
        check_hdf5_heaps(path)
        with h5py.File(str(path), mode="r") as file:
            member = find_member(file, source.dset_name, f"{name}, source {path}", virtual=True)
            if not isinstance(member, h5py.Dataset) or not _holds_selection(member.shape, source):
                raise StoreError(f"{place} is missing, or smaller than the part that is taken from it.")
            if member.is_virtual:
                raise StoreError(f"{place} is a virtual dataset itself, which is not read. {_HDF5_REMEDY}")
            yield member, place
        n_covered += source.vspace.get_select_npoints()
    if n_covered < dataset.size:
        gaps = f"{dataset.size - n_covered} of {dataset.size} numbers have no source and read as {dataset.fillvalue}"
        warn(f"{name}: {gaps}. That is right if they are missing on purpose; otherwise the dataset is incomplete.")


def _holds_selection(shape: tuple[int, ...], source: Any) -> bool:
    """Return whether a dataset of some shape contains the part that an entry of a virtual dataset takes from it."""
    if source.src_space.get_select_type() == import_module("h5py.h5s").SEL_ALL:
        return math.prod(shape) == source.vspace.get_select_npoints()
    _, last = source.src_space.get_select_bounds()
    return len(last) == len(shape) and all(end < length for end, length in zip(last, shape, strict=True))


def check_zarr_folder(path: Path) -> None:
    """Raise if a zarr store is not a folder, or if a symbolic link in it leads out of it."""
    if path.is_file():
        raise StoreError(f"{path}: a zarr store is a folder; files of references to other files are not read.")
    root = path.resolve()
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    target = Path(entry.path).resolve()
                    if target != root and root not in target.parents:
                        place = quote(os.path.relpath(entry.path, root))
                        raise StoreError(
                            f"{path}: {place} is a link to {quote(str(target))}, outside the store, which is not "
                            "read. Copy the data into the store."
                        )
                elif entry.is_dir():
                    folders.append(entry.path)
