"""Comparison of all methods at equal cardinality by the same measures."""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp

from gpower import GPower, compare
from gpower.baselines import SPCA, Thresholding
from gpower.baselines.base import Baseline, BaselineResult, find_components_sequentially, keep_largest
from gpower.baselines.comparison import METHODS
from gpower.datasets import load_pitprops, load_planted_expression
from gpower.plotting import plot_comparison

PITPROPS = load_pitprops().correlation
X = load_planted_expression().X
K = (8, 6, 5)


@pytest.fixture(scope="module")
def table():
    return compare(X, n_components=3, cardinality=K)


def test_every_method_runs_at_the_same_cardinality(table):
    assert [entry.method for entry in table] == ["pca", *METHODS]
    assert len(table) == len(METHODS) + 1
    for entry in table:
        assert entry.model is not None, entry.note
        assert entry.cardinality == ((150,) * 3 if entry.method == "pca" else K)


def test_figures_are_those_of_the_loadings(table):
    A = X - X.mean(axis=0)
    pca = np.sum(np.linalg.svd(A, compute_uv=False)[:3] ** 2) / np.sum(A**2)
    for entry in table:
        Y = A @ entry.model.components_.T
        own = np.sum(Y**2, axis=0)
        R = np.linalg.qr(Y[:, np.argsort(-own, kind="stable")], mode="r")
        assert entry.variance == pytest.approx(own.sum() / np.sum(A**2))
        assert entry.adjusted_variance == pytest.approx(np.sum(np.diag(R) ** 2) / np.sum(A**2))
        assert entry.share_of_pca == pytest.approx(entry.adjusted_variance / pca)
        assert 0 < entry.share_of_pca <= 1 + 1e-12
        assert entry.seconds > 0
        assert np.isnan(entry.passes) if entry.method == "scikit-learn" else entry.passes == entry.model.n_passes_


def test_entries_are_the_models_that_one_would_fit(table):
    np.testing.assert_array_equal(table["gpower-l0"].model.components_, GPower(3, cardinality=K).fit(X).components_)
    np.testing.assert_array_equal(table["spca"].model.components_, SPCA(3, cardinality=K).fit(X).components_)
    pca = Thresholding(3, cardinality=150).fit(X).explained_variance_ratio_.sum()
    assert table["pca"].adjusted_variance == pytest.approx(pca)


def test_dominant_scales_are_said_once():
    table = X[:, :20] * np.where(np.arange(20) < 2, 1000, 1)
    first, *others = [entry.note for entry in compare(table, cardinality=4, methods=["gpower-l0", "greedy", "rsvd-l0"])]
    assert "standard deviation is far above the median" in first
    assert not any("standard deviation" in note for note in others[1:])


def test_a_method_that_cannot_run_has_the_reason_in_its_row():
    options = {"cardinality": 4, "covariance": "precomputed", "methods": ["scikit-learn", "greedy"]}
    _, failed, fitted = compare(PITPROPS, n_components=2, **options)
    assert "takes no precomputed covariance" in failed.note
    assert failed.model is None
    assert np.isnan(failed.adjusted_variance)
    assert fitted.model is not None
    wide = np.random.default_rng(0).standard_normal((5, 501))
    assert "n_features=501: DSPCA" in compare(wide, cardinality=3, methods=["dspca"])["dspca"].note
    sparse = compare(sp.csr_array(X), cardinality=3, methods=["rsvd-l0"])
    assert sparse["rsvd-l0"].cardinality == (3, 3)


def test_warnings_of_a_method_are_its_note():
    rank_one = np.outer(np.arange(8.0), np.arange(1.0, 7.0))
    entry = compare(rank_one, n_components=2, cardinality=6, methods=["greedy"])["greedy"]
    assert "no active variable" in entry.note


@dataclass(eq=False, repr=False, kw_only=True)
class LargestVariances(Baseline):
    """A toy method: loadings proportional to the deviations of the variables that vary most."""

    power: float = 1.0

    def _find_components(self, task):
        return find_components_sequentially(task, "projection", self._unit)

    def _unit(self, task):
        return BaselineResult(
            keep_largest(
                task.operator.column_norms[:, None] ** self.power, [task.target_cardinality[task.component_index]]
            )
        )


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_custom_method_takes_part_with_a_few_lines(monkeypatch, power):
    monkeypatch.setitem(METHODS, "toy", (LargestVariances, {"power": power}))
    entry = compare(X, n_components=2, cardinality=(8, 6), methods=["toy"])["toy"]
    assert (entry.cardinality, entry.note) == ((8, 6), "")
    assert 0 < entry.adjusted_variance <= entry.variance < 1
    sizes = X.std(axis=0) ** power
    largest = np.where(sizes >= np.sort(sizes)[-8], sizes, 0)
    np.testing.assert_allclose(entry.model.components_[0], largest / np.linalg.norm(largest))
    refitted = compare(X, n_components=2, cardinality=(8, 6), methods=["toy"], refit=True)["toy"]
    assert refitted.variance > entry.variance
    with pytest.raises(ValueError, match="cardinality=0: a component uses between 1"):
        LargestVariances(cardinality=0).fit(X)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (X, {"methods": ["fastest"]}, r"methods='fastest' is not known; use one of 'gpower-l0'"),
        (X, {"methods": "spca"}, r"methods='spca' is one string; give a list of names, such as \['spca'\]"),
        (X, {"cardinality": 0}, "cardinality=0: a component uses between 1 and n_features=150"),
        (np.where(np.arange(20).reshape(5, 4) == 6, np.nan, 1.0), {}, r"Input X contains NaN .* column 2, row 1"),
        ([1, 2, 3], {}, "2D array"),
        (5, {}, "2D array"),
        ("nofile.npy", {}, "nofile.npy"),
    ],
)
def test_mistakes_raise_one_error(data, options, message):
    with pytest.raises((ValueError, OSError), match=message):
        compare(data, **{"cardinality": 1} | options)


def test_the_callback_is_called_for_each_method():
    names = []
    compare(X, cardinality=4, methods=["rsvd-l0", "thresholding"], callback=names.append)
    assert names == ["rsvd-l0", "thresholding"]


def test_to_frame_has_a_row_per_method(table):
    frame = table.to_frame()
    assert frame.index.tolist() == ["pca", *METHODS]
    assert frame.loc["gpower-l0", "cardinality"] == "8-6-5"
    assert frame.loc["greedy", "adjusted_variance"] == table["greedy"].adjusted_variance
    with pytest.raises(KeyError, match="'lasso' was not compared; the methods are pca, gpower-l0"):
        table["lasso"]


def test_the_picture_orders_the_methods_and_names_those_that_do_not_run():
    covariance = compare(
        PITPROPS, cardinality=4, covariance="precomputed", methods=["scikit-learn", "thresholding", "gpower-l0"]
    )
    axes = plt.subplots()[1]
    assert plot_comparison(covariance, axes) is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["gpower-l0", "thresholding", "scikit-learn"]
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths[0], 100 * covariance["gpower-l0"].share_of_pca)
    assert widths == sorted(widths, reverse=True)
    assert "does not run here" in [text.get_text() for text in axes.texts]
    assert covariance.plot() is not axes
