"""``gpower transform``: scores of samples under a saved model."""

import sys
from pathlib import Path

from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.models import load_model_and_table
from gpower.cli.sample_metadata import METADATA_FLAGS
from gpower.cli.shared_flags import READ_TABLE_FLAGS, FlagGroups
from gpower.report.terminal import compute_score_columns, write_csv, write_csv_file


@command(reading=READ_TABLE_FLAGS, metadata=METADATA_FLAGS)
def transform(
    sink: OutputSink,
    flags: FlagGroups,
    model: Path,
    data: Path,
    *,
    missing: str | None = None,
    output: Path | None = None,
    safe_csv: bool = False,
) -> None:
    """Compute the scores of samples under a saved model: gpower transform results/model.npz new.csv -o scores.csv

    Parameters
    ----------
    model : path
        The model.npz that gpower fit -o wrote.
    data : path
        Table whose columns are matched by name: their order does not matter, others are left out, and those that no
        component uses may be absent.
    missing : {"error", "impute"}, optional
        impute: estimate missing cells by the components; the default is the parameter of the model.
    output : new file, optional
        Write the scores into this .csv; by default they are printed.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    """
    fitted, loaded = load_model_and_table(model, data, flags, sink, missing, for_scores=True)
    with sink.print_warnings(), sink.show_progress(f"scoring {data.name}", loaded.bytes_on_disk):
        columns = compute_score_columns(fitted, loaded.table, loaded.removed)
    if output is None:
        sink.pending_prints.append(lambda: write_csv(sys.stdout, columns, safe_csv))
    sink.write_file(lambda file: write_csv_file(file, columns, safe_csv))
