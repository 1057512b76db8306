"""Download the four breast-cancer cohorts of the paper from the archives that publish them.

``python -m experiments.journee2010.cohorts DIR`` downloads them and writes the files that ``--data DIR`` reads.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from experiments.journee2010.arrayexpress import read_arrayexpress
from experiments.journee2010.downloads import fetch_file
from experiments.journee2010.nki import read_nki
from gpower.datasets import Table, TableError, read_table
from gpower.io.tables.decompression import open_text
from gpower.io.tables.delimited import split_tabbed_rows
from gpower.validation.imputation import impute

_GEO = "https://ftp.ncbi.nlm.nih.gov/geo"
_BIOSTUDIES = "https://www.ebi.ac.uk/biostudies"
_NKI = "http://ccb.nki.nl/data/ZipFiles295Samples.zip"

Folder = str | PathLike[str] | None


def fetch_geo_series(accession: str, *, platform: str | None = None, folder: Folder = None) -> Table:
    """Download a series of the Gene Expression Omnibus by its accession; `fetch_file` describes the checks.

    Parameters
    ----------
    accession : str
        Such as GSE2034. A series with several platforms has one file each; give it as GSE1234-GPL96.
    platform : str, optional
        The platform, such as GPL96, whose annotation turns probes into genes; without it the variables are probes.
    folder : str or path-like, optional
        Where downloads are kept; by default GPOWER_DATA or the system's cache.
    """
    series = _checked(accession.partition("-")[0], "GSE")
    address = f"{_GEO}/series/{_shelf(series)}/{series}/matrix/{accession}_series_matrix.txt.gz"
    matrix = fetch_file(address, folder=folder)
    annotation = None
    if platform is not None:
        _checked(platform, "GPL")
        address = f"{_GEO}/platforms/{_shelf(platform)}/{platform}/annot/{platform}.annot.gz"
        annotation = fetch_file(address, folder=folder)
    return read_table(matrix, platform=annotation)


def _checked(accession: str, kind: str) -> str:
    if not (accession.startswith(kind) and accession[len(kind) :].isdecimal()):
        raise ValueError(f"{accession!r} is not an accession of GEO; write it as {kind}2034.")
    return accession


def _shelf(accession: str) -> str:
    """Return GEO's folder of an accession: GSE2nnn for GSE2034, GPLnnn for GPL96."""
    return f"{accession[:3]}{accession[3:-3]}nnn"


def fetch_wang(folder: Folder = None) -> Table:
    """Fetch 286 lymph-node-negative breast tumours, GEO series GSE2034 on GPL96, log2 intensities; the paper has 285.

    Y. Wang et al. (2005). Gene-expression profiles to predict distant metastasis of lymph-node-negative primary
    breast cancer. Lancet 365, 671–679.
    """
    return fetch_geo_series("GSE2034", platform="GPL96", folder=folder)


def fetch_sotiriou(folder: Folder = None) -> Table:
    """Fetch 189 breast tumours, GEO series GSE2990 on GPL96; the paper's JRH-2 are the 101 of them from Oxford.

    C. Sotiriou et al. (2006). Gene expression profiling in breast cancer: understanding the molecular basis of
    histologic grade to improve prognosis. Journal of the National Cancer Institute 98, 262–272.
    """
    return fetch_geo_series("GSE2990", platform="GPL96", folder=folder)


def fetch_vijver(folder: Folder = None) -> Table:
    """Fetch 295 breast tumours from the Netherlands Cancer Institute; a missing log ratio is NaN.

    M. J. van de Vijver et al. (2002). A gene-expression signature as a predictor of survival in breast cancer.
    New England Journal of Medicine 347, 1999–2009.
    """
    return read_nki(fetch_file(_NKI, folder=folder))


def fetch_naderi(folder: Folder = None) -> Table:
    """Fetch 135 breast tumours, ArrayExpress experiment E-UCON-1.

    A. Naderi et al. (2007). A gene-expression signature to predict survival in breast cancer across independent
    data sets. Oncogene 26, 1507–1516.
    """
    return fetch_arrayexpress("E-UCON-1", folder=folder)


def fetch_arrayexpress(
    accession: str, *, value: str | None = None, gene_column: str | None = None, folder: Folder = None
) -> Table:
    """Fetch the processed matrix of an ArrayExpress experiment, with probes mapped to genes by the array design.

    The archive names its files as it likes, so they are looked up: its list of the experiment's files tells the
    processed matrix and the sample table (SDRF), and the sample table tells the array design.
    """
    listing = fetch_file(f"{_BIOSTUDIES}/api/v1/studies/{accession}", name=f"{accession}.json", folder=folder)
    files = _files(listing)
    processed = _one(accession, files, "processed matrix", lambda name: "processed" in name.lower())
    sdrf = _one(accession, files, "sample table", lambda name: name.lower().endswith(".sdrf.txt"))
    address = f"{_BIOSTUDIES}/files"
    design = _array_design(fetch_file(f"{address}/{accession}/{sdrf}", folder=folder))
    adf = fetch_file(f"{address}/{design}/{design}.adf.txt", folder=folder)
    matrix = _unpacked(fetch_file(f"{address}/{accession}/{processed}", folder=folder))
    return read_arrayexpress(matrix, design=adf, value=value, gene_column=gene_column)


def _files(listing: Path) -> list[str]:
    """Return the files of an experiment, from the archive's description of it."""

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


def _one(accession: str, files: list[str], what: str, fits: Callable[[str], bool]) -> str:
    found = [name for name in files if fits(name)]
    if not found:
        seen = ", ".join(files) or "no files"
        raise ValueError(
            f"The archive lists no {what} of {accession}, but {seen}. Get the files from its page, and use "
            "read_arrayexpress."
        )
    return found[0]


def _array_design(sdrf: Path) -> str:
    """Return the array design that a sample table names."""
    with open_text(sdrf, errors="replace") as text:
        rows = split_tabbed_rows(text)
        headings = [cell.casefold().replace(" ", "") for cell in next(rows, (0, [""]))[1]]
        if "arraydesignref" not in headings:
            raise TableError(sdrf, "line 1 has no heading 'Array Design REF'")
        at = headings.index("arraydesignref")
        for _, cells in rows:
            if len(cells) > at and cells[at]:
                return cells[at]
    raise TableError(sdrf, "no sample names its array design")


def _unpacked(path: Path) -> Path:
    """Return the largest file of a zip archive, unpacked next to it; any other file is returned unchanged."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
        target = path.with_name(f"{path.stem}.{Path(largest.filename).name}")
        target.write_bytes(archive.read(largest))
    return target


#: The cohorts by the names of the paper's table.
COHORTS: dict[str, Callable[[Folder], Table]] = {
    "Vijver": fetch_vijver,
    "Wang": fetch_wang,
    "Naderi": fetch_naderi,
    "JRH-2": fetch_sotiriou,
}


def write_cohorts(folder: Path, rank: int = 10) -> None:
    """Write each cohort as NAME.npz with the arrays X, missing values estimated, and genes; keep existing files."""
    for name, fetch in COHORTS.items():
        target = folder / f"{name}.npz"
        if not target.exists():
            table = fetch(folder / "downloads")
            known = ~np.isnan(table.X).all(axis=0)
            X, genes = table.X[:, known], np.array(table.feature_names)[known]
            np.savez_compressed(target, X=impute(X, rank).X if np.isnan(X).any() else X, genes=genes)


if __name__ == "__main__":
    write_cohorts(Path(sys.argv[1]))
