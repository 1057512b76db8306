"""The bundled tables and the synthetic problems."""

import numpy as np
import pytest

from gpower.datasets import (
    gaussian,
    load_pitprops,
    load_planted_expression,
    planted_components,
    planted_expression,
)


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

    @pytest.mark.parametrize(
        ("support", "variance"),
        [((0, 1), 1.954), ((0, 1, 6, 7, 8, 9), 3.770960), (tuple(range(13)), 4.218633)],
    )
    def test_published_optima(self, support, variance):
        R = load_pitprops().correlation[np.ix_(support, support)]
        assert np.linalg.eigvalsh(R)[-1] == pytest.approx(variance, abs=1e-6)


class TestPlantedExpression:
    def test_bundled_table_is_what_the_generator_makes(self):
        bundled = load_planted_expression()
        X, genes = planted_expression()
        np.testing.assert_array_equal(bundled.X, X)
        assert bundled.feature_names == genes

    def test_modules_are_genes_of_the_table(self):
        bundled = load_planted_expression()
        assert [len(genes) for genes in bundled.modules.values()] == [8, 6, 5]
        assert {gene for genes in bundled.modules.values() for gene in genes} < set(bundled.feature_names)
        assert len(set(bundled.feature_names)) == 150
        assert len(bundled.sample_names) == 60

    def test_modules_differ_clearly_in_strength(self):
        bundled = load_planted_expression()
        C = np.cov(bundled.X, rowvar=False)
        strengths = []
        for genes in bundled.modules.values():
            at = [bundled.feature_names.index(gene) for gene in genes]
            strengths.append(np.linalg.eigvalsh(C[np.ix_(at, at)])[-1])
        assert strengths[0] > 1.5 * strengths[1] > 1.5**2 * strengths[2]


class TestPlantedComponents:
    def test_loadings_are_orthonormal_and_live_on_the_supports(self):
        planted = planted_components(40, 20, [5, 3, 1], [4, 3, 2], random_state=1)
        np.testing.assert_allclose(planted.components @ planted.components.T, np.eye(3), atol=1e-12)
        for row, support, size in zip(planted.components, planted.supports, [5, 3, 1], strict=True):
            np.testing.assert_array_equal(np.flatnonzero(row), support)
            assert support.size == size

    def test_variances_are_those_asked_for(self):
        planted = planted_components(20_000, 6, [2, 2], [5, 3], random_state=0)
        variances = np.var(planted.X @ planted.components.T, axis=0)
        np.testing.assert_allclose(variances, [26, 10], rtol=0.05)

    def test_repeats_from_its_seed(self):
        first, again = (planted_components(5, 6, [2], [3], random_state=7).X for _ in range(2))
        np.testing.assert_array_equal(first, again)

    def test_too_many_variables(self):
        with pytest.raises(ValueError, match="7 planted variables do not fit into n_features=6"):
            planted_components(5, 6, [4, 3], [1, 1])

    def test_one_strength_each(self):
        with pytest.raises(ValueError, match="cardinality has 2 entries and sds has 1"):
            planted_components(5, 6, [2, 2], [1])


def test_gaussian_repeats_and_is_standard():
    X = gaussian(300, 200, random_state=0)
    assert X.shape == (300, 200)
    assert abs(X.mean()) < 0.02
    assert abs(X.std() - 1) < 0.02
    np.testing.assert_array_equal(X, gaussian(300, 200, random_state=0))
