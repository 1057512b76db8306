"""Metadata of the samples that a command reads: the covariates and batches among them, and all other columns."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpower._utils.text import format_names
from gpower.cli.console import OutputSink
from gpower.cli.flags import Flag, group_flags
from gpower.cli.shared_flags import OptionValues
from gpower.cli.tables import InputTable

METADATA_FLAGS = group_flags(
    Flag("metadata", "path", None, "Text table with a row of metadata for each sample, matched by the sample names."),
    Flag("metadata_by_order", "bool", False, "Match the rows of the metadata to the samples by order, not by name."),
    Flag(
        "covariates",
        "sequence of str",
        help="Columns of --metadata, as age,sex, whose linear effect on the variables is removed; with "
        "--covariance, variables of DATA.",
        metavar="COLUMN,...",
    ),
    Flag("batch", "str", help="Column of --metadata with batches, each of which is centred.", metavar="COLUMN"),
    Flag(
        "categorical",
        "sequence of str",
        help="Columns of --metadata, as label,site, whose numbers are groups. Words, and whole numbers with at most "
        "six different values, are groups anyway.",
        metavar="COLUMN,...",
    ),
)

#: Whole numbers of a column may be labels if they are at most so many, each for at least so many samples on average.
MAX_LABEL_NUMBERS, MIN_SAMPLES_PER_LABEL = 20, 5


def add_metadata(
    input_table: InputTable, flags: OptionValues, sink: OutputSink, model: Any = None, *, is_shown: bool = False
) -> InputTable:
    """Return a table with the columns of --metadata, and covariates and batches; by default those of a fitted `model`.

    `is_shown` says that the command also shows the other columns. Raise ValueError for a flag without effect, a column
    that the file does not have, and a fitted model whose covariates are not given.
    """
    fitted_levels = _list_fitted_levels(model)
    file, names, batch, categorical = (flags[name] for name in ("metadata", "covariates", "batch", "categorical"))
    if categorical and file is None:
        raise ValueError("--categorical names columns of --metadata, which is not given; give it, or leave this out.")
    if input_table.is_covariance and file is None and batch is None:  # covariates are variables
        return replace(input_table, removed={"covariates": names} if names and model is None else {})
    names = [name for name in fitted_levels if name != "batch"] if names is None else names
    batch = "batch" if batch is None and "batch" in fitted_levels else batch
    wanted = [*names, *([] if batch is None else [batch])]
    if wanted and file is None:
        who = "The model was fitted without the effect of" if fitted_levels else "The columns to remove are"
        raise ValueError(f"{who} {', '.join(wanted)}; give the file that has them for these samples as --metadata.")
    if file is None:
        return input_table
    if not wanted and not is_shown:
        raise ValueError("--metadata has no effect without --covariates or --batch, which name columns to remove.")
    if input_table.is_covariance:
        raise ValueError("--metadata describes samples; DATA is a covariance and has none.")
    import numpy as np

    from gpower.datasets import read_metadata

    table = input_table.table
    samples = {"sample_names": table.sample_names, "metadata_by_order": flags["metadata_by_order"]}
    with sink.print_warnings() as notes:
        columns: dict[str, Any] = read_metadata(file, table.X.shape[0], feature_names=table.feature_names, **samples)
    for name in [*wanted, *(categorical or ())]:
        if name not in columns:
            advice = "; name the column of the batches with --batch" if flags["batch"] is None and name == batch else ""
            raise ValueError(f"{file}: there is no column {name!r} in {format_names(list(columns))}{advice}.")
    columns |= {name: np.array(columns[name], dtype=object) for name in categorical or ()}  # text of an array is groups
    if doubtful := [name for name in columns if _may_be_labels(columns[name])]:
        sink.print_notes(
            f"{format_names(doubtful)} of the metadata: few different whole numbers, which are treated as measured; if "
            f"they are labels of groups, add --categorical {','.join(doubtful)}."
        )
    removed: dict[str, Any] = {}
    if names:
        removed["covariates"] = {name: _convert_column(columns[name], fitted_levels.get(name)) for name in names}
    if batch is not None:
        removed["batch"] = _convert_column(columns[batch], set())
    return replace(input_table, metadata=columns, removed=removed, notes=(*input_table.notes, *notes))


def _may_be_labels(values: Iterable[str]) -> bool:
    """Return whether a column that is treated as measured has so few whole numbers that they may be labels."""
    from gpower.analysis.association import parse_metadata_column

    column = parse_metadata_column(values)
    numbers = column.values[column.is_known]
    if not column.is_continuous or any(number != round(number) for number in numbers):
        return False
    return len(set(numbers)) <= min(MAX_LABEL_NUMBERS, len(numbers) // MIN_SAMPLES_PER_LABEL)


def print_batch_notes(model: Any, input_table: InputTable, sink: OutputSink) -> list[str]:
    """Print notes on columns of the metadata that look like batches and explain components, and return them."""
    if not input_table.metadata:
        return []
    import numpy as np

    from gpower.analysis.association import associate
    from gpower.report.content import strip_feature_names
    from gpower.report.doubts import find_batch_doubts
    from gpower.report.terminal import compute_score_columns

    unnamed_table = replace(input_table.table, feature_names=None)  # its columns are those of the model already
    _, *scores = compute_score_columns(strip_feature_names(model), unnamed_table, input_table.removed).values()
    notes = list(find_batch_doubts(associate(np.column_stack(scores), input_table.metadata)))
    sink.print_notes(*notes)
    return notes


def _list_fitted_levels(model: Any) -> dict[str, set[str]]:
    """Return the levels of each covariate of a fitted model; those of a covariate of numbers are {""}."""
    levels: dict[str, set[str]] = {}
    for name, level in zip(*(getattr(model, f"covariates_{each}_", ()) for each in ("names", "levels")), strict=True):
        levels.setdefault(name, set()).add(level)
    return levels


def _convert_column(values: Iterable[str], levels: set[str] | None) -> list[object]:
    """Return numbers or words, None where they are missing, of the type of the `levels`, or as the words suggest."""
    from gpower.analysis.association import parse_metadata_column

    column = parse_metadata_column(values)
    is_numeric = column.is_continuous if levels is None else levels == {""}
    words = zip(values if is_numeric else column.values, column.is_known, strict=True)
    return [None if not is_known else float(word) if is_numeric else str(word) for word, is_known in words]
