"""``gpower transform``: the scores of samples by a saved model."""

import sys
from pathlib import Path

from gpower.cli.app import command
from gpower.cli.console import answering, noted, progress, refuse_inputs
from gpower.cli.models import load_for, load_model
from gpower.cli.options import READING, Values
from gpower.report.terminal import score_columns, write_columns, write_table


@command(reading=READING)
def transform(
    model: Path,
    data: Path,
    *,
    reading: Values,
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
    with answering() as answer:
        from gpower._utils.files import check_writable, replaced

        fitted = load_model(model)
        if output is not None:
            refuse_inputs((model, data), output)
            check_writable(output.parent)
        loaded = load_for(fitted, data, reading, answer.err, missing, for_scores=True)
        if loaded.covariance:
            raise ValueError(f"{model} was fitted to a covariance and knows no means; it has no scores of samples.")
        with noted(answer.err), progress(answer.err, f"scoring {data.name}", loaded.bytes_on_disk):
            columns = score_columns(fitted, loaded.table)
        if output is None:
            write_table(sys.stdout, columns, safe_csv)
            return
        with replaced(output) as place:
            write_columns(place, columns, safe_csv)
        answer.tell(f"Wrote the scores of {len(columns['sample'])} samples into {output}.")
