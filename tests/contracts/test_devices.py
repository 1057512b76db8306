"""Arrays on a device give the result of the host and stay there; no array as long as the data is transferred."""

from types import SimpleNamespace

import numpy as np
import pytest

import gpower._utils.arrays
from gpower import GPower, Solver
from gpower._utils.arrays import to_device
from gpower.penalties.elementary import find_largest_rows

from .device_double import TRANSFERS, DeviceArray

CASES = [
    {"cardinality": 20},
    {"gamma": 0.05},
    {"gamma": 0.3, "penalty": "l1"},
    {"cardinality": 20, "penalty": "l1"},
    {"gamma": 0.1, "method": "block"},
    {"cardinality": 15, "method": "block"},
    {"gamma": 0.3, "penalty": "l1", "method": "block", "mu": [1, 0.5]},
    {"cardinality": 10, "positive": True},
    {"gamma": 0.05, "solver": Solver("full")},
    {"gamma": 0.05, "solver": Solver(init="largest_norm")},
    {"cardinality": 20, "scale": True},
    {"cardinality": 20, "center": False},
    {"cardinality": 20, "deflation": "schur"},
    {"cardinality": 20, "deflation": "orthogonalized"},
    {"l1_bound": 8.0},
]


def table(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3000)) + 3
    X[:, :30] += 2 * rng.standard_normal((120, 1))
    X[:, 30:50] += 1.5 * rng.standard_normal((120, 1))
    return X.astype(dtype)


def numbers(array):
    return array.a if isinstance(array, DeviceArray) else np.asarray(array)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("options", CASES, ids=str)
def test_the_answer_is_that_of_the_host_and_stays_on_the_device(options):
    X = table()
    expected = GPower(2, **options).fit(X)
    TRANSFERS.clear()
    model = GPower(2, **options).fit(DeviceArray(X))
    assert isinstance(model.components_, DeviceArray)
    assert isinstance(model.mean_, DeviceArray)
    np.testing.assert_allclose(numbers(model.components_), expected.components_, atol=1e-12)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-10)
    scores = model.transform(DeviceArray(X))
    assert isinstance(scores, DeviceArray)
    np.testing.assert_allclose(numbers(scores), expected.transform(X), atol=1e-9)
    # A matrix of few samples, 120 × 3000, is copied to the host once to compare starts, and again for every component
    # that is sought after a deflation; its Gram matrix has nine million entries.
    assert max(TRANSFERS) <= X.size
    assert sum(size == X.size for size in TRANSFERS) <= 1 + len(model.explained_variance_)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_constraint_holds_on_the_device():
    X = table()
    model = GPower(2, cardinality=15, constraint="disjoint").fit(DeviceArray(X))
    assert isinstance(model.components_, DeviceArray)
    assert model.overlap_[0, 1] == 0
    host = GPower(2, cardinality=15, constraint="disjoint").fit(X)
    assert model.objective_.sum() == pytest.approx(host.objective_.sum(), rel=1e-3)  # many splits are nearly as good


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_penalised_block_is_refitted_on_the_device():
    X = np.random.default_rng(0).standard_normal((10, 80))
    model = GPower(2, gamma=0.05, method="block").fit(DeviceArray(X))
    host = GPower(2, gamma=0.05, method="block").fit(X)
    np.testing.assert_allclose(numbers(model.components_), host.components_, atol=1e-8)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_single_precision_stays_single():
    X = table(np.float32)
    model = GPower(2, cardinality=20).fit(DeviceArray(X))
    assert model.components_.dtype == np.float32
    np.testing.assert_allclose(numbers(model.components_), GPower(2, cardinality=20).fit(X).components_, atol=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("where", [np.asarray, DeviceArray])
@pytest.mark.parametrize("options", [{"cardinality": 20}, {"gamma": 0.1, "method": "block"}], ids=str)
def test_single_precision_summed_in_double_is_as_good_as_the_data(where, options):
    X = table(np.float32) + np.float32(100)  # an offset that costs digits in single precision
    exact = GPower(2, **options).fit(X.astype(np.float64))
    model = GPower(2, solver=Solver(accumulate_dtype="float64"), **options).fit(where(X))
    assert model.components_.dtype == np.float32
    np.testing.assert_allclose(numbers(model.components_), exact.components_, atol=2e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_and_new_samples_on_either_side():
    X, weight = table(), np.random.default_rng(1).uniform(0.5, 2, 120)
    expected = GPower(1, cardinality=10).fit(X, sample_weight=weight)
    model = GPower(1, cardinality=10).fit(DeviceArray(X), sample_weight=weight)
    np.testing.assert_allclose(numbers(model.components_), expected.components_, atol=1e-12)
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-9)
    np.testing.assert_allclose(numbers(expected.transform(DeviceArray(X))), expected.transform(X), atol=1e-9)
    assert model.score(DeviceArray(X)) == pytest.approx(expected.score(X))
    restored = model.inverse_transform(model.transform(DeviceArray(X)))
    assert isinstance(restored, DeviceArray)
    np.testing.assert_allclose(numbers(restored), expected.inverse_transform(expected.transform(X)), atol=1e-9)


@pytest.mark.parametrize("k", [1, 50, 3000, 90_000])
@pytest.mark.parametrize("levels", [None, 40])
def test_the_largest_of_many_values_are_found_by_a_sample(k, levels):
    values = np.abs(np.random.default_rng(2).standard_normal((100_000, 2)))
    values = values if levels is None else np.round(values * levels)  # many ties
    found = numbers(find_largest_rows(DeviceArray(values), k))
    assert found.shape == (k, 2)
    for j in range(2):
        assert np.unique(found[:, j]).size == k
        np.testing.assert_array_equal(np.sort(values[found[:, j], j]), np.sort(values[:, j])[-k:])


def test_a_model_of_the_device_is_saved_and_named_as_any(tmp_path):
    X = table()
    model = GPower(1, cardinality=10).fit(DeviceArray(X))
    model.save(tmp_path / "model.npz")
    loaded = GPower.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.components_, numbers(model.components_))
    assert loaded.loadings() == model.loadings()


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.ones((3, 4, 5)), "two dimensions"),
        (np.ones((3, 4), complex), "not real numbers"),
        (np.where(np.eye(5, 40), np.nan, 1.0), "NaN"),
    ],
)
def test_an_array_that_is_not_a_matrix_is_refused(X, sentence):
    with pytest.raises(ValueError, match=sentence):
        GPower(1, cardinality=2).fit(DeviceArray(X))


@pytest.mark.parametrize(
    "options", [{"missing": "impute"}, {"variance": "l1"}, {"covariance": "precomputed"}, {"certify": True}], ids=str
)
def test_options_of_the_host_alone_are_refused(options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))}=.* works on the host only; pass X\.get\(\)"):
        GPower(1, gamma=0.1, **options).fit(DeviceArray(table()))


@pytest.mark.parametrize("library", ["array_api_strict", "torch", "cupy"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_arrays_of_other_libraries_come_back_as_they_went(library):
    xp = pytest.importorskip(library)
    X = table()
    foreign = xp.asarray(X)
    expected = GPower(2, cardinality=20).fit(X)
    model = GPower(2, cardinality=20).fit(foreign)
    scores = model.transform(foreign)
    assert type(model.components_) is type(foreign)
    assert type(scores) is type(foreign)
    to_numpy = (lambda a: a.get()) if library == "cupy" else np.asarray
    np.testing.assert_allclose(to_numpy(model.components_), expected.components_, atol=1e-10)
    np.testing.assert_allclose(to_numpy(scores), expected.transform(X), atol=1e-8)
    assert type(model.inverse_transform(scores)) is type(foreign)


def test_cupy_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(gpower._utils.arrays, "_import_cupy", lambda: SimpleNamespace(is_available=lambda: False))
    with pytest.raises(ValueError, match="CuPy finds no GPU on this machine; leave device at cpu"):
        to_device(np.ones((2, 2)), "cuda")
