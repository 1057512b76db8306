"""``gpower fit``: sparse components of a table."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gpower.cli.app import app
from gpower.cli.console import fitted, logged, made, manners, note, progress, read, say
from gpower.cli.options import (
    Center,
    Data,
    Drop,
    Header,
    IndexCol,
    IsCovariance,
    Key,
    RandomState,
    Scale,
    Top,
    Transpose,
    Verbose,
    answer_option,
    component_option,
    count_or_auto,
    method_option,
    one_or_each,
)
from gpower.report import attributes, print_components, table_title, variable_names, write_results


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
            parser=one_or_each(int),
            metavar="K,...",
            help="Variables in each component: one number, or one per component, as 20,10,5.",
        ),
    ] = None,
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
    penalty: Annotated[str, component_option(metavar="KIND", help="Penalty: l0 or l1.")] = "l0",
    positive: Annotated[bool, component_option("--positive", help="Non-negative loadings.")] = False,
    variance: Annotated[
        str, component_option(metavar="KIND", help="Variance: l2, or l1, which outlying samples sway less.")
    ] = "l2",
    method: Annotated[
        str,
        method_option(metavar="NAME", help="deflation: one component after the other; block: all at once."),
    ] = "deflation",
    mu: Annotated[
        Any,
        method_option(parser=one_or_each(float), metavar="MU,...", help="Weights of the components of a block."),
    ] = None,
    deflation: Annotated[
        str,
        method_option(
            metavar="RULE",
            help="How a component is removed before the next: projection, orthogonalized or schur.",
        ),
    ] = "projection",
    refit: Annotated[
        str,
        method_option(
            metavar="RULE",
            help="How loadings are filled in once the variables are chosen: auto, norms, variance or none.",
        ),
    ] = "auto",
    polish: Annotated[bool, method_option("--polish/--no-polish", help="Exchange variables while that helps.")] = True,
    n_init: Annotated[
        Any, method_option(parser=count_or_auto, metavar="N", help="Number of starts, or auto.")
    ] = "auto",
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
        "random_state": random_state,
        "verbose": verbose,
    }
    console, err = Console(), Console(stderr=True)
    with manners(err), logged(verbose):
        from gpower.plotting import prepare_picture, write_picture

        folder = None if output is None else made(output)
        if plot is not None:
            prepare_picture(plot)
        layout = {"index_col": index_col, "header": header, "transpose": transpose}
        with progress(err, f"reading {data.name}"):
            table, doubts = read(data, covariance, layout, key=key, drop=drop or (), complete=True)
        note(err, doubts)
        model, notes = fitted(table, options, err)
        names = variable_names(table)
        if as_json:
            typer.echo(json.dumps(attributes(model, names, [*doubts, *notes]), allow_nan=False))
        else:
            print_components(console, model, names, title=table_title(table, data.name, covariance), top=top)
        aside = err if as_json else console
        if folder is not None:
            written = write_results(folder, model, table, names, covariance)
            say(aside, f"Wrote {', '.join(written)} into {folder}.")
        if plot is not None:
            write_picture(model, names, plot)
            say(aside, f"Picture: {plot}")


def _listed(values: Iterable[Any]) -> int:
    """The number of components that the options with one entry per component imply."""
    return next((len(value) for value in values if isinstance(value, list)), 2)
