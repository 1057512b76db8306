"""Readers of public expression data: GEO series, ArrayExpress matrices, platforms, the 295 tumours of the NKI."""

import gzip
import zipfile

import numpy as np
import pytest

from gpower.datasets import (
    Table,
    TableError,
    collapse_probes,
    read_arrayexpress,
    read_geo_series,
    read_nki,
    read_probe_genes,
)

SERIES = """!Series_title\t"Made-up tumours"
!Series_platform_id\t"GPL0"
!Series_contributor\t"A,B"
!Series_contributor\t"C,D"

!Sample_title\t"first"\t"second"\t"third"
!Sample_characteristics_ch1\t"er: 1"\t"er: 0"\t"er: 1"
!Sample_characteristics_ch1\t"age: 50"\t"age: 60"\t"age: 70"
!series_matrix_table_begin
"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"
"1_at"\t7\t8\t9
"2_at"\t5\t\t9
"3_at"\t1\t1\t2
"4_x_at"\t3\tnull\t6
!series_matrix_table_end
"""
ANNOTATION = """^Annotation
!Annotation_date = Jan 01 2020
#ID = probe
#Gene symbol = its gene
!platform_table_begin
ID\tGene title\tGene symbol\tGene ID
1_at\tthe "first" 5' end\tTP53\t7157
2_at\t\tTP53\t7157
3_at\tambiguous\tA///B\t1///2
4_x_at\ttitle\tMDM2
5_at
!platform_table_end
"""
NAN = np.nan


@pytest.fixture
def write(tmp_path):
    def _write(name, text):
        path = tmp_path / name
        data = text.encode("latin-1")
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return _write


class TestGeo:
    @pytest.mark.parametrize("name", ["GSE0_series_matrix.txt", "GSE0_series_matrix.txt.gz"])
    def test_probes(self, write, name):
        series = read_geo_series(write(name, SERIES))
        np.testing.assert_array_equal(series.X, [[7, 5, 1, 3], [8, NAN, 1, NAN], [9, 9, 2, 6]])
        assert series.feature_names == ("1_at", "2_at", "3_at", "4_x_at")
        assert series.sample_names == ("GSM1", "GSM2", "GSM3")
        assert not series.logged

    def test_what_is_said_about_series_and_samples(self, write):
        series = read_geo_series(write("s.txt", SERIES))
        assert series.series["contributor"] == ("A,B", "C,D")
        assert series.samples["title"] == (("first", "second", "third"),)
        assert series.samples["characteristics_ch1"][1] == ("age: 50", "age: 60", "age: 70")

    def test_genes(self, write):
        paths = write("s.txt", SERIES), write("GPL0.annot.gz", ANNOTATION)
        mean = read_geo_series(paths[0], platform=paths[1])
        assert mean.feature_names == ("MDM2", "TP53")
        np.testing.assert_array_equal(mean.X, [[3, 6], [NAN, 8], [6, 9]])
        assert mean.samples["title"] == (("first", "second", "third"),)
        varying = read_geo_series(paths[0], platform=paths[1], collapse="variance")
        np.testing.assert_array_equal(varying.X, [[3, 5], [NAN, NAN], [6, 9]])

    def test_intensities_are_logged(self, write):
        text = SERIES.replace("\t7\t8\t9", "\t1024\t0.5\t4096")
        assert read_geo_series(write("s.txt", text)).logged
        logged = read_geo_series(write("s.txt", text), log2=True)
        np.testing.assert_array_equal(logged.X[:, 0], [10, 0, 12])
        kept = read_geo_series(write("s.txt", text), log2=False)
        np.testing.assert_array_equal(kept.X[:, 0], [1024, 0.5, 4096])

    def test_free_text_in_another_encoding(self, write):
        assert read_geo_series(write("s.txt", SERIES.replace("A,B", "Journée"))).X.shape == (3, 4)

    def test_tabs_at_the_ends_of_lines(self, write):
        text = SERIES.replace("\t7\t8\t9", "\t7\t8\t9\t\t")
        np.testing.assert_array_equal(read_geo_series(write("s.txt", text)).X[:, 0], [7, 8, 9])

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("!series_matrix_table_end\n", "", "ends with line 14 and without !series_matrix_table_end.*cut off"),
            ("\t5\t\t9", "\t5\t9", "line 12 has 3 cells where 4 are expected"),
            ("\t7\t8\t9", "\t7\teight\t9", r"line 11, column 3 \('GSM2'\) holds 'eight' where a number belongs"),
            ("!series_matrix_table_begin\n", "", "not a series matrix of GEO: line 9 comes before the line !series"),
        ],
    )
    def test_malformed_files_name_the_line(self, write, old, new, message):
        path = write("s.txt", SERIES.replace(old, new))
        with pytest.raises(TableError, match=message) as caught:
            read_geo_series(path)
        assert str(path) in str(caught.value)

    def test_what_is_no_series(self, write, tmp_path):
        with pytest.raises(TableError, match="not a series matrix of GEO: the file is empty"):
            read_geo_series(write("empty.txt", ""))
        with pytest.raises(TableError, match="there is no such file"):
            read_geo_series(tmp_path / "absent.txt")
        misnamed = write("s.txt.gz", SERIES).rename(tmp_path / "s.txt")
        with pytest.raises(TableError, match=r"this is gzipped; end its name in \.gz"):
            read_geo_series(misnamed)


class TestPlatform:
    def test_one_gene_each(self, write):
        assert read_probe_genes(write("g.annot", ANNOTATION)) == {"1_at": "TP53", "2_at": "TP53", "4_x_at": "MDM2"}

    def test_array_design(self, write):
        text = (
            "Array Design Name\tmade up\nPrinting Protocol\tnone\n\n[main]\n"
            "Block Column\tReporter Name\tReporter Database Entry [hugo]\tComposite Element Name\n"
            "1\tR1\tTP53\tC1\n1\tR2\t\tC2\n1\tR3\tMDM2\tC3\n"
        )
        path = write("A-TEST-1.adf.txt", text)
        assert read_probe_genes(path) == {"C1": "TP53", "C3": "MDM2"}
        assert read_probe_genes(path, probe_column="reporter name") == {"R1": "TP53", "R3": "MDM2"}

    def test_columns_of_ones_own(self, write):
        path = write("own.txt", "Oligo\tTarget\tGene symbol\n1\tA\tB\n")
        assert read_probe_genes(path, probe_column="Oligo", gene_column="Target") == {"1": "A"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "ID\tSequence\n1_at\tACGT\n",
                r"no line has a heading of probes and one of genes; line 1 has the headings ID",
            ),
            ("ID\tGene symbol\n\tTP53\n", "line 2 has no probe in column 1"),
            ("ID\tGene symbol\n1_at\t---\n", "no probe of the table has one gene"),
            ("", "no line has a heading of probes"),
        ],
    )
    def test_malformed(self, write, text, message):
        with pytest.raises(TableError, match=message):
            read_probe_genes(write("p.txt", text))


class TestCollapse:
    TABLE = Table(np.array([[1.0, 4.0, NAN, 7.0], [3.0, 0.0, NAN, 7.0]]), ("a", "b", "c", "d"), ("s1", "s2"))

    def test_all_probes_of_a_gene_missing(self):
        table = collapse_probes(self.TABLE, {"c": "G", "d": "H"})
        np.testing.assert_array_equal(table.X, [[NAN, 7], [NAN, 7]])
        assert table.sample_names == ("s1", "s2")

    def test_a_probe_without_values_never_stands_for_its_gene(self):
        table = collapse_probes(self.TABLE, {"c": "G", "d": "G", "a": "F", "b": "F"}, how="variance")
        np.testing.assert_array_equal(table.X, [[4, 7], [0, 7]])

    def test_errors(self):
        with pytest.raises(ValueError, match="how is 'median'; choose 'mean' or 'variance'"):
            collapse_probes(self.TABLE, {"a": "G"}, how="median")
        with pytest.raises(ValueError, match=r"None of the 4 probes of the table \(a, b, c\).*of the platform"):
            collapse_probes(self.TABLE, {"1_at": "G"})
        with pytest.raises(ValueError, match="no names of probes"):
            collapse_probes(Table(np.eye(2)), {"a": "G"})


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
        np.testing.assert_array_equal(probes.X, [[0.5, 1.5, 2], [-1, NAN, 3]])
        assert (probes.feature_names, probes.sample_names) == (("R1", "R2", "R3"), ("s1", "s2"))
        genes = read_arrayexpress(path, value="log ratio", design=write("d.adf.txt", DESIGN))
        np.testing.assert_array_equal(genes.X, [[1], [-1]])
        assert genes.feature_names == ("TP53",)

    @pytest.mark.parametrize(
        ("text", "value", "message"),
        [
            (MATRIX, None, "several kinds of value; choose one of log ratio, flag with value="),
            (MATRIX, "signal", "holds no 'signal'; it holds log ratio, flag"),
            (MATRIX.replace("R3\t2\t1\t3\t1", "R3\t2\t1"), "log ratio", "line 5 has 3 cells where 5 are expected"),
            (MATRIX.replace("-1", "low"), "log ratio", r"line 3, column 3 \('s2'\) holds 'low'"),
            ("gene\ts1\nTP53\t1\n", None, "line 1 begins with 'gene' in place of 'Hybridization REF'"),
            ("Assay REF\ts1\ts2\nReporter REF\tx\n", None, "line 2 has 2 cells where line 1 has 3"),
            ("Assay REF\ts1\n", None, "the file has fewer than two lines"),
        ],
    )
    def test_malformed(self, write, text, value, message):
        with pytest.raises(TableError, match=message):
            read_arrayexpress(write("m.txt", text), value=value)


def nki_table(samples, rows):
    """A table of the archive: five columns for each sample, a tab at the end of every line."""
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
    def archive(self, tmp_path):
        def pack(**tables):
            path = tmp_path / "ZipFiles295Samples.zip"
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("Readme.txt", "five columns per sample")
                for name, text in tables.items():
                    file.writestr(f"{name}.txt", text)
            return path

        return pack

    def test_tables_are_joined(self, archive):
        path = archive(Table_NKI_295_1=self.FIRST, Table_NKI_295_2=self.SECOND)
        probes = read_nki(path, collapse=None)
        np.testing.assert_array_equal(probes.X, [[0.1, 1, 0.3], [0.2, 1, NAN], [0.5, 1, -0.5]])
        assert probes.sample_names == ("Sample 4", "Sample 6", "Sample 7")
        genes = read_nki(path)
        np.testing.assert_allclose(genes.X, [[0.2], [0.2], [0.0]], atol=1e-15)
        assert genes.feature_names == ("TP53",)

    def test_malformed(self, archive, tmp_path):
        with pytest.raises(TableError, match=r"Table_NKI_295_2.txt: its probes are not those of Table_NKI_295_1.txt"):
            read_nki(archive(Table_NKI_295_1=self.FIRST, Table_NKI_295_2=self.SECOND.replace("P3", "P9")))
        with pytest.raises(TableError, match=r"holds no table of samples, but Readme.txt"):
            read_nki(archive())
        with pytest.raises(TableError, match=r"NKI_1.txt: line 3 has 3 cells where 12 are expected"):
            read_nki(archive(NKI_1="\t\ta\t\t\t\t\tb\nSubstance\tGene\nP1\tTP53\t0.1\n"))
        with pytest.raises(TableError, match="line 2 begins with x, y in place of Substance, Gene"):
            read_nki(archive(NKI_1="\t\ta\nx\ty\n"))
        with pytest.raises(TableError, match="there is no such file"):
            read_nki(tmp_path / "absent.zip")
        path = archive(NKI_1=self.FIRST)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(TableError, match="not a whole zip archive"):
            read_nki(path)
