"""What a command works on: a file's table, read whole, kept on disk, or handed to a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from gpower.cli.console import caught, note, progress
from gpower.cli.options import Values

if TYPE_CHECKING:
    from gpower.datasets import Table


@dataclass(frozen=True)
class Loaded:
    """The table of a file."""

    table: "Table"
    path: Path
    covariance: bool = False  # whether it is a covariance or correlation matrix
    key: str | None = None  # the array of the file
    where: Literal["memory", "disk", "cluster"] = "memory"
    doubts: tuple[str, ...] = ()  # what the table looks like where that is not how it was read

    @property
    def names(self) -> list[str]:
        """The names of the variables, or x0, x1, …."""
        return list(self.table.feature_names or (f"x{j}" for j in range(self.table.X.shape[1])))

    @property
    def title(self) -> str:
        """The line above an answer: the file and its size."""
        name = {"-": "standard input"}.get(str(self.path), self.path.name or str(self.path))
        n_samples, n_features = self.table.X.shape
        size = f"{n_features} variables" if self.covariance else f"{n_samples} samples × {n_features} variables"
        return f"{name}: {size}"

    @property
    def bytes_on_disk(self) -> float:
        """What a pass reads from disk."""
        n_samples, n_features = self.table.X.shape
        return n_samples * n_features * float(self.table.X.dtype.itemsize) if self.where == "disk" else 0.0

    def decoded(self, cache: Path | None, scheduler: str | None, err: Console) -> "Loaded":
        """A store, read from the folder it is decoded to where there is one."""
        if cache is None:
            return self
        if scheduler is not None:
            raise ValueError("--cache is for this machine; with --scheduler each worker reads the store itself.")
        if self.where != "disk":
            raise ValueError(f"--cache is for stores that are read in blocks; {self.path} is read whole, once.")
        from gpower.io.stores.cache import cached

        with progress(err, f"decoding {self.path.name}"):
            return replace(self, table=replace(self.table, X=cached(self.table.X, cache)))

    @contextmanager
    def shared_with(self, scheduler: str | None) -> Iterator["Loaded"]:
        """The table as a Dask array of a cluster while the connection lasts; without an address, as it is."""
        if scheduler is None:
            yield self
            return
        from gpower.operators.storage.dask import from_store
        from gpower.operators.storage.dask_client import connect

        with caught():  # said when the store was opened
            lazy = replace(self.table, X=from_store(self.path.resolve(), self.key))
        with connect(scheduler):
            yield replace(self, table=lazy, where="cluster")


def load(path: Path, reading: Values, options: Values, err: Console) -> Loaded:
    """The table of a file as the flags of `read_table` say, with doubts about it as notes on stderr."""
    from gpower.io.stores.open import is_store

    with progress(err, f"reading {path.name}"):
        if is_store(path, options.get("memory_limit")) and options["covariance"] is None:
            loaded = _open(path, reading)
        else:
            loaded = _read(path, reading, options)
    note(err, loaded.doubts)
    return loaded


def _read(path: Path, reading: Values, options: Values) -> Loaded:
    """A table that is read whole."""
    from gpower.cli.hints import hints
    from gpower.datasets import TableError, read_table
    from gpower.io.tables.errors import MissingCell
    from gpower.io.tables.table import TableFile

    given = {name: value for name, value in reading.items() if value is not None}
    try:
        table = read_table(path, **given, complete=options["missing"] == "error")
    except MissingCell as error:
        reason = f"{error.reason}, or have such cells estimated with --missing impute"
        raise TableError(path, reason, **error.options) from None
    covariance = options["covariance"] is not None
    file = TableFile(path, reading["index_col"], reading["header"], reading["transpose"])
    doubts = tuple(f"{hint}." for hint in hints(file, table, covariance=covariance, scale=bool(options.get("scale"))))
    return Loaded(table, path, covariance, reading["key"], doubts=doubts)


def _open(path: Path, reading: Values) -> Loaded:
    """A store that is read in blocks."""
    from gpower.datasets import Table
    from gpower.io.stores.open import open_source

    odd = [name for name, value in reading.items() if value and name != "key"]
    if odd:
        raise ValueError(f"{path}: a store is read in blocks as it is; {', '.join(odd)} does not work on it.")
    with caught() as warned:
        source = open_source(path, reading["key"])
    assert source is not None
    doubts = (*warned, *(f"{note}." for note in source.notes))
    return Loaded(Table(source, source.names, source.sample_names), path, False, reading["key"], "disk", doubts)
