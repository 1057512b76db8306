"""Cross-validation of data too large for memory: fold covariances give the results of the samples."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from tests.stored_matrices import make_counting_store, make_store

from gpower import GPower, GPowerCV, component_test
from gpower.model_selection.folds import CovarianceFolds, SampleFolds, build_fold_source
from gpower.operators.storage.disk import StreamedMatrix
from gpower.validation.prepare import read_estimator_input

P, N = 200, 24
GRID = [2, 6, 8, 24]
#: Memory limit in bytes: enough for 16 covariances of the variables, but not for four copies of the table.
LIMIT = 16 * 8 * N * N


def planted(seed=0):
    """Return noise with two components of six variables each and unequal means; one variable is large, one constant."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((P, N))
    X[:, :6] += 2.5 * rng.standard_normal((P, 1))
    X[:, 6:12] += 1.8 * rng.standard_normal((P, 1))
    X[:, 3] *= 3
    X[:, 20] = 0.1
    return X + np.linspace(0, 30, N)


def counts(seed=0):
    rng = np.random.default_rng(seed)
    rate = np.outer(rng.standard_normal(P), np.arange(N) < 6) - 0.5
    return sp.csr_matrix(rng.poisson(np.exp(rate)).astype(float))


def assert_the_same(found, expected, atol=1e-8):
    np.testing.assert_array_equal(found.cardinality_, expected.cardinality_)
    np.testing.assert_array_equal(found.cardinality_range_, expected.cardinality_range_)
    np.testing.assert_allclose(found.components_, expected.components_, atol=atol)
    for name, values in expected.cv_results_.items():
        if name != "rank_test_score":  # ties are broken by rounding
            np.testing.assert_allclose(found.cv_results_[name], values, atol=atol, err_msg=name)


OPTIONS = [
    {},
    {"scale": True},
    {"center": False},
    {"search": "joint", "cv": 3},
    {"deflation": "projection", "positive": True},
    {"n_jobs": 2},
    {"groups": np.repeat(np.arange(N // 2), 2), "cardinalities": [1, 3, 10]},
    {"cv": ShuffleSplit(2, test_size=0.3, random_state=0)},
    {"cv": list(GroupKFold(5).split(np.zeros(P), groups=np.arange(P) // 20))},
    {"cv": [(np.r_[0:120, 0:120], np.arange(120, P)), (np.arange(80, P), np.arange(80))]},
    {"criterion": "prediction", "rule": "best", "scale": True},
]


@pytest.mark.parametrize(
    ("X", "options", "atol"),
    [
        *((planted(), options, 1e-8) for options in OPTIONS),
        (counts(), {}, 1e-8),
        (planted().astype(np.float32), {}, 1e-5),
    ],
)
def test_the_answer_is_that_of_the_table_in_memory(X, options, atol):
    options = {"n_components": 2, "cardinalities": GRID} | options
    assert StreamedMatrix(make_store(X), LIMIT).n_blocks > 1
    found = GPowerCV(**options, memory_limit=LIMIT).fit(make_store(X))
    assert_the_same(found, GPowerCV(**options).fit(X), atol)


def test_blocks_of_dask():
    array = pytest.importorskip("dask.array")
    X, options = planted(), {"n_components": 2, "cardinalities": GRID, "cv": 3}
    two, three = (array.from_array(X, chunks=(chunk, N)) for chunk in (120, 70))
    assert_the_same(GPowerCV(**options, memory_limit=2 * LIMIT).fit(two), GPowerCV(**options).fit(X))
    with pytest.raises(ValueError, match="needs memory for 12 covariances"):
        GPowerCV(**options, memory_limit=2 * LIMIT).fit(three)  # every chunk has its own covariance before the sum


def test_the_table_is_read_twice_for_all_folds():
    X = planted()
    source, reads = make_counting_store(X)
    splits = build_source(source, [part for pair in KFold(5).split(X) for part in pair], GPower(2, memory_limit=LIMIT))
    assert isinstance(splits, CovarianceFolds)
    assert len(splits.part_moments) == 5
    assert len(pickle.dumps(splits)) > 5 * 8 * N * N  # no reference to the source, which other processes cannot open
    assert 2 * P <= sum(hi - lo for lo, hi in reads) <= 2 * P + 32  # the first few rows are read a second time


def build_source(X, parts, estimator=None):
    table = read_estimator_input(GPower() if estimator is None else estimator, X)
    return build_fold_source(table, table.build_fit_specs()[0], parts)


def test_a_tall_table_in_memory_is_summed_too(monkeypatch):
    X, options = np.vstack([planted(i) for i in range(2)]), {"n_components": 2, "cardinalities": GRID, "cv": 3}
    found = GPowerCV(**options).fit(X)
    assert isinstance(build_source(X, [np.arange(P)]), CovarianceFolds)
    extra = 2 * P  # with these the covariances take more memory than the table
    monkeypatch.setattr("gpower.model_selection.folds.N_EXTRA_COVARIANCES", extra)
    assert isinstance(build_source(X, [np.arange(P)]), SampleFolds)
    assert_the_same(found, GPowerCV(**options).fit(X))
    table = read_estimator_input(GPower(), X.astype(np.float32))
    assert {each.dtype for each in table.compute_moments_by_part(np.zeros(len(X), int), 1)} == {np.dtype(np.float64)}


def test_a_small_store_is_read_into_memory():
    X = planted()
    expected = GPowerCV(2, cardinalities=GRID, cv=3).fit(X)
    assert isinstance(build_source(make_store(X), [np.arange(i) for i in range(9)]), SampleFolds)
    for axis in (0, 1):
        assert_the_same(GPowerCV(2, cardinalities=GRID, cv=3).fit(make_store(X, axis)), expected)


@pytest.mark.parametrize(
    ("axis", "options", "message"),
    [
        (0, {"memory_limit": 10_000}, r"memory for 16 covariances of 24 variables, .* takes 3.8e-05 GB"),
        (0, {"cv": P}, "needs memory for 406 covariances"),
        (1, {}, r"a table stored by sample \(this one is stored by variable\), needs memory"),
        (0, {"variance": "l1"}, "needs the table in memory; X is in blocks"),
    ],
)
def test_a_store_too_large_for_the_folds_is_refused(axis, options, message):
    with pytest.raises(ValueError, match=message):
        GPowerCV(2, **{"memory_limit": LIMIT} | options).fit(make_store(planted(), axis))


def test_missing_values_and_permutations_of_a_store_are_refused():
    X = planted()
    X[37, 5] = np.nan
    with pytest.raises(ValueError, match=r"row 37 .* column 5"):
        GPowerCV(2, memory_limit=LIMIT).fit(make_store(X))
    with pytest.raises(ValueError, match="missing='impute' fills the holes of a dense table"):
        GPowerCV(2, memory_limit=LIMIT, missing="impute").fit(make_store(X))
    with pytest.raises(ValueError, match=r"Permuting needs .* pass a random subset of the samples or the variables"):
        component_test(make_store(planted()), 2, cardinality=6, memory_limit=LIMIT)


@pytest.mark.parametrize("make", [planted, counts])
def test_moments_of_parts_are_those_of_their_samples(make):
    X = make()
    A = X.toarray() if sp.issparse(X) else X
    A[:, 5] = np.where(np.arange(P) % 3 == 1, 7.7, 0.3)  # constant within a part
    X = sp.csr_matrix(A) if sp.issparse(X) else A
    blocks, part = StreamedMatrix(make_store(X), LIMIT), np.arange(P) % 3
    table = read_estimator_input(GPowerCV(memory_limit=LIMIT), make_store(X))
    assert blocks.n_blocks > 1
    for i, found in enumerate(table.compute_moments_by_part(part, 3)):
        B = A[part == i]
        assert (found.total_weight, found.degrees_of_freedom) == (len(B), len(B) - 1)
        np.testing.assert_allclose(found.mean, B.mean(axis=0))
        np.testing.assert_allclose(found.scatter, (len(B) - 1) * np.cov(B.T), atol=1e-9)
        assert found.squared_deviations[5] == 0


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_score_of_a_fold_is_the_captured_share_of_its_held_out_samples(in_memory):
    X = planted()
    table = read_estimator_input(GPowerCV(memory_limit=LIMIT, scale=True), X if in_memory else make_store(X))
    train, held_out = np.split(np.arange(P), 2)
    part = np.repeat([0, 1], P // 2)
    moments = table.compute_moments_by_part(part, 2)
    folds = SampleFolds(table) if in_memory else CovarianceFolds(table.params, None, part, moments)
    seen = folds.prepare_training(train, [])
    Z = np.random.default_rng(1).standard_normal((N, 2))
    B = (X[held_out] - seen.moments.mean) / seen.moments.scale
    share = np.sum((B @ np.linalg.qr(Z)[0]) ** 2) / np.sum(B**2)
    assert folds.make_held_out_score(held_out, seen, 2)(Z) == pytest.approx(share)


def test_folds_may_be_masks():
    seen = np.arange(P) < 120
    by_mask, by_number = (
        GPowerCV(1, cardinalities=GRID, memory_limit=LIMIT, cv=[fold]).fit(make_store(planted()))
        for fold in ((seen, ~seen), (np.arange(120), np.arange(120 - P, 0)))
    )
    assert_the_same(by_mask, by_number)
