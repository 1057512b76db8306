"""Saved models for commands: whichever estimator wrote one, and data of the same variables."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpower.cli.console import note, noted
from gpower.cli.options import Values
from gpower.cli.tables import Loaded, load

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


def load_for(
    model: "SparsePCAEstimator",
    data: Path,
    reading: Values,
    err: Console,
    missing: str | None = None,
    for_scores: bool = False,
) -> Loaded:
    """The table of a file, read as the model read its own, if it has the same variables; in their order, by name.

    What is said of `missing` cells takes the place of what was said when the model was fitted. A table `for_scores`
    alone may be without the variables that no component uses: the model then forgets them.
    """
    from gpower.validation.params import one_of, parameters_of
    from gpower.validation.prepare import read

    known = {"covariance": None, "missing": "error", "scale": False}
    if missing is not None:
        model.set_params(missing=one_of(missing, "missing", ("error", "impute")))
    known |= {name: value for name, value in parameters_of(model).items() if name in known}
    loaded = load(data, reading, known, err)
    if loaded.where == "memory":
        if for_scores and not loaded.covariance:
            _forget_absent(model, set(loaded.table.feature_names or ()), err)
        loaded = _by_name(loaded, model, err)
    if known["missing"] == "impute" and (holes := loaded.table.holes):
        note(err, [f"{holes} missing value(s) are estimated by the components."])
    with noted(err):
        read(model, loaded.table.labelled(), reset=False)  # refuses data of other variables
    return loaded


def _forget_absent(model: "SparsePCAEstimator", names: set[str], err: Console) -> None:
    """Leave out the variables of a model that a table has not, where no component uses any of them."""
    import numpy as np

    from gpower._utils.text import listed

    there = np.array([name in names for name in vars(model).get("feature_names_in_", ())], bool)
    if there.all() or model.components_[:, ~there].any():
        return
    absent = list(model.feature_names_in_[~there])
    note(
        err, [f"{len(absent)} variable(s) of the model that no component uses are not in the table: {listed(absent)}."]
    )
    for name in ("components_", "mean_", "scale_", "feature_names_in_"):
        setattr(model, name, getattr(model, name)[..., there])
    model.n_features_in_ = int(there.sum())


def _by_name(loaded: Loaded, model: "SparsePCAEstimator", err: Console) -> Loaded:
    """The table with the variables of a model, in their order; those that it does not know are left out, and said."""
    import numpy as np

    from gpower._utils.text import listed
    from gpower.datasets import TableError

    names, wanted = list(loaded.table.feature_names or ()), list(vars(model).get("feature_names_in_", ()))
    if not (names and wanted) or names == wanted:
        return loaded
    at = {name: j for j, name in enumerate(names)}
    if any(name not in at for name in wanted):
        used = [wanted[j] for j in np.flatnonzero(model.components_.any(axis=0))]
        missed = [name for name in used if name not in at]
        lacking = list(dict.fromkeys([*missed, *(name for name in wanted if name not in at)]))
        turned = len(set(wanted).intersection(loaded.table.sample_names or ())) > len(wanted) - len(lacking)
        advice = "its rows are called so: add --transpose" if turned else "name the columns as the model has them"
        of_these = f", {len(missed)} of them used by its components" if missed else ""
        what = f"{len(lacking)} of the model's {len(wanted)} variables are not in it{of_these}: {listed(lacking)}"
        what += f"; {advice}"
        raise TableError(loaded.path, what)
    known = set(wanted)
    if others := [name for name in names if name not in known]:
        note(err, [f"{len(others)} column(s) are no variable of the model and are left out: {listed(others)}."])
    places = [at[name] for name in wanted]
    X = loaded.table.X[:, places]
    if loaded.covariance and len(X) == len(names):
        X = X[places]
    return replace(loaded, table=replace(loaded.table, X=X, feature_names=tuple(wanted)))
