"""``gpower plot``: every picture of a saved model that its data allow."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpower._utils.text import listed
from gpower.cli.app import command
from gpower.cli.console import answering, note, noted, progress
from gpower.cli.models import load_for, load_model
from gpower.cli.options import READING, Values
from gpower.cli.tables import Loaded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpower.analysis.association import Column
    from gpower.estimators.base import SparsePCAEstimator

#: A picture: the name of its file, and what draws it.
Picture = tuple[str, Callable[[], Any]]
_MOST_COLOURED = 12  # columns of metadata that the scores are coloured by


@command(reading=READING)
def plot(
    model: Path,
    data: Path,
    *,
    reading: Values,
    metadata: Path | None = None,
    output: Path = Path("figures"),
    suffix: str = "png",
    level: float = 0.95,
) -> None:
    """Draw a model and its samples: gpower plot model.npz genes.csv --metadata samples.csv -o figures

    Parameters
    ----------
    model : path
        What gpower fit -o wrote: model.npz.
    data : path
    metadata : path, optional
        Text table of what is known of the samples, a row for each.
    output : folder
        Folder for the pictures.
    suffix : {"png", "pdf", "svg"}
        Kind of the pictures.
    level : float
        Share of normal samples that limits and ellipses hold.
    """
    with answering(output) as answer:
        from gpower.plotting import save_picture
        from gpower.validation.params import one_of

        one_of(suffix, "suffix", ("png", "pdf", "svg"))
        fitted = load_model(model)
        loaded = load_for(fitted, data, reading, answer.err)
        with noted(answer.err):
            columns = metadata_columns(metadata, loaded)
        note(answer.err, _untold(columns))
        drawn: list[str] = []
        with noted(answer.err), progress(answer.err, f"drawing {model.name}"):
            for name, draw in _pictures(fitted, loaded, columns, level):
                try:
                    save_picture(draw(), output / f"{name}.{suffix}")
                    drawn.append(f"{name}.{suffix}")
                except ValueError as error:  # one picture that cannot be is no reason to lose the others
                    note(answer.err, [f"no {name}. {error}"])
        answer.tell(f"Wrote {', '.join(drawn)} into {output}.")


def metadata_columns(metadata: Path | None, loaded: Loaded) -> dict[str, list[str]]:
    """What a file knows of the samples, by column; nothing where no file is given."""
    from gpower.datasets import read_metadata

    if metadata is None:
        return {}
    if loaded.covariance:
        raise ValueError("--metadata tells of samples; DATA is a covariance and has none.")
    return read_metadata(metadata, loaded.table.X.shape[0], loaded.table.sample_names)


def _pictures(
    model: "SparsePCAEstimator", loaded: Loaded, columns: dict[str, list[str]], level: float
) -> Iterator[Picture]:
    """Those of the model, those of its variables and samples, those by metadata."""
    from gpower import plotting

    X, names, m = loaded.table.labelled(), loaded.names, len(model.components_)
    yield "loadings", partial(plotting.plot_loadings, model, names)
    yield "support", partial(plotting.plot_support, model, names)
    yield "scree", partial(plotting.plot_scree, model, X)
    if m > 1:
        yield "overlap", partial(plotting.plot_overlap, model)
        yield "correlation_circle", partial(plotting.plot_correlation_circle, model, X, feature_names=names)
    if loaded.covariance:
        return
    yield "outliers", partial(plotting.plot_outliers, model, X, loaded.table.sample_names, level=level)
    if m > 1:
        yield "scores", partial(plotting.plot_scores, model, X, names=loaded.table.sample_names, ellipse=level)
        yield "biplot", partial(plotting.plot_biplot, model, X, feature_names=names)
    if m > 2:
        yield "pairs", partial(plotting.plot_pairs, model, X)
    if columns:
        yield "metadata", partial(plotting.plot_metadata, model, X, columns)
        yield from _coloured(model, X, columns, level) if m > 1 else ()


def _coloured(model: "SparsePCAEstimator", X: Any, columns: dict[str, list[str]], level: float) -> Iterator[Picture]:
    """The scores by each column that tells samples apart."""
    from gpower.plotting import plot_scores

    files: set[str] = set()
    for name, column in _telling(columns).items():
        file = "scores_by_" + (re.sub(r"\W+", "_", name).strip("_")[:40] or "column")
        while file in files:
            file += "_"
        files.add(file)
        ellipse = None if column.is_measured else level
        yield file, partial(_entitled, name, partial(plot_scores, model, X, labels=columns[name], ellipse=ellipse))


def _untold(columns: dict[str, list[str]]) -> list[str]:
    """What there is to say of columns that no scores are coloured by."""
    from gpower.plotting.sample_groups import MAX_GROUPS

    telling = _telling(columns)
    idle = [name for name in columns if name not in telling]
    shown = (
        f"colours show the first {_MOST_COLOURED} columns of numbers, or of words that make 2 to {MAX_GROUPS} groups"
    )
    return [f"scores are not coloured by {listed(idle)}: {shown}."] if idle else []


def _telling(columns: dict[str, list[str]]) -> "dict[str, Column]":
    """The first columns that tell samples apart: of numbers, or of groups that colours can show."""
    from gpower.analysis.association import column_of
    from gpower.plotting.sample_groups import MAX_GROUPS

    found = {name: column_of(values) for name, values in columns.items()}
    telling = [name for name, each in found.items() if each.is_measured or 1 < len(each.groups) <= MAX_GROUPS]
    return {name: found[name] for name in telling[:_MOST_COLOURED]}


def _entitled(name: str, draw: Callable[[], "Axes"]) -> "Axes":
    """A picture with a name above it."""
    from gpower.plotting.canvas import entitle
    from gpower.plotting.style import literal

    panel = draw()
    entitle(panel, literal(name))
    return panel
