"""The reader of metadata matches rows to samples by name, or by order with a warning."""

import pytest

from gpower import GPowerWarning
from gpower.datasets import TableError, read_metadata


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,age\n", "there is no row below the headings"),
        ("id,age\np,40\nq,50\n", "no column names the samples of the data, and there are 2 rows for 3 samples"),
    ],
)
def test_metadata_that_fit_no_samples_are_refused(content, message, tmp_path):
    (tmp_path / "samples.csv").write_text(content)
    with pytest.raises(TableError, match=message):
        read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"])


def test_metadata_without_names_keep_the_order_of_the_file(tmp_path):
    (tmp_path / "samples.csv").write_text("age\n40\n50\n60\n")
    with pytest.warns(GPowerWarning, match="rows are taken in the order of the file"):
        assert read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"]) == {"age": ["40", "50", "60"]}


def test_metadata_of_other_or_missing_samples_raise_a_warning(tmp_path):
    (tmp_path / "samples.csv").write_text("id,age\nA,40\nB,50\nC,60\n")
    with pytest.warns(GPowerWarning, match="No column of samples.csv names the samples"):
        read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"])
    with pytest.warns(GPowerWarning, match="no row for 1 of 3 samples"):
        read_metadata(tmp_path / "samples.csv", 3, ["A", "B", "D"])
