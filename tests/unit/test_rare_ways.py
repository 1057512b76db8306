"""Ways that a fit or a file seldom takes: full disks, logs, many threads, archives of other formats."""

import logging
import os

import numpy as np
import pytest
from scipy import sparse

from gpower import GPower, GPowerWarning
from gpower.datasets import TableError, read_metadata, read_table
from gpower.operators import as_operator
from gpower.operators.leading_pca import compute_leading_components

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 6))


def test_a_full_disk_stops_a_fit_with_what_was_found(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpower.estimators.checkpointing.write_model", full)
    with pytest.raises(OSError, match=r"The checkpoint .*fit.npz' could not be written: No space left on device"):
        GPower(2, cardinality=2, checkpoint=tmp_path / "fit.npz").fit(X)


def test_what_a_verbose_fit_says(caplog):
    with caplog.at_level(logging.INFO, "gpower"):
        model = GPower(2, cardinality=(3, 2), verbose=1).fit(np.column_stack([X, np.ones(30)]))
    assert "2 components of 3-2 variables" in caplog.text
    assert model.notes_
    assert model.notes_[0] in caplog.text


def test_moments_do_not_depend_on_the_number_of_threads(monkeypatch):
    before = {order: GPower(1, cardinality=3, scale=True).fit(np.asarray(X, order=order)) for order in "CF"}
    monkeypatch.setattr("gpower.operators.storage.dense.MIN_THREADED_SUM_ENTRIES", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for order, model in before.items():
        again = GPower(1, cardinality=3, scale=True).fit(np.asarray(X, order=order))
        np.testing.assert_allclose(again.mean_, model.mean_, atol=1e-14)
        np.testing.assert_allclose(again.scale_, model.scale_, rtol=1e-13)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
def test_sparse_archives_of_every_format(kind, tmp_path):
    counts = np.where(X > 0.5, X, 0.0)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(counts).asformat(kind))
    np.testing.assert_array_equal(read_table(tmp_path / "x.npz").X.toarray(), counts)


@pytest.mark.parametrize(("kind", "data"), [(b"lil", [1.0]), (b"csr", ["a"])])
def test_sparse_archives_of_another_make(kind, data, tmp_path):
    np.savez(tmp_path / "x.npz", format=kind, shape=(2, 2), data=data, indices=[0], indptr=[0, 1, 1])
    with pytest.raises(TableError, match=r"x\.npz.*(its format is 'lil'|2 × 2 of <U1)"):
        read_table(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,age\n", "there is no row below the headings"),
        ("id,age\np,40\nq,50\n", "no column names the samples of the data, and there are 2 rows for 3 samples"),
    ],
)
def test_metadata_of_other_samples(content, told, tmp_path):
    (tmp_path / "samples.csv").write_text(content)
    with pytest.raises(TableError, match=told):
        read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"])


def test_metadata_without_names_is_in_order(tmp_path):
    (tmp_path / "samples.csv").write_text("age\n40\n50\n60\n")
    with pytest.warns(GPowerWarning, match="rows are taken in their order"):
        assert read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"]) == {"age": ["40", "50", "60"]}


def test_metadata_of_other_or_missing_samples_is_told_of(tmp_path):
    (tmp_path / "samples.csv").write_text("id,age\nA,40\nB,50\nC,60\n")
    with pytest.warns(GPowerWarning, match="No column of samples.csv names the samples"):
        read_metadata(tmp_path / "samples.csv", 3, ["a", "b", "c"])
    with pytest.warns(GPowerWarning, match="no row for 1 of 3 samples"):
        read_metadata(tmp_path / "samples.csv", 3, ["A", "B", "D"])


@pytest.mark.parametrize("more", [{"positive": True}, {"groups": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]}])
def test_no_level_parts_columns_that_are_alike(more):
    twins = np.repeat(X, 2, axis=1)[:, [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11]]  # two groups alike, two and two
    with pytest.warns(GPowerWarning, match="No gamma was found with exactly the wanted number"):
        model = GPower(1, penalty="l1", cardinality=3, n_init=1, **more).fit(twins)
    assert model.cardinality_.tolist() == [3 if "positive" in more else 6]
    assert model.components_.min() >= 0 or "groups" in more


@pytest.mark.parametrize("kind", ["wide", "tall", "sparse", "covariance"])
def test_leading_components_by_products_alone(kind, monkeypatch):
    A = RNG.standard_normal((150, 40)) * np.linspace(1, 3, 40)
    A = A.T if kind == "wide" else A
    data = {"sparse": sparse.csr_array(A), "covariance": A.T @ A}.get(kind, A)
    operator, _ = as_operator(data, center=False, covariance=kind == "covariance")
    values, V = np.linalg.eigh(A.T @ A)
    monkeypatch.setattr("gpower.operators.leading_pca.MAX_DENSE_EIGEN_ORDER", 8)
    Z, found = compute_leading_components(operator, 2)
    np.testing.assert_allclose(found, values[[-1, -2]], rtol=1e-9)
    np.testing.assert_allclose(np.abs(Z.T @ V[:, [-1, -2]]), np.eye(2), atol=1e-6)
    monkeypatch.setattr("gpower.operators.leading_pca.MIN_LANCZOS_ORDER", 8)
    z, largest = compute_leading_components(operator, 1, start=V[:, -1] + 0.01)
    np.testing.assert_allclose(largest, values[-1:], rtol=1e-9)
    assert abs(z[:, 0] @ V[:, -1]) == pytest.approx(1)
