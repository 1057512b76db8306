"""Saved models for commands: whichever estimator wrote one, and data of the same variables."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpower.cli.console import noted
from gpower.cli.options import Values
from gpower.cli.tables import Loaded, load

if TYPE_CHECKING:
    from gpower.fitted import SparsePCAEstimator


def load_model(path: Path) -> "SparsePCAEstimator":
    """The model of a file, whichever of the two estimators wrote it."""
    from gpower import GPower, GPowerCV
    from gpower.persistence import read_model

    kind = read_model(path)[0]["class"]
    estimators = {"GPower": GPower, "GPowerCV": GPowerCV}
    if kind not in estimators:
        raise ValueError(f"{path} holds a {kind}; this command takes a GPower or a GPowerCV model.")
    return estimators[kind].load(path)


def load_for(model: "SparsePCAEstimator", data: Path, reading: Values, err: Console) -> Loaded:
    """The table of a file, read as the model read its own, if it has the same variables."""
    from gpower.parameters import parameters_of
    from gpower.preparation import read

    known = {"covariance": None, "missing": "error", "scale": False}
    known |= {name: value for name, value in parameters_of(model).items() if name in known}
    loaded = load(data, reading, known, err)
    with noted(err):
        read(model, loaded.table.labelled(), reset=False)  # refuses data of other variables
    return loaded
