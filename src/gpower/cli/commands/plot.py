"""``gpower plot``: all pictures that a saved model and its data allow."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpower._utils.text import format_names
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.models import load_model_and_table
from gpower.cli.sample_metadata import METADATA_FLAGS, print_batch_notes
from gpower.cli.shared_flags import READ_TABLE_FLAGS, FlagGroups
from gpower.cli.tables import InputTable

if TYPE_CHECKING:
    from gpower.analysis.association import MetadataColumn
    from gpower.estimators.base import SparsePCAEstimator

#: Name of the file of a picture, without suffix, and the function that draws it.
NamedPlot = tuple[str, Callable[[], Any]]
_MAX_COLOURING_COLUMNS = 12  # columns of metadata that get a picture of the scores coloured by them
_MAX_HEATMAPS = 6  # components that get a heat map of their variables


@command(reading=READ_TABLE_FLAGS, metadata=METADATA_FLAGS)
def plot(
    sink: OutputSink,
    flags: FlagGroups,
    model: Path,
    data: Path,
    *,
    output: Path = Path("figures"),
    suffix: str = "png",
    level: float = 0.95,
) -> None:
    """Draw a model and its samples: gpower plot model.npz genes.csv --metadata samples.csv -o figures

    Parameters
    ----------
    model : path
        The model.npz that gpower fit -o wrote.
    data : path
    output : folder
        Folder of the pictures.
    suffix : {"png", "pdf", "svg"}
        File format of the pictures.
    level : float
        Share of normal samples within the limits and ellipses.
    """
    from gpower.plotting import save_figure
    from gpower.plotting.sample_groups import MAX_GROUPS
    from gpower.report.content import strip_feature_names
    from gpower.validation.params import check_option

    check_option(suffix, "suffix", ("png", "pdf", "svg"))
    fitted, loaded = load_model_and_table(model, data, flags, sink)
    coloured = _select_colouring_columns(loaded.metadata)
    if skipped := [name for name in loaded.metadata if name not in coloured]:
        rule = f"colours show the first {_MAX_COLOURING_COLUMNS} columns of numbers, or of 2 to {MAX_GROUPS} groups"
        sink.print_notes(f"scores are not coloured by {format_names(skipped)}: {rule}.")
    print_batch_notes(fitted, loaded, sink)
    # Arrays of the names that the model knows: to check those of a frame in each figure takes long.
    plotted = strip_feature_names(fitted).remove_covariates(loaded.table.X, **loaded.removed)
    file_names: list[str] = []
    with sink.print_warnings(), sink.show_progress(f"drawing {model.name}"):
        for name, draw in _list_plots(*plotted, loaded, coloured, level):
            try:
                save_figure(draw(), output / f"{name}.{suffix}")
                file_names.append(f"{name}.{suffix}")
            except ValueError as error:  # go on with the other pictures
                sink.print_notes(f"no {name}. {error}")
    if not file_names:
        raise ValueError("No picture could be drawn, for the reasons above.")
    sink.print_message(f"Wrote {', '.join(file_names)} into {output}.")


def _list_plots(
    model: "SparsePCAEstimator", X: Any, input_table: InputTable, coloured: "dict[str, MetadataColumn]", level: float
) -> Iterator[NamedPlot]:
    """Yield the pictures of the model, of its variables and samples, and of the metadata.

    X is the matrix of the table, less what covariates predict. The scores are `coloured` by some columns of metadata.
    """
    from gpower import plotting
    from gpower.plotting.heatmaps import MAX_METADATA_BARS

    names, columns = input_table.feature_names, input_table.metadata
    m = len(model.components_)
    yield "loadings", partial(plotting.plot_loadings, model, names)
    yield "scree", partial(plotting.plot_scree, model, X)
    if m > 1:
        yield "overlap", partial(plotting.plot_overlap, model)
        yield "correlation_circle", partial(plotting.plot_correlation_circle, model, X, feature_names=names)
    if input_table.is_covariance:
        return
    yield "outliers", partial(plotting.plot_outliers, model, X, input_table.table.sample_names, level=level)
    if m > 1:
        yield "scores", partial(plotting.plot_scores, model, X, names=input_table.table.sample_names, ellipse=level)
        yield "biplot", partial(plotting.plot_biplot, model, X, feature_names=names)
    if m > 2:
        yield "pairs", partial(plotting.plot_pairs, model, X)
    bars = {name: columns[name] for name in list(coloured)[:MAX_METADATA_BARS]}
    for j in range(min(m, _MAX_HEATMAPS)):
        yield f"heatmap_{j + 1}", partial(plotting.plot_heatmap, model, X, j, bars or None, names)
    if columns:
        yield "metadata", partial(plotting.plot_metadata, model, X, columns)
    files: set[str] = set()
    for name, column in coloured.items() if m > 1 else ():
        file = "scores_by_" + (re.sub(r"\W+", "_", name).strip("_")[:40] or "column")
        while file in files:
            file += "_"
        files.add(file)
        ellipse = None if column.is_continuous else level
        yield file, partial(plotting.plot_scores, model, X, color={name: columns[name]}, ellipse=ellipse)


def _select_colouring_columns(columns: Mapping[str, Iterable[str]]) -> "dict[str, MetadataColumn]":
    """Return the first columns of numbers, or of two or more groups that colours can show."""
    from gpower.analysis.association import parse_metadata_column
    from gpower.plotting.sample_groups import MAX_GROUPS

    parsed = {name: parse_metadata_column(values) for name, values in columns.items()}
    suitable = [name for name, each in parsed.items() if each.is_continuous or 1 < len(each.groups) <= MAX_GROUPS]
    return {name: parsed[name] for name in suitable[:_MAX_COLOURING_COLUMNS]}
