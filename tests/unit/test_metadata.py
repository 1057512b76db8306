"""The reader of metadata matches rows to samples by name, or by order if asked to."""

import pytest

from gpower import GPowerWarning
from gpower.datasets import TableError, read_metadata


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,age\n", "there is no row below the headings"),
        (
            "age,id\n40,p\n50,q\n60,r\n70,b\n80,v\n",
            r"no column names the samples of the data; by 'id', 2 of 3 samples have no row \(a, c\), and 4 of 5 rows "
            r"no sample \(p, q, r, …\)\. .* use metadata_by_order=True",
        ),
    ],
)
def test_metadata_that_fit_no_samples_are_refused(content, message, tmp_path):
    (tmp_path / "samples.csv").write_text(content)
    with pytest.raises(TableError, match=message):
        read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"])


def test_rows_keep_the_order_of_the_file_if_asked_or_without_sample_names(tmp_path):
    (tmp_path / "samples.csv").write_text("age\n40\n50\n60\n")
    for names, by_order in ((["a", "b", "c"], True), (None, False)):
        metadata = read_metadata(tmp_path / "samples.csv", 3, names, metadata_by_order=by_order)
        assert metadata == {"age": ["40", "50", "60"]}
        with pytest.raises(TableError, match="3 rows for 4 samples, matched by order"):
            read_metadata(tmp_path / "samples.csv", 4, names, metadata_by_order=by_order)


@pytest.mark.parametrize(("heading", "values"), [("person", "Ada Bob Cy"), ("patient_id", "7 9 8"), ("", "3 1 2")])
def test_names_are_refused_if_the_samples_have_none(heading, values, tmp_path):
    rows = [f"{age},{value}" for age, value in zip((50, 40, 60), values.split(), strict=True)]
    (tmp_path / "samples.csv").write_text("\n".join([f"age,{heading}", *rows]) + "\n")
    with pytest.raises(TableError, match=r"names the rows \(.*, .*, .*\), but the table has no sample names") as error:
        read_metadata(tmp_path / "samples.csv", 3)
    assert "with index_col, or, if the rows are in the order of the samples, use metadata_by_order=True" in str(error)
    assert read_metadata(tmp_path / "samples.csv", 3, metadata_by_order=True)["age"] == ["50", "40", "60"]


def test_data_and_row_numbers_are_no_names(tmp_path):
    (tmp_path / "samples.csv").write_text(",age,bmi,group\n0,40,23.5,a\n1,60,22.5,b\n2,50,21.5,a\n")
    assert read_metadata(tmp_path / "samples.csv", 3)["age"] == ["40", "60", "50"]


def test_exchanged_axes_and_other_spellings_are_named(tmp_path):
    (tmp_path / "samples.csv").write_text("age,id\n40,t01.0145\n50,T02 0146\n60,T03\n")
    names = ["T01-0145", "T02-0146", "T03"]
    for samples in (["GENE1", "GENE2"], None):
        with pytest.raises(TableError, match=r"must be variables, not samples: add transpose=True"):
            read_metadata(tmp_path / "samples.csv", 2, samples, feature_names=names)
    alike = "differ only in case, '-', '.', '_' or spaces, as 'T01-0145' and 't01.0145'; write them alike"
    with pytest.raises(TableError, match=f"2 of the names {alike}"):
        read_metadata(tmp_path / "samples.csv", 4, [*names, "T04"])
    with pytest.warns(GPowerWarning, match="1 of the names differs only in case"):
        read_metadata(tmp_path / "samples.csv", 3, ["T01-0145", "T02 0146", "T03"])


def test_names_in_another_order_are_not_taken_by_order(tmp_path):
    (tmp_path / "samples.csv").write_text("id,age\nB,40\nA,50\n")
    with pytest.raises(TableError, match="column 'id' names the samples in another order; leave out"):
        read_metadata(tmp_path / "samples.csv", 2, ["A", "B"], metadata_by_order=True)
    assert read_metadata(tmp_path / "samples.csv", 2, ["B", "A"], metadata_by_order=True)["age"] == ["40", "50"]


@pytest.mark.parametrize("first", [0, 1])
def test_ranks_are_not_the_names_of_numbered_samples(first, tmp_path):
    (tmp_path / "m.csv").write_text(f"rank,age\n{first + 2},50\n{first},40\n{first + 1},30\n")
    samples = [str(first + i) for i in range(3)]
    found = read_metadata(tmp_path / "m.csv", 3, samples, metadata_by_order=True)
    assert found == {"rank": [samples[2], samples[0], samples[1]], "age": ["50", "40", "30"]}


def test_samples_without_a_row_are_counted_and_named(tmp_path):
    (tmp_path / "samples.csv").write_text("id,age\nA,40\nB,50\nC,60\n")
    with pytest.warns(GPowerWarning, match=r"1 of 3 samples have no row \(D\), and 1 of 3 rows no sample \(C\)"):
        assert read_metadata(tmp_path / "samples.csv", 3, ["A", "B", "D"]) == {"age": ["40", "50", ""]}
