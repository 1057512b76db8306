"""The content, the text, the file and the errors of an HTML report, without a browser."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpower import (
    GPower,
    GPowerCV,
    Solver,
    certify,
    certify_total,
    component_test,
    html_report,
    sparsity_path,
    stability_selection,
)
from gpower._utils.text import format_percent, format_ratio
from gpower.analysis.enrichment import enrich
from gpower.baselines import Greedy
from gpower.datasets import load_pitprops, load_planted_expression
from gpower.report import content as contents_module
from gpower.report import samples as samples_module
from gpower.report.content import collect_content
from gpower.report.doubts import find_doubts
from gpower.report.results import ReportResults
from gpower.report.sentences import describe_methods, format_changed_params, list_citations, summarize_content

DATA = load_planted_expression()
MODEL = GPower(3, cardinality=(8, 6, 5)).fit(DATA.X)


def collect(model=MODEL, X=DATA.X, *results, **given):
    return collect_content(model, X, results=ReportResults.from_iterable(results), **given)


def collect_fit(X=DATA.X, **params):
    return collect(GPower(**{"n_components": 2, "cardinality": 4} | params).fit(X), X)


def describe(found):
    return " ".join(describe_methods(found))


def write_report(tmp_path, model=MODEL, X=DATA.X, **given):
    return html_report(model, X, tmp_path / "report.html", **given).read_text(encoding="utf-8")


class TestContent:
    def test_components_are_the_models(self):
        found = collect(feature_names=DATA.feature_names)
        for component, loadings in zip(found.components, MODEL.loadings(DATA.feature_names), strict=True):
            assert {v.name: v.loading for v in component.variables} == loadings
            assert all(DATA.feature_names[v.index] == v.name for v in component.variables)
        assert [c.explained_share for c in found.components] == MODEL.explained_variance_ratio_.tolist()
        assert found.components[-1].cumulative_share == pytest.approx(MODEL.explained_variance_ratio_.sum())

    def test_proofs_of_the_fit_or_of_later(self):
        proven = GPower(3, cardinality=(8, 6, 5), certify=True).fit(DATA.X)
        later = certify(MODEL, DATA.X)
        for found in (collect(proven), collect(MODEL, DATA.X, later), collect(MODEL, DATA.X, *later)):
            ratios = [c.optimality_ratio for c in found.components]
            np.testing.assert_allclose(ratios, proven.optimality_ratio_, rtol=1e-12)
        assert {c.optimality_ratio for c in collect().components} == {None}

    @pytest.mark.parametrize("kind", ["sparse", "frame", "pipeline", "search", "single"])
    def test_any_container_and_pipelines_give_the_same_content(self, kind):
        X, model = DATA.X, GPower(2, cardinality=4)
        if kind == "sparse":
            X = sp.csr_array(X)
        elif kind == "frame":
            X = pd.DataFrame(X, index=DATA.sample_names, columns=DATA.feature_names)
        elif kind == "pipeline":
            model = make_pipeline(StandardScaler(), model)
        elif kind == "search":
            model = GPowerCV(2, cardinalities=[4, 6], cv=3)
        else:
            X = pd.DataFrame(X.astype(np.float32))  # only numbered
        found, scores = collect(model.fit(X), X), np.asarray(model.transform(X))
        np.testing.assert_allclose(found.samples.scores, scores, rtol=1e-5, atol=1e-5)
        assert found.samples.sample_names[0] == (DATA.sample_names[0] if kind == "frame" else "s0")
        assert found.components[0].variables[0].name.startswith("x" if kind != "frame" else "GROWTH")

    def test_gaps_are_left_out_of_means_and_shown_as_gaps(self):
        X = DATA.X.copy()
        X[0, :20] = np.nan
        found = collect_fit(X, missing="impute")
        for variable in found.components[0].variables:
            assert variable.mean == pytest.approx(np.nanmean(X[:, variable.index]))
        assert np.isfinite(found.samples.scores).all()
        shown = X[:, found.samples.variable_indices].astype(np.float32)
        np.testing.assert_array_equal(found.samples.variable_values, shown)

    def test_a_covariance_has_no_samples(self):
        pitprops = load_pitprops()
        model = GPower(2, cardinality=4, covariance="precomputed").fit(pitprops.correlation)
        found = collect(model, pitprops.correlation, feature_names=pitprops.feature_names)
        assert found.samples is None
        assert {v.standard_deviation for c in found.components for v in c.variables} == {1.0}
        with pytest.raises(ValueError, match="metadata describe samples; the model was fitted to a covariance"):
            collect(model, pitprops.correlation, metadata={"a": [1] * 13})

    def test_some_of_very_many_samples_loadings_and_values_are_shown(self, monkeypatch):
        monkeypatch.setattr(samples_module, "MAX_REPORT_SAMPLES", 20)
        monkeypatch.setattr(samples_module, "MAX_EMBEDDED_VALUES", 50)
        monkeypatch.setattr(contents_module, "MAX_LISTED_LOADINGS", 5)
        found = collect()
        shown = found.samples
        assert len(shown.sample_names) == 20 < shown.n_samples == 60
        np.testing.assert_array_equal(shown.scores, MODEL.transform(DATA.X)[shown.row_indices])
        assert shown.limits[1] == MODEL.squared_residual_limit(DATA.X, 0.95)  # that of all samples
        assert shown.variable_values.shape == (20, 2)
        sizes = sorted((abs(x) for named in MODEL.loadings() for x in named.values()), reverse=True)
        assert sorted((abs(v.loading) for _, v in found.listed_loadings), reverse=True) == sizes[:5]
        assert len(found.loadings) == 19

    def test_the_model_is_among_the_points_of_a_path(self):
        path = sparsity_path(DATA.X, n_components=3, cardinalities=[3, 20])
        fewer, here, more = collect(MODEL, DATA.X, path).path_points
        assert [point["cardinality"] for point in (fewer, here, more)] == [[3] * 3, [8, 6, 5], [20] * 3]
        assert [point["is_model"] for point in (fewer, here, more)] == [False, True, False]
        assert more["share_of_pca"] == path.share_of_pca[1]
        assert here["components"] == [list(named.items()) for named in MODEL.loadings()]

    def test_anonymous_samples_are_numbered_in_another_order(self, tmp_path):
        options = {"metadata": {"age": DATA.X[:, 0], "id": [f"p{i}" for i in range(60)]}, "anonymise": True}
        assert "Not shown: <bdi>id</bdi>." in write_report(tmp_path, **options)
        found = collect(**options).samples
        assert found.sample_names == [f"sample {i}" for i in range(1, 61)]
        assert (found.omitted_columns, [*found.metadata_columns]) == (("id",), ["age"])
        assert not np.array_equal(found.row_indices, np.arange(60))
        np.testing.assert_array_equal(found.scores, MODEL.transform(DATA.X)[found.row_indices])
        np.testing.assert_array_equal(found.metadata_columns["age"].values, DATA.X[found.row_indices, 0])

    def test_warnings_of_the_fit_are_kept_even_in_a_file(self, tmp_path):
        solver = Solver("full", "largest_norm", local_search=False)
        with pytest.warns(UserWarning, match="did not|before it converged"):
            model = GPower(2, cardinality=4, max_iter=1, solver=solver).fit(DATA.X)
        assert len(model.warnings_) > 0
        model.save(tmp_path / "model.npz")
        found = collect(GPower.load(tmp_path / "model.npz"), warnings=["Another.", "Another."])
        assert found.doubts[-1] == "Another."
        assert len(found.doubts) == len(model.warnings_) + 1
        assert "components_[" not in " ".join(found.doubts)
        assert MODEL.warnings_.tolist() == []

    def test_every_result_that_casts_doubt_is_named(self):
        X = np.random.default_rng(1).standard_normal((40, 30))
        model = GPower(2, cardinality=8).fit(X)
        stability = stability_selection(X, model, n_subsamples=20, random_state=0)
        test = component_test(X, 2, cardinality=8, n_permutations=39)
        assert test.n_components == 0
        weak = [replace(each, upper_bound=10 * each.upper_bound) for each in certify(model, X)]
        found = collect(model, X, stability, test, weak).doubts
        counts = ", ".join(f"{each.sum()} of 8" for each in stability.selected)
        ratios = ", ".join(format_ratio(each.ratio) for each in weak)
        for words in (
            f"are proven to reach only {ratios} of the best possible variance; other variables may",
            "may be chance: permuted tables explain as much (p = 0.33, 1).",
            f"are unstable: fewer than half of the variables ({counts}) are chosen again in at ",
        ):
            assert any(doubt.startswith(f"Components 1, 2 {words}") for doubt in found), (words, found)
        assert collect(MODEL, DATA.X, certify(MODEL, DATA.X)).doubts == ()

    def test_a_page_without_doubts_says_what_was_not_computed(self, tmp_path):
        page = write_report(tmp_path)
        for flag in ("test", "stability", "certify", "metadata"):
            assert f"(<code>gpower report --{flag}</code>, <code>" in page
        stability = stability_selection(DATA.X, MODEL, n_subsamples=4)
        batches = {"metadata": {"batch": ["a", "b"] * 30}}
        page = write_report(tmp_path, results=[stability, *certify(MODEL, DATA.X)], **batches)
        question = "whether components explain more than chance"
        assert f"Not checked: {question} (<code>gpower report --test</code>, <code>component_test</code>).</p>" in page

    @pytest.mark.parametrize("kind", ["mapping", "frame"])
    def test_metadata_are_tested_against_the_scores(self, kind):
        status = {"status": np.where(MODEL.transform(DATA.X)[:, 0] > 0, "a", "b")}
        columns = status if kind == "mapping" else pd.DataFrame(status)
        found = collect(metadata=columns).association
        assert found.names == ("status",)
        assert found.strength[0, 0] > 0.8


class TestRefused:
    def test_results_and_names_that_do_not_fit_are_refused(self):
        with pytest.raises(TypeError, match="results: a report cannot show a ndarray; give results of sparsity_path"):
            collect(MODEL, DATA.X, np.eye(2))
        path = sparsity_path(DATA.X, cardinalities=[3])
        with pytest.raises(ValueError, match="the SparsityPath is of 1 components, but the model has 3"):
            collect(MODEL, DATA.X, path)
        again = stability_selection(DATA.X[:, :40], n_components=3, cardinality=2, n_subsamples=2)
        with pytest.raises(ValueError, match="the Stability is of 40 variables, but the model has 150"):
            collect(MODEL, DATA.X, again)
        with pytest.raises(ValueError, match="features"):
            collect(MODEL, DATA.X[:, :10])
        for which in ("sample_names", "feature_names"):
            with pytest.raises(ValueError, match=f"{which} has 2 entries"):
                collect(**{which: ["a", "b"]})

    def test_missing_packages_are_named(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "bokeh", None)
        with pytest.raises(ImportError, match=r'A report needs bokeh.*: pip install "bokeh>=3.6,<4" jinja2 matplotlib'):
            html_report(MODEL, DATA.X, tmp_path / "report.html")
        assert list(tmp_path.iterdir()) == []


class TestText:
    def test_the_summary_is_three_sentences(self):
        first, second, third = summarize_content(collect())
        assert first == (
            "A table of 60 samples × 150 variables was reduced to 3 sparse components of 8, 6 and 5 variables; "
            "variables were centred."
        )
        assert second.startswith("They use 19 variables and explain 43.7 % of the variance")
        assert third.startswith("Few variables have only a part of the variance; certify=True proves how much is poss")
        _, second, _ = summarize_content(collect_fit(n_components=1))
        assert second.startswith("It uses 4 variables and explains ")

    def test_certificates_are_described(self):
        model = GPower(2, cardinality=4, certify=True).fit(DATA.X)
        model.optimality_ratio_, model.total_optimality_ratio_ = np.array([1.0, 0.98769]), 0.9
        bound = certify_total(model, DATA.X).value / 0.9 / DATA.X.var(axis=0, ddof=0).sum() / len(DATA.X)
        claim = "Each is proven to reach at least 98.76 % of the best possible with as many variables; at most "
        *_, third = summarize_content(collect(model))
        assert third == f"{claim}{format_percent(bound)} is possible with 2 components of 4 variables each."
        assert "For all components together the bound is on the sum" in describe(collect(model))
        model.total_optimality_ratio_ = 0.1
        share = f"{format_percent(collect(model).pca_shares.sum())}, the share of ordinary components,"
        *_, third = summarize_content(collect(model))
        assert third == f"{claim}{share} is possible with 2 components of 4 variables each."
        model.optimality_ratio_, model.constraint = np.ones(2), "disjoint"
        *_, third = summarize_content(collect(model))
        assert third == (
            "Each is proven to be the best possible with as many variables; together they reach at least 10 % of the "
            "best possible with no variable in common."
        )

    def test_methods_describe_the_analysis_and_cite_it(self):
        plain = collect()
        test = component_test(DATA.X, 3, cardinality=6, n_permutations=40)
        again = stability_selection(DATA.X, n_components=3, cardinality=(8, 6, 5), n_subsamples=3)
        sets = enrich(MODEL, DATA.gene_sets, genes=DATA.feature_names)
        full = collect(MODEL, DATA.X, test, again, sets)
        assert len(list_citations(plain)) == 4
        assert len(list_citations(full)) == 7
        for part in ("generalized power method (Journée", "3 random parts", "up to 40 tables", "hypergeometric", "T²"):
            assert part in describe(full)
        assert "random parts" not in describe(plain)

    @pytest.mark.parametrize(
        ("params", "sentence"),
        [
            ({"constraint": "disjoint"}, "as one problem, with no variable in common"),
            ({"constraint": "orthogonal"}, "4 variables each, with orthogonal loadings; variables"),
            ({"method": "block"}, "together, as a block"),
            ({"cardinality": None, "gamma": 0.2, "penalty": "l1"}, "one after the other, under the penalty l1"),
            ({"cardinality": None, "l1_bound": 3.0}, "bound on the ℓ1 norm; everything correlated"),
            ({"deflation": "projection"}, "an exact number of variables; the part along"),
            ({"scale": True}, "variables were centred and scaled to a standard deviation of 1"),
            ({"center": False}, "variables were not centred (variance is counted about zero)"),
            ({"include": [3, 140], "exclude": 0}, "2 variables had to be used, as set beforehand"),
            ({"include": [[3], [3]]}, "1 variable had to be used"),
            ({"exclude": 0}, "1 variable could not be used, as set beforehand (exclude)"),
            ({"groups": np.arange(150) // 3}, "each group of variables was used as a whole or not at all"),
            (
                {"cardinality": None, "budget": 3.0, "penalty_weights": np.ones(150)},
                "weights of a component’s variables sum to at most 3",
            ),
            ({"positive": True}, "no loading is negative"),
            ({"variance": "l1"}, "the sum of absolute scores was maximised"),
            ({"cardinality": (0.9, 0.8)}, "fewest variables that explain 90 % or 80 % of the variance that a"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:.*nearly all of the variance is that of other components")
    def test_requested_parameters_are_in_summary_or_methods(self, params, sentence):
        found = collect_fit(**params)
        call = format_changed_params(found)
        assert sentence in f"{summarize_content(found)[0]} {describe(found)}"
        assert all(name in call for name, value in params.items() if value is not None)
        assert len(call) < 600

    def test_a_p_value_at_the_level_is_no_doubt(self):
        model = GPower(1, cardinality=3).fit(DATA.X)
        test = component_test(DATA.X, 4, cardinality=3, n_permutations=39)
        for p_values, n_doubts in (([0.05], 0), ([0.055], 1), ([0.01, 0.3], 0)):  # the last is of no component
            model.component_p_values_ = np.array(p_values)
            assert len(list(find_doubts(model))) == n_doubts
        assert test.p_values[3] > 0.05
        assert list(find_doubts(MODEL, ReportResults(test=test))) == []
        found = GPower("auto", cardinality=4, random_state=0).fit(DATA.X)
        assert "components explain more than chance" in found.notes_[-1]
        assert list(find_doubts(found)) == []

    def test_imputed_values_are_counted(self):
        X = DATA.X.copy()
        X[::7, ::11] = np.nan
        found = collect_fit(X, missing="impute")
        sentence = f"{np.isnan(X).sum()} of 9,000 values (1.4 %) were missing and were filled by a model of means"
        assert sentence in summarize_content(found)[0]
        assert sentence in describe(found)
        assert collect().n_missing == 0

    def test_the_choice_of_numbers_is_described(self):
        chosen = collect(GPower("auto", cardinality=5, random_state=0).fit(DATA.X))
        assert "number of components was chosen by a test against permuted tables" in summarize_content(chosen)[0]
        searched = collect(GPowerCV(2, cardinalities=[3, 6], cv=3, criterion="prediction").fit(DATA.X))
        reason = "were chosen by cross-validation in 3 folds: they have the largest variance explained in held-out"
        assert reason in summarize_content(searched)[0]
        assert reason in describe(searched)
        piped = collect(make_pipeline(StandardScaler(), GPower(2, cardinality=3)).fit(DATA.X))
        assert "the table went through StandardScaler first" in summarize_content(piped)[0]

    def test_another_method_is_named(self):
        found = collect(Greedy(1, cardinality=4).fit(DATA.X))
        method = "Sparse principal components were computed with Greedy of gpower"
        assert describe_methods(found)[0].startswith(method)
        assert not any("Journée" in line for line in [*describe_methods(found), *list_citations(found)])

    def test_paths_of_this_machine_are_not_shown(self, tmp_path):
        assert "secret" not in format_changed_params(collect_fit(checkpoint=str(tmp_path / "secret"), verbose=1))

    def test_a_model_of_other_samples_is_pointed_out(self):
        half = GPower(2, cardinality=4).fit(DATA.X[:30])
        weighed = GPower(2, cardinality=4).fit(DATA.X, sample_weight=np.arange(60) % 3 + 1.0)
        shifted = GPower(2, cardinality=4).fit(DATA.X + 1.0)
        for model in (half, weighed, shifted):
            assert "was fitted to other samples than the 60 shown here, or with weights" in collect(model).doubts[0]
        assert collect_fit(DATA.X.astype(np.float32)).doubts == ()


def read_data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


class TestFile:
    def test_the_policy_names_exactly_the_scripts_of_the_page(self, tmp_path):
        page = write_report(tmp_path)
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1].replace("&#39;", "'")
        scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        assert len(scripts) == 2
        hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
        assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe-eval" not in policy

    def test_without_scores_no_number_of_a_sample_is_in_it(self, tmp_path):
        numbers = {repr(float(number)) for number in (*MODEL.transform(DATA.X).ravel(), *MODEL.hotelling_t2(DATA.X))}
        whole = write_report(tmp_path)
        data = json.dumps(read_data(whole))
        assert [f'"v{j}"' in data for j in range(150)] == MODEL.components_.any(axis=0).tolist()
        assert whole.count('<figure class="heatmap">') == len(MODEL.components_)
        assert all(number in whole for number in numbers)
        page = write_report(tmp_path, metadata={"age": np.linspace(20, 80, 60)}, scores=False)
        assert '<figure class="heatmap">' not in page
        assert not any(number in page for number in numbers)
        assert read_data(page) == {"path": []}
        assert len(page) < len(whole) - 1e6  # without the script that draws charts of samples

    @pytest.mark.slow
    def test_five_megabytes_hold_500_samples_of_20000_variables(self, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((500, 20_000), dtype=np.float32)
        model = replace(GPower(5, cardinality=20), tol=1e-2, n_init=1, solver=Solver(local_search=False)).fit(X)
        metadata = {f"column {i}": rng.integers(0, 5, 500) for i in range(6)}
        assert len(write_report(tmp_path, model, X, metadata=metadata).encode()) < 5e6

    def test_a_model_writes_its_own_report(self, tmp_path):
        file = MODEL.report(DATA.X, tmp_path / "new" / "page.html", title="Its own")
        assert file == tmp_path / "new" / "page.html"
        assert "<title>Its own</title>" in file.read_text(encoding="utf-8")

    def test_no_variable_at_all(self, tmp_path):
        with pytest.warns(UserWarning, match="No column varies"):
            empty = GPower(2, cardinality=2).fit(np.ones((5, 4)))
        assert "No variable has a loading." in write_report(tmp_path, empty, np.ones((5, 4)))


class TestNotebook:
    def test_a_model_shows_its_components_below_the_diagram(self):
        shown = MODEL._repr_html_()
        assert "GPower" in shown
        assert MODEL._repr_mimebundle_()["text/html"].endswith(shown[-200:])
        assert f"<td>1</td><td>{100 * MODEL.explained_variance_ratio_[0]:.3g} %</td><td>8</td>" in shown
        assert "<th>component</th>" not in GPower(2)._repr_html_()

    def test_the_first_of_many_components_are_shown_with_escaped_names(self):
        X = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 30))).add_prefix("<script>x</script>")
        shown = GPower(25, cardinality=1).fit(X)._repr_html_()
        assert "and 5 more components" in shown
        assert "&lt;script&gt;x" in shown.rpartition("<table>")[2]


class TestCovariates:
    PLATE = np.repeat(["a", "b", "c"], 20)
    X = DATA.X + 3 * np.random.default_rng(0).standard_normal((3, 150))[np.repeat(range(3), 20)]

    def test_a_page_says_what_was_removed_and_shows_the_rest(self):
        model = GPower(3, cardinality=(8, 6, 5)).fit(self.X, batch=self.PLATE)
        found = collect(model, self.X, batch=self.PLATE, metadata={"plate": self.PLATE})
        share = f"{100 * model.covariate_variance_ratio_:.1f} %"
        assert found.removed_covariates == (["batch"], model.covariate_variance_ratio_)
        first, second, _ = summarize_content(found)
        removal = f"a linear regression on batch predicts of each variable was removed, {share} of the variance"
        assert removal in first
        assert "of the variance that is left; as many ordinary" in second
        assert removal in describe(found)
        rest = self.X.copy()
        for label in "abc":
            rest[label == self.PLATE] -= rest[label == self.PLATE].mean(axis=0)
        expected = collect(GPower(3, cardinality=(8, 6, 5)).fit(rest), rest)
        np.testing.assert_allclose(found.pca_shares, expected.pca_shares, rtol=1e-8)
        for name in ("scores", "hotelling_t2", "squared_residual"):
            values = getattr(found.samples, name)
            np.testing.assert_allclose(values, getattr(expected.samples, name), atol=1e-7)
        assert found.samples.limits[0] > expected.samples.limits[0]
        assert not any("other samples" in doubt for doubt in found.doubts)
        assert found.association.p_values.min() > 0.1

    def test_a_batch_that_explains_components_is_a_doubt(self):
        model = GPower(3, cardinality=20).fit(self.X)
        for name, is_named in (("batch", True), ("Plate_id", True), ("tissue", False)):
            found = collect(model, self.X, metadata={name: self.PLATE})
            assert found.association.strength.max() > 0.5
            assert any(f"with {name!r} (strength" in doubt for doubt in found.doubts) == is_named

    def test_a_covariance_is_shown_without_its_covariates(self):
        joint = np.cov(np.column_stack([DATA.X[:, :20], DATA.X[:, 30]]).T)
        model = GPower(2, cardinality=4, covariance="precomputed").fit(joint, covariates=[20])
        found = collect(model, joint)
        assert found.removed_covariates[0] == ["x20"]
        assert found.matrix[20, 20] == pytest.approx(0, abs=1e-10)

    def test_the_covariates_of_the_model_are_needed(self):
        model = GPower(1, cardinality=8).fit(self.X, batch=self.PLATE)
        with pytest.raises(ValueError, match="pass those of the samples as covariates= or batch=: batch"):
            collect(model, self.X)
