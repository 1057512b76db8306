"""Hints about tables that may have been misread; ordinary tables give none."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from tests.command_line import write_csv

from gpower.cli.hints import find_table_hints
from gpower.datasets import Table, read_table
from gpower.io.tables.table import TableFile

X = np.random.RandomState(0).standard_normal((8, 4))
COUNTS = np.round(9 * X)
WIDE = np.random.default_rng(0).standard_normal((30, 40))
HEADER = "the first row (2001, 2003, 2005, …) looks like a header; if it is, add --header"


def find_hints(path, covariance=False, **reading):
    """Return the hints about the table in a file."""
    return list(find_table_hints(TableFile(path, **reading), read_table(path, **reading), covariance=covariance))


def find_hints_of_table(table):
    return list(find_table_hints(TableFile(Path("t.csv")), table))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("1.045,0.4,1,000", "-0.246,0.3,2,500"), "these are numbers (1.045, -0.246)"),
        (("1,2,3,4", "2,3,1,5", "1,9,2,2"), "these are numbers (1, 2, 1)"),
        (("1,2,3,4", "2,3,1,5"), None),  # as R numbers its rows
        (("x,2,3,4", "y,3,1,5"), None),
    ],
)
def test_a_cell_more_than_the_header_by_thousands_separators(write, rows, expected):
    hints = find_hints(write("t.csv", "\n".join(["a,b,income", *rows])))
    assert [expected in hint for hint in hints] == ([True] if expected else [])


@pytest.mark.parametrize("heading", ["entrez", "Gene ID", "sample", "EntrezID", "size", "sample_id"])
def test_numbers_that_name_the_rows(tmp_path, heading):
    rest = COUNTS if heading == "sample_id" else X  # integers like all others
    ids = [672, 7157, 1956, 2064, 4609, 5728, 3845, 673]
    path = write_csv(tmp_path / "t.csv", np.column_stack([ids, rest]), [heading, *"abcd"])
    flag = "--index-col 'Gene ID'" if " " in heading else f"--index-col {heading}"
    hint = f"column {heading!r} looks like row names; if it is, add {flag}"
    assert find_hints(path) == find_hints(path, transpose=True) == [hint]
    assert find_hints(path, index_col=heading) == []


def test_a_second_column_of_identifiers_is_pointed_out(write):
    genes = "".join(f"G{i},{1000 + i},{i * 0.37 % 1:.3f},{i * 0.73 % 1:.3f}\n" for i in range(12))
    path = write("genes.csv", "Gene,Entrez,p1,p2\n" + genes)
    hint = "column 'Entrez' looks like row numbers, not a measurement; if it is, add --drop Entrez"
    assert find_hints(path) == find_hints(path, transpose=True) == [hint]


@pytest.mark.parametrize(
    ("heading", "first", "rest"),
    [
        ("size", [3, 1, 4, 1, 5, 9, 2, 6], X),  # a repeated number
        ("size", [3, 1, 4, 7, 5, 9, 2, 6], COUNTS),  # integers like all others
        ("sample", [3, 1, 4, 7, 5, 9, 2, 6.5], X),
        ("cell_size", [3, 1, 4, 7], COUNTS[:4]),
        ("size", [3, 1, 4, 7], X[:4]),  # too few rows for a hint
    ],
)
def test_numbers_that_need_not_name_the_rows(tmp_path, heading, first, rest):
    assert find_hints(write_csv(tmp_path / "t.csv", np.column_stack([first, rest]), [heading, *"abcd"])) == []


@pytest.mark.parametrize(
    ("first", "rest", "expected"),
    [
        ([2001, 2003, 2005, 2010], X, [HEADER]),
        ([2001, 2003, 2005, 2010], COUNTS, [HEADER]),
        *((first, X, []) for first in ([3, 1, 2, 7], [1, 1, 2, 3], [1, 2, 3, 4.5])),
    ],
)
def test_numbers_that_name_the_columns(tmp_path, first, rest, expected):
    path = write_csv(tmp_path / "t.csv", np.vstack([first, rest]))
    assert find_hints(path) == expected
    assert HEADER not in (*find_hints(path, header=False), *find_hints(path, header=True))


@pytest.mark.parametrize(
    ("save", "table"),
    [(np.save, np.vstack([[2001, 2003, 2005, 2010], X])), (sparse.save_npz, sparse.csr_array(np.eye(4)))],
)
def test_only_a_text_file_may_have_a_header_or_be_a_correlation_matrix(tmp_path, save, table):
    path = tmp_path / ("t.npy" if save is np.save else "t.npz")
    save(path, table)
    assert find_hints(path) == []


def test_correlations_and_covariances(tmp_path):
    path, C = tmp_path / "t.csv", np.cov(X.T)
    write_csv(path, np.corrcoef(X.T), "abcd")
    assert find_hints(path) == ["the table looks like a correlation matrix; if it is, add --covariance"]
    assert find_hints(path, covariance=True) == []
    assert find_hints(write_csv(path, C, "abcd")) == []
    assert "covariance matrix" in find_hints(write_csv(path, C, "abcd", "abcd"))[0]
    assert find_hints(write_csv(path, X[:4], "abcd")) == []


def test_a_few_variables_unlike_the_others():
    names = (*(f"g{j}" for j in range(36)), "dose", "patient age", "codes", "days_alive")
    table = WIDE.copy()
    table[:, 38] = np.arange(30) % 3
    differ = "from the other variables in scale, kind of values or name; if not wanted, add --drop"
    assert find_hints_of_table(Table(table, names)) == [
        f"dose, patient age, codes, days_alive differ {differ} 'dose,patient age,codes,days_alive'"
    ]
    renamed = (*names[:36], "big", "b", "codes", "d")
    assert find_hints_of_table(Table(table, renamed)) == [f"codes differs {differ} codes"]
    assert find_hints_of_table(Table(WIDE[:, :36], names[:36])) == []
    table[::4, 38] = np.nan
    table[:, [3, 5]] *= [[11, 1000]]
    all_odd = "g5,g3,dose,patient age,codes,days_alive"  # the extreme scale first
    assert find_hints_of_table(Table(table, names)) == [f"{all_odd.replace(',', ', ')} differ {differ} '{all_odd}'"]


def test_names_of_variables_or_samples_that_repeat(write):
    path = write("t.csv", "gene,BRCA1,TP53,BRCA1,TP53,BRCA1\na,1.5,2,3,4,5\nb,6,7,8,9,0.5\n")
    hint = "several variables are called BRCA1, TP53: .1, .2, … is appended to all but the first of a name"
    assert find_hints(path) == [hint]
    rows = ["kind,a,b", *(f"{kind},{i}.5,{i * i}" for i, kind in enumerate("xyzxyz"))]
    path = write("t.csv", "\n".join(rows))
    note = "'kind' is taken for the names of the samples: 6 samples, 3 different names; if it is data, leave it out"
    assert read_table(path).notes == (f"{note} with drop=['kind']",)
    for options in ({"index_col": "kind"}, {"drop": ["kind"]}):
        assert read_table(path, **options).notes == ()
    assert read_table(write("t.csv", "\n".join(rows[:4]))).notes == ()


@pytest.mark.parametrize(
    "table",
    [
        Table(WIDE.round(), tuple(f"age_{j}" for j in range(40))),
        Table(X * [1, 1, 1000, 1], tuple("abcd")),
        Table(load_wine().data, tuple(load_wine().feature_names)),
    ],
)
def test_variables_of_mixed_kinds_have_no_hint(table):
    assert find_hints_of_table(table) == []


GENES = ("Actb", "Gapdh", "Myc", "Sox2", "Pax6", "Nes", "Dcx", "Gfap")


@pytest.mark.parametrize(
    ("samples", "variables"),
    [
        ("GSM{}", "g{}"),
        ("TCGA-0{}", "x{}"),
        ("c{}", "ENSG0000012345{}"),
        ("s{}", "{}_at"),
        ("Patient {}", "g{}"),
        ("s{}", "g{}"),
        ("T0{}-014", None),
    ],
)
def test_samples_and_variables_that_look_exchanged(samples, variables):
    columns = tuple(samples.format(j) for j in range(6))
    rows = tuple(variables.format(i) for i in range(8)) if variables else GENES
    hints = find_hints_of_table(Table(WIDE[:8, :6], columns, rows))
    assert any("add --transpose" in hint for hint in hints)
    if variables:
        assert hints == ["the rows look like variables and the columns like samples; if so, add --transpose"]
    assert find_hints_of_table(Table(WIDE[:8, :6].T, rows, columns)) == []
