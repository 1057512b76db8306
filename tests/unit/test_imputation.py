"""Imputation keeps observed values, fits them better at every step, and recovers tables of exact rank."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.fitted_models import assert_same_fit

from gpower import GPower
from gpower.validation.imputation import impute, impute_from_loadings


def low_rank(seed, p=30, n=10, rank=2, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, rank)) @ rng.standard_normal((rank, n)) + rng.standard_normal(n)
    return X + noise * rng.standard_normal((p, n))


def with_holes(X, share, seed=0):
    """Return X with some entries NaN and at least one observed in every row and column."""
    holes = np.random.default_rng(seed).random(X.shape) < share
    holes[np.arange(max(X.shape)) % X.shape[0], np.arange(max(X.shape)) % X.shape[1]] = False
    return np.where(holes, np.nan, X), holes


@pytest.mark.filterwarnings("ignore:The estimates of:sklearn.exceptions.ConvergenceWarning")
@given(
    seed=st.integers(0, 10**6),
    p=st.integers(3, 12),
    n=st.integers(2, 8),
    share=st.floats(0.02, 0.6),
    rank=st.integers(1, 4),
    center=st.booleans(),
    scale=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_the_misfit_of_the_observed_entries_never_rises(seed, p, n, share, rank, center, scale, dtype):
    X, holes = with_holes(low_rank(seed, p, n, 2, 0.5), share, seed)
    X = X.astype(dtype)
    before = X.copy()
    filled = impute(X, rank, center=center, scale=scale)
    rounding = 1e2 * np.finfo(dtype).eps * np.sum(np.where(holes, 0, X / (X[~holes].std() if scale else 1)) ** 2)
    assert np.all(np.diff(filled.misfit_history) <= rounding)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(filled.X[~holes], X[~holes])
    assert np.all(np.isfinite(filled.X))
    assert filled.X.dtype == dtype


@pytest.mark.parametrize(("shape", "rank", "noise", "share"), [((40, 8), 2, 0.3, 0.15), ((60, 30), 4, 0.05, 0.6)])
def test_the_last_misfit_is_that_of_the_best_model_of_the_filled_table(shape, rank, noise, share):
    """The converged estimates lie on the model, so that the misfit is the residual of PCA of the filled table.

    With many holes, steps without acceleration reach the limit before the fixed point.
    """
    X, holes = with_holes(low_rank(0, *shape, rank, noise), share)
    filled = impute(X, rank)
    assert filled.converged
    A = filled.X - filled.X.mean(axis=0)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    left = A - (U[:, :rank] * s[:rank]) @ Vt[:rank]
    np.testing.assert_allclose(filled.misfit_history[-1], np.sum(left[~holes] ** 2), rtol=1e-3)
    assert np.sum(left[holes] ** 2) < 1e-3 * filled.misfit_history[-1]


def test_an_imputation_that_does_not_converge_warns():
    X, _ = with_holes(low_rank(0, 40, 20, 4, 0.5), 0.7)
    message = r"The estimates of \d+ missing entries still changed .* a model of rank 4"
    with pytest.warns(ConvergenceWarning, match=message):
        assert not impute(X, 4).converged
    with pytest.warns(ConvergenceWarning, match="The estimates of"):
        GPower(4, cardinality=4, missing="impute").fit(X)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(("rank", "share"), [(1, 0.2), (2, 0.1)])
def test_a_table_of_exact_rank_is_recovered(rank, share, scale):
    for seed in range(3):
        X = low_rank(seed, 30, 10, rank)
        Y, holes = with_holes(X, share, seed)
        assert holes.any()
        np.testing.assert_allclose(impute(Y, rank, scale=scale).X, X, atol=1e-4)


def test_without_means_the_table_itself_is_of_low_rank():
    rng = np.random.default_rng(0)
    X = np.outer(rng.uniform(1, 2, 20), rng.uniform(1, 2, 6))
    Y, _ = with_holes(X, 0.2)
    np.testing.assert_allclose(impute(Y, 1, center=False).X, X, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The estimates of:sklearn.exceptions.ConvergenceWarning")
def test_the_unit_of_a_variable_does_not_count_when_scaled():
    X, _ = with_holes(low_rank(1, 30, 6, 2, 0.3), 0.1)
    unit = np.array([1.0, 1e3, 1.0, 1e-2, 1.0, 1.0])
    np.testing.assert_allclose(impute(X * unit, 1, scale=True).X, impute(X, 1, scale=True).X * unit, rtol=1e-6)
    assert not np.allclose(impute(X * unit, 1).X, impute(X, 1).X * unit, rtol=1e-2)


def test_a_model_is_fitted_to_the_filled_table():
    X, holes = with_holes(low_rank(0, 30, 10, 2, 0.3), 0.1)
    before, whole = X.copy(), np.where(holes, 0.0, X)
    for table, filled in ((X, impute(X, 2).X), (whole, whole)):
        model = GPower(2, cardinality=4, missing="impute").fit(table)
        assert_same_fit(model, GPower(2, cardinality=4).fit(filled), rtol=0)
    np.testing.assert_array_equal(X, before)
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not GPower().__sklearn_tags__().input_tags.allow_nan


def test_single_precision_and_frames_are_imputed():
    X, _ = with_holes(low_rank(0), 0.1)
    model = GPower(1, cardinality=3, missing="impute").fit(X.astype(np.float32))
    assert model.components_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    np.testing.assert_allclose(
        GPower(1, cardinality=3, missing="impute").fit(frame).components_, model.components_, atol=1e-4
    )


# --- new data ---


def test_new_samples_are_filled_by_the_loadings_nearest_to_what_was_observed():
    X = low_rank(0, 40, 8, 2, 0.2)
    model = GPower(2, cardinality=5, scale=True, missing="impute").fit(X)
    new, holes = with_holes(low_rank(0, 40, 8, 2, 0.2)[:10], 0.3, 1)
    before = new.copy()
    scores = model.transform(new)
    A = (new - model.mean_) / model.scale_
    for i in range(10):
        seen = ~holes[i]
        t = np.linalg.lstsq(model.components_[:, seen].T, A[i, seen], rcond=None)[0]
        row = np.where(seen, A[i], model.components_.T @ t)
        np.testing.assert_allclose(scores[i], model.components_ @ row, atol=1e-10)
    np.testing.assert_array_equal(new, before)
    whole = holes.any(axis=1) == 0
    plain = GPower(2, cardinality=5, scale=True).fit(X)
    np.testing.assert_array_equal(scores[whole], plain.transform(np.where(holes, 0, new))[whole])


def test_the_score_of_data_with_holes():
    X, _ = with_holes(low_rank(0, 40, 8, 1, 0.1), 0.1)
    model = GPower(1, cardinality=8, missing="impute").fit(X)
    filled = impute_from_loadings(X, model.components_.T, model.mean_, model.scale_)
    assert model.score(X) == pytest.approx(GPower(1, cardinality=8).fit(impute(X, 1).X).score(filled))
    assert 0.9 < model.score(X) < 1


# --- errors ---


@pytest.mark.parametrize(
    ("X", "covariance", "message"),
    [
        (np.where(np.arange(10) == 3, np.nan, low_rank(0)), None, "Column 3 .*no observed value.* Drop it"),
        (np.where(np.arange(30)[:, None] == 3, np.nan, low_rank(0)), None, "Row 3 .*no observed value.* Drop it"),
        (sp.csr_array(low_rank(0)), None, "X is a sparse matrix, whose absent entries are zeros"),
        (np.cov(low_rank(0).T), "precomputed", "a dense table of samples; X is a covariance"),
    ],
)
def test_tables_that_cannot_be_filled_are_refused(X, covariance, message):
    with pytest.raises(ValueError, match=message):
        GPower(1, cardinality=2, missing="impute", covariance=covariance).fit(X)


def test_new_samples_without_any_value_are_refused_too():
    model = GPower(1, cardinality=2, missing="impute").fit(low_rank(0))
    new = low_rank(1)[:5]
    new[:, 3] = np.nan  # a variable may be missing in all of them
    assert np.all(np.isfinite(model.transform(new)))
    new[2] = np.nan
    with pytest.raises(ValueError, match=r"Row 2 \(counted from 0\) has no observed value"):
        model.transform(new)


def test_infinity_is_not_a_missing_value():
    X, _ = with_holes(low_rank(0), 0.1)
    X[5, 2] = np.inf
    model = GPower(1, cardinality=2, missing="impute").fit(low_rank(0))
    for use in (model.fit, model.transform):
        with pytest.raises(ValueError, match=r"infinity \(inf\), first in column 2, row 5"):
            use(X)


def test_a_model_that_imputes_transforms_a_file_without_missing_values(tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 8))
    model = GPower(1, cardinality=3, missing="impute").fit(X)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_allclose(model.transform(tmp_path / "x.npy"), model.transform(X), atol=1e-12)
