"""``gpower fit``: sparse components of a table."""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from gpower.cli.app import app
from gpower.cli.console import fitted, logged, made, manners, note, noted, progress, read, say
from gpower.cli.options import (
    Center,
    Data,
    Deflation,
    Drop,
    Header,
    IndexCol,
    IsCovariance,
    Key,
    Method,
    Missing,
    NInit,
    Penalty,
    Positive,
    RandomState,
    Scale,
    Top,
    Transpose,
    Verbose,
    answer_option,
    component_option,
    method_option,
    numbers_or_auto,
    one_or_each,
)
from gpower.report import attributes, print_components, table_title, variable_names, write_results

if TYPE_CHECKING:
    from gpower import GPower
    from gpower.datasets import Table


@app.command()
def fit(
    data: Data,
    index_col: IndexCol = None,
    drop: Drop = None,
    header: Header = None,
    transpose: Transpose = False,
    key: Key = None,
    covariance: IsCovariance = False,
    center: Center = True,
    scale: Scale = False,
    missing: Missing = "error",
    n_components: Annotated[
        int | None,
        component_option(
            "--n-components",
            "-m",
            help="Number of components; by default as many as -k, --gamma or --mu lists, or 2.",
        ),
    ] = None,
    cardinality: Annotated[
        Any,
        component_option(
            "--cardinality",
            "-k",
            parser=numbers_or_auto,
            metavar="K,...",
            help="Variables in each component: one number, one each, as 20,10,5, or auto: by cross-validation.",
        ),
    ] = None,
    folds: Annotated[
        int, component_option(metavar="N", min=2, help="With -k auto: parts that the samples are split into.")
    ] = 5,
    rule: Annotated[
        str,
        component_option(
            metavar="RULE",
            help="With -k auto: best, or one-se, the fewest variables within a standard error of the best.",
        ),
    ] = "best",
    gamma: Annotated[
        Any,
        component_option(
            parser=one_or_each(float),
            metavar="G,...",
            help="Instead of -k: penalty as a fraction, from 0 to below 1, of its largest useful value. With "
            "neither: 0.01, or 0.1 for the l1 penalty.",
        ),
    ] = None,
    l1_bound: Annotated[
        Any,
        component_option(
            parser=one_or_each(float),
            metavar="S,...",
            help="Instead of -k: bound the sum of the absolute loadings by the root of S.",
        ),
    ] = None,
    penalty: Penalty = "l0",
    positive: Positive = False,
    variance: Annotated[
        str, component_option(metavar="KIND", help="Variance: l2, or l1, which outlying samples sway less.")
    ] = "l2",
    method: Method = "deflation",
    mu: Annotated[
        Any,
        method_option(parser=one_or_each(float), metavar="MU,...", help="Weights of the components of a block."),
    ] = None,
    deflation: Deflation = "projection",
    refit: Annotated[
        str,
        method_option(
            metavar="RULE",
            help="How loadings are filled in once the variables are chosen: auto, norms, variance or none.",
        ),
    ] = "auto",
    polish: Annotated[bool, method_option("--polish/--no-polish", help="Exchange variables while that helps.")] = True,
    n_init: NInit = "auto",
    init: Annotated[
        str | None, method_option(metavar="NAME", help="paper: start exactly where the paper does.")
    ] = None,
    solver: Annotated[
        str,
        method_option(metavar="NAME", help="rounds: a few columns at a time; direct: the whole matrix; or auto."),
    ] = "auto",
    regularization: Annotated[float, method_option(help="Strong convexity added to a block.")] = 0.0,
    acceleration: Annotated[bool, method_option("--acceleration/--no-acceleration", help="Use momentum.")] = True,
    tol: Annotated[float, method_option(help="Stop when the objective grows by less, relatively.")] = 1e-6,
    max_iter: Annotated[int, method_option(help="Most steps of an ascent.")] = 1000,
    accumulation: Annotated[
        str | None,
        method_option(metavar="TYPE", help="float64: sum products with float32 data in double precision; slower."),
    ] = None,
    memory_limit: Annotated[
        str | None, method_option("--memory", metavar="SIZE", help="Memory for data on disk, as 2GB.")
    ] = None,
    cache: Annotated[
        Path | None,
        method_option(metavar="DIR", help="Decode a compressed store once into this folder, and read it from there."),
    ] = None,
    device: Annotated[str, method_option(metavar="NAME", help="cpu, or cuda: a GPU, which needs CuPy.")] = "cpu",
    scheduler: Annotated[
        str | None,
        method_option(metavar="ADDRESS", help="Work on the Dask cluster at tcp://…, whose workers see DATA too."),
    ] = None,
    checkpoint: Annotated[
        Path | None, method_option(metavar="FILE", help="Keep the components found so far in this file.")
    ] = None,
    resume: Annotated[bool, method_option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    random_state: RandomState = None,
    output: Annotated[
        Path | None,
        answer_option(
            "--output", "-o", metavar="DIR", help="Write loadings.csv, scores.csv and model.npz into this folder."
        ),
    ] = None,
    plot: Annotated[
        Path | None, answer_option(metavar="FILE", help="Draw the loadings into this .png, .pdf or .svg.")
    ] = None,
    as_json: Annotated[
        bool, answer_option("--json", help="Print all fitted attributes as JSON, complete and therefore long.")
    ] = False,
    certify: Annotated[
        bool, answer_option("--certify", help="Prove how far each component is from the best possible.")
    ] = False,
    top: Top = 50,
    verbose: Verbose = 0,
) -> None:
    """Find sparse components of a table: gpower fit genes.csv -m 5 -k 20 -o results"""
    lists = {"cardinality": cardinality, "gamma": gamma, "l1_bound": l1_bound, "mu": mu}
    options = lists | {
        "n_components": n_components if n_components is not None else _listed(lists.values()),
        "penalty": penalty,
        "method": method,
        "variance": variance,
        "positive": positive,
        "covariance": "precomputed" if covariance else None,
        "center": center,
        "scale": scale,
        "certify": certify,
        "missing": missing,
        "n_init": n_init,
        "init": init,
        "solver": solver,
        "refit": None if refit == "none" else refit,
        "polish": polish,
        "deflation": deflation,
        "regularization": regularization,
        "acceleration": acceleration,
        "tol": tol,
        "max_iter": max_iter,
        "accumulation": accumulation,
        "memory_limit": memory_limit,
        "checkpoint": checkpoint if checkpoint is None else str(checkpoint),
        "resume": resume,
        "random_state": random_state,
        "verbose": verbose,
    }
    console, err = Console(), Console(stderr=True)
    with manners(err), logged(verbose), ExitStack() as stack:
        from gpower.plotting import prepare_picture

        folder = None if output is None else made(output)
        if plot is not None:
            prepare_picture(plot)
        layout = {"index_col": index_col, "header": header, "transpose": transpose}
        with progress(err, f"reading {data.name}"):
            wanted = {"key": key, "drop": drop or (), "complete": missing == "error"}
            table, doubts = read(data, covariance, layout, memory_limit, **wanted)
        note(err, doubts)
        if cache is not None:
            table = _decoded(table, data, cache, scheduler, err)
        if scheduler is not None:
            table = _on_cluster(table, data, key, scheduler, stack)
        if cardinality == "auto":
            options["cardinality"] = _chosen(table, options, {"cv": folds, "rule": rule}, err)
        model, notes = fitted(table, options, err, device)
        names = variable_names(table)
        if as_json:
            typer.echo(json.dumps(attributes(model, names, [*doubts, *notes]), allow_nan=False))
        else:
            print_components(console, model, names, title=table_title(table, data.name, covariance), top=top)
        _written(err if as_json else console, model, table, covariance, folder, plot)


def _written(
    aside: Console, model: "GPower", table: "Table", covariance: bool, folder: Path | None, plot: Path | None
) -> None:
    """Write the files that were asked for, and say so."""
    names = variable_names(table)
    if folder is not None:
        written = write_results(folder, model, table, names, covariance)
        say(aside, f"Wrote {', '.join(written)} into {folder}.")
    if plot is not None:
        from gpower.plotting import write_picture

        write_picture(model, names, plot)
        say(aside, f"Picture: {plot}")


def _listed(values: Iterable[Any]) -> int:
    """The number of components that the options with one entry per component imply."""
    return next((len(value) for value in values if isinstance(value, list)), 2)


def _decoded(table: "Table", data: Path, cache: Path, scheduler: str | None, err: Console) -> "Table":
    """The table of a store, read from where it was decoded to."""
    from dataclasses import replace

    from gpower.operators.caching import cached
    from gpower.operators.streamed import Source

    if scheduler is not None:
        raise ValueError("--cache is for this machine; with --scheduler each worker reads the store itself.")
    if not isinstance(table.X, Source):
        raise ValueError(f"--cache is for stores that are read in blocks; {data} is read whole, once.")
    with progress(err, f"decoding {data.name}"):
        return replace(table, X=cached(table.X, cache))


def _on_cluster(table: "Table", data: Path, key: str | None, scheduler: str, stack: ExitStack) -> "Table":
    """The table as a Dask array of a cluster, to which the connection lasts as long as the stack."""
    from dataclasses import replace

    from gpower.operators.distributed import connect, from_store

    lazy = from_store(data.resolve(), key)
    stack.enter_context(connect(scheduler))
    return replace(table, X=lazy)


def _chosen(table: "Table", options: dict[str, Any], how: dict[str, Any], err: Console) -> list[int]:
    """The number of variables of each component by cross-validation, said on stderr."""
    from gpower import GPower, GPowerCV
    from gpower.operators.streamed import Source

    if isinstance(table.X, Source) or hasattr(table.X, "dask"):
        raise ValueError("-k auto needs the table in memory, to split its samples; give the number of variables.")
    known, defaults = GPowerCV().get_params(), GPower().get_params()
    idle = ("cardinality", "verbose")
    other = [name for name, value in options.items() if name not in (*known, *idle) and value != defaults[name]]
    if other:
        flags = ", ".join("--" + name.replace("_", "-") for name in other)
        raise ValueError(f"-k auto does not go together with {flags}; give the number of variables instead.")
    shared = {name: value for name, value in options.items() if name in known}
    search = "joint" if options["method"] == "block" else "sequential"
    with noted(err), progress(err, f"choosing the number of variables by {how['cv']} folds"):
        model = GPowerCV(**shared, **how, search=search).fit(table.labelled())
    chosen = [int(k) for k in model.cardinality_]
    note(err, [f"cross-validation chose {','.join(map(str, chosen))} variables, {how['rule']} of {how['cv']} folds."])
    return chosen
