"""``gpower inspect``: a description of a saved model."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import gpower
from gpower._utils.text import format_names
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.models import load_model
from gpower.report.terminal import describe_groups_used, print_line, print_rows, truncate_text

if TYPE_CHECKING:
    from gpower.estimators.base import SparsePCAEstimator

_MAX_VALUE_CHARACTERS = 60  # longer values of options are truncated


@command(has_json=True)
def inspect(sink: OutputSink, model: Path, *, top: int = 6) -> None:
    """Describe a saved model: gpower inspect results/model.npz

    Parameters
    ----------
    model : path
        File written by gpower fit -o or gpower path -o, or saved in Python.
    top : int
        Largest number of variables to name per component.
    """
    from gpower.estimators.notebook import COMPONENT_COLUMNS, list_component_rows
    from gpower.io.model_file import read_model

    header, arrays = read_model(model)
    fitted = load_model(model) if "components_" in arrays else None
    rows = [] if fitted is None else list_component_rows(fitted, top)
    content = {"file": str(model), **header, "arrays": {name: list(each.shape) for name, each in arrays.items()}}
    if fitted is not None:
        content["components"] = [dict(zip(COMPONENT_COLUMNS, row, strict=True)) for row in rows]

    def print_to(console: Console) -> None:
        packages = (header.get("written_by") or {}).items()
        versions = f", written by {', '.join(f'{name} {version}' for name, version in packages)}" if packages else ""
        print_line(console, f"{model}: a {header['class']}, format {header['version']}{versions}")
        if fitted is not None:
            _print_components(console, fitted, rows)
        elif "grid" in arrays:
            grid = arrays["grid"]
            print_line(console, f"{grid.size} points of {header['kind']}, {grid[0]:g} to {grid[-1]:g}")
        else:
            print_line(console, f"It contains {format_names(sorted(arrays))}")
        params = _find_changed_params(header).items()
        options = ", ".join(f"{name}={truncate_text(repr(value), _MAX_VALUE_CHARACTERS)}" for name, value in params)
        print_line(console, f"Options: {options or 'as by default'}")

    sink.print_result(lambda: content, print_to)


def _print_components(console: Console, model: "SparsePCAEstimator", rows: Iterable[Iterable[object]]) -> None:
    """Print the numbers of variables and samples, the table of the components, and remarks."""
    from gpower.estimators.notebook import COMPONENT_COLUMNS, list_remarks

    names = "with names" if hasattr(model, "feature_names_in_") else "without names"
    print_line(console, f"{model.components_.shape[1]} variables {names}; {float(model.n_samples_):g} samples")
    cells = (map(str, row) for row in rows)
    print_rows(console, COMPONENT_COLUMNS, cells, left=COMPONENT_COLUMNS[3:], wrapped=COMPONENT_COLUMNS)
    for line in (*describe_groups_used(model), *list_remarks(model)):
        print_line(console, line)


def _find_changed_params(header: dict[str, Any]) -> dict[str, Any]:
    """Return the saved parameters that differ from their defaults."""
    from gpower.validation.solver import restore_solver

    estimator = gpower.GPowerCV() if header["class"] == "GPowerCV" else gpower.GPower()
    defaults = estimator.get_params()
    params = restore_solver(header.get("params") or {})
    return {name: value for name, value in params.items() if name not in defaults or value != defaults[name]}
