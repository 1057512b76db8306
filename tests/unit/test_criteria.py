"""Criteria for the number of variables: the quantity of each, and the choice among them."""

import numpy as np
import pytest
import scipy.sparse as sp

from gpower import GPowerCV
from gpower.datasets import expression_cohort, load_planted_expression
from gpower.model_selection.criteria import (
    SELECTION_CRITERIA,
    CriterionScores,
    _compute_agreement,
    _compute_support_stability,
    apply_criteria,
)
from gpower.model_selection.cross_validation import _make_folds
from gpower.model_selection.folds import FoldSamples, SampleFolds, compute_cronbach_alpha
from gpower.operators.running_moments import RunningMoments
from gpower.validation.prepare import read_estimator_input


def judged(prediction, ordinary=0.5, alpha=None, stability=None, grid=(1, 2, 5, 10)):
    prediction = np.atleast_2d(prediction)
    others = np.ones_like(prediction)
    return CriterionScores(
        grid=np.array(grid),
        n_features=100,
        prediction=prediction,
        pca_prediction=np.full(len(prediction), ordinary),
        agreement=others,
        stability=np.zeros(len(grid)) if stability is None else np.array(stability),
        reliability=others if alpha is None else np.atleast_2d(alpha),
    )


def test_prediction_decides_where_sparse_components_are_as_good_as_ordinary_ones():
    by, points = apply_criteria(judged([0.1, 0.4, 0.52, 0.5], 0.5), "auto", "best")
    assert (by, points["prediction"]) == ("prediction", 2)
    by, _ = apply_criteria(judged([0.1, 0.2, 0.3, 0.45], 0.5), "auto", "best")
    assert by == "reliability"
    by, _ = apply_criteria(judged([0.1, 0.2, 0.3, 0.6], 0.5, grid=(1, 2, 5, 60)), "auto", "best")
    assert by == "reliability"  # the best point has the most variables


def test_the_fewest_variables_from_which_on_scores_stay_reliable():
    points = apply_criteria(judged([0.1, 0.2, 0.3, 0.4], alpha=[0.99, 0.8, 0.93, 0.97]), "auto", "best")[1]
    assert points["reliability"] == 2  # not the first point, a pair of copies
    assert apply_criteria(judged([0] * 4, alpha=[0.95] * 4), "auto", "best")[1]["reliability"] == 0
    assert apply_criteria(judged([0] * 4, alpha=[0.1, 0.4, 0.3, 0.2]), "auto", "best")[1]["reliability"] == 1


def test_the_fewest_for_nine_tenths_of_what_ordinary_components_reach():
    assert apply_criteria(judged([0.1, 0.44, 0.45, 0.5], 0.5), "share", "best")[1]["share"] == 2
    assert (
        apply_criteria(judged([0.1, 0.2, 0.3, 0.25], 0.5), "share", "best")[1]["share"] == 2
    )  # no such point, so the best


def test_an_undefined_stability_is_never_the_best():
    assert (
        apply_criteria(judged([0.1] * 4, stability=[0.2, 0.7, 0.4, np.nan]), "stability", "best")[1]["stability"] == 1
    )


def test_the_index_of_sparseness():
    found = judged([0.1, 0.2, 0.5, 0.51], 0.8)
    np.testing.assert_allclose(found.sparseness, 0.8 * np.array([0.1 * 0.99, 0.2 * 0.98, 0.5 * 0.95, 0.51 * 0.9]))
    assert apply_criteria(found, "sparseness", "best")[1]["sparseness"] == 2


def test_stability_is_one_of_equal_supports_and_zero_by_chance():
    same = sp.csc_array(np.eye(10)[:, :1])
    assert _compute_support_stability([same, same, same]) == pytest.approx(1)
    rng = np.random.default_rng(0)
    drawn = [sp.csc_array((rng.permutation(1000) < 100).astype(float)[:, None]) for _ in range(50)]
    assert _compute_support_stability(drawn) == pytest.approx(0, abs=0.02)
    assert np.isnan(_compute_support_stability([sp.csc_array(np.ones((4, 1)))] * 3))


def test_agreement_is_the_correlation_with_other_folds():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 30, 1))
    r = np.abs(np.corrcoef(np.hstack([a, b, c]).T))
    np.testing.assert_allclose(
        _compute_agreement(np.cov(np.hstack([a, 5 - 2 * b, c]).T)[None]), (r.sum(axis=1) - 1) / 2
    )
    np.testing.assert_allclose(_compute_agreement(np.cov(np.hstack([a, -a]).T)[None]), 1)


@pytest.mark.parametrize("make_fold", [FoldSamples, RunningMoments.from_batch])
def test_reliability_is_cronbachs_alpha(make_fold):
    X = np.random.default_rng(0).standard_normal((50, 4)) + np.linspace(-3, 3, 50)[:, None]
    S = np.cov(X.T)
    alpha = 4 / 3 * (1 - np.trace(S) / S.sum())
    scale = np.array([1.0, 2.0, 0.5, 4.0])
    assert compute_cronbach_alpha(make_fold(X * scale), np.ones((4, 1)), scale) == pytest.approx(alpha)
    assert (
        compute_cronbach_alpha(make_fold(X), np.eye(4, 2) + [[0, 0], [1, 0], [0, 0], [0, 0]], np.ones(4)) == 0
    )  # the worst component has one variable


def test_few_variables_of_a_table_that_is_dense():
    """Every gene follows all factors a little, so that prediction favours all genes."""
    X = expression_cohort(80, 300, n_sets=12, n_active=6, leak=0.5, random_state=0).X
    model = GPowerCV(2, cv=4).fit(X)
    assert np.all(2 * model.cardinality_ < model.criteria_["prediction"])
    assert set(model.chosen_by_) == {"reliability"}
    np.testing.assert_array_equal(model.criteria_["reliability"], model.cardinality_)


def test_each_criterion_can_be_asked_for():
    X = load_planted_expression().X
    for name in SELECTION_CRITERIA:
        model = GPowerCV(1, cardinalities=[2, 8, 20], cv=3, criterion=name).fit(X)
        assert list(model.chosen_by_) == [name]
        assert model.cardinality_[0] == model.criteria_[name][0]
    with pytest.raises(ValueError, match="criterion='aic' is not known"):
        GPowerCV(1, criterion="aic").fit(X)


def test_the_choice_is_saved(tmp_path):
    model = GPowerCV(2, cardinalities=[4, 8], cv=3).fit(load_planted_expression().X)
    model.save(tmp_path / "cv.npz")
    again = GPowerCV.load(tmp_path / "cv.npz")
    assert list(again.chosen_by_) == list(model.chosen_by_)
    np.testing.assert_array_equal(again.criteria_["share"], model.criteria_["share"])


def test_progress_counts_folds():
    calls = []
    X = load_planted_expression().X
    GPowerCV(2, cardinalities=[4, 8], cv=3, progress=lambda *at: calls.append(at)).fit(X)
    assert calls == [(i, 6) for i in range(1, 7)]


def test_gaps_are_filled_from_the_training_samples_alone():
    data = load_planted_expression()
    X = data.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    options = {"cardinalities": [4, 8, 16], "missing": "impute"}
    model = GPowerCV(1, **options).fit(X)
    assert model.cardinality_[0] == 8
    with pytest.raises(ValueError, match="missing"):
        GPowerCV(1, cardinalities=[4, 8, 16]).fit(X)


def test_held_out_samples_do_not_change_the_fit_of_a_fold():
    X = load_planted_expression().X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    other = X.copy()
    other[30:] = 100 * np.nan_to_num(other[30:]) + 7
    model = GPowerCV(1, missing="impute", cv=[(np.arange(30), np.arange(30, 60))])
    (fold,) = _make_folds(model, read_estimator_input(model, X), None, np.array([4, 8]))
    found, again = (fold.score_grid(SampleFolds(read_estimator_input(model, table))) for table in (X, other))
    for Z, W in zip(found[-1], again[-1], strict=True):
        np.testing.assert_array_equal(Z.toarray(), W.toarray())
    assert not np.allclose(found[0], again[0])


def test_folds_of_one_sample_have_no_reliability():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 8)) + 1.5 * rng.standard_normal((40, 1))
    model = GPowerCV(1, cv=40).fit(X)
    assert model.chosen_by_.tolist() == ["share"]
    assert model.cardinality_[0] > 1
