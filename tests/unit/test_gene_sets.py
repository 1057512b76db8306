"""The reader of gene sets in GMT files."""

import gzip

import pytest

from gpower.datasets import TableError, read_gmt


def test_sets_in_their_order_with_each_gene_once(write):
    path = write("sets.gmt", "B\thttp://b\tX\tY\tX\n\n# a remark\nA\t\tZ\t\t\n")
    assert read_gmt(path) == {"B": ("X", "Y"), "A": ("Z",)}
    assert list(read_gmt(path)) == ["B", "A"]


def test_windows_line_ends_and_byte_order_mark(write):
    assert read_gmt(write("sets.gmt", "\ufeffA\td\tX\r\nB\td\tY\r\n")) == {"A": ("X",), "B": ("Y",)}


def test_a_gzipped_file_is_read(write):
    assert read_gmt(str(write("sets.gmt.gz", gzip.compress(b"A\td\tX\n")))) == {"A": ("X",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\td\tX\nB\td\n", r"line 2 has 2 cells between tabs; a gene set is a name, a description and its genes"),
        ("A,d,X\n", r"line 1 has 1 cell between tabs"),
        ("A\td\t\t\n", r"line 1: the set 'A' has no genes"),
        ("\td\tX\n", r"line 1: the set has no name"),
        ("A\td\tX\nB\td\tX\nA\td\tY\n", r"line 3 repeats the set 'A' of line 1"),
        ("\n# only a remark\n", r"the file contains no gene set"),
    ],
)
def test_malformed_files_name_the_line(write, text, message):
    path = write("sets.gmt", text)
    with pytest.raises(TableError, match=message) as caught:
        read_gmt(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TableError, match="there is no such file"):
        read_gmt(tmp_path / "absent.gmt")
