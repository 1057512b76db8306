"""Refuse references from a store to other files, which would bring the content of any readable file into the results.

HDF5 files can refer to others by external links, external storage and virtual datasets; zarr folders by symbolic links.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpower._utils.arrays import get_package_name
from gpower._utils.text import quote
from gpower.io.stores.matrix_source import StoreError

_MAX_SOFT_LINKS = 16
_HDF5_REMEDY = "Copy the data into one file, or, if you trust the other file, open the dataset with h5py and pass it."


def find_member(group: Any, key: str, name: str) -> Any:
    """Return the array or group at a path within a zarr or h5py group; None if there is none.

    Raise if it, or a group on the way to it, is in another file. `name` names the group in messages.
    """
    if get_package_name(group) != "h5py":
        return group.get(key)
    member = _follow_hdf5_path(group, key, name, 0)
    check_hdf5_dataset(member, f"{name}, {key}")
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


def check_hdf5_dataset(member: Any, name: str) -> None:
    """Raise if a dataset takes its numbers from other files; accept any other object."""
    if getattr(member, "external", None):
        files = ", ".join(quote(os.fsdecode(file)) for file, *_ in member.external[:3])
        raise StoreError(f"{name}: it has external storage in {files}, which is not read. {_HDF5_REMEDY}")
    if getattr(member, "is_virtual", False):
        raise StoreError(f"{name}: it is a virtual dataset, a view of others, which is not read. {_HDF5_REMEDY}")


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
