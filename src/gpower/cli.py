"""The command line: ``gpower fit`` and ``gpower demo``. Needs typer and rich, the ``cli`` extra.

Results go to stdout; notes, errors and progress to stderr. Exit codes: 0 done, 1 bad data or parameters,
2 wrong usage, 130 interrupted. Whatever is slow to import loads inside the commands.
"""

import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from gpower.report import attributes, print_components, table_title, variable_names, write_results

if TYPE_CHECKING:
    from gpower import GPower
    from gpower.datasets import Table

__all__ = ["app"]

app = typer.Typer(
    help="Sparse principal components: each uses a few named variables.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PATIENCE = 1.0  # seconds of work before progress shows
_PITPROPS_CARDINALITY = [7, 4, 4, 1, 1, 1]  # the choice of the literature


def _print_version(wanted: bool) -> None:
    if wanted:
        from gpower import __version__

        typer.echo(f"gpower {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Sparse principal components: each uses a few named variables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _one_or_each(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of one number, or of one per component separated by commas."""

    def numbers(text: str) -> Any:
        try:
            values = [kind(part) for part in str(text).split(",")]
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise typer.BadParameter(f"{text!r} is not {what}, nor several separated by commas") from None
        return values if len(values) > 1 else values[0]

    return numbers


def _count_or_auto(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _name_or_position(text: str) -> int | str:
    return int(text) if str(text).isdecimal() else text


def _names_or_positions(text: str) -> list[int | str]:
    return [_name_or_position(part.strip()) for part in str(text).split(",")]


_table_option = partial(typer.Option, rich_help_panel="The table")
_component_option = partial(typer.Option, rich_help_panel="The components")
_method_option = partial(typer.Option, rich_help_panel="The method")
_answer_option = partial(typer.Option, rich_help_panel="The answer")


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Table, samples × variables: .csv .tsv .txt (also .gz), .parquet, .npy, .npz, .mtx (also .gz).",
            show_default=False,
        ),
    ],
    index_col: Annotated[
        Any,
        _table_option(
            parser=_name_or_position,
            metavar="COLUMN",
            help="Column with the rows' names: its heading, or its position from 0. Most files do not need it.",
        ),
    ] = None,
    drop: Annotated[
        Any,
        _table_option(
            parser=_names_or_positions,
            metavar="COLUMN,...",
            help="Columns to leave out, such as descriptions: their headings, or positions from 0.",
        ),
    ] = None,
    header: Annotated[
        bool | None,
        _table_option(
            "--header/--no-header",
            help="Whether a text file begins with names; by default its first line decides.",
        ),
    ] = None,
    transpose: Annotated[
        bool, _table_option("--transpose", help="DATA is variables × samples, as in genes × samples.")
    ] = False,
    key: Annotated[str | None, _table_option(metavar="NAME", help="Array of an .npz archive to use.")] = None,
    covariance: Annotated[
        bool, _table_option("--covariance", help="DATA is a covariance or correlation matrix.")
    ] = False,
    center: Annotated[bool, _table_option("--center/--no-center", help="Subtract the means.")] = True,
    scale: Annotated[bool, _table_option("--scale/--no-scale", help="Divide by the standard deviations.")] = False,
    n_components: Annotated[
        int | None,
        _component_option(
            "--n-components",
            "-m",
            help="Number of components; by default as many as -k, --gamma or --mu lists, or 2.",
        ),
    ] = None,
    cardinality: Annotated[
        Any,
        _component_option(
            "--cardinality",
            "-k",
            parser=_one_or_each(int),
            metavar="K,...",
            help="Variables in each component: one number, or one per component, as 20,10,5.",
        ),
    ] = None,
    gamma: Annotated[
        Any,
        _component_option(
            parser=_one_or_each(float),
            metavar="G,...",
            help="Instead of -k: penalty as a fraction, from 0 to below 1, of its largest useful value. With "
            "neither: 0.01, or 0.1 for the l1 penalty.",
        ),
    ] = None,
    l1_bound: Annotated[
        Any,
        _component_option(
            parser=_one_or_each(float),
            metavar="S,...",
            help="Instead of -k: bound the sum of the absolute loadings by the root of S.",
        ),
    ] = None,
    penalty: Annotated[str, _component_option(metavar="KIND", help="Penalty: l0 or l1.")] = "l0",
    positive: Annotated[bool, _component_option("--positive", help="Non-negative loadings.")] = False,
    variance: Annotated[
        str, _component_option(metavar="KIND", help="Variance: l2, or l1, which outlying samples sway less.")
    ] = "l2",
    method: Annotated[
        str,
        _method_option(metavar="NAME", help="deflation: one component after the other; block: all at once."),
    ] = "deflation",
    mu: Annotated[
        Any,
        _method_option(parser=_one_or_each(float), metavar="MU,...", help="Weights of the components of a block."),
    ] = None,
    deflation: Annotated[
        str,
        _method_option(
            metavar="RULE",
            help="How a component is removed before the next: projection, orthogonalized or schur.",
        ),
    ] = "projection",
    refit: Annotated[
        str,
        _method_option(
            metavar="RULE",
            help="How loadings are filled in once the variables are chosen: auto, norms, variance or none.",
        ),
    ] = "auto",
    polish: Annotated[bool, _method_option("--polish/--no-polish", help="Exchange variables while that helps.")] = True,
    n_init: Annotated[
        Any, _method_option(parser=_count_or_auto, metavar="N", help="Number of starts, or auto.")
    ] = "auto",
    init: Annotated[
        str | None, _method_option(metavar="NAME", help="paper: start exactly where the paper does.")
    ] = None,
    solver: Annotated[
        str,
        _method_option(metavar="NAME", help="rounds: a few columns at a time; direct: the whole matrix; or auto."),
    ] = "auto",
    regularization: Annotated[float, _method_option(help="Strong convexity added to a block.")] = 0.0,
    acceleration: Annotated[bool, _method_option("--acceleration/--no-acceleration", help="Use momentum.")] = True,
    tol: Annotated[float, _method_option(help="Stop when the objective grows by less, relatively.")] = 1e-6,
    max_iter: Annotated[int, _method_option(help="Most steps of an ascent.")] = 1000,
    random_state: Annotated[int | None, _method_option(help="Seed of random starts.")] = None,
    output: Annotated[
        Path | None,
        _answer_option(
            "--output", "-o", metavar="DIR", help="Write loadings.csv, scores.csv and model.npz into this folder."
        ),
    ] = None,
    plot: Annotated[
        Path | None, _answer_option(metavar="FILE", help="Draw the loadings into this .png, .pdf or .svg.")
    ] = None,
    as_json: Annotated[
        bool, _answer_option("--json", help="Print all fitted attributes as JSON, complete and therefore long.")
    ] = False,
    top: Annotated[int, _answer_option(metavar="N", min=1, help="Print at most N variables of a component.")] = 50,
    verbose: Annotated[int, _answer_option("--verbose", "-v", count=True, help="Say more.")] = 0,
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
    with _manners(err), _logging(verbose):
        from gpower.plotting import prepare_picture, write_picture

        folder = None if output is None else _made(output)
        if plot is not None:
            prepare_picture(plot)
        layout = {"index_col": index_col, "header": header, "transpose": transpose}
        with _progress(err, f"reading {data.name}"):
            table, doubts = _read(data, covariance, layout, key=key, drop=drop or (), complete=True)
        _note(err, doubts)
        model, notes = _fitted(table, options, err)
        names = variable_names(table)
        if as_json:
            typer.echo(json.dumps(attributes(model, names, [*doubts, *notes]), allow_nan=False))
        else:
            print_components(console, model, names, title=table_title(table, data.name, covariance), top=top)
        aside = err if as_json else console
        if folder is not None:
            written = write_results(folder, model, table, names, covariance)
            _say(aside, f"Wrote {', '.join(written)} into {folder}.")
        if plot is not None:
            write_picture(model, names, plot)
            _say(aside, f"Picture: {plot}")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the two pictures.")] = Path(
        "gpower-demo"
    ),
) -> None:
    """Sparse components of two small tables that come with the package, printed and drawn."""
    console, err = Console(), Console(stderr=True)
    with _manners(err):
        from gpower.datasets import Table, load_pitprops, load_planted_expression

        folder = _made(output)
        pitprops = load_pitprops()
        table = Table(pitprops.correlation, pitprops.feature_names)
        title = f"Pitprops: correlations of 13 measurements on {pitprops.n_samples} pit props (Jeffers 1967)"
        _show_example(console, err, table, _PITPROPS_CARDINALITY, "precomputed", title, folder / "pitprops.png")

        expression = load_planted_expression()
        table = Table(expression.X, expression.feature_names, expression.sample_names)
        title = "Expression: 60 samples × 150 genes, made up, with modules of 8, 6 and 5 genes planted in noise"
        model = _show_example(console, err, table, [8, 6, 5], None, title, folder / "expression.png")
        for j, (module, genes) in enumerate(expression.modules.items()):
            found = set(model.loadings(expression.feature_names)[j])
            _say(console, f"Component {j + 1} found {len(found & set(genes))} of the {len(genes)} {module} genes.")


def _show_example(
    console: Console,
    err: Console,
    table: "Table",
    cardinality: list[int],
    covariance: str | None,
    title: str,
    picture: Path,
) -> "GPower":
    """Fit, print and draw one bundled table."""
    options = {"n_components": len(cardinality), "cardinality": cardinality, "covariance": covariance}
    model, _ = _fitted(table, options, err)
    print_components(console, model, variable_names(table), title)
    from gpower.plotting import write_picture

    try:
        write_picture(model, variable_names(table), picture)
    except ImportError as error:
        _say(err, f"note: no picture. {error}")
    else:
        _say(console, f"Picture: {picture}\n")
    return model


@contextmanager
def _manners(err: Console) -> Iterator[None]:
    """Turn what can go wrong into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        _say(err, "Interrupted.")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader of our output has left; typer ends quietly
        raise
    except (ValueError, ImportError, OSError, MemoryError) as error:
        _say(err, f"error: {_sentence(error)}")
        raise typer.Exit(1) from None


def _sentence(error: Exception) -> str:
    """What went wrong, on one line, with the options of the reader as one types them."""
    from gpower.datasets import TableError
    from gpower.datasets.hints import as_flag

    if isinstance(error, TableError):
        return error.spelled(as_flag)
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def _say(console: Console, text: str) -> None:
    """One line as it is, whatever the width of the terminal and whatever brackets a name contains."""
    console.print(Text(text), soft_wrap=True)


def _note(err: Console, notes: Iterable[str]) -> None:
    for note in notes:
        _say(err, f"note: {note}")


@contextmanager
def _logging(verbose: int) -> Iterator[None]:
    """What the library logs goes to stderr while the command runs."""
    logger, handler = logging.getLogger("gpower"), logging.StreamHandler()
    before = logger.level
    if verbose:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _listed(values: Iterable[Any]) -> int:
    """The number of components that the options with one entry per component imply."""
    return next((len(value) for value in values if isinstance(value, list)), 2)


def _made(folder: Path) -> Path:
    """The output folder, made before the work so that the work is not lost to a wrong name."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: this is a file; the results go into a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _read(path: Path, covariance: bool, layout: dict[str, Any], **options: Any) -> tuple["Table", list[str]]:
    """The table, and what it looks like where that is not how it was read."""
    from gpower.datasets import read_table
    from gpower.datasets.hints import hints

    table = read_table(path, **layout, **options)
    return table, [f"{hint}." for hint in hints(path, table, **layout, covariance=covariance)]


def _fitted(table: "Table", options: dict[str, Any], err: Console) -> tuple["GPower", list[str]]:
    """The model, with its warnings as notes on stderr."""
    from gpower import GPower

    n_samples, n_features = table.X.shape
    with (
        _progress(err, f"fitting {n_samples} × {n_features}") as tell,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        model = GPower(**options, callback=tell).fit(table.labelled())
    notes = list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    _note(err, notes)
    return model, notes


@contextmanager
def _progress(err: Console, what: str) -> Iterator[Callable[[Any], None] | None]:
    """Show on a terminal what is being done, once it has taken a second.

    Yields a callback for the estimator that counts its steps; None where there is no terminal.
    """
    if not err.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=err, transient=True)
    task = progress.add_task(what)
    steps = count(1)

    def tell(state: Any) -> None:
        progress.update(task, description=f"{what}, step {next(steps)}, objective {state.value:.6g}")

    timer = threading.Timer(_PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        timer.join()  # it may be starting the display just now
        if progress.live.is_started:
            progress.stop()
