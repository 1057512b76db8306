"""The reader of tables: formats, names, missing cells, errors and hints."""

import gzip
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse
from tests.command_line import write_csv
from tests.memory import measure_peak_memory
from tests.tables import FEATURES, NUMBERS, SAMPLES, assert_table

from gpower import GPower
from gpower.cli.hints import find_table_hints
from gpower.datasets import Table, TableError, read_table
from gpower.io.tables.table import MissingCellError, TableFile

TABBED = "a\tb\tc\n1\t2.5\t-3\n4\t5\t6e-3\n"


class TestText:
    @pytest.mark.parametrize(
        ("text", "features", "samples"),
        [
            ("1,2.5,-3\n4,5,6e-3\n", None, None),
            ("a,b,c\n1,2.5,-3\n4,5,6e-3\n", FEATURES, None),
            (",a,b,c\ns1,1,2.5,-3\ns2,4,5,6e-3\n", FEATURES, SAMPLES),
            ("id,a,b,c\ns1,1,2.5,-3\ns2,4,5,6e-3\n", FEATURES, SAMPLES),
            ("s1,1,2.5,-3\ns2,4,5,6e-3\n", None, SAMPLES),
            (",0,1,2\n0,1,2.5,-3\n1,4,5,6e-3\n", ("0", "1", "2"), ("0", "1")),
            ("state,1990,1991,1992\ns1,1,2.5,-3\ns2,4,5,6e-3\n", ("1990", "1991", "1992"), SAMPLES),
            ("a,b,c\ns1,1,2.5,-3\ns2,4,5,6e-3\n", FEATURES, SAMPLES),  # R's write.table: no corner
            ('"a","b","c"\r\n"1","2.5","-3"\r\n"4","5","6e-3"\r\n', FEATURES, None),
            ("\n\na,b,c\n\n1,2.5,-3\n\n4,5,6e-3\n\n", FEATURES, None),
            ("\ufeffa,b,c\n1,2.5,-3\n4,5,6e-3", FEATURES, None),
            ("a;b;c\n1;2.5;-3\n4;5;6e-3\n", FEATURES, None),
            (" a , b , c \n 1 , 2.5 , -3 \n 4 , 5 , 6e-3 \n", FEATURES, None),
            ('"a,x",b,c\n1,2.5,-3\n4,5,6e-3\n', ("a,x", "b", "c"), None),
            ("a;b;c\n1;2,5;-3,0\n4;5;6,0e-3\n", FEATURES, None),
            ("1;2,5;-3\n4;5;,006\n", None, None),
            ("1,0;2,5;-3,0\n4,0;5,0;0,006\n", None, None),
            ("# made by hand, in May\n#\na,b,c\n1,2.5,-3\n4,5,6e-3\n", FEATURES, None),
            ("# of May, June, July\na,b,c\n1,2.5,-3\n4,5,6e-3\n", FEATURES, None),
            ("# made by hand\n1,2.5,-3\n4,5,6e-3\n", None, None),
            ("# a,b,c\n1,2.5,-3\n4,5,6e-3\n", FEATURES, None),  # numpy.savetxt
            ("# made by hand\n#id,a,b,c\ns1,1,2.5,-3\ns2,4,5,6e-3\n", FEATURES, SAMPLES),
        ],
    )
    def test_csv_with_and_without_names(self, write, text, features, samples):
        assert_table(read_table(write("t.csv", text)), features, samples)

    @pytest.mark.parametrize(
        ("name", "content", "features"),
        [
            *((name, TABBED.encode(), FEATURES) for name in ("t.tsv", "t.TSV", "t.tab", "t.txt")),
            ("t.tsv", f"a,a,a,{TABBED}".encode(), ("a,a,a,a", "b", "c")),  # more commas than tabs in the header
            ("t.txt", b"  1.0   2.5 -3\n  4.0   5   6e-3\n", None),  # columns padded with blanks
            ("t.txt", b"# a b c\n1.0e+00 2.5 -3\n4 5 6e-3\n", FEATURES),  # numpy.savetxt
            ("t.txt", TABBED.encode("utf-16"), FEATURES),  # as spreadsheets save it
            ("t.csv.gz", gzip.compress(b"a,b,c\n1,2.5,-3\n4,5,6e-3\n", mtime=0), FEATURES),
        ],
    )
    def test_tabs_blanks_encodings_and_gzip(self, tmp_path, name, content, features):
        (tmp_path / name).write_bytes(content)
        assert_table(read_table(tmp_path / name), features)

    @pytest.mark.parametrize(
        ("text", "options", "features", "numbers"),
        [
            ("# a,b,c\n1,2.5,-3\n4,5,6e-3\n", {"header": False}, None, NUMBERS),  # a comment
            ("height\n1\n2\n", {}, ("height",), [[1], [2]]),
            ("1e308,1e308\n", {"complete": True}, None, [[1e308, 1e308]]),
            ("a,,c\n1,2,3\n", {}, ("a", "column 1", "c"), [[1, 2, 3]]),
            ("a,b,a,a.1,a,b\n1,2,3,4,5,6\n", {}, ("a", "b", "a.2", "a.1", "a.3", "b.1"), [[1, 2, 3, 4, 5, 6]]),
            ("age,size,age,x\n1,2,3,4\n2,1,4,9\n", {"drop": ["age.1"]}, ("age", "size", "x"), [[1, 2, 4], [2, 1, 9]]),
            ("1,2\n3,4\n", {"header": True}, ("1", "2"), [[3, 4]]),
            ("1,2\n3,4\n", {"header": False}, None, [[1, 2], [3, 4]]),
        ],
    )
    def test_headings_are_unique_and_can_be_forced_either_way(self, write, text, options, features, numbers):
        assert_table(read_table(write("t.csv", text), **options), features, numbers=numbers)

    @pytest.mark.parametrize("missing", ["", " ", "NA", "NaN", "nan", "null", "N/A", "."])
    def test_missing_cells_become_nan(self, write, missing):
        table = read_table(write("t.csv", f"a,b\n1,{missing}\n{missing},4\n"))
        assert_table(table, ("a", "b"), numbers=[[1, np.nan], [np.nan, 4]])

    @pytest.mark.parametrize(
        ("text", "options"),
        [
            *(("a,b,who,c\n1,2.5,s1,-3\n4,5,s2,6e-3\n", {"index_col": column}) for column in (2, "who")),
            ("no,id,a,b,c\n1,s1,1,2.5,-3\n2,s2,4,5,6e-3\n", {"drop": ["no"]}),
            ("gene,s1,s2\na,1,4\nb,2.5,5\nc,-3,6e-3\n", {"transpose": True}),
            *(
                ("id,what,a,2001,b,c\ns1,pump,1,x,2.5,-3\ns2,ring,4,y,5,6e-3\n", {"drop": drop})
                for drop in (["what", "2001"], [1, 3], ["what", 2001])
            ),
        ],
    )
    def test_columns_are_chosen_by_heading_and_by_position(self, write, text, options):
        assert_table(read_table(write("t.csv", text), **options), FEATURES, SAMPLES)

    @pytest.mark.parametrize("cell", ['"1,234.5"', "1 234.5", "1'234.5"])
    def test_thousands_separators_are_not_taken_for_row_names(self, write, cell):
        path = write("t.csv", f"a,b,c\n{cell},1,2\n{cell},3,1\n{cell},2,5\n")
        with pytest.raises(TableError, match=r"line 2, column 'a' holds .* write plain numbers, such as 1234.5"):
            read_table(path)

    def test_infinity_is_not_a_missing_cell(self, write):
        path = write("t.csv", "a,b\n1,inf\n2,3\n")
        with pytest.raises(TableError, match="holds 'inf'") as caught:
            read_table(path, complete=True)
        assert not isinstance(caught.value, MissingCellError)

    def test_the_cells_of_a_wide_table_are_not_kept(self, tmp_path, monkeypatch):
        """Reading takes at most four times the memory of the numbers and names."""
        monkeypatch.setattr("gpower.io.tables.delimited._MAX_LOOKAHEAD_CELLS", 4_000)
        X = np.random.default_rng(0).standard_normal((40, 4_000)).round(4)
        names = [f"g{j}" for j in range(4_000)]
        path = write_csv(tmp_path / "x.csv", X, names, [f"s{i}" for i in range(40)])
        assert measure_peak_memory(lambda: read_table(path)) < 4 * (X.nbytes + sum(map(sys.getsizeof, names)))
        np.testing.assert_array_equal(read_table(path).X, X)


class TestTextErrors:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the file is empty"),
            ("\n \n\n", "only blank lines"),
            ("a,b,c\n", "a header and no samples"),
            ("a,b\n1,2\n3\n", "line 3 has 1 cells where 2 are expected"),
            ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells where 2 are expected"),
            ("a,b\n1,2,3\n4,5\n", "line 2 has 3 cells where 2 are expected"),
            ("1,2\n3,4,5\n", "line 2 has 3 cells where 2 are expected"),
            ("a,b\n1,2,\n3,4,\n", "line 2 has 3 cells where 2 are expected"),
            ("a,b\n1,2\n\n3,x\n", r"line 4, column 'b' holds 'x' where a number belongs"),
            ("a,b\nx,2\n3,4\n", r"line 2, column 'a' holds 'x'.*index_col"),
            ("id,a,b\ns1,1,2\ns2,3,male\n", r"line 3, column 'b' holds 'male'"),
            ("1,x\n4,5\n", r"line 1, column 1 \(counted from 0\) holds 'x'"),
            ("a,b\n1,1_0\n", r"line 2, column 'b' holds '1_0'"),
            ('a,b\n"1,5",2\n', r"holds '1,5' where a number belongs; write decimals with a point"),
            ("name,sex\nAda,f\nBob,m\n", r"line 2, column 'sex' holds 'f'"),
            ("gene,what,a,why\ng,kinase,1,so\nh,pump,2,so\n", r"holds 'kinase'.*with drop=\['what', 'why'\]\.$"),
            ("a,sex\n1,f\n2,m\n", r"holds 'f'.*; if these are names.*index_col='sex'; .* out with drop=\['sex'\]"),
            ("1,f\n2,m\n", r"column 1 \(counted from 0\) holds 'f'.*drop=\[1\]"),
            ("a,b,c,1\n1,2,3,f\n2,3,4,m\n", r"column '1' holds 'f'.*drop=\[3\]"),
            ("a;b\n1,5;2.5\n", "line 2: '1,5' has a decimal comma and '2.5' a point"),
            ("# nothing\n#else\n", "only blank lines and comments"),
            ("# one\n\na,b\n1,2\n3,x\n", r"line 5, column 'b' holds 'x'"),
        ],
    )
    def test_errors_name_the_cell_and_its_content(self, write, text, message):
        path = write("t.csv", text)
        with pytest.raises(TableError, match=message) as raised:
            read_table(path)
        assert str(raised.value).startswith(str(path))
        assert "\n" not in str(raised.value)

    @pytest.mark.parametrize(
        ("text", "options", "message"),
        [
            ("id\ns1\ns2\n", {"index_col": 0}, "no variables"),
            ("id,a\ns1,1\ns2,2\n", {"index_col": "id", "drop": ["a"]}, "no variables"),
            ("1,2\n3,4\n", {"index_col": "a"}, "the file has no header"),
        ],
    )
    def test_choices_that_leave_no_variable_or_need_a_header_are_refused(self, write, text, options, message):
        with pytest.raises(TableError, match=message):
            read_table(write("t.csv", text), **options)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (bytes(range(128, 256)), "not a text file in UTF-8"),
            ("id,a\nAda,1\nJosé,2\n".encode("latin-1"), "in UTF-8: line 3 holds 'é' in Latin-1; save"),
            (b"PK\x03\x04", r"zip archive and not text; end its name in \.xlsx"),
            (b"\xd0\xcf\x11\xe0", r"old Excel workbook.*as CSV"),
            (gzip.compress(b"1,2", mtime=0), r"this is gzipped; end its name in \.gz"),
            (b"PAR1\x15\x04", r"Parquet file"),
            (b'a,b\n1,"' + b"2,3\n" * 50_000, "not a text table"),  # a quote that never closes
        ],
    )
    def test_other_files_under_the_name_of_text_are_refused(self, write, content, message):
        with pytest.raises(TableError, match=message):
            read_table(write("t.csv", content))

    @pytest.mark.parametrize(
        ("cell", "message"),
        [("", "is empty"), ("NA", "holds 'NA'"), ("nan", "holds 'nan'"), ("-inf", "holds '-inf'")],
    )
    def test_complete_refuses_missing_cells(self, write, cell, message):
        path = write("t.csv", f"id,a,b\n\ns1,1,2\ns2,3,{cell}\n")
        with pytest.raises(TableError, match=rf"line 4, column 'b' {message} where a number belongs.*'b'"):
            read_table(path, complete=True)

    def test_all_columns_with_cells_that_are_no_numbers_are_named_at_once(self, write):
        rows = ["s1,1,n.d.,3", "s2,,2,<0.1", "s3,1,,3", "s4,2,n.d.,<0.2", "s5,1,2,3"]
        path = write("t.csv", "\n".join(["id,a,b,c", *rows]))
        remedy = "write NA for text that stands for a missing value"
        listed = r"'a' \(1 empty\), 'b' \(3, such as 'n.d.'\), 'c' \(2, such as '<0.1'\)"
        drop = r"leave them out with drop=\['a', 'b', 'c'\]"
        message = (
            rf"3 columns have cells that are not numbers: {listed}; {drop}, or {remedy} and add missing='impute'\.$"
        )
        with pytest.raises(TableError, match=message):
            read_table(path, complete=True)
        with pytest.raises(TableError, match=r"line 3, column 'c' holds '<0\.1'"):
            read_table(path)
        path.write_text(path.read_text().replace("<", ""))
        with pytest.raises(
            MissingCellError, match=r"2 columns have missing cells: .*; leave them out with drop=\['a', 'b'"
        ):
            read_table(path, complete=True)

    @pytest.mark.parametrize(
        ("column", "message"),
        [
            ("nobody", r"='nobody' is not a heading; the file has the columns a, b, c, d, e, f, …\."),
            (9, "=9 is not one of the columns 0 to 6"),
        ],
    )
    @pytest.mark.parametrize("option", ["index_col", "drop"])
    def test_unknown_columns_are_refused(self, write, option, column, message):
        path = write("t.csv", "a,b,c,d,e,f,g\n1,2,3,4,5,6,7\n")
        with pytest.raises(TableError, match=option + message):
            read_table(path, **{option: [column] if option == "drop" else column})

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            *((gzip.compress(b"1,2\n" * 500, mtime=0)[:end], "cannot be read") for end in (30, -4)),
            (b"1,2\n", r"cannot be read.*gzip"),
        ],
    )
    def test_truncated_and_other_files_under_the_name_of_gzip_are_refused(self, write, content, message):
        with pytest.raises(TableError, match=message):
            read_table(write("t.csv.gz", content))


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "message"), [("nothing.csv", r"nothing\.csv: there is no such file"), ("", "this is a folder")]
    )
    def test_missing_files_and_folders_are_named(self, tmp_path, name, message):
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / name)

    @pytest.mark.parametrize("name", ["t.xls", "t", "t.npy.gz", "t.gz"])
    def test_unknown_suffix_lists_the_known_ones(self, write, name):
        with pytest.raises(TableError, match=r"is not one of \.csv, .*\.parquet.*\.tsv\.gz"):
            read_table(write(name, "1,2\n"))

    @pytest.mark.parametrize("name", ["t.npy", "t.npz", "t.mtx", "t.parquet"])
    def test_empty_files_are_refused(self, write, name):
        with pytest.raises(TableError, match="the file is empty"):
            read_table(write(name, ""))

    @pytest.mark.parametrize("name", ["t.npy", "t.npz", "t.mtx", "t.mtx.gz", "t.parquet"])
    def test_files_of_another_kind_are_refused(self, write, name):
        with pytest.raises(TableError, match=r"not|cannot be read") as raised:
            read_table(write(name, "a,b,c\n1,2,3\n"))
        assert "\n" not in str(raised.value)

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("t.npy", {"index_col": 0}),
            ("t.npy", {"header": True}),
            ("t.npy", {"sep": "|"}),
            ("t.npz", {"drop": ["a"]}),
            ("t.csv", {"key": "X"}),
            ("t.mtx", {"key": "X"}),
        ],
    )
    def test_an_option_that_would_be_ignored_is_refused(self, write, name, options):
        with pytest.raises(TableError, match=f"{next(iter(options))}=.* has no meaning for a {name[1:]} file"):
            read_table(write(name, "1,2\n"), **options)


class TestNumPy:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, bool, np.float16])
    def test_npy_keeps_the_precision_and_other_numbers_become_float64(self, tmp_path, dtype):
        np.save(tmp_path / "t.npy", NUMBERS.astype(dtype))
        table = read_table(tmp_path / "t.npy")
        assert_table(table, numbers=NUMBERS.astype(dtype))
        assert table.X.dtype == (np.float32 if dtype is np.float32 else np.float64)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.ones(3), "two dimensions, but this array has 1"),
            (np.ones((2, 2, 2)), "two dimensions, but this array has 3"),
            (np.ones((0, 3)), r"no samples \(rows\): its shape is 0 × 3"),
            (np.ones((3, 0)), r"no variables \(columns\): its shape is 3 × 0"),
            (np.ones((2, 2), complex), "real numbers, but this array holds complex"),
            (np.array([["a", "b"]]), "real numbers, but this array holds str"),
        ],
    )
    def test_arrays_that_are_no_table_are_refused(self, tmp_path, array, message):
        np.save(tmp_path / "t.npy", array)
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / "t.npy")

    @pytest.mark.parametrize(("save", "content"), [(np.savez, NUMBERS), (np.save, np.array([[{}]], dtype=object))])
    def test_archives_and_pickled_objects_are_no_npy(self, tmp_path, save, content):
        with (tmp_path / "t.npy").open("wb") as file:
            save(file, content)
        with pytest.raises(TableError, match=r"not a whole \.npy file of numbers"):
            read_table(tmp_path / "t.npy")

    @pytest.mark.parametrize(("name", "save"), [("t.npy", np.save), ("t.npz", np.savez)])
    def test_truncated_files_are_refused(self, tmp_path, name, save):
        path = tmp_path / name
        save(path, np.ones((50, 50)))
        path.write_bytes(path.read_bytes()[:-500])
        with pytest.raises(TableError, match=r"not a whole|truncated"):
            read_table(path)

    @pytest.mark.parametrize("transpose", [False, True])
    def test_npz_with_names_which_keep_their_meaning_when_transposed(self, tmp_path, transpose):
        X = NUMBERS.T if transpose else NUMBERS
        np.savez(tmp_path / "t.npz", X=X, genes=FEATURES, samples=SAMPLES, y=np.ones((2, 1)))
        assert_table(read_table(tmp_path / "t.npz", transpose=transpose), FEATURES, SAMPLES)

    def test_npz_with_several_tables_needs_a_key(self, tmp_path):
        np.savez(tmp_path / "t.npz", first=NUMBERS, second=2 * NUMBERS)
        assert_table(read_table(tmp_path / "t.npz", key="second"), numbers=2 * NUMBERS)
        with pytest.raises(TableError, match=r"2 tables \(first, second\)"):
            read_table(tmp_path / "t.npz")
        with pytest.raises(TableError, match="no array 'third'; there are first, second"):
            read_table(tmp_path / "t.npz", key="third")

    @pytest.mark.parametrize(
        ("array", "message"), [(np.ones(3), "no table"), (np.array([[{}]], dtype=object), "object, not numbers")]
    )
    def test_npz_without_a_table_is_refused(self, tmp_path, array, message):
        np.savez(tmp_path / "t.npz", X=array)
        with pytest.raises(TableError, match=f"holds {message}"):
            read_table(tmp_path / "t.npz")

    def test_a_saved_model_is_no_table(self, tmp_path):
        GPower(1, cardinality=2).fit(np.vstack([NUMBERS, -NUMBERS])).save(tmp_path / "model.npz")
        with pytest.raises(TableError, match="this is a model that gpower saved, not a table"):
            read_table(tmp_path / "model.npz")
        assert read_table(tmp_path / "model.npz", key="components_").X.shape == (1, 3)


class TestSparse:
    @pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
    @pytest.mark.parametrize("build", [sparse.csr_array, sparse.csr_matrix])
    @pytest.mark.parametrize("transpose", [False, True])
    def test_npz_stays_sparse(self, tmp_path, kind, build, transpose):
        sparse.save_npz(tmp_path / "t.npz", build(NUMBERS.T if transpose else NUMBERS).asformat(kind))
        table = read_table(tmp_path / "t.npz", transpose=transpose)
        assert sparse.issparse(table.X)
        assert table.X.format in ("csr", "csc")
        np.testing.assert_array_equal(table.X.toarray(), NUMBERS)

    def test_counts_become_float64(self, tmp_path):
        sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(np.eye(3, dtype=np.int32)))
        assert read_table(tmp_path / "t.npz").X.dtype == np.float64

    def test_dense_matrix_market_is_a_table(self, tmp_path):
        scipy_io.mmwrite(tmp_path / "t.mtx", NUMBERS)
        assert_table(read_table(tmp_path / "t.mtx"))

    def test_archives_without_samples_are_refused(self, tmp_path):
        sparse.save_npz(tmp_path / "t.npz", sparse.csr_array((0, 4)))
        with pytest.raises(TableError, match="no samples"):
            read_table(tmp_path / "t.npz")


class TestParquet:
    @pytest.fixture
    def save(self, tmp_path):
        """Write a frame into a file and return its path."""

        def _save(*data, row_group_size=None, **options):
            pd.DataFrame(*data, **options).to_parquet(tmp_path / "t.parquet", row_group_size=row_group_size)
            return tmp_path / "t.parquet"

        return _save

    @pytest.mark.parametrize("samples", [None, SAMPLES])
    @pytest.mark.parametrize("features", [FEATURES, ("a", "a.b", "c")])  # a name that begins like another
    def test_named_columns_and_the_index_kept_by_pandas(self, save, features, samples):
        assert_table(read_table(save(NUMBERS, columns=features, index=samples)), features, samples)

    @pytest.mark.parametrize("index_col", [None, 0, "id"])
    def test_a_column_of_names_names_the_samples(self, save, index_col):
        path = save({"id": SAMPLES} | dict(zip(FEATURES, NUMBERS.T, strict=True)))
        assert_table(read_table(path, index_col=index_col), FEATURES, SAMPLES)

    def test_missing_numbers_integers_and_single_precision(self, save):
        path = save({"a": pd.array([1, None], dtype="Int64"), "b": [True, False]})
        assert_table(read_table(path), ("a", "b"), numbers=[[1, 1], [np.nan, 0]])
        assert read_table(save(NUMBERS.astype(np.float32), columns=FEATURES)).X.dtype == np.float32

    @pytest.mark.parametrize("drop", [["what"], [1], ["wh*"]])
    def test_columns_are_dropped_by_name_position_and_pattern(self, save, drop):
        (first, *rest), (a, *others) = NUMBERS.T, FEATURES
        path = save({a: first, "what": ["pump", "ring"]} | dict(zip(others, rest, strict=True)))
        assert_table(read_table(path, drop=drop), FEATURES)

    def test_several_row_groups_are_one_table(self, save):
        X, samples = np.arange(30.0).reshape(10, 3), tuple(f"s{i}" for i in range(10))
        assert_table(read_table(save(X, columns=FEATURES, index=samples, row_group_size=4)), FEATURES, samples, X)

    def test_names_of_several_levels_become_text(self, save):
        index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
        assert_table(read_table(save(NUMBERS, columns=FEATURES, index=index)), FEATURES, ("('a', 1)", "('b', 2)"))

    def test_headings_that_are_numbers(self, save):
        path = save(NUMBERS, columns=[1990, 1991, 1992])
        assert_table(read_table(path, drop=[1991]), ("1990", "1992"), numbers=NUMBERS[:, [0, 2]])

    @pytest.mark.parametrize(
        ("data", "options", "message"),
        [
            ({"a": np.array([], float)}, {}, "no samples"),
            ({"a": [1.0]}, {"index_col": "b"}, "index_col='b' is not a heading; the file has the columns a"),
            ({"a": [1, 2.0], "b": [3, None]}, {"complete": True}, "row 2, column 'b' holds nan where a number belongs"),
            ({"a": [1], "sex": ["f"]}, {}, r"row 1, column 'sex' holds 'f' where a number belongs.*drop=.'sex'"),
        ],
    )
    def test_tables_that_are_refused(self, save, data, options, message):
        with pytest.raises(TableError, match=message):
            read_table(save(data), **options)

    def test_a_damaged_middle_is_named(self, save):
        path = save(np.random.default_rng(0).random((5000, 3)), columns=FEATURES)
        data = bytearray(path.read_bytes())
        data[4:400] = b"\xff" * 396
        path.write_bytes(data)
        with pytest.raises(TableError, match=r"t\.parquet: rows 0 to 4999: they could not be read"):
            read_table(path)

    def test_the_missing_extra_is_named(self, monkeypatch, write):
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(ImportError, match=r"pip install .*h5py"):
            read_table(write("t.parquet", "anything"))


def test_a_dense_table_with_names_is_a_frame_that_shares_the_numbers():
    frame, S = Table(NUMBERS, FEATURES).to_frame_or_array(), sparse.csr_array(NUMBERS)
    assert tuple(frame.columns) == FEATURES
    assert np.shares_memory(frame.to_numpy(), NUMBERS)
    assert Table(NUMBERS).to_frame_or_array() is NUMBERS
    assert Table(S, FEATURES).to_frame_or_array() is S


class TestHints:
    """Hints about tables that may have been misread; ordinary tables give none."""

    X = np.random.RandomState(0).standard_normal((8, 4))

    def find_hints(self, path, covariance=False, **reading):
        return list(find_table_hints(TableFile(path, **reading), read_table(path, **reading), covariance=covariance))

    def test_names_of_several_variables_are_pointed_out(self, write):
        path = write("t.csv", "gene,BRCA1,TP53,BRCA1,TP53,BRCA1\na,1.5,2,3,4,5\nb,6,7,8,9,0.5\n")
        (hint,) = self.find_hints(path)
        assert hint == "several variables are called BRCA1, TP53: .1, .2, … is appended to all but the first of a name"

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            (("1.045,0.4,1,000", "-0.246,0.3,2,500"), "these are numbers (1.045, -0.246)"),
            (("1,2,3,4", "2,3,1,5", "1,9,2,2"), "these are numbers (1, 2, 1)"),
            (("1,2,3,4", "2,3,1,5"), None),  # as R numbers its rows
            (("x,2,3,4", "y,3,1,5"), None),
        ],
    )
    def test_a_cell_more_than_the_header_by_thousands_separators(self, write, rows, expected):
        hints = self.find_hints(write("t.csv", "\n".join(["a,b,income", *rows])))
        assert [expected in hint for hint in hints] == ([True] if expected else [])

    @pytest.mark.parametrize("heading", ["entrez", "Gene ID", "sample", "EntrezID", "size", "sample_id"])
    def test_numbers_that_name_the_rows(self, tmp_path, heading):
        rest = np.round(9 * self.X) if heading == "sample_id" else self.X  # integers like all others
        X = np.column_stack([[672, 7157, 1956, 2064, 4609, 5728, 3845, 673], rest])
        path = write_csv(tmp_path / "t.csv", X, [heading, *"abcd"])
        (hint,) = self.find_hints(path)
        flag = "--index-col 'Gene ID'" if " " in heading else f"--index-col {heading}"
        assert hint == f"column {heading!r} looks like row names; if it is, add {flag}"
        assert self.find_hints(path, transpose=True) == [hint]
        assert self.find_hints(path, index_col=heading) == []

    @pytest.mark.parametrize(
        ("heading", "first", "rest"),
        [
            ("size", [3, 1, 4, 1, 5, 9, 2, 6], X),  # a repeated number
            ("size", [3, 1, 4, 7, 5, 9, 2, 6], np.round(9 * X)),  # integers like all others
            ("sample", [3, 1, 4, 7, 5, 9, 2, 6.5], X),
            ("cell_size", [3, 1, 4, 7], np.round(9 * X[:4])),
            ("size", [3, 1, 4, 7], X[:4]),  # too few rows for a hint
        ],
    )
    def test_numbers_that_need_not_name_the_rows(self, tmp_path, heading, first, rest):
        assert self.find_hints(write_csv(tmp_path / "t.csv", np.column_stack([first, rest]), [heading, *"abcd"])) == []

    @pytest.mark.parametrize("rest", [X, np.round(9 * X)])
    def test_numbers_that_name_the_columns(self, tmp_path, rest):
        path = write_csv(tmp_path / "t.csv", np.vstack([[2001, 2003, 2005, 2010], rest]))
        assert self.find_hints(path) == [
            "the first row (2001, 2003, 2005, …) looks like a header; if it is, add --header"
        ]
        assert self.find_hints(path, header=False) == self.find_hints(path, header=True) == []

    @pytest.mark.parametrize("first", [[3, 1, 2, 7], [1, 1, 2, 3], [1, 2, 3, 4.5]])
    def test_numbers_that_need_not_name_the_columns(self, tmp_path, first):
        assert self.find_hints(write_csv(tmp_path / "t.csv", np.vstack([first, self.X]))) == []

    @pytest.mark.parametrize(
        ("save", "X"),
        [(np.save, np.vstack([[2001, 2003, 2005, 2010], X])), (sparse.save_npz, sparse.csr_array(np.eye(4)))],
    )
    def test_only_a_text_file_may_have_a_header_or_be_a_correlation_matrix(self, tmp_path, save, X):
        path = tmp_path / ("t.npy" if save is np.save else "t.npz")
        save(path, X)
        assert self.find_hints(path) == []

    def test_correlations_and_covariances(self, tmp_path):
        C = np.cov(self.X.T)
        R = np.corrcoef(self.X.T)
        path = write_csv(tmp_path / "t.csv", R, "abcd")
        assert self.find_hints(path) == ["the table looks like a correlation matrix; if it is, add --covariance"]
        assert self.find_hints(path, covariance=True) == []
        assert self.find_hints(write_csv(tmp_path / "t.csv", C, "abcd")) == []
        named = write_csv(tmp_path / "t.csv", C, "abcd", "abcd")
        assert "covariance matrix" in self.find_hints(named)[0]
        assert self.find_hints(write_csv(tmp_path / "t.csv", self.X[:4], "abcd")) == []


def test_a_second_column_of_identifiers_is_pointed_out(tmp_path):
    genes = "".join(f"G{i},{1000 + i},{i * 0.37 % 1:.3f},{i * 0.73 % 1:.3f}\n" for i in range(12))
    path = tmp_path / "genes.csv"
    path.write_text("Gene,Entrez,p1,p2\n" + genes)
    for transpose in (False, True):
        table = read_table(path, transpose=transpose)
        (hint,) = find_table_hints(TableFile(path, transpose=transpose), table)
        assert hint == "column 'Entrez' looks like row numbers, not a measurement; if it is, add --drop Entrez"


@pytest.mark.parametrize(("kind", "data"), [(b"lil", [1.0]), (b"csr", ["a"])])
def test_sparse_archives_of_unknown_formats_are_refused(kind, data, tmp_path):
    np.savez(tmp_path / "x.npz", format=kind, shape=(2, 2), data=data, indices=[0], indptr=[0, 1, 1])
    with pytest.raises(TableError, match=r"x\.npz.*(its format is 'lil'|2 × 2 of <U1)"):
        read_table(tmp_path / "x.npz")
