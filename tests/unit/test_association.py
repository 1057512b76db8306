"""Associations of components with metadata: one test for each kind of column, NaN without information."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gpower.analysis.association import align_metadata, associate, parse_metadata_column


@pytest.fixture
def scores():
    return np.random.default_rng(0).standard_normal((40, 2))


def test_each_kind_has_its_test(scores):
    rng = np.random.default_rng(1)
    age, group = rng.standard_normal(40), rng.choice(list("abc"), 40)
    found = associate(scores, {"age": age, "group": group})
    rank = stats.spearmanr(scores[:, 1], age)
    between = stats.kruskal(*(scores[group == g, 1] for g in "abc"))
    assert found.tests == ("Spearman", "Kruskal–Wallis")
    np.testing.assert_allclose(found.p_values[1], [rank.pvalue, between.pvalue])
    np.testing.assert_allclose(found.strength[1], [abs(rank.statistic), np.sqrt(between.statistic / 39)])
    assert found.sign[1, 0] == np.sign(rank.statistic)
    np.testing.assert_allclose(
        found.adjusted_p_values, stats.false_discovery_control(found.p_values, axis=None).reshape(2, 2)
    )


def test_scores_of_two_values_are_counted():
    score = np.repeat([0.0, 1.0], 20)
    group = ["a"] * 15 + ["b"] * 10 + ["a"] * 2 + ["b"] * 13
    found = associate(score[:, None], {"group": group})
    expected = stats.chi2_contingency([[15, 2], [5, 18]], correction=False)
    assert found.tests == ("χ²",)
    assert found.p_values[0, 0] == pytest.approx(expected.pvalue)
    assert found.strength[0, 0] == pytest.approx(np.sqrt(expected.statistic / 40))


def test_columns_and_scores_without_information_have_no_p_value(scores):
    columns = {
        "constant": ["x"] * 40,
        "constant number": [3.5] * 40,
        "all different": [f"id{i}" for i in range(40)],
        "unknown": [None] * 40,
        "three": [1.5, 2.5, 3.5] + [np.nan] * 37,
    }
    found = associate(scores, columns)
    assert np.isnan([found.p_values, found.adjusted_p_values]).all()
    assert found.identifiers == ("all different",)
    assert found.names == ("constant", "constant number", "unknown", "three")
    assert np.isnan(associate(np.zeros((40, 1)), {"age": scores[:, 0], "ab": ["a", "b"] * 20}).p_values).all()


def test_missing_values_and_groups_of_one_are_left_out(scores):
    group = np.array(["a", "b"] * 20, dtype=object)
    group[5], group[6], group[7] = None, "NA", "alone"
    kept = np.isin(group, ["a", "b"])
    found = associate(scores, {"group": group})
    groups = (scores[kept & (group == g), 0] for g in "ab")
    assert found.p_values[0, 0] == pytest.approx(stats.kruskal(*groups).pvalue)
    age = np.arange(40) + 0.5
    age[:4] = np.nan
    found = associate(scores, {"age": age})
    assert found.p_values[0, 0] == pytest.approx(stats.spearmanr(scores[4:, 0], age[4:]).pvalue)


@pytest.mark.parametrize(
    ("values", "measured"),
    [
        ([0, 1, 0, 1], False),
        ([1, 2, 3, 2, 1], False),
        ([0.5, 1.5, 2.5, 1.0], True),
        (["1.5", "", "2.5", "3.5"], True),
        (range(12), True),
        ([True, False, True], False),
        (["2020-01-01", "x"], False),
        ([np.inf, 1.5, 2.5, 3.25], True),
        ([str(i) for i in range(12)], True),
        (np.array([str(i) for i in range(12)]), False),
        (pd.Series([*map(str, range(12)), None]), False),
        (pd.Series(range(12), dtype="category"), False),
        (pd.Series([*range(12), None], dtype=object), True),
    ],
)
def test_columns_of_many_different_numbers_are_measurements(values, measured):
    assert parse_metadata_column(values).is_continuous == measured


def test_whole_numbers_are_groups_in_their_order():
    assert list(parse_metadata_column([10, 2, 2, 10, 1]).groups) == ["1", "2", "10"]


def test_columns_that_do_not_fit_are_refused(scores):
    with pytest.raises(ValueError, match="metadata: 'age' has 3 values, but there are 40 samples"):
        associate(scores, {"age": [1, 2, 3]})
    with pytest.raises(ValueError, match="metadata has no column"):
        associate(scores, {})


class TestOrder:
    """Rows of a frame with sample names are put into the order of the samples, or refused."""

    X = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["a", "b", "c"])

    ages = pd.DataFrame({"age": [3, 1, 2]}, index=["c", "a", "b"])

    def test_rows_are_found_by_name(self):
        assert align_metadata(self.X, self.ages)["age"].tolist() == [1, 2, 3]
        assert align_metadata(self.X, self.ages["age"])["age"].tolist() == [1, 2, 3]
        assert align_metadata(self.X, self.ages["age"].rename(None))["metadata"].tolist() == [1, 2, 3]
        assert align_metadata(self.X.to_numpy(), self.ages, ["b", "a", "c"])["age"].tolist() == [2, 1, 3]

    def test_rows_that_are_only_numbered_stay(self):
        numbered = self.ages.reset_index(drop=True)
        assert align_metadata(self.X, numbered) is numbered
        assert align_metadata(self.X.to_numpy(), numbered) is numbered
        assert align_metadata(self.X.reset_index(drop=True), numbered.iloc[:2]).shape == (2, 1)  # refused by its length
        assert align_metadata(self.X, {"age": [1, 2, 3]}) == {"age": [1, 2, 3]}
        assert align_metadata(self.X, self.ages, metadata_by_order=True) is self.ages

    def test_row_numbers_in_another_order_are_names(self):
        X, ages = self.X.reset_index(drop=True), self.ages.reset_index(drop=True)
        assert align_metadata(X, ages.iloc[[2, 0, 1]])["age"].tolist() == [3, 1, 2]
        assert align_metadata(X.iloc[[2, 0]], ages)["age"].tolist() == [2, 3]

    def test_columns_of_a_mapping_are_matched_too(self):
        assert align_metadata(self.X, {"age": self.ages["age"]})["age"].tolist() == [1, 2, 3]
        with pytest.raises(ValueError, match=r"metadata\['age'\]: by the index, 3 of 3 samples have no row"):
            align_metadata(self.X, {"age": self.ages["age"].rename(str.upper)})

    def test_names_are_refused_if_the_samples_have_none(self):
        with pytest.raises(ValueError, match=r"names the rows \(c, a, b\), but X has no sample names\. .*reset_index"):
            align_metadata(self.X.reset_index(drop=True), self.ages)
        assert align_metadata(self.X.to_numpy(), self.ages) is self.ages  # rows of arrays have no names

    def test_exchanged_axes_and_other_spellings_are_named(self):
        for X in (self.X.T, self.X.T.reset_index(drop=True)):
            with pytest.raises(ValueError, match=r"must be variables, not samples: pass X\.T\."):
                align_metadata(X, self.ages)
        with pytest.raises(
            ValueError, match=r"3 of the names differ only in case, .* as 'a' and 'A'; write them alike"
        ):
            align_metadata(self.X, self.ages.rename(index=str.upper))

    def test_other_names_are_refused(self):
        with pytest.raises(ValueError, match=r"3 of 3 samples have no row \(a, b, c\), and 3 of 3 rows no sample \("):
            align_metadata(self.X, self.ages.rename(index=str.upper))
        with pytest.raises(ValueError, match="names a sample twice"):
            align_metadata(self.X, pd.concat([self.ages, self.ages]))
