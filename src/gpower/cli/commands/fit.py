"""``gpower fit``: sparse components of a table."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpower.cli.app import command
from gpower.cli.console import (
    command_context,
    log_to_stderr,
    print_notes,
    show_progress,
    show_progress_bar,
    warnings_to_stderr,
)
from gpower.cli.flags import override_flags, read_library_flags
from gpower.cli.options import (
    GPOWER_FLAGS,
    N_COMPONENTS_OVERRIDE,
    READ_TABLE_FLAGS,
    OptionValues,
    format_flag,
    infer_n_components,
    merge_solver_options,
)
from gpower.cli.tables import InputTable, load_table
from gpower.cli.variable_files import read_groups_column, resolve_variable_options
from gpower.report.terminal import collect_fitted_attributes, print_components, write_results

if TYPE_CHECKING:
    from gpower import GPower

_FIT_CARDINALITY_OVERRIDE = {
    "kind": 'int, float or sequence of these or "auto"',
    "help": "Variables in each component: one number, one for each, as 20,10,5, a share of the variance, as 90%, or "
    "auto: by cross-validation.",
}
_CARDINALITY_GRID_OVERRIDE = {
    "long": "--grid",
    "short": "",
    "help": "With -k auto: numbers of variables to choose from; by default up to 50 numbers, from one variable to all.",
}
_FIT_FLAGS = override_flags(GPOWER_FLAGS, n_components=N_COMPONENTS_OVERRIDE, cardinality=_FIT_CARDINALITY_OVERRIDE)
_CROSS_VALIDATION_FLAGS = override_flags(
    read_library_flags(
        "gpower", "GPowerCV", "cv", "criterion", "rule", "cardinalities", "n_jobs", fallback_flags=GPOWER_FLAGS
    ),
    cardinalities=_CARDINALITY_GRID_OVERRIDE,
)


@command(reading=READ_TABLE_FLAGS, options=_FIT_FLAGS, choice=_CROSS_VALIDATION_FLAGS)
def fit(
    data: Path,
    *,
    reading: OptionValues,
    options: OptionValues,
    choice: OptionValues,
    cache: Path | None = None,
    device: str = "cpu",
    scheduler: str | None = None,
    output: Path | None = None,
    plot: Path | None = None,
    safe_csv: bool = False,
    as_json: bool = False,
    top: int = 50,
) -> None:
    """Find sparse components of a table: gpower fit genes.csv -m 5 -k 20 -o results

    Parameters
    ----------
    data : path
    cache : folder, optional
        Decode a compressed store once into this folder, and read it from there.
    device : {"cpu", "cuda"}
        cuda: use a GPU, which needs CuPy.
    scheduler : str, optional
        Address of a Dask cluster to work on, tcp://…, whose workers can read DATA.
    output : folder, optional
        Write loadings.csv, loadings_list.csv, scores.csv and model.npz into this folder.
    plot : path, optional
        Draw the loadings into this .png, .pdf or .svg.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    as_json : bool
        Print all fitted attributes in full as JSON.
    top : int
        Largest number of variables to print per component.
    """
    with command_context(output, plot, as_json) as sink, log_to_stderr():
        from gpower.plotting import plot_loadings

        infer_n_components(options)
        read_groups_column(options, reading, data)
        loaded = load_table(data, reading, options, sink.err_console).decode_to_cache(
            cache, scheduler, sink.err_console
        )
        resolve_variable_options(options, loaded.feature_names)
        with loaded.share_with_cluster(scheduler) as shared:
            if options["cardinality"] == "auto":
                options["cardinality"] = _choose_cardinality(shared, options, choice, sink.err_console)
            model, notes = fit_model(shared, options, sink.err_console, device)
            sink.print_result(
                lambda: collect_fitted_attributes(model, shared.feature_names, [*shared.reading_notes, *notes]),
                lambda console: print_components(console, model, shared.feature_names, shared.title, top),
            )
            sink.write_files(
                lambda folder: write_results(
                    folder, model, shared.table, shared.feature_names, shared.is_covariance, safe_csv
                )
            )
            sink.save_plot(lambda: plot_loadings(model, shared.feature_names))


def fit_model(
    input_table: InputTable, options: OptionValues, err_console: Console, device: str = "cpu"
) -> tuple["GPower", list[str]]:
    """Fit a model, print its warnings as notes on stderr, and return it with NumPy arrays, and all notes."""
    from gpower import GPower
    from gpower._utils.backends import to_device, to_numpy
    from gpower.validation.solver import resolve_solver

    params = merge_solver_options(options)
    description = "fitting {} × {}".format(*input_table.table.X.shape)
    progress = show_progress(err_console, description, input_table.bytes_on_disk)
    with warnings_to_stderr(err_console) as notes, progress as callback:
        X = input_table.table.to_frame_or_array() if device == "cpu" else to_device(input_table.table.X, device)
        model = GPower(**resolve_solver(params)).set_params(solver__callback=callback).fit(X)
    model.set_params(**params)  # the callback ends with the command
    print_notes(err_console, model.notes_)
    model.components_, model.mean_, model.scale_ = map(to_numpy, (model.components_, model.mean_, model.scale_))
    return model, [*notes, *model.notes_]


def _choose_cardinality(
    input_table: InputTable, options: OptionValues, cv_options: OptionValues, err_console: Console
) -> list[int]:
    """Choose the number of variables of each component by cross-validation, and print the choice to stderr."""
    from gpower import GPower, GPowerCV
    from gpower.validation.params import expand_per_component

    if options["n_components"] == "auto":
        raise ValueError(
            "-m auto and -k auto cannot be used together, because each needs the other. Run -m auto -k 10 first, which "
            "counts the components of 10 variables that are more than chance; then -k auto with that number as -m."
        )
    options = merge_solver_options(options)
    cv_params, defaults = GPowerCV().get_params(), GPower().get_params()
    accepted = (*cv_params, "cardinality", "verbose")
    rejected = [name for name, value in options.items() if name not in accepted and value != defaults[name]]
    if rejected:
        flags = ", ".join(map(format_flag, rejected))
        raise ValueError(f"-k auto does not go together with {flags}; give the number of variables instead.")
    shared = {name: value for name, value in options.items() if name in cv_params}
    search = "joint" if options["method"] == "block" else "sequential"
    with (
        warnings_to_stderr(err_console),
        show_progress_bar(err_console, f"choosing the number of variables by {cv_options['cv']} folds") as update,
    ):
        model = GPowerCV(**shared, **cv_options, search=search, progress=update).fit(
            input_table.table.to_frame_or_array()
        )
    chosen: list[int] = expand_per_component(model.best_estimator_.cardinality, "-k", options["n_components"])
    criterion = ",".join(dict.fromkeys(model.chosen_by_))
    others = ", ".join(
        f"{name} {','.join(map(str, numbers))}" for name, numbers in model.criteria_.items() if name != criterion
    )
    choice = f"{','.join(map(str, chosen))} {'variables' if options['groups'] is None else 'groups'}"
    print_notes(err_console, [f"{criterion} chose {choice}, in {cv_options['cv']} folds; others: {others}."])
    return chosen
