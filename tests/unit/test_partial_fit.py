"""Batches that are each read once give the result of a fit to all samples."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.fitted_models import assert_same_fit
from tests.stored_matrices import make_store

from gpower import GPower, Solver
from gpower.operators.running_moments import MAX_STREAM_FEATURES

P, N = 200, 40
rng = np.random.default_rng(0)
LOADINGS = np.zeros((2, N))
LOADINGS[0, :8], LOADINGS[1, 15:21] = 1.5, 1.2
X = rng.standard_normal((P, 2)) @ LOADINGS + 0.5 * rng.standard_normal((P, N)) + rng.uniform(-3, 3, N)
COUNTS = rng.poisson(np.exp(rng.standard_normal((P, 2)) @ LOADINGS - 1.5)).astype(float)
WEIGHTS = rng.uniform(0.2, 3, P)
SIZES = {"equal": [50] * 4, "unequal": [3, 120, 7, 70], "single samples": [1, 1, 100, 1, 97], "one": [200]}


def fit_batches(model, A, sizes, sample_weight=None):
    """Return the model after all batches, ignoring warnings about the first few samples."""
    *early, last = np.split(np.arange(P), np.cumsum(sizes)[:-1])
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for rows in early:
            model.partial_fit(A[rows], **{name: weight[rows] for name, weight in weights.items()})
    return model.partial_fit(A[last], **{name: weight[last] for name, weight in weights.items()})


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "options",
    [
        {"cardinality": 6},
        {"gamma": 0.1},
        {"penalty": "l1", "gamma": 0.3},
        {"cardinality": 6, "scale": True},
        {"cardinality": 6, "center": False, "deflation": "schur"},
        {"gamma": 0.1, "scale": True, "center": False, "deflation": "schur"},
        {"method": "block", "cardinality": 6, "mu": [1.0, 0.7], "tol": 1e-13},
    ],
    ids=str,
)
def test_batches_give_the_answer_of_the_whole(options, sizes):
    assert_same_fit(fit_batches(GPower(2, **options), X, sizes), GPower(2, **options).fit(X))


@pytest.mark.parametrize("scale", [False, True])
def test_weighted_batches_give_the_answer_of_the_whole(scale):
    wanted = GPower(2, cardinality=6, scale=scale).fit(X, sample_weight=WEIGHTS)
    assert_same_fit(fit_batches(clone(wanted), X, SIZES["single samples"], WEIGHTS), wanted)


@pytest.mark.parametrize("scale", [False, True])
def test_sparse_batches_give_the_answer_of_dense_ones(scale):
    model = GPower(2, cardinality=6, scale=scale).fit(COUNTS)
    assert_same_fit(fit_batches(clone(model), sp.csr_matrix(COUNTS), SIZES["unequal"]), model)
    assert_same_fit(clone(model).partial_fit(sp.csc_matrix(COUNTS)), model)


def test_float32_stays_float32():
    A = X.astype(np.float32)
    model = fit_batches(GPower(2, cardinality=6), A, SIZES["unequal"])
    assert model.components_.dtype == np.float32
    assert_same_fit(model, GPower(2, cardinality=6).fit(A), 1e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_columns_far_from_zero_lose_no_digits(form):
    A = X.copy()
    A[:, :12] += 1e6
    found = fit_batches(GPower(2, cardinality=6), form(A), SIZES["unequal"])
    wanted = GPower(2, cardinality=6).fit(A - A.mean(axis=0))
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-8)
    np.testing.assert_allclose(found.explained_variance_, wanted.explained_variance_, rtol=1e-8)


def test_a_drift_between_batches_is_variance():
    """The means of the batches differ far more than the samples within a batch."""
    A = X + 1e3 * (np.arange(P) >= 100)[:, None] * (np.arange(N) < 5)
    found = fit_batches(GPower(1, cardinality=5), A, SIZES["equal"])
    assert_same_fit(found, GPower(1, cardinality=5).fit(A))
    assert set(np.flatnonzero(found.components_[0])) == set(range(5))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_batch_may_be_a_store(axis):
    model = GPower(2, cardinality=6, memory_limit=20_000).partial_fit(make_store(X, axis))
    assert_same_fit(model, GPower(2, cardinality=6).fit(X))


def test_a_constant_column_gets_no_loading_whatever_the_batches():
    A = X.copy()
    A[:, 3] = 0.1
    model = fit_batches(GPower(2, cardinality=39, scale=True, deflation="schur"), A, SIZES["equal"])
    assert model.notes_.tolist() == ["1 column(s) do not vary and get no loading: 3."]
    assert not np.any(model.components_[:, 3])


def test_the_model_is_fitted_after_every_batch_and_fit_discards_earlier_ones():
    model = GPower(1, cardinality=6).partial_fit(X + 5).fit(X)
    for seen in (50, 100, 150, 200):
        assert_same_fit(model.partial_fit(X[seen - 50 : seen]), GPower(1, cardinality=6).fit(X[:seen]))


class TestErrors:
    @pytest.mark.parametrize(
        "options",
        [{"covariance": "precomputed"}, {"variance": "l1"}, {"solver": Solver(init=np.ones((P, 1)))}],
        ids=str,
    )
    def test_options_that_need_the_samples_are_refused(self, options):
        with pytest.raises(ValueError, match="partial_fit keeps no samples"):
            GPower(1, **options).partial_fit(X[:N] if "covariance" in options else X)

    def test_too_many_variables_are_refused(self):
        with pytest.raises(ValueError, match=rf"are more than {MAX_STREAM_FEATURES}; fit a file"):
            GPower(1).partial_fit(np.zeros((2, MAX_STREAM_FEATURES + 1)))

    def test_a_batch_with_a_hole_changes_nothing(self):
        model = GPower(2, cardinality=6).partial_fit(X[:100])
        bad = X[100:].copy()
        bad[3, 4] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(bad)
        assert_same_fit(model.partial_fit(X[100:]), GPower(2, cardinality=6).fit(X))
