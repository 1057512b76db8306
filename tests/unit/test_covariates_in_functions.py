"""Paths, cross-validation, stability, tests and certificates with covariates are those of the residuals."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.planted_data import make_modules
from tests.unit.test_covariates import make_table, residualize, to_zarr

from gpower import GPower, GPowerCV, certify, certify_total, component_test, sparsity_path, stability_selection
from gpower.analysis.permutation_test import _find_strata, _standardize_samples
from gpower.analysis.permuted_tables import DeflationStage, Permutations
from gpower.datasets import load_planted_expression
from gpower.model_selection.folds import CovarianceFolds, SampleFolds, build_fold_source
from gpower.operators.explained_variance import compute_captured_share
from gpower.validation.prepare import read_estimator_input

LABELS = np.array(["a", "b", "c", "b"] * 10)


@pytest.fixture(scope="module")
def plates():
    """Return the planted table with a shift of 40 genes by plate, and the plates."""
    rng = np.random.default_rng(0)
    plate = np.repeat(["plate 1", "plate 2", "plate 3"], 20)
    genes = rng.choice(150, 40, replace=False)
    X = load_planted_expression().X.copy()
    for label, shift in zip(np.unique(plate), rng.normal(0, 3, size=(3, 40)), strict=True):
        X[np.ix_(plate == label, genes)] += shift
    return X, plate


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, to_zarr])
def test_a_path_with_covariates_is_the_path_of_the_residuals(container, reload):
    X, covariates, weight = make_table(0)
    options = {"n_components": 2, "cardinalities": [2, 4, 8], "scale": True, "sample_weight": weight}
    path = sparsity_path(container(X), covariates=covariates, **options)
    expected = sparsity_path(residualize(X, covariates, weight), **options)
    np.testing.assert_allclose(path.loadings.toarray(), expected.loadings.toarray(), atol=1e-8)
    np.testing.assert_allclose(path.variance, expected.variance, rtol=1e-8)
    model, loaded = path[1], reload(path)[1]
    scores = model.transform(X, covariates=covariates)
    np.testing.assert_array_equal(loaded.transform(X, covariates=covariates), scores)
    assert loaded.covariate_variance_ratio_ == model.covariate_variance_ratio_ > 0
    with pytest.raises(ValueError, match="resume: that path is of other data"):
        sparsity_path(container(X), **options, resume=path)


def residualize_held_out(X, covariates, train, test, center):
    """Return the residuals of the training samples and, with the same coefficients, of the held-out ones."""
    design = np.column_stack([np.ones(len(X)), covariates]) if center else covariates
    coef = np.linalg.lstsq(design[train], X[train], rcond=None)[0]
    rest = X - design @ coef + (X[train].mean(axis=0) if center else 0)
    return rest[train], rest[test]


@pytest.mark.parametrize("center", [True, False], ids=["centred", "not centred"])
@pytest.mark.parametrize(
    ("container", "n_samples", "source"),
    [(np.asarray, 40, SampleFolds), (sp.csr_array, 40, SampleFolds), (np.asarray, 400, CovarianceFolds)],
)
def test_a_fold_is_regressed_on_its_training_samples(container, n_samples, source, center):
    X, covariates, _ = make_table(1, n_samples, 8)
    model = GPower(1, cardinality=3, scale=True, center=center)
    table = read_estimator_input(model, container(X)).with_covariates(covariates)
    test = np.arange(0, n_samples, 4)
    train = np.setdiff1d(np.arange(n_samples), test)
    specs = table.build_fit_specs()
    folds = build_fold_source(table, specs[0], [train, test])
    assert type(folds) is source
    prepared = folds.prepare_training(train, specs)
    score = folds.make_held_out_score(test, prepared, 1)
    own, others = residualize_held_out(X, covariates, train, test, center)
    expected = read_estimator_input(model, own).prepare(None, specs)
    assert prepared.operator.total_variance == pytest.approx(expected.operator.total_variance, rel=1e-8)
    np.testing.assert_allclose(prepared.moments.mean, expected.moments.mean, atol=1e-8)
    np.testing.assert_allclose(prepared.moments.scale, expected.moments.scale, rtol=1e-8)
    Z = np.random.default_rng(0).standard_normal((8, 2))
    share = compute_captured_share(others, Z, expected.moments.mean, expected.moments.scale)
    assert score(Z) == pytest.approx(share, rel=1e-8)


def test_missing_entries_of_held_out_samples_are_imputed_after_the_covariates_are_removed():
    X, covariates, _ = make_table(2)
    covariates = covariates * 10
    X = X + covariates @ np.ones((3, 12))
    holes = X.copy()
    holes[::5, 0] = np.nan
    model = GPower(1, cardinality=3, missing="impute")
    table = read_estimator_input(model, holes).with_covariates(covariates)
    train, test = np.arange(20), np.arange(20, 40)
    folds = SampleFolds(table)
    score = folds.make_held_out_score(test, folds.prepare_training(train, table.build_fit_specs()), 1)
    variances = residualize(X, covariates).var(axis=0)
    assert score(np.eye(12)[:, :1]) < 4 * variances[0] / variances.sum()
    fitted = model.fit(X, covariates=covariates)
    rest = np.where(np.isnan(holes), np.nan, X - (covariates - fitted.covariates_mean_) @ fitted.covariates_coef_)
    plain = GPower(1, cardinality=3, missing="impute").fit(residualize(X, covariates))
    np.testing.assert_allclose(fitted.transform(holes, covariates=covariates), plain.transform(rest), atol=1e-8)


def test_cross_validation_finds_the_modules_behind_plates(plates, reload):
    X, plate = plates
    options = {"cardinalities": [3, 5, 6, 8, 12], "criterion": "prediction", "cv": 3}
    with config_context(enable_metadata_routing=True):
        model = GPowerCV(3, **options).set_fit_request(batch=True).set_transform_request(batch=True)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, batch=plate)
        scores = pipeline.transform(X, batch=plate)
    fitted = pipeline[-1]
    assert fitted.cardinality_.tolist() == [8, 6, 5]
    assert fitted.covariate_variance_ratio_ > 0.4
    best = GPower(3, cardinality=[8, 6, 5]).fit_transform(X, batch=plate)
    np.testing.assert_allclose(scores, best, atol=1e-10)
    np.testing.assert_allclose(reload(fitted).transform(X, batch=plate), scores, atol=1e-12)
    with pytest.raises(ValueError, match="pass those of the samples as covariates= or batch=: batch"):
        fitted.transform(X)


def test_folds_share_every_batch():
    X = make_table(3)[0]
    pairs = np.repeat(np.arange(20), 2)
    scores = GPowerCV(1, cardinalities=[2, 4], cv=4).fit_transform(X, batch=pairs)
    assert scores.shape == (40, 1)
    with pytest.raises(ValueError, match=r"'batch' has the level '.' only in held-out samples of a fold.*Stratified"):
        GPowerCV(1, cardinalities=[2, 4], cv=LeaveOneGroupOut().split(X, groups=LABELS)).fit(X, batch=LABELS)


def test_every_subsample_has_its_own_regression():
    X, covariates, _ = make_table(4)
    found = stability_selection(X, n_components=1, cardinality=3, n_subsamples=8, random_state=0, covariates=covariates)
    rng = np.random.RandomState(0)
    rows = [rng.permutation(40)[:20] for _ in range(8)]
    supports = [GPower(1, cardinality=3).fit(residualize(X[i], covariates[i])).components_[0] != 0 for i in rows]
    np.testing.assert_allclose(found.frequency[0], np.mean(supports, axis=0))
    assert found.model.covariates_names_.size == 3
    with pytest.raises(ValueError, match="covariates and batch go to a GPower, not to a pipeline"):
        stability_selection(X, make_pipeline(GPower(1, cardinality=3)), covariates=covariates)


@pytest.mark.parametrize("balance", [False, True])
def test_residuals_are_permuted_within_batches(balance):
    X, covariates, _ = make_table(5)
    labels = np.repeat(["a", "b"], [30, 10])
    model = GPower(1, cardinality=3, balance=balance)
    table = read_estimator_input(model, X).with_covariates(covariates, labels)
    specs = table.build_fit_specs()
    prepared = table.prepare(None, specs)
    samples, basis = _standardize_samples(table, prepared)
    assert np.sum(samples**2) == pytest.approx(prepared.operator.total_variance, rel=1e-10)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-10)
    orders = Permutations(40, np.arange(12), 0, _find_strata(table)).draw(0)(None)
    np.testing.assert_array_equal(labels[orders], np.tile(labels, (12, 1)))
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(40), (12, 1)))
    assert len(np.unique(orders, axis=0)) == 12
    stage = DeflationStage(samples.T, basis, np.zeros((12, 0)), specs[0])
    permuted = stage.permute_residual(orders)
    np.testing.assert_allclose(permuted @ basis, 0, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(permuted, axis=1), np.linalg.norm(samples, axis=0), rtol=1e-10)


def test_batches_of_unlike_variance_make_no_component():
    rng = np.random.default_rng(1)
    labels = np.repeat(["a", "b", "c"], 10)
    X = rng.standard_normal((30, 15)) * np.repeat([0.3, 1, 3], 10)[:, None]
    options = {"cardinality": 4, "n_permutations": 99, "random_state": 0}
    within = component_test(X, 2, batch=labels, **options)
    across = component_test(X, 2, covariates=labels, **options)
    assert within.n_components == 0
    assert across.p_values[0] < within.p_values[0]


def test_the_number_of_components_is_that_behind_the_plates(plates):
    X, plate = plates
    assert component_test(X, 4, cardinality=6, n_permutations=59, batch=plate).n_components == 3
    assert GPower("auto", cardinality=[6] * 4, balance=True).fit(X, batch=plate).n_components_ == 3


def test_missing_entries_have_no_residual_when_they_are_permuted():
    X, covariates, _ = make_table(6)
    X[::3, 2] = np.nan
    table = read_estimator_input(GPower(1, cardinality=3, missing="impute"), X).with_covariates(covariates)
    filled = table.prepare_for_permutation().X
    rest = residualize(filled, covariates) - filled.mean(axis=0)
    np.testing.assert_allclose(rest[::3, 2], 0, atol=1e-10)
    np.testing.assert_array_equal(filled[1::3], X[1::3])


@pytest.mark.parametrize("balance", [False, True])
def test_certificates_of_a_model_bound_the_residuals(balance):
    X, covariates, weight = make_table(7)
    model = GPower(2, cardinality=3, certify=True, balance=balance).fit(X, None, weight, covariates, LABELS)
    known = {"sample_weight": weight, "covariates": covariates, "batch": LABELS}
    bounds = [each.upper_bound for each in certify(model, X, **known)]
    np.testing.assert_allclose(bounds, model.upper_bound_, rtol=1e-8)
    assert certify_total(model, X, **known).upper_bound == pytest.approx(model.total_upper_bound_, rel=1e-6)
    with pytest.raises(ValueError, match="pass those of the samples as covariates= or batch=: covariate_1"):
        certify(model, X, sample_weight=weight)
    alone = certify(model.components_, residualize(X, covariates))
    by_loadings = certify(model.components_, X, covariates=covariates)
    assert by_loadings[0].upper_bound == pytest.approx(alone[0].upper_bound, rel=1e-8)


def test_covariates_of_a_covariance_are_known_to_its_model():
    X, covariates, _ = make_table(8)
    joint = np.cov(np.column_stack([X, covariates]).T)
    options = {"cardinality": 3, "covariance": "precomputed"}
    model = GPower(2, certify=True, **options).fit(joint, covariates=[12, 13, 14])
    bounds = [each.upper_bound for each in certify(model, joint)]
    np.testing.assert_allclose(bounds, model.upper_bound_, rtol=1e-8)
    rest = residualize(X, covariates)
    assert model.score(joint) == pytest.approx(GPower(2, cardinality=3).fit(rest).score(rest), rel=1e-8)
    path = sparsity_path(joint, covariance="precomputed", cardinalities=[3], covariates=[12, 13, 14])
    np.testing.assert_allclose(path[0].components_[0], model.components_[0], atol=1e-8)
    with pytest.raises(ValueError, match="the model knows which; pass none"):
        model.transform(np.ones((2, 15)), covariates=np.ones((2, 3)))


@pytest.mark.parametrize(
    "options",
    [{"constraint": "orthogonal"}, {"constraint": "disjoint"}, {"positive": True}, {"variance": "l1"}],
    ids=str,
)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_constraints_and_other_formulations_apply_to_the_residuals(options, container):
    X, covariates, _ = make_table(9)
    model = GPower(2, cardinality=3, **options).fit(container(X), covariates=covariates)
    expected = GPower(2, cardinality=3, **options).fit(residualize(X, covariates))
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-7)


@pytest.mark.parametrize("container", [np.asarray, sp.csc_array])
def test_distances_are_those_of_the_residuals(container):
    X, covariates, _ = make_table(10)
    rest = residualize(X, covariates)
    model = GPower(2, cardinality=3, scale=True).fit(container(X), covariates=covariates)
    expected, known = GPower(2, cardinality=3, scale=True).fit(rest), {"covariates": covariates}
    for name in ("hotelling_t2", "squared_residual"):
        found = getattr(model, name)(container(X), **known)
        np.testing.assert_allclose(found, getattr(expected, name)(rest), rtol=1e-8)
    for to in ("t2", "residual"):
        parts = model.contributions(container(X), to, **known)
        np.testing.assert_allclose(parts, expected.contributions(rest, to), atol=1e-8)
    assert model.squared_residual_limit(X, **known) > expected.squared_residual_limit(rest)
    with pytest.raises(ValueError, match="pass those of the samples"):
        model.hotelling_t2(X)


def test_the_limit_of_new_samples_allows_for_the_covariates_that_were_fitted():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(20):
        covariates = rng.standard_normal((240, 8))
        X = make_modules((240, 12), (slice(4), 2), seed=rng) + covariates @ rng.standard_normal((8, 12))
        model = GPower(2, cardinality=4).fit(X[:40], covariates=covariates[:40])
        distances = model.hotelling_t2(X[40:], covariates=covariates[40:])
        shares.append(np.mean(distances > model.hotelling_t2_limit()))
    assert 0.02 < np.mean(shares) < 0.08  # 5 % is exact for a fixed direction


def test_frames_with_other_sample_names_are_refused_everywhere():
    X = pd.DataFrame(make_table(0)[0], index=[f"s{i}" for i in range(40)])
    other = pd.DataFrame({"age": np.arange(40.0)}, index=X.index[::-1])
    for call in (
        lambda: sparsity_path(X, cardinalities=[2], covariates=other),
        lambda: GPowerCV(1).fit(X, covariates=other),
        lambda: component_test(X, 1, cardinality=2, covariates=other),
        lambda: stability_selection(X, cardinality=2, covariates=other),
    ):
        with pytest.raises(ValueError, match="Row 0 is 's39' in covariates and 's0' in X"):
            call()


def test_limits_allow_for_all_covariates_of_a_table_with_fewer_variables(reload):
    rng = np.random.default_rng(0)
    X, C = rng.standard_normal((30, 2)), rng.standard_normal((30, 8))
    model = GPower(1, cardinality=1).fit(X, covariates=np.column_stack([C, C[:, 0] + C[:, 1]]))
    assert model.covariates_rank_ == 8
    plain = GPower(1, cardinality=1).fit(X)
    assert reload(model).hotelling_t2_limit() == model.hotelling_t2_limit() > plain.hotelling_t2_limit()
    S = np.cov(np.column_stack([X, C]), rowvar=False)
    assert GPower(1, cardinality=1, covariance="precomputed").fit(S, covariates=range(2, 10)).covariates_rank_ == 8
