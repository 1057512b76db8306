"""``gpower fit``: sparse components of a table."""

from pathlib import Path

import gpower
from gpower.cli.app import command
from gpower.cli.console import OutputSink, collect_warnings
from gpower.cli.flags import Flag, group_flags, override_flags, read_library_flags
from gpower.cli.sample_metadata import METADATA_FLAGS, add_metadata, print_batch_notes
from gpower.cli.shared_flags import (
    GPOWER_FLAGS,
    READ_TABLE_FLAGS,
    SOLVER_FLAGS,
    FlagGroups,
    OptionValues,
    format_typed_flags,
    merge_solver_options,
    typed_params,
)
from gpower.cli.tables import InputTable, load_table
from gpower.report.terminal import collect_fitted_attributes, print_components, write_results

FIT_FLAGS = override_flags(
    GPOWER_FLAGS,
    n_components={
        "default": None,  # `infer_n_components` takes the number from the lists given to other flags
        "help": "Number of components; by default the length of a list such as -k 20,10,5, or 2. auto: as many as "
        "explain more than chance, at most 20.",
    },
    cardinality={
        "kind": 'int, float or sequence of these or "auto"',
        "help": "Variables in each component: one number, one for each, as 20,10,5, a share of the variance, as 90%, "
        "or auto: by cross-validation. Without it, and without --gamma or another level: 10, or a third of few "
        "variables.",
    },
)
_CV_PARAMS = ("cv", "criterion", "rule", "cardinalities", "n_jobs")
CROSS_VALIDATION_FLAGS = override_flags(
    read_library_flags("gpower", "GPowerCV", *_CV_PARAMS),
    cardinalities={
        "long": "--grid",
        "short": "",
        "help": "With -k auto: numbers to choose from; by default up to 50 numbers, from one variable to all.",
    },
) | group_flags(
    Flag("plot_choice", "picture", help="With -k auto: draw the score of every number into this .png, .pdf or .svg.")
)

#: The ordinary components of a larger table, which would take more than about a second, are not computed.
_MAX_ORDINARY_MULTIPLICATIONS = 2e10
#: Where the data are read and the fit runs.
_PLACE_FLAGS = group_flags(
    Flag("cache", "folder", help="Decode a compressed store once into this folder, and read it from there."),
    Flag("device", '{"cpu", "cuda"}', "cpu", "cuda: use a GPU, which needs CuPy."),
    Flag("scheduler", "str", help="Address of a Dask cluster to work on, tcp://…, whose workers can read DATA."),
)


@command(
    ("loadings.csv", "loadings_list.csv", "scores.csv", "model.npz"),
    "the loadings",
    has_json=True,
    reading=READ_TABLE_FLAGS,
    metadata=METADATA_FLAGS,
    options=FIT_FLAGS,
    choice=CROSS_VALIDATION_FLAGS,
    place=_PLACE_FLAGS,
)
def fit(
    sink: OutputSink,
    flags: FlagGroups,
    data: Path,
    *,
    safe_csv: bool = False,
    top: int = 50,
) -> None:
    """Find sparse components of a table: gpower fit genes.csv -m 5 -k 20 -o results

    Parameters
    ----------
    data : path
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    top : int
        Largest number of variables to print per component.
    """
    from gpower.plotting import plot_loadings

    loaded = load_table(data, flags.reading, flags.options, sink)
    loaded = loaded.decode_to_cache(flags.place["cache"], flags.place["scheduler"], sink)
    loaded = add_metadata(loaded, flags.metadata, sink, is_shown=True)
    with loaded.share_with_cluster(flags.place["scheduler"], flags.reading) as shared:
        fitted, notes = fit_model(shared, flags.options, flags.choice, sink, flags.place["device"])
        model = fitted.best_estimator_ if isinstance(fitted, gpower.GPowerCV) else fitted
        notes += print_batch_notes(model, shared, sink)
        ordinary_share = None if sink.as_json else _compute_ordinary_share(model, shared)
        sink.print_result(
            lambda: collect_fitted_attributes(model, shared.feature_names, [*shared.notes, *notes]),
            lambda console: print_components(console, model, shared.feature_names, shared.title, top, ordinary_share),
        )
        sink.write_files(
            lambda folder: write_results(
                folder, model, shared.table, shared.feature_names, shared.is_covariance, safe_csv, shared.removed
            )
        )
        sink.save_plot(lambda: plot_loadings(model, shared.feature_names))


def fit_model(
    input_table: InputTable, options: OptionValues, choice: OptionValues, sink: OutputSink, device: str = "cpu"
) -> tuple["gpower.GPower | gpower.GPowerCV", list[str]]:
    """Fit a model, print what casts doubt on it to stderr, and return it with NumPy arrays, and these notes.

    `choice` are the parameters of the cross-validation that chooses the numbers of variables if the option
    `cardinality` is "auto"; the search is then returned, with the model as its best estimator.
    """
    import numpy as np

    from gpower._utils.arrays import to_device, to_numpy
    from gpower.report.doubts import find_doubts
    from gpower.validation.params import expand_per_component, resolve_solver

    search = None
    if options["cardinality"] == "auto":
        search = choose_cardinality(input_table, options, choice, sink)
        chosen = search.best_params_["cardinality"]
        options["cardinality"] = expand_per_component(chosen, "-k", options["n_components"])
    elif typed := list_typed_choice_flags(choice):
        raise ValueError(f"{', '.join(typed)} would have no effect: add -k auto, which chooses numbers of variables.")
    params = merge_solver_options(options)
    description = "fitting {} × {}".format(*input_table.table.X.shape)
    progress = sink.show_progress(description, input_table.bytes_on_disk)
    with collect_warnings() as messages, progress as callback:
        X = input_table.table.to_frame_or_array() if device == "cpu" else to_device(input_table.table.X, device)
        model = gpower.GPower(**resolve_solver(params)).set_params(solver__callback=callback)
        model.fit(X, **input_table.removed)
    model.set_params(**params)  # the callback ends with the command
    model.components_, model.mean_, model.scale_ = map(to_numpy, (model.components_, model.mean_, model.scale_))
    if search is not None:
        model.cardinality_choice_ = search.best_estimator_.cardinality_choice_
        search.best_estimator_ = model
    model.warnings_ = np.array(messages, dtype=object)  # without those that repeat a hint of load_table
    notes = list(dict.fromkeys((*find_doubts(model), *map(str, model.notes_))))
    sink.print_notes(*notes)
    return model if search is None else search, notes


def list_typed_choice_flags(choice: OptionValues) -> list[str]:
    """Return the flags of the cross-validation that were typed."""
    return [CROSS_VALIDATION_FLAGS[name].display_name for name in choice if name in typed_params.get()]


def _compute_ordinary_share(model: "gpower.GPower", input_table: InputTable) -> float | None:
    """Return the share of the variance that as many ordinary components explain; None if that would take long."""
    n_samples, n_features = input_table.table.X.shape
    multiplications = n_samples * n_features * min(n_samples, n_features)
    if input_table.storage != "memory" or model.balance or multiplications > _MAX_ORDINARY_MULTIPLICATIONS:
        return None
    from gpower.plotting.scree import compute_pca_shares

    # The model knows which variables of a covariance are covariates.
    removed = {} if input_table.is_covariance else input_table.removed
    with collect_warnings():  # the fit has printed them
        residual_model, X = model.remove_covariates(input_table.table.to_frame_or_array(), **removed)
        return float(compute_pca_shares(residual_model, X).sum())


def choose_cardinality(
    input_table: InputTable, options: OptionValues, cv_options: OptionValues, sink: OutputSink
) -> "gpower.GPowerCV":
    """Choose the number of variables of each component by cross-validation, print it to stderr, return the search.

    `cv_options` are parameters of `GPowerCV`, `cv` and `criterion` among them, and the file `plot_choice`.
    """
    from gpower.plotting import plot_cv

    if options["n_components"] == "auto":
        raise ValueError(
            "-m auto and -k auto cannot be used together, because each needs the other. Run -m auto -k 10 first, which "
            "counts the components of 10 variables that are more than chance; then -k auto with that number as -m."
        )
    cv_params = gpower.GPowerCV().get_params()
    rejected = format_typed_flags(options, {*cv_params, *SOLVER_FLAGS, "cardinality", "certify", "verbose"})
    if rejected:
        raise ValueError(f"-k auto does not go together with {rejected}; give the number of variables instead.")
    cv_options = {name: value for name, value in cv_options.items() if name != "plot_choice"}
    options = merge_solver_options(options)
    shared = {name: value for name, value in options.items() if name in cv_params}
    search = "joint" if options["method"] == "block" else "sequential"
    description = f"choosing the number of variables by {cv_options['cv']} folds"
    with sink.print_warnings(), sink.show_progress_bar(description) as update:
        model = gpower.GPowerCV(**shared, **cv_options, search=search, progress=update)
        model.fit(input_table.table.to_frame_or_array(), **input_table.removed)
    sink.print_notes(f"{model.best_estimator_.cardinality_choice_}.")
    sink.save_plot(lambda: plot_cv(model), "plot_choice")
    return model
