"""Over-representation of gene sets and the pathway enrichment index."""

import math
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.decomposition import PCA

from gpower import GPower
from gpower.analysis.enrichment import Universe, enrich, random_index
from gpower.datasets import expression_cohort, load_planted_expression

TWENTY = [f"g{j}" for j in range(20)]
GENES = st.integers(0, 19)


def loadings(*supports, n=20):
    """Return one row per support, with ones on the support."""
    Z = np.zeros((len(supports), n))
    for row, support in zip(Z, supports, strict=True):
        row[list(support)] = 1
    return Z


def by_fisher(support, members, n=20):
    a = len(set(support) & set(members))
    b, c = len(support) - a, len(members) - a
    return stats.fisher_exact([[a, b], [c, n - a - b - c]], alternative="greater").pvalue


class TestPValues:
    @given(st.sets(GENES, max_size=19), st.lists(st.sets(GENES, min_size=1), min_size=1, max_size=6))
    def test_agrees_with_fishers_exact_test(self, support, sets):
        gene_sets = {f"S{i}": [TWENTY[j] for j in sorted(members)] for i, members in enumerate(sets)}
        result = enrich(loadings(support), gene_sets, genes=TWENTY)
        expected = [by_fisher(support, members) for members in sets]
        np.testing.assert_allclose(result.p_values[0], expected, rtol=1e-9, atol=1e-15)

    def test_no_overlap_and_no_gene_are_certain(self):
        result = enrich(loadings([0, 1], []), {"S": ["g5", "g6"], "T": ["elsewhere"]}, genes=TWENTY)
        np.testing.assert_array_equal(result.p_values, 1.0)
        assert result.index == 0.0
        assert result.significant == ()
        assert result.n_selected.tolist() == [2, 0]


class TestCorrection:
    def test_p_values_are_adjusted_within_their_scope(self):
        supports = [[0, 1, 2, 3], [0, 8, 12, 19], [4, 5, 6, 13]]
        gene_sets = {"A": TWENTY[:4], "B": TWENTY[4:8], "C": TWENTY[8:12], "D": TWENTY[12:20]}
        each = enrich(loadings(*supports), gene_sets, genes=TWENTY)
        whole = enrich(loadings(*supports), gene_sets, genes=TWENTY, scope="all")
        np.testing.assert_array_equal(each.p_values, whole.p_values)
        for row, p_values in zip(each.adjusted_p_values, each.p_values, strict=True):
            np.testing.assert_allclose(row, by_hand(p_values), rtol=1e-12)
        np.testing.assert_allclose(whole.adjusted_p_values.ravel(), by_hand(whole.p_values.ravel()), rtol=1e-12)
        assert (each.scope, whole.scope) == ("component", "all")


def by_hand(p_values):
    """Compute Benjamini–Hochberg as the paper states it, one p-value at a time."""
    n = len(p_values)
    ranked = sorted(p_values)
    return [min(1.0, *(ranked[i] * n / (i + 1) for i in range(n) if ranked[i] >= p)) for p in p_values]


class TestSelection:
    def test_top_takes_the_largest_absolute_loadings_and_no_zero(self):
        Z = np.array([[0.1, -0.9, 0.5, 0.2, -0.05]])
        result = enrich(Z, {"S": ["b"]}, genes=list("abcde"), top=2)
        assert result.n_selected.tolist() == [2]
        assert [result.universe.genes[j] for j in sorted(result.selected.indices)] == ["b", "c"]

        assert enrich(loadings([0, 1]), {"S": ["g0"]}, genes=TWENTY, top=5).n_selected.tolist() == [2]

    def test_model_array_and_frame_agree(self):
        table = load_planted_expression()
        frame = pd.DataFrame(table.X, columns=table.feature_names)
        model = GPower(2, cardinality=(8, 6)).fit(frame)
        expected = enrich(model.components_, table.gene_sets, genes=table.feature_names)
        for loadings_with_names in (model, pd.DataFrame(model.components_.T, index=table.feature_names)):
            found = enrich(loadings_with_names, table.gene_sets)
            np.testing.assert_array_equal(found.p_values, expected.p_values)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"genes": None}, "without gene names; pass genes="),
            ({"genes": TWENTY[:19]}, r"genes has 19 names, but the loadings have the shape \(1, 20\)"),
            ({"genes": ["g0"]}, "transpose them to components × genes"),
            ({"top": 0}, "top is 0; give a number of genes between 1 and 20"),
            ({"top": 21}, "top is 21"),
            ({"scope": "both"}, "scope is 'both'; choose 'component' or 'all'"),
            ({"alpha": 1.5}, "alpha is 1.5; give a number between 0 and 1"),
            ({"top": 2.5}, "top=2.5: a whole number"),
            ({"top": "3"}, "top='3': a whole number"),
            ({"top": True}, "top=True: a whole number"),
            ({"alpha": "x"}, "alpha='x': a finite number"),
        ],
    )
    def test_invalid_options_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            enrich(loadings([0]), {"S": ["g0"]}, **({"genes": TWENTY} | options))

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (GPower(2), "The GPower is not fitted; call fit first"),
            (np.full((1, 20), np.nan), "The loadings contain NaN or infinity; fit the model again without them"),
            (np.ones((2, 20)), r"All 20 loadings of every component are non-zero.*top=100"),
        ],
    )
    def test_loadings_that_select_no_variables_are_refused(self, model, message):
        with pytest.raises(ValueError, match=message):
            enrich(model, {"S": ["g0"]}, genes=TWENTY)


class TestNames:
    def test_other_case_is_ignored_and_unmeasured_genes_are_counted(self):
        sets = {"S": ["TP53", "MDM2"], "T": ["C10ORF2", "X"], "U": ["X", "Y"]}
        universe = Universe.from_genes(["Tp53", "MDM2", "C10orf2"], sets)
        assert universe.set_sizes.tolist() == [2, 1, 0]
        assert list(universe.notes()) == [
            "2 genes are written in another case in the gene sets (Tp53, C10orf2); case is ignored.",
            "2 of the 5 genes of the sets were not measured and are left out.",
        ]

    @pytest.mark.parametrize(
        ("names", "genes", "gene_of", "note"),
        [
            (["TP53", "MDM2", "TP53.1", "tp53", "X"], ("TP53", "MDM2", "X"), [0, 1, 0, 0, 2], "2 variables measure a "),
            (["TP53", "", "---", "NA", "X"], ("TP53", "X"), [0, -1, -1, -1, 1], "3 of the 5 variables have no gene"),
            (["NA", "NA.1", "TP53", "X"], ("TP53", "X"), [-1, -1, 0, 1], "2 of the 4 variables"),
            (["---", "---.1", "TP53", "X"], ("TP53", "X"), [-1, -1, 0, 1], "2 of the 4 variables"),
            (["TP53", "TP53.1", "TP53.1.1", "X"], ("TP53", "X"), [0, 0, 0, 1], "2 variables measure a gene"),
            (["TP53.1.1", "TP53.1", "X", "x.2"], ("TP53.1", "X"), [0, 0, 1, 1], "2 variables measure a gene"),
            (["NKX2.1", "NKX2.5", "TP53", "X"], ("NKX2.1", "NKX2.5", "TP53", "X"), [0, 1, 2, 3], ""),
        ],
    )
    def test_variables_of_one_gene_count_once_and_those_without_a_name_not(self, names, genes, gene_of, note):
        """A number after a dot marks a repeated name only if the name itself is there."""
        result = enrich([[*np.ones(len(names) - 1), 0]], {"S": ["TP53", "X"]}, genes=names)
        assert result.universe.genes == genes
        assert result.universe.gene_indices.tolist() == gene_of
        selected = {genes[i] for i in gene_of[:-1] if i >= 0}
        assert result.n_selected.tolist() == [len(selected)]
        assert result.overlaps.tolist() == [[len(selected & {"TP53", "X"})]]
        assert note in " ".join(result.universe.notes())

    @pytest.mark.parametrize(
        ("gene_sets", "message"),
        [
            ({"S": ["TP53"]}, r"None of the 2 measured genes \(7157, 4193\) is in a gene set \(TP53\)"),
            ({"AB": "AB"}, "The gene set 'AB' is one string, 'AB'; give a list of gene names"),
            ({}, r"There are no gene sets; read some with gpower.datasets.read_gmt"),
        ],
    )
    def test_gene_sets_that_are_refused(self, gene_sets, message):
        with pytest.raises(ValueError, match=message):
            Universe.from_genes(["7157", "4193"], gene_sets)


class TestResult:
    def test_the_frame_lists_overlapping_sets_by_p_value(self):
        gene_sets = {"quiet": ["g15"], "found": ["g0", "g1", "g2"], "both": ["g1", "g19"]}
        frame = enrich(loadings([0, 1, 2], [19]), gene_sets, genes=TWENTY).to_frame()
        assert frame["gene_set"].tolist() == ["found", "both", "both"]
        assert frame["component"].tolist() == [1, 1, 2]
        first = frame.iloc[0]
        assert (first["overlap"], first["set_size"], first["n_selected"]) == (3, 3, 3)
        assert first["expected"] == pytest.approx(9 / 20)
        assert first["p_value"] == pytest.approx(1 / math.comb(20, 3))
        assert first["adjusted_p_value"] == pytest.approx(3 / math.comb(20, 3))
        assert first["genes"] == "g0 g1 g2"
        assert frame["enriched"].tolist() == [True, False, False]
        assert enrich(loadings([0]), {"S": ["g1"]}, genes=TWENTY).to_frame().columns.tolist() == frame.columns.tolist()

    def test_frame_columns_and_records_are_one_table(self, monkeypatch):
        gene_sets = {"tie": ["g2"], "found": ["g0", "g1"], "also": ["g1"], "quiet": ["g15"]}
        result = enrich(loadings([0, 1, 2], [1]), gene_sets, genes=TWENTY)
        assert result.columns()["gene_set"].tolist() == ["found", "tie", "also", "also", "found"]  # ties as given
        pd.testing.assert_frame_equal(result.to_frame(), pd.DataFrame(result.columns()))
        assert list(result.records()) == result.to_frame().to_dict("records")
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"need pandas: pip install .*pandas"):
            result.to_frame()

    def test_index_counts_a_set_once_and_all_sets(self):
        gene_sets = {"A": ["g0", "g1", "g2"], "B": ["g9"], "C": ["nowhere"], "D": ["g8"]}
        result = enrich(loadings([0, 1, 2], [0, 1, 2]), gene_sets, genes=TWENTY)
        assert result.significant == ("A",)
        assert result.index == 0.25
        assert enrich(loadings([0, 1, 2]), gene_sets, genes=TWENTY).index == 0.25

    def test_the_figure_shows_the_smallest_p_values(self):
        gene_sets = {"quiet": ["g15"], "found": ["g0", "g1", "g2"], "both": ["g1", "g19"]}
        result = enrich(loadings([0, 1, 2], [5, 19]), gene_sets, genes=TWENTY)
        axes = plt.subplots()[1]
        result.plot(axes, top=2)
        assert [label.get_text() for label in axes.get_yticklabels()] == ["found (1)", "both (1)"]
        assert axes.patches[0].get_width() == pytest.approx(-np.log10(3 / math.comb(20, 3)))


class TestChance:
    def test_mean_is_the_exact_expectation(self):
        # Three of eight genes: 1 draw in 56 is ABC, 1 is FGH; either makes half of the sets enriched.
        gene_sets = {"ABC": list("ABC"), "FGH": list("FGH")}
        result = enrich(loadings([0, 1, 2], n=8), gene_sets, genes=list("ABCDEFGH"))
        chance, again = (random_index(result, n_draws=1000, random_state=0) for _ in range(2))
        np.testing.assert_array_equal(again, chance)
        assert abs(chance.mean() - 1 / 56) < 4 * chance.std(ddof=1) / np.sqrt(1000)
        assert set(chance) == {0.0, 0.5}

    def test_draws_have_the_sizes_of_the_components(self):
        universe = Universe.from_genes(TWENTY, {"S": ["g0"]})
        drawn = universe.draw([3, 0, 20], random_state=1)
        assert np.diff(drawn.indptr).tolist() == [3, 0, 20]
        assert sorted(drawn[[2]].indices) == list(range(20))

    @pytest.mark.parametrize("n_draws", [0, 1.5])
    def test_draws_are_counted_in_whole_numbers(self, n_draws):
        result = enrich(loadings([0]), {"S": ["g0"]}, genes=TWENTY)
        with pytest.raises(ValueError, match=f"n_draws={n_draws}: a whole number of at least 1"):
            random_index(result, n_draws=n_draws)


@pytest.mark.slow
@pytest.mark.parametrize("k", [20, 40])
def test_sparse_pca_beats_pca_at_equal_cardinality_on_the_cohort(k):
    """Averaged over cohorts: one cohort alone can go either way."""
    indices = []
    for seed in range(4):
        cohort = expression_cohort(random_state=seed)
        models = GPower(10, cardinality=k, method="block", n_init=1).fit(cohort.X), PCA(10).fit(cohort.X)
        results = [enrich(model, cohort.gene_sets, genes=cohort.feature_names, top=k) for model in models]
        indices.append([*(result.index for result in results), random_index(results[0], n_draws=5).mean()])
    sparse, dense, chance = np.mean(indices, axis=0)
    assert sparse > 1.1 * dense
    assert dense > 2 * chance
