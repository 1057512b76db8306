"""One page of a model, to send and to explore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpower._utils.files import check_writable, write_file_atomically
from gpower.analysis.association import Metadata
from gpower.report.assembly import render_page
from gpower.report.content import collect_content
from gpower.report.requirements import check_report_packages
from gpower.report.results import ReportResults


def html_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    metadata: Metadata | None = None,
    sample_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    results: Iterable[object] = (),
    title: str = "Sparse principal components",
    scores: bool = True,
    anonymise: bool = False,
    warnings: Iterable[str] = (),
) -> Path:
    """Write one HTML page that shows a fitted model and answers questions about it, without server or network.

    Everything is in the file, also the script that makes its pictures answer. Without JavaScript it shows the same
    tables and pictures that stay as they are. Needs the ``report`` extra.

    Parameters
    ----------
    model : GPower, GPowerCV, or Pipeline that ends with one
        Fitted.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data of the fit, in memory; a covariance where the model is of one.
    path : str or path
        The file, conventionally ending in ``.html``.
    metadata : mapping of str to sequence, or pandas.DataFrame, optional
        What is known of the samples, a value for each: colours, and what the components go with. Rows of a frame whose
        index names the samples may be in any order.
    sample_names : sequence of str, optional
        By default those of a frame's index, or s0, s1, ….
    feature_names : sequence of str, optional
        By default those that the model was fitted with, or x0, x1, ….
    results : sequence
        What else was found of the same data, in any order: what `sparsity_path`, `stability`, `component_test`,
        `gpower.analysis.enrichment.enrich` and `certify` return.
    title : str
        Above the page.
    scores : bool, default=True
        Whether single samples are in the page at all: scores, distances, names, metadata and values.
    anonymise : bool, default=False
        Samples are numbered in an order of chance, and columns of metadata that name samples, or nearly, are left out.
        What else the metadata and the values tell of a person stays: leave out what must not be seen.
    warnings : sequence of str
        What the page is to say beside the warnings of the fit.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower import GPower, html_report
    >>> from gpower.datasets import load_planted_expression
    >>> data = load_planted_expression()
    >>> model = GPower(3, cardinality=(8, 6, 5)).fit(data.X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = {"sample_names": data.sample_names, "feature_names": data.feature_names}
    ...     file = html_report(model, data.X, pathlib.Path(folder, "report.html"), **names)
    ...     file.name, file.stat().st_size < 3e6
    ('report.html', True)
    """
    place = prepare_report_file(path)
    contents = collect_content(
        model,
        X,
        metadata=metadata,
        sample_names=sample_names,
        feature_names=feature_names,
        results=ReportResults.from_iterable(results),
        with_samples=scores,
        anonymise=anonymise,
        warnings=warnings,
    )
    page = render_page(contents, title)
    with write_file_atomically(place) as file:
        file.write_text(page, encoding="utf-8", newline="\n")
    return place


def prepare_report_file(path: str | os.PathLike[str]) -> Path:
    """Where a page goes, refused before the work if nothing can be written there; missing folders are made."""
    check_report_packages()
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"{place}: this is a folder; a report is one file, such as {place / 'report.html'}.")
    place.parent.mkdir(parents=True, exist_ok=True)
    check_writable(place.parent)
    return place
