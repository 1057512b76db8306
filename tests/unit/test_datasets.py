"""The bundled tables and the synthetic problems, including those of benchmarks and tests."""

import numpy as np
import pytest
from benchmarks.datasets import factor_model

from gpower.datasets import expression_cohort, gaussian, load_pitprops, load_planted_expression


class TestPitprops:
    def test_is_a_correlation_matrix(self):
        pitprops = load_pitprops()
        R = pitprops.correlation
        assert R.shape == (13, 13)
        assert len(pitprops.feature_names) == 13
        assert pitprops.n_samples == 180
        np.testing.assert_array_equal(R, R.T)
        np.testing.assert_array_equal(np.diag(R), 1)
        assert np.linalg.eigvalsh(R)[0] > 0


class TestPlantedExpression:
    def test_modules_are_genes_of_the_table(self):
        bundled = load_planted_expression()
        assert tuple(bundled.modules) == bundled.active == ("GROWTH", "IMMUNE", "STRESS")
        assert [len(genes) for genes in bundled.modules.values()] == [8, 6, 5]
        assert {gene for genes in bundled.modules.values() for gene in genes} < set(bundled.feature_names)
        assert len(set(bundled.feature_names)) == 150
        assert len(bundled.sample_names) == 60

    def test_gene_sets_are_the_modules_and_the_other_genes(self):
        bundled = load_planted_expression()
        sets = bundled.gene_sets
        assert list(sets)[:4] == ["GROWTH", "IMMUNE", "STRESS", "QUIET_1"]
        assert sorted(gene for genes in sets.values() for gene in genes) == sorted(bundled.feature_names)


def test_gaussian_repeats_and_is_standard():
    X = gaussian(300, 200, random_state=0)
    assert X.shape == (300, 200)
    assert abs(X.mean()) < 0.02
    assert abs(X.std() - 1) < 0.02
    np.testing.assert_array_equal(X, gaussian(300, 200, random_state=0))


class TestFactorModel:
    def test_variances_are_those_of_the_model(self):
        model = factor_model(20_000, 30, n_factors=4, share=0.3)
        expected = model.scales**2 * (1 + np.sum(model.loadings**2, axis=0))
        np.testing.assert_allclose(np.var(model.X, axis=0), expected, rtol=0.06)

    def test_factors_move_their_share_and_weaken(self):
        model = factor_model(5, 20_000, n_factors=4, share=0.1)
        np.testing.assert_allclose(np.mean(model.loadings != 0, axis=1), 0.1, atol=0.01)
        sizes = [np.abs(row[row != 0]).mean() for row in model.loadings]
        np.testing.assert_allclose(sizes, 2 / np.sqrt([1, 2, 3, 4]), rtol=0.05)

    def test_repeats_from_its_seed(self):
        first, again, other = (factor_model(5, 6, seed).X for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert np.all(first != other)

    def test_a_share_above_one_is_refused(self):
        with pytest.raises(ValueError, match="share is 4; give the share of the variables"):
            factor_model(5, 6, share=4)


class TestExpressionCohort:
    def test_sets_have_measured_and_unmeasured_genes(self):
        cohort = expression_cohort(30, 200, n_sets=8, n_active=3, set_size=20, random_state=0)
        assert cohort.X.shape == (30, 200)
        assert (len(cohort.feature_names), len(cohort.sample_names)) == (200, 30)
        assert cohort.active == ("ACTIVE_1", "ACTIVE_2", "ACTIVE_3")
        assert list(cohort.gene_sets)[2:4] == ["ACTIVE_3", "QUIET_1"]
        for genes in cohort.gene_sets.values():
            assert len(set(genes)) == 20
            assert len(set(genes) & set(cohort.feature_names)) == 18

    def test_genes_of_active_sets_are_correlated_and_others_are_not(self):
        cohort = expression_cohort(300, 300, n_sets=6, n_active=3, leak=0.0, random_state=1)
        at = {gene: j for j, gene in enumerate(cohort.feature_names)}
        R = np.abs(np.corrcoef(cohort.X, rowvar=False))
        mean = {}
        for name, genes in cohort.gene_sets.items():
            members = [at[gene] for gene in genes if gene in at]
            block = R[np.ix_(members, members)]
            mean[name] = (block.sum() - len(members)) / (len(members) * (len(members) - 1))
        assert min(mean[name] for name in cohort.active) > 2 * max(mean[n] for n in mean if n not in cohort.active)

    def test_repeats_from_its_seed(self):
        first, again = (expression_cohort(10, 60, random_state=5) for _ in range(2))
        np.testing.assert_array_equal(first.X, again.X)
        assert first.gene_sets == again.gene_sets

    def test_impossible_sizes_are_refused(self):
        with pytest.raises(ValueError, match="n_active is 9; it must be from 0 to n_sets=8"):
            expression_cohort(n_sets=8, n_active=9)
        with pytest.raises(ValueError, match=r"set_size is 300; .* at most n_genes=100"):
            expression_cohort(10, 100, set_size=300)
