"""Tables from pipes, compressed files and other programs, with other separators and comments."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import openpyxl
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import load_wine
from tests.tables import FEATURES, NUMBERS, SAMPLES, assert_table

from gpower import GPower
from gpower.cli.hints import find_table_hints
from gpower.datasets import Table, TableError, read_gmt, read_probe_genes, read_table
from gpower.io.stores.open import open_source
from gpower.io.tables.table import TableFile

check = partial(assert_table, features=FEATURES, samples=SAMPLES)
CSV = "id,a,b,c\ns1,1,2.5,-3\ns2,4,5,6e-3\n"


class TestStreams:
    @pytest.fixture
    def send(self, monkeypatch):
        """Return a function that sends bytes to standard input."""
        return lambda content: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    @pytest.mark.parametrize("content", [CSV.encode(), lzma.compress(CSV.encode())], ids=["plain", "compressed"])
    def test_standard_input_is_read(self, send, content):
        send(content)
        check(read_table("-"))

    @pytest.mark.parametrize("save", [np.save, np.savez])
    def test_the_format_of_a_stream_is_detected_from_its_first_bytes(self, send, save):
        stream = io.BytesIO()
        save(stream, NUMBERS)
        send(stream.getvalue())
        assert_table(read_table("-"))

    def test_an_error_names_standard_input(self, send):
        send(b"a,b\n1,x\n2,3\n")
        with pytest.raises(TableError, match=r"^standard input: line 2, column 'b' holds 'x'"):
            read_table("-")

    @contextmanager
    def pipe(self, path, content):
        """Yield a pipe into which another thread writes."""
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: path.write_bytes(content))
        writer.start()
        yield path
        writer.join()

    def test_a_pipe_is_read(self, tmp_path):
        with self.pipe(tmp_path / "pipe", CSV.encode()) as pipe:
            check(read_table(pipe))

    def test_files_that_are_opened_twice_may_be_pipes(self, tmp_path):
        with self.pipe(tmp_path / "sets.gmt", b"A\tmade up\tgene0\n") as pipe:
            assert read_gmt(pipe) == {"A": ("gene0",)}
        with self.pipe(tmp_path / "GPL0.annot", b"ID\tGene symbol\n1_at\tTP53\n") as pipe:
            assert read_probe_genes(pipe) == {"1_at": "TP53"}

    def test_the_suffix_of_a_pipe_says_what_is_compressed(self, tmp_path):
        stream = io.BytesIO()
        scipy.io.mmwrite(stream, sp.csr_matrix(NUMBERS))
        with self.pipe(tmp_path / "x.mtx.gz", gzip.compress(stream.getvalue())) as pipe:
            np.testing.assert_allclose(read_table(pipe).X.toarray(), NUMBERS)

    @pytest.mark.parametrize(("name", "read"), [("m.npz", GPower.load), ("x.h5", open_source), ("x.npy", open_source)])
    def test_a_pipe_is_no_model_and_no_store(self, tmp_path, name, read):
        os.mkfifo(tmp_path / name)  # no one writes: opening it would never end
        with pytest.raises(ValueError, match=rf"{name}: this is a pipe or a device, .* save it to a file"):
            read(tmp_path / name)

    def test_a_stream_without_an_end_is_refused(self, monkeypatch):
        monkeypatch.setattr("gpower.io.tables.streams.get_free_memory", lambda: 1 << 21)
        with pytest.raises(TableError, match=r"/dev/zero: the stream is larger than the free memory"):
            read_table("/dev/zero")


@pytest.mark.parametrize(("suffix", "pack"), [(".bz2", bz2.compress), (".xz", lzma.compress)])
def test_other_compressions_are_read(write, suffix, pack):
    check(read_table(write(f"t.csv{suffix}", pack(CSV.encode()))))
    with pytest.raises(TableError, match="cannot be read"):
        read_table(write(f"t.csv{suffix}", pack(CSV.encode())[:-9]))
    with pytest.raises(TableError, match=f"compressed by .*end its name in {suffix}"):
        read_table(write("t.csv", pack(CSV.encode())))
    market = b"%%MatrixMarket matrix array real general\n1 2\n0.5\n2\n"
    np.testing.assert_array_equal(read_table(write(f"t.mtx{suffix}", pack(market))).X, [[0.5, 2]])


class TestSeparators:
    @pytest.mark.parametrize(("sep", "mark"), [("|", "|"), (":", ":"), ("tab", "\t"), ("\\t", "\t"), ("space", " ")])
    def test_any_character_may_separate_cells(self, write, sep, mark):
        check(read_table(write("t.csv", CSV.replace(",", mark)), sep=sep))

    @pytest.mark.parametrize("name", ["t.tsv", "t.txt"])
    def test_decimal_commas_between_tabs(self, write, name):
        text = "id\ta\tb\tc\ns1\t1\t2,5\t-3,0\ns2\t4\t5\t6,0e-3\n"
        check(read_table(write(name, text)))

    def test_thousands_are_not_taken_for_decimals_unless_on_request(self, write):
        path = write("t.tsv", "a\tb\n1,234\t5\n2,345\t6\n")
        with pytest.raises(TableError, match="'1,234' where a number belongs"):
            read_table(path)
        np.testing.assert_array_equal(read_table(path, decimal=",").X, [[1.234, 5], [2.345, 6]])
        np.testing.assert_array_equal(read_table(write("t.csv", 'a,b\n"1,5",2\n'), decimal=",").X, [[1.5, 2]])

    def test_lines_can_be_skipped(self, write):
        text = "Made in May, by hand\n2,4\n\n" + CSV
        check(read_table(write("t.csv", text), skip=2))
        with pytest.raises(TableError, match=r"line 6, column 'a' holds 'x'"):
            read_table(write("t.csv", text.replace("s2,4", "s2,x")), skip=2)

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            *(({name: value}, name) for name, value in (("sep", "::"), ("decimal", ";"), ("skip", -1))),
            ({"drop_rows": ["nobody"]}, r"drop_rows=\['nobody'\] matches no name or position of a row"),
            ({"drop": ["q*"]}, r"drop='q\*' is not a heading"),
        ],
    )
    def test_invalid_options_are_refused(self, write, option, message):
        with pytest.raises(TableError, match=message):
            read_table(write("t.csv", CSV), **option)


class TestDrop:
    TEXT = "id,qc_1,a,qc_2,b,c\ns1,x,1,y,2.5,-3\nunits,kg,m,s,A,K\ns2,x,4,y,5,6e-3\ntotal_1,0,0,0,0,0\n"

    def test_columns_and_rows_are_dropped_by_pattern_and_position(self, write):
        table = read_table(write("t.csv", self.TEXT), drop=["qc_*"], drop_rows=["units", "total*"])
        check(table)
        check(read_table(write("t.csv", self.TEXT), drop=["qc_?"], drop_rows=[1, 3]))

    def test_a_heading_is_itself_before_it_is_a_pattern(self, write):
        table = read_table(write("t.csv", "a*,ab,c\n1,2,3\n4,5,6\n"), drop=["a*"])
        assert table.feature_names == ("ab", "c")


class TestGct:
    TEXT = "#1.2\n3\t2\nName\tDescription\ts1\ts2\na\tfirst\t1\t4\nb\t\t2.5\t5\nc\tx y\t-3\t6e-3\n"

    def test_genes_by_samples_are_turned(self, write):
        check(read_table(write("t.gct", self.TEXT)))
        check(read_table(write("t.gct.bz2", bz2.compress(self.TEXT.encode()))))

    def test_the_later_version_is_read(self, write):
        text = "#1.3\n3\t2\t1\t2\nid\tnote\ts1\ts2\nage\tna\t30\t40\nsex\tna\tf\tm\n"
        check(read_table(write("t.gct", text + "a\tx\t1\t4\nb\tx\t2.5\t5\nc\tx\t-3\t6e-3\n")))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (TEXT.replace("3\t2", "4\t2"), "announces 4 genes × 2 samples, but the table is 3 × 2"),
            (TEXT.replace("#1.2", "#9"), "this is not a GCT file"),
            (TEXT.replace("3\t2", "many"), "this is not a GCT file"),
            (TEXT.replace("3\t2", "3"), "line 2 has 1 sizes"),
            ("#1.2", "line 2 has 0 sizes"),
        ],
    )
    def test_damaged_files_are_refused(self, write, text, message):
        with pytest.raises(TableError, match=rf"t\.gct: .*{message}"):
            read_table(write("t.gct", text))


class TestWorkbooks:
    @pytest.fixture
    def book(self, tmp_path):
        book = openpyxl.Workbook()
        book.active.title = "first"
        for row in [["id", "a", "b", "c"], ["s1", 1, 2.5, -3], [], ["s2", 4, 5, 6e-3, None]]:
            book.active.append(row)
        other = book.create_sheet("other")
        for row in [["made up"], ["x", "y"], [1, True], [3, None]]:
            other.append(row)
        book.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    def test_the_first_sheet_is_read_with_a_note_and_others_by_name(self, book):
        table = read_table(book)
        check(table)
        assert table.notes == ("the sheet 'first' was read, the first of 2",)
        assert_table(read_table(book, key="other", skip=1), ("x", "y"), numbers=[[1, 1], [3, np.nan]])
        with pytest.raises(TableError, match="there is no sheet 'third'; there are first, other"):
            read_table(book, key="third")

    def test_truncated_workbooks_are_refused(self, book):
        content = book.read_bytes()
        for end in range(0, len(content) - 1, 97):
            book.write_bytes(content[:end] or b"x")
            with pytest.raises(TableError, match=r"t\.xlsx"):
                read_table(book)


class TestHints:
    X = np.random.default_rng(0).standard_normal((8, 6))
    wide = np.random.default_rng(0).standard_normal((30, 40))

    def find_hints(self, table, **options):
        return list(find_table_hints(TableFile(Path("t.csv")), table, **options))

    def test_a_few_variables_unlike_the_others(self):
        names = (*(f"g{j}" for j in range(36)), "dose", "patient age", "codes", "days_alive")
        X = self.wide.copy()
        X[:, 38] = np.arange(30) % 3
        differ = "from the other variables in scale, kind of values or name; if not wanted, add --drop"
        assert self.find_hints(Table(X, names)) == [
            f"dose, patient age, codes, days_alive differ {differ} 'dose,patient age,codes,days_alive'"
        ]
        renamed = (*names[:36], "big", "b", "codes", "d")
        assert self.find_hints(Table(X, renamed)) == [f"codes differs {differ} codes"]
        assert self.find_hints(Table(self.wide[:, :36], names[:36])) == []
        X[::4, 38] = np.nan
        X[:, [3, 5]] *= [[11, 1000]]
        all_odd = "g5,g3,dose,patient age,codes,days_alive"  # the extreme scale first
        assert self.find_hints(Table(X, names)) == [f"{all_odd.replace(',', ', ')} differ {differ} '{all_odd}'"]

    def test_names_that_repeat_may_be_data(self, tmp_path):
        rows = ["kind,a,b", *(f"{kind},{i}.5,{i * i}" for i, kind in enumerate("xyzxyz"))]
        (tmp_path / "t.csv").write_text("\n".join(rows))
        note = "'kind' is taken for the names of the samples: 6 samples, 3 different names; if it is data, leave it out"
        assert read_table(tmp_path / "t.csv").notes == (f"{note} with drop=['kind']",)
        for options in ({"index_col": "kind"}, {"drop": ["kind"]}):
            assert read_table(tmp_path / "t.csv", **options).notes == ()
        (tmp_path / "t.csv").write_text("\n".join(rows[:4]))
        assert read_table(tmp_path / "t.csv").notes == ()

    def test_variables_of_mixed_kinds_have_no_hint(self):
        assert self.find_hints(Table(self.wide.round(), tuple(f"age_{j}" for j in range(40)))) == []
        assert self.find_hints(Table(self.X * [1, 1, 1000, 1, 1, 1], tuple("abcdef"))) == []
        wine = load_wine()
        assert self.find_hints(Table(wine.data, tuple(wine.feature_names))) == []

    @pytest.mark.parametrize(
        ("samples", "variables"),
        [
            ("GSM{}", "g{}"),
            ("TCGA-0{}", "x{}"),
            ("c{}", "ENSG0000012345{}"),
            ("s{}", "{}_at"),
            ("Patient {}", "g{}"),
            ("s{}", "g{}"),
        ],
    )
    def test_samples_and_variables_that_look_exchanged(self, samples, variables):
        columns, rows = tuple(samples.format(j) for j in range(6)), tuple(variables.format(i) for i in range(8))
        hint = "the rows look like variables and the columns like samples; if so, add --transpose"
        assert self.find_hints(Table(self.X, columns, rows)) == [hint]
        assert self.find_hints(Table(self.X.T, rows, columns)) == []

    def test_rows_named_by_gene_symbols(self):
        genes = ("Actb", "Gapdh", "Myc", "Sox2", "Pax6", "Nes", "Dcx", "Gfap")
        samples = tuple(f"T{j:02}-014" for j in range(6))
        assert any("add --transpose" in hint for hint in self.find_hints(Table(self.X, samples, genes)))
        assert self.find_hints(Table(self.X.T, genes, samples)) == []


class TestNumPyReader:
    """NumPy reads a plain table like the reader that parses cell by cell."""

    def read_both(self, path, monkeypatch, **options):
        """Return the table that both readers give."""
        with monkeypatch.context() as patch:
            patch.setattr("gpower.io.tables.delimited._parse_all_rows", None)
            quick = read_table(path, **options)
        monkeypatch.setattr("gpower.io.tables.delimited.read_with_numpy", lambda layout: None)
        assert_table(read_table(path, **options), quick.feature_names, quick.sample_names, quick.X)
        return quick

    @pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.bz2"])
    def test_numbers_to_the_last_digit(self, write, monkeypatch, name):
        X = np.random.default_rng(0).standard_normal((300, 7)) * 10.0 ** np.arange(-150, 200, 50)
        lines = [["", *"abcdefg"], *([f" s{i} ", *map(repr, row)] for i, row in enumerate(X.tolist()))]
        text = "# made up\n\n" + "\n\n".join(("\t" if "tsv" in name else ",").join(line) for line in lines)
        table = self.read_both(write(name, bz2.compress(text.encode()) if "bz2" in name else text), monkeypatch)
        np.testing.assert_array_equal(table.X, X)
        assert table.sample_names[:2] == ("s0", "s1")

    @pytest.mark.parametrize("word", ["", "NA", "na", "NaN", "nan", "N/A", "NULL", "None", ".", "#N/A"])
    def test_missing_cells_become_nan(self, write, monkeypatch, word):
        path = write("t.csv", CSV.replace("2.5", word).replace("s1", "NA"))
        table = self.read_both(path, monkeypatch, index_col="id")
        np.testing.assert_array_equal(np.isnan(table.X), [[False, True, False], [False] * 3])
        assert table.sample_names == ("NA", "s2")

    @pytest.mark.parametrize("text", ["a;note;b\n1,5;x;2\n3,5;y;\n", 'a;"note;";b\n1,5;"x;;";2\n3,5;y;nan\n'])
    def test_columns_of_text_and_decimal_commas(self, write, monkeypatch, text):
        table = self.read_both(write("t.csv", text), monkeypatch, drop=[1])
        np.testing.assert_array_equal(table.X, [[1.5, 2], [3.5, np.nan]])

    @pytest.mark.parametrize(
        ("text", "samples"),
        [
            ('id;a;b\n"x,1";1,5;2\ny;3;4\n', ("x,1", "y")),
            ('id;a;b\n"x;;z";1,5;\ny;3;4\n', ("x;;z", "y")),
            ("a;id;b\n1,5;NA;\n3;y;4\n", ("NA", "y")),
            ("id;a;b\nx.1;1,5;2\n;;\ny;3;4\n", ("x.1", "y")),
        ],
    )
    def test_names_that_look_like_cells_to_rewrite(self, write, text, samples):
        assert read_table(write("t.csv", text), index_col="id").sample_names == samples

    @pytest.mark.parametrize("cell", ["x", "", "inf", "1_0"])
    def test_errors_name_the_cell(self, write, cell):
        with pytest.raises(TableError, match=f"line 3, column 'b' {f'holds .{cell}.' if cell else 'is empty'}"):
            read_table(write("t.csv", f"a,b\n1,2\n3,{cell}\n"), complete=True)
