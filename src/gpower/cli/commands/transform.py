"""``gpower transform``: the scores of samples by a saved model."""

import sys
from pathlib import Path

from gpower.cli.app import command
from gpower.cli.console import command_context, refuse_overwriting_inputs, show_progress, warnings_to_stderr
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
    """Scores of samples by a saved model: gpower transform results/model.npz new.csv -o scores.csv

    Parameters
    ----------
    model : path
        What gpower fit -o wrote: model.npz.
    data : path
        Its columns go by their names: in any order, others beside them are left out, and those that no component uses
        may be absent.
    missing : {"error", "impute"}, optional
        impute: estimate missing cells by the components; by default as the model was fitted.
    output : path, optional
        File for the scores, a .csv; by default they are printed.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    """
    with command_context() as answer:
        from gpower._utils.files import check_writable, write_file_atomically

        fitted = load_model(model)
        if output is not None:
            refuse_overwriting_inputs((model, data), output)
            check_writable(output.parent)
        loaded = load_matching_table(fitted, data, reading, answer.err_console, missing, allow_absent_unused=True)
        if loaded.is_covariance:
            raise ValueError(f"{model} was fitted to a covariance and knows no means; it has no scores of samples.")
        with (
            warnings_to_stderr(answer.err_console),
            show_progress(answer.err_console, f"scoring {data.name}", loaded.bytes_on_disk),
        ):
            columns = compute_score_columns(fitted, loaded.table)
        if output is None:
            write_csv(sys.stdout, columns, safe_csv)
            return
        with write_file_atomically(output) as place:
            write_csv_file(place, columns, safe_csv)
        answer.print_message(f"Wrote the scores of {len(columns['sample'])} samples into {output}.")
