"""Tables from pipes and workbooks, and the two readers of text."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import openpyxl
import pytest
import scipy.io
import scipy.sparse as sp
from tests.tables import CSV, FEATURES, NUMBERS, SAMPLES, assert_table, dump

from gpower import GPower
from gpower.datasets import TableError, read_gmt, read_probe_genes, read_table
from gpower.io.stores.open import open_source

check = partial(assert_table, features=FEATURES, samples=SAMPLES)


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
        send(dump(save, NUMBERS))
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
        content = dump(scipy.io.mmwrite, sp.csr_matrix(NUMBERS))
        with self.pipe(tmp_path / "x.mtx.gz", gzip.compress(content)) as pipe:
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
            ("id;a;b\nx;1,5;2\n;;\ny;3;4\n", ("x", "y")),
            ("a;id;b\n1,5;NA;\n3;y;4\n", ("NA", "y")),
            ("id;a;b\nx.1;1,5;2\n;;\ny;3;4\n", ("x.1", "y")),
        ],
    )
    def test_names_that_look_like_cells_to_rewrite(self, write, text, samples):
        assert read_table(write("t.csv", text), index_col="id").sample_names == samples
