"""The reader of tables: formats, names, missing cells and errors."""

import bz2
import gzip
import lzma
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse
from tests.command_line import write_csv
from tests.memory import measure_peak_memory
from tests.tables import CSV, FEATURES, NUMBERS, SAMPLES, assert_table, dump

from gpower import GPower
from gpower.datasets import Table, TableError, read_table
from gpower.io.tables.table import MissingCellError

PLAIN = "1,2.5,-3\n4,5,6e-3\n"
HEADED = f"a,b,c\n{PLAIN}"
TABBED = HEADED.replace(",", "\t")
DECIMAL_COMMAS = "id\ta\tb\tc\ns1\t1\t2,5\t-3,0\ns2\t4\t5\t6,0e-3\n"
GCT = "#1.2\n3\t2\nName\tDescription\ts1\ts2\na\tfirst\t1\t4\nb\t\t2.5\t5\nc\tx y\t-3\t6e-3\n"
LATER_GCT = (
    "#1.3\n3\t2\t1\t2\nid\tnote\ts1\ts2\nage\tna\t30\t40\nsex\tna\tf\tm\na\tx\t1\t4\nb\tx\t2.5\t5\nc\tx\t-3\t6e-3\n"
)
QUALITY = "id,qc_1,a,qc_2,b,c\ns1,x,1,y,2.5,-3\nunits,kg,m,s,A,K\ns2,x,4,y,5,6e-3\ntotal_1,0,0,0,0,0\n"
WITH_TEXT = "id,what,a,2001,b,c\ns1,pump,1,x,2.5,-3\ns2,ring,4,y,5,6e-3\n"


def parquet(*data, row_group_size=None, **options):
    """Return the bytes of a Parquet file with a frame."""
    return dump(lambda stream: pd.DataFrame(*data, **options).to_parquet(stream, row_group_size=row_group_size))


def shorten_id(value):
    """Return the id of a parameter of a test, which may be the content of a file."""
    return None if isinstance(value, bytes) else repr(value)[:40]


@pytest.mark.parametrize(
    ("name", "content", "options", "features", "samples"),
    [
        *(
            ("t.csv", text, {}, features, samples)
            for text, features, samples in [
                (PLAIN, None, None),
                (HEADED, FEATURES, None),
                (CSV, FEATURES, SAMPLES),
                (CSV.removeprefix("id"), FEATURES, SAMPLES),
                (CSV.removeprefix("id,"), FEATURES, SAMPLES),  # R's write.table: no corner
                (CSV.removeprefix("id,a,b,c\n"), None, SAMPLES),
                (",0,1,2\n0,1,2.5,-3\n1,4,5,6e-3\n", ("0", "1", "2"), ("0", "1")),
                ("state,1990,1991,1992\ns1,1,2.5,-3\ns2,4,5,6e-3\n", ("1990", "1991", "1992"), SAMPLES),
                ('"a","b","c"\r\n"1","2.5","-3"\r\n"4","5","6e-3"\r\n', FEATURES, None),
                ("\n\na,b,c\n\n1,2.5,-3\n\n4,5,6e-3\n\n", FEATURES, None),
                ("\ufeffa,b,c\n1,2.5,-3\n4,5,6e-3", FEATURES, None),
                (" a , b , c \n 1 , 2.5 , -3 \n 4 , 5 , 6e-3 \n", FEATURES, None),
                (f'"a,x",b,c\n{PLAIN}', ("a,x", "b", "c"), None),
                (HEADED.replace(",", ";"), FEATURES, None),
                ("a;b;c\n1;2,5;-3,0\n4;5;6,0e-3\n", FEATURES, None),
                ("1;2,5;-3\n4;5;,006\n", None, None),
                ("1,0;2,5;-3,0\n4,0;5,0;0,006\n", None, None),
                (f"# made by hand, in May\n#\n{HEADED}", FEATURES, None),
                (f"# of May, June, July\n{HEADED}", FEATURES, None),
                (f"# made by hand\n{PLAIN}", None, None),
                (f"# {HEADED}", FEATURES, None),  # numpy.savetxt
                (f"# made by hand\n#{CSV}", FEATURES, SAMPLES),
            ]
        ),
        *((name, TABBED, {}, FEATURES, None) for name in ("t.tsv", "t.TSV", "t.tab", "t.txt")),
        ("t.tsv", f"a,a,a,{TABBED}", {}, ("a,a,a,a", "b", "c"), None),  # more commas than tabs in the header
        ("t.txt", "  1.0   2.5 -3\n  4.0   5   6e-3\n", {}, None, None),  # columns padded with blanks
        ("t.txt", "# a b c\n1.0e+00 2.5 -3\n4 5 6e-3\n", {}, FEATURES, None),  # numpy.savetxt
        ("t.txt", TABBED.encode("utf-16"), {}, FEATURES, None),  # as spreadsheets save it
        *(
            (f"t.csv{suffix}", pack(CSV.encode()), {}, FEATURES, SAMPLES)
            for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress))
        ),
        *((name, DECIMAL_COMMAS, {}, FEATURES, SAMPLES) for name in ("t.tsv", "t.txt")),
        *(
            ("t.csv", CSV.replace(",", mark), {"sep": sep}, FEATURES, SAMPLES)
            for sep, mark in (("|", "|"), (":", ":"), ("tab", "\t"), ("\\t", "\t"), ("space", " "))
        ),
        ("t.csv", f"# {HEADED}", {"header": False}, None, None),  # a comment
        ("t.csv", f"Made in May, by hand\n2,4\n\n{CSV}", {"skip": 2}, FEATURES, SAMPLES),
        ("t.csv", f"7,8,9\n{PLAIN}", {"skip": 1}, None, None),
        *(
            ("t.csv", "a,b,who,c\n1,2.5,s1,-3\n4,5,s2,6e-3\n", {"index_col": column}, FEATURES, SAMPLES)
            for column in (2, "who")
        ),
        ("t.csv", "no,id,a,b,c\n1,s1,1,2.5,-3\n2,s2,4,5,6e-3\n", {"drop": ["no"]}, FEATURES, SAMPLES),
        *(
            ("t.csv", WITH_TEXT, {"drop": drop}, FEATURES, SAMPLES)
            for drop in (["what", "2001"], [1, 3], ["what", 2001])
        ),
        ("t.csv", QUALITY, {"drop": ["qc_*"], "drop_rows": ["units", "total*"]}, FEATURES, SAMPLES),
        ("t.csv", QUALITY, {"drop": ["qc_?"], "drop_rows": [1, 3]}, FEATURES, SAMPLES),
        ("t.csv", "gene,s1,s2\na,1,4\nb,2.5,5\nc,-3,6e-3\n", {"transpose": True}, FEATURES, SAMPLES),
        ("t.gct", GCT, {}, FEATURES, SAMPLES),
        ("t.gct.bz2", bz2.compress(GCT.encode()), {}, FEATURES, SAMPLES),
        ("t.gct", LATER_GCT, {}, FEATURES, SAMPLES),
        ("t.mtx", dump(scipy_io.mmwrite, NUMBERS), {}, None, None),
        *(
            (f"t.mtx{suffix}", pack(dump(scipy_io.mmwrite, NUMBERS)), {}, None, None)
            for suffix, pack in ((".bz2", bz2.compress), (".xz", lzma.compress))
        ),
        # Names of an archive keep their meaning when its table is transposed.
        *(
            (
                "t.npz",
                dump(np.savez, X=X, genes=FEATURES, samples=SAMPLES, y=np.ones((2, 1))),
                options,
                FEATURES,
                SAMPLES,
            )
            for X, options in ((NUMBERS, {}), (NUMBERS.T, {"transpose": True}))
        ),
        ("t.npz", dump(np.savez, first=2 * NUMBERS, second=NUMBERS), {"key": "second"}, None, None),
        *(
            ("t.parquet", parquet(NUMBERS, columns=features, index=samples), {}, features, samples)
            for features in (FEATURES, ("a", "a.b", "c"))  # a name that begins like another
            for samples in (None, SAMPLES, ("('a', 1)", "('b', 2)"))
        ),
        *(
            (
                "t.parquet",
                parquet({"id": SAMPLES} | dict(zip(FEATURES, NUMBERS.T, strict=True))),
                options,
                FEATURES,
                SAMPLES,
            )
            for options in ({}, {"index_col": 0}, {"index_col": "id"})
        ),
        *(
            (
                "t.parquet",
                parquet({"a": [1, 4.0], "what": ["x", "y"], "b": [2.5, 5], "c": [-3, 6e-3]}),
                options,
                FEATURES,
                None,
            )
            for options in ({"drop": ["what"]}, {"drop": [1]}, {"drop": ["wh*"]})
        ),
        (
            "t.parquet",
            parquet(NUMBERS, columns=FEATURES, index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
            {},
            FEATURES,
            ("('a', 1)", "('b', 2)"),
        ),
        ("t.parquet", parquet(NUMBERS, columns=[1990, 1991, 1992]), {}, ("1990", "1991", "1992"), None),
    ],
    ids=shorten_id,
)
def test_a_table_in_many_formats(write, name, content, options, features, samples):
    assert_table(read_table(write(name, content), **options), features, samples)


@pytest.mark.parametrize(
    ("content", "options", "features", "numbers"),
    [
        ("height\n1\n2\n", {}, ("height",), [[1], [2]]),
        ("1e308,1e308\n", {"complete": True}, None, [[1e308, 1e308]]),
        ("a,,c\n1,2,3\n", {}, ("a", "column 1", "c"), [[1, 2, 3]]),
        ("a,b,a,a.1,a,b\n1,2,3,4,5,6\n", {}, ("a", "b", "a.2", "a.1", "a.3", "b.1"), [[1, 2, 3, 4, 5, 6]]),
        ("age,size,age,x\n1,2,3,4\n2,1,4,9\n", {"drop": ["age.1"]}, ("age", "size", "x"), [[1, 2, 4], [2, 1, 9]]),
        ("a*,ab,c\n1,2,3\n4,5,6\n", {"drop": ["a*"]}, ("ab", "c"), [[2, 3], [5, 6]]),  # a heading before a pattern
        ("1,2\n3,4\n", {"header": True}, ("1", "2"), [[3, 4]]),
        ("1,2\n3,4\n", {"header": False}, None, [[1, 2], [3, 4]]),
        ("a\tb\n1,234\t5\n2,345\t6\n", {"decimal": ","}, ("a", "b"), [[1.234, 5], [2.345, 6]]),
        ('a,b\n"1,5",2\n', {"decimal": ","}, ("a", "b"), [[1.5, 2]]),
        ("a,b\n1, \nNA,4\n", {}, ("a", "b"), [[1, np.nan], [np.nan, 4]]),
        ("1  NA\n3  4\n", {"sep": "space"}, None, [[1, np.nan], [3, 4]]),
    ],
)
def test_headings_missing_cells_and_decimals_of_text(write, content, options, features, numbers):
    assert_table(
        read_table(write("t.txt" if "\t" in content else "t.csv", content), **options), features, None, numbers
    )


def test_the_cells_of_a_wide_table_are_not_kept(tmp_path, monkeypatch):
    """Reading takes at most four times the memory of the numbers and names."""
    monkeypatch.setattr("gpower.io.tables.delimited._MAX_LOOKAHEAD_CELLS", 4_000)
    X = np.random.default_rng(0).standard_normal((40, 4_000)).round(4)
    names = [f"g{j}" for j in range(4_000)]
    path = write_csv(tmp_path / "x.csv", X, names, [f"s{i}" for i in range(40)])
    assert measure_peak_memory(lambda: read_table(path)) < 4 * (X.nbytes + sum(map(sys.getsizeof, names)))
    np.testing.assert_array_equal(read_table(path).X, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, bool, np.float16])
def test_npy_keeps_the_precision_and_other_numbers_become_float64(write, dtype):
    table = read_table(write("t.npy", dump(np.save, NUMBERS.astype(dtype))))
    assert_table(table, numbers=NUMBERS.astype(dtype))
    assert table.X.dtype == (np.float32 if dtype is np.float32 else np.float64)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
@pytest.mark.parametrize("build", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("transpose", [False, True])
def test_a_sparse_archive_stays_sparse(write, kind, build, transpose):
    matrix = build((NUMBERS.T if transpose else NUMBERS).astype(np.int32)).asformat(kind)
    table = read_table(write("t.npz", dump(sparse.save_npz, matrix)), transpose=transpose)
    assert table.X.format in ("csr", "csc")
    assert table.X.dtype == np.float64
    np.testing.assert_array_equal(table.X.toarray(), NUMBERS.astype(int))


class TestParquet:
    def test_missing_numbers_integers_and_single_precision(self, write):
        path = write("t.parquet", parquet({"a": pd.array([1, None], dtype="Int64"), "b": [True, False]}))
        assert_table(read_table(path), ("a", "b"), numbers=[[1, 1], [np.nan, 0]])
        single = parquet(NUMBERS.astype(np.float32), columns=FEATURES)
        assert read_table(write("t.parquet", single)).X.dtype == np.float32

    def test_several_row_groups_are_one_table(self, write):
        X, samples = np.arange(30.0).reshape(10, 3), tuple(f"s{i}" for i in range(10))
        path = write("t.parquet", parquet(X, columns=FEATURES, index=samples, row_group_size=4))
        assert_table(read_table(path), FEATURES, samples, X)

    def test_the_missing_extra_is_named(self, monkeypatch, write):
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(ImportError, match=r"pip install .*h5py"):
            read_table(write("t.parquet", "anything"))


# --- what is refused --------------------------------------------------------------------------------------------------

CELL_ERRORS = [
    ("", "the file is empty"),
    ("\n \n\n", "only blank lines"),
    ("# nothing\n#else\n", "only blank lines and comments"),
    ("a,b,c\n", "a header and no samples"),
    ("a,b\n1,2\n3\n", "line 3 has 1 cells where 2 are expected"),
    ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells where 2 are expected"),
    ("a,b\n1,2,3\n4,5\n", "line 2 has 3 cells where 2 are expected"),
    ("1,2\n3,4,5\n", "line 2 has 3 cells where 2 are expected"),
    ("a,b\n1,2,\n3,4,\n", "line 2 has 3 cells where 2 are expected"),
    ("a,b\n1,2\n\n3,x\n", r"line 4, column 'b' holds 'x' where a number belongs"),
    ("# one\n\na,b\n1,2\n3,x\n", r"line 5, column 'b' holds 'x'"),
    ("a,b\nx,2\n3,4\n", r"line 2, column 'a' holds 'x'.*index_col"),
    ("id,a,b\ns1,1,2\ns2,3,male\n", r"line 3, column 'b' holds 'male'"),
    ("1,x\n4,5\n", r"line 1, column 1 \(counted from 0\) holds 'x'"),
    ("a,b\n1,1_0\n", r"line 2, column 'b' holds '1_0'"),
    ('a,b\n"1,5",2\n', r"holds '1,5' where a number belongs; write decimals with a point"),
    ("a\tb\n1,234\t5\n2,345\t6\n", "'1,234' where a number belongs"),
    ("a;b\n1,5;2.5\n", "line 2: '1,5' has a decimal comma and '2.5' a point"),
    ("a;b\n" + 300 * "1,5;2\n" + "1;2.5\n", "line 302: '1,5' has a decimal comma and '2.5' a point"),
    *(
        (f"a,b,c\n{cell},1,2\n{cell},3,1\n{cell},2,5\n", "line 2, column 'a' holds .* plain numbers, such as 1234.5")
        for cell in ('"1,234.5"', "1 234.5", "1'234.5")
    ),
    ("name,sex\nAda,f\nBob,m\n", r"line 2, column 'sex' holds 'f'"),
    ("gene,what,a,why\ng,kinase,1,so\nh,pump,2,so\n", r"holds 'kinase'.*with drop=\['what', 'why'\]\.$"),
    ("a,sex\n1,f\n2,m\n", r"holds 'f'.*; if these are names.*index_col='sex'; .* out with drop=\['sex'\]"),
    ("1,f\n2,m\n", r"column 1 \(counted from 0\) holds 'f'.*drop=\[1\]"),
    ("a,b,c,1\n1,2,3,f\n2,3,4,m\n", r"column '1' holds 'f'.*drop=\[3\]"),
    # Other files under the name of text.
    (bytes(range(128, 256)), "not a text file in UTF-8"),
    ("id,a\nAda,1\nJosé,2\n".encode("latin-1"), "in UTF-8: line 3 holds 'é' in Latin-1; save"),
    (b"PK\x03\x04", r"zip archive and not text; end its name in \.xlsx"),
    (b"\xd0\xcf\x11\xe0", r"old Excel workbook.*as CSV"),
    (b"PAR1\x15\x04", r"Parquet file"),
    (gzip.compress(b"1,2", mtime=0), r"this is gzipped; end its name in \.gz"),
    (bz2.compress(b"1,2"), r"compressed by .*end its name in \.bz2"),
    (lzma.compress(b"1,2"), r"compressed by .*end its name in \.xz"),
    (b'a,b\n1,"' + b"2,3\n" * 50_000, "not a text table"),  # a quote that never closes
]
SEVEN = "a,b,c,d,e,f,g\n1,2,3,4,5,6,7\n"
OPTION_ERRORS = [
    ({"index_col": 0}, "id\ns1\ns2\n", "no variables"),
    ({"index_col": "id", "drop": ["a"]}, "id,a\ns1,1\ns2,2\n", "no variables"),
    ({"index_col": "a"}, "1,2\n3,4\n", "the file has no header"),
    *(
        (option, SEVEN, r"='nobody' is not a heading; the file has the columns a, b, c, d, e, f, …\.")
        for option in ({"index_col": "nobody"}, {"drop": ["nobody"]})
    ),
    *((option, SEVEN, "=9 is not one of the columns 0 to 6") for option in ({"index_col": 9}, {"drop": [9]})),
    ({"drop": ["q*"]}, CSV, r"drop='q\*' is not a heading"),
    ({"drop_rows": ["nobody"]}, CSV, r"drop_rows=\['nobody'\] matches no name or position of a row"),
    *(({name: value}, CSV, name) for name, value in (("sep", "::"), ("decimal", ";"), ("skip", -1))),
    ({"skip": 2}, f"Made in May, by hand\n2,4\n\n{CSV.replace('4', 'x')}", "line 6, column 'a' holds 'x'"),
    ({"sep": "space"}, "c d a x\n4  1 2.5\n", "line 2 has 3 cells where 4 are expected"),
    ({"decimal": ","}, "1\n1,5\n", "line 2 has 2 cells where 1 are expected"),
    ({"key": "X"}, CSV, r"key=.* has no meaning for a \.csv file"),
    *(
        ({"complete": True}, f"id,a,b\n\ns1,1,2\ns2,3,{cell}\n", f"line 4, column 'b' {problem} where a number .*'b'")
        for cell, problem in (("", "is empty"), ("NA", "holds 'NA'"), ("nan", "holds 'nan'"), ("-inf", "holds '-inf'"))
    ),
]
ARRAYS = [
    (np.ones(3), "two dimensions, but this array has 1"),
    (np.ones((2, 2, 2)), "two dimensions, but this array has 3"),
    (np.ones((0, 3)), r"no samples \(rows\): its shape is 0 × 3"),
    (np.ones((3, 0)), r"no variables \(columns\): its shape is 3 × 0"),
    (np.ones((2, 2), complex), "real numbers, but this array holds complex"),
    (np.array([["a", "b"]]), "real numbers, but this array holds str"),
    (np.array([[{}]], dtype=object), r"not a whole \.npy file of numbers"),
]
BINARY_ERRORS = [
    *(("t.npy", dump(np.save, array), {}, message) for array, message in ARRAYS),
    ("t.npy", dump(np.savez, NUMBERS), {}, r"not a whole \.npy file of numbers"),
    *(
        (f"t{suffix}", dump(save, np.ones((50, 50)))[:-500], {}, "not a whole")
        for suffix, save in ((".npy", np.save), (".npz", np.savez))
    ),
    ("t.npz", dump(np.savez, X=np.ones(3)), {}, "holds no table"),
    ("t.npz", dump(np.savez, X=np.array([[{}]], dtype=object)), {}, "holds object, not numbers"),
    ("t.npz", dump(np.savez, first=NUMBERS, second=NUMBERS), {}, r"2 tables \(first, second\)"),
    ("t.npz", dump(np.savez, first=NUMBERS), {"key": "third"}, "no array 'third'; there are first"),
    ("t.npz", dump(sparse.save_npz, sparse.csr_array((0, 4))), {}, "no samples"),
    *(
        ("t.npz", dump(np.savez, format=kind, shape=(2, 2), data=data, indices=[0], indptr=[0, 1, 1]), {}, message)
        for kind, data, message in ((b"lil", [1.0], "its format is 'lil'"), (b"csr", ["a"], "2 × 2 of <U1"))
    ),
    ("t.parquet", parquet({"a": np.array([], float)}), {}, "no samples"),
    ("t.parquet", parquet({"a": [1.0]}), {"index_col": "b"}, "index_col='b' is not a heading; .* the columns a"),
    ("t.parquet", parquet({"a": [1, 2.0], "b": [3, None]}), {"complete": True}, "row 2, column 'b' holds nan where"),
    ("t.parquet", parquet({"a": [1], "sex": ["f"]}), {}, r"row 1, column 'sex' holds 'f' where .*drop=.'sex'"),
    *((f"t{suffix}", "", {}, "the file is empty") for suffix in (".npy", ".npz", ".mtx", ".parquet")),
    *((f"t{suffix}", HEADED, {}, "not|cannot be read") for suffix in (".npy", ".npz", ".mtx", ".mtx.gz", ".parquet")),
    *((name, PLAIN, {}, r"is not one of \.csv, .*\.parquet.*\.tsv\.gz") for name in ("t.xls", "t", "t.npy.gz", "t.gz")),
    *(
        (f"t.csv{suffix}", pack(CSV.encode() * 99)[:end], {}, "cannot be read")
        for suffix, pack, end in (
            (".gz", gzip.compress, 30),
            (".gz", gzip.compress, -4),
            (".bz2", bz2.compress, -9),
            (".xz", lzma.compress, -9),
        )
    ),
    ("t.csv.gz", PLAIN, {}, "cannot be read.*gzip"),
    *(
        (f"t.{kind}", PLAIN, option, f"{next(iter(option))}=.* has no meaning for a .{kind} file")
        for kind, option in (
            ("npy", {"index_col": 0}),
            ("npy", {"header": True}),
            ("npy", {"sep": "|"}),
            ("npz", {"drop": ["a"]}),
            ("mtx", {"key": "X"}),
        )
    ),
    ("t.gct", GCT.replace("3\t2", "4\t2"), {}, "announces 4 genes × 2 samples, but the table is 3 × 2"),
    ("t.gct", GCT.replace("#1.2", "#9"), {}, "this is not a GCT file"),
    ("t.gct", GCT.replace("3\t2", "many"), {}, "this is not a GCT file"),
    ("t.gct", GCT.replace("3\t2", "3"), {}, "line 2 has 1 sizes"),
    ("t.gct", "#1.2", {}, "line 2 has 0 sizes"),
]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        *(("t.txt" if "\t" in str(content) else "t.csv", content, {}, message) for content, message in CELL_ERRORS),
        *(("t.csv", content, options, message) for options, content, message in OPTION_ERRORS),
        *BINARY_ERRORS,
    ],
    ids=shorten_id,
)
def test_errors_name_the_file_and_the_cell_or_option(write, name, content, options, message):
    path = write(name, content)
    with pytest.raises(TableError, match=message) as raised:
        read_table(path, **options)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"), [("nothing.csv", r"nothing\.csv: there is no such file"), ("", "this is a folder")]
)
def test_missing_files_and_folders_are_named(tmp_path, name, message):
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / name)


def test_all_columns_with_cells_that_are_no_numbers_are_named_at_once(write):
    rows = ["s1,1,n.d.,3", "s2,,2,<0.1", "s3,1,,3", "s4,2,n.d.,<0.2", "s5,1,2,3"]
    path = write("t.csv", "\n".join(["id,a,b,c", *rows]))
    listed = r"'a' \(1 empty\), 'b' \(3, such as 'n.d.'\), 'c' \(2, such as '<0.1'\)"
    remedy = r"leave them out with drop=\['a', 'b', 'c'\], or write NA for text that stands for a missing value"
    message = rf"3 columns have cells that are not numbers: {listed}; {remedy} and add missing='impute'\.$"
    with pytest.raises(TableError, match=message):
        read_table(path, complete=True)
    with pytest.raises(TableError, match=r"line 3, column 'c' holds '<0\.1'"):
        read_table(path)
    path.write_text(path.read_text().replace("<", ""))
    message = r"2 columns have missing cells: .*; leave them out with drop=\['a', 'b'"
    with pytest.raises(MissingCellError, match=message):
        read_table(path, complete=True)
    path.write_text("a,b\n1,inf\n2,3\n")
    with pytest.raises(TableError, match="holds 'inf'") as caught:
        read_table(path, complete=True)
    assert not isinstance(caught.value, MissingCellError)


def test_a_saved_model_is_no_table(tmp_path):
    GPower(1, cardinality=2).fit(np.vstack([NUMBERS, -NUMBERS])).save(tmp_path / "model.npz")
    with pytest.raises(TableError, match="this is a model that gpower saved, not a table"):
        read_table(tmp_path / "model.npz")
    assert read_table(tmp_path / "model.npz", key="components_").X.shape == (1, 3)


def test_a_damaged_middle_is_named(write):
    data = bytearray(parquet(np.random.default_rng(0).random((5000, 3)), columns=FEATURES))
    data[4:400] = b"\xff" * 396
    with pytest.raises(TableError, match=r"t\.parquet: rows 0 to 4999: they could not be read"):
        read_table(write("t.parquet", bytes(data)))


def test_a_dense_table_with_names_is_a_frame_that_shares_the_numbers():
    frame, S = Table(NUMBERS, FEATURES).to_frame_or_array(), sparse.csr_array(NUMBERS)
    assert tuple(frame.columns) == FEATURES
    assert np.shares_memory(frame.to_numpy(), NUMBERS)
    assert Table(NUMBERS).to_frame_or_array() is NUMBERS
    assert Table(S, FEATURES).to_frame_or_array() is S
