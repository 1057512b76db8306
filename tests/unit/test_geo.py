"""GEO series matrices are read as tables, and the annotation of a platform maps their probes to genes."""

import gzip

import numpy as np
import pytest
from tests.tables import assert_table

from gpower._utils.messages import use_param_formatter
from gpower.cli.hints import find_table_hints
from gpower.cli.shared_flags import format_flag
from gpower.datasets import Table, TableError, collapse_probes, read_probe_genes, read_table
from gpower.io.tables.table import MissingCellError, TableFile

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
def write(write):
    """Return a function that writes text in Latin-1, gzipped if the name of the file says so."""

    def write_latin(name, text):
        content = text.encode("latin-1")
        return write(name, gzip.compress(content) if name.endswith(".gz") else content)

    return write_latin


class TestGeo:
    @pytest.mark.parametrize("name", ["GSE0_series_matrix.txt", "GSE0_series_matrix.txt.gz", "mine.tsv"])
    @pytest.mark.parametrize("text", [SERIES, "\n" + SERIES, SERIES[SERIES.index("!Sample") :]])
    def test_a_series_matrix_is_a_table_of_probes(self, write, name, text):
        series = read_table(write(name, text))
        numbers = [[7, 5, 1, 3], [8, NAN, 1, NAN], [9, 9, 2, 6]]
        assert_table(series, ("1_at", "2_at", "3_at", "4_x_at"), ("GSM1", "GSM2", "GSM3"), numbers)
        assert series.notes == ()
        assert type(series) is Table

    def test_a_platform_turns_probes_into_genes(self, write):
        series = read_table(write("s.txt", SERIES), platform=write("GPL0.annot.gz", ANNOTATION))
        assert_table(series, ("MDM2", "TP53"), ("GSM1", "GSM2", "GSM3"), [[3, 6], [NAN, 8], [6, 9]])
        assert "3 of 4 probes have one gene each and make up 2 genes" in series.notes[0]

    def test_intensities_are_logged_with_a_note(self, write):
        path = write("s.txt", SERIES.replace("\t7\t8\t9", "\t1024\t0.5\t4096"))
        series = read_table(path)
        np.testing.assert_array_equal(series.X[:, 0], [10, 0, 12])
        assert list(find_table_hints(TableFile(path), series)) == [
            "the values are intensities; their logarithms to base 2 were taken"
        ]

    def test_probes_without_a_value_are_left_out(self, write):
        series = read_table(write("s.txt", SERIES.replace("\t1\t1\t2", "\t\tnull\tNA")))
        assert series.feature_names == ("1_at", "2_at", "4_x_at")
        assert series.notes == ("probes without a value in any sample are left out: 1 of 4",)

    def test_incomplete_samples_are_refused_if_asked(self, write):
        path, platform = write("s.txt", SERIES), write("GPL0.annot", ANNOTATION)
        with pytest.raises(MissingCellError, match=r"line 12, column 'GSM2' is empty where a number belongs"):
            read_table(path, complete=True)
        with pytest.raises(MissingCellError, match="row 2, column 'MDM2' holds nan where a number belongs; fill it in"):
            read_table(path, complete=True, platform=platform)
        assert read_table(path, drop=["GSM2"], complete=True).sample_names == ("GSM1", "GSM3")
        # One of two probes is enough for a gene.
        whole = read_table(write("s.txt", SERIES.replace("null", "5")), complete=True, platform=platform)
        np.testing.assert_array_equal(whole.X[1], [5, 8])

    @pytest.mark.parametrize("option", [{"transpose": True}, {"index_col": 0}, {"header": True}, {"key": "X"}])
    def test_options_that_mean_nothing_to_it_are_refused(self, write, option):
        message = "has no meaning for a series matrix of GEO; leave it out"
        with use_param_formatter(format_flag), pytest.raises(TableError, match=message) as caught:
            read_table(write("s.txt", SERIES), **option)
        assert f"--{next(iter(option)).replace('_', '-')}" in str(caught.value)

    @pytest.mark.parametrize(("old", "new"), [("A,B", "Journée"), ("\t7\t8\t9", "\t7\t8\t9\t\t")])
    def test_other_encodings_and_tabs_at_the_ends_of_lines_change_nothing(self, write, old, new):
        np.testing.assert_array_equal(read_table(write("s.txt", SERIES.replace(old, new))).X[:, 0], [7, 8, 9])

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("!series_matrix_table_end\n", "", "ends with line 14 and without !series_matrix_table_end.*cut off"),
            ("\t5\t\t9", "\t5\t9", "line 12 has 3 cells where 4 are expected"),
            ("\t7\t8\t9", "\t7\teight\t9", r"line 11, column 'GSM2' holds 'eight' where a number belongs"),
            ("!series_matrix_table_begin\n", "", "not a series matrix of GEO: line 9 comes before the line !series"),
            (SERIES[SERIES.index("!series") :], "", "ends with line 8 and without !series_matrix_table_begin.*cut off"),
            (SERIES[SERIES.index('"1_at') : SERIES.index("!series_matrix_table_end")], "", "is empty, as for sequ"),
        ],
    )
    def test_malformed_files_name_the_line(self, write, old, new, message):
        path = write("s.txt", SERIES.replace(old, new))
        with pytest.raises(TableError, match=message) as caught:
            read_table(path)
        assert str(path) in str(caught.value)

    def test_the_table_alone_is_a_plain_one(self, write):
        lines = [line for line in SERIES.splitlines() if line and not line.startswith("!")]
        table = read_table(write("GSE0_series_matrix.txt", "\n".join(lines)), transpose=True)
        assert table.sample_names == ("GSM1", "GSM2", "GSM3")


class TestPlatform:
    def test_a_platform_turns_the_probes_of_a_plain_table_into_genes(self, write):
        path = write("mine.csv", "sample,1_at,2_at,3_at,2_at\na,1,3,9,5\nb,2,4,9,6\n")
        assert_table(read_table(path, platform=write("g.annot", ANNOTATION)), ("TP53",), ("a", "b"), [[3], [4]])
        turned = write("turned.csv", "probe,a,b\n1_at,1,2\n4_x_at,3,4\n")
        table = read_table(turned, transpose=True, platform=write("g.annot", ANNOTATION))
        assert table.feature_names == ("MDM2", "TP53")

    def test_a_table_of_the_manufacturer_is_read(self, write):
        text = '#%create\n\n"Probe Set ID","Title","Gene Symbol"\n"1_at","one, two","TP53"\n"2_at","","---"\n'
        assert read_probe_genes(write("HG-U133A.na36.annot.csv", text)) == {"1_at": "TP53"}

    @pytest.mark.parametrize("text", [ANNOTATION, f"{ANNOTATION}^SAMPLE = GSM1\nID_REF\tVALUE\tFLAG\n1_at\t7\tP\n"])
    def test_probes_of_one_gene_are_kept_and_lines_after_the_table_ignored(self, write, text):
        assert read_probe_genes(write("g.soft", text)) == {"1_at": "TP53", "2_at": "TP53", "4_x_at": "MDM2"}

    def test_an_array_design_is_read(self, write):
        text = (
            "Array Design Name\tmade up\nPrinting Protocol\tnone\n\n[main]\n"
            "Block Column\tReporter Name\tReporter Database Entry [hugo]\tComposite Element Name\n"
            "1\tR1\tTP53\tC1\n1\tR2\t\tC2\n1\tR3\tMDM2\tC3\n"
        )
        path = write("A-TEST-1.adf.txt", text)
        assert read_probe_genes(path) == {"C1": "TP53", "C3": "MDM2"}
        assert read_probe_genes(path, probe_column="reporter name") == {"R1": "TP53", "R3": "MDM2"}

    def test_columns_named_by_the_user(self, write):
        path = write("own.txt", "Oligo\tTarget\tGene symbol\n1\tA\tB\n")
        assert read_probe_genes(path, probe_column="Oligo", gene_column="Target") == {"1": "A"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("ID\tSequence\n1_at\tACGT\n", r"no line has a heading of probes and one of genes; line 1 has .* ID"),
            ("ID\tGene symbol\n\tTP53\n", "line 2 has no probe; the file seems cut off"),
            ("ID\tGene symbol\n1_at\t---\n", "no probe of the table has exactly one gene"),
            ("", "no line has a heading of probes"),
        ],
    )
    def test_malformed_platforms_are_refused(self, write, text, message):
        with pytest.raises(TableError, match=message):
            read_probe_genes(write("p.txt", text))


class TestCollapse:
    TABLE = Table(np.array([[1.0, 4.0, NAN, 7.0], [3.0, 0.0, NAN, 7.0]]), ("a", "b", "c", "d"), ("s1", "s2"))

    def test_means_of_the_observed_values(self):
        table = collapse_probes(self.TABLE, {"a": "G", "b": "G", "c": "H", "d": "H"})
        assert_table(table, ("G", "H"), ("s1", "s2"), [[2.5, 7], [1.5, 7]])
        nothing = collapse_probes(self.TABLE, {"c": "G", "d": "H"})  # all probes of a gene are missing
        assert_table(nothing, ("G", "H"), ("s1", "s2"), [[NAN, 7], [NAN, 7]])

    def test_probes_of_another_platform_are_refused(self):
        with pytest.raises(ValueError, match=r"None of the 4 probes of the table \(a, b, c\).*of the platform"):
            collapse_probes(self.TABLE, {"1_at": "G"})
        with pytest.raises(ValueError, match="no names of probes"):
            collapse_probes(Table(np.eye(2)), {"a": "G"})
