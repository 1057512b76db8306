"""Criteria for the number of variables: their scores, the choice, and the order of the components."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.planted_data import make_modules, make_planted_components

from gpower import GPower, GPowerCV
from gpower.datasets import expression_cohort, load_planted_expression
from gpower.model_selection import score_sparseness
from gpower.model_selection.criteria import SELECTION_CRITERIA, ChosenPoint, choose_point
from gpower.model_selection.cross_validation import _make_folds
from gpower.model_selection.folds import SampleFolds
from gpower.validation.prepare import read_estimator_input


def test_the_chosen_point_follows_the_rule():
    scores = np.array([[0.1, 0.2, 0.4, 0.5, 0.3], [0.1, 0.6, 0.6, 0.5, 0.3]])  # means 0.1, 0.4, 0.5, 0.5, 0.3
    assert choose_point(scores, "best") == ChosenPoint(2, 1, 3)  # the sparsest of equal points
    assert choose_point(scores, "one-se") == ChosenPoint(1, 1, 3)  # the loss is 0.2 and 0, 0.1 ± 0.1
    assert choose_point(scores[:1], "one-se").chosen == 3  # one fold has no standard error
    alike = np.array([[0.1, 0.12], [0.5, 0.52], [0.9, 0.92]])  # the loss is the same in folds that differ more
    assert choose_point(alike, "one-se") == ChosenPoint(1, 1, 1)


def test_few_variables_of_a_table_that_is_dense():
    """Every gene follows all factors a little, so that prediction favours all genes."""
    X = expression_cohort(60, 150, n_sets=6, n_active=3, leak=0.5, random_state=0).X
    sparse, dense = (
        GPowerCV(2, cv=3, cardinalities=[10, 40, 150], criterion=name).fit(X).cardinality_
        for name in SELECTION_CRITERIA
    )
    assert np.all(2 * sparse < dense)


def test_progress_counts_folds():
    calls = []
    X = load_planted_expression().X
    GPowerCV(2, cardinalities=[4, 8], cv=3, progress=lambda *at: calls.append(at)).fit(X)
    assert calls == [(i, 6) for i in range(1, 7)]


def test_held_out_samples_do_not_change_the_fit_of_a_fold():
    X = load_planted_expression().X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    other = X.copy()
    other[30:] = 100 * np.nan_to_num(other[30:]) + 7
    model = GPowerCV(1, missing="impute", cv=[(np.arange(30), np.arange(30, 60))])
    (fold,) = _make_folds(model, read_estimator_input(model, X), None, np.array([4, 8]))
    found, again = (fold.score_grid(SampleFolds(read_estimator_input(model, table))) for table in (X, other))
    for Z, W in zip(found.loadings, again.loadings, strict=True):
        np.testing.assert_array_equal(Z.toarray(), W.toarray())
    assert not np.allclose(found.prediction, again.prediction)


def test_two_correlated_modules_are_two_components():
    """Alone, one component of both modules would explain more of held-out samples, for its number of variables."""
    X = make_modules((60, 50), (slice(12), 1.5), (slice(7), 1.5), (slice(7, 12), 1.5))
    model = GPowerCV(2, cardinalities=[3, 5, 7, 10, 12, 15]).fit(X)
    assert [set(np.flatnonzero(z)) for z in model.components_] == [set(range(7)), set(range(7, 12))]


def test_components_come_by_decreasing_variance():
    """Three variables are chosen for the first component and five for the second, which has the larger variance."""
    X = make_planted_components(40, 12, (3, 4), (5.0, 3.0), random_state=1).X + 2
    model = GPowerCV(2, cardinalities=[3, 5], n_init=2, center=False).fit(X)
    assert model.cardinality_.tolist() == model.best_params_["cardinality"] == [5, 3]
    assert np.all(np.diff(model.explained_variance_) < 0)
    first, last = model.cardinality_range_.T
    assert np.all((first <= model.cardinality_) & (model.cardinality_ <= last))


class TestGridSearch:
    def test_by_score_it_takes_the_largest_number(self):
        X, grid = load_planted_expression().X, {"cardinality": [4, 8, 150]}
        assert GridSearchCV(GPower(1), grid).fit(X - X.mean(axis=0)).best_params_ == {"cardinality": 8}
        dense = np.random.default_rng(0).standard_normal((60, 12)) + np.linspace(-3, 3, 60)[:, None]
        grid = {"cardinality": [2, 4, 8, 12]}
        assert GridSearchCV(GPower(1), grid).fit(dense).best_params_ == {"cardinality": 12}
        search = GridSearchCV(GPower(1), grid, scoring=score_sparseness).fit(dense)
        assert search.best_params_["cardinality"] < 12

    def test_a_pipeline_is_scored_as_its_last_step(self):
        X = load_planted_expression().X
        model = make_pipeline(StandardScaler(), GPower(2, cardinality=[8, 7])).fit(X)
        assert score_sparseness(model, X) == pytest.approx(model.score(X) * (1 - 15 / 300))
