"""Pipelines pass the names of their variables on, and results have a readable text."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from gpower import GPower, GPowerCV, certify, compare, sparsity_path, stability_selection
from gpower.baselines import Greedy
from gpower.datasets import expression_cohort, load_pitprops
from gpower.plotting import plot_cv, plot_loadings, plot_scores
from gpower.validation.pipelines import UnwrappedModel

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 8)) * np.arange(1, 9)
X[:, :3] += 5 * rng.standard_normal((40, 1))
X[:, 5] = 2.0  # a filter drops it
NAMES = [f"gene{j}" for j in range(8)]
FRAME = pd.DataFrame(X, columns=NAMES)
KEPT = [name for name in NAMES if name != "gene5"]
MODEL = GPower(2, cardinality=3)
STEPS = {
    "the model last": (VarianceThreshold(), StandardScaler(), MODEL),
    "a classifier after it": (VarianceThreshold(), StandardScaler(), MODEL, LogisticRegression()),
    "the model alone": (MODEL,),
}


@pytest.fixture(params=STEPS.values(), ids=STEPS)
def pipeline(request):
    return clone(make_pipeline(*request.param)).fit(FRAME, np.arange(40) % 2)


def table_of_last_step(pipeline):
    """Compute the table that the last step was fitted to, and its names."""
    if len(pipeline) == 1:
        return X, NAMES
    remaining = np.delete(X, 5, axis=1)
    return (remaining - remaining.mean(axis=0)) / remaining.std(axis=0), KEPT


def last_step(pipeline):
    return next(step for _, step in pipeline.steps if isinstance(step, GPower))


def test_a_certificate_is_that_of_the_model_on_its_own_input(pipeline):
    expected = certify(last_step(pipeline), table_of_last_step(pipeline)[0])
    for ours, direct in zip(certify(pipeline, FRAME), expected, strict=True):
        assert (ours.value, ours.upper_bound) == pytest.approx((direct.value, direct.upper_bound))


def test_pictures_have_the_names(pipeline):
    table, names = table_of_last_step(pipeline)
    used = {names[j] for j in np.flatnonzero(last_step(pipeline).components_.any(axis=0))}
    assert {text.get_text() for panel in plot_loadings(pipeline) for text in panel.get_yticklabels()} == used
    points = plot_scores(pipeline, FRAME).collections[0].get_offsets()
    np.testing.assert_allclose(points, (table - table.mean(axis=0)) @ last_step(pipeline).components_.T, atol=1e-9)
    assert set(UnwrappedModel.unwrap(pipeline).model.loadings_frame().index) == used


def test_the_steps_of_the_pipeline_are_left_as_they_were(pipeline):
    before = dict(vars(last_step(pipeline)))
    plot_loadings(pipeline)
    assert vars(last_step(pipeline)) == before


def test_stability_fits_all_steps_to_every_part():
    model = make_pipeline(StandardScaler(), MODEL)
    X = np.delete(FRAME.to_numpy(), 5, axis=1)
    chosen = stability_selection(pd.DataFrame(X, columns=KEPT), model, n_subsamples=6)
    direct = stability_selection(X, GPower(2, cardinality=3, scale=True), n_subsamples=6)
    np.testing.assert_allclose(chosen.frequency, direct.frequency)
    assert chosen.feature_names.tolist() == KEPT
    by_name = make_pipeline(make_column_transformer((StandardScaler(), KEPT)), GPower(2, cardinality=3))
    np.testing.assert_allclose(stability_selection(FRAME, by_name, n_subsamples=6).frequency, direct.frequency)


def test_a_search_in_a_pipeline_is_drawn():
    model = make_pipeline(StandardScaler(), GPowerCV(1, cardinalities=[1, 3], cv=3)).fit(np.delete(X, 5, axis=1))
    assert plot_cv(model).get_legend() is not None


@pytest.mark.parametrize("steps", [[], [FunctionTransformer(np.abs)]], ids=["the model alone", "steps without names"])
def test_a_pipeline_fitted_without_names_has_numbers(steps):
    inner = UnwrappedModel.unwrap(make_pipeline(*steps, GPower(1, cardinality=2)).fit(X)).model
    assert not hasattr(inner, "feature_names_in_")  # no list of all variables is made
    assert set(inner.loadings()[0]) < {f"x{j}" for j in range(8)}


def test_objects_without_a_model_are_refused():
    with pytest.raises(TypeError, match="has no step of this package, only StandardScaler"):
        plot_loadings(make_pipeline(StandardScaler()).fit(X))
    for nothing in (X, "model.npz", None):
        with pytest.raises(TypeError, match="is not a fitted model; pass one, such as"):
            plot_loadings(nothing)
    with pytest.raises(ValueError, match="not fitted"):
        plot_loadings(GPower(1))
    with pytest.raises(TypeError, match=r"X is a Pipeline, not data; .*pipeline\[:-1\].transform\(X\)"):
        sparsity_path(make_pipeline(GPower(1)))


@pytest.mark.parametrize("model", [GPower(2, cardinality=3), Greedy(2, cardinality=3), GPowerCV(2, cardinalities=[3])])
def test_loadings_as_a_frame(model):
    model.fit(FRAME)
    assert model.n_components_ == 2
    table = model.loadings_frame()
    assert list(table.columns) == ["component_1", "component_2"]
    assert [dict(table[name][table[name] != 0]) for name in table] == [dict(each) for each in model.loadings()]
    assert not (table == 0).all(axis=1).any()
    whole = model.loadings_frame(all_variables=True)
    assert list(whole.index) == NAMES
    np.testing.assert_array_equal(whole.T, model.components_)
    assert list(model.loadings_frame(list("abcdefgh"), all_variables=True).index) == list("abcdefgh")


def test_the_text_of_results():
    model = GPower(1, cardinality=2).fit(X)
    chosen = stability_selection(X, model, n_subsamples=4)
    expected = [
        (certify(model, X)[0], r"<Certificate: 2 variables: .* found, at most .* possible"),
        (chosen, r"<Stability: \d of 8 variables selected in 1 component\(s\), each in 80% of 4 subsamples or more>"),
        (compare(X, n_components=1, cardinality=2, methods=["greedy"]), r"<Comparison: pca .* %, greedy .* % of the"),
        (load_pitprops(), "<Pitprops: correlations of 13 measurements on 180 pit props>"),
        (expression_cohort(random_state=0), "<ExpressionCohort: 100 samples × 1000 genes, .* of 60 gene sets active>"),
    ]
    for result, words in expected:
        assert len(repr(result)) < 200
        assert re.match(words, repr(result))
