"""The cohorts of the paper: formats of their archives, and downloads from a local server."""

import gzip
import hashlib
import io
import json
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from experiments.journee2010 import cohorts, genes
from experiments.journee2010.arrayexpress import read_arrayexpress
from experiments.journee2010.downloads import cache_folder, fetch_file
from experiments.journee2010.nki import read_nki
from tests.tables import assert_table

from gpower.datasets import Table, TableError

SERIES = """!Sample_title\t"a"\t"b"
!series_matrix_table_begin
"ID_REF"\t"GSM1"\t"GSM2"
"1_at"\t7\t8
"2_at"\t5\t6
!series_matrix_table_end
"""
ANNOTATION = "ID\tGene symbol\n1_at\tTP53\n2_at\tTP53\n"


class Archive(BaseHTTPRequestHandler):
    """Handler that serves `server.files`, and only half of the first file if `server.breaks`."""

    def do_GET(self):
        server = self.server
        server.asked.append((self.path, self.headers.get("Range")))
        body = server.files.get(self.path)
        if body is None:
            self.send_error(404, "Not Found")
            return
        version = f'"{hashlib.sha256(body).hexdigest()}"'
        wanted = self.headers.get("Range") if self.headers.get("If-Range", version) == version else None
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start and start >= len(body):
            self.send_error(416, "Range Not Satisfiable")
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        if server.names_versions:
            self.send_header("ETag", version)
        self.end_headers()
        rest = body[start:]
        if server.breaks:
            server.breaks = False
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *args):
        pass


@pytest.fixture
def archive(monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Archive)
    server.files, server.asked, server.breaks, server.names_versions = {}, [], False, True
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


class TestCache:
    FIRST, SECOND = bytes(range(256)) * 8000, b"b" * 2_000_000

    @pytest.fixture
    def fetch(self, archive, tmp_path):
        """Return a function that fetches a file, which the server has, and returns what it contains."""
        archive.files["/table.bin"] = self.FIRST
        return lambda **options: fetch_file(f"{archive.url}/table.bin", folder=tmp_path, **options).read_bytes()

    def test_a_file_is_downloaded_once_with_its_checksum(self, archive, fetch, tmp_path):
        assert fetch() == fetch() == (tmp_path / "table.bin").read_bytes() == self.FIRST
        assert len(archive.asked) == 1
        digest = hashlib.sha256(self.FIRST).hexdigest()
        assert (tmp_path / "table.bin.sha256").read_text() == f"{digest}  table.bin\n"
        assert not (tmp_path / "table.bin.part").exists()
        (tmp_path / "table.bin").write_bytes(b"damaged")
        assert fetch() == self.FIRST
        assert len(archive.asked) == 2

    def test_another_file_than_before_is_refused(self, archive, fetch, tmp_path):
        fetch()
        (tmp_path / "table.bin").unlink()
        archive.files["/table.bin"] = self.SECOND
        with pytest.raises(OSError, match=r"is not the file it was: its SHA-256 differs.*delete table.bin.sha256"):
            fetch()
        (tmp_path / "table.bin.sha256").unlink()
        assert fetch() == self.SECOND

    def test_a_broken_transfer_is_continued(self, archive, fetch, tmp_path):
        archive.breaks = True
        with pytest.raises(OSError, match=r"table.bin could not be fetched \(\w+\).*what has arrived so far is kept"):
            fetch()
        arrived, size = (tmp_path / "table.bin.part").stat().st_size, len(self.FIRST)
        assert 0 < arrived <= size // 2
        seen = []
        assert fetch(progress=lambda *step: seen.append(step)) == self.FIRST
        assert archive.asked[-1] == ("/table.bin", f"bytes={arrived}-")
        assert seen[-1] == (size, size)
        assert seen[0][0] > arrived
        assert sorted(file.name for file in tmp_path.iterdir()) == ["table.bin", "table.bin.sha256"]

    @pytest.mark.parametrize("names_versions", [True, False])
    def test_halves_of_different_files_are_not_joined(self, archive, fetch, names_versions):
        archive.breaks, archive.names_versions = True, names_versions
        with pytest.raises(OSError, match="could not be fetched"):
            fetch()
        archive.files["/table.bin"] = self.SECOND
        assert fetch() == self.SECOND

    def test_a_part_that_is_already_whole_is_fetched_again(self, archive, fetch, tmp_path):
        (tmp_path / "table.bin.part").write_bytes(self.FIRST)
        (tmp_path / "table.bin.part.version").write_text(f'"{hashlib.sha256(self.FIRST).hexdigest()}"')
        assert fetch() == self.FIRST
        assert [asked for _, asked in archive.asked] == [f"bytes={len(self.FIRST)}-", None]

    def test_a_file_that_the_archive_lacks_is_named(self, archive, fetch, tmp_path):
        del archive.files["/table.bin"]
        with pytest.raises(OSError, match=r"table.bin: the archive answers 404 Not Found"):
            fetch()
        assert list(tmp_path.iterdir()) == []

    def test_without_a_network_the_place_for_the_file_is_named(self, archive, fetch):
        archive.shutdown()
        archive.server_close()
        with pytest.raises(OSError, match=r"Without a network, get the file elsewhere and put it at .*table.bin;"):
            fetch()

    def test_a_file_put_there_by_hand_is_used(self, archive, fetch, tmp_path):
        (tmp_path / "table.bin").write_bytes(b"by hand")
        assert fetch() == b"by hand"
        assert archive.asked == []
        assert (tmp_path / "table.bin.sha256").exists()

    def test_the_missing_package_is_named(self, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, "pooch", None)
        with pytest.raises(ImportError, match=r"Downloads need pooch: pip install pooch"):
            fetch_file("http://127.0.0.1/table.txt", folder=tmp_path)

    def test_the_folder_comes_from_the_argument_or_the_environment(self, monkeypatch, tmp_path):
        monkeypatch.setenv("GPOWER_DATA", str(tmp_path / "mine"))
        assert cache_folder() == tmp_path / "mine"
        assert cache_folder(tmp_path) == tmp_path
        pytest.importorskip("pooch")
        monkeypatch.delenv("GPOWER_DATA")
        assert "gpower" in str(cache_folder())


class TestCohorts:
    @pytest.fixture
    def geo(self, archive, monkeypatch):
        monkeypatch.setattr(cohorts, "_GEO", archive.url)
        for series in ("GSE2034", "GSE2990"):
            address = f"/series/GSE2nnn/{series}/matrix/{series}_series_matrix.txt.gz"
            archive.files[address] = gzip.compress(SERIES.encode())
        archive.files["/platforms/GPLnnn/GPL96/annot/GPL96.annot.gz"] = gzip.compress(ANNOTATION.encode())
        return archive

    @pytest.mark.parametrize("fetch", [cohorts.fetch_wang, cohorts.fetch_sotiriou])
    def test_series_of_geo_are_tables_of_genes(self, geo, tmp_path, fetch):
        for _ in range(2):
            assert_table(fetch(folder=tmp_path), ("TP53",), ("GSM1", "GSM2"), [[6], [7]])
        assert len(geo.asked) == 2

    def test_a_series_without_a_platform_has_probes_and_needs_an_accession(self, geo, tmp_path):
        assert cohorts.fetch_geo_series("GSE2034", folder=tmp_path).feature_names == ("1_at", "2_at")
        with pytest.raises(ValueError, match="'2034' is not an accession of GEO; write it as GSE2034"):
            cohorts.fetch_geo_series("2034", folder=tmp_path)

    def test_the_nki_archive_is_a_table_of_genes(self, archive, monkeypatch, tmp_path):
        monkeypatch.setattr(cohorts, "_NKI", f"{archive.url}/ZipFiles295Samples.zip")
        table = "\t\tSample 4\t\t\t\t\nSubstance\tGene\tLog Ratio\tE\tP\tI\tF\nP1\tTP53\t0.5\t0\t0\t0\t1\n"
        archive.files["/ZipFiles295Samples.zip"] = zipped({"Table_NKI_295_1.txt": table})
        assert_table(cohorts.fetch_vijver(folder=tmp_path), ("TP53",), ("Sample 4",), [[0.5]])

    def test_an_experiment_of_arrayexpress_is_a_table_of_genes(self, archive, monkeypatch, tmp_path):
        monkeypatch.setattr(cohorts, "_BIOSTUDIES", archive.url)
        files = [{"path": "E-UCON-1.sdrf.txt"}, {"path": "E-UCON-1.processed.1.zip", "size": 9}]
        study = {"accno": "E-UCON-1", "section": {"subsections": [{"files": [files]}]}}
        matrix = "Hybridization REF\ts1\ts2\nReporter REF\tM\tM\nR1\t1\t2\nR2\t3\t4\n"
        archive.files |= {
            "/api/v1/studies/E-UCON-1": json.dumps(study).encode(),
            "/files/E-UCON-1/E-UCON-1.sdrf.txt": b"Source Name\tArray Design REF\ns1\tA-TEST-1\n",
            "/files/A-TEST-1/A-TEST-1.adf.txt": b"Reporter Name\tReporter Database Entry [hugo]\nR1\tTP53\nR2\tMDM2\n",
            "/files/E-UCON-1/E-UCON-1.processed.1.zip": zipped({"readme.txt": "x", "data.txt": matrix}),
        }
        assert_table(cohorts.fetch_naderi(folder=tmp_path), ("MDM2", "TP53"), ("s1", "s2"), [[3, 1], [4, 2]])

    def test_an_experiment_without_processed_data(self, archive, monkeypatch, tmp_path):
        monkeypatch.setattr(cohorts, "_BIOSTUDIES", archive.url)
        archive.files["/api/v1/studies/E-X-1"] = json.dumps({"files": [{"path": "E-X-1.raw.1.zip"}]}).encode()
        with pytest.raises(
            ValueError, match=r"lists no processed matrix of E-X-1, but E-X-1.raw.1.zip.*read_arrayexpress"
        ):
            cohorts.fetch_arrayexpress("E-X-1", folder=tmp_path)
        archive.files["/api/v1/studies/E-X-2"] = b"<html>"
        with pytest.raises(ValueError, match="not the archive's description of an experiment"):
            cohorts.fetch_arrayexpress("E-X-2", folder=tmp_path)

    def test_cohorts_are_written_for_the_experiments(self, monkeypatch, tmp_path):
        X = np.outer(np.arange(5.0), [1, 2, 3, 0])
        X[3, 2], X[:, 3] = np.nan, np.nan
        table = Table(X, ("A", "B", "C", "D"))
        monkeypatch.setattr(cohorts, "COHORTS", {"Wang": lambda folder: table})
        cohorts.write_cohorts(tmp_path, rank=1)
        cohort = genes._real(tmp_path, "Wang")
        assert cohort.genes == ("A", "B", "C")
        np.testing.assert_allclose(cohort.A[:, 2], 3 * (np.arange(5) - 2), atol=0.1)


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


MATRIX = (
    "Hybridization REF\ts1\ts1\ts2\ts2\n"
    "Reporter REF\tlog ratio\tflag\tlog ratio\tflag\n"
    "R1\t0.5\t1\t-1\t1\nR2\t1.5\t1\tnull\t0\nR3\t2\t1\t3\t1\n"
)
DESIGN = (
    "[main]\nReporter Name\tComposite Element Name\tReporter Database Entry [hgnc]\nR1\tC\tTP53\nR2\tC\tTP53\nR3\tC\t\n"
)


class TestArrayExpress:
    def test_probes_and_genes(self, write):
        path = write("m.txt", MATRIX)
        probes = read_arrayexpress(path, value="log ratio")
        assert_table(probes, ("R1", "R2", "R3"), ("s1", "s2"), [[0.5, 1.5, 2], [-1, np.nan, 3]])
        genes = read_arrayexpress(path, value="log ratio", design=write("d.adf.txt", DESIGN))
        assert_table(genes, ("TP53",), ("s1", "s2"), [[1], [-1]])

    @pytest.mark.parametrize(
        ("text", "value", "message"),
        [
            (MATRIX, None, "several kinds of value; choose one of log ratio, flag with value="),
            (MATRIX, "signal", "holds no 'signal'; it holds log ratio, flag"),
            (MATRIX.replace("R3\t2\t1\t3\t1", "R3\t2\t1"), "log ratio", "line 5 has 3 cells where 5 are expected"),
            (MATRIX.replace("-1", "low"), "log ratio", "line 3, column 's2' holds 'low'"),
            ("gene\ts1\nTP53\t1\n", None, "line 1 begins with 'gene' in place of 'Hybridization REF'"),
            ("Assay REF\ts1\ts2\nReporter REF\tx\n", None, "line 2 has 2 cells where line 1 has 3"),
            ("Assay REF\ts1\n", None, "the file has fewer than two lines"),
        ],
    )
    def test_malformed_matrices_are_refused(self, write, text, value, message):
        with pytest.raises(TableError, match=message):
            read_arrayexpress(write("m.txt", text), value=value)


def nki_table(samples, rows):
    """Return a table of the archive: five columns for each sample, a tab at the end of every line."""
    head = "\t\t" + "\t".join(f"{sample}\t\t\t\t" for sample in samples) + "\t\n"
    kinds = "Substance\tGene\t" + "\t".join(["Log Ratio\tError\tP-value\tIntensity\tFlag"] * len(samples)) + "\t\n"
    lines = [
        f"{probe}\t{gene}\t" + "\t".join(f"{value}\t0.1\t0.5\t2.0\t1" for value in values) + "\t\n"
        for probe, gene, *values in rows
    ]
    return head + kinds + "".join(lines)


class TestNki:
    FIRST = nki_table(
        ["Sample 4", "Sample 6"], [("P1", "TP53", 0.1, 0.2), ("P2", "", 1, 1), ("P3", "TP53", 0.3, "NaN")]
    )
    SECOND = nki_table(["Sample 7"], [("P1", "TP53", 0.5), ("P2", "", 1), ("P3", "TP53", -0.5)])

    @pytest.fixture
    def archive(self, write):
        def pack(**tables):
            files = {f"{name}.txt": text for name, text in tables.items()}
            return write("ZipFiles295Samples.zip", zipped({"Readme.txt": "five columns per sample"} | files))

        return pack

    def test_tables_are_joined(self, archive):
        path = archive(Table_NKI_295_1=self.FIRST, Table_NKI_295_2=self.SECOND)
        probes, samples = read_nki(path, collapse=False), ("Sample 4", "Sample 6", "Sample 7")
        assert_table(probes, ("P1", "P2", "P3"), samples, [[0.1, 1, 0.3], [0.2, 1, np.nan], [0.5, 1, -0.5]])
        assert_table(read_nki(path), ("TP53",), samples, [[0.2], [0.2], [0.0]])

    def test_malformed_archives_are_refused(self, archive, tmp_path):
        short = "\t\ta\t\t\t\t\tb\nSubstance\tGene\nP1\tTP53\t0.1\n"
        for tables, message in (
            ({"NKI_1": self.FIRST, "NKI_2": self.SECOND.replace("P3", "P9")}, "NKI_2.txt: its probes are not .* NKI_1"),
            ({}, "holds no table of samples, but Readme.txt"),
            ({"NKI_1": short}, "NKI_1.txt: line 3 has 3 cells where 12 are expected"),
            ({"NKI_1": "\t\ta\nx\ty\n"}, "line 2 begins with x, y in place of Substance, Gene"),
        ):
            with pytest.raises(TableError, match=message):
                read_nki(archive(**tables))
        with pytest.raises(TableError, match="there is no such file"):
            read_nki(tmp_path / "absent.zip")
        path = archive(NKI_1=self.FIRST)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(TableError, match="not a whole zip archive"):
            read_nki(path)
