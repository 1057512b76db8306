"""Saved models for commands: whichever estimator wrote one, and data of the same variables."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpower.cli.console import print_notes, warnings_to_stderr
from gpower.cli.options import OptionValues
from gpower.cli.tables import InputTable, load_table

if TYPE_CHECKING:
    from gpower.estimators.base import SparsePCAEstimator


def load_model(path: Path) -> "SparsePCAEstimator":
    """The model of a file, whichever of the two estimators wrote it."""
    from gpower import GPower, GPowerCV
    from gpower.io.model_file import read_model

    kind = read_model(path)[0]["class"]
    estimators = {"GPower": GPower, "GPowerCV": GPowerCV}
    if kind not in estimators:
        raise ValueError(f"{path} holds a {kind}; this command takes a GPower or a GPowerCV model.")
    return estimators[kind].load(path)


def load_matching_table(
    model: "SparsePCAEstimator",
    data: Path,
    reading: OptionValues,
    err_console: Console,
    missing: str | None = None,
    allow_absent_unused: bool = False,
) -> InputTable:
    """The table of a file, read as the model read its own, if it has the same variables; in their order, by name.

    What is said of `missing` cells takes the place of what was said when the model was fitted. A table `for_scores`
    alone may be without the variables that no component uses: the model then forgets them.
    """
    from gpower.validation.params import check_option, get_constructor_params
    from gpower.validation.prepare import read_estimator_input

    known = {"covariance": None, "missing": "error", "scale": False}
    if missing is not None:
        model.set_params(missing=check_option(missing, "missing", ("error", "impute")))
    known |= {name: value for name, value in get_constructor_params(model).items() if name in known}
    loaded = load_table(data, reading, known, err_console)
    if loaded.storage == "memory":
        if allow_absent_unused and not loaded.is_covariance:
            _drop_absent_variables(model, set(loaded.table.feature_names or ()), err_console)
        loaded = _align_to_model(loaded, model, err_console)
    if known["missing"] == "impute" and (holes := loaded.table.n_missing):
        print_notes(err_console, [f"{holes} missing value(s) are estimated by the components."])
    with warnings_to_stderr(err_console):
        read_estimator_input(model, loaded.table.to_frame_or_array(), reset=False)  # refuses data of other variables
    return loaded


def _drop_absent_variables(model: "SparsePCAEstimator", table_names: set[str], err_console: Console) -> None:
    """Leave out the variables of a model that a table has not, where no component uses any of them."""
    import numpy as np

    from gpower._utils.text import format_names

    there = np.array([name in table_names for name in vars(model).get("feature_names_in_", ())], bool)
    if there.all() or model.components_[:, ~there].any():
        return
    absent = list(model.feature_names_in_[~there])
    print_notes(
        err_console,
        [
            f"{len(absent)} variable(s) of the model that no component uses are not in the table: "
            f"{format_names(absent)}."
        ],
    )
    for name in ("components_", "mean_", "scale_", "feature_names_in_"):
        setattr(model, name, getattr(model, name)[..., there])
    model.n_features_in_ = int(there.sum())


def _align_to_model(input_table: InputTable, model: "SparsePCAEstimator", err_console: Console) -> InputTable:
    """The table with the variables of a model, in their order; those that it does not know are left out, and said."""
    import numpy as np

    from gpower._utils.text import format_names
    from gpower.datasets import TableError

    names, wanted = list(input_table.table.feature_names or ()), list(vars(model).get("feature_names_in_", ()))
    if not (names and wanted) or names == wanted:
        return input_table
    at = {name: j for j, name in enumerate(names)}
    if any(name not in at for name in wanted):
        used = [wanted[j] for j in np.flatnonzero(model.components_.any(axis=0))]
        missed = [name for name in used if name not in at]
        lacking = list(dict.fromkeys([*missed, *(name for name in wanted if name not in at)]))
        turned = len(set(wanted).intersection(input_table.table.sample_names or ())) > len(wanted) - len(lacking)
        advice = "its rows are called so: add --transpose" if turned else "name the columns as the model has them"
        of_these = f", {len(missed)} of them used by its components" if missed else ""
        what = f"{len(lacking)} of the model's {len(wanted)} variables are not in it{of_these}: {format_names(lacking)}"
        what += f"; {advice}"
        raise TableError(input_table.path, what)
    known = set(wanted)
    if others := [name for name in names if name not in known]:
        print_notes(
            err_console,
            [f"{len(others)} column(s) are no variable of the model and are left out: {format_names(others)}."],
        )
    places = [at[name] for name in wanted]
    X = input_table.table.X[:, places]
    if input_table.is_covariance and len(X) == len(names):
        X = X[places]
    return replace(input_table, table=replace(input_table.table, X=X, feature_names=tuple(wanted)))
