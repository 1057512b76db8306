"""Saved models, and tables of the variables that they were fitted to."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import gpower
from gpower._utils.text import format_names
from gpower.cli.console import OutputSink
from gpower.cli.sample_metadata import add_metadata
from gpower.cli.shared_flags import FlagGroups, OptionValues
from gpower.cli.tables import InputTable, load_table

if TYPE_CHECKING:
    from gpower.estimators.base import SparsePCAEstimator


def load_model(path: Path) -> "SparsePCAEstimator":
    """Load a saved `GPower` or `GPowerCV`."""
    from gpower.io.model_file import read_model

    kind = read_model(path)[0]["class"]
    estimators = {"GPower": gpower.GPower, "GPowerCV": gpower.GPowerCV}
    if kind not in estimators:
        raise ValueError(f"{path} contains a {kind}; this command takes a GPower or a GPowerCV model.")
    return estimators[kind].load(path)


def load_model_and_table(
    model_path: Path,
    data: Path,
    flags: FlagGroups,
    sink: OutputSink,
    missing: str | None = None,
    *,
    for_scores: bool = False,
) -> tuple["SparsePCAEstimator", InputTable]:
    """Load a model, and a table with the parameters of the model, its columns ordered by name as the model has them.

    Raise if variables of the model are absent. `missing` replaces the parameter of that name of the model.
    `for_scores` says that the command only computes scores: variables that no component uses may be absent and are
    removed from the model, and metadata have to be covariates or batches.
    """
    from gpower.validation.params import check_option, get_constructor_params
    from gpower.validation.prepare import read_estimator_input

    model = load_model(model_path)
    if missing is not None:
        model.set_params(missing=check_option(missing, "missing", ("error", "impute")))
    params = get_constructor_params(model)
    data_params = {"covariance": params.get("covariance"), "missing": params["missing"]}
    loaded = _load_model_columns(model, data, flags.reading, data_params, sink)
    if loaded.is_covariance and for_scores:
        raise ValueError(f"{model_path} was fitted to a covariance, without means, and cannot compute scores.")
    if loaded.storage == "memory":
        if for_scores:
            _drop_absent_variables(model, set(loaded.table.feature_names or ()), sink)
        loaded = _align_to_model(loaded, model, sink)
    if data_params["missing"] == "impute" and (n_missing := loaded.table.n_missing):
        sink.print_notes(f"{n_missing} missing value(s) are estimated by the components.")
    with sink.print_warnings():
        read_estimator_input(model, loaded.table.to_frame_or_array(), reset=False)  # raises for other variables
    return model, add_metadata(loaded, flags.metadata, sink, model, is_shown=not for_scores)


def _load_model_columns(
    model: "SparsePCAEstimator", data: Path, reading: OptionValues, options: OptionValues, sink: OutputSink
) -> InputTable:
    """Read a table without those columns that cannot be read and are not variables of the model."""
    from gpower.datasets import TableError

    try:
        return load_table(data, reading, options, sink)
    except TableError as error:
        unreadable = error.options.get("drop")
        if not isinstance(unreadable, list) or "feature_names_in_" not in vars(model):
            raise
        foreign = [name for name in unreadable if isinstance(name, str) and name not in model.feature_names_in_]
        if not foreign:
            raise
    sink.print_notes(f"columns that the model does not have are left out: {format_names(foreign)}.")
    reading = reading | {"drop": [*(reading["drop"] or ()), *foreign]}
    return _load_model_columns(model, data, reading, options, sink)


def _drop_absent_variables(model: "SparsePCAEstimator", table_names: set[str], sink: OutputSink) -> None:
    """Remove the variables that a table lacks from a model, if no component uses any of them."""
    import numpy as np

    is_present = np.array([name in table_names for name in vars(model).get("feature_names_in_", ())], bool)
    if is_present.all() or model.components_[:, ~is_present].any():
        return
    absent = list(model.feature_names_in_[~is_present])
    reason = "of the model that no component uses are not in the table"
    sink.print_notes(f"{len(absent)} variable(s) {reason}: {format_names(absent)}.")
    removed = ["covariates_coef_"] if hasattr(model, "covariates_coef_") else []
    for name in ("components_", "mean_", "scale_", "feature_names_in_", *removed):
        setattr(model, name, getattr(model, name)[..., is_present])
    model.n_features_in_ = int(is_present.sum())


def _align_to_model(input_table: InputTable, model: "SparsePCAEstimator", sink: OutputSink) -> InputTable:
    """Return the table with the variables of a model, in their order; print a note about columns left out."""
    import numpy as np

    from gpower.datasets import TableError

    table_names = list(input_table.table.feature_names or ())
    model_names = list(vars(model).get("feature_names_in_", ()))
    if not (table_names and model_names) or table_names == model_names:
        return input_table
    column_by_name = {name: j for j, name in enumerate(table_names)}
    if any(name not in column_by_name for name in model_names):
        used = [model_names[j] for j in np.flatnonzero(model.components_.any(axis=0))]
        absent_used = [name for name in used if name not in column_by_name]
        absent = list(dict.fromkeys([*absent_used, *(name for name in model_names if name not in column_by_name)]))
        n_row_matches = len(set(model_names).intersection(input_table.table.sample_names or ()))
        is_transposed = n_row_matches > len(model_names) - len(absent)
        advice = "its rows have these names: add --transpose" if is_transposed else "name the columns as in the model"
        used_note = f", {len(absent_used)} of them used by its components" if absent_used else ""
        reason = f"{len(absent)} of the model's {len(model_names)} variables are not in it{used_note}"
        raise TableError(input_table.path, f"{reason}: {format_names(absent)}; {advice}")
    if others := [name for name in table_names if name not in set(model_names)]:
        note = f"{len(others)} column(s) are not variables of the model and are left out: {format_names(others)}."
        sink.print_notes(note)
    columns = [column_by_name[name] for name in model_names]
    X = input_table.table.X[:, columns]
    if input_table.is_covariance and len(X) == len(table_names):
        X = X[columns]
    return replace(input_table, table=replace(input_table.table, X=X, feature_names=tuple(model_names)))
