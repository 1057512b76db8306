"""The public function `html_report`, which writes an interactive page of a fitted model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpower._utils.files import check_writable, write_file_atomically
from gpower.analysis.association import Metadata
from gpower.report.content import ReportContent, collect_content
from gpower.report.optional_packages import check_report_packages
from gpower.report.page import render_page
from gpower.report.results import ReportResults


def html_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    metadata: Metadata | None = None,
    metadata_by_order: bool = False,
    sample_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    results: Iterable[object] = (),
    title: str = "Sparse principal components",
    scores: bool = True,
    anonymise: bool = False,
    warnings: Iterable[str] = (),
    **removed: Any,
) -> Path:
    """Write an interactive HTML page of a fitted model that needs neither server nor network.

    The file contains everything, including the script of its charts. Without JavaScript it shows the same tables and
    figures, without the charts of samples. Needs the ``report`` extra.

    Parameters
    ----------
    model : GPower, GPowerCV, or Pipeline that ends with one
        A fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data of the fit, in memory; the covariance if the model was fitted to one.
    path : str or path
        The file to write, conventionally ending in ``.html``.
    metadata : mapping of str to sequence, or pandas.DataFrame, optional
        Metadata with a value for each sample, used to colour the samples and tested for association with the
        components. The rows of a frame are matched to the samples by its index. `plot_metadata` tells which columns are
        groups.
    metadata_by_order : bool, default=False
        Match the rows of the metadata to the samples by their order, whatever their names are.
    sample_names : sequence of str, optional
        Names of the samples; by default those of a frame's index, or s0, s1, ….
    feature_names : sequence of str, optional
        Names of the variables; by default those that the model was fitted with, or x0, x1, ….
    results : sequence
        Further results for the same data, in any order: returned by `sparsity_path`, `stability_selection`,
        `component_test`, `gpower.analysis.enrichment.enrich` and `certify`.
    title : str
        Title of the page.
    scores : bool, default=True
        Include single samples in the page: scores, distances, names, metadata and values.
    anonymise : bool, default=False
        Number the samples in a random order, and leave out columns of metadata that identify samples. All other
        metadata and values stay in the page: leave out what must not be seen.
    warnings : sequence of str
        Warnings to show in addition to those of the fit.
    **removed
        Covariates and batch labels of the samples, ``covariates=`` and ``batch=``, if the model was fitted with any.
        The page then shows the residuals.

    Returns
    -------
    Path
        The file that was written.

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
    prepare_report_file(path)
    contents = collect_content(
        model,
        X,
        metadata=metadata,
        metadata_by_order=metadata_by_order,
        sample_names=sample_names,
        feature_names=feature_names,
        results=ReportResults.from_iterable(results),
        with_samples=scores,
        anonymise=anonymise,
        warnings=warnings,
        **removed,
    )
    return write_page(contents, path, title)


def write_page(contents: ReportContent, path: str | os.PathLike[str], title: str) -> Path:
    """Write the page of collected content into a file, and return its path."""
    page = render_page(contents, title)
    with write_file_atomically(Path(path)) as temporary_path:
        temporary_path.write_text(page, encoding="utf-8", newline="\n")
    return Path(path)


def prepare_report_file(path: str | os.PathLike[str]) -> None:
    """Create the folder of a report, and raise if the report cannot be written."""
    check_report_packages()
    report_path = Path(path)
    if report_path.is_dir():
        raise ValueError(
            f"{report_path}: this is a folder; a report is one file, such as {report_path / 'report.html'}."
        )
    report_path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(report_path.parent)
