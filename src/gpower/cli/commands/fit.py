"""``gpower fit``: sparse components of a table."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpower.cli.app import command
from gpower.cli.console import answering, counted, logged, note, noted, progress
from gpower.cli.flags import changed, flags_of
from gpower.cli.options import COUNTED, GPOWER, READING, Values, count_components
from gpower.cli.tables import Loaded, load
from gpower.cli.variable_files import read_column, read_names
from gpower.report.terminal import attributes, print_components, write_results

if TYPE_CHECKING:
    from gpower import GPower

_CARDINALITY = {
    "kind": 'int, float or sequence of these or "auto"',
    "help": "Variables in each component: one number, one each, as 20,10,5, a share of the variance, as 90%, or auto: "
    "by cross-validation.",
}
_GRID = {
    "long": "--grid",
    "short": "",
    "help": "With -k auto: the numbers of variables to choose from; by default up to 50, from one to all.",
}
_OPTIONS = changed(GPOWER, n_components=COUNTED, cardinality=_CARDINALITY)
_CHOICE = changed(
    flags_of("gpower", "GPowerCV", "cv", "criterion", "rule", "cardinalities", "n_jobs", like=GPOWER),
    cardinalities=_GRID,
)


@command(reading=READING, options=_OPTIONS, choice=_CHOICE)
def fit(
    data: Path,
    *,
    reading: Values,
    options: Values,
    choice: Values,
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
        cuda: on a GPU, which needs CuPy.
    scheduler : str, optional
        Work on the Dask cluster at this address, tcp://…, whose workers see DATA too.
    output : folder, optional
        Write loadings.csv, loadings_list.csv, scores.csv and model.npz into this folder.
    plot : path, optional
        Draw the loadings into this .png, .pdf or .svg.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    as_json : bool
        Print all fitted attributes as JSON, complete and therefore long.
    top : int
        Print at most so many variables of a component.
    """
    with answering(output, plot, as_json, inputs=(data,)) as answer, logged():
        from gpower.plotting import plot_loadings

        count_components(options)
        read_column(options, reading, data)
        loaded = load(data, reading, options, answer.err).decoded(cache, scheduler, answer.err)
        read_names(options, loaded.names)
        with loaded.shared_with(scheduler) as shared:
            if options["cardinality"] == "auto":
                options["cardinality"] = _chosen(shared, options, choice, answer.err)
            model, notes = fitted(shared, options, answer.err, device)
            answer.give(
                lambda: attributes(model, shared.names, [*shared.doubts, *notes]),
                lambda console: print_components(console, model, shared.names, shared.title, top),
            )
            answer.write(
                lambda place: write_results(place, model, shared.table, shared.names, shared.covariance, safe_csv)
            )
            answer.draw(lambda: plot_loadings(model, shared.names))


def fitted(loaded: Loaded, options: Values, err: Console, device: str = "cpu") -> tuple["GPower", list[str]]:
    """The model, on the host wherever it was fitted, with its warnings as notes on stderr."""
    from gpower import GPower
    from gpower._utils.backends import on_host, to_device

    what = "fitting {} × {}".format(*loaded.table.X.shape)
    with noted(err) as notes, progress(err, what, loaded.bytes_on_disk) as tell:
        X = loaded.table.labelled() if device == "cpu" else to_device(loaded.table.X, device)
        model = GPower(**options, callback=tell).fit(X)
    note(err, model.notes_)
    model.components_, model.mean_, model.scale_ = map(on_host, (model.components_, model.mean_, model.scale_))
    return model, [*notes, *model.notes_]


def _chosen(loaded: Loaded, options: Values, how: Values, err: Console) -> list[int]:
    """The number of variables of each component by cross-validation, said on stderr."""
    from gpower import GPower, GPowerCV
    from gpower.validation.params import per_unit

    if options["n_components"] == "auto":
        raise ValueError(
            "-m auto with -k auto: each needs the other. Give one of the two: -m auto -k 10 says how many components "
            "of 10 variables are more than chance; then -m and that number with -k auto."
        )
    known, defaults = GPowerCV().get_params(), GPower().get_params()
    idle = ("cardinality", "verbose")
    other = [name for name, value in options.items() if name not in (*known, *idle) and value != defaults[name]]
    if other:
        flags = ", ".join("--" + name.replace("_", "-") for name in other)
        raise ValueError(f"-k auto does not go together with {flags}; give the number of variables instead.")
    shared = {name: value for name, value in options.items() if name in known}
    search = "joint" if options["method"] == "block" else "sequential"
    with noted(err), counted(err, f"choosing the number of variables by {how['cv']} folds") as tell:
        model = GPowerCV(**shared, **how, search=search, progress=tell).fit(loaded.table.labelled())
    chosen: list[int] = per_unit(model.best_estimator_.cardinality, "-k", options["n_components"])
    by = ",".join(dict.fromkeys(model.chosen_by_))
    others = ", ".join(
        f"{name} {','.join(map(str, numbers))}" for name, numbers in model.criteria_.items() if name != by
    )
    what = "variables" if options["groups"] is None else "groups"
    note(err, [f"{by} chose {','.join(map(str, chosen))} {what}, in {how['cv']} folds; others: {others}."])
    return chosen
