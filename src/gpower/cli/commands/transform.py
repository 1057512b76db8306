"""``gpower transform``: scores of samples under a saved model."""

import sys
from pathlib import Path

from gpower.cli.app import command
from gpower.cli.console import command_context, show_progress, warnings_to_stderr
from gpower.cli.models import load_matching_table, load_model
from gpower.cli.options import READ_TABLE_FLAGS, OptionValues
from gpower.report.terminal import compute_score_columns, write_csv, write_csv_file


@command(reading=READ_TABLE_FLAGS)
def transform(
    model: Path,
    data: Path,
    *,
    reading: OptionValues,
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
    output : path, optional
        Write the scores into this .csv; by default they are printed.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    """
    with command_context() as sink:
        from gpower._utils.files import check_writable, write_file_atomically

        fitted = load_model(model)
        if output is not None:
            check_writable(output.parent)
        loaded = load_matching_table(fitted, data, reading, sink.err_console, missing, allow_absent_unused=True)
        if loaded.is_covariance:
            raise ValueError(f"{model} was fitted to a covariance, without means, and cannot compute scores.")
        with (
            warnings_to_stderr(sink.err_console),
            show_progress(sink.err_console, f"scoring {data.name}", loaded.bytes_on_disk),
        ):
            columns = compute_score_columns(fitted, loaded.table)
        if output is None:
            sink.pending_prints.append(lambda: write_csv(sys.stdout, columns, safe_csv))
            return
        with write_file_atomically(output) as temporary_path:
            write_csv_file(temporary_path, columns, safe_csv)
        sink.print_message(f"Wrote the scores of {len(columns['sample'])} samples into {output}.")
