"""Series-matrix files of the Gene Expression Omnibus (GEO)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpower.datasets.delimited import read_rows
from gpower.datasets.errors import TableError
from gpower.datasets.probes import collapse_probes, read_probe_genes
from gpower.datasets.tables import Table
from gpower.datasets.text import Row, open_text, tabbed_rows

__all__ = ["GeoSeries", "read_geo_series"]

_BEGIN, _END = "!series_matrix_table_begin", "!series_matrix_table_end"
_LARGE = 100.0  # log2 intensities stay below 20; intensities run into the thousands


@dataclass(frozen=True)
class GeoSeries(Table):
    """An expression table of GEO, samples × probes or genes, with what its submitters say about the samples.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        A missing value is NaN.
    feature_names, sample_names : tuple of str
        Probes or genes; samples by accession (GSM…).
    series : dict of str to tuple of str
        What the file says about the series, such as ``"title"`` and ``"platform_id"``.
    samples : dict of str to tuple of tuple of str
        What it says about the samples, such as ``"title"``; per line of the file one entry per sample, because
        ``"characteristics_ch1"`` is repeated.
    logged : bool
        Whether the reader took logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.datasets import GeoSeries
    >>> GeoSeries(np.eye(2), ("1_at", "2_at"), ("GSM1", "GSM2"), {"title": ("Two tumours",)}).series["title"]
    ('Two tumours',)
    """

    series: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    samples: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict, repr=False)
    logged: bool = False


def read_geo_series(
    path: str | PathLike[str],
    *,
    platform: str | PathLike[str] | None = None,
    gene_column: str | None = None,
    collapse: str = "mean",
    log2: bool | None = None,
) -> GeoSeries:
    r"""Read a series-matrix file, and make its probes into genes where the platform is given.

    Parameters
    ----------
    path : str or path-like
        The file, such as GSE2034_series_matrix.txt.gz, plain or gzipped.
    platform : str or path-like, optional
        The annotation of the platform, such as GPL96.annot.gz: see `read_probe_genes`. Without it the variables
        are the probes.
    gene_column : str, optional
        The heading of the genes in the annotation, where it is an unusual one.
    collapse : {"mean", "variance"}, default "mean"
        What becomes of several probes of a gene: see `collapse_probes`.
    log2 : bool, optional
        Whether to take logarithms of the values, those below 1 counted as 1. By default they are taken when the
        99th percentile is above 100: GEO keeps what was submitted, intensities or their logarithms, and does not
        say which.

    Returns
    -------
    GeoSeries

    Raises
    ------
    TableError
        The file is no series matrix, is cut off, or has a cell that is no number; the line is named.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets import read_geo_series
    >>> lines = ['!Series_title\t"Made up"', '!Sample_title\t"first"\t"second"', "!series_matrix_table_begin",
    ...          '"ID_REF"\t"GSM1"\t"GSM2"', '"1_at"\t7.5\t8.25', '"2_at"\t3\tnull', "!series_matrix_table_end"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "GSE0_series_matrix.txt")
    ...     _ = path.write_text("\n".join(lines))
    ...     series = read_geo_series(path)
    >>> series.X
    array([[7.5 , 3.  ],
           [8.25,  nan]])
    >>> series.feature_names, series.sample_names, series.samples["title"]
    (('1_at', '2_at'), ('GSM1', 'GSM2'), (('first', 'second'),))
    """
    path = Path(path)
    with open_text(path, errors="replace") as text:
        rows = tabbed_rows(text)
        about, start = _preamble(path, rows)
        X, samples, probes = read_rows(path, _table(path, start, rows), index_col=0, header=True)
    X, logged = _on_log_scale(np.ascontiguousarray(X.T), log2)
    series = GeoSeries(
        X,
        probes,
        samples,
        series={name: tuple(value for line in lines for value in line) for name, lines in about["series"].items()},
        samples={name: tuple(lines) for name, lines in about["sample"].items()},
        logged=logged,
    )
    if platform is None:
        return series
    genes = collapse_probes(series, read_probe_genes(platform, gene_column=gene_column), how=collapse)
    return replace(series, X=genes.X, feature_names=genes.feature_names)


def _preamble(path: Path, rows: Iterator[Row]) -> tuple[dict[str, dict[str, list[tuple[str, ...]]]], int]:
    """What the lines above the table say about the series and the samples, and the line where the table begins."""
    about: dict[str, dict[str, list[tuple[str, ...]]]] = {"series": {}, "sample": {}}
    line = 0
    for line, cells in rows:
        kind, _, name = cells[0].lstrip("!").partition("_")
        if cells[0] == _BEGIN:
            return about, line
        if cells[0].startswith("!") and kind.lower() in about:
            about[kind.lower()].setdefault(name, []).append(tuple(cells[1:]))
        elif any(cells) and not cells[0].startswith("!"):
            break
    where = f"line {line} comes before" if line else "the file is empty and lacks"
    raise TableError(path, f"this is not a series matrix of GEO: {where} the line {_BEGIN}")


def _table(path: Path, start: int, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows between the two marks; the second one missing means that the file is cut off."""
    line, width = start, 0
    for line, cells in rows:
        if cells[0] == _END:
            return
        width = width or len(cells)
        while len(cells) > width and not cells[-1]:  # some submissions end every line with tabs
            cells.pop()
        if any(cells):
            yield line, cells
    raise TableError(path, f"the table ends with line {line} and without {_END}: the file is cut off; get it again")


def _on_log_scale(X: NDArray[np.float64], log2: bool | None) -> tuple[NDArray[np.float64], bool]:
    if log2 is None:
        finite = X[np.isfinite(X)]
        log2 = bool(finite.size and np.quantile(finite, 0.99) > _LARGE)
    return (np.log2(np.maximum(X, 1)), True) if log2 else (X, False)
