"""The bundled tables and the synthetic problems, including those of benchmarks and tests."""

from itertools import chain

import numpy as np
import pytest
from benchmarks.datasets import factor_model

from gpower.datasets import expression_cohort, gaussian, load_pitprops, load_planted_expression


def test_pitprops_are_a_correlation_matrix():
    pitprops = load_pitprops()
    R = pitprops.correlation
    assert (R.shape, len(pitprops.feature_names), pitprops.n_samples) == ((13, 13), 13, 180)
    np.testing.assert_array_equal(R, R.T)
    np.testing.assert_array_equal(np.diag(R), 1)
    assert np.linalg.eigvalsh(R)[0] > 0


def test_gene_sets_of_the_planted_expression_are_the_modules_and_the_other_genes():
    bundled = load_planted_expression()
    assert tuple(bundled.modules) == bundled.active == ("GROWTH", "IMMUNE", "STRESS")
    assert [len(genes) for genes in bundled.modules.values()] == [8, 6, 5]
    assert list(bundled.gene_sets)[:4] == [*bundled.modules, "QUIET_1"]
    assert sorted(chain(*bundled.gene_sets.values())) == sorted(bundled.feature_names)
    assert (len(set(bundled.feature_names)), len(bundled.sample_names)) == (150, 60)


def test_gaussian_is_standard():
    X = gaussian(300, 200, random_state=0)
    assert X.shape == (300, 200)
    assert abs(X.mean()) < 0.02
    assert abs(X.std() - 1) < 0.02


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: {"X": gaussian(5, 6, random_state=seed)},
        lambda seed: vars(expression_cohort(10, 60, random_state=seed)),
        lambda seed: vars(factor_model(5, 6, seed)),
    ],
)
def test_tables_repeat_from_their_seed(make):
    first, again, other = (make(seed) for seed in (3, 3, 4))
    np.testing.assert_equal(again, first)
    assert np.all(first["X"] != other["X"])


class TestExpressionCohort:
    def test_sets_have_measured_and_unmeasured_genes(self):
        cohort = expression_cohort(30, 200, n_sets=8, n_active=3, set_size=20, random_state=0)
        assert cohort.X.shape == (30, 200)
        assert (len(cohort.feature_names), len(cohort.sample_names)) == (200, 30)
        assert cohort.active == ("ACTIVE_1", "ACTIVE_2", "ACTIVE_3")
        assert list(cohort.gene_sets)[2:4] == ["ACTIVE_3", "QUIET_1"]
        for genes in map(set, cohort.gene_sets.values()):
            assert (len(genes), len(genes & set(cohort.feature_names))) == (20, 18)

    def test_genes_of_active_sets_are_correlated_and_others_are_not(self):
        cohort = expression_cohort(300, 300, n_sets=6, n_active=3, leak=0.0, random_state=1)
        R = np.abs(np.corrcoef(cohort.X, rowvar=False)) - np.eye(300)
        members = [np.isin(cohort.feature_names, genes) for genes in cohort.gene_sets.values()]
        mean = [R[np.ix_(each, each)].mean() for each in members]  # the active sets are the first
        assert min(mean[:3]) > 2 * max(mean[3:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: expression_cohort(n_sets=8, n_active=9), "n_active is 9; it must be from 0 to n_sets=8"),
        (lambda: expression_cohort(10, 100, set_size=300), r"set_size is 300; .* at most n_genes=100"),
        (lambda: factor_model(5, 6, share=4), "share is 4; give the share of the variables"),
    ],
)
def test_impossible_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
