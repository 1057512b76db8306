"""The table that a command works on: read into memory, kept on disk, or shared with a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpower._utils.text import NumberedNames
from gpower.cli.console import OutputSink, collect_warnings
from gpower.cli.shared_flags import FlagGroups, OptionValues, format_flag, infer_n_components
from gpower.cli.variable_files import read_groups_column, resolve_variable_options

if TYPE_CHECKING:
    from gpower.datasets import Table


@dataclass(frozen=True)
class InputTable:
    """A table with the file that it was read from."""

    table: "Table"
    path: Path
    is_covariance: bool = False  # whether the table is a covariance or correlation matrix
    key: str | None = None  # name of the array in the file
    storage: Literal["memory", "disk", "cluster"] = "memory"
    reading_notes: tuple[str, ...] = ()  # hints that the table may have been misread
    is_virtual: bool = False  # whether virtual datasets are read

    @property
    def feature_names(self) -> Sequence[str]:
        """Return the names of the variables, or x0, x1, …."""
        return list(self.table.feature_names or ()) or NumberedNames(self.table.X.shape[1])

    @property
    def title(self) -> str:
        """Return the line above the results: the file and its size."""
        name = {"-": "standard input"}.get(str(self.path), self.path.name or str(self.path))
        n_samples, n_features = self.table.X.shape
        size = f"{n_features} variables" if self.is_covariance else f"{n_samples} samples × {n_features} variables"
        return f"{name}: {size}"

    @property
    def bytes_on_disk(self) -> float:
        """Return the bytes that a pass over the matrix reads from disk."""
        n_samples, n_features = self.table.X.shape
        return n_samples * n_features * float(self.table.X.dtype.itemsize) if self.storage == "disk" else 0.0

    def read_metadata(self, file: Path | None, metadata_by_order: bool) -> dict[str, list[str]]:
        """Return the columns of a file of metadata, with an entry per sample; no columns without a file."""
        from gpower.datasets import read_metadata

        if file is None:
            return {}
        if self.is_covariance:
            raise ValueError("--metadata describes samples; DATA is a covariance and has none.")
        names = {"sample_names": self.table.sample_names, "feature_names": self.table.feature_names}
        return read_metadata(file, self.table.X.shape[0], **names, metadata_by_order=metadata_by_order)

    def decode_to_cache(self, cache: Path | None, scheduler: str | None, sink: OutputSink) -> "InputTable":
        """Return a table that reads the store decoded in `cache`; the table itself if there is no cache."""
        if cache is None:
            return self
        if scheduler is not None:
            raise ValueError("--cache is for this machine; with --scheduler each worker reads the store itself.")
        if self.storage != "disk":
            raise ValueError(f"--cache is for stores that are read in blocks; {self.path} is read into memory.")
        from gpower.io.stores.cache import cache_store

        with sink.show_progress(f"decoding {self.path.name}"):
            return replace(self, table=replace(self.table, X=cache_store(self.table.X, cache)))

    @contextmanager
    def share_with_cluster(self, scheduler: str | None) -> Iterator["InputTable"]:
        """Yield the table as a Dask array of the cluster at `scheduler`; without an address, the table itself."""
        if scheduler is None:
            yield self
            return
        if self.is_virtual:
            raise ValueError("--virtual is for this machine; with --scheduler the workers read plain datasets only.")
        from gpower.operators.storage.dask import from_store
        from gpower.operators.storage.dask_client import connect_to_cluster

        with collect_warnings():  # they were printed when the store was opened
            dask_table = replace(self.table, X=from_store(self.path.resolve(), self.key))
        with connect_to_cluster(scheduler):
            yield replace(self, table=dask_table, storage="cluster")


def load_table(path: Path, flags: FlagGroups, sink: OutputSink) -> InputTable:
    """Read a table with the flags of `read_table`, and print hints that it may have been misread.

    Replace the options about variables, which may be files, by their content, and set the number of components.
    """
    from gpower.io.stores.open import should_read_in_blocks

    reading, options = flags.reading, flags.options
    infer_n_components(options)
    read_groups_column(options, reading, path)
    with sink.show_progress(f"reading {path.name}"):
        if should_read_in_blocks(path, options.get("memory_limit")) and options.get("covariance") is None:
            loaded = _open_store_table(path, reading)
        else:
            loaded = _read_whole_table(path, reading, options)
    sink.print_notes(*loaded.reading_notes)
    resolve_variable_options(options, loaded.feature_names)
    return loaded


def _read_whole_table(path: Path, reading: OptionValues, options: OptionValues) -> InputTable:
    """Read a table into memory."""
    from gpower.cli.hints import find_table_hints
    from gpower.datasets import TableError, read_table
    from gpower.io.tables.table import MissingCellError, TableFile

    if reading["virtual"]:
        raise ValueError(f"{path}: --virtual is for HDF5 files; leave it out.")
    given_options = {name: value for name, value in reading.items() if value is not None and name != "virtual"}
    try:
        table = read_table(path, **given_options, complete=options["missing"] == "error")
    except MissingCellError as error:
        reason = f"{error.reason}, or estimate such cells with --missing impute"
        raise TableError(path, reason, **error.options) from None
    covariance = options.get("covariance") is not None
    file = TableFile(path, reading["index_col"], reading["header"], reading["transpose"])
    notes = tuple(f"{hint}." for hint in find_table_hints(file, table, covariance=covariance))
    return InputTable(table, path, covariance, reading["key"], reading_notes=notes)


def _open_store_table(path: Path, reading: OptionValues) -> InputTable:
    """Open a store that is read in blocks."""
    from gpower.datasets import Table
    from gpower.io.stores.open import open_source

    unusable = [format_flag(name) for name, value in reading.items() if value and name not in ("key", "virtual")]
    if unusable:
        raise ValueError(f"{path}: a store is read in blocks as it is; {', '.join(unusable)} does not work on it.")
    with collect_warnings() as warning_notes:
        source = open_source(path, reading["key"], virtual=reading["virtual"])
    assert source is not None
    notes = (*warning_notes, *(f"{note}." for note in source.notes))
    table = Table(source, source.feature_names, source.sample_names)
    return InputTable(table, path, False, reading["key"], "disk", notes, reading["virtual"])
