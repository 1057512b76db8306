"""The four breast-cancer cohorts of the GPower paper, from the archives that publish them."""

import json
import zipfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from gpower.datasets.arrayexpress import read_arrayexpress
from gpower.datasets.downloads import Progress, cache_folder, fetch_file
from gpower.datasets.errors import TableError
from gpower.datasets.geo import GeoSeries, read_geo_series
from gpower.datasets.nki import read_nki
from gpower.datasets.tables import Table
from gpower.datasets.text import open_text, tabbed_rows

__all__ = ["fetch_arrayexpress", "fetch_geo_series", "fetch_naderi", "fetch_sotiriou", "fetch_vijver", "fetch_wang"]

_GEO = "https://ftp.ncbi.nlm.nih.gov/geo"
_BIOSTUDIES = "https://www.ebi.ac.uk/biostudies"
_NKI = "http://ccb.nki.nl/data/ZipFiles295Samples.zip"

Folder = str | PathLike[str] | None


def fetch_geo_series(
    accession: str,
    *,
    platform: str | None = None,
    collapse: str = "mean",
    log2: bool | None = None,
    folder: Folder = None,
    progress: Progress | None = None,
) -> GeoSeries:
    """A series of the Gene Expression Omnibus, by its accession.

    Parameters
    ----------
    accession : str
        Such as GSE2034. A series with several platforms has one file each; give it as GSE1234-GPL96.
    platform : str, optional
        The platform, such as GPL96, whose annotation turns probes into genes; without it the variables are probes.
    collapse, log2
        As in `read_geo_series`.
    folder : str or path-like, optional
        Where downloads are kept; by default GPOWER_DATA or the system's cache.
    progress : callable, optional
        Called with bytes so far and in all.

    Returns
    -------
    GeoSeries

    Notes
    -----
    GEO publishes no checksums: the first download is trusted, its SHA-256 recorded beside it, and every later use
    checked (see `fetch_file`).

    Examples
    --------
    >>> from gpower.datasets import fetch_geo_series
    >>> series = fetch_geo_series("GSE2034", platform="GPL96")  # doctest: +SKIP
    """
    series = _checked(accession.partition("-")[0], "GSE")
    kept: dict[str, Any] = {"folder": folder, "progress": progress}
    matrix = fetch_file(f"{_GEO}/series/{_shelf(series)}/{series}/matrix/{accession}_series_matrix.txt.gz", **kept)
    annotation = None
    if platform is not None:
        _checked(platform, "GPL")
        annotation = fetch_file(f"{_GEO}/platforms/{_shelf(platform)}/{platform}/annot/{platform}.annot.gz", **kept)
    return read_geo_series(matrix, platform=annotation, collapse=collapse, log2=log2)


def _checked(accession: str, kind: str) -> str:
    if not (accession.startswith(kind) and accession[len(kind) :].isdecimal()):
        raise ValueError(f"{accession!r} is not an accession of GEO; write it as {kind}2034.")
    return accession


def _shelf(accession: str) -> str:
    """GEO's folder of an accession: GSE2034 lies in GSE2nnn, GPL96 in GPLnnn."""
    return f"{accession[:3]}{accession[3:-3]}nnn"


def fetch_wang(*, collapse: str = "mean", folder: Folder = None, progress: Progress | None = None) -> GeoSeries:
    """286 lymph-node-negative breast tumours (Wang et al. 2005), GEO series GSE2034 on GPL96, log2 intensities.

    The paper has 285 of them, 14913 genes.

    Parameters
    ----------
    collapse, folder, progress
        As in `fetch_geo_series`, which says how downloads are checked.

    Returns
    -------
    GeoSeries

    References
    ----------
    Y. Wang et al. (2005). Gene-expression profiles to predict distant metastasis of lymph-node-negative primary
    breast cancer. Lancet 365, 671–679.

    Examples
    --------
    >>> from gpower.datasets import fetch_wang
    >>> cohort = fetch_wang()  # doctest: +SKIP
    """
    return fetch_geo_series("GSE2034", platform="GPL96", collapse=collapse, folder=folder, progress=progress)


def fetch_sotiriou(*, collapse: str = "mean", folder: Folder = None, progress: Progress | None = None) -> GeoSeries:
    """189 breast tumours (Sotiriou et al. 2006), GEO series GSE2990 on GPL96.

    The paper's JRH-2 (101 samples, 14223 genes) is the part of this series from the John Radcliffe Hospital in
    Oxford; ``cohort.samples`` holds what the submitters say about each sample.

    Parameters
    ----------
    collapse, folder, progress
        As in `fetch_geo_series`, which says how downloads are checked.

    Returns
    -------
    GeoSeries

    References
    ----------
    C. Sotiriou et al. (2006). Gene expression profiling in breast cancer: understanding the molecular basis of
    histologic grade to improve prognosis. Journal of the National Cancer Institute 98, 262–272.

    Examples
    --------
    >>> from gpower.datasets import fetch_sotiriou
    >>> cohort = fetch_sotiriou()  # doctest: +SKIP
    """
    return fetch_geo_series("GSE2990", platform="GPL96", collapse=collapse, folder=folder, progress=progress)


def fetch_vijver(*, collapse: str | None = "mean", folder: Folder = None, progress: Progress | None = None) -> Table:
    """295 breast tumours (van de Vijver et al. 2002), from the Netherlands Cancer Institute.

    The paper has 13319 of their genes. Missing log ratios are NaN: fill them in, for instance with scikit-learn's
    SimpleImputer, before fitting.

    Parameters
    ----------
    collapse : {"mean", "variance"} or None, default "mean"
        As in `read_nki`.
    folder, progress
        As in `fetch_geo_series`.

    Returns
    -------
    Table

    Notes
    -----
    The institute publishes no checksum and serves the file without encryption: the first download is trusted, its
    SHA-256 recorded beside it, and every later use checked (see `fetch_file`).

    References
    ----------
    M. J. van de Vijver et al. (2002). A gene-expression signature as a predictor of survival in breast cancer.
    New England Journal of Medicine 347, 1999–2009.

    Examples
    --------
    >>> from gpower.datasets import fetch_vijver
    >>> cohort = fetch_vijver()  # doctest: +SKIP
    """
    return read_nki(fetch_file(_NKI, folder=folder, progress=progress), collapse=collapse)


def fetch_naderi(
    *,
    value: str | None = None,
    gene_column: str | None = None,
    collapse: str = "mean",
    folder: Folder = None,
    progress: Progress | None = None,
) -> Table:
    """135 breast tumours (Naderi et al. 2007), ArrayExpress experiment E-UCON-1.

    The paper has 8278 of their genes.

    Parameters
    ----------
    value, gene_column, collapse, folder, progress
        As in `fetch_arrayexpress`, which says how downloads are found and checked.

    Returns
    -------
    Table

    References
    ----------
    A. Naderi et al. (2007). A gene-expression signature to predict survival in breast cancer across independent
    data sets. Oncogene 26, 1507–1516.

    Examples
    --------
    >>> from gpower.datasets import fetch_naderi
    >>> cohort = fetch_naderi()  # doctest: +SKIP
    """
    return fetch_arrayexpress(
        "E-UCON-1", value=value, gene_column=gene_column, collapse=collapse, folder=folder, progress=progress
    )


def fetch_arrayexpress(
    accession: str,
    *,
    value: str | None = None,
    gene_column: str | None = None,
    collapse: str = "mean",
    folder: Folder = None,
    progress: Progress | None = None,
) -> Table:
    """The processed matrix of an ArrayExpress experiment, its probes made into genes by the array design.

    The archive names its files as it likes, so they are looked up: its list of the experiment's files tells the
    processed matrix and the sample table (SDRF), and the sample table tells the array design.

    Parameters
    ----------
    accession : str
        Such as E-UCON-1.
    value, gene_column, collapse
        As in `read_arrayexpress`.
    folder, progress
        As in `fetch_geo_series`.

    Returns
    -------
    Table

    Notes
    -----
    ArrayExpress publishes no checksums: the first download is trusted, its SHA-256 recorded beside it, and every
    later use checked (see `fetch_file`).

    Examples
    --------
    >>> from gpower.datasets import fetch_arrayexpress
    >>> table = fetch_arrayexpress("E-UCON-1")  # doctest: +SKIP
    """
    where = cache_folder(folder)
    kept: dict[str, Any] = {"folder": where, "progress": progress}
    listing = fetch_file(f"{_BIOSTUDIES}/api/v1/studies/{accession}", name=f"{accession}.json", **kept)
    files = _files(listing)
    processed = _one(accession, files, "processed matrix", lambda name: "processed" in name.lower())
    sdrf = _one(accession, files, "sample table", lambda name: name.lower().endswith(".sdrf.txt"))
    address = f"{_BIOSTUDIES}/files"
    design = _array_design(fetch_file(f"{address}/{accession}/{sdrf}", **kept))
    adf = fetch_file(f"{address}/{design}/{design}.adf.txt", **kept)
    matrix = _unpacked(fetch_file(f"{address}/{accession}/{processed}", **kept))
    return read_arrayexpress(matrix, design=adf, value=value, gene_column=gene_column, collapse=collapse)


def _files(listing: Path) -> list[str]:
    """The files of an experiment, from the archive's description of it."""

    def paths(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("path"), str):
                yield node["path"]
            node = list(node.values())
        if isinstance(node, list):
            for part in node:
                yield from paths(part)

    try:
        return list(dict.fromkeys(paths(json.loads(listing.read_text(encoding="utf-8")))))
    except ValueError as error:
        raise TableError(listing, f"this is not the archive's description of an experiment: {error}") from error


def _one(accession: str, files: list[str], what: str, fits: Any) -> str:
    found = [name for name in files if fits(name)]
    if not found:
        seen = ", ".join(files) or "no files"
        raise ValueError(
            f"The archive lists no {what} of {accession}, but {seen}. Get the files from its page, and use "
            "read_arrayexpress."
        )
    return found[0]


def _array_design(sdrf: Path) -> str:
    """The array design that a sample table names."""
    with open_text(sdrf, errors="replace") as text:
        rows = tabbed_rows(text)
        headings = [cell.casefold().replace(" ", "") for cell in next(rows, (0, [""]))[1]]
        if "arraydesignref" not in headings:
            raise TableError(sdrf, "line 1 has no heading 'Array Design REF'")
        at = headings.index("arraydesignref")
        for _, cells in rows:
            if len(cells) > at and cells[at]:
                return cells[at]
    raise TableError(sdrf, "no sample names its array design")


def _unpacked(path: Path) -> Path:
    """The largest file of a zip archive, beside the archive; any other file as it is."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
        target = path.with_name(f"{path.stem}.{Path(largest.filename).name}")
        target.write_bytes(archive.read(largest))
    return target
