"""Cross-validation of the number of variables: held-out scores, planted numbers, and the scikit-learn API."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.planted_data import make_planted_components
from tests.seeds import seeds

from gpower import GPower, GPowerCV, Solver
from gpower.datasets import load_planted_expression
from gpower.model_selection.criteria import choose_point

SPLITS = KFold(4, shuffle=True, random_state=7)


def small(seed=0, p=40, n=12):
    return make_planted_components(p, n, (3, 4), (5.0, 3.0), random_state=seed).X + 2.0


@parametrize_with_checks([GPowerCV(cv=2, cardinalities=[1])])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        GPowerCV(1, cv=3, cardinalities=[1], rule="one-se"),
        GPowerCV(cv=2, search="joint", n_init=1, solver=Solver(local_search=False)),
    ]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks_with_other_options(estimator, check):
    check(estimator)


# --- the planted numbers ---


@pytest.mark.parametrize("seed", seeds(range(5), fast=1))
def test_planted_components_over_several_tables(seed):
    planted = make_planted_components(100, 60, (5, 10), (8.0, 6.0), random_state=seed)
    model = GPowerCV(2, cardinalities=[1, 2, 3, 5, 7, 10, 14, 20, 30], n_init=8).fit(planted.X)
    assert np.all(np.abs(model.cardinality_ - [5, 10]) <= [1, 2])
    for row, support in zip(model.components_, planted.supports, strict=True):
        assert np.count_nonzero(row[support]) >= 0.9 * support.size


def test_a_rule_is_applied_to_the_scores_of_the_folds():
    grid = np.array([1, 2, 3, 4, 5, 6, 8, 12, 20])
    X = make_planted_components(30, 20, (12,), (2.0,), random_state=0).X
    for rule, number in (("best", 20), ("one-se", 12)):
        model = GPowerCV(1, cardinalities=grid, n_init=2, criterion="prediction", rule=rule).fit(X)
        splits = np.array([model.cv_results_[f"split{i}_test_score"] for i in range(5)])
        assert model.cardinality_[0] == grid[choose_point(splits, rule).chosen] == number


# --- scores ---


def test_scores_of_a_joint_search_are_those_of_scikit_learn():
    X, grid = small(), [1, 2, 4, 8, 12]
    options = {"cv": SPLITS, "search": "joint", "n_init": 12, "criterion": "prediction", "rule": "best"}
    model = GPowerCV(2, cardinalities=grid, **options).fit(X)
    assert model.cv_results_["param_component"].tolist() == [-1] * 5
    search = GridSearchCV(GPower(2, n_init=12), {"cardinality": grid}, cv=SPLITS).fit(X)
    assert model.best_params_ == search.best_params_
    for name in ("mean_test_score", *(f"split{j}_test_score" for j in range(4))):
        np.testing.assert_allclose(model.cv_results_[name], search.cv_results_[name], rtol=1e-6)
    np.testing.assert_allclose(model.cv_results_["std_test_score"], search.cv_results_["std_test_score"], rtol=1e-4)
    np.testing.assert_array_equal(model.cv_results_["rank_test_score"], search.cv_results_["rank_test_score"])
    np.testing.assert_allclose(model.components_, search.best_estimator_.components_, atol=1e-6)


def test_a_component_is_scored_together_with_those_before_and_those_to_come():
    X, grid = small(1), [2, 3, 5]
    options = {"cardinalities": grid, "cv": SPLITS, "n_init": 12}
    model = GPowerCV(2, **options).fit(X)
    preliminary = GPowerCV(2, **options, search="joint", rule="best").fit(X).best_params_["cardinality"]
    results, sparseness = model.cv_results_, []
    chosen = model.best_params_["cardinality"]
    for j, (train, test) in enumerate(SPLITS.split(X)):
        B = X[test] - X[train].mean(axis=0)
        alike = GPower(2, cardinality=preliminary, n_init=12).fit(X[train])
        later = alike.components_[alike.extraction_order_ == 1].T
        first = [GPower(1, cardinality=k, n_init=12).fit(X[train]).components_.T for k in grid]
        both = [GPower(2, cardinality=[chosen[0], k], n_init=12).fit(X[train]).components_.T for k in grid]
        expected = [inside(B, np.hstack([Z, later])) for Z in first] + [inside(B, Z) for Z in both]
        np.testing.assert_allclose(results[f"split{j}_test_score"], expected, rtol=1e-6)
        others = np.repeat([inside(B, later), inside(B, first[grid.index(chosen[0])])], len(grid))
        sparseness.append((expected - others) * (1 - np.tile(grid, 2) / 12))
    np.testing.assert_allclose(results["mean_sparseness"], np.mean(sparseness, axis=0), rtol=1e-6)
    np.testing.assert_allclose(results["std_sparseness"], np.std(sparseness, axis=0), rtol=1e-5)


def inside(B, Z):
    Q, _ = np.linalg.qr(Z)
    return np.sum((B @ Q) ** 2) / np.sum(B**2)


def test_the_results_are_a_table_of_components_and_cardinalities():
    model = GPowerCV(2, cardinalities=[4, 2, 4], cv=3, n_init=2).fit(small())
    results = model.cv_results_
    splits = np.array([results[f"split{j}_test_score"] for j in range(3)])
    assert set(results) == {
        *("param_component", "param_cardinality", "mean_test_score", "std_test_score", "rank_test_score"),
        *(f"split{j}_test_score" for j in range(3)),
        *("ordinary_score", "mean_sparseness", "std_sparseness"),
    }
    assert results["param_component"].tolist() == [0, 0, 1, 1]
    assert results["param_cardinality"].tolist() == [2, 4, 2, 4]
    np.testing.assert_allclose(results["mean_test_score"], splits.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], splits.std(axis=0))
    assert sorted(results["rank_test_score"][:2]) == sorted(results["rank_test_score"][2:]) == [1, 2]
    assert model.n_splits_ == 3


# --- the scikit-learn API ---


def test_the_number_of_jobs_does_not_change_the_result():
    X = small()
    one, two = (GPowerCV(2, cardinalities=[1, 3, 6], cv=3, n_init=2, n_jobs=jobs).fit(X) for jobs in (None, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    for name, values in one.cv_results_.items():
        np.testing.assert_array_equal(values, two.cv_results_[name])


def test_sparse_data_give_the_same_answer():
    X = np.where(np.random.default_rng(0).random((40, 12)) < 0.5, 0, small())
    dense, sparse = (GPowerCV(2, cardinalities=[1, 3, 6], n_init=12).fit(given) for given in (X, sp.csr_array(X)))
    assert dense.best_params_ == sparse.best_params_
    np.testing.assert_allclose(dense.cv_results_["mean_test_score"], sparse.cv_results_["mean_test_score"], rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "l1"},
        {"positive": True},
        {"scale": True, "deflation": "schur"},
        {"method": "block", "search": "joint"},
        {"variance": "l1"},
        {"cv": LeaveOneOut(), "cardinalities": [3]},
        {"cv": list(SPLITS.split(np.empty((40, 1)))), "center": False},
    ],
)
@pytest.mark.filterwarnings("ignore:No penalty was found:UserWarning")
def test_options_reach_the_fits(options):
    model = GPowerCV(2, **{"cardinalities": [3, 5], "n_init": 2} | options).fit(small())
    best = model.best_estimator_
    given = {name: value for name, value in options.items() if name not in ("cv", "search", "cardinalities")}
    assert given.items() <= best.get_params().items()
    np.testing.assert_allclose(model.components_, clone(best).fit(small()).components_, atol=1e-10)


def test_the_model_is_a_fit_to_all_samples_with_the_chosen_numbers():
    data = load_planted_expression()
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    model = GPowerCV(2, cardinalities=[4, 8, 6], n_init=4, cv=3).fit(frame)
    assert model.best_params_ == {"cardinality": [8, 6]}
    alone = GPower(2, cardinality=[8, 6], n_init=4).fit(frame)
    assert model.best_estimator_.get_params() == alone.get_params()
    for name in (name for name in vars(alone) if name.endswith("_")):
        np.testing.assert_array_equal(getattr(model, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(model.best_estimator_, name), getattr(alone, name))
    assert model.loadings() == alone.loadings()
    assert model.score(frame) == alone.score(frame)
    assert model.get_feature_names_out().tolist() == ["gpowercv0", "gpowercv1"]


def test_a_saved_model_comes_back_whole(reload):
    model = GPowerCV(2, cardinalities=[2, 4], n_init=2).fit(small())
    again = reload(model)
    assert again.get_params() == model.get_params()
    assert again.best_estimator_.get_params() == model.best_estimator_.get_params()
    assert set(vars(again)) == set(vars(model))
    for name in (name for name in vars(model) if name.endswith("_") and name != "best_estimator_"):
        np.testing.assert_equal(getattr(again, name), getattr(model, name))


def test_the_choice_names_the_nearest_numbers_that_do_worse():
    X = load_planted_expression().X  # a module of 8 genes
    for grid, alternatives in (
        ([2, 8, 20, 80], "of those tried; 2 and 20 do worse"),
        ([8, 80], "of those tried; 80 does worse"),
        ([8], "the only one tried"),
    ):
        choice = GPowerCV(1, cardinalities=grid).fit(X).cardinality_choice_
        assert choice.startswith(f"the number of variables, 8 ({alternatives}), was chosen")


def test_results_repeat_and_the_seed_shuffles():
    X = small(2)
    first, second, other = (
        GPowerCV(1, cardinalities=[2, 4], n_init=2, random_state=seed).fit(X).cv_results_["split0_test_score"]
        for seed in (None, None, 5)
    )
    np.testing.assert_array_equal(first, second)
    assert np.any(first != other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "block"}, "use search='joint' with it"),
        ({"rule": "min"}, "rule='min' is not known"),
        ({"criterion": "aic"}, "criterion='aic' is not known; use one of 'sparseness', 'prediction'"),
        ({"search": "all"}, "search='all' is not known"),
        ({"cv": 1}, "cv=1: between 2 and n_samples=40 folds"),
        ({"cv": 41}, "cv=41: between 2 and n_samples=40 folds"),
        ({"cardinalities": [0]}, "cardinalities contains 0"),
        ({"cardinalities": [13]}, "between 1 and 12"),
        ({"n_components": 13}, "n_components=13 is more than the number of variables"),
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": "auto"}, "n_components='auto'"),
        ({"cv": [(np.arange(40), np.arange(0))]}, "one of them without training or test samples"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GPowerCV(**{"n_components": 2, "cardinalities": [2]} | options).fit(small())


def test_missing_values_are_named_by_their_place_in_the_whole_table():
    X = small()
    X[37, 5] = np.nan
    with pytest.raises(ValueError, match=r"NaN .* column 5, row 37"):
        GPowerCV(1, cardinalities=[2]).fit(X)


def test_an_unfitted_search_has_no_best_estimator():
    with pytest.raises(NotFittedError):
        _ = GPowerCV().best_estimator_
    assert not hasattr(GPowerCV(), "best_estimator_")
