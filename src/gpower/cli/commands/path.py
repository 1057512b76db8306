"""``gpower path``: the variance explained by every number of variables."""

from pathlib import Path

import typer

import gpower
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.flags import read_library_flags
from gpower.cli.sample_metadata import METADATA_FLAGS, add_metadata
from gpower.cli.shared_flags import GPOWER_FLAGS, READ_TABLE_FLAGS, FlagGroups
from gpower.cli.tables import load_table
from gpower.report.terminal import print_line, print_path, write_csv_file

_CSV_FILE_NAME, _PATH_FILE_NAME = "path.csv", "path.npz"
_PATH_VARIABLE_PARAMS = ("groups", "include", "exclude", "penalty_weights")
SPARSITY_PATH_PARAMS = (
    *_PATH_VARIABLE_PARAMS,
    *("positive", "covariance", "center", "scale", "missing", "balance", "n_init", "deflation", "random_state"),
)
_PATH_FLAGS = read_library_flags("gpower", "sparsity_path") | {
    name: GPOWER_FLAGS[name] for name in SPARSITY_PATH_PARAMS
}


@command(
    (_CSV_FILE_NAME, _PATH_FILE_NAME),
    "the variance for every number of variables",
    has_json=True,
    reading=READ_TABLE_FLAGS,
    metadata=METADATA_FLAGS,
    options=_PATH_FLAGS,
)
def path(sink: OutputSink, flags: FlagGroups, data: Path, *, resume: bool = False) -> None:
    """Show the variance that every number of variables explains: gpower path genes.csv --plot tradeoff.png

    Parameters
    ----------
    data : path
    resume : bool
        Continue from the path.npz of an interrupted run, in the -o folder or the current one.
    """
    import numpy as np

    from gpower.plotting import plot_tradeoff

    output = sink.files.folders.get("output")
    folder = output or Path()  # where an interrupted path is saved in any case
    sink.files.check_not_read(folder / _CSV_FILE_NAME, folder / _PATH_FILE_NAME)
    earlier = _load_earlier_path(folder / _PATH_FILE_NAME, sink) if resume else None
    loaded = add_metadata(load_table(data, flags.reading, flags.options, sink), flags.metadata, sink)
    with sink.print_warnings(), sink.show_progress_bar("fitting every number of variables") as update:
        X = loaded.table.to_frame_or_array()
        result = gpower.sparsity_path(X, **flags.options, **loaded.removed, resume=earlier, progress=update)
    is_finished = earlier is not None and earlier.complete and np.array_equal(earlier.grid, result.grid)
    if earlier is not None and is_finished:
        result = earlier  # a second walk may end in other variables of the same variance
        sink.print_notes(f"{folder / _PATH_FILE_NAME}: this path is finished, and stays as it is.")
    sink.print_notes(*result.common["notes_"])
    sink.print_result(result.columns, lambda console: print_path(console, result, loaded.title))
    if (output is not None or not result.complete) and not is_finished:
        sink.write_files(lambda folder: _write_path_files(result, folder), folder.resolve())
    sink.save_plot(lambda: plot_tradeoff(result))
    if not result.complete:
        print_line(sink.err_console, "Interrupted. Continue with the same command and --resume.")
        raise typer.Exit(130)


def _load_earlier_path(file: Path, sink: OutputSink) -> "gpower.SparsityPath | None":
    """Load the path of an earlier run; if there is none, print a note and return None."""
    if file.exists():
        return gpower.SparsityPath.load(file)
    sink.print_notes(f"{file}: there is no saved path; starting from the beginning.")
    return None


def _write_path_files(sparsity_path: "gpower.SparsityPath", folder: Path) -> list[str]:
    """Write path.npz and path.csv into a folder, and return their names."""
    sparsity_path.save(folder / _PATH_FILE_NAME)
    return [write_csv_file(folder / _CSV_FILE_NAME, sparsity_path.columns()), _PATH_FILE_NAME]
